//! What is remembered: the only SQL in this program, over SQLite and PostgreSQL with one set of texts.
//!
//! What may not live here: policy, a clock, git, GitHub, or a sentence for a thread. Times are passed in; ids are made
//! here, so that the rows of one process sort in the order they were made.
//!
//! What the rest may rely on:
//! - What was answered with `Ok` is on disk.
//! - A claim takes a row for one owner until its lease ends, in one conditional `UPDATE`; racing claims never share a row.
//!   What an owner writes later is refused once the row has been claimed again (owner and attempts are the fence).
//! - A row that cannot be read stands in nobody's way: see `unreadable`.
//! - Rows that people change carry a version; a writer states the one it read, and [`StoreError::Conflict`] means that it
//!   has to look again.
//! - At most one live environment for a piece of work, a branch and a path; at most one live run for a conversation and
//!   for an environment; at most one delivery of a conversation in work, beside one request to stop: unique indexes over live rows only, so that what
//!   is over never stands in the way.
//!
//! Reading order: `sql` (a statement is a value), `db` (the one place that knows two engines), `codec`, then one file a
//! table.

mod approvals;
mod audit;
mod codebases;
mod codec;
mod conversations;
mod counts;
mod db;
mod disk_use;
mod environments;
mod error;
mod held;
mod imports;
mod inbox;
mod legacy;
mod maintenance;
mod messages;
mod outbox;
mod reachable;
mod receipts;
mod reports;
mod retention;
mod runs;
mod secrets;
mod sessions;
mod settings;
mod sql;
mod unreadable;
mod web_sessions;

pub use codebases::{NewCodebase, NewLocalCodebase};
pub use conversations::{NewConversation, NewNamedThread};
pub use counts::{GivenUp, Unfinished};
pub use db::{Alone, Holder};
pub use environments::{EnvironmentFilter, Inserted, NewEnvironment};
pub use error::{Lacking, StoreError};
pub use inbox::{Accepted, DeliveryEnd, DeliveryLine, InboxWriter, NewDelivery};
pub use legacy::{LegacyError, load_old_data};
pub use messages::{LocalActivity, NewLocalMessage};
pub use outbox::{NewOutgoing, OutgoingEnd, Sender};
pub use reachable::Reachable;
pub use retention::{Edge, Outlived};
pub use runs::{LeftBehind, NewRun, RunFilter};
pub use secrets::{AppSecrets, Sealer, StoredApp, Unopened};
pub use sessions::NewSession;
pub use settings::Disk;
pub use sql::{Statement, statements};
pub use web_sessions::WebSessions;

use crate::model::CodebaseMode;
use codec::FromRow;
use db::Db;
use error::corrupt;
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Mutex;

/// How long a statement waits for a connection or a lock, where nothing else is said.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// More than the longest pause that anybody asks for (an hour: see `retry` and GitHub's client), with what a clock is corrected
/// by. What is to wait for longer than this was written by a clock that has been put back since: it is due.
const LONGEST_PAUSE: Duration = Duration::from_secs(65 * 60);

/// The store. A cheap handle; all clones are one.
#[derive(Clone)]
pub struct Store {
    db: Arc<Db>,
    /// What a codebase starts in that is met for the first time.
    first_mode: CodebaseMode,
    /// Nothing of GitHub's is claimed.
    holds_github: Arc<AtomicBool>,
    /// Whoever claims deliveries: two at once would want the same rows, and wait for each other.
    claiming: Arc<Mutex<()>>,
}

/// How a database's tables stand to this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// There is no database, or none of Treewarden's tables in it.
    Missing,
    Older {
        found: i64,
        known: i64,
    },
    Current,
    Newer {
        found: i64,
        known: i64,
    },
}

impl Store {
    /// What stands in the database this URL names; changes nothing, not even makes its file.
    pub async fn schema(url: &str) -> Result<Schema, StoreError> {
        db::schema(url).await
    }

    /// Whether a live environment lies in `directory`, by the database this URL names; changes nothing.
    pub async fn is_lived_in(url: &str, directory: &Path) -> Result<bool, StoreError> {
        Ok(db::live_paths(url).await?.iter().any(|path| Path::new(path).starts_with(directory)))
    }

