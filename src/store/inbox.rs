//! Table `inbox`: webhook deliveries, from the moment they are accepted until they are handled.
//!
//! Deliveries with the same conversation key are handled one after the other, in order of arrival; one that is to be tried
//! again later holds up those behind it. Order is by row id: of one process, the order in which its writer took them.
//!
//! A request to stop is stored under a key of its own, so that it waits for nothing but another one like it.

mod body;
mod group;
mod writer;

pub(super) use body::empty as no_body;
pub use writer::{Accepted, InboxWriter, NewDelivery};

use super::codec::FromRow;
use super::db::Row;
use super::sql::{Sql, sql};
use super::unreadable::{Queued, take};
use super::{Answer, LONGEST_PAUSE, Store, StoreError};
use crate::model::*;
use std::time::Duration;

/// How the handling of a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryEnd {
    /// With what it led to.
    Done(String),
    Ignored(String),
    /// For good; a manual redelivery takes it up again.
    Failed(String),
    Retry {
        reason: String,
        at: Timestamp,
    },
    /// Not handled at all: as if it had not been claimed.
    GivenBack,
}

/// A delivery without its body, for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryLine {
    pub id: InboxId,
    pub guid: String,
    pub event: String,
    pub conversation_key: Option<String>,
    pub state: InboxState,
    pub reason: Option<String>,
    /// Since it last arrived.
    pub tries: i64,
    pub received_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// In front of the conversation key of those that do not wait for their turn. No other key begins like this. The claims
/// below say it again.
const OUT_OF_TURN: &str = "stop ";

/// A key as it is stored.
pub(super) fn stored_key(key: &str, out_of_turn: bool) -> String {
    if out_of_turn { format!("{OUT_OF_TURN}{key}") } else { key.to_owned() }
}

/// A stored key, and whether its delivery waits for its turn.
fn read_key(stored: Option<String>) -> (Option<String>, bool) {
    let plain = stored.as_deref().and_then(|key| key.strip_prefix(OUT_OF_TURN)).map(str::to_owned);
    let out_of_turn = plain.is_some();
    (plain.or(stored), out_of_turn)
}

impl FromRow for Delivery {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        let (conversation_key, out_of_turn) = read_key(row.maybe("conversation_key")?);
        Ok(Delivery {
            id: row.get("id")?,
            guid: row.get("guid")?,
            event: row.get("event")?,
            conversation_key,
            out_of_turn,
            body: body::unpack(&row.get::<Vec<u8>>("body")?)?,
            state: row.get("state")?,
            reason: row.maybe("reason")?,
            attempts: row.get("attempts")?,
            tries: row.get("tries")?,
            received_at: row.get("received_at")?,
            finished_at: row.maybe("finished_at")?,
        })
    }
}

/// A manual redelivery takes it up again, with the body it brings along.
impl Queued for Delivery {
    const TABLE: &'static str = "inbox";

    fn give_up() -> Sql {
        sql!(
            "UPDATE inbox SET state = 'failed', reason = $2, finished_at = $3, lease_owner = NULL, lease_until = NULL
             WHERE id = $1 AND state = 'claimed'"
        )
    }
}

struct Found(InboxId);

impl FromRow for Found {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("id").map(Found)
    }
}

struct Ended(Option<Timestamp>);

impl FromRow for Ended {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.maybe("finished_at").map(Ended)
    }
}

impl FromRow for DeliveryLine {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(DeliveryLine {
            id: row.get("id")?,
            guid: row.get("guid")?,
            event: row.get("event")?,
            conversation_key: read_key(row.maybe("conversation_key")?).0,
            state: row.get("state")?,
            reason: row.maybe("reason")?,
            tries: row.get("tries")?,
            received_at: row.get("received_at")?,
            finished_at: row.maybe("finished_at")?,
        })
    }
}

