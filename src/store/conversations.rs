//! Conversations: one row for each thread, with the environment it points to.

use super::{
    Store, StoreError,
    db::{Row, sql},
};
use crate::model::*;
use uuid::Uuid;

/// A thread somebody wrote in.
#[derive(Clone, Debug)]
pub struct NewConversation {
    pub platform: PlatformKind,
    pub codebase: CodebaseId,
    pub kind: ThreadKind,
    pub number: ThreadNumber,
    pub title: String,
}

fn conversation(row: &Row) -> Result<Conversation, StoreError> {
    Ok(Conversation {
        id: ConversationId(row.id("id")?),
        platform: row.parse("platform")?,
        codebase: CodebaseId(row.id("codebase_id")?),
        kind: row.parse("kind")?,
        number: ThreadNumber(row.int("number")?),
        title: row.text("title")?,
        state: row.parse("state")?,
        merged_head: row.try_into("merged_head")?,
        environment: row.id_opt("environment_id")?.map(EnvironmentId),
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

impl Store {
    pub async fn upsert_conversation(&self, new: NewConversation, now: Timestamp) -> Result<Conversation, StoreError> {
        let row = self
            .db
            .fetch_one(
                sql("INSERT INTO conversations (id, platform, codebase_id, kind, number, title, state, created_at, updated_at)
                        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
                        ON CONFLICT (platform, codebase_id, number) DO UPDATE SET kind = excluded.kind,
                            title = CASE WHEN excluded.title = '' THEN conversations.title ELSE excluded.title END,
                            updated_at = excluded.updated_at
                        RETURNING *")
                    .id(Uuid::now_v7())
                    .text(new.platform.as_str())
                    .id(new.codebase.0)
                    .text(new.kind.as_str())
                    .int(new.number.0)
                    .text(new.title)
                    .text(ThreadState::Open.as_str())
                    .time(now),
            )
            .await?;
        conversation(&row)
    }

    pub async fn load_conversation(&self, id: ConversationId) -> Result<Option<Conversation>, StoreError> {
        let row = self.db.fetch_optional(sql("SELECT * FROM conversations WHERE id = $1").id(id.0)).await?;
        row.as_ref().map(conversation).transpose()
    }

    pub async fn find_conversation(
        &self,
        codebase: CodebaseId,
        number: ThreadNumber,
    ) -> Result<Option<Conversation>, StoreError> {
        let row = self
            .db
            .fetch_optional(
                sql("SELECT * FROM conversations WHERE codebase_id = $1 AND number = $2").id(codebase.0).int(number.0),
            )
            .await?;
        row.as_ref().map(conversation).transpose()
    }

    pub async fn set_conversation_environment(
        &self,
        id: ConversationId,
        environment: Option<EnvironmentId>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let statement = sql("UPDATE conversations SET environment_id = $1, updated_at = $2 WHERE id = $3")
            .id_opt(environment.map(|id| id.0))
            .time(now)
            .id(id.0);
        self.db.execute(statement).await.map(drop)
    }

    pub async fn set_conversation_state(
        &self,
        id: ConversationId,
        state: ThreadState,
        merged_head: Option<CommitSha>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let statement = sql("UPDATE conversations SET state = $1, merged_head = $2, updated_at = $3 WHERE id = $4")
            .text(state.as_str())
            .text_opt(merged_head)
            .time(now)
            .id(id.0);
        self.db.execute(statement).await.map(drop)
    }

    /// The conversations that point to an environment.
    pub async fn conversations_of(&self, environment: EnvironmentId) -> Result<Vec<Conversation>, StoreError> {
        let statement = sql("SELECT * FROM conversations WHERE environment_id = $1 ORDER BY number").id(environment.0);
        self.db.fetch_all(statement).await?.iter().map(conversation).collect()
    }

    /// Closed threads that have not let go of their environment.
    pub async fn closed_conversations_with_environment(&self) -> Result<Vec<Conversation>, StoreError> {
        let statement =
            sql("SELECT * FROM conversations WHERE environment_id IS NOT NULL AND state <> 'open' ORDER BY id");
        self.db.fetch_all(statement).await?.iter().map(conversation).collect()
    }
}