    /// Where one of its live environments lies, by the same: in `directory`, if any does. People's own lie elsewhere.
    pub async fn live_place(url: &str, directory: &Path) -> Result<Option<PathBuf>, StoreError> {
        let places = db::live_paths(url).await?.into_iter().map(PathBuf::from);
        Ok(places.max_by_key(|place| place.starts_with(directory)))
    }

    /// Takes the database this URL names for one service, or one command that changes rows as a service does; `name` says to
    /// others who has it. [`StoreError::InUse`] when another one has it.
    pub async fn take_alone(url: &str, name: &str) -> Result<Alone, StoreError> {
        db::take(url, name).await
    }

    /// Whether [`Store::take_alone`] would find that another one has it, and which; makes nothing.
    pub async fn is_free(url: &str) -> Result<(), StoreError> {
        match db::taken_by(url).await? {
            Some(name) => Err(StoreError::InUse(name)),
            None => Ok(()),
        }
    }

    /// Another process that has the file of a database to itself for longer than a statement waits. Only for a process that
    /// has not opened it.
    pub async fn holder(file: &Path) -> Option<Holder> {
        db::holder(file, PATIENCE).await
    }

    /// What belongs to a database that is a file and is no file itself: that one, its log, or the index of that.
    pub fn not_a_file(file: &Path) -> Option<PathBuf> {
        db::not_a_file(file)
    }

    /// The file by which a service has a database to itself that is a file.
    pub fn lock(url: &str) -> Option<PathBuf> {
        db::sqlite_path(url).map(db::lock_file)
    }

    /// The file of a database that is one.
    pub fn file(url: &str) -> Option<&Path> {
        db::sqlite_path(url)
    }

    /// Opens `sqlite://<path>` or `postgres://…`. Changes no table: see [`Store::migrate`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, PATIENCE).await
    }

    /// The same with another [`PATIENCE`].
    pub async fn open_with(url: &str, patience: Duration) -> Result<Self, StoreError> {
        Ok(Self {
            db: Arc::new(Db::open(url, patience).await?),
            first_mode: CodebaseMode::On,
            holds_github: Arc::default(),
            claiming: Arc::default(),
        })
    }

    /// The same store, in which a codebase that is met for the first time starts in `mode`.
    #[must_use]
    pub fn starting_in(self, mode: CodebaseMode) -> Self {
        Self { first_mode: mode, ..self }
    }

    /// While it is held, what is of GitHub waits: deliveries, runs, and what is to be sent there; what is of this machine goes
    /// on.
    pub fn hold_github(&self, held: bool) {
        self.holds_github.store(held, Ordering::Release);
    }

    fn holds_github(&self) -> bool {
        self.holds_github.load(Ordering::Acquire)
    }

    /// Brings the tables up to date, under a lock. Refuses a schema that is newer than this program.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        self.db.migrate(None).await
    }

    /// Like [`Store::migrate`], but only up to `version`.
    pub async fn migrate_to(&self, version: i64) -> Result<(), StoreError> {
        self.db.migrate(Some(version)).await
    }

    /// The schema versions this program knows, oldest first.
    pub fn schema_versions() -> Vec<i64> {
        db::versions()
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.db.fetch_one::<Answer>(sql::sql!("SELECT count(*) AS answer FROM settings")).await.map(drop)
    }

    /// What the engine says about when it flushes what is written: `wal 2` on SQLite means before it answers (a log, and
    /// `synchronous=FULL`), `on` on PostgreSQL means the same.
    pub async fn flushing(&self) -> Result<String, StoreError> {
        self.db.flushing().await
    }

    /// Has the database prepare every statement of this program and answers with those it does not understand, each as
    /// `file:line: why`.
    pub async fn check_statements(&self) -> Vec<String> {
        let mut misunderstood = Vec::new();
        for statement in sql::statements() {
            if let Err(error) = self.db.prepare(statement.text).await {
                misunderstood.push(format!("{}:{}: {error}", statement.file, statement.line));
            }
        }
        misunderstood
    }

    /// Finishes what is under way and closes all connections; every later call fails.
    pub async fn close(&self) {
        self.db.close().await;
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

/// A row with one number, `answer`.
struct Answer(i64);

impl FromRow for Answer {
    fn from_row(row: &db::Row) -> Result<Self, StoreError> {
        row.get("answer").map(Answer)
    }
}
