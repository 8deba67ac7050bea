//! Handing runs out under leases, and taking them back from owners that are gone.

use super::super::codec::FromRow;
use super::super::db::{RawId, Row, Tx};
use super::super::settings::pass_gate;
use super::super::sql::{Sql, sql};
use super::super::unreadable::{Taken, take};
use super::super::{Answer, Store, StoreError};
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

/// Whether a run is to stop.
struct Asked(bool);

impl FromRow for Asked {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("cancel_requested").map(Asked)
    }
}

/// The run that goes next: `$1` is now, `$2` how many may be at work at once. Interrupted ones (their lease ended while
/// they prepared or delivered) before queued ones; then of the codebase with the fewest at work; then the oldest. Never one
/// whose conversation has an older run that is not over, or whose environment has another one at work. Interrupted
/// ones that nobody holds are not at work: they must not keep each other from being taken up.
macro_rules! next_run {
    () => {
        "SELECT id FROM runs AS next
         WHERE state IN ('queued', 'preparing', 'running', 'delivering')
           AND (state = 'queued'
                OR (state IN ('preparing', 'delivering') AND (lease_owner IS NULL OR lease_until <= $1)))
           AND NOT EXISTS (SELECT 1 FROM runs AS other
                           WHERE other.conversation_id = next.conversation_id AND other.id < next.id
                             AND other.state IN ('queued', 'preparing', 'running', 'delivering'))
           AND NOT EXISTS (SELECT 1 FROM runs AS other
                           WHERE other.environment_id = next.environment_id AND other.id <> next.id
                             AND other.state IN ('preparing', 'running', 'delivering'))
           AND (SELECT count(*) FROM runs AS other
                WHERE other.state IN ('preparing', 'running', 'delivering') AND other.id <> next.id
                  AND (other.state = 'running' OR (other.lease_owner IS NOT NULL AND other.lease_until > $1))) < $2
         ORDER BY CASE WHEN state = 'queued' THEN 1 ELSE 0 END,
                  (SELECT count(*) FROM runs AS other
                   WHERE other.codebase_id = next.codebase_id
                     AND other.state IN ('preparing', 'running', 'delivering')),
                  id
         LIMIT 1"
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
            if !self.run_is_due(now, max_live).await? {
                return Ok(None);
            }
            let mut tx = self.db.begin().await?;
            match claim(&mut tx, owner, now, lease, max_live).await {
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

    /// Looking first keeps idle workers away from the writing connection.
    async fn run_is_due(&self, now: Timestamp, max_live: u32) -> Result<bool, StoreError> {
        let sql = sql!(concat!("SELECT count(*) AS answer FROM (", next_run!(), ") AS due"));
        let due: Answer = self.db.fetch_one(sql.bind(now).bind(i64::from(max_live))).await?;
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
    owner: &str,
    now: Timestamp,
    lease: Duration,
    max_live: u32,
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
    take(tx, sql.bind(now).bind(i64::from(max_live)).bind(owner).bind(now.plus(lease)), now).await
}
