//! Handing runs out under leases, and taking them back from owners that are gone.

use super::super::codec::FromRow;
use super::super::db::{RawId, Row, Tx};
use super::super::settings::pass_gate;
use super::super::sql::{Sql, sql};
use super::super::unreadable::{Taken, take};
use super::super::{Answer, NewOutgoing, Store, StoreError, outbox};
use crate::model::*;
use std::time::Duration;

/// Losing this often in a row means that others are at it; the caller comes back soon.
const TRIES: usize = 8;

/// The runs of an owner that is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftBehind {
    pub runs: Vec<Run>,
    /// Those that cannot be read and were marked as failed. What may still be at work for them is known by the id only.
    pub unreadable: Vec<RunId>,
}

/// A run in the queue.
struct Waits(RunId);

impl FromRow for Waits {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("id").map(Waits)
    }
}

/// Whether a run is to stop.
struct Asked(bool);

impl FromRow for Asked {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("cancel_requested").map(Asked)
    }
}

/// Whether a run waits for another one: an older one of its conversation that is not over, or one at work in its environment.
macro_rules! held_up {
    () => {
        "(EXISTS (SELECT 1 FROM runs AS other
                  WHERE other.conversation_id = next.conversation_id AND other.id < next.id
                    AND other.state IN ('queued', 'preparing', 'running', 'delivering'))
          OR EXISTS (SELECT 1 FROM runs AS other
                     WHERE other.environment_id = next.environment_id AND other.id <> next.id
                       AND other.state IN ('preparing', 'running', 'delivering')))"
    };
}

/// How many runs of its codebase are at work beside those that are queued.
macro_rules! busy {
    () => {
        "(SELECT count(*) FROM runs AS other
          WHERE other.codebase_id = next.codebase_id AND other.state IN ('preparing', 'running', 'delivering'))"
    };
}

/// The run that goes next: `$1` is how many may be at work at once. Interrupted ones (they prepared or delivered, and were
/// taken from their owner) before queued ones; then of the codebase with the fewest at work; then the oldest. Never one that
/// is held up. Interrupted ones that nobody holds are not at work: they must not keep each other from being taken up.
///
/// A lease that ended is none that was taken back: its owner may be alive, see [`Store::take_over_expired_runs`].
macro_rules! next_run {
    () => {
        concat!(
            "SELECT id FROM runs AS next
         WHERE state IN ('queued', 'preparing', 'running', 'delivering')
           AND (state = 'queued'
                OR (state IN ('preparing', 'delivering') AND lease_owner IS NULL))
           AND (NOT $2 OR EXISTS (SELECT 1 FROM codebases AS home
                                  WHERE home.id = next.codebase_id AND home.local_path IS NOT NULL))
           AND NOT ",
            held_up!(),
            " AND (SELECT count(*) FROM runs AS other
                WHERE other.state IN ('preparing', 'running', 'delivering') AND other.id <> next.id
                  AND (other.state = 'running' OR other.lease_owner IS NOT NULL)) < $1
         ORDER BY CASE WHEN state = 'queued' THEN 1 ELSE 0 END, ",
            busy!(),
            ", id LIMIT 1"
        )
    };
}