/// Nothing of its conversation is before it or in work: `$row` names the one that is looked at.
macro_rules! is_first {
    ($row:literal) => {
        concat!(
            " (conversation_key IS NULL OR (
                NOT EXISTS (
                    SELECT 1 FROM inbox AS other
                    WHERE other.conversation_key = ",
            $row,
            ".conversation_key AND other.state = 'claimed')
                AND NOT EXISTS (
                    SELECT 1 FROM inbox AS other
                    WHERE other.conversation_key = ",
            $row,
            ".conversation_key AND other.state IN ('received', 'claimed') AND other.id < ",
            $row,
            ".id))) "
        )
    };
}

/// The oldest delivery that is due (`$1` is now, `$2` is what no pause reaches) and the first of its conversation; `$which`
/// narrows the choice.
macro_rules! next_delivery {
    ($which:literal) => {
        concat!(
            "SELECT id FROM inbox AS next
             WHERE state = 'received' AND (tries = 0 OR not_before <= $1 OR not_before > $2)
               AND (NOT $3 OR event = 'local')",
            $which,
            " AND",
            is_first!("next"),
            "ORDER BY id LIMIT 1"
        )
    };
}

/// Whether there is one: looking first keeps idle workers away from the writing connection.
macro_rules! is_due {
    ($which:literal) => {
        concat!("SELECT count(*) AS answer FROM (", next_delivery!($which), ") AS due")
    };
}

/// Takes it: `$4` is the owner, `$5` the end of the lease.
macro_rules! claim {
    ($which:literal) => {
        concat!(
            "UPDATE inbox SET state = 'claimed', attempts = attempts + 1, tries = tries + 1,
                              lease_owner = $4, lease_until = $5
             WHERE id = (",
            next_delivery!($which),
            ") AND state = 'received' RETURNING *"
        )
    };
}

/// Writes down how a claim ended; touches no row when it was lost.
fn ending(delivery: &Delivery, end: DeliveryEnd, now: Timestamp) -> Sql {
    let tries = match end {
        DeliveryEnd::GivenBack => delivery.tries - 1,
        _ => delivery.tries,
    };
    let (state, reason, not_before, finished_at) = match end {
        DeliveryEnd::Done(note) => (InboxState::Done, Some(note), now, Some(now)),
        DeliveryEnd::Ignored(reason) => (InboxState::Ignored, Some(reason), now, Some(now)),
        DeliveryEnd::Failed(reason) => (InboxState::Failed, Some(reason), now, Some(now)),
        DeliveryEnd::Retry { reason, at } => (InboxState::Received, Some(reason), at, None),
        DeliveryEnd::GivenBack => (InboxState::Received, delivery.reason.clone(), now, None),
    };
    // Attempts only ever grow, so that they name the claim, and with it its owner.
    let sql = sql!(
        "UPDATE inbox SET state = $3, reason = $4, not_before = $5, finished_at = $6, tries = $7,
                          lease_owner = NULL, lease_until = NULL
         WHERE id = $1 AND attempts = $2 AND state = 'claimed'"
    );
    let sql = sql.bind(delivery.id).bind(delivery.attempts).bind(state).bind(reason).bind(not_before);
    sql.bind(finished_at).bind(tries)
}

impl Store {
    /// Takes the next delivery for `owner` until `now + lease`. One that cannot be read is marked as failed.
    pub async fn claim_delivery(
        &self,
        owner: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<Delivery>, StoreError> {
        Ok(self.claim_deliveries(owner, now, lease, 1).await?.pop())
    }

    /// Takes the next one, and others along until there are `most`, the oldest first and each of another conversation. What
    /// comes along is small and was not tried before: whatever ended the process once is not taken in company again.
    /// [`StoreError::Busy`] also when two that claim so wait for each other.
    pub async fn claim_deliveries(
        &self,
        owner: &str,
        now: Timestamp,
        lease: Duration,
        most: u32,
    ) -> Result<Vec<Delivery>, StoreError> {
        let (due, claim, never) = (sql!(is_due!("")), sql!(claim!("")), now.plus(LONGEST_PAUSE));
        let held = self.holds_github();
        let (due, claim) = (due.bind(now).bind(never).bind(held), claim.bind(now).bind(never).bind(held));
        let mut claims = vec![claim.bind(owner).bind(now.plus(lease))];
        if most > 1 {
            // A look at the oldest only: behind a long conversation it is one after the other. Chosen once and for all, by
            // their keys: with statistics from before they came, PostgreSQL would choose anew for each row that waits. Only
            // a claim ends the waiting, and that counts an attempt.
            let along = sql!(concat!(
                "WITH chosen AS MATERIALIZED (
                    SELECT id, attempts FROM (
                        SELECT id, attempts, conversation_key FROM inbox
                        WHERE state = 'received' AND tries = 0 AND length(body) <= 65536
                          AND (NOT $4 OR event = 'local')
                        ORDER BY id LIMIT 256) AS fresh
                    WHERE",
                is_first!("fresh"),
                "ORDER BY id LIMIT $3)
                 UPDATE inbox SET state = 'claimed', attempts = attempts + 1, tries = tries + 1,
                                  lease_owner = $1, lease_until = $2
                 WHERE (id, attempts) IN (SELECT id, attempts FROM chosen) RETURNING *"
            ));
            claims.push(along.bind(owner).bind(now.plus(lease)).bind(i64::from(most - 1)).bind(held));
        }
        self.claim_next(due, claims, now).await
    }

    /// The same among those that do not wait for their turn.
    pub async fn claim_delivery_out_of_turn(
        &self,
        owner: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<Delivery>, StoreError> {
        let due = sql!(is_due!(" AND conversation_key LIKE 'stop %'"));
        let claim = sql!(claim!(" AND conversation_key LIKE 'stop %'"));
        let never = now.plus(LONGEST_PAUSE);
        let held = self.holds_github();
        let (due, claim) = (due.bind(now).bind(never).bind(held), claim.bind(now).bind(never).bind(held));
        let claims = vec![claim.bind(owner).bind(now.plus(lease))];
        Ok(self.claim_next(due, claims, now).await?.pop())
    }

    /// Losing a race means that another one won: looks again.
    async fn claim_next(&self, due: Sql, claims: Vec<Sql>, now: Timestamp) -> Result<Vec<Delivery>, StoreError> {
        let _alone = self.claiming.lock().await;
        while self.db.fetch_one::<Answer>(due.clone()).await?.0 > 0 {
            match self.claim(&claims, now).await {
                Ok(taken) if taken.is_empty() => {}
                Err(error) if error.is_conflict() => {}
                taken => return taken,
            }
        }
        Ok(Vec::new())
    }

    /// In one transaction; nothing but what comes along with something.
    async fn claim(&self, claims: &[Sql], now: Timestamp) -> Result<Vec<Delivery>, StoreError> {
        let mut tx = self.db.begin().await?;
        let mut taken: Vec<Delivery> = Vec::new();
        for claim in claims {
            let more = take(&mut tx, claim.clone(), now).await?;
            if more.is_empty() {
                break;
            }
            taken.extend(more.rows);
            // What may have ended the process before is claimed by itself.
            if taken.iter().any(|delivery| delivery.tries > 1) {
                break;
            }
        }
        tx.commit().await?;
        taken.sort_by_key(|delivery| delivery.id);
        Ok(taken)
    }

    /// Marks what arrived before `delivery` in its conversation and is not over: see [`Store::is_stopped`]. Answers with
    /// how many there were.
    pub async fn stop_waiting_before(&self, delivery: &Delivery) -> Result<u64, StoreError> {
        let sql = sql!(
            "UPDATE inbox SET stopped = true
             WHERE conversation_key = $1 AND id < $2 AND state IN ('received', 'claimed')"
        );
        self.db.execute(sql.bind(&delivery.conversation_key).bind(delivery.id)).await
    }

    /// Whether somebody asked to stop after this delivery arrived and before it was handled.
    pub async fn is_stopped(&self, id: InboxId) -> Result<bool, StoreError> {
        let sql = sql!("SELECT count(*) AS answer FROM inbox WHERE id = $1 AND stopped");
        let stopped: Answer = self.db.fetch_one(sql.bind(id)).await?;
        Ok(stopped.0 > 0)
    }

    /// Writes down how it ended; false when the claim was lost to another one, whose word counts then.
    pub async fn finish_delivery(
        &self,
        delivery: &Delivery,
        end: DeliveryEnd,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        Ok(self.db.execute(ending(delivery, end, now)).await? > 0)
    }

    /// Keeps a claim until `until`; false when it was lost.
    pub async fn renew_delivery(&self, delivery: &Delivery, until: Timestamp) -> Result<bool, StoreError> {
        let sql = sql!("UPDATE inbox SET lease_until = $3 WHERE id = $1 AND attempts = $2 AND state = 'claimed'");
        Ok(self.db.execute(sql.bind(delivery.id).bind(delivery.attempts).bind(until)).await? > 0)
    }

    /// Claims whose lease ended go back into the queue. Answers with how many there were.
    pub async fn release_expired_deliveries(&self, now: Timestamp) -> Result<u64, StoreError> {
        let sql = sql!(
            "UPDATE inbox SET state = 'received', lease_owner = NULL, lease_until = NULL
             WHERE state = 'claimed' AND lease_until <= $1"
        );
        self.db.execute(sql.bind(now)).await
    }

    /// All claims of an owner that is known to be gone go back into the queue, due at once.
    pub async fn release_deliveries_of(&self, owner: &str, now: Timestamp) -> Result<u64, StoreError> {
        let sql = sql!(
            "UPDATE inbox SET state = 'received', not_before = $2, lease_owner = NULL, lease_until = NULL
             WHERE state = 'claimed' AND lease_owner = $1"
        );
        self.db.execute(sql.bind(owner).bind(now)).await
    }

    /// Whether a delivery of this GUID was ever stored.
    pub async fn knows_delivery(&self, guid: &str) -> Result<bool, StoreError> {
        let sql = sql!("SELECT count(*) AS answer FROM inbox WHERE guid = $1");
        let known: Answer = self.db.fetch_one(sql.bind(guid)).await?;
        Ok(known.0 > 0)
    }

    /// When the delivery of this GUID was given up; absent: it was not.
    pub async fn delivery_given_up_at(&self, guid: &str) -> Result<Option<Timestamp>, StoreError> {
        let sql = sql!("SELECT finished_at FROM inbox WHERE guid = $1 AND state = 'failed'").bind(guid);
        let ended: Option<Ended> = self.db.fetch_optional(sql).await?;
        Ok(ended.and_then(|Ended(at)| at))
    }

    /// The delivery of this GUID.
    pub async fn find_delivery(&self, guid: &str) -> Result<Option<InboxId>, StoreError> {
        let found: Option<Found> =
            self.db.fetch_optional(sql!("SELECT id FROM inbox WHERE guid = $1").bind(guid)).await?;
        Ok(found.map(|Found(id)| id))
    }

    pub async fn load_delivery(&self, id: InboxId) -> Result<Option<Delivery>, StoreError> {
        self.db.fetch_optional(sql!("SELECT * FROM inbox WHERE id = $1").bind(id)).await
    }

    /// One page, the newest first.
    pub async fn list_deliveries(&self, limit: u32, offset: u32) -> Result<Vec<DeliveryLine>, StoreError> {
        let sql = sql!(
            "SELECT id, guid, event, conversation_key, state, reason, tries, received_at, finished_at
             FROM inbox ORDER BY id DESC LIMIT $1 OFFSET $2"
        );
        self.db.fetch_readable(sql, limit, offset).await
    }

    /// When GitHub last delivered something that was taken; what is said on this machine does not count.
    pub async fn last_delivered(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = sql!(
            "SELECT id, guid, event, conversation_key, state, reason, tries, received_at, finished_at
             FROM inbox WHERE event <> 'local' ORDER BY id DESC LIMIT $1 OFFSET $2"
        );
        let newest: Vec<DeliveryLine> = self.db.fetch_readable(sql, 1, 0).await?;
        Ok(newest.first().map(|delivery| delivery.received_at))
    }

    /// Those that were given up since a moment, the newest first.
    pub async fn failed_deliveries(&self, since: Timestamp, limit: u32) -> Result<Vec<DeliveryLine>, StoreError> {
        let sql = sql!(
            "SELECT id, guid, event, conversation_key, state, reason, tries, received_at, finished_at
             FROM inbox WHERE state = 'failed' AND finished_at >= $1 ORDER BY id DESC LIMIT $2 OFFSET $3"
        );
        self.db.fetch_readable(sql.bind(since), limit, 0).await
    }
}
