//! The outbox: what is to be true on a platform. Writing to a key again replaces what is wanted; a row that changes while
//! it is being sent is sent once more.

use super::{
    Store, StoreError,
    db::{Row, Sql, sql},
};
use crate::model::*;
use std::time::Duration;
use uuid::Uuid;

/// What is to be said or done.
#[derive(Clone, Debug)]
pub struct NewOutgoing {
    pub key: String,
    pub codebase: CodebaseId,
    pub conversation: Option<ConversationId>,
    pub outgoing: Outgoing,
    pub not_before: Timestamp,
}

/// How sending ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutgoingEnd {
    /// With the id of what stands for it, when there is one.
    Sent {
        remote_id: Option<i64>,
    },
    Retry {
        error: String,
        at: Timestamp,
    },
    Failed(String),
}

fn outbox_row(row: &Row) -> Result<OutboxRow, StoreError> {
    Ok(OutboxRow {
        id: OutboxId(row.id("id")?),
        key: row.text("key")?,
        codebase: CodebaseId(row.id("codebase_id")?),
        conversation: row.id_opt("conversation_id")?.map(ConversationId),
        outgoing: row.json("outgoing")?,
        version: row.int("version")?,
        sent_version: row.int("sent_version")?,
        remote_id: row.int_opt("remote_id")?,
        state: row.parse("state")?,
        attempts: row.int("attempts")?,
        last_error: row.text_opt("last_error")?,
        not_before: row.time("not_before")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

/// Inserts, or replaces what is wanted; the same wish again changes nothing.
pub(super) fn upsert(new: &NewOutgoing, now: Timestamp) -> Sql {
    sql("INSERT INTO outbox (id, key, codebase_id, conversation_id, outgoing, version, sent_version, state, attempts,
            not_before, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'pending', $7, $8, $9, $9)
            ON CONFLICT (key) DO UPDATE SET outgoing = excluded.outgoing, version = outbox.version + 1,
                state = CASE WHEN outbox.state = 'sending' THEN outbox.state ELSE 'pending' END,
                attempts = CASE WHEN outbox.state IN ('sent', 'failed') THEN 0 ELSE outbox.attempts END,
                not_before = CASE WHEN outbox.state = 'pending' AND outbox.not_before > excluded.not_before
                    THEN outbox.not_before ELSE excluded.not_before END,
                updated_at = excluded.updated_at
            WHERE outbox.outgoing <> excluded.outgoing RETURNING id")
    .id(Uuid::now_v7())
    .text(&new.key)
    .id(new.codebase.0)
    .id_opt(new.conversation.map(|id| id.0))
    .json(&new.outgoing)
    .int(1)
    .int(0)
    .time(new.not_before)
    .time(now)
}

impl Store {
    pub async fn enqueue(&self, new: NewOutgoing, now: Timestamp) -> Result<(), StoreError> {
        self.db.fetch_optional(upsert(&new, now)).await.map(drop)
    }

    /// The next row that is due. Within a codebase rows go one at a time, oldest first; one that waits for a later
    /// moment lets others pass. The try is counted before anything is sent.
    pub async fn claim_outgoing(
        &self,
        owner: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<OutboxRow>, StoreError> {
        let row = self
            .db
            .fetch_optional(
                sql("UPDATE outbox SET state = 'sending', owner = $1, lease_until = $2, attempts = attempts + 1
                        WHERE (state = 'pending' OR (state = 'sending' AND lease_until < $3)) AND id = (
                            SELECT o.id FROM outbox o
                            WHERE (o.state = 'pending' AND o.not_before <= $3
                                OR o.state = 'sending' AND o.lease_until < $3)
                            AND NOT EXISTS (SELECT 1 FROM outbox s WHERE s.codebase_id = o.codebase_id AND s.id <> o.id
                                AND s.state = 'sending' AND s.lease_until >= $3)
                            ORDER BY o.id LIMIT 1)
                        RETURNING *")
                .text(owner)
                .time(now.plus(lease))
                .time(now),
            )
            .await?;
        row.as_ref().map(outbox_row).transpose()
    }

    /// Writes how sending ended, when the row is still this sender's.
    pub async fn finish_outgoing(
        &self,
        sent: &OutboxRow,
        owner: &str,
        end: OutgoingEnd,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (state, remote_id, error, not_before) = match end {
            OutgoingEnd::Sent { remote_id } => (OutboxState::Sent, remote_id, None, now),
            OutgoingEnd::Retry { error, at } => (OutboxState::Pending, None, Some(error), at),
            OutgoingEnd::Failed(error) => (OutboxState::Failed, None, Some(error), now),
        };
        let version = if state == OutboxState::Sent { sent.version } else { sent.sent_version };
        // A wish that changed while it was on its way goes out once more.
        let statement = sql("UPDATE outbox SET state = CASE WHEN version <> $1 THEN 'pending' ELSE $2 END,
                attempts = CASE WHEN $2 = 'sent' THEN 0 ELSE attempts END,
                remote_id = coalesce($3, remote_id), last_error = $4, not_before = $5, sent_version = $6, owner = NULL,
                lease_until = NULL, updated_at = $7 WHERE id = $8 AND owner = $9 AND state = 'sending'")
        .int(sent.version)
        .text(state.as_str())
        .int_opt(remote_id)
        .text_opt(error)
        .time(not_before)
        .int(version)
        .time(now)
        .id(sent.id.0)
        .text(owner);
        self.db.execute(statement).await.map(drop)
    }

    /// After a start of this node: none of its senders is alive. What was under way may have had its effect; the count of
    /// tries says so.
    pub async fn release_outgoing_of(&self, owner: &str, now: Timestamp) -> Result<u64, StoreError> {
        let statement = sql("UPDATE outbox SET state = 'pending', owner = NULL, lease_until = NULL, not_before = $1
                WHERE state = 'sending' AND owner = $2");
        self.db.execute(statement.time(now).text(owner)).await
    }

    pub async fn load_outgoing_by_key(&self, key: &str) -> Result<Option<OutboxRow>, StoreError> {
        let row = self.db.fetch_optional(sql("SELECT * FROM outbox WHERE key = $1").text(key)).await?;
        row.as_ref().map(outbox_row).transpose()
    }

    /// Newest first.
    pub async fn list_outgoing(&self, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
        let statement = sql("SELECT * FROM outbox ORDER BY id DESC LIMIT $1");
        self.db.fetch_all(statement.int(limit.into())).await?.iter().map(outbox_row).collect()
    }
}
