//! Environments. At most one live row for a work, a branch and a path; every change states the version it read.

use super::{
    Store, StoreError,
    db::{Row, sql},
};
use crate::model::*;
use std::path::PathBuf;
use uuid::Uuid;

/// A row to be inserted in state `creating`, before git runs.
#[derive(Clone, Debug)]
pub struct NewEnvironment {
    pub codebase: CodebaseId,
    pub work: Work,
    pub branch: BranchName,
    pub path: PathBuf,
    pub base: Option<BranchName>,
    pub provider: String,
    pub metadata: EnvironmentMetadata,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    Created(Environment),
    /// A live row of the same work.
    Exists(Environment),
    /// A live row of other work has the branch or the path.
    BranchTaken(Environment),
    LimitReached {
        live: u32,
    },
}

/// What a page of environments shows.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentFilter {
    pub codebase: Option<CodebaseId>,
    pub live_only: bool,
    /// Part of the branch or of the work's id, any case; empty matches all.
    pub search: String,
}

fn environment(row: &Row) -> Result<Environment, StoreError> {
    Ok(Environment {
        id: EnvironmentId(row.id("id")?),
        codebase: CodebaseId(row.id("codebase_id")?),
        work: Work { kind: row.parse("workflow_type")?, id: row.text("workflow_id")? },
        branch: row.try_into("branch")?.ok_or_else(|| super::db::corrupt("branch", "missing"))?,
        path: PathBuf::from(row.text("path")?),
        state: row.parse("state")?,
        base: row.try_into("base_branch")?,
        start: row.try_into("start_sha")?,
        pinned: row.bool("pinned")?,
        provider: row.text("provider")?,
        metadata: row.json("metadata")?,
        version: row.int("version")?,
        created_at: row.time("created_at")?,
        last_activity_at: row.time("last_activity_at")?,
        destroyed_at: row.time_opt("destroyed_at")?,
    })
}

