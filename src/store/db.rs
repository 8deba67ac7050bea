//! The seam: statements as values, and the one place that knows there are two engines.
//!
//! SQLite keeps ids, times and JSON as readable text; PostgreSQL as UUID, TIMESTAMPTZ and JSONB. Reads on SQLite go to a
//! pool of read-only connections, everything else to its single write connection.

use crate::model::Timestamp;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{
    Executor, PgPool, Postgres, Row as _, Sqlite, SqlitePool, Transaction,
    migrate::{MigrateError, Migrator},
    postgres::{PgPoolOptions, PgRow},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
    types::Json,
};
use std::{path::Path, str::FromStr, time::Duration};
use uuid::Uuid;

static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const READERS: u32 = 4;
const POSTGRES_CONNECTIONS: u32 = 10;

/// What can go wrong with the database, as far as callers tell it apart.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database is not available: {0}")]
    Unavailable(sqlx::Error),
    #[error("the database is busy")]
    Busy,
    #[error("another row already stands for this")]
    Conflict,
    #[error("the row was changed by somebody else in the meantime")]
    Stale,
    #[error("the inbox is full; the delivery was not taken")]
    Full,
    #[error("the database was written by a newer version (migration {0}); start that version, or restore a backup")]
    NewerSchema(i64),
    #[error("a stored value is not understood: {0}")]
    Corrupt(String),
    #[error("the database URL is not usable: {0}")]
    BadUrl(String),
    #[error("database error: {0}")]
    Other(sqlx::Error),
}

impl StoreError {
    /// Whether trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            StoreError::Unavailable(_) | StoreError::Busy | StoreError::Stale | StoreError::Full => true,
            StoreError::Conflict
            | StoreError::NewerSchema(_)
            | StoreError::Corrupt(_)
            | StoreError::BadUrl(_)
            | StoreError::Other(_) => false,
        }
    }

    /// A unique index refused the row.
    pub fn is_conflict(&self) -> bool {
        matches!(self, StoreError::Conflict)
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) if database.is_unique_violation() => StoreError::Conflict,
            // SQLITE_BUSY and its extended codes; SQLITE_FULL means the disk.
            sqlx::Error::Database(database) if matches!(database.code().as_deref(), Some("5" | "261" | "517")) => {
                StoreError::Busy
            }
            sqlx::Error::Database(database) if matches!(database.code().as_deref(), Some("13" | "53100")) => {
                StoreError::Unavailable(error)
            }
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                StoreError::Unavailable(error)
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => StoreError::Corrupt(error.to_string()),
            _ => StoreError::Other(error),
        }
    }
}

/// A value on its way into a statement. NULLs carry their type.
#[derive(Clone, Debug)]
pub(super) enum Param {
    Text(Option<String>),
    Int(Option<i64>),
    Bool(bool),
    Id(Option<Uuid>),
    Time(Option<Timestamp>),
    Json(Option<serde_json::Value>),
    Bytes(Vec<u8>),
}

/// A statement: a text both engines understand, and its parameters in order.
#[derive(Clone, Debug)]
pub(super) struct Sql {
    text: &'static str,
    params: Vec<Param>,
}

pub(super) fn sql(text: &'static str) -> Sql {
    Sql { text, params: Vec::new() }
}

impl Sql {
    fn with(mut self, param: Param) -> Self {
        self.params.push(param);
        self
    }

    pub fn text(self, value: impl Into<String>) -> Self {
        self.with(Param::Text(Some(value.into())))
    }

    pub fn text_opt(self, value: Option<impl Into<String>>) -> Self {
        self.with(Param::Text(value.map(Into::into)))
    }

    pub fn int(self, value: i64) -> Self {
        self.with(Param::Int(Some(value)))
    }

    pub fn int_opt(self, value: Option<i64>) -> Self {
        self.with(Param::Int(value))
    }

    pub fn bool(self, value: bool) -> Self {
        self.with(Param::Bool(value))
    }

