//! Numbers about the tables, for pages, metrics and for knowing that nothing is left to do.

use super::codec::{Column, FromRow};
use super::db::Row;
use super::sql::sql;
use super::{Answer, Store, StoreError};
use crate::model::{EnvironmentState, RunState, Timestamp};

/// How many rows are not over yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    pub deliveries: i64,
    pub runs: i64,
    pub outgoing: i64,
}

impl Unfinished {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl FromRow for Unfinished {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Unfinished { deliveries: row.get("deliveries")?, runs: row.get("runs")?, outgoing: row.get("outgoing")? })
    }
}

/// How many rows were given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    pub deliveries: i64,
    pub outgoing: i64,
}

impl FromRow for GivenUp {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(GivenUp { deliveries: row.get("deliveries")?, outgoing: row.get("outgoing")? })
    }
}

/// A state, and how many rows are in it.
impl<S: Column> FromRow for (S, i64) {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok((row.get("state")?, row.get("how_many")?))
    }
}

impl Store {
    pub async fn unfinished(&self) -> Result<Unfinished, StoreError> {
        let sql = sql!(
            "SELECT (SELECT count(*) FROM inbox WHERE state IN ('received', 'claimed')) AS deliveries,
                    (SELECT count(*) FROM runs WHERE state IN ('queued', 'preparing', 'running', 'delivering')) AS runs,
                    (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')) AS outgoing"
        );
        self.db.fetch_one(sql).await
    }

    /// Whether a lease has ended by now: of a delivery, a run, or what is being sent.
    pub async fn lease_has_ended(&self, now: Timestamp) -> Result<bool, StoreError> {
        let sql = sql!(
            "SELECT (SELECT count(*) FROM inbox WHERE state IN ('received', 'claimed') AND state = 'claimed' AND lease_until <= $1)
                  + (SELECT count(*) FROM runs
                     WHERE state IN ('preparing', 'running', 'delivering') AND lease_owner IS NOT NULL AND lease_until <= $1)
                  + (SELECT count(*) FROM outbox WHERE state = 'sending' AND lease_until <= $1) AS answer"
        );
        let ended: Answer = self.db.fetch_one(sql.bind(now)).await?;
        Ok(ended.0 > 0)
    }

    /// Since a moment; reactions are not counted.
    pub async fn given_up(&self, since: Timestamp) -> Result<GivenUp, StoreError> {
        let sql = sql!(
            "SELECT (SELECT count(*) FROM inbox WHERE state = 'failed' AND finished_at >= $1) AS deliveries,
                    (SELECT count(*) FROM outbox
                     WHERE state = 'failed' AND key NOT LIKE 'react/%' AND updated_at >= $1) AS outgoing"
        );
        self.db.fetch_one(sql.bind(since)).await
    }

    /// Runs that are not over. States without a row are left out.
    pub async fn run_counts(&self) -> Result<Vec<(RunState, i64)>, StoreError> {
        let sql = sql!(
            "SELECT state, count(*) AS how_many FROM runs
             WHERE state IN ('queued', 'preparing', 'running', 'delivering') GROUP BY state ORDER BY state"
        );
        self.db.fetch_all(sql).await
    }

    /// Live environments. States without a row are left out.
    pub async fn environment_counts(&self) -> Result<Vec<(EnvironmentState, i64)>, StoreError> {
        let sql = sql!(
            "SELECT state, count(*) AS how_many FROM isolation_environments
             WHERE state <> 'destroyed' GROUP BY state ORDER BY state"
        );
        self.db.fetch_all(sql).await
    }
}
