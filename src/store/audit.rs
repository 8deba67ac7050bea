//! Table `audit_log`. Entries are added and read; the database itself refuses to change or delete one.

use super::codec::FromRow;
use super::db::Row;
use super::sql::{new_id, sql};
use super::{Store, StoreError};
use crate::model::*;

impl FromRow for AuditEntry {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(AuditEntry {
            id: row.get("id")?,
            actor: row.get("actor")?,
            action: row.get("action")?,
            subject: row.get("subject")?,
            detail: row.get("detail")?,
            at: row.get("at")?,
        })
    }
}

impl Store {
    pub async fn append_audit(
        &self,
        actor: &str,
        action: &str,
        subject: &str,
        detail: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql =
            sql!("INSERT INTO audit_log (id, actor, action, subject, detail, at) VALUES ($1, $2, $3, $4, $5, $6)");
        let sql = sql.bind(new_id::<AuditId>()).bind(actor).bind(action).bind(subject).bind(detail).bind(now);
        self.db.execute(sql).await.map(drop)
    }

    /// The newest ones first.
    pub async fn list_audit(&self, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        self.db.fetch_readable(sql!("SELECT * FROM audit_log ORDER BY id DESC LIMIT $1 OFFSET $2"), limit, 0).await
    }
}