    pub fn id(self, value: Uuid) -> Self {
        self.with(Param::Id(Some(value)))
    }

    pub fn id_opt(self, value: Option<Uuid>) -> Self {
        self.with(Param::Id(value))
    }

    pub fn time(self, value: Timestamp) -> Self {
        self.with(Param::Time(Some(value)))
    }

    pub fn time_opt(self, value: Option<Timestamp>) -> Self {
        self.with(Param::Time(value))
    }

    pub fn json(self, value: &impl Serialize) -> Self {
        self.with(Param::Json(Some(serde_json::to_value(value).unwrap_or_default())))
    }

    pub fn json_opt(self, value: Option<&impl Serialize>) -> Self {
        self.with(Param::Json(value.map(|value| serde_json::to_value(value).unwrap_or_default())))
    }

    pub fn bytes(self, value: Vec<u8>) -> Self {
        self.with(Param::Bytes(value))
    }

    fn reads(&self) -> bool {
        self.text.starts_with("SELECT")
    }

    fn for_sqlite(self) -> sqlx::query::Query<'static, Sqlite, sqlx::sqlite::SqliteArguments> {
        self.params.into_iter().fold(sqlx::query(self.text), |query, param| match param {
            Param::Text(value) => query.bind(value),
            Param::Int(value) => query.bind(value),
            Param::Bool(value) => query.bind(value),
            Param::Id(value) => query.bind(value.map(|id| id.to_string())),
            Param::Time(value) => query.bind(value.map(time_text)),
            Param::Json(value) => query.bind(value.map(|json| json.to_string())),
            Param::Bytes(value) => query.bind(value),
        })
    }

    fn for_postgres(self) -> sqlx::query::Query<'static, Postgres, sqlx::postgres::PgArguments> {
        self.params.into_iter().fold(sqlx::query(self.text), |query, param| match param {
            Param::Text(value) => query.bind(value),
            Param::Int(value) => query.bind(value),
            Param::Bool(value) => query.bind(value),
            Param::Id(value) => query.bind(value),
            Param::Time(value) => query.bind(value.map(Timestamp::datetime)),
            Param::Json(value) => query.bind(value.map(Json)),
            Param::Bytes(value) => query.bind(value),
        })
    }
}

/// Fixed width, so that text order is time order.
fn time_text(time: Timestamp) -> String {
    time.datetime().to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// A row of either engine; columns are read by name into our types.
pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

macro_rules! column {
    ($self:ident, $name:ident, $kind:ty) => {
        match $self {
            Row::Sqlite(row) => row.try_get::<$kind, _>($name)?,
            Row::Postgres(row) => row.try_get::<$kind, _>($name)?,
        }
    };
}

impl Row {
    pub fn text(&self, name: &str) -> Result<String, StoreError> {
        Ok(column!(self, name, String))
    }

    pub fn text_opt(&self, name: &str) -> Result<Option<String>, StoreError> {
        Ok(column!(self, name, Option<String>))
    }

    pub fn int(&self, name: &str) -> Result<i64, StoreError> {
        Ok(column!(self, name, i64))
    }

    pub fn int_opt(&self, name: &str) -> Result<Option<i64>, StoreError> {
        Ok(column!(self, name, Option<i64>))
    }

    pub fn bool(&self, name: &str) -> Result<bool, StoreError> {
        Ok(column!(self, name, bool))
    }

    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        Ok(column!(self, name, Vec<u8>))
    }

    pub fn id(&self, name: &str) -> Result<Uuid, StoreError> {
        self.id_opt(name)?.ok_or_else(|| corrupt(name, "an id is missing"))
    }

    pub fn id_opt(&self, name: &str) -> Result<Option<Uuid>, StoreError> {
        match self {
            Row::Sqlite(row) => parsed(name, row.try_get(name)?),
            Row::Postgres(row) => Ok(row.try_get(name)?),
        }
    }

    pub fn time(&self, name: &str) -> Result<Timestamp, StoreError> {
        self.time_opt(name)?.ok_or_else(|| corrupt(name, "a time is missing"))
    }

    pub fn time_opt(&self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        let moment: Option<DateTime<Utc>> = match self {
            Row::Sqlite(row) => parsed(name, row.try_get(name)?)?,
            Row::Postgres(row) => row.try_get(name)?,
        };
        Ok(moment.map(Timestamp::new))
    }

    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        self.json_opt(name)?.ok_or_else(|| corrupt(name, "a value is missing"))
    }

    pub fn json_opt<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let value: Option<serde_json::Value> = match self {
            Row::Sqlite(row) => parsed(name, row.try_get(name)?)?,
            Row::Postgres(row) => row.try_get::<Option<Json<_>>, _>(name)?.map(|Json(value)| value),
        };
        value.map(|value| serde_json::from_value(value).map_err(|error| corrupt(name, error))).transpose()
    }

    /// A text that one of our checked types understands.
    pub fn parse<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<T, StoreError> {
        self.text(name)?.parse().map_err(|error| corrupt(name, error))
    }

    pub fn try_into<T: TryFrom<String, Error: std::fmt::Display>>(&self, name: &str) -> Result<Option<T>, StoreError> {
        self.text_opt(name)?.map(|text| T::try_from(text).map_err(|error| corrupt(name, error))).transpose()
    }
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(name: &str, text: Option<String>) -> Result<Option<T>, StoreError> {
    text.map(|text| text.parse().map_err(|error| corrupt(name, error))).transpose()
}

