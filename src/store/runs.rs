//! Table `runs`: from the queue to the end. A run that is at work is `preparing`, `running` or `delivering` and held under
//! a lease; there is at most one such run for a conversation and for an environment.
//!
//! `claim` hands runs out, in what order the queue says, `cancel` takes them back; what is written in between is below.

mod cancel;
mod claim;

pub use claim::LeftBehind;

use super::codec::FromRow;
use super::db::Row;
use super::sql::{Sql, new_id, sql};
use super::unreadable::Queued;
use super::{Answer, NewOutgoing, Store, StoreError, outbox};
use crate::model::*;
use std::collections::HashSet;
use uuid::Uuid;

/// A wish for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    pub codebase: CodebaseId,
    pub conversation: ConversationId,
    pub delivery: InboxId,
    pub request: RunRequest,
}

/// Which runs a page wants to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunFilter {
    #[default]
    All,
    Environment(EnvironmentId),
}

struct Busy(EnvironmentId);

impl FromRow for Busy {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("id").map(Busy)
    }
}

impl FromRow for Run {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Run {
            id: row.get("id")?,
            codebase: row.get("codebase_id")?,
            conversation: row.get("conversation_id")?,
            environment: row.maybe("environment_id")?,
            delivery: row.get("delivery_id")?,
            request: row.get_json("request")?,
            state: row.get("state")?,
            reason: row.maybe("reason")?,
            opening: row.maybe("opening")?,
            answer: row.maybe("answer")?,
            process: row.maybe_json("process")?,
            outcome: row.get_json("outcome")?,
            cancel_requested: row.get("cancel_requested")?,
            attempts: row.get("attempts")?,
            created_at: row.get("created_at")?,
            started_at: row.maybe("started_at")?,
            ended_at: row.maybe("ended_at")?,
        })
    }
}

impl Queued for Run {
    const TABLE: &'static str = "runs";

    fn give_up() -> Sql {
        sql!(
            "UPDATE runs SET state = 'failed', reason = $2, ended_at = $3, lease_owner = NULL, lease_until = NULL
             WHERE id = $1 AND state IN ('preparing', 'running', 'delivering')"
        )
    }
}

impl Store {
    /// Queues a run. A delivery has one: asking again, after a crash, answers with the one that is there.
    pub async fn insert_run(&self, new: NewRun, now: Timestamp) -> Result<Run, StoreError> {
        match self.db.fetch_optional(insert(&new, now)?).await? {
            Some(run) => Ok(run),
            None => self.db.fetch_one(of_delivery(new.delivery)).await,
        }
    }

    pub async fn find_run_of_delivery(&self, delivery: InboxId) -> Result<Option<Run>, StoreError> {
        self.db.fetch_optional(of_delivery(delivery)).await
    }