impl Store {
    /// Takes the next run for `owner` until `now + lease`, unless `max_live` others are at work. A queued run becomes
    /// `preparing`; an interrupted one goes on in its stage. One that cannot be read is marked as failed.
    pub async fn claim_run(
        &self,
        owner: &str,
        now: Timestamp,
        lease: Duration,
        max_live: u32,
    ) -> Result<Option<Run>, StoreError> {
        let mut lost = 0;
        while lost < TRIES {
            if !self.run_is_due(max_live).await? {
                return Ok(None);
            }
            let mut tx = self.db.begin().await?;
            match claim(&mut tx, (owner, now.plus(lease)), now, max_live, self.holds_github()).await {
                Ok(taken) if taken.is_empty() => lost += 1,
                Ok(mut taken) => {
                    tx.commit().await?;
                    if let Some(run) = taken.rows.pop() {
                        return Ok(Some(run));
                    }
                }
                Err(error) if error.is_conflict() => lost += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The queue in the order in which its runs are claimed, if none of those at work ends before: in turn of the codebases,
    /// each run counted as at work for those behind it; then those that are held up.
    pub async fn queue(&self) -> Result<Vec<RunId>, StoreError> {
        let sql = sql!(concat!(
            "SELECT id FROM (
                 SELECT id, held, busy + row_number() OVER (PARTITION BY codebase_id, held ORDER BY id) AS turn
                 FROM (SELECT id, codebase_id, CASE WHEN ",
            held_up!(),
            " THEN 1 ELSE 0 END AS held, ",
            busy!(),
            " AS busy FROM runs AS next WHERE state = 'queued') AS waiting) AS queue
             ORDER BY held, turn, id"
        ));
        let waits: Vec<Waits> = self.db.fetch_all(sql).await?;
        Ok(waits.into_iter().map(|Waits(id)| id).collect())
    }

    /// How many queued runs go before this one.
    pub async fn queue_place(&self, id: RunId) -> Result<u32, StoreError> {
        let place = self.queue().await?.into_iter().position(|waits| waits == id).unwrap_or_default();
        Ok(place.try_into().unwrap_or(u32::MAX))
    }

    /// Wants what is to be said of a run as long as it waits: whoever claims it has the last word. False: it does not wait
    /// any more.
    pub async fn enqueue_while_queued(
        &self,
        run: RunId,
        new: &NewOutgoing,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        // The run's row is the gate: it is claimed before this, or after.
        let gate = sql!("UPDATE runs SET state = state WHERE id = $1 AND state = 'queued'");
        if tx.execute(gate.bind(run)).await? == 0 {
            return Ok(false);
        }
        outbox::enqueue_in(&mut tx, new, now).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Looking first keeps idle workers away from the writing connection.
    async fn run_is_due(&self, max_live: u32) -> Result<bool, StoreError> {
        let sql = sql!(concat!("SELECT count(*) AS answer FROM (", next_run!(), ") AS due"));
        let due: Answer = self.db.fetch_one(sql.bind(i64::from(max_live)).bind(self.holds_github())).await?;
        Ok(due.0 > 0)
    }

    /// Keeps a lease until `until` and brings along whether somebody asked the run to stop. `None`: the lease is lost.
    pub async fn heartbeat_run(&self, run: &Run, owner: &str, until: Timestamp) -> Result<Option<bool>, StoreError> {
        let sql = sql!(
            "UPDATE runs SET lease_until = $4
             WHERE id = $1 AND lease_owner = $2 AND attempts = $3 AND state IN ('preparing', 'running', 'delivering')
             RETURNING cancel_requested"
        );
        let sql = sql.bind(run.id).bind(owner).bind(run.attempts).bind(until);
        let held: Option<Asked> = self.db.fetch_optional(sql).await?;
        Ok(held.map(|asked| asked.0))
    }

    /// Puts a run that cannot start now back where it was in the queue, bound to the environment it waits for. Its work has
    /// not begun. False when the lease was lost.
    pub async fn requeue_run(&self, run: &Run, owner: &str, environment: EnvironmentId) -> Result<bool, StoreError> {
        let sql = sql!(
            "UPDATE runs SET state = 'queued', environment_id = $4, started_at = NULL, lease_owner = NULL, lease_until = NULL
             WHERE id = $1 AND lease_owner = $2 AND attempts = $3 AND state = 'preparing'"
        );
        Ok(self.db.execute(sql.bind(run.id).bind(owner).bind(run.attempts).bind(environment)).await? > 0)
    }

    /// Ends all claims an owner had before it was restarted, and answers with their runs. Those that prepared or delivered
    /// are claimed again by whoever is next. Those whose agent was at work stay with the owner, who ends them with
    /// [`Store::finish_run`]; until it has, they are answered again.
    pub async fn release_runs_of(&self, owner: &str, now: Timestamp) -> Result<LeftBehind, StoreError> {
        let sql = sql!(
            "UPDATE runs SET lease_owner = CASE WHEN state = 'running' THEN lease_owner ELSE NULL END,
                             attempts = attempts + 1
             WHERE state IN ('preparing', 'running', 'delivering') AND lease_owner = $1
             RETURNING *"
        );
        self.take_over(sql.bind(owner), now).await
    }

    /// The same for claims whose lease ended, whoever had them: runs whose agent was at work go to `owner`.
    pub async fn take_over_expired_runs(&self, owner: &str, now: Timestamp) -> Result<LeftBehind, StoreError> {
        let sql = sql!(
            "UPDATE runs SET lease_owner = CASE WHEN state = 'running' THEN $1 ELSE NULL END, attempts = attempts + 1
             WHERE state IN ('preparing', 'running', 'delivering') AND lease_owner IS NOT NULL AND lease_until <= $2
             RETURNING *"
        );
        self.take_over(sql.bind(owner).bind(now), now).await
    }

    async fn take_over(&self, sql: Sql, now: Timestamp) -> Result<LeftBehind, StoreError> {
        let mut tx = self.db.begin().await?;
        let taken = take(&mut tx, sql, now).await?;
        tx.commit().await?;
        Ok(LeftBehind { runs: taken.rows, unreadable: taken.unreadable.iter().filter_map(RawId::known).collect() })
    }
}

async fn claim(
    tx: &mut Tx,
    (owner, until): (&str, Timestamp),
    now: Timestamp,
    max_live: u32,
    held: bool,
) -> Result<Taken<Run>, StoreError> {
    // How many are at work is a fact about all rows: whoever counts must count alone.
    pass_gate(tx, "claim-run", now).await?;
    let sql = sql!(concat!(
        "UPDATE runs SET state = CASE WHEN state = 'queued' THEN 'preparing' ELSE state END, attempts = attempts + 1,
                         lease_owner = $3, lease_until = $4
         WHERE id = (",
        next_run!(),
        ") AND state IN ('queued', 'preparing', 'delivering') RETURNING *"
    ));
    take(tx, sql.bind(i64::from(max_live)).bind(held).bind(owner).bind(until), now).await
}
