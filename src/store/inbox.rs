//! The inbox: deliveries, written and synced to disk before they are acknowledged, claimed in order for each thread.

use super::{
    Store, StoreError,
    db::{Db, Row, Tx, corrupt, sql},
};
use crate::model::*;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use std::{
    io::{Read, Write},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// Deliveries committed together at most.
const BATCH: usize = 256;
/// Deliveries waiting to be committed at most; more are refused, and GitHub keeps them as failed.
const WAITING: usize = 2048;

/// A verified delivery.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    pub guid: String,
    pub event: String,
    pub conversation_key: Option<String>,
    pub body: Vec<u8>,
    /// SHA-256 of what was signed (and the event), in hex: headers are not covered by the signature, so a replay under
    /// another guid is recognised by this.
    pub body_key: String,
    /// Stored as ignored with this reason at once.
    pub ignored_because: Option<String>,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    New(InboxId),
    Duplicate,
}

/// How handling a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryEnd {
    Done(String),
    Ignored(String),
    Failed(String),
    Retry { reason: String, at: Timestamp },
}

/// Commits deliveries in groups: whatever waits while one commit is synced goes into the next.
#[derive(Clone)]
pub struct InboxWriter {
    queue: mpsc::Sender<(NewDelivery, oneshot::Sender<Result<Accepted, StoreError>>)>,
}

impl InboxWriter {
    /// Answers after the delivery is on disk.
    pub async fn accept(&self, delivery: NewDelivery) -> Result<Accepted, StoreError> {
        let (sender, answer) = oneshot::channel();
        self.queue.try_send((delivery, sender)).map_err(|_| StoreError::Full)?;
        answer.await.map_err(|_| StoreError::Full)?
    }
}

impl Store {
    /// Starts the writer; it ends when all handles are gone.
    pub fn inbox_writer(&self) -> InboxWriter {
        let (queue, mut waiting) = mpsc::channel::<(NewDelivery, oneshot::Sender<_>)>(WAITING);
        let db = self.db.clone();
        tokio::spawn(async move {
            let mut batch = Vec::with_capacity(BATCH);
            while waiting.recv_many(&mut batch, BATCH).await > 0 {
                let (deliveries, senders): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
                match commit(&db, &deliveries).await {
                    Ok(answers) => {
                        for (sender, answer) in senders.into_iter().zip(answers) {
                            let _ = sender.send(Ok(answer));
                        }
                    }
                    Err(error) => {
                        tracing::error!(error = %error, deliveries = deliveries.len(), "deliveries not stored");
                        for sender in senders {
                            let _ = sender.send(Err(StoreError::Busy));
                        }
                    }
                }
            }
        });
        InboxWriter { queue }
    }

