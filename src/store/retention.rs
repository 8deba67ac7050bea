//! The end of rows that nobody needs any more, in pieces that hold up no writer for long.
//!
//! Kept for ever: environments, receipts, the audit log, runs (what is proven rests on where they left a branch), threads,
//! and of what was said the rows by which it is known that it was: an answer, a refusal, what became of a worktree. Deliveries
//! of runs stay with them, without their body. Each of those is at most one for something that a person did.

use super::codec::{Column, FromRow};
use super::db::Row;
use super::inbox;
use super::sql::{Param, Sql, ToParam, sql};
use super::{Store, StoreError, WebSessions};
use crate::model::Timestamp;
use uuid::{Builder, Uuid};

/// What has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlived {
    /// Deliveries that were dealt with and led to no run.
    Deliveries,
    /// The bodies of those that led to one.
    Bodies,
    /// Reactions, status comments, pull requests and warnings of loops: rows of what was sent, or given up.
    Outgoing,
    /// What agents remembered, and do not any more.
    Sessions,
    Reports,
    /// What was said in threads of this machine that are closed.
    LocalMessages,
}

impl Outlived {
    pub const ALL: [Outlived; 6] = [
        Outlived::Deliveries,
        Outlived::Bodies,
        Outlived::Outgoing,
        Outlived::Sessions,
        Outlived::Reports,
        Outlived::LocalMessages,
    ];

    /// As metrics count it.
    pub fn as_str(self) -> &'static str {
        match self {
            Outlived::Deliveries => "deliveries",
            Outlived::Bodies => "delivery_bodies",
            Outlived::Outgoing => "outgoing",
            Outlived::Sessions => "sessions",
            Outlived::Reports => "reports",
            Outlived::LocalMessages => "local_messages",
        }
    }

    /// Where a piece ends that begins behind `$1` and does not go beyond `$2`. None: it is the last.
    fn end(self) -> Sql {
        match self {
            Outlived::Deliveries | Outlived::Bodies => {
                sql!("SELECT id FROM inbox WHERE id > $1 AND id < $2 ORDER BY id LIMIT 1 OFFSET 200")
            }
            Outlived::Outgoing => {
                sql!("SELECT id FROM outbox WHERE id > $1 AND id < $2 ORDER BY id LIMIT 1 OFFSET 200")
            }
            Outlived::Sessions => {
                sql!("SELECT id FROM sessions WHERE id > $1 AND id < $2 ORDER BY id LIMIT 1 OFFSET 200")
            }
            Outlived::Reports => {
                sql!("SELECT id FROM cleanup_reports WHERE id > $1 AND id < $2 ORDER BY id LIMIT 1 OFFSET 20")
            }
            Outlived::LocalMessages => {
                sql!("SELECT id FROM local_messages WHERE id > $1 AND id < $2 ORDER BY id LIMIT 1 OFFSET 200")
            }
        }
    }

    /// Deletes what is behind `$1`, not beyond `$2`, and was over before `$3`.
    fn forget(self) -> Sql {
        match self {
            Outlived::Deliveries => sql!(
                "DELETE FROM inbox
                 WHERE id > $1 AND id <= $2 AND state IN ('done', 'ignored', 'failed') AND finished_at < $3
                   AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.delivery_id = inbox.id)"
            ),
            Outlived::Bodies => sql!(
                "UPDATE inbox SET body = $4
                 WHERE id > $1 AND id <= $2 AND state IN ('done', 'ignored', 'failed') AND finished_at < $3
                   AND body <> $4"
            ),
            // A run that waits for longer than anything is kept writes its comment again.
            Outlived::Outgoing => sql!(
                "DELETE FROM outbox
                 WHERE id > $1 AND id <= $2 AND state IN ('sent', 'failed') AND updated_at < $3
                   AND (key LIKE 'react/%' OR key LIKE 'status/%' OR key LIKE 'check/%' OR key LIKE 'pull/%'
                     OR key LIKE 'loop/%')
                   AND NOT EXISTS (
                       SELECT 1 FROM runs
                       WHERE runs.state IN ('queued', 'preparing', 'running', 'delivering')
                         AND outbox.key IN ('status/' || CAST(runs.id AS TEXT), 'check/' || CAST(runs.id AS TEXT),
                                            'pull/' || CAST(runs.id AS TEXT)))"
            ),
            Outlived::Sessions => sql!("DELETE FROM sessions WHERE id > $1 AND id <= $2 AND closed_at < $3"),
            Outlived::Reports => sql!("DELETE FROM cleanup_reports WHERE id > $1 AND id <= $2 AND ended_at < $3"),
            Outlived::LocalMessages => sql!(
                "DELETE FROM local_messages
                 WHERE id > $1 AND id <= $2 AND updated_at < $3
                   AND EXISTS (SELECT 1 FROM conversations
                               WHERE conversations.id = local_messages.conversation_id
                                 AND conversations.state <> 'open')"
            ),
        }
    }
}

/// Between two pieces: a row's id, or where one would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge(Uuid);

impl Edge {
    /// Before everything.
    pub const START: Self = Self(Uuid::nil());

    /// Ids begin with the time at which they were made.
    fn at(time: Timestamp) -> Self {
        let millis = u64::try_from(time.datetime().timestamp_millis()).unwrap_or(0);
        Self(Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid())
    }
}

impl ToParam for Edge {
    const NULL: Param = Param::Id(None);
    fn to_param(&self) -> Param {
        Param::Id(Some(self.0))
    }
}

impl Column for Edge {
    fn read(row: &Row, column: &str) -> Result<Option<Self>, StoreError> {
        Ok(row.id(column)?.map(Self))
    }
}

impl FromRow for Edge {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("id")
    }
}

impl Store {
    /// Forgets one piece of what was over before a moment. Answers with how many rows that were, and where the next piece
    /// begins.
    pub async fn forget_piece(
        &self,
        what: Outlived,
        from: Edge,
        before: Timestamp,
    ) -> Result<(u64, Option<Edge>), StoreError> {
        let last = Edge::at(before);
        let end: Option<Edge> = self.db.fetch_optional(what.end().bind(from).bind(last)).await?;
        let forget = what.forget().bind(from).bind(end.unwrap_or(last)).bind(before);
        let forget = match what {
            Outlived::Bodies => forget.bind(inbox::no_body().await?),
            Outlived::Deliveries
            | Outlived::Outgoing
            | Outlived::Sessions
            | Outlived::Reports
            | Outlived::LocalMessages => forget,
        };
        Ok((self.db.execute(forget).await?, end))
    }

    /// Forgets sessions of the panel that have expired.
    pub async fn forget_web_sessions(&self, now: Timestamp) -> Result<u64, StoreError> {
        WebSessions::new(self.clone()).prune(now).await
    }
}
