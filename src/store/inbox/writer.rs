//! What is written to the inbox in groups: deliveries that are accepted, and how those that were claimed ended.

use super::super::codec::FromRow;
use super::super::db::{Row, Tx};
use super::super::sql::{Sql, new_id, sql};
use super::super::{Store, StoreError};
use super::group::{Entry, Group};
use super::{DeliveryEnd, body, ending, stored_key};
use crate::model::{Delivery, InboxId, InboxState, Timestamp};
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// While the last write failed, another one is tried after this time at the earliest.
const TRY_AGAIN: Duration = Duration::from_secs(2);

/// A delivery that is GitHub's, or this machine's, beyond doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    /// `X-GitHub-Delivery`.
    pub guid: String,
    /// `X-GitHub-Event`.
    pub event: String,
    pub conversation_key: Option<String>,
    /// It waits for nothing else of its conversation.
    pub out_of_turn: bool,
    pub body: Vec<u8>,
    /// SHA-256 of event and body: what makes it the same delivery, whatever its headers say.
    pub body_key: String,
    /// Why nothing is to be done about it; it is stored as ignored.
    pub ignored_because: Option<String>,
    pub at: Timestamp,
}

/// What became of a delivery. Either way it is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It waits to be handled (or was stored as ignored).
    New(InboxId),
    /// It was here before.
    Duplicate,
}

/// Hands deliveries, and their ends, to the tasks that write them.
#[derive(Clone)]
pub struct InboxWriter {
    store: Store,
    arrivals: Group<Arrival>,
    endings: Group<Ending>,
    /// When [`InboxWriter::takes_deliveries`] last tried to write.
    tried: Arc<Mutex<Option<Timestamp>>>,
}

struct Arrival {
    delivery: NewDelivery,
    packed: Vec<u8>,
}

impl Entry for Arrival {
    type Outcome = Accepted;

    async fn write(&self, tx: &mut Tx) -> Result<Accepted, StoreError> {
        store_one(tx, &self.delivery, &self.packed).await
    }
}

struct Ending(Sql);

impl Entry for Ending {
    /// Whether the claim still held.
    type Outcome = bool;

    async fn write(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        Ok(tx.execute(self.0.clone()).await? > 0)
    }
}

impl Store {
    /// Starts the writing tasks. One of these for a process is enough: more would only split the groups.
    pub fn inbox_writer(&self) -> InboxWriter {
        let (arrivals, endings) = (Group::start(self), Group::start(self));
        InboxWriter { store: self.clone(), arrivals, endings, tried: Arc::default() }
    }

    /// Stores a delivery like any other and takes it away again: both reach the disk, in one transaction.
    async fn try_inbox(&self, at: Timestamp) -> Result<(), StoreError> {
        let guid = format!("a try of the inbox, {}", new_id::<InboxId>());
        let delivery = NewDelivery {
            body_key: guid.clone(),
            guid,
            event: "none".to_owned(),
            conversation_key: None,
            out_of_turn: false,
            body: Vec::new(),
            ignored_because: Some("Treewarden tries whether it can store deliveries".to_owned()),
            at,
        };
        let mut tx = self.db.begin().await?;
        if let Accepted::New(id) = store_one(&mut tx, &delivery, &[]).await? {
            tx.execute(sql!("DELETE FROM inbox WHERE id = $1").bind(id)).await?;
        }
        tx.commit().await
    }
}

impl InboxWriter {
    /// Returns when the delivery is on disk, or says that it is not.
    pub async fn accept(&self, mut delivery: NewDelivery) -> Result<Accepted, StoreError> {
        let packed = body::pack(std::mem::take(&mut delivery.body)).await?;
        self.arrivals.write_unless_full(Arrival { delivery, packed }).await
    }

    /// [`Store::finish_delivery`], together with whatever else ends just now.
    pub async fn finish(&self, delivery: &Delivery, end: DeliveryEnd, now: Timestamp) -> Result<bool, StoreError> {
        self.endings.write(Ending(ending(delivery, end, now))).await
    }

    /// Whether deliveries can be stored, as far as is known: the last write succeeded or, if it did not, one does now. Asked
    /// often, it does not write each time but says no in between.
    pub async fn takes_deliveries(&self, now: Timestamp) -> bool {
        // Where nothing can end, nothing that comes in is ever done with.
        if self.arrivals.has_ended() || self.endings.has_ended() {
            return false;
        }
        if !self.arrivals.is_failing() {
            return true;
        }
        // Somebody else is trying.
        let Ok(mut tried) = self.tried.try_lock() else { return false };
        if tried.is_some_and(|before| before <= now && now < before.plus(TRY_AGAIN)) {
            return false;
        }
        *tried = Some(now);
        let written = self.store.try_inbox(now).await.is_ok();
        if written {
            self.arrivals.note_success();
        }
        written
    }
}

/// The row that was written.
struct Written(InboxId);

impl FromRow for Written {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("id").map(Written)
    }
}

async fn store_one(tx: &mut Tx, delivery: &NewDelivery, packed: &[u8]) -> Result<Accepted, StoreError> {
    let state = if delivery.ignored_because.is_some() { InboxState::Ignored } else { InboxState::Received };
    let insert = sql!(
        "INSERT INTO inbox (id, guid, event, conversation_key, body, body_key, state, reason, attempts, not_before,
                            received_at, finished_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11)
         ON CONFLICT DO NOTHING
         RETURNING id"
    );
    let insert = insert
        .bind(new_id::<InboxId>())
        .bind(&delivery.guid)
        .bind(&delivery.event)
        .bind(delivery.conversation_key.as_deref().map(|key| stored_key(key, delivery.out_of_turn)))
        .bind(packed.to_vec())
        .bind(&delivery.body_key)
        .bind(state)
        .bind(&delivery.ignored_because)
        .bind(0_i64)
        .bind(delivery.at)
        .bind(delivery.ignored_because.as_ref().map(|_| delivery.at));
    if let Some(Written(id)) = tx.fetch_optional(insert).await? {
        return Ok(Accepted::New(id));
    }
    // Known. Sending a failed one again is how a person asks for another try, and mends a body that was damaged here.
    let again = sql!(
        "UPDATE inbox SET state = 'received', reason = NULL, tries = 0, not_before = $4, finished_at = NULL,
                          stopped = false, body = CASE WHEN body_key = $2 THEN $5 ELSE body END
         WHERE (guid = $1 OR (body_key = $2 AND event = $3)) AND state = 'failed'
         RETURNING id"
    );
    let again = again.bind(&delivery.guid).bind(&delivery.body_key).bind(&delivery.event).bind(delivery.at);
    let again = again.bind(packed.to_vec());
    Ok(match tx.fetch_optional(again).await? {
        Some(Written(id)) => Accepted::New(id),
        None => Accepted::Duplicate,
    })
}
