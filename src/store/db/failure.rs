//! What an engine's error means to the rest of the program.
//!
//! Codes: <https://www.sqlite.org/rescode.html>, <https://www.postgresql.org/docs/current/errcodes-appendix.html>.

use super::super::{Lacking, StoreError};
use sqlx::error::DatabaseError;

pub(in crate::store) fn explain(error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::Database(refusal) => explain_refusal(refusal.as_ref()),
        sqlx::Error::PoolTimedOut => StoreError::Busy,
        sqlx::Error::Io(why) => StoreError::Unavailable(why.to_string()),
        sqlx::Error::Tls(why) => StoreError::Unavailable(why.to_string()),
        sqlx::Error::PoolClosed => StoreError::Unavailable("it is closed".to_owned()),
        sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => StoreError::Unavailable(error.to_string()),
        _ => StoreError::Failed(error.to_string()),
    }
}

fn lacks(what: Lacking, refusal: &dyn DatabaseError) -> StoreError {
    StoreError::Lacks { what, why: refusal.message().to_owned() }
}

fn explain_refusal(refusal: &dyn DatabaseError) -> StoreError {
    if refusal.is_unique_violation() {
        return StoreError::Conflict(refusal.message().to_owned());
    }
    let code = refusal.code().unwrap_or_default();
    // SQLite's extended codes keep the plain one in their low byte; PostgreSQL's have five characters.
    let sqlite = (code.len() != 5).then(|| code.parse::<i64>().ok()).flatten().map(|code| code & 0xff);
    match sqlite {
        Some(5 | 6) => StoreError::Busy,
        Some(13) => StoreError::DiskFull,
        Some(10 | 14) => StoreError::Unavailable(refusal.message().to_owned()),
        Some(11 | 26) => {
            StoreError::Corrupt { what: "the database file".to_owned(), why: refusal.message().to_owned() }
        }
        Some(_) => StoreError::Failed(refusal.message().to_owned()),
        // Serialization failure, deadlock, lock not available, too many connections.
        None if matches!(&*code, "40001" | "40P01" | "55P03" | "53300") => StoreError::Busy,
        None if code == "53100" => StoreError::DiskFull,
        None if code == "3D000" => lacks(Lacking::Database, refusal),
        // The same code stands for every other way not to be let in; a server that speaks English says which it was, and all
        // that this decides is what `doctor` proposes.
        None if code == "28000" && refusal.message().ends_with(" does not exist") => lacks(Lacking::Role, refusal),
        None if code == "28000" && refusal.message().ends_with(" is not permitted to log in") => {
            lacks(Lacking::RightToLogIn, refusal)
        }
        // Connection lost, shutting down, starting up, wrong password, no such database.
        None if ["08", "57P", "28", "3D"].iter().any(|class| code.starts_with(class)) => {
            StoreError::Unavailable(refusal.message().to_owned())
        }
        None => StoreError::Failed(refusal.message().to_owned()),
    }
}
