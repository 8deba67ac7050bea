//! From a URL to an open database, and from any known schema to the newest.

use super::super::{PATIENCE, Schema, StoreError, legacy};
use super::{Db, failure::explain};
use sqlx::{
    Connection, PgConnection, SqliteConnection,
    migrate::{MigrateError, Migrator},
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

/// Where it is remembered which migrations were carried out; other programs have one of this name, too.
const MIGRATIONS: &str = "_sqlx_migrations";
const APPLIED: &str = "SELECT version, checksum, success FROM _sqlx_migrations ORDER BY version";
const SQLITE_TABLES: &str =
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name";
/// Of the schema that new tables go to, without those that an extension brought.
const POSTGRES_TABLES: &str = "SELECT c.relname::text FROM pg_class c
    WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND c.relkind IN ('r', 'p', 'f')
        AND NOT EXISTS (SELECT FROM pg_depend d
            WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
    ORDER BY 1";
const LIVE_PATHS: &str = "SELECT path FROM isolation_environments WHERE state <> 'destroyed'";
const KNOWN_DISK: &str = "SELECT CAST(value AS TEXT) FROM settings WHERE key = 'worktrees/disk'";
const STORED_APP: &str = "SELECT CAST(value AS TEXT) FROM settings WHERE key = 'app/credentials'";
const A_DELIVERY: &str = "SELECT event FROM inbox WHERE event <> 'local' LIMIT 1";
const REACHABLE: &str =
    "SELECT CAST(installation_id AS TEXT) || ' ' || CAST(github_id AS TEXT) || ' ' || name FROM codebases
    WHERE connected AND local_path IS NULL ORDER BY updated_at DESC LIMIT 1";
const SQLITE_READERS: u32 = 4;
const POSTGRES_CONNECTIONS: u32 = 8;

impl Db {
    /// Opens what the URL names, unless it is another program's. A file is created (readable by its owner only), its
    /// directory is not. A statement waits for a connection or a lock as long as `patience`, before it gives up with
    /// [`StoreError::Busy`].
    pub async fn open(url: &str, patience: Duration) -> Result<Self, StoreError> {
        match sqlite_path(url) {
            Some(path) => open_sqlite(path, patience).await,
            None => open_postgres(url, patience).await,
        }
    }

    /// What the engine says about when it flushes, asked on a connection that writes: on SQLite `journal_mode` and
    /// `synchronous`, on PostgreSQL `synchronous_commit`.
    pub async fn flushing(&self) -> Result<String, StoreError> {
        match self {
            Db::Sqlite { write, .. } => {
                let both = "SELECT journal_mode || ' ' || synchronous FROM pragma_journal_mode, pragma_synchronous";
                sqlx::query_scalar(both).fetch_one(write).await
            }
            Db::Postgres(pool) => sqlx::query_scalar("SHOW synchronous_commit").fetch_one(pool).await,
        }
        .map_err(explain)
    }

    /// Runs the migrations that are missing, up to `last` when given. Two processes at once do it one after the other.
    pub async fn migrate(&self, last: Option<i64>) -> Result<(), StoreError> {
        let last = last.unwrap_or(i64::MAX);
        match self {
            Db::Sqlite { write, .. } => {
                // The engine has no advisory lock; a transaction around all of them is one, and makes them one step.
                let mut tx = write.begin_with("BEGIN IMMEDIATE").await.map_err(explain)?;
                SQLITE.run_to(last, &mut *tx).await.map_err(explain_migration)?;
                tx.commit().await.map_err(explain)
            }
            Db::Postgres(pool) => {
                // A connection of its own: the advisory lock ends with it, however this ends.
                let mut connection = PgConnection::connect_with(&pool.connect_options()).await.map_err(explain)?;
                POSTGRES.run_to(last, &mut connection).await.map_err(explain_migration)?;
                connection.close().await.map_err(explain)
            }
        }
    }
}

/// What a look into a database finds.
struct Found {
    tables: Vec<String>,
    /// Version, checksum, and whether it came to its end.
    migrations: Vec<(i64, Vec<u8>, bool)>,
}

impl Found {
    /// The versions that were carried out. What has tables, and not the first of our migrations, is another program's; the
    /// tables of the older schema are known. One that was broken off, or is not the one of this program, is an error, as it is
    /// when the rest are to be carried out.
    fn ours(self, migrator: &Migrator) -> Result<Vec<i64>, StoreError> {
        let is_first = |(version, checksum, success): &(i64, Vec<u8>, bool)| {
            *success
                && migrator
                    .iter()
                    .next()
                    .is_some_and(|first| first.version == *version && *first.checksum == **checksum)
        };
        let is_other = |name: &String| name != MIGRATIONS && !name.starts_with(legacy::PREFIX);
        let others: Vec<String> = self.tables.into_iter().filter(is_other).collect();
        let is_new = self.migrations.is_empty() && others.is_empty();
        if !(is_new || self.migrations.iter().any(is_first)) {
            let first = migrator.iter().next().map(|first| first.version);
            return Err(match lost(migrator, first.as_slice(), &others).is_empty() {
                true => StoreError::Incomplete(vec![MIGRATIONS.to_owned()]),
                false => StoreError::OtherProgram(others),
            });
        }
        for (version, checksum, success) in &self.migrations {
            if !success {
                return Err(explain_migration(MigrateError::Dirty(*version)));
            }
            if migrator.iter().any(|known| known.version == *version && *known.checksum != **checksum) {
                return Err(explain_migration(MigrateError::VersionMismatch(*version)));
            }
        }
        let versions: Vec<i64> = self.migrations.into_iter().map(|(version, ..)| version).collect();
        // A newer program may have taken tables away.
        let is_known = versions.iter().all(|version| migrator.version_exists(*version));
        let lost = lost(migrator, if is_known { &versions[..] } else { &[] }, &others);
        if lost.is_empty() { Ok(versions) } else { Err(StoreError::Incomplete(lost)) }
    }
}

/// The tables that migrations made, none of which takes one away, and that are not there.
fn lost(migrator: &Migrator, versions: &[i64], tables: &[String]) -> Vec<String> {
    let carried_out = migrator.iter().filter(|migration| versions.contains(&migration.version));
    let statements = carried_out.flat_map(|migration| migration.sql.as_str().lines());
    let made = statements.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split([' ', '(']).next());
    made.filter(|made| !tables.iter().any(|table| table == made)).map(str::to_owned).collect()
}

/// What stands in the database, read without changing it: no file and no table is made. Another program's is an error.
pub(in crate::store) async fn schema(url: &str) -> Result<Schema, StoreError> {
    let known = versions();
    let applied = match sqlite_path(url) {
        Some(path) => applied_sqlite(path, PATIENCE).await?,
        None => applied_postgres(url).await?,
    };
    let newest = known.last().copied().unwrap_or_default();
    let schema = match applied.iter().max() {
        None => Schema::Missing,
        Some(&found) if found > newest => Schema::Newer { found, known: newest },
        Some(_) if known.iter().all(|version| applied.contains(version)) => Schema::Current,
        Some(&found) => Schema::Older { found, known: newest },
    };
    match (&schema, sqlite_path(url)) {
        (Schema::Missing | Schema::Older { .. }, None) => {
            may_make_tables(&postgres_options(url)?).await.map(|()| schema)
        }
        (Schema::Missing | Schema::Older { .. }, Some(_)) | (Schema::Current | Schema::Newer { .. }, _) => Ok(schema),
    }
}

/// Since PostgreSQL 15 a database lets nobody but its owner, as long as nothing else is said.
async fn may_make_tables(options: &PgConnectOptions) -> Result<(), StoreError> {
    const LOOK: &str = "SELECT coalesce(current_schema(), 'public')::text, current_user::text,
        coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)";
    let mut connection = connected(options).await?;
    let (schema, user, may): (String, String, bool) =
        sqlx::query_as(LOOK).fetch_one(&mut connection).await.map_err(explain)?;
    connection.close().await.map_err(explain)?;
    if may { Ok(()) } else { Err(StoreError::NoTables { schema, user }) }
}

