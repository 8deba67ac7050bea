//! Browser sessions for `tower-sessions`. The released SQL store lags behind sqlx 0.9; the trait has four methods.

use super::{Store, db::sql};
use crate::model::Timestamp;
use std::collections::HashMap;
use tower_sessions::{
    SessionStore,
    session::{Id, Record},
    session_store::{Error, Result},
};

/// Sessions in the database, readable by every node.
#[derive(Clone)]
pub struct WebSessions {
    store: Store,
}

impl WebSessions {
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Removes what has expired.
    pub async fn prune(&self, now: Timestamp) -> Result<u64> {
        let statement = sql("DELETE FROM web_sessions WHERE expires_at < $1").time(now);
        self.store.db.execute(statement).await.map_err(backend)
    }

    async fn insert(&self, record: &Record) -> Result<bool> {
        let statement =
            sql("INSERT INTO web_sessions (id, data, expires_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
                .text(record.id.to_string())
                .json(&record.data)
                .time(expiry(record));
        Ok(self.store.db.execute(statement).await.map_err(backend)? == 1)
    }
}

impl std::fmt::Debug for WebSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebSessions")
    }
}

fn backend(error: super::StoreError) -> Error {
    Error::Backend(error.to_string())
}

fn expiry(record: &Record) -> Timestamp {
    Timestamp::from_unix(record.expiry_date.unix_timestamp())
}

#[async_trait::async_trait]
impl SessionStore for WebSessions {
    async fn create(&self, record: &mut Record) -> Result<()> {
        while !self.insert(record).await? {
            record.id = Id::default();
        }
        Ok(())
    }

    async fn save(&self, record: &Record) -> Result<()> {
        let statement = sql("UPDATE web_sessions SET data = $1, expires_at = $2 WHERE id = $3")
            .json(&record.data)
            .time(expiry(record))
            .text(record.id.to_string());
        // A session that was deleted meanwhile (logout in another tab) is not brought back.
        self.store.db.execute(statement).await.map(drop).map_err(backend)
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let statement = sql("SELECT data, expires_at FROM web_sessions WHERE id = $1").text(id.to_string());
        let Some(row) = self.store.db.fetch_optional(statement).await.map_err(backend)? else { return Ok(None) };
        let data: HashMap<String, serde_json::Value> = row.json("data").map_err(backend)?;
        let expires = row.time("expires_at").map_err(backend)?;
        let expiry_date = time::OffsetDateTime::from_unix_timestamp(expires.unix())
            .map_err(|error| Error::Decode(error.to_string()))?;
        let live = expiry_date > time::OffsetDateTime::now_utc();
        Ok(live.then_some(Record { id: *id, data, expiry_date }))
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        let statement = sql("DELETE FROM web_sessions WHERE id = $1").text(id.to_string());
        self.store.db.execute(statement).await.map(drop).map_err(backend)
    }
}
