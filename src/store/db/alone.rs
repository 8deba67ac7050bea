//! One service a database: what an environment is lies on one machine's disk, and another service would take it for gone.
//!
//! On PostgreSQL a session's advisory lock, on a connection of its own; on SQLite a lock of the kernel on a file beside the
//! database. Both are given back however a process ends, and both name who has them, as far as that can be seen.

use super::super::StoreError;
use super::failure::explain;
use super::open::{beside, connected, postgres_options, sqlite_path};
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use sqlx::{Connection, Executor, PgConnection, postgres::PgConnectOptions};
use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// Beside the file of a database.
const HELD: &str = "-service";
/// How long what a process that has just ended had may still look taken, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often the connection is felt, and within which time it answers. Together less than what the server waits for a
/// connection that is dead (below): where it only went silent, nobody else has the lock before this process knows.
const BEAT: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_secs(15);
/// How often it is said that it still is away, in beats.
const ROUNDS_A_WORD: u64 = 60;
/// The server's side of a machine that is gone without a word: <https://www.postgresql.org/docs/current/runtime-config-connection.html>.
const KEEP_ALIVE: &str = "SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";
/// The number is this program's; the schema is where its tables are.
const TAKE: &str = "SELECT pg_try_advisory_lock(1953654133,
    coalesce((SELECT oid::int4 FROM pg_namespace WHERE nspname = current_schema()), 0)), pg_backend_pid()";
const WHO: &str =
    "SELECT l.pid, coalesce(a.application_name, '') FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = 1953654133
        AND l.objid = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())";
/// How much of a name is read, and how much of it PostgreSQL keeps.
const LONGEST_NAME: u64 = 1000;
const LONGEST_KEPT: usize = 63;

/// A database that nobody else serves, until this is dropped.
pub struct Alone(Lock);

enum Lock {
    File(File),
    /// Without a connection, while it is taken again.
    Session {
        options: Box<PgConnectOptions>,
        connection: Option<PgConnection>,
        server_process: i32,
    },
}

/// Takes the database for `name`, which tells people which process this is.
pub(in crate::store) async fn take(url: &str, name: &str) -> Result<Alone, StoreError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let taken = match sqlite_path(url) {
            Some(path) => take_file(path, name),
            None => take_session(&postgres_options(url)?.application_name(&as_kept(name))).await,
        };
        match taken {
            Err(StoreError::InUse(_)) if Instant::now() < end => sleep(LOOK_AGAIN).await,
            taken => return taken.map(Alone),
        }
    }
}

/// Who has the database, when somebody does. Makes nothing.
pub(in crate::store) async fn taken_by(url: &str) -> Result<Option<String>, StoreError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let name = match sqlite_path(url) {
            Some(path) => holder_of_file(path)?,
            None => {
                let mut connection = connected(&postgres_options(url)?).await?;
                let holder = holder_of_session(&mut connection).await?;
                connection.close().await.map_err(explain)?;
                holder.map(|(_, name)| name)
            }
        };
        match name {
            Some(_) if Instant::now() < end => sleep(LOOK_AGAIN).await,
            name => return Ok(name),
        }
    }
}

impl Alone {
    /// Waits until the lock may be somebody else's: its connection does not answer any more. A file's never is.
    pub async fn lost(&mut self) {
        let Lock::Session { connection, .. } = &mut self.0 else { return std::future::pending().await };
        while answers(connection).await {
            sleep(BEAT).await;
        }
    }

    /// Takes it again, however long the server is away; [`StoreError::InUse`] when somebody else has it.
    pub async fn take_again(&mut self) -> Result<(), StoreError> {
        let Lock::Session { options, connection, server_process } = &mut self.0 else { return Ok(()) };
        // A server that only stood still has kept it.
        if answers(connection).await {
            return Ok(());
        }
        // One that still stands still lets go of it once it goes on.
        *connection = None;
        let (options, before) = (options.clone(), *server_process);
        for round in 1u64.. {
            match timeout(ANSWER, take_session(&options)).await {
                Ok(Ok(lock)) => {
                    self.0 = lock;
                    return Ok(());
                }
                // The server has not noticed yet what became of the connection.
                Ok(Err(error @ StoreError::InUse(_))) => {
                    let own = options.get_application_name().map(|name| shown(name.to_owned()));
                    match timeout(ANSWER, holder(&options)).await {
                        // Its numbers begin anew when the server does.
                        Ok(Ok(Some((other, name)))) if other != before || Some(&name) != own.as_ref() => {
                            return Err(error);
                        }
                        Ok(_) | Err(_) => {}
                    }
                }
                Ok(Err(_)) | Err(_) => {}
            }
            if round % ROUNDS_A_WORD == 0 {
                tracing::warn!("the database is still not held again, and nothing is begun");
            }
            sleep(BEAT).await;
        }
        Ok(())
    }
}

