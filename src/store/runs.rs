//! Runs: a durable queue with leases. One live run in a conversation and in an environment; codebases take turns.

use super::{
    NewOutgoing, Store, StoreError,
    db::{Row, Sql, sql},
    outbox,
};
use crate::model::*;
use std::time::Duration;
use uuid::Uuid;

/// A message for the agent.
#[derive(Clone, Debug)]
pub struct NewRun {
    pub codebase: CodebaseId,
    pub conversation: ConversationId,
    /// One run a delivery: inserting twice gives the same row.
    pub delivery: InboxId,
    pub request: RunRequest,
}

/// What a page of runs shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunFilter {
    pub environment: Option<EnvironmentId>,
    pub conversation: Option<ConversationId>,
}

fn run(row: &Row) -> Result<Run, StoreError> {
    Ok(Run {
        id: RunId(row.id("id")?),
        codebase: CodebaseId(row.id("codebase_id")?),
        conversation: ConversationId(row.id("conversation_id")?),
        environment: row.id_opt("environment_id")?.map(EnvironmentId),
        delivery: InboxId(row.id("delivery_id")?),
        request: row.json("request")?,
        state: row.parse("state")?,
        reason: row.text_opt("reason")?,
        opening: row.text_opt("opening")?,
        answer: row.text_opt("answer")?,
        process: row.json_opt("process")?,
        outcome: row.json("outcome")?,
        cancel_requested: row.bool("cancel_requested")?,
        attempts: row.int("attempts")?,
        created_at: row.time("created_at")?,
        started_at: row.time_opt("started_at")?,
        ended_at: row.time_opt("ended_at")?,
    })
}

fn run_ids(rows: &[Row]) -> Result<Vec<RunId>, StoreError> {
    rows.iter().map(|row| row.id("id").map(RunId)).collect()
}

impl Store {
    pub async fn insert_run(&self, new: NewRun, now: Timestamp) -> Result<Run, StoreError> {
        let comment = match &new.request.source {
            MessageSource::ThreadBody => None,
            MessageSource::IssueComment { id }
            | MessageSource::Review { id }
            | MessageSource::ReviewComment { id, .. } => Some(id.0),
        };
        let row = self
            .db
            .fetch_one(
                sql("INSERT INTO runs (id, codebase_id, conversation_id, delivery_id, request, comment_id, state, outcome,
                        cancel_requested, attempts, created_at) VALUES ($1, $2, $3, $4, $5, $6, 'queued', $7, $8, $9, $10)
                        ON CONFLICT (delivery_id) DO UPDATE SET delivery_id = excluded.delivery_id RETURNING *")
                    .id(Uuid::now_v7())
                    .id(new.codebase.0)
                    .id(new.conversation.0)
                    .id(new.delivery.0)
                    .json(&new.request)
                    .int_opt(comment)
                    .json(&RunOutcome::default())
                    .bool(false)
                    .int(0)
                    .time(now),
            )
            .await?;
        run(&row)
    }

