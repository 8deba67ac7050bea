//! Table `held_conversations`: threads that came from another installation, of platforms that have no adapter yet or in which
//! nobody has spoken since.

use super::codec::FromRow;
use super::db::{Row, Tx};
use super::sql::sql;
use super::{NewNamedThread, Store, StoreError};
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

    /// Those that point to any live environment of a codebase, in the order of [`Store::held_conversations_of`].
    pub async fn held_conversations_of_live(&self, codebase: CodebaseId) -> Result<Vec<HeldConversation>, StoreError> {
        let sql = sql!(
            "SELECT * FROM held_conversations WHERE environment_id IN
               (SELECT id FROM isolation_environments WHERE codebase_id = $1 AND state <> 'destroyed') ORDER BY id"
        );
        self.db.fetch_all(sql.bind(codebase)).await
    }

    /// Those that point to an environment, oldest first.
    pub async fn held_conversations_of(&self, environment: EnvironmentId) -> Result<Vec<HeldConversation>, StoreError> {
        let sql = sql!("SELECT * FROM held_conversations WHERE environment_id = $1 ORDER BY id");
        self.db.fetch_all(sql.bind(environment)).await
    }
}

/// The thread is a conversation from now on, under the same id, when nothing says that it is about another repository.
pub(super) async fn take_over(tx: &mut Tx, new: &NewNamedThread) -> Result<Option<HeldConversation>, StoreError> {
    let sql = sql!(
        "DELETE FROM held_conversations
         WHERE platform = $1 AND thread = $2 AND (codebase_id = $3 OR (codebase_id IS NULL AND environment_id IS NULL))
         RETURNING *"
    );
    tx.fetch_optional(sql.bind(new.platform).bind(&new.name).bind(new.codebase)).await
}

/// Held threads let go of an environment that ends.
pub(super) async fn let_go_of(tx: &mut Tx, environment: EnvironmentId) -> Result<(), StoreError> {
    let sql = sql!("UPDATE held_conversations SET environment_id = NULL WHERE environment_id = $1");
    tx.execute(sql.bind(environment)).await.map(drop)
}
