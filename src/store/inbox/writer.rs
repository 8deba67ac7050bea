//! What is written to the inbox in groups: deliveries that are accepted, and how those that were claimed ended.

use super::super::codec::FromRow;
use super::super::db::{Row, Tx};
use super::super::sql::{Sql, new_id, sql};
use super::super::{Store, StoreError};
use super::group::{Entry, Group};
use super::{DeliveryEnd, body, ending, stored_key};
use crate::model::{Delivery, InboxId, InboxState, Timestamp};
use std::{collections::HashSet, sync::Arc, time::Duration};
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

/// What became of a delivery. It is on disk in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It waits to be handled.
    New(InboxId),
    /// There is nothing to be done about it, and that is stored.
    Ignored,
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

    async fn write(entries: &[&Self], tx: &mut Tx) -> Result<Vec<Accepted>, StoreError> {
        store_all(tx, entries).await
    }
}

struct Ending(Sql);

impl Entry for Ending {
    /// Whether the claim still held.
    type Outcome = bool;

    async fn write(entries: &[&Self], tx: &mut Tx) -> Result<Vec<bool>, StoreError> {
        let mut held = Vec::with_capacity(entries.len());
        for Self(ending) in entries {
            held.push(tx.execute(ending.clone()).await? > 0);
        }
        Ok(held)
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
            guid: guid.clone(),
            event: "none".to_owned(),
            conversation_key: None,
            out_of_turn: false,
            body: Vec::new(),
            ignored_because: Some("Treewarden tries whether it can store deliveries".to_owned()),
            at,
        };
        let mut tx = self.db.begin().await?;
        store_all(&mut tx, &[&Arrival { delivery, packed: Vec::new() }]).await?;
        tx.execute(sql!("DELETE FROM inbox WHERE guid = $1").bind(guid)).await?;
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

/// The ten parameters of a row; `$tens` is what their numbers begin with, `$next` that of the row behind it.
macro_rules! row {
    ($tens:literal, $next:literal) => {
        concat!(
            "($", $tens, "1, $", $tens, "2, $", $tens, "3, $", $tens, "4, $", $tens, "5, $", $tens, "6, $", $tens,
            "7, $", $tens, "8, 0, $", $tens, "9, $", $tens, "9, $", $next, "0)"
        )
    };
}

macro_rules! insert {
    ($first:expr $(, $more:expr)*) => {
        concat!(
            "INSERT INTO inbox (id, guid, event, conversation_key, body, body_key, state, reason, attempts, not_before,
                                received_at, finished_at)
             VALUES ",
            $first,
            $(", ", $more,)*
            " ON CONFLICT DO NOTHING RETURNING id"
        )
    };
}

/// Rows that one statement writes. A statement costs more than what it does, and on PostgreSQL a round trip.
const ROWS: usize = 16;

async fn store_all(tx: &mut Tx, arrivals: &[&Arrival]) -> Result<Vec<Accepted>, StoreError> {
    let rows: Vec<(InboxId, &Arrival)> = arrivals.iter().map(|arrival| (new_id(), *arrival)).collect();
    let mut written = HashSet::with_capacity(rows.len());
    let (together, alone) = rows.as_chunks::<ROWS>();
    for rows in together {
        let insert = sql!(insert!(
            row!("", "1"),
            row!("1", "2"),
            row!("2", "3"),
            row!("3", "4"),
            row!("4", "5"),
            row!("5", "6"),
            row!("6", "7"),
            row!("7", "8"),
            row!("8", "9"),
            row!("9", "10"),
            row!("10", "11"),
            row!("11", "12"),
            row!("12", "13"),
            row!("13", "14"),
            row!("14", "15"),
            row!("15", "16")
        ));
        written.extend(tx.fetch_all(rows.iter().fold(insert, bind_row)).await?.into_iter().map(|Written(id)| id));
    }
    for row in alone {
        let insert = sql!(insert!(row!("", "1")));
        written.extend(tx.fetch_optional(bind_row(insert, row)).await?.map(|Written(id)| id));
    }
    let mut outcomes = Vec::with_capacity(rows.len());
    for (id, arrival) in rows {
        let stored = match written.contains(&id) {
            true => Some(id),
            false => take_up_again(tx, arrival).await?,
        };
        outcomes.push(match (stored, &arrival.delivery.ignored_because) {
            (Some(id), None) => Accepted::New(id),
            (Some(_), Some(_)) => Accepted::Ignored,
            (None, _) => Accepted::Duplicate,
        });
    }
    Ok(outcomes)
}

/// How a delivery begins: its state, and when it was over.
fn beginning(delivery: &NewDelivery) -> (InboxState, Option<Timestamp>) {
    match delivery.ignored_because {
        None => (InboxState::Received, None),
        Some(_) => (InboxState::Ignored, Some(delivery.at)),
    }
}

fn bind_row(insert: Sql, (id, Arrival { delivery, packed }): &(InboxId, &Arrival)) -> Sql {
    let (state, finished_at) = beginning(delivery);
    insert
        .bind(*id)
        .bind(&delivery.guid)
        .bind(&delivery.event)
        .bind(delivery.conversation_key.as_deref().map(|key| stored_key(key, delivery.out_of_turn)))
        .bind(packed.clone())
        .bind(&delivery.body_key)
        .bind(state)
        .bind(&delivery.ignored_because)
        .bind(delivery.at)
        .bind(finished_at)
}

/// Sending a failed one again is how a person asks for another try, and mends a body that was damaged here.
async fn take_up_again(tx: &mut Tx, Arrival { delivery, packed }: &Arrival) -> Result<Option<InboxId>, StoreError> {
    let (state, finished_at) = beginning(delivery);
    let again = sql!(
        "UPDATE inbox SET state = $6, reason = $7, tries = 0, not_before = $4, finished_at = $8,
                          stopped = false, body = CASE WHEN body_key = $2 THEN $5 ELSE body END
         WHERE (guid = $1 OR (body_key = $2 AND event = $3)) AND state = 'failed'
         RETURNING id"
    );
    let again = again.bind(&delivery.guid).bind(&delivery.body_key).bind(&delivery.event).bind(delivery.at);
    let again = again.bind(packed.clone()).bind(state).bind(&delivery.ignored_because).bind(finished_at);
    Ok(tx.fetch_optional(again).await?.map(|Written(id)| id))
}