    pub async fn load_run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        let row = self.db.fetch_optional(sql("SELECT * FROM runs WHERE id = $1").id(id.0)).await?;
        row.as_ref().map(run).transpose()
    }

    /// Newest first.
    pub async fn list_runs(&self, filter: RunFilter, limit: u32, offset: u32) -> Result<Vec<Run>, StoreError> {
        let statement = sql("SELECT * FROM runs WHERE ($1 = FALSE OR environment_id = $2)
                AND ($3 = FALSE OR conversation_id = $4) ORDER BY id DESC LIMIT $5 OFFSET $6")
        .bool(filter.environment.is_some())
        .id_opt(filter.environment.map(|id| id.0))
        .bool(filter.conversation.is_some())
        .id_opt(filter.conversation.map(|id| id.0))
        .int(limit.into())
        .int(offset.into());
        self.db.fetch_all(statement).await?.iter().map(run).collect()
    }

    /// The next run that may start, or one whose preparation or delivery was left by a crash. Oldest first, codebases
    /// with fewer live runs before others, never beyond `most_live` at once.
    pub async fn claim_run(
        &self,
        owner: &str,
        now: Timestamp,
        lease: Duration,
        most_live: u32,
    ) -> Result<Option<Run>, StoreError> {
        let row = self
            .db
            .fetch_optional(
                sql("UPDATE runs SET state = CASE WHEN state = 'queued' THEN 'preparing' ELSE state END,
                        owner = $1, lease_until = $2, attempts = attempts + 1
                        WHERE (state = 'queued' OR (state IN ('preparing', 'delivering') AND owner IS NULL))
                        AND (state <> 'queued'
                            OR (SELECT count(*) FROM runs WHERE state IN ('preparing', 'running', 'delivering')) < $3)
                        AND id = (
                            SELECT r.id FROM runs r
                            WHERE (r.state = 'queued' OR (r.state IN ('preparing', 'delivering') AND r.owner IS NULL))
                            AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.conversation_id = r.conversation_id
                                AND o.id <> r.id AND (o.state IN ('preparing', 'running', 'delivering')
                                    OR (o.state = 'queued' AND o.id < r.id)))
                            AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.environment_id = r.environment_id
                                AND o.id <> r.id AND o.state IN ('preparing', 'running', 'delivering'))
                            ORDER BY CASE WHEN r.state = 'queued' THEN 1 ELSE 0 END,
                                (SELECT count(*) FROM runs o WHERE o.codebase_id = r.codebase_id
                                    AND o.state IN ('preparing', 'running', 'delivering')),
                                r.id
                            LIMIT 1)
                        RETURNING *")
                .text(owner)
                .time(now.plus(lease))
                .int(most_live.into()),
            )
            .await;
        match row {
            Ok(row) => row.as_ref().map(run).transpose(),
            // Another worker claimed a run of the same conversation at the same moment.
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renews a lease; answers whether the run was asked to stop, or `None` when the lease is lost.
    pub async fn heartbeat_run(&self, held: &Run, owner: &str, until: Timestamp) -> Result<Option<bool>, StoreError> {
        let row = self
            .db
            .fetch_optional(
                sql("UPDATE runs SET lease_until = $1 WHERE id = $2 AND owner = $3 AND attempts = $4
                        AND state IN ('preparing', 'running', 'delivering') RETURNING cancel_requested")
                .time(until)
                .id(held.id.0)
                .text(owner)
                .int(held.attempts),
            )
            .await?;
        row.map(|row| row.bool("cancel_requested")).transpose()
    }

    /// Writes what changed; false when the lease is lost. [`StoreError::Conflict`]: the environment has another live run.
    pub async fn update_run(&self, changed: &Run, owner: &str) -> Result<bool, StoreError> {
        Ok(self.db.execute(update(changed, owner)).await? == 1)
    }

    /// Writes the end of a run and what is to be said about it, in one transaction; false when the lease is lost.
    pub async fn finish_run(
        &self,
        ended: &Run,
        owner: &str,
        outgoing: Option<NewOutgoing>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        if tx.execute(update(ended, owner)).await? != 1 {
            return Ok(false);
        }
        if let Some(outgoing) = outgoing {
            tx.fetch_optional(outbox::upsert(&outgoing, now)).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Puts a claimed run back; it waits until `environment` is free.
    pub async fn requeue_run(&self, held: &Run, owner: &str, environment: EnvironmentId) -> Result<(), StoreError> {
        let statement = sql("UPDATE runs SET state = 'queued', owner = NULL, lease_until = NULL, environment_id = $1
                WHERE id = $2 AND owner = $3 AND attempts = $4")
        .id(environment.0)
        .id(held.id.0)
        .text(owner)
        .int(held.attempts);
        self.db.execute(statement).await.map(drop)
    }

    /// Asks the runs of a conversation to stop. Queued ones are over at once. Answers with all that were asked.
    pub async fn request_cancel_of_conversation(
        &self,
        conversation: ConversationId,
        now: Timestamp,
    ) -> Result<Vec<RunId>, StoreError> {
        let statement = sql("UPDATE runs SET cancel_requested = TRUE,
                ended_at = CASE WHEN state = 'queued' THEN $1 ELSE ended_at END,
                state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END
                WHERE conversation_id = $2 AND state IN ('queued', 'preparing', 'running', 'delivering') RETURNING id");
        run_ids(&self.db.fetch_all(statement.time(now).id(conversation.0)).await?)
    }

    /// The same for one run.
    pub async fn request_cancel_of_run(&self, id: RunId, now: Timestamp) -> Result<Vec<RunId>, StoreError> {
        let statement = sql("UPDATE runs SET cancel_requested = TRUE,
                ended_at = CASE WHEN state = 'queued' THEN $1 ELSE ended_at END,
                state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END
                WHERE id = $2 AND state IN ('queued', 'preparing', 'running', 'delivering') RETURNING id");
        run_ids(&self.db.fetch_all(statement.time(now).id(id.0)).await?)
    }

    /// A comment was deleted before its run began.
    pub async fn cancel_queued_runs_for_source(
        &self,
        conversation: ConversationId,
        comment: CommentId,
        now: Timestamp,
    ) -> Result<Vec<RunId>, StoreError> {
        let statement = sql("UPDATE runs SET state = 'cancelled', cancel_requested = TRUE, ended_at = $1
                WHERE conversation_id = $2 AND comment_id = $3 AND state = 'queued' RETURNING id");
        run_ids(&self.db.fetch_all(statement.time(now).id(conversation.0).int(comment.0)).await?)
    }

    /// After a start of this node: none of its runs is alive. Preparing and delivering ones can be claimed again; running
    /// ones stay with this node, which has to end them. All are returned.
    pub async fn release_runs_of(&self, owner: &str) -> Result<Vec<Run>, StoreError> {
        let statement = sql("UPDATE runs SET owner = CASE WHEN state = 'running' THEN owner ELSE NULL END
                WHERE owner = $1 AND state IN ('preparing', 'running', 'delivering') RETURNING *");
        self.db.fetch_all(statement.text(owner)).await?.iter().map(run).collect()
    }

    /// The same for leases of any node that ran out; running ones are taken over by `owner`.
    pub async fn take_over_expired_runs(&self, owner: &str, now: Timestamp) -> Result<Vec<Run>, StoreError> {
        let statement = sql("UPDATE runs SET owner = CASE WHEN state = 'running' THEN $1 ELSE NULL END
                WHERE lease_until < $2 AND owner IS NOT NULL AND state IN ('preparing', 'running', 'delivering')
                RETURNING *");
        self.db.fetch_all(statement.text(owner).time(now)).await?.iter().map(run).collect()
    }

    /// How many runs are ahead in the queue.
    pub async fn queue_place(&self, id: RunId) -> Result<u32, StoreError> {
        let statement = sql("SELECT count(*) AS ahead FROM runs WHERE state = 'queued' AND id < $1");
        let ahead = self.db.fetch_one(statement.id(id.0)).await?.int("ahead")?;
        Ok(ahead.try_into().unwrap_or(u32::MAX))
    }

    /// The unfinished run of a conversation that is furthest along.
    pub async fn live_run_of(&self, conversation: ConversationId) -> Result<Option<Run>, StoreError> {
        let statement = sql("SELECT * FROM runs WHERE conversation_id = $1
                AND state IN ('queued', 'preparing', 'running', 'delivering') ORDER BY id LIMIT 1");
        let row = self.db.fetch_optional(statement.id(conversation.0)).await?;
        row.as_ref().map(run).transpose()
    }

    /// A live or queued run works in it, or will, since its conversation points to it.
    pub async fn environment_is_busy(&self, id: EnvironmentId) -> Result<bool, StoreError> {
        let statement =
            sql("SELECT count(*) AS busy FROM runs r WHERE r.state IN ('queued', 'preparing', 'running', 'delivering')
                AND (r.environment_id = $1
                    OR r.conversation_id IN (SELECT c.id FROM conversations c WHERE c.environment_id = $1))");
        Ok(self.db.fetch_one(statement.id(id.0)).await?.int("busy")? > 0)
    }

    /// Runs a conversation was given since a moment.
    pub async fn recent_runs(&self, conversation: ConversationId, since: Timestamp) -> Result<u32, StoreError> {
        let statement = sql("SELECT count(*) AS recent FROM runs WHERE conversation_id = $1 AND created_at >= $2");
        let recent = self.db.fetch_one(statement.id(conversation.0).time(since)).await?.int("recent")?;
        Ok(recent.try_into().unwrap_or(u32::MAX))
    }

    /// How many runs are in each state.
    pub async fn run_counts(&self) -> Result<Vec<(RunState, i64)>, StoreError> {
        let rows = self.db.fetch_all(sql("SELECT state, count(*) AS rows FROM runs GROUP BY state")).await?;
        rows.iter().map(|row| Ok((row.parse("state")?, row.int("rows")?))).collect()
    }
}

fn update(changed: &Run, owner: &str) -> Sql {
    sql("UPDATE runs SET environment_id = $1, state = $2, reason = $3, opening = $4, answer = $5, process = $6, outcome = $7,
            started_at = $8, ended_at = $9 WHERE id = $10 AND owner = $11 AND attempts = $12
            AND state IN ('preparing', 'running', 'delivering')")
        .id_opt(changed.environment.map(|id| id.0))
        .text(changed.state.as_str())
        .text_opt(changed.reason.as_deref())
        .text_opt(changed.opening.as_deref())
        .text_opt(changed.answer.as_deref())
        .json_opt(changed.process.as_ref())
        .json(&changed.outcome)
        .time_opt(changed.started_at)
        .time_opt(changed.ended_at)
        .id(changed.id.0)
        .text(owner)
        .int(changed.attempts)
}
