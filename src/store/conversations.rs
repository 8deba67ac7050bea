//! Table `conversations`: one row a thread, with the environment it points to.

use super::codec::FromRow;
use super::db::Row;
use super::sql::{new_id, sql};
use super::{Store, StoreError};
use crate::model::*;

/// A thread as an event describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConversation {
    pub platform: PlatformKind,
    pub codebase: CodebaseId,
    pub kind: ThreadKind,
    pub number: ThreadNumber,
    pub title: String,
    /// What it is at first; later it changes by [`Store::set_conversation_state`] only.
    pub state: ThreadState,
}

/// A thread that its platform names by a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNamedThread {
    pub platform: PlatformKind,
    pub codebase: CodebaseId,
    pub name: ThreadName,
    /// Given once, for good.
    pub title: String,
}

/// What stands in the column `kind` of such a thread.
const NAMED: &str = "named";

impl FromRow for Conversation {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Conversation {
            id: row.get("id")?,
            platform: row.get("platform")?,
            codebase: row.get("codebase_id")?,
            thread: match row.maybe("thread")? {
                Some(name) => ThreadId::Named(name),
                None => ThreadId::Numbered { kind: row.get("kind")?, number: row.get("number")? },
            },
            title: row.get("title")?,
            state: row.get("state")?,
            merged_head: row.maybe("merged_head")?,
            environment: row.maybe("environment_id")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

impl Store {
    /// Makes the row of a thread, without an environment, or renews its title and kind.
    pub async fn upsert_conversation(&self, new: NewConversation, now: Timestamp) -> Result<Conversation, StoreError> {
        let known: Option<Conversation> = self
            .db
            .fetch_optional(
                sql!("SELECT * FROM conversations WHERE platform = $1 AND codebase_id = $2 AND number = $3")
                    .bind(new.platform)
                    .bind(new.codebase)
                    .bind(new.number),
            )
            .await?;
        if let Some(known) = known.filter(|known| {
            known.title == new.title && known.thread == ThreadId::Numbered { kind: new.kind, number: new.number }
        }) {
            return Ok(known);
        }
        self.db
            .fetch_one(
                sql!(
                    "INSERT INTO conversations (id, platform, codebase_id, kind, number, title, state, created_at, updated_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
                     ON CONFLICT (platform, codebase_id, number) DO UPDATE SET
                         title = excluded.title, kind = excluded.kind, updated_at = excluded.updated_at
                     RETURNING *"
                )
                .bind(new_id::<ConversationId>())
                .bind(new.platform)
                .bind(new.codebase)
                .bind(new.kind)
                .bind(new.number)
                .bind(&new.title)
                .bind(new.state)
                .bind(now),
            )
            .await
    }

    /// The thread with this name, made open where there is none yet; an older one stays as it is, in its codebase. One that
    /// was held for its platform is taken over with what it points to. Such threads have numbers, too, which tell nobody
    /// anything: one row a number.
    pub async fn upsert_named_thread(&self, new: NewNamedThread, now: Timestamp) -> Result<Conversation, StoreError> {
        if let Some(known) = self.find_named_thread(new.platform, &new.name).await? {
            return Ok(known);
        }
        let mut tx = self.db.begin().await?;
        // The codebase's row is the gate: of two that come at once, one goes first.
        tx.execute(sql!("UPDATE codebases SET connected = connected WHERE id = $1").bind(new.codebase)).await?;
        let held = super::held::take_over(&mut tx, &new).await?;
        let sql = sql!(
            "INSERT INTO conversations (id, platform, codebase_id, kind, number, thread, title, state, environment_id,
                                        created_at, updated_at)
             SELECT $1, $2, $3, $4, coalesce(max(number), 0) + 1, $5, $6, $7, $8, $9, $10
             FROM conversations WHERE platform = $2 AND codebase_id = $3
             ON CONFLICT (platform, thread) WHERE thread IS NOT NULL DO NOTHING"
        );
        let sql = sql
            .bind(held.as_ref().map_or_else(new_id, |held| held.id))
            .bind(new.platform)
            .bind(new.codebase)
            .bind(NAMED)
            .bind(&new.name)
            .bind(&new.title)
            .bind(ThreadState::Open)
            .bind(held.as_ref().and_then(|held| held.environment))
            .bind(held.as_ref().map_or(now, |held| held.created_at))
            .bind(now);
        tx.execute(sql).await?;
        let sql = sql!("SELECT * FROM conversations WHERE platform = $1 AND thread = $2");
        let conversation = tx.fetch_one(sql.bind(new.platform).bind(&new.name)).await?;
        tx.commit().await?;
        Ok(conversation)
    }

