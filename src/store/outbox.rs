//! Table `outbox`: what is to be made true on a platform. A row holds the wanted state under a key; wanting something else
//! replaces it and raises the version. One row of an installation is sent at a time in each [`Lane`], by its [`Turn`], then
//! the oldest first. What is only on this machine counts as one installation.
//!
//! Table `outbox_pauses`: until when nothing, or nothing new (comments, pull requests), is sent for an installation.

use super::codec::FromRow;
use super::db::{Row, Tx};
use super::sql::{Sql, new_id, sql};
use super::unreadable::{Queued, take};
use super::{Answer, LONGEST_PAUSE, Store, StoreError};
use crate::model::*;
use std::time::Duration;

/// The same as [`LONGEST_PAUSE`] for content, which is spaced by seconds.
const LONGEST_SPACE: Duration = Duration::from_secs(60);

/// Something to be made true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOutgoing {
    pub key: String,
    pub codebase: CodebaseId,
    pub conversation: Option<ConversationId>,
    pub outgoing: Outgoing,
    pub turn: Turn,
    pub not_before: Timestamp,
}

/// Whoever takes a row to send it.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    pub owner: &'a str,
    pub lane: Lane,
    /// For how long it has the row without a renewal.
    pub lease: Duration,
    /// From one text about something that goes on, on GitHub, to the next.
    pub apart: Duration,
}

/// How sending ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutgoingEnd {
    Sent {
        remote_id: Option<i64>,
    },
    Retry {
        error: String,
        at: Timestamp,
    },
    /// For good, until something else is wanted under its key.
    Failed(String),
}