/// Where live environments are, read without changing anything.
pub(in crate::store) async fn live_paths(url: &str) -> Result<Vec<String>, StoreError> {
    read(url, LIVE_PATHS).await
}

/// [`Disk`](super::super::Disk) as it is written down, read without changing anything.
pub(in crate::store) async fn known_disk(url: &str) -> Result<Option<String>, StoreError> {
    Ok(read(url, KNOWN_DISK).await?.pop())
}

/// [`StoredApp`](super::super::StoredApp) as it is written down, read without changing anything.
pub(in crate::store) async fn stored_app(url: &str) -> Result<Option<String>, StoreError> {
    Ok(read(url, STORED_APP).await?.pop())
}

/// The event of some delivery of GitHub, read without changing anything.
pub(in crate::store) async fn a_delivery(url: &str) -> Result<Option<String>, StoreError> {
    Ok(read(url, A_DELIVERY).await?.pop())
}

/// Installation, number and name of the repository on GitHub that changed last, read without changing anything.
pub(in crate::store) async fn reachable(url: &str) -> Result<Option<String>, StoreError> {
    Ok(read(url, REACHABLE).await?.pop())
}

async fn read(url: &str, text: &'static str) -> Result<Vec<String>, StoreError> {
    match sqlite_path(url) {
        Some(path) => {
            check_path(path)?;
            let mut connection = look_into(path, PATIENCE).await?;
            let found = sqlx::query_scalar(text).fetch_all(&mut connection).await.map_err(explain)?;
            connection.close().await.map_err(explain)?;
            Ok(found)
        }
        None => {
            let mut connection = connected(&postgres_options(url)?).await?;
            let found = sqlx::query_scalar(text).fetch_all(&mut connection).await.map_err(explain)?;
            connection.close().await.map_err(explain)?;
            Ok(found)
        }
    }
}