    pub async fn find_named_thread(
        &self,
        platform: PlatformKind,
        name: &ThreadName,
    ) -> Result<Option<Conversation>, StoreError> {
        let sql = sql!("SELECT * FROM conversations WHERE platform = $1 AND thread = $2");
        self.db.fetch_optional(sql.bind(platform).bind(name)).await
    }

    pub async fn load_conversation(&self, id: ConversationId) -> Result<Option<Conversation>, StoreError> {
        self.db.fetch_optional(sql!("SELECT * FROM conversations WHERE id = $1").bind(id)).await
    }

    /// GitHub's thread with this number.
    pub async fn find_conversation(
        &self,
        codebase: CodebaseId,
        number: ThreadNumber,
    ) -> Result<Option<Conversation>, StoreError> {
        let sql = sql!("SELECT * FROM conversations WHERE platform = $1 AND codebase_id = $2 AND number = $3");
        self.db.fetch_optional(sql.bind(PlatformKind::Github).bind(codebase).bind(number)).await
    }

    pub async fn set_conversation_environment(
        &self,
        id: ConversationId,
        environment: Option<EnvironmentId>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = sql!("UPDATE conversations SET environment_id = $2, updated_at = $3 WHERE id = $1");
        self.db.execute(sql.bind(id).bind(environment).bind(now)).await.map(drop)
    }

    /// Points a thread to an environment, unless it was pointed elsewhere since it was read.
    pub async fn tie_conversation(
        &self,
        read: &Conversation,
        environment: EnvironmentId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = sql!(
            "UPDATE conversations SET environment_id = $2, updated_at = $3
             WHERE id = $1 AND (environment_id = $4 OR environment_id = $2 OR environment_id IS NULL)"
        );
        let sql = sql.bind(read.id).bind(environment).bind(now).bind(read.environment);
        self.db.execute(sql).await.map(drop)
    }

    pub async fn set_conversation_state(
        &self,
        id: ConversationId,
        state: ThreadState,
        merged_head: Option<CommitSha>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = sql!("UPDATE conversations SET state = $2, merged_head = $3, updated_at = $4 WHERE id = $1");
        self.db.execute(sql.bind(id).bind(state).bind(merged_head).bind(now)).await.map(drop)
    }

    /// The same for a thread that is open as far as is known here; answers whether it was.
    pub async fn close_open_conversation(
        &self,
        id: ConversationId,
        state: ThreadState,
        merged_head: Option<CommitSha>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql =
            sql!("UPDATE conversations SET state = $2, merged_head = $3, updated_at = $4 WHERE id = $1 AND state = $5");
        let sql = sql.bind(id).bind(state).bind(merged_head).bind(now).bind(ThreadState::Open);
        Ok(self.db.execute(sql).await? > 0)
    }

    /// The threads that point to an environment, oldest first.
    pub async fn conversations_of(&self, environment: EnvironmentId) -> Result<Vec<Conversation>, StoreError> {
        let sql = sql!("SELECT * FROM conversations WHERE environment_id = $1 ORDER BY id");
        self.db.fetch_all(sql.bind(environment)).await
    }

    /// Those that point to any live environment of a codebase, in the order of [`Store::conversations_of`].
    pub async fn conversations_of_live(&self, codebase: CodebaseId) -> Result<Vec<Conversation>, StoreError> {
        let sql = sql!(
            "SELECT * FROM conversations WHERE environment_id IN
               (SELECT id FROM isolation_environments WHERE codebase_id = $1 AND state <> 'destroyed') ORDER BY id"
        );
        self.db.fetch_all(sql.bind(codebase)).await
    }

    /// Threads that are over and still point to an environment: what a crash between the two may leave. Oldest first.
    pub async fn closed_conversations_with_environment(&self) -> Result<Vec<Conversation>, StoreError> {
        let sql =
            sql!("SELECT * FROM conversations WHERE environment_id IS NOT NULL AND state <> $1 LIMIT $2 OFFSET $3");
        let mut closed: Vec<Conversation> = self.db.fetch_readable(sql.bind(ThreadState::Open), u32::MAX, 0).await?;
        // Asked to sort, an engine walks all threads in order rather than sort these few.
        closed.sort_by_key(|conversation| conversation.id);
        Ok(closed)
    }
}
