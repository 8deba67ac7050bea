//! Table `receipts`: the proof of each removal, at most one for an environment. Written together with the removal.

use super::codec::FromRow;
use super::db::{Row, Tx};
use super::sql::{new_id, sql};
use super::{NewOutgoing, Store, StoreError};
use crate::model::*;

/// More than any command removes, with what others remove meanwhile.
const AFTER_A_COMMAND: u32 = 1000;

impl FromRow for Receipt {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Receipt {
            id: row.get("id")?,
            environment: row.get("environment_id")?,
            trigger: row.get("trigger_kind")?,
            details: row.get_json("details")?,
            created_at: row.get("created_at")?,
        })
    }
}

impl Store {
    /// One that is there and cannot be read is an error, not none: what comes back, and for how long, rests on it.
    pub async fn receipt_of(&self, environment: EnvironmentId) -> Result<Option<Receipt>, StoreError> {
        self.db.fetch_optional(sql!("SELECT * FROM receipts WHERE environment_id = $1").bind(environment)).await
    }

    /// What was removed for the request in a delivery. By that, and by no order of ids: those of several processes, or after a
    /// clock that was set back, are in none.
    pub async fn receipts_for(&self, delivery: InboxId) -> Result<Vec<Receipt>, StoreError> {
        let sql = sql!("SELECT * FROM receipts WHERE asked_in = $1 ORDER BY id LIMIT $2 OFFSET $3");
        self.db.fetch_readable(sql.bind(delivery), AFTER_A_COMMAND, 0).await
    }

    /// What passes by the clock removed since a moment.
    pub async fn scheduled_since(&self, since: Timestamp) -> Result<Vec<Receipt>, StoreError> {
        let sql = sql!(
            "SELECT * FROM receipts WHERE trigger_kind = 'schedule' AND created_at >= $1 ORDER BY id LIMIT $2 OFFSET $3"
        );
        self.db.fetch_readable(sql.bind(since), AFTER_A_COMMAND, 0).await
    }

    /// The newest ones first.
    pub async fn list_receipts(&self, limit: u32) -> Result<Vec<Receipt>, StoreError> {
        self.db.fetch_readable(sql!("SELECT * FROM receipts ORDER BY id DESC LIMIT $1 OFFSET $2"), limit, 0).await
    }
}

impl Store {
    /// Writes what a receipt says by now, and what is to be told about that, in one transaction.
    pub async fn amend_receipt(
        &self,
        receipt: &Receipt,
        details: &ReceiptDetails,
        outgoing: Option<NewOutgoing>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let sql = sql!("UPDATE receipts SET details = $2 WHERE id = $1");
        if tx.execute(sql.bind(receipt.id).bind_json(details)?).await? == 0 {
            return Err(StoreError::Conflict(format!("the receipt of environment {}", receipt.environment)));
        }
        if let Some(outgoing) = outgoing {
            super::outbox::enqueue_in(&mut tx, &outgoing, now).await?;
        }
        tx.commit().await
    }
}

pub(super) async fn insert(
    tx: &mut Tx,
    environment: EnvironmentId,
    trigger: Trigger,
    details: &ReceiptDetails,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = sql!(
        "INSERT INTO receipts (id, environment_id, trigger_kind, details, created_at, asked_in)
         VALUES ($1, $2, $3, $4, $5, $6)"
    );
    let sql = sql.bind(new_id::<ReceiptId>()).bind(environment).bind(trigger).bind_json(details)?.bind(now);
    tx.execute(sql.bind(details.asked_in)).await.map(drop)
}
