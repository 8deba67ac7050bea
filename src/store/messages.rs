//! Table `local_messages`: what was said in the threads of this machine's own platform, by its person and by the service.
//!
//! A message that is edited keeps its id. Each writing, of whichever message, has the next number of its conversation, so
//! that whoever has read up to a number finds everything that is new or different behind it.

use super::codec::FromRow;
use super::db::Row;
use super::sql::sql;
use super::{Answer, Store, StoreError};
use crate::model::*;

/// A message as it is to be read from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLocalMessage {
    /// Of the delivery that brought it, or of the outgoing row that it stands for.
    pub id: LocalMessageId,
    pub conversation: ConversationId,
    /// `None`: the service.
    pub author: Option<String>,
    /// The message that it answers.
    pub answers: Option<LocalMessageId>,
    pub body: String,
}

/// What is going on in a thread of this machine's own platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalActivity {
    pub deliveries: i64,
    pub runs: i64,
    pub outgoing: i64,
}

impl LocalActivity {
    /// Nothing more will be said until somebody asks.
    pub fn is_over(&self) -> bool {
        *self == Self::default()
    }
}

impl FromRow for LocalMessage {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(LocalMessage {
            id: row.get("id")?,
            author: row.maybe("author")?,
            answers: row.maybe("answers")?,
            body: row.get("body")?,
            written: row.get("written")?,
            run: row.maybe("run_state")?,
            handling: row.maybe("handling")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

/// The number that was given out.
struct Written(i64);

impl FromRow for Written {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("written").map(Written)
    }
}

impl Store {
    /// Lets a message be read, or read differently; saying the same again changes nothing.
    pub async fn write_local_message(&self, new: &NewLocalMessage, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let sql = sql!("SELECT count(*) AS answer FROM local_messages WHERE id = $1 AND body = $2");
        let same: Answer = tx.fetch_one(sql.bind(new.id).bind(&new.body)).await?;
        if same.0 > 0 {
            return tx.commit().await;
        }
        // The conversation's row is the gate: numbers become visible in the order in which they are given out.
        let sql = sql!("UPDATE conversations SET written = written + 1 WHERE id = $1 RETURNING written");
        let Written(number) = tx.fetch_one(sql.bind(new.conversation)).await?;
        let sql = sql!(
            "INSERT INTO local_messages (id, conversation_id, author, answers, body, written, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
             ON CONFLICT (id) DO UPDATE SET
                 body = excluded.body, written = excluded.written, updated_at = excluded.updated_at"
        );
        let sql = sql.bind(new.id).bind(new.conversation).bind(&new.author).bind(new.answers).bind(&new.body);
        tx.execute(sql.bind(number).bind(now)).await?;
        tx.commit().await
    }

    /// What is new or different after a number, in the order in which it was written.
    pub async fn local_messages(
        &self,
        conversation: ConversationId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<LocalMessage>, StoreError> {
        let sql = sql!(
            "SELECT message.*, run.state AS run_state, inbox.state AS handling FROM local_messages AS message
             LEFT JOIN runs AS run ON run.delivery_id = message.id
             LEFT JOIN inbox ON inbox.id = message.id
             WHERE message.conversation_id = $1 AND message.written > $2
             ORDER BY message.written LIMIT $3 OFFSET $4"
        );
        self.db.fetch_readable(sql.bind(conversation).bind(after), limit, 0).await
    }

    /// Nothing that was said in a conversation so far is read any more.
    pub async fn forget_local_messages(&self, conversation: ConversationId) -> Result<(), StoreError> {
        self.db
            .execute(sql!("DELETE FROM local_messages WHERE conversation_id = $1").bind(conversation))
            .await
            .map(drop)
    }

    /// What is under way in a thread, whose deliveries have the key `key`. A delivery is over when its run is there, a run
    /// when what is to be said about it is.
    pub async fn local_activity(
        &self,
        key: &str,
        conversation: Option<ConversationId>,
    ) -> Result<LocalActivity, StoreError> {
        // One after the other, in this order: what leaves one of them is in the next by then.
        let sql = sql!(
            "SELECT count(*) AS answer FROM inbox
             WHERE conversation_key IN ($1, $2) AND state IN ('received', 'claimed')"
        );
        let deliveries: Answer = self.db.fetch_one(sql.bind(key).bind(super::inbox::stored_key(key, true))).await?;
        let sql = sql!(
            "SELECT count(*) AS answer FROM runs
             WHERE conversation_id = $1 AND state IN ('queued', 'preparing', 'running', 'delivering')"
        );
        let runs: Answer = self.db.fetch_one(sql.bind(conversation)).await?;
        let sql = sql!(
            "SELECT count(*) AS answer FROM outbox WHERE conversation_id = $1 AND state IN ('pending', 'sending')"
        );
        let outgoing: Answer = self.db.fetch_one(sql.bind(conversation)).await?;
        Ok(LocalActivity { deliveries: deliveries.0, runs: runs.0, outgoing: outgoing.0 })
    }
}
