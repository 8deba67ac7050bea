//! Table `sessions`: the agents' own memories, one open for a conversation in an environment.

use super::codec::FromRow;
use super::db::{Row, Tx};
use super::sql::{new_id, sql};
use super::{Store, StoreError};
use crate::model::*;

/// A session that an agent has just opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    pub conversation: ConversationId,
    pub environment: EnvironmentId,
    pub agent: String,
    pub external_id: String,
}

impl FromRow for AgentSession {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(AgentSession {
            id: row.get("id")?,
            conversation: row.get("conversation_id")?,
            environment: row.get("environment_id")?,
            agent: row.get("agent")?,
            external_id: row.get("external_id")?,
            opened_at: row.get("opened_at")?,
        })
    }
}

impl Store {
    pub async fn live_session(
        &self,
        conversation: ConversationId,
        environment: EnvironmentId,
    ) -> Result<Option<AgentSession>, StoreError> {
        let sql =
            sql!("SELECT * FROM sessions WHERE conversation_id = $1 AND environment_id = $2 AND closed_at IS NULL");
        self.db.fetch_optional(sql.bind(conversation).bind(environment)).await
    }

    /// Refused with a conflict while another one is open there.
    pub async fn open_session(&self, new: NewSession, now: Timestamp) -> Result<AgentSession, StoreError> {
        let sql = sql!(
            "INSERT INTO sessions (id, conversation_id, environment_id, agent, external_id, opened_at)
             VALUES ($1, $2, $3, $4, $5, $6) RETURNING *"
        );
        let sql = sql
            .bind(new_id::<SessionId>())
            .bind(new.conversation)
            .bind(new.environment)
            .bind(&new.agent)
            .bind(&new.external_id)
            .bind(now);
        self.db.fetch_one(sql).await
    }

    /// Closes whatever is open for a conversation, in any environment.
    pub async fn close_sessions_of(
        &self,
        conversation: ConversationId,
        reason: &str,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let sql = sql!(
            "UPDATE sessions SET closed_at = $3, closed_because = $2 WHERE conversation_id = $1 AND closed_at IS NULL"
        );
        self.db.execute(sql.bind(conversation).bind(reason).bind(now)).await
    }

    /// False when it was closed already.
    pub async fn close_session(&self, id: SessionId, reason: &str, now: Timestamp) -> Result<bool, StoreError> {
        let sql = sql!("UPDATE sessions SET closed_at = $3, closed_because = $2 WHERE id = $1 AND closed_at IS NULL");
        Ok(self.db.execute(sql.bind(id).bind(reason).bind(now)).await? > 0)
    }
}

/// The sessions of an environment end with it.
pub(super) async fn close_all_of(tx: &mut Tx, environment: EnvironmentId, now: Timestamp) -> Result<(), StoreError> {
    let sql =
        sql!("UPDATE sessions SET closed_at = $3, closed_because = $2 WHERE environment_id = $1 AND closed_at IS NULL");
    tx.execute(sql.bind(environment).bind("environment destroyed").bind(now)).await.map(drop)
}