    pub async fn load_run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        self.db.fetch_optional(sql!("SELECT * FROM runs WHERE id = $1").bind(id)).await
    }

    /// One page, the newest first.
    pub async fn list_runs(&self, filter: RunFilter, limit: u32, offset: u32) -> Result<Vec<Run>, StoreError> {
        let sql = match filter {
            RunFilter::All => sql!("SELECT * FROM runs ORDER BY id DESC LIMIT $1 OFFSET $2"),
            RunFilter::Environment(environment) => {
                sql!("SELECT * FROM runs WHERE environment_id = $1 ORDER BY id DESC LIMIT $2 OFFSET $3")
                    .bind(environment)
            }
        };
        self.db.fetch_readable(sql, limit, offset).await
    }

    /// The run of a conversation that is at work, else the one that is next.
    pub async fn live_run_of(&self, conversation: ConversationId) -> Result<Option<Run>, StoreError> {
        let sql = sql!(
            "SELECT * FROM runs
             WHERE conversation_id = $1 AND state IN ('queued', 'preparing', 'running', 'delivering')
             ORDER BY id LIMIT 1"
        );
        self.db.fetch_optional(sql.bind(conversation)).await
    }

    /// Whether a run is at work in an environment, or will be: bound to it, or yet to begin in a conversation that points to
    /// it. One at work elsewhere goes on there, wherever its conversation points by now. Runs of the conversation `besides` do
    /// not count.
    pub async fn environment_is_busy(
        &self,
        environment: EnvironmentId,
        besides: Option<ConversationId>,
    ) -> Result<bool, StoreError> {
        // The `CASE` keeps the engines at the few rows of these states; with `OR` they look up each side's history.
        let sql = sql!(
            "SELECT count(*) AS answer FROM runs
             WHERE state IN ('queued', 'preparing', 'running', 'delivering') AND conversation_id <> $2
               AND CASE WHEN environment_id = $1 THEN true
                        WHEN environment_id IS NOT NULL AND state IN ('running', 'delivering') THEN false
                        ELSE conversation_id IN (SELECT id FROM conversations WHERE environment_id = $1) END"
        );
        let besides = besides.unwrap_or(ConversationId(Uuid::nil()));
        let busy: Answer = self.db.fetch_one(sql.bind(environment).bind(besides)).await?;
        Ok(busy.0 > 0)
    }

    /// Those live environments of a codebase of which [`Store::environment_is_busy`] says so.
    pub async fn busy_environments(&self, codebase: CodebaseId) -> Result<HashSet<EnvironmentId>, StoreError> {
        let sql = sql!(
            "SELECT DISTINCT e.id AS id FROM runs r
             LEFT JOIN conversations c ON c.id = r.conversation_id
             JOIN isolation_environments e ON e.id = r.environment_id
               OR (e.id = c.environment_id
                   AND (r.environment_id IS NULL OR r.state NOT IN ('running', 'delivering')))
             WHERE r.state IN ('queued', 'preparing', 'running', 'delivering')
               AND e.codebase_id = $1 AND e.state <> 'destroyed'"
        );
        let busy: Vec<Busy> = self.db.fetch_all(sql.bind(codebase)).await?;
        Ok(busy.into_iter().map(|Busy(id)| id).collect())
    }

    /// How many runs a conversation asked for since a moment.
    pub async fn recent_runs(&self, conversation: ConversationId, since: Timestamp) -> Result<u32, StoreError> {
        let sql = sql!("SELECT count(*) AS answer FROM runs WHERE conversation_id = $1 AND created_at >= $2");
        let recent: Answer = self.db.fetch_one(sql.bind(conversation).bind(since)).await?;
        Ok(recent.0.try_into().unwrap_or(u32::MAX))
    }

    /// All runs that a message, or the text of the thread itself, asked for, oldest first.
    pub async fn runs_of_message(
        &self,
        conversation: ConversationId,
        source: &MessageSource,
    ) -> Result<Vec<Run>, StoreError> {
        let sql = sql!(
            "SELECT * FROM runs WHERE conversation_id = $1 AND source_comment IS NOT DISTINCT FROM $2 ORDER BY id"
        );
        let mut runs: Vec<Run> = self.db.fetch_all(sql.bind(conversation).bind(source.comment())).await?;
        runs.retain(|run| run.request.source.is_same(source));
        Ok(runs)
    }

    /// The run that answers a review, or has answered it.
    pub async fn run_of_review(
        &self,
        conversation: ConversationId,
        review: CommentId,
    ) -> Result<Option<Run>, StoreError> {
        let sql = sql!(
            "SELECT * FROM runs WHERE conversation_id = $1 AND review = $2 AND state <> 'cancelled' ORDER BY id LIMIT 1"
        );
        self.db.fetch_optional(sql.bind(conversation).bind(review)).await
    }

    /// Writes what changed in a run its owner holds; false when the lease was lost. A conflict when the environment it is
    /// bound to has another run at work.
    pub async fn update_run(&self, run: &Run, owner: &str) -> Result<bool, StoreError> {
        Ok(self.db.execute(write(run, owner)?).await? > 0)
    }

    /// Like [`Store::update_run`], together with what is to be said about it: all of it or nothing.
    pub async fn finish_run(
        &self,
        run: &Run,
        owner: &str,
        told: impl IntoIterator<Item = NewOutgoing, IntoIter: Send> + Send,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        if tx.execute(write(run, owner)?).await? == 0 {
            return Ok(false);
        }
        for new in told {
            outbox::enqueue_in(&mut tx, &new, now).await?;
        }
        tx.commit().await?;
        Ok(true)
    }
}

impl Store {
    /// Writes down what became known about a run after it ended; false when it has not.
    pub async fn correct_outcome(&self, run: &Run) -> Result<bool, StoreError> {
        let sql = sql!(
            "UPDATE runs SET outcome = $2
             WHERE id = $1 AND state NOT IN ('queued', 'preparing', 'running', 'delivering')"
        );
        Ok(self.db.execute(sql.bind(run.id).bind_json(&run.outcome)?).await? > 0)
    }
}

fn of_delivery(delivery: InboxId) -> Sql {
    sql!("SELECT * FROM runs WHERE delivery_id = $1").bind(delivery)
}

fn insert(new: &NewRun, now: Timestamp) -> Result<Sql, StoreError> {
    let sql = sql!(
        "INSERT INTO runs (id, codebase_id, conversation_id, delivery_id, source_comment, review, request, state, outcome,
                           cancel_requested, attempts, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, false, 0, $10)
         ON CONFLICT (delivery_id) DO NOTHING
         RETURNING *"
    );
    Ok(sql
        .bind(new_id::<RunId>())
        .bind(new.codebase)
        .bind(new.conversation)
        .bind(new.delivery)
        .bind(new.request.source.comment())
        .bind(new.request.review)
        .bind_json(&new.request)?
        .bind(RunState::Queued)
        .bind_json(&RunOutcome::default())?
        .bind(now))
}

/// The lease is the fence: owner and attempts, and a stage in which somebody is at work. A final state lets go of it.
fn write(run: &Run, owner: &str) -> Result<Sql, StoreError> {
    let sql = sql!(
        "UPDATE runs SET environment_id = $4, state = $5, reason = $6, opening = $7, answer = $8, process = $9,
                         outcome = $10, started_at = $11, ended_at = $12,
                         lease_owner = CASE WHEN $13 THEN NULL ELSE lease_owner END,
                         lease_until = CASE WHEN $13 THEN NULL ELSE lease_until END
         WHERE id = $1 AND lease_owner = $2 AND attempts = $3 AND state IN ('preparing', 'running', 'delivering')"
    );
    Ok(sql
        .bind(run.id)
        .bind(owner)
        .bind(run.attempts)
        .bind(run.environment)
        .bind(run.state)
        .bind(&run.reason)
        .bind(&run.opening)
        .bind(&run.answer)
        .bind_json_option(run.process.as_ref())?
        .bind_json(&run.outcome)?
        .bind(run.started_at)
        .bind(run.ended_at)
        .bind(run.state.is_final()))
}