async fn applied_sqlite(path: &Path, patience: Duration) -> Result<Vec<i64>, StoreError> {
    check_path(path)?;
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut connection = look_into(path, patience).await?;
    // As for PostgreSQL below.
    let mut look = connection.begin().await.map_err(explain)?;
    let tables: Vec<String> = sqlx::query_scalar(SQLITE_TABLES).fetch_all(&mut *look).await.map_err(explain)?;
    let migrations = match tables.iter().any(|name| name == MIGRATIONS) {
        true => sqlx::query_as(APPLIED).fetch_all(&mut *look).await.map_err(explain)?,
        false => Vec::new(),
    };
    look.rollback().await.map_err(explain)?;
    connection.close().await.map_err(explain)?;
    Found { tables, migrations }.ours(&SQLITE)
}

async fn look_into(path: &Path, patience: Duration) -> Result<SqliteConnection, StoreError> {
    // Nobody has it open when there is no log beside it; a reader that may assume so leaves no side files behind.
    let is_open = beside(path, "-wal").exists();
    let options = SqliteConnectOptions::new().filename(path).read_only(true).immutable(!is_open);
    SqliteConnection::connect_with(&options.busy_timeout(patience)).await.map_err(explain)
}

async fn applied_postgres(url: &str) -> Result<Vec<i64>, StoreError> {
    applied_there(&postgres_options(url)?).await
}

/// Tables and migrations as they were at one time: another process may be making them.
async fn applied_there(options: &PgConnectOptions) -> Result<Vec<i64>, StoreError> {
    let mut connection = connected(options).await?;
    let mut look = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.map_err(explain)?;
    let tables: Vec<String> = sqlx::query_scalar(POSTGRES_TABLES).fetch_all(&mut *look).await.map_err(explain)?;
    let migrations = match tables.iter().any(|name| name == MIGRATIONS) {
        true => sqlx::query_as(APPLIED).fetch_all(&mut *look).await.map_err(explain)?,
        false => Vec::new(),
    };
    look.rollback().await.map_err(explain)?;
    connection.close().await.map_err(explain)?;
    Found { tables, migrations }.ours(&POSTGRES)
}

