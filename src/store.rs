//! The only SQL. Durable truth about deliveries, runs, environments and what is still to be said.
//!
//! One text for both engines; only [`db`] knows that there are two. Statements that claim work are single conditional
//! updates, so that racing workers take each row once. Times are passed in; ids are made here (UUIDv7).

mod codebases;
mod conversations;
mod db;
mod environments;
mod inbox;
mod outbox;
mod records;
mod runs;
mod web_sessions;

pub use codebases::NewCodebase;
pub use conversations::NewConversation;
pub use db::StoreError;
pub use environments::{EnvironmentFilter, Inserted, NewEnvironment};
pub use inbox::{Accepted, DeliveryEnd, InboxWriter, NewDelivery};
pub use outbox::{NewOutgoing, OutgoingEnd};
pub use runs::{NewRun, RunFilter};
pub use web_sessions::WebSessions;

use db::{Db, sql};

/// The database. A cheap handle.
#[derive(Clone)]
pub struct Store {
    db: Db,
}

/// Rows that are not yet at their end.
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

impl Store {
    /// `sqlite://<path>` (made when missing, readable by its owner only) or `postgres://…`.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Ok(Self { db: Db::open(url).await? })
    }

    /// Brings the schema up to date, under a lock. Refuses a schema from a newer version of this program.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        self.db.migrate().await
    }

    pub async fn ping(&self) -> Result<(), StoreError> {
        self.db.fetch_one(sql("SELECT count(*) AS rows FROM settings")).await.map(drop)
    }

    /// How much is waiting or under way.
    pub async fn unfinished(&self) -> Result<Unfinished, StoreError> {
        let row = self
            .db
            .fetch_one(sql("SELECT (SELECT count(*) FROM inbox WHERE state IN ('received', 'claimed')) AS deliveries,
                        (SELECT count(*) FROM runs WHERE state IN ('queued', 'preparing', 'running', 'delivering')) AS runs,
                        (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')) AS outgoing"))
            .await?;
        Ok(Unfinished { deliveries: row.int("deliveries")?, runs: row.int("runs")?, outgoing: row.int("outgoing")? })
    }

    /// Whether every statement of `texts` is one the engine accepts; the first refusal is returned. For tests and doctor.
    pub async fn check_statements(&self, texts: &[&'static str]) -> Result<(), StoreError> {
        self.db.prepare_all(texts).await
    }

    /// Tables with their columns, sorted: `table.column`.
    pub async fn schema(&self) -> Result<Vec<String>, StoreError> {
        self.db.columns().await
    }
}