async fn answers(connection: &mut Option<PgConnection>) -> bool {
    match connection {
        Some(connection) => matches!(timeout(ANSWER, connection.ping()).await, Ok(Ok(()))),
        None => false,
    }
}

impl Drop for Alone {
    /// Closing alone would leave it with a child that was forked at this moment and has not become its program yet.
    fn drop(&mut self) {
        match &self.0 {
            Lock::File(file) => drop(flock(file, FlockOperation::Unlock)),
            Lock::Session { .. } => {}
        }
    }
}

fn take_file(path: &Path, name: &str) -> Result<Lock, StoreError> {
    let path = lock_file(path);
    let unavailable = |error: io::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
    let mut options = File::options();
    options.create(true).read(true).write(true).truncate(false).mode(0o600).custom_flags(CAREFULLY);
    // It is written over: nothing that a link leads to, and no file of another name.
    let mut file = options.open(&path).and_then(plain).map_err(unavailable)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(StoreError::InUse(name_in(file))),
        Err(error) => return Err(unavailable(error.into())),
    }
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(name.as_bytes()));
    written.map_err(unavailable)?;
    Ok(Lock::File(file))
}

fn holder_of_file(path: &Path) -> Result<Option<String>, StoreError> {
    let path = lock_file(path);
    let unavailable = |error: io::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
    let file = match File::options().read(true).custom_flags(CAREFULLY).open(&path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        file => file.and_then(plain).map_err(unavailable)?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(Errno::WOULDBLOCK) => Ok(Some(name_in(file))),
        Err(error) => Err(unavailable(error.into())),
    }
}

/// Opening a pipe would wait for whoever writes, and a link leads elsewhere.
const CAREFULLY: i32 = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).bits().cast_signed();

fn plain(file: File) -> io::Result<File> {
    let meta = file.metadata()?;
    match meta.is_file() && meta.nlink() == 1 {
        true => Ok(file),
        false => Err(io::Error::other("no file of its own, as a lock has to be")),
    }
}

/// Of the file itself, by whichever link it was named.
pub(in crate::store) fn lock_file(path: &Path) -> PathBuf {
    beside(&path.canonicalize().unwrap_or_else(|_| path.to_owned()), HELD)
}

fn name_in(file: File) -> String {
    let mut name = String::new();
    let _ = file.take(LONGEST_NAME).read_to_string(&mut name);
    shown(name)
}

async fn take_session(options: &PgConnectOptions) -> Result<Lock, StoreError> {
    let mut connection = connected(options).await?;
    connection.execute(sqlx::raw_sql(KEEP_ALIVE)).await.map_err(explain)?;
    let (taken, server_process): (bool, i32) =
        sqlx::query_as(TAKE).fetch_one(&mut connection).await.map_err(explain)?;
    if !taken {
        let holder = holder_of_session(&mut connection).await?;
        return Err(StoreError::InUse(holder.map_or_else(|| shown(String::new()), |(_, name)| name)));
    }
    Ok(Lock::Session { options: Box::new(options.clone()), connection: Some(connection), server_process })
}

async fn holder(options: &PgConnectOptions) -> Result<Option<(i32, String)>, StoreError> {
    let mut connection = connected(options).await?;
    holder_of_session(&mut connection).await
}

/// What the server makes of a name, by which this process knows its own session again:
/// <https://www.postgresql.org/docs/current/runtime-config-logging.html#GUC-APPLICATION-NAME>.
fn as_kept(name: &str) -> String {
    let plain = name.chars().map(|one| if matches!(one, ' '..='~') { one } else { '?' });
    plain.take(LONGEST_KEPT).collect()
}

/// The server's process for whoever has the lock, and the name it gave.
async fn holder_of_session(connection: &mut PgConnection) -> Result<Option<(i32, String)>, StoreError> {
    let found: Option<(i32, String)> = sqlx::query_as(WHO).fetch_optional(connection).await.map_err(explain)?;
    Ok(found.map(|(process, name)| (process, shown(name))))
}

/// The server shows the names of its other users to nobody.
fn shown(name: String) -> String {
    match name.trim() {
        "" => "which one cannot be seen from here".to_owned(),
        name => name.to_owned(),
    }
}