/// A connection of its own. Where there is none, the error says to which server.
pub(super) async fn connected(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    let told = |why: String| {
        let (host, port) = (options.get_host(), options.get_port());
        let place = options.get_socket().map_or(format!("{host}:{port}"), |socket| socket.display().to_string());
        format!("{place}, as DATABASE_URL says: {why}")
    };
    PgConnection::connect_with(options).await.map_err(|error| match explain(error) {
        StoreError::Unavailable(why) => StoreError::Unavailable(told(why)),
        StoreError::Lacks { what, why } => StoreError::Lacks { what, why: told(why) },
        error => error,
    })
}

/// The versions this program knows, oldest first.
pub(in crate::store) fn versions() -> Vec<i64> {
    SQLITE.iter().map(|migration| migration.version).collect()
}

fn explain_migration(error: MigrateError) -> StoreError {
    let known = versions().last().copied().unwrap_or_default();
    match error {
        MigrateError::VersionMissing(found) if found > known => StoreError::NewerSchema { found, known },
        MigrateError::Execute(error) => explain(error),
        error => StoreError::Migration(error.to_string()),
    }
}

pub(in crate::store) fn sqlite_path(url: &str) -> Option<&Path> {
    url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).map(Path::new)
}

/// What SQLite keeps beside a file.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(in crate::store) fn not_a_file(path: &Path) -> Option<PathBuf> {
    let is_other = |path: &PathBuf| path.metadata().is_ok_and(|there| !there.is_file());
    ["", "-wal", "-shm"].map(|suffix| beside(path, suffix)).into_iter().find(is_other)
}

fn check_path(path: &Path) -> Result<(), StoreError> {
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(StoreError::Url("a database that is kept needs a path".to_owned()));
    }
    let above = path.ancestors().skip(1).find(|above| above.exists());
    match (path.metadata(), above) {
        (Ok(there), _) if there.is_dir() => Err(StoreError::Url(format!("{} is a directory", path.display()))),
        (Ok(there), _) if !there.is_file() => Err(StoreError::Url(format!("{} is no file", path.display()))),
        (Err(_), Some(above)) if !above.is_dir() => {
            Err(StoreError::Url(format!("{} is not a directory", above.display())))
        }
        _ => match not_a_file(path) {
            Some(other) => Err(StoreError::Unavailable(format!("{} is no file", other.display()))),
            None => Ok(()),
        },
    }
}

pub(super) fn postgres_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(StoreError::Url("it names no engine this program knows".to_owned()));
    }
    PgConnectOptions::from_str(url).map_err(|error| StoreError::Url(error.to_string()))
}

async fn open_sqlite(path: &Path, patience: Duration) -> Result<Db, StoreError> {
    // Before a log, which is its mode from then on, is written to somebody else's.
    applied_sqlite(path, patience).await?;
    make_private_file(path).map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(patience).foreign_keys(true);
    // The write-ahead log is this database's mode from here on; readers take it as they find it.
    let writer = options.clone().journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
    let write = SqlitePoolOptions::new()
        .max_connections(1)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(patience)
        // When a full or failing disk ends a transaction, the engine knows and the driver does not; it would refuse to begin
        // another one on this connection for ever.
        .before_acquire(|connection, _| Box::pin(async { Ok(!connection.is_in_transaction()) }))
        .connect_with(writer)
        .await
        .map_err(explain)?;
    let read = SqlitePoolOptions::new()
        .max_connections(SQLITE_READERS)
        .acquire_timeout(patience)
        .connect_lazy_with(options.read_only(true));
    Ok(Db::Sqlite { read, write })
}

async fn open_postgres(url: &str, patience: Duration) -> Result<Db, StoreError> {
    let options = postgres_options(url)?;
    // The pool would try for as long as it is patient, and then not say why.
    applied_there(&options).await?;
    let pool = PgPoolOptions::new().max_connections(POSTGRES_CONNECTIONS).acquire_timeout(patience);
    Ok(Db::Postgres(pool.connect_lazy_with(options)))
}

/// The engine gives its side files the permissions of this one.
fn make_private_file(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}