impl FromRow for OutboxRow {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(OutboxRow {
            id: row.get("id")?,
            key: row.get("key")?,
            codebase: row.get("codebase_id")?,
            conversation: row.maybe("conversation_id")?,
            outgoing: row.get_json("outgoing")?,
            version: row.get("version")?,
            sent_version: row.get("sent_version")?,
            remote_id: row.maybe("remote_id")?,
            state: row.get("state")?,
            attempts: row.get("attempts")?,
            last_error: row.maybe("last_error")?,
            not_before: row.get("not_before")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

/// Wanting something else under its key takes it up again.
impl Queued for OutboxRow {
    const TABLE: &'static str = "outbox";

    fn give_up() -> Sql {
        sql!(
            "UPDATE outbox SET state = 'failed', last_error = $2, updated_at = $3, lease_owner = NULL, lease_until = NULL
             WHERE id = $1 AND state = 'sending'"
        )
    }
}

/// The lane of a codebase `home` for the sender that `$4` is true of where it is the one for what people hear first.
macro_rules! lane {
    () => {
        "(CAST(home.installation_id AS TEXT) || CASE WHEN $4 THEN '/heard' ELSE '' END)"
    };
}

/// The row that is due (`$1` is now, `$2` and `$3` are what no pause, and no space between content, reaches: nothing is written
/// down later than that, either) in a lane that has none under way: by its turn, then the oldest. Nothing of an
/// installation that pauses. A row whose sender's lease ended is under way until it is taken back: the sender may be alive,
/// see [`Store::release_expired_outgoing`]. What goes on (`turn` 2) is not told on GitHub where it was told after `$5`.
///
/// A thread gets its comments in the order they were wanted in, also where an earlier one is refused for a short while.
/// One that was tried for a quarter of an hour holds up no other.
macro_rules! next_outgoing {
    () => {
        concat!(
            "SELECT next.id FROM outbox AS next CROSS JOIN codebases AS home
             WHERE home.id = next.codebase_id
               AND next.state IN ('pending', 'sending') AND next.state = 'pending' AND (next.turn = 0) = $4
               AND (next.not_before <= $1 OR next.not_before > $2 OR next.updated_at > $3)
               AND (NOT $6 OR home.local_path IS NOT NULL)
               AND (next.turn < 2 OR home.local_path IS NOT NULL
                 OR next.sent_at IS NULL OR next.sent_at <= $5 OR next.sent_at > $1)
               AND NOT EXISTS (SELECT 1 FROM outbox AS other WHERE other.state = 'sending' AND other.lane = ",
            lane!(),
            ") AND NOT EXISTS (SELECT 1 FROM outbox AS earlier
                               WHERE earlier.conversation_id = next.conversation_id
                                 AND earlier.state IN ('pending', 'sending') AND earlier.id < next.id
                                 AND earlier.sent_version = 0 AND earlier.attempts <= 10
                                 AND earlier.key NOT LIKE 'pull/%' AND next.key NOT LIKE 'pull/%'
                                 AND next.sent_version = 0)
               AND NOT EXISTS (SELECT 1 FROM outbox_pauses AS pause
                               WHERE pause.installation_id = home.installation_id
                                 AND ((pause.everything_until > $1 AND pause.everything_until <= $2)
                                   OR (pause.content_until > $1 AND pause.content_until <= $3
                                       AND next.turn > 0 AND next.remote_id IS NULL)))
             ORDER BY next.turn, next.id LIMIT 1"
        )
    };
}

/// Lets the pause of an installation (`$1`) last until `$2`; one that is longer already stays, unless none reaches so far (`$3`).
macro_rules! pause {
    ($until:literal) => {
        concat!(
            "INSERT INTO outbox_pauses (installation_id, ",
            $until,
            ") VALUES ($1, $2)
             ON CONFLICT (installation_id) DO UPDATE SET ",
            $until,
            " = CASE WHEN outbox_pauses.",
            $until,
            " > excluded.",
            $until,
            " AND outbox_pauses.",
            $until,
            " <= $3 THEN outbox_pauses.",
            $until,
            " ELSE excluded.",
            $until,
            " END"
        )
    };
}

impl Store {
    /// Wants `new.outgoing` under `new.key`. The same wish again changes nothing; another one replaces it.
    pub async fn enqueue(&self, new: NewOutgoing, now: Timestamp) -> Result<OutboxRow, StoreError> {
        match self.db.fetch_optional(upsert(&new, now)?).await? {
            Some(row) => Ok(row),
            None => self.db.fetch_one(sql!("SELECT * FROM outbox WHERE key = $1").bind(&new.key)).await,
        }
    }

    /// Wants all of this, in this order: all or nothing.
    pub async fn enqueue_all(&self, all: &[NewOutgoing], now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        for new in all {
            enqueue_in(&mut tx, new, now).await?;
        }
        tx.commit().await
    }

    /// Takes the next row of the sender's lane. The attempt is on disk before anything is sent. A row that cannot be read is
    /// marked as failed.
    pub async fn claim_outgoing(&self, sender: &Sender<'_>, now: Timestamp) -> Result<Option<OutboxRow>, StoreError> {
        while self.outgoing_is_due(sender, now).await? {
            let claim = sql!(concat!(
                "UPDATE outbox SET state = 'sending', attempts = attempts + 1, lease_owner = $7, lease_until = $8,
                                   updated_at = $1,
                                   lane = (SELECT ",
                lane!(),
                " FROM codebases AS home WHERE home.id = outbox.codebase_id)
                 WHERE id = (",
                next_outgoing!(),
                ") AND state = 'pending' RETURNING *"
            ));
            let claim = self.looking(claim, sender, now).bind(sender.owner).bind(now.plus(sender.lease));
            let mut tx = self.db.begin().await?;
            match take(&mut tx, claim, now).await {
                Ok(mut taken) => {
                    tx.commit().await?;
                    if let Some(row) = taken.rows.pop() {
                        return Ok(Some(row));
                    }
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Nothing is sent for an installation until then.
    pub async fn pause_sending(
        &self,
        installation: InstallationId,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = sql!(pause!("everything_until"));
        self.db.execute(sql.bind(installation).bind(until).bind(now.plus(LONGEST_PAUSE))).await.map(drop)
    }

    /// No comment and no pull request is made for an installation until then. Those that are there may be edited.
    pub async fn pause_content(
        &self,
        installation: InstallationId,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = sql!(pause!("content_until"));
        self.db.execute(sql.bind(installation).bind(until).bind(now.plus(LONGEST_SPACE))).await.map(drop)
    }

    /// Keeps a claim until `until`; false when it was lost.
    pub async fn renew_outgoing(&self, row: &OutboxRow, owner: &str, until: Timestamp) -> Result<bool, StoreError> {
        let sql = sql!(
            "UPDATE outbox SET lease_until = $4
             WHERE id = $1 AND lease_owner = $2 AND attempts = $3 AND state = 'sending'"
        );
        Ok(self.db.execute(sql.bind(row.id).bind(owner).bind(row.attempts).bind(until)).await? > 0)
    }

    /// Looking first keeps idle workers away from the writing connection; losing a race means that another one won.
    async fn outgoing_is_due(&self, sender: &Sender<'_>, now: Timestamp) -> Result<bool, StoreError> {
        let sql = sql!(concat!("SELECT count(*) AS answer FROM (", next_outgoing!(), ") AS due"));
        let due: Answer = self.db.fetch_one(self.looking(sql, sender, now)).await?;
        Ok(due.0 > 0)
    }

    /// What [`next_outgoing`] is told.
    fn looking(&self, sql: Sql, sender: &Sender<'_>, now: Timestamp) -> Sql {
        let is_heard = sender.lane == Lane::Heard;
        let sql = sql.bind(now).bind(now.plus(LONGEST_PAUSE)).bind(now.plus(LONGEST_SPACE));
        sql.bind(is_heard).bind(now.minus(sender.apart)).bind(self.holds_github())
    }

    /// Writes down how sending ended; false when the claim was lost. A row that something else is wanted of by now stays
    /// pending, whatever became of the older wish.
    pub async fn finish_outgoing(
        &self,
        row: &OutboxRow,
        owner: &str,
        end: OutgoingEnd,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        // Attempts start again after success, and what was sent once is not sent again under the same version.
        let sql = match end {
            OutgoingEnd::Sent { remote_id } => sql!(
                "UPDATE outbox SET state = CASE WHEN version = $4 THEN 'sent' ELSE 'pending' END, sent_version = $4,
                                   remote_id = coalesce($6, remote_id), attempts = 0, last_error = NULL, sent_at = $5,
                                   lease_owner = NULL, lease_until = NULL, updated_at = $5
                 WHERE id = $1 AND lease_owner = $2 AND attempts = $3 AND sent_version < $4 AND state = 'sending'"
            )
            .bind(row.id)
            .bind(owner)
            .bind(row.attempts)
            .bind(row.version)
            .bind(now)
            .bind(remote_id),
            OutgoingEnd::Retry { error, at } => sql!(
                "UPDATE outbox SET state = 'pending', last_error = $6, not_before = $7,
                                   lease_owner = NULL, lease_until = NULL, updated_at = $5
                 WHERE id = $1 AND lease_owner = $2 AND attempts = $3 AND sent_version < $4 AND state = 'sending'"
            )
            .bind(row.id)
            .bind(owner)
            .bind(row.attempts)
            .bind(row.version)
            .bind(now)
            .bind(error)
            .bind(at),
            OutgoingEnd::Failed(error) => sql!(
                "UPDATE outbox SET state = CASE WHEN version = $4 THEN 'failed' ELSE 'pending' END, last_error = $6,
                                   lease_owner = NULL, lease_until = NULL, updated_at = $5
                 WHERE id = $1 AND lease_owner = $2 AND attempts = $3 AND sent_version < $4 AND state = 'sending'"
            )
            .bind(row.id)
            .bind(owner)
            .bind(row.attempts)
            .bind(row.version)
            .bind(now)
            .bind(error),
        };
        Ok(self.db.execute(sql).await? > 0)
    }

    pub async fn load_outgoing_by_key(&self, key: &str) -> Result<Option<OutboxRow>, StoreError> {
        self.db.fetch_optional(sql!("SELECT * FROM outbox WHERE key = $1").bind(key)).await
    }

    /// Whether what was never sent under a key may be by then: it is neither given up, nor tried again, nor its installation
    /// written to only later.
    pub async fn may_be_sent_by(&self, key: &str, then: Timestamp, now: Timestamp) -> Result<bool, StoreError> {
        let sql = sql!(
            "SELECT count(*) AS answer FROM outbox AS said JOIN codebases AS home ON home.id = said.codebase_id
             WHERE said.key = $1 AND said.sent_version = 0 AND said.state IN ('pending', 'sending')
               AND said.not_before <= $2
               AND NOT EXISTS (SELECT 1 FROM outbox_pauses AS pause
                               WHERE pause.installation_id = home.installation_id
                                 AND pause.everything_until > $2 AND pause.everything_until <= $3)"
        );
        let may: Answer = self.db.fetch_one(sql.bind(key).bind(then).bind(now.plus(LONGEST_PAUSE))).await?;
        Ok(may.0 > 0)
    }

    /// All rows an owner that is known to be gone was sending are due again.
    pub async fn release_outgoing_of(&self, owner: &str, now: Timestamp) -> Result<u64, StoreError> {
        let sql = sql!(
            "UPDATE outbox SET state = 'pending', lease_owner = NULL, lease_until = NULL, updated_at = $2
             WHERE state = 'sending' AND lease_owner = $1"
        );
        self.db.execute(sql.bind(owner).bind(now)).await
    }

    /// Rows whose sender's lease ended are due again. Answers with how many there were.
    pub async fn release_expired_outgoing(&self, now: Timestamp) -> Result<u64, StoreError> {
        let sql = sql!(
            "UPDATE outbox SET state = 'pending', lease_owner = NULL, lease_until = NULL, updated_at = $1
             WHERE state = 'sending' AND lease_until <= $1"
        );
        self.db.execute(sql.bind(now)).await
    }

    /// A row that was given up is due again, as it is; false when it is not the one that was read any more.
    pub async fn send_again(&self, row: &OutboxRow, now: Timestamp) -> Result<bool, StoreError> {
        let sql = sql!(
            "UPDATE outbox SET state = 'pending', attempts = 1, not_before = $3, updated_at = $3
             WHERE id = $1 AND version = $2 AND state = 'failed'"
        );
        Ok(self.db.execute(sql.bind(row.id).bind(row.version).bind(now)).await? > 0)
    }

    /// What waits for another try in a codebase is due, as if it had been tried once: what was in its way is gone.
    pub async fn hurry_outgoing(&self, codebase: CodebaseId, now: Timestamp) -> Result<u64, StoreError> {
        // Of the two about the state, the first is the one by which engines find the index.
        let sql = sql!(
            "UPDATE outbox SET attempts = 1, not_before = $2, updated_at = $2
             WHERE codebase_id = $1 AND state IN ('pending', 'sending') AND state <> 'sending' AND not_before > $2
               AND attempts > 0"
        );
        self.db.execute(sql.bind(codebase).bind(now)).await
    }

    /// Comments and pull requests that were given up since a moment, the newest first. A reaction is no loss to anybody.
    pub async fn failed_outgoing(&self, since: Timestamp, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
        let sql = sql!(
            "SELECT * FROM outbox WHERE state = 'failed' AND key NOT LIKE 'react/%' AND updated_at >= $1
             ORDER BY id DESC LIMIT $2 OFFSET $3"
        );
        self.db.fetch_readable(sql.bind(since), limit, 0).await
    }

    /// The newest ones first.
    pub async fn list_outgoing(&self, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
        self.db.fetch_readable(sql!("SELECT * FROM outbox ORDER BY id DESC LIMIT $1 OFFSET $2"), limit, 0).await
    }
}

/// Within a transaction that also writes what the message is about.
pub(super) async fn enqueue_in(tx: &mut Tx, new: &NewOutgoing, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(upsert(new, now)?).await.map(drop)
}

/// Answers with the row, or with none when the same was wanted already. While an older wish is being sent its row stays
/// with the sender, who puts it back; a row that GitHub asked to hold back is held back. One that was given up starts
/// over, but not as if it had never been tried.
fn upsert(new: &NewOutgoing, now: Timestamp) -> Result<Sql, StoreError> {
    let sql = sql!(
        "INSERT INTO outbox (id, key, codebase_id, conversation_id, outgoing, turn, version, sent_version, state,
                             attempts, not_before, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $8, 1, 0, 'pending', 0, $6, $7, $7)
         ON CONFLICT (key) DO UPDATE SET
             outgoing = excluded.outgoing,
             turn = excluded.turn,
             version = outbox.version + 1,
             attempts = CASE WHEN outbox.state = 'failed' THEN 1 ELSE outbox.attempts END,
             state = CASE WHEN outbox.state = 'sending' THEN 'sending' ELSE 'pending' END,
             not_before = CASE WHEN outbox.not_before > excluded.not_before AND outbox.state IN ('pending', 'sending')
                               THEN outbox.not_before ELSE excluded.not_before END,
             updated_at = excluded.updated_at
         WHERE outbox.outgoing <> excluded.outgoing
         RETURNING *"
    );
    Ok(sql
        .bind(new_id::<OutboxId>())
        .bind(&new.key)
        .bind(new.codebase)
        .bind(new.conversation)
        .bind_json(&new.outgoing)?
        .bind(new.not_before)
        .bind(now)
        .bind(new.turn as i64))
}