impl Store {
    /// Inserts the journal row of a new environment, unless one is there or the codebase is full; all in one transaction.
    pub async fn insert_environment(
        &self,
        new: NewEnvironment,
        limit: u32,
        now: Timestamp,
    ) -> Result<Inserted, StoreError> {
        let mut tx = self.db.begin().await?;
        // Locks the codebase's row, so that the count below holds until the commit on both engines.
        tx.execute(sql("UPDATE codebases SET updated_at = updated_at WHERE id = $1").id(new.codebase.0)).await?;
        let same = tx
            .fetch_optional(
                sql("SELECT * FROM isolation_environments WHERE codebase_id = $1 AND workflow_type = $2
                        AND workflow_id = $3 AND state <> 'destroyed'")
                .id(new.codebase.0)
                .text(new.work.kind.as_str())
                .text(&new.work.id),
            )
            .await?;
        if let Some(row) = same {
            return environment(&row).map(Inserted::Exists);
        }
        let path = new.path.to_string_lossy().into_owned();
        let taken = tx
            .fetch_optional(
                sql("SELECT * FROM isolation_environments WHERE ((codebase_id = $1 AND branch = $2) OR path = $3)
                        AND state <> 'destroyed' LIMIT 1")
                .id(new.codebase.0)
                .text(new.branch.as_str())
                .text(&path),
            )
            .await?;
        if let Some(row) = taken {
            return environment(&row).map(Inserted::BranchTaken);
        }
        let count = sql("SELECT count(*) AS live FROM isolation_environments WHERE codebase_id = $1
                AND state <> 'destroyed'");
        let live = match tx.fetch_optional(count.id(new.codebase.0)).await? {
            Some(row) => row.int("live")?,
            None => 0,
        };
        if live >= limit.into() {
            return Ok(Inserted::LimitReached { live: live.try_into().unwrap_or(u32::MAX) });
        }
        let row = tx
            .fetch_optional(
                sql("INSERT INTO isolation_environments (id, codebase_id, workflow_type, workflow_id, branch, path, state,
                        base_branch, pinned, provider, metadata, version, created_at, last_activity_at)
                        VALUES ($1, $2, $3, $4, $5, $6, 'creating', $7, $8, $9, $10, $11, $12, $12) RETURNING *")
                    .id(Uuid::now_v7())
                    .id(new.codebase.0)
                    .text(new.work.kind.as_str())
                    .text(&new.work.id)
                    .text(new.branch.as_str())
                    .text(path)
                    .text_opt(new.base.clone())
                    .bool(false)
                    .text(&new.provider)
                    .json(&new.metadata)
                    .int(1)
                    .time(now),
            )
            .await?;
        tx.commit().await?;
        match row {
            Some(row) => environment(&row).map(Inserted::Created),
            None => Err(StoreError::Conflict),
        }
    }

    pub async fn load_environment(&self, id: EnvironmentId) -> Result<Option<Environment>, StoreError> {
        let row = self.db.fetch_optional(sql("SELECT * FROM isolation_environments WHERE id = $1").id(id.0)).await?;
        row.as_ref().map(environment).transpose()
    }

    pub async fn find_live_environment(
        &self,
        codebase: CodebaseId,
        work: &Work,
    ) -> Result<Option<Environment>, StoreError> {
        let row = self
            .db
            .fetch_optional(
                sql("SELECT * FROM isolation_environments WHERE codebase_id = $1 AND workflow_type = $2
                        AND workflow_id = $3 AND state <> 'destroyed'")
                .id(codebase.0)
                .text(work.kind.as_str())
                .text(&work.id),
            )
            .await?;
        row.as_ref().map(environment).transpose()
    }

    /// Oldest first; of all codebases when none is named.
    pub async fn live_environments(&self, codebase: Option<CodebaseId>) -> Result<Vec<Environment>, StoreError> {
        let statement = sql("SELECT * FROM isolation_environments WHERE state <> 'destroyed'
                AND ($1 = FALSE OR codebase_id = $2) ORDER BY id");
        let statement = statement.bool(codebase.is_some()).id_opt(codebase.map(|id| id.0));
        self.db.fetch_all(statement).await?.iter().map(environment).collect()
    }

    /// Newest first.
    pub async fn list_environments(
        &self,
        filter: &EnvironmentFilter,
        limit: u32,
        offset: u32,
    ) -> Result<Vec<Environment>, StoreError> {
        let pattern: String = filter.search.to_lowercase().chars().filter(|c| !matches!(c, '%' | '_')).collect();
        let statement = sql("SELECT * FROM isolation_environments WHERE ($1 = FALSE OR codebase_id = $2)
                AND ($3 = FALSE OR state <> 'destroyed') AND (lower(branch) LIKE $4 OR workflow_id LIKE $4)
                ORDER BY id DESC LIMIT $5 OFFSET $6")
        .bool(filter.codebase.is_some())
        .id_opt(filter.codebase.map(|id| id.0))
        .bool(filter.live_only)
        .text(format!("%{pattern}%"))
        .int(limit.into())
        .int(offset.into());
        self.db.fetch_all(statement).await?.iter().map(environment).collect()
    }

    /// Writes a changed copy; [`StoreError::Stale`] when the row moved on since it was read.
    pub async fn update_environment(&self, changed: &Environment) -> Result<Environment, StoreError> {
        let row = self
            .db
            .fetch_optional(
                sql("UPDATE isolation_environments SET state = $1, base_branch = $2, start_sha = $3, pinned = $4,
                        metadata = $5, version = version + 1 WHERE id = $6 AND version = $7 RETURNING *")
                .text(changed.state.as_str())
                .text_opt(changed.base.clone())
                .text_opt(changed.start.clone())
                .bool(changed.pinned)
                .json(&changed.metadata)
                .id(changed.id.0)
                .int(changed.version),
            )
            .await?;
        row.as_ref().map(environment).transpose()?.ok_or(StoreError::Stale)
    }

    /// Marks it destroyed, writes the receipt and clears every reference to it, in one transaction.
    pub async fn destroy_environment(
        &self,
        gone: &Environment,
        receipt: Option<(Trigger, ReceiptDetails)>,
        now: Timestamp,
    ) -> Result<Environment, StoreError> {
        let mut tx = self.db.begin().await?;
        let row = tx
            .fetch_optional(
                sql("UPDATE isolation_environments SET state = 'destroyed', destroyed_at = $1, version = version + 1
                        WHERE id = $2 AND version = $3 RETURNING *")
                .time(now)
                .id(gone.id.0)
                .int(gone.version),
            )
            .await?;
        let destroyed = environment(&row.ok_or(StoreError::Stale)?)?;
        tx.execute(
            sql("UPDATE conversations SET environment_id = NULL, updated_at = $1 WHERE environment_id = $2")
                .time(now)
                .id(gone.id.0),
        )
        .await?;
        if let Some((trigger, details)) = receipt {
            tx.execute(
                sql("INSERT INTO receipts (id, environment_id, trigger_kind, details, created_at)
                        VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING")
                .id(Uuid::now_v7())
                .id(gone.id.0)
                .text(trigger.as_str())
                .json(&details)
                .time(now),
            )
            .await?;
        }
        tx.commit().await?;
        Ok(destroyed)
    }

    /// Somebody wrote or a run ended: the only thing that counts as activity.
    pub async fn touch_environment(&self, id: EnvironmentId, now: Timestamp) -> Result<(), StoreError> {
        let statement = sql("UPDATE isolation_environments SET last_activity_at = $1 WHERE id = $2");
        self.db.execute(statement.time(now).id(id.0)).await.map(drop)
    }

    /// How many environments are in each state.
    pub async fn environment_counts(&self) -> Result<Vec<(EnvironmentState, i64)>, StoreError> {
        let statement = sql("SELECT state, count(*) AS rows FROM isolation_environments GROUP BY state");
        let rows = self.db.fetch_all(statement).await?;
        rows.iter().map(|row| Ok((row.parse("state")?, row.int("rows")?))).collect()
    }
}
