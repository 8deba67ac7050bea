//! Table `cleanup_reports`: what each pass of the cleanup service found and did.

use super::codec::FromRow;
use super::db::Row;
use super::sql::sql;
use super::{Answer, Store, StoreError};
use crate::model::*;

impl FromRow for CleanupReport {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(CleanupReport {
            id: row.get("id")?,
            trigger: row.get("trigger_kind")?,
            dry_run: row.get("dry_run")?,
            lines: row.get_json("lines")?,
            started_at: row.get("started_at")?,
            ended_at: row.get("ended_at")?,
        })
    }
}

impl Store {
    pub async fn insert_report(&self, report: &CleanupReport) -> Result<(), StoreError> {
        let sql = sql!(
            "INSERT INTO cleanup_reports (id, trigger_kind, dry_run, lines, started_at, ended_at)
             VALUES ($1, $2, $3, $4, $5, $6)"
        );
        let sql = sql
            .bind(report.id)
            .bind(report.trigger)
            .bind(report.dry_run)
            .bind_json(&report.lines)?
            .bind(report.started_at)
            .bind(report.ended_at);
        self.db.execute(sql).await.map(drop)
    }

    /// Whether a pass began then, both ends included.
    pub async fn was_passed_between(&self, from: Timestamp, to: Timestamp) -> Result<bool, StoreError> {
        let sql = sql!("SELECT count(*) AS answer FROM cleanup_reports WHERE started_at >= $1 AND started_at <= $2");
        let passes: Answer = self.db.fetch_one(sql.bind(from).bind(to)).await?;
        Ok(passes.0 > 0)
    }

    /// The newest ones first.
    pub async fn list_reports(&self, limit: u32) -> Result<Vec<CleanupReport>, StoreError> {
        self.db
            .fetch_readable(sql!("SELECT * FROM cleanup_reports ORDER BY id DESC LIMIT $1 OFFSET $2"), limit, 0)
            .await
    }
}