pub(super) fn corrupt(name: &str, why: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("column {name}: {why}"))
}

/// Connections to one database.
#[derive(Clone)]
pub(super) enum Db {
    Sqlite { read: SqlitePool, write: SqlitePool },
    Postgres(PgPool),
}

/// A transaction; rolled back when dropped.
pub(super) enum Tx {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl Db {
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        match url.split_once("://") {
            Some(("sqlite", path)) => Self::open_sqlite(Path::new(path)).await,
            Some(("postgres" | "postgresql", _)) => {
                let pool = PgPoolOptions::new()
                    .max_connections(POSTGRES_CONNECTIONS)
                    .acquire_timeout(BUSY_TIMEOUT)
                    .connect(url)
                    .await
                    .map_err(StoreError::Unavailable)?;
                Ok(Db::Postgres(pool))
            }
            _ => Err(StoreError::BadUrl("expected sqlite://<path> or postgres://…".to_owned())),
        }
    }

    async fn open_sqlite(path: &Path) -> Result<Self, StoreError> {
        create_private_file(path).map_err(|error| StoreError::BadUrl(format!("{}: {error}", path.display())))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            // Durable before a delivery is acknowledged, also when the power goes.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true);
        let write = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(30))
            .connect_with(options.clone())
            .await
            .map_err(StoreError::Unavailable)?;
        let read = SqlitePoolOptions::new()
            .max_connections(READERS)
            .connect_with(options.read_only(true))
            .await
            .map_err(StoreError::Unavailable)?;
        Ok(Db::Sqlite { read, write })
    }

    pub async fn migrate(&self) -> Result<(), StoreError> {
        let outcome = match self {
            Db::Sqlite { write, .. } => SQLITE_MIGRATIONS.run(write).await,
            Db::Postgres(pool) => POSTGRES_MIGRATIONS.run(pool).await,
        };
        outcome.map_err(|error| match error {
            MigrateError::VersionMissing(version) | MigrateError::VersionTooNew(version, _) => {
                StoreError::NewerSchema(version)
            }
            MigrateError::Execute(error) => error.into(),
            error => StoreError::Other(error.into()),
        })
    }

    pub async fn execute(&self, sql: Sql) -> Result<u64, StoreError> {
        Ok(match self {
            Db::Sqlite { write, .. } => sql.for_sqlite().execute(write).await?.rows_affected(),
            Db::Postgres(pool) => sql.for_postgres().execute(pool).await?.rows_affected(),
        })
    }

    pub async fn fetch_optional(&self, sql: Sql) -> Result<Option<Row>, StoreError> {
        Ok(match self {
            Db::Sqlite { read, write } => {
                let pool = if sql.reads() { read } else { write };
                sql.for_sqlite().fetch_optional(pool).await?.map(Row::Sqlite)
            }
            Db::Postgres(pool) => sql.for_postgres().fetch_optional(pool).await?.map(Row::Postgres),
        })
    }

    pub async fn fetch_one(&self, sql: Sql) -> Result<Row, StoreError> {
        self.fetch_optional(sql).await?.ok_or(StoreError::Other(sqlx::Error::RowNotFound))
    }

    pub async fn fetch_all(&self, sql: Sql) -> Result<Vec<Row>, StoreError> {
        Ok(match self {
            Db::Sqlite { read, write } => {
                let pool = if sql.reads() { read } else { write };
                sql.for_sqlite().fetch_all(pool).await?.into_iter().map(Row::Sqlite).collect()
            }
            Db::Postgres(pool) => sql.for_postgres().fetch_all(pool).await?.into_iter().map(Row::Postgres).collect(),
        })
    }

    pub async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(match self {
            // Taking the write lock at once: a later upgrade from reading could fail whatever the time-out.
            Db::Sqlite { write, .. } => Tx::Sqlite(write.begin_with("BEGIN IMMEDIATE").await?),
            Db::Postgres(pool) => Tx::Postgres(pool.begin().await?),
        })
    }

    pub async fn prepare_all(&self, texts: &[&'static str]) -> Result<(), StoreError> {
        for text in texts {
            match self {
                Db::Sqlite { read, .. } => drop(read.prepare(sqlx::SqlStr::from_static(text)).await?),
                Db::Postgres(pool) => drop(pool.prepare(sqlx::SqlStr::from_static(text)).await?),
            }
        }
        Ok(())
    }

    pub async fn columns(&self) -> Result<Vec<String>, StoreError> {
        const SQLITE: &str = "SELECT m.name || '.' || c.name AS name FROM sqlite_schema m, pragma_table_info(m.name) c \
                              WHERE m.type = 'table' ORDER BY 1";
        const POSTGRES: &str = "SELECT table_name || '.' || column_name AS name FROM information_schema.columns \
                                WHERE table_schema = current_schema() ORDER BY 1";
        let text = match self {
            Db::Sqlite { .. } => SQLITE,
            Db::Postgres(_) => POSTGRES,
        };
        let mut names = Vec::new();
        for row in self.fetch_all(sql(text)).await? {
            names.push(row.text("name")?);
        }
        names.retain(|name| !name.starts_with("_sqlx_") && !name.starts_with("sqlite_"));
        names.sort();
        Ok(names)
    }
}

impl Tx {
    pub async fn execute(&mut self, sql: Sql) -> Result<u64, StoreError> {
        Ok(match self {
            Tx::Sqlite(tx) => sql.for_sqlite().execute(&mut **tx).await?.rows_affected(),
            Tx::Postgres(tx) => sql.for_postgres().execute(&mut **tx).await?.rows_affected(),
        })
    }

    pub async fn fetch_optional(&mut self, sql: Sql) -> Result<Option<Row>, StoreError> {
        Ok(match self {
            Tx::Sqlite(tx) => sql.for_sqlite().fetch_optional(&mut **tx).await?.map(Row::Sqlite),
            Tx::Postgres(tx) => sql.for_postgres().fetch_optional(&mut **tx).await?.map(Row::Postgres),
        })
    }

    pub async fn commit(self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.commit().await?,
            Tx::Postgres(tx) => tx.commit().await?,
        }
        Ok(())
    }
}

/// SQLite would create the file readable by everybody.
fn create_private_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    if path.exists() {
        return Ok(());
    }
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(drop)
}
