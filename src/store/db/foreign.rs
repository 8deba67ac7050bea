//! A database of another program, opened so that nothing in it can change: a SQLite file without making side files, a
//! PostgreSQL in one read-only transaction. Every column comes back as text, whatever its type.

use super::open::sqlite_path;
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, Row as _, SqliteConnection, postgres::PgConnectOptions,
    sqlite::SqliteConnectOptions,
};
use std::{collections::BTreeMap, fs::File, io::Read, path::Path, str::FromStr, time::Duration};

const PATIENCE: Duration = Duration::from_secs(10);
/// Source: "Database File Format", the header string, and the version of the format that readers need.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const READ_VERSION: usize = 19;
const WITH_LOG: u8 = 2;

/// Why it cannot be opened or read.
#[derive(Debug)]
pub(in crate::store) enum ForeignError {
    Url(&'static str),
    NoFile,
    NoDatabase,
    Failed(String),
}

/// The open database.
pub(in crate::store) enum Foreign {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Foreign {
    pub async fn open(url: &str) -> Result<Self, ForeignError> {
        match sqlite_path(url) {
            Some(path) => open_file(path).await,
            None => open_server(url).await,
        }
    }

    /// The names of a table's columns; none when there is no such table. A view is none: it may compute for ever.
    pub async fn columns(&mut self, table: &str) -> Result<Vec<String>, ForeignError> {
        match self {
            Foreign::Sqlite(connection) => {
                sqlx::query_scalar(
                    "SELECT name FROM pragma_table_info($1)
                     WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE name = $1 AND type = 'table')",
                )
                .bind(table)
                .fetch_all(connection)
                .await
            }
            Foreign::Postgres(connection) => {
                sqlx::query_scalar(
                    "SELECT attname::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
                     WHERE attrelid = to_regclass($1) AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped",
                )
                .bind(table)
                .fetch_all(connection)
                .await
            }
        }
        .map_err(failed)
    }

    /// All rows, with these columns of theirs that have a value. Both names are this program's own.
    pub async fn rows(
        &mut self,
        table: &str,
        columns: &[&'static str],
    ) -> Result<Vec<BTreeMap<&'static str, String>>, ForeignError> {
        let as_text: Vec<String> = match self {
            Foreign::Sqlite(_) => columns.iter().map(|name| format!("CAST(\"{name}\" AS BLOB)")).collect(),
            Foreign::Postgres(_) => {
                columns.iter().map(|name| format!("convert_to(\"{name}\"::text, 'UTF8')")).collect()
            }
        };
        // Of two rows for one thing the one that comes first counts, so the order is always the same.
        let text = format!("SELECT {} FROM {table} ORDER BY 1", as_text.join(", "));
        let values: Vec<Vec<Option<Vec<u8>>>> = match self {
            Foreign::Sqlite(connection) => {
                let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(connection).await.map_err(failed)?;
                rows.iter().map(|row| (0..columns.len()).map(|at| row.try_get(at)).collect()).collect::<Result<_, _>>()
            }
            Foreign::Postgres(connection) => {
                let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(connection).await.map_err(failed)?;
                rows.iter().map(|row| (0..columns.len()).map(|at| row.try_get(at)).collect()).collect::<Result<_, _>>()
            }
        }
        .map_err(failed)?;
        let named = |row: Vec<Option<Vec<u8>>>| {
            let filled = columns.iter().zip(row).filter_map(|(name, value)| Some((*name, value?)));
            filled.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())).collect()
        };
        Ok(values.into_iter().map(named).collect())
    }

    pub async fn close(self) {
        let _ = match self {
            Foreign::Sqlite(connection) => connection.close().await,
            Foreign::Postgres(connection) => connection.close().await,
        };
    }
}

async fn open_file(path: &Path) -> Result<Foreign, ForeignError> {
    let mut header = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(100).read_to_end(&mut header).map_err(|error| ForeignError::Failed(error.to_string()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(ForeignError::NoFile),
        Err(error) => return Err(ForeignError::Failed(error.to_string())),
    };
    if !header.starts_with(MAGIC) || header.len() < 100 {
        return Err(ForeignError::NoDatabase);
    }
    // With a log, a reader makes side files, unless it may take the file for unchanging: when no log is there, nobody has it
    // open. Without one, readers leave nothing behind.
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let unchanging = header[READ_VERSION] == WITH_LOG && !Path::new(&log).exists();
    let options = SqliteConnectOptions::new().filename(path).read_only(true).immutable(unchanging);
    let mut connection = SqliteConnection::connect_with(&options.busy_timeout(PATIENCE)).await.map_err(failed)?;
    sqlx::query("BEGIN").execute(&mut connection).await.map_err(failed)?;
    Ok(Foreign::Sqlite(connection))
}

async fn open_server(url: &str) -> Result<Foreign, ForeignError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(ForeignError::Url("it names no engine this program knows"));
    }
    // What the parser says may repeat parts of the address.
    let options =
        PgConnectOptions::from_str(url).map_err(|_| ForeignError::Url("it is not written as it should be"))?;
    let connecting = tokio::time::timeout(PATIENCE, PgConnection::connect_with(&options));
    let mut connection = match connecting.await {
        Ok(connected) => connected.map_err(failed)?,
        Err(_) => return Err(ForeignError::Failed("it does not answer".to_owned())),
    };
    for text in
        ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "SET LOCAL datestyle = ISO", "SET LOCAL timezone = UTC"]
    {
        sqlx::query(text).execute(&mut connection).await.map_err(failed)?;
    }
    Ok(Foreign::Postgres(connection))
}

fn failed(error: sqlx::Error) -> ForeignError {
    match &error {
        sqlx::Error::Database(refusal) if refusal.code().as_deref() == Some("26") => ForeignError::NoDatabase,
        sqlx::Error::Database(refusal) => ForeignError::Failed(refusal.message().to_owned()),
        _ => ForeignError::Failed(error.to_string()),
    }
}