    /// The oldest delivery that is due and has no earlier unfinished one in its thread.
    pub async fn claim_delivery(
        &self,
        owner: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<Delivery>, StoreError> {
        let row = self
            .db
            .fetch_optional(
                sql("UPDATE inbox SET state = 'claimed', owner = $1, lease_until = $2, attempts = attempts + 1
                        WHERE state = 'received' AND id = (
                            SELECT i.id FROM inbox i WHERE i.state = 'received' AND i.not_before <= $3
                            AND NOT EXISTS (SELECT 1 FROM inbox e WHERE e.conversation_key = i.conversation_key
                                AND e.id < i.id AND e.state IN ('received', 'claimed'))
                            ORDER BY i.id LIMIT 1)
                        RETURNING *")
                .text(owner)
                .time(now.plus(lease))
                .time(now),
            )
            .await?;
        row.as_ref().map(delivery).transpose()
    }

    /// Writes the end of a claimed delivery; false when the claim was lost meanwhile.
    pub async fn finish_delivery(
        &self,
        claimed: &Delivery,
        end: DeliveryEnd,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (state, reason, not_before) = match end {
            DeliveryEnd::Done(reason) => (InboxState::Done, reason, now),
            DeliveryEnd::Ignored(reason) => (InboxState::Ignored, reason, now),
            DeliveryEnd::Failed(reason) => (InboxState::Failed, reason, now),
            DeliveryEnd::Retry { reason, at } => (InboxState::Received, reason, at),
        };
        let finished = (state != InboxState::Received).then_some(now);
        let statement =
            sql("UPDATE inbox SET state = $1, reason = $2, not_before = $3, finished_at = $4, owner = NULL,
                lease_until = NULL WHERE id = $5 AND state = 'claimed' AND attempts = $6")
            .text(state.as_str())
            .text(reason)
            .time(not_before)
            .time_opt(finished)
            .id(claimed.id.0)
            .int(claimed.attempts);
        Ok(self.db.execute(statement).await? == 1)
    }

    /// Claims whose lease ran out go back.
    pub async fn release_expired_deliveries(&self, now: Timestamp) -> Result<u64, StoreError> {
        let statement = sql("UPDATE inbox SET state = 'received', owner = NULL, lease_until = NULL
                WHERE state = 'claimed' AND lease_until < $1");
        self.db.execute(statement.time(now)).await
    }

    /// After a start of this node: none of its claims is alive.
    pub async fn release_deliveries_of(&self, owner: &str, now: Timestamp) -> Result<u64, StoreError> {
        let statement = sql("UPDATE inbox SET state = 'received', owner = NULL, lease_until = NULL, not_before = $1
                WHERE state = 'claimed' AND owner = $2");
        self.db.execute(statement.time(now).text(owner)).await
    }

    pub async fn load_delivery(&self, id: InboxId) -> Result<Option<Delivery>, StoreError> {
        let row = self.db.fetch_optional(sql("SELECT * FROM inbox WHERE id = $1").id(id.0)).await?;
        row.as_ref().map(delivery).transpose()
    }

    /// Newest first.
    pub async fn list_deliveries(&self, limit: u32, offset: u32) -> Result<Vec<Delivery>, StoreError> {
        let statement = sql("SELECT * FROM inbox ORDER BY id DESC LIMIT $1 OFFSET $2");
        self.db.fetch_all(statement.int(limit.into()).int(offset.into())).await?.iter().map(delivery).collect()
    }
}

async fn commit(db: &Db, deliveries: &[NewDelivery]) -> Result<Vec<Accepted>, StoreError> {
    let mut tx = db.begin().await?;
    let mut answers = Vec::with_capacity(deliveries.len());
    for delivery in deliveries {
        answers.push(insert(&mut tx, delivery).await?);
    }
    tx.commit().await?;
    Ok(answers)
}

async fn insert(tx: &mut Tx, new: &NewDelivery) -> Result<Accepted, StoreError> {
    let id = Uuid::now_v7();
    let state = if new.ignored_because.is_some() { InboxState::Ignored } else { InboxState::Received };
    let inserted = tx
        .fetch_optional(
            sql("INSERT INTO inbox (id, guid, event, conversation_key, body, body_key, state, reason, attempts, not_before,
                    received_at, finished_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11)
                    ON CONFLICT DO NOTHING RETURNING id")
                .id(id)
                .text(&new.guid)
                .text(&new.event)
                .text_opt(new.conversation_key.as_deref())
                .bytes(compressed(&new.body))
                .text(&new.body_key)
                .text(state.as_str())
                .text_opt(new.ignored_because.as_deref())
                .int(0)
                .time(new.at)
                .time_opt(new.ignored_because.is_some().then_some(new.at)),
        )
        .await?;
    if inserted.is_some() {
        return Ok(Accepted::New(InboxId(id)));
    }
    // A delivery that failed before and is sent again by hand gets another chance.
    let rearmed = tx
        .fetch_optional(
            sql("UPDATE inbox SET state = 'received', attempts = $1, not_before = $2, finished_at = NULL
                    WHERE guid = $3 AND body_key = $4 AND state = 'failed' RETURNING id")
            .int(0)
            .time(new.at)
            .text(&new.guid)
            .text(&new.body_key),
        )
        .await?;
    match rearmed {
        Some(row) => Ok(Accepted::New(InboxId(row.id("id")?))),
        None => Ok(Accepted::Duplicate),
    }
}

fn delivery(row: &Row) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        id: InboxId(row.id("id")?),
        guid: row.text("guid")?,
        event: row.text("event")?,
        conversation_key: row.text_opt("conversation_key")?,
        body: decompressed(&row.bytes("body")?).map_err(|error| corrupt("body", error))?,
        state: row.parse("state")?,
        reason: row.text_opt("reason")?,
        attempts: row.int("attempts")?,
        received_at: row.time("received_at")?,
        finished_at: row.time_opt("finished_at")?,
    })
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    // Writing into memory does not fail.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

fn decompressed(stored: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    GzDecoder::new(stored).read_to_end(&mut body)?;
    Ok(body)
}
