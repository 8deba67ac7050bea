//! Table `web_sessions`: the panel's sessions, for `tower-sessions`. Only a hash of the id is kept, so that who reads the
//! database cannot take over a session.

use super::codec::FromRow;
use super::db::Row;
use super::sql::sql;
use super::{Store, StoreError, corrupt};
use crate::model::Timestamp;
use chrono::DateTime;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{collections::HashMap, fmt};
use time::OffsetDateTime;
use tower_sessions::{
    SessionStore,
    session::{Id, Record},
    session_store,
};

/// The sessions of the panel.
#[derive(Clone)]
pub struct WebSessions {
    store: Store,
}

impl WebSessions {
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Removes what has expired, and answers with how many there were.
    pub async fn prune(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.store.db.execute(sql!("DELETE FROM web_sessions WHERE expires_at <= $1").bind(now)).await
    }
}

impl fmt::Debug for WebSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebSessions")
    }
}

struct Saved {
    data: HashMap<String, Value>,
    expires_at: Timestamp,
}

impl FromRow for Saved {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Saved { data: row.get_json("data")?, expires_at: row.get("expires_at")? })
    }
}

impl Store {
    /// False when the id is taken.
    async fn insert_web_session(&self, record: &Record) -> Result<bool, StoreError> {
        let sql = sql!(
            "INSERT INTO web_sessions (id_hash, data, expires_at) VALUES ($1, $2, $3) ON CONFLICT (id_hash) DO NOTHING"
        );
        let sql = sql.bind(hash(&record.id)).bind_json(&record.data)?.bind(from_time(record.expiry_date)?);
        Ok(self.db.execute(sql).await? > 0)
    }

    /// A session that was deleted in the meantime (logout) does not come back.
    async fn update_web_session(&self, record: &Record) -> Result<(), StoreError> {
        let sql = sql!("UPDATE web_sessions SET data = $2, expires_at = $3 WHERE id_hash = $1");
        let sql = sql.bind(hash(&record.id)).bind_json(&record.data)?.bind(from_time(record.expiry_date)?);
        self.db.execute(sql).await.map(drop)
    }

    async fn load_web_session(&self, id: &Id, now: Timestamp) -> Result<Option<Record>, StoreError> {
        let sql = sql!("SELECT data, expires_at FROM web_sessions WHERE id_hash = $1 AND expires_at > $2");
        let saved: Option<Saved> = self.db.fetch_optional(sql.bind(hash(id)).bind(now)).await?;
        saved.map(|saved| Ok(Record { id: *id, data: saved.data, expiry_date: to_time(saved.expires_at)? })).transpose()
    }

    async fn delete_web_session(&self, id: &Id) -> Result<(), StoreError> {
        self.db.execute(sql!("DELETE FROM web_sessions WHERE id_hash = $1").bind(hash(id))).await.map(drop)
    }
}

#[async_trait::async_trait]
impl SessionStore for WebSessions {
    async fn create(&self, record: &mut Record) -> session_store::Result<()> {
        while !self.store.insert_web_session(record).await.map_err(backend)? {
            record.id = Id::default();
        }
        Ok(())
    }

    async fn save(&self, record: &Record) -> session_store::Result<()> {
        self.store.update_web_session(record).await.map_err(backend)
    }

    async fn load(&self, id: &Id) -> session_store::Result<Option<Record>> {
        self.store.load_web_session(id, wall_clock()).await.map_err(backend)
    }

    async fn delete(&self, id: &Id) -> session_store::Result<()> {
        self.store.delete_web_session(id).await.map_err(backend)
    }
}

/// The trait hands over no time, and whoever calls it is the wall clock's.
fn wall_clock() -> Timestamp {
    Timestamp::new(chrono::Utc::now())
}

fn backend(error: StoreError) -> session_store::Error {
    session_store::Error::Backend(error.to_string())
}

fn hash(id: &Id) -> String {
    hex::encode(Sha256::digest(id.0.to_le_bytes()))
}

fn from_time(time: OffsetDateTime) -> Result<Timestamp, StoreError> {
    DateTime::from_timestamp(time.unix_timestamp(), time.nanosecond())
        .map(Timestamp::new)
        .ok_or_else(|| corrupt("expires_at", "out of range"))
}

fn to_time(time: Timestamp) -> Result<OffsetDateTime, StoreError> {
    let seconds = OffsetDateTime::from_unix_timestamp(time.unix()).map_err(|error| corrupt("expires_at", error))?;
    Ok(seconds + time::Duration::nanoseconds(time.datetime().timestamp_subsec_nanos().into()))
}
