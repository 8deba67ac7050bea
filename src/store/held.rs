//! Table `held_conversations`: threads of platforms that have no adapter yet.

use super::codec::FromRow;
use super::db::{Row, Tx};
use super::sql::sql;
use super::{Store, StoreError};
use crate::model::*;

impl FromRow for HeldConversation {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(HeldConversation {
            id: row.get("id")?,
            platform: row.get("platform")?,
            thread: row.get("thread")?,
            codebase: row.maybe("codebase_id")?,
            environment: row.maybe("environment_id")?,
            created_at: row.get("created_at")?,
            last_activity_at: row.get("last_activity_at")?,
        })
    }
}

impl Store {
    /// All of them, by platform.
    pub async fn held_conversations(&self) -> Result<Vec<HeldConversation>, StoreError> {
        self.db.fetch_all(sql!("SELECT * FROM held_conversations ORDER BY platform, id")).await
    }

    /// Those that point to an environment, oldest first.
    pub async fn held_conversations_of(&self, environment: EnvironmentId) -> Result<Vec<HeldConversation>, StoreError> {
        let sql = sql!("SELECT * FROM held_conversations WHERE environment_id = $1 ORDER BY id");
        self.db.fetch_all(sql.bind(environment)).await
    }
}

/// Held threads let go of an environment that ends.
pub(super) async fn let_go_of(tx: &mut Tx, environment: EnvironmentId) -> Result<(), StoreError> {
    let sql = sql!("UPDATE held_conversations SET environment_id = NULL WHERE environment_id = $1");
    tx.execute(sql.bind(environment)).await.map(drop)
}
