//! Table `isolation_environments`. Rows are never deleted: a destroyed one is history and holds no key.

use super::codec::FromRow;
use super::db::{Row, Tx};
use super::sql::{new_id, sql};
use super::unreadable::Unreadable;
use super::{Answer, NewOutgoing, Store, StoreError};
use crate::model::*;
use std::path::PathBuf;

/// What an environment is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEnvironment {
    pub codebase: CodebaseId,
    pub work: Work,
    pub branch: BranchName,
    pub path: PathBuf,
    pub base: Option<BranchName>,
    pub provider: String,
    pub metadata: EnvironmentMetadata,
}

/// What became of the wish for a new environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// A row in state `creating`.
    Created(Environment),
    /// This work has a live environment already.
    Exists(Environment),
    /// Other work lives on this branch or at this path.
    BranchTaken(Environment),
    LimitReached {
        live: u32,
    },
}

/// Which environments a page wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentFilter {
    pub codebase: Option<CodebaseId>,
    pub live_only: bool,
    /// Part of a branch or of the work's name, in whatever case; empty for all.
    pub search: String,
}

impl FromRow for Environment {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Environment {
            id: row.get("id")?,
            codebase: row.get("codebase_id")?,
            work: Work { kind: row.get("workflow_type")?, id: row.get("workflow_id")? },
            branch: row.get("branch")?,
            path: row.get("path")?,
            state: row.get("state")?,
            base: row.maybe("base_branch")?,
            start: row.maybe("start_commit")?,
            pinned: row.get("pinned")?,
            provider: row.get("provider")?,
            metadata: row.get_json("metadata")?,
            version: row.get("version")?,
            created_at: row.get("created_at")?,
            last_activity_at: row.get("last_activity_at")?,
            destroyed_at: row.maybe("destroyed_at")?,
        })
    }
}

struct Place(PathBuf);

impl FromRow for Place {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("path").map(Place)
    }
}

impl Store {
    /// Inserts an environment in state `creating` unless one lives already or `limit` live ones are there. Checks and
    /// insertion are one transaction, and transactions of one codebase follow each other.
    pub async fn insert_environment(
        &self,
        new: NewEnvironment,
        limit: u32,
        now: Timestamp,
    ) -> Result<Inserted, StoreError> {
        let mut tx = self.db.begin().await?;
        // The codebase's row is the gate: whoever changes it first, even to what it was, goes first.
        tx.execute(sql!("UPDATE codebases SET connected = connected WHERE id = $1").bind(new.codebase)).await?;
        let outcome = match in_the_way(&mut tx, &new, limit).await? {
            Some(outcome) => outcome,
            None => Inserted::Created(insert(&mut tx, &new, EnvironmentState::Creating, (now, now)).await?),
        };
        tx.commit().await?;
        Ok(outcome)
    }

    pub async fn load_environment(&self, id: EnvironmentId) -> Result<Option<Environment>, StoreError> {
        self.db.fetch_optional(sql!("SELECT * FROM isolation_environments WHERE id = $1").bind(id)).await
    }

    /// The live environment of this work. What was made of old for the review of a pull request is that one's, where it has no
    /// other.
    pub async fn find_live_environment(
        &self,
        codebase: CodebaseId,
        work: &Work,
    ) -> Result<Option<Environment>, StoreError> {
        let own = self.live_environment_of(codebase, work.kind, &work.id).await?;
        match work.kind {
            WorkKind::PullRequest if own.is_none() => {
                self.live_environment_of(codebase, WorkKind::Review, &work.id).await
            }
            WorkKind::PullRequest | WorkKind::Review | WorkKind::Issue | WorkKind::Thread | WorkKind::Task => Ok(own),
        }
    }

    /// The one whose worktree has a branch: git has none in two.
    pub async fn find_live_environment_on(
        &self,
        codebase: CodebaseId,
        branch: &BranchName,
    ) -> Result<Option<Environment>, StoreError> {
        let sql = sql!(
            "SELECT * FROM isolation_environments WHERE codebase_id = $1 AND branch = $2 AND state <> 'destroyed'"
        );
        self.db.fetch_optional(sql.bind(codebase).bind(branch)).await
    }

    async fn live_environment_of(
        &self,
        codebase: CodebaseId,
        kind: WorkKind,
        id: &str,
    ) -> Result<Option<Environment>, StoreError> {
        // Not the newest: ids of several processes, or after a clock that was set back, are in no order.
        let sql = sql!(
            "SELECT * FROM isolation_environments
             WHERE codebase_id = $1 AND workflow_type = $2 AND workflow_id = $3 AND state <> 'destroyed'"
        );
        self.db.fetch_optional(sql.bind(codebase).bind(kind).bind(id)).await
    }

    /// The one this work has, else had last.
    pub async fn find_last_environment(
        &self,
        codebase: CodebaseId,
        work: &Work,
    ) -> Result<Option<Environment>, StoreError> {
        let sql = sql!(
            "SELECT * FROM isolation_environments
             WHERE codebase_id = $1 AND workflow_type = $2 AND workflow_id = $3
             ORDER BY id DESC LIMIT 1"
        );
        self.db.fetch_optional(sql.bind(codebase).bind(work.kind).bind(&work.id)).await
    }

    /// Every environment that this work has had, newest first.
    pub async fn environments_of(&self, codebase: CodebaseId, work: &Work) -> Result<Vec<Environment>, StoreError> {
        let sql = sql!(
            "SELECT * FROM isolation_environments
             WHERE codebase_id = $1 AND workflow_type = $2 AND workflow_id = $3 ORDER BY id DESC"
        );
        self.db.fetch_all(sql.bind(codebase).bind(work.kind).bind(&work.id)).await
    }

    /// Every environment whose work or branch has this name, in whatever case, newest first. Work that is called by a hash is
    /// found by its branch only.
    pub async fn environments_called(&self, codebase: CodebaseId, name: &str) -> Result<Vec<Environment>, StoreError> {
        let sql = sql!(
            "SELECT * FROM isolation_environments
             WHERE codebase_id = $1 AND lower(workflow_type || '-' || workflow_id) = lower($2)
             UNION SELECT * FROM isolation_environments WHERE codebase_id = $1 AND lower(branch) = lower($2)
             ORDER BY id DESC"
        );
        self.db.fetch_all(sql.bind(codebase).bind(name)).await
    }

    /// Live environments, of one codebase or of all, oldest first. One that cannot be read is left out, and so left alone.
    pub async fn live_environments(&self, codebase: Option<CodebaseId>) -> Result<Vec<Environment>, StoreError> {
        let sql = sql!(
            "SELECT * FROM isolation_environments
             WHERE state <> 'destroyed' AND ($1 OR codebase_id = $2) ORDER BY id LIMIT $3 OFFSET $4"
        );
        self.db.fetch_readable(sql.bind(codebase.is_none()).bind(codebase), u32::MAX, 0).await
    }

    /// Where live environments of all codebases have their worktrees. Also those of which nothing else can be read: what is
    /// there is no orphan.
    pub async fn live_places(&self) -> Result<Vec<PathBuf>, StoreError> {
        let sql = sql!("SELECT path FROM isolation_environments WHERE state <> 'destroyed'");
        let places: Vec<Place> = self.db.fetch_all(sql).await?;
        Ok(places.into_iter().map(|place| place.0).collect())
    }

    /// Those live ones of a codebase that [`Store::live_environments`] leaves out, since they cannot be read, and why.
    pub async fn unreadable_environments(
        &self,
        codebase: CodebaseId,
    ) -> Result<Vec<(EnvironmentId, StoreError)>, StoreError> {
        let sql = sql!("SELECT * FROM isolation_environments WHERE state <> 'destroyed' AND codebase_id = $1");
        let rows = self.db.fetch_each::<Environment>(sql.bind(codebase)).await?;
        let unreadable = rows.into_iter().filter_map(Result::err);
        Ok(unreadable.filter_map(|Unreadable { id, why }| Some((id.ok()?.known()?, why))).collect())
    }

    /// One page of environments, newest first.
    pub async fn list_environments(
        &self,
        filter: &EnvironmentFilter,
        limit: u32,
        offset: u32,
    ) -> Result<Vec<Environment>, StoreError> {
        let search = filter.search.trim();
        let sql = match filter.live_only {
            true => sql!(
                "SELECT * FROM isolation_environments
                 WHERE state <> 'destroyed' AND ($1 OR codebase_id = $2)
                   AND ($3 OR lower(branch) LIKE $4 ESCAPE '!'
                           OR lower(workflow_type || '-' || workflow_id) LIKE $4 ESCAPE '!')
                 ORDER BY id DESC LIMIT $5 OFFSET $6"
            ),
            // Looks through the history, newest first, until the page is full: that is what is asked for.
            false => sql!(
                "SELECT * FROM isolation_environments
                 WHERE ($1 OR codebase_id = $2)
                   AND ($3 OR lower(branch) LIKE $4 ESCAPE '!'
                           OR lower(workflow_type || '-' || workflow_id) LIKE $4 ESCAPE '!')
                 ORDER BY id DESC LIMIT $5 OFFSET $6"
            ),
        };
        let sql =
            sql.bind(filter.codebase.is_none()).bind(filter.codebase).bind(search.is_empty()).bind(contains(search));
        self.db.fetch_readable(sql, limit, offset).await
    }

    /// Writes a changed copy back, if nobody wrote since it was read. Destroying has its own way:
    /// [`Store::destroy_environment`].
    pub async fn update_environment(&self, environment: &Environment) -> Result<Environment, StoreError> {
        let sql = sql!(
            "UPDATE isolation_environments SET
                 branch = $3, path = $4, state = $5, base_branch = $6, start_commit = $7, pinned = $8, metadata = $9,
                 version = version + 1
             WHERE id = $1 AND version = $2 AND state <> 'destroyed'
             RETURNING *"
        );
        let sql = sql
            .bind(environment.id)
            .bind(environment.version)
            .bind(&environment.branch)
            .bind(&environment.path)
            .bind(environment.state)
            .bind(&environment.base)
            .bind(&environment.start)
            .bind(environment.pinned)
            .bind_json(&environment.metadata)?;
        self.db.fetch_optional(sql).await?.ok_or_else(|| moved_on(environment))
    }

    /// Ends an environment in one transaction: the row, its receipt, the references of conversations and the agents'
    /// sessions. Refused when somebody wrote since it was read.
    pub async fn destroy_environment(
        &self,
        environment: &Environment,
        receipt: Option<(Trigger, ReceiptDetails)>,
        now: Timestamp,
    ) -> Result<Environment, StoreError> {
        self.destroy_environment_telling(environment, receipt, None, now).await
    }

    /// The same, with what is to be said about it in the same transaction: no crash comes between the two.
    pub async fn destroy_environment_telling(
        &self,
        environment: &Environment,
        receipt: Option<(Trigger, ReceiptDetails)>,
        outgoing: Option<NewOutgoing>,
        now: Timestamp,
    ) -> Result<Environment, StoreError> {
        let mut tx = self.db.begin().await?;
        let sql = sql!(
            "UPDATE isolation_environments SET state = $3, destroyed_at = $4, version = version + 1
             WHERE id = $1 AND version = $2 AND state <> 'destroyed' AND ($5 OR state <> 'removing')
             RETURNING *"
        );
        let sql = sql.bind(environment.id).bind(environment.version).bind(EnvironmentState::Destroyed).bind(now);
        // What a removal has begun, only its receipt ends: without one nobody finds what is in the trash.
        let sql = sql.bind(receipt.is_some());
        let destroyed = tx.fetch_optional(sql).await?.ok_or_else(|| moved_on(environment))?;
        if let Some((trigger, details)) = receipt {
            super::receipts::insert(&mut tx, environment.id, trigger, &details, now).await?;
        }
        let sql = sql!("UPDATE conversations SET environment_id = NULL, updated_at = $2 WHERE environment_id = $1");
        tx.execute(sql.bind(environment.id).bind(now)).await?;
        super::held::let_go_of(&mut tx, environment.id).await?;
        super::sessions::close_all_of(&mut tx, environment.id, now).await?;
        if let Some(outgoing) = outgoing {
            super::outbox::enqueue_in(&mut tx, &outgoing, now).await?;
        }
        tx.commit().await?;
        Ok(destroyed)
    }

    /// Something happened in it. Changes no version: writers of other facts are not disturbed.
    pub async fn touch_environment(&self, id: EnvironmentId, now: Timestamp) -> Result<(), StoreError> {
        let sql = sql!(
            "UPDATE isolation_environments SET last_activity_at = $2
             WHERE id = $1 AND last_activity_at < $2 AND state <> 'destroyed'"
        );
        self.db.execute(sql.bind(id).bind(now)).await.map(drop)
    }
}

pub(super) async fn in_the_way(tx: &mut Tx, new: &NewEnvironment, limit: u32) -> Result<Option<Inserted>, StoreError> {
    let sql = sql!(
        "SELECT * FROM isolation_environments
         WHERE codebase_id = $1 AND workflow_type = $2 AND workflow_id = $3 AND state <> 'destroyed'"
    );
    if let Some(same) = tx.fetch_optional(sql.bind(new.codebase).bind(new.work.kind).bind(&new.work.id)).await? {
        return Ok(Some(Inserted::Exists(same)));
    }
    let sql = sql!(
        "SELECT * FROM isolation_environments
         WHERE ((codebase_id = $1 AND branch = $2) OR path = $3) AND state <> 'destroyed' ORDER BY id LIMIT 1"
    );
    if let Some(other) = tx.fetch_optional(sql.bind(new.codebase).bind(&new.branch).bind(&new.path)).await? {
        return Ok(Some(Inserted::BranchTaken(other)));
    }
    let sql =
        sql!("SELECT count(*) AS answer FROM isolation_environments WHERE codebase_id = $1 AND state <> 'destroyed'");
    let live: Answer = tx.fetch_one(sql.bind(new.codebase)).await?;
    Ok((live.0 >= i64::from(limit)).then(|| Inserted::LimitReached { live: live.0.try_into().unwrap_or(u32::MAX) }))
}

/// `life` is when it was made, and when it was last used.
pub(super) async fn insert(
    tx: &mut Tx,
    new: &NewEnvironment,
    state: EnvironmentState,
    life: (Timestamp, Timestamp),
) -> Result<Environment, StoreError> {
    let sql = sql!(
        "INSERT INTO isolation_environments
             (id, codebase_id, workflow_type, workflow_id, branch, path, state, base_branch, pinned, provider, metadata,
              version, created_at, last_activity_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1, $12, $13)
         RETURNING *"
    );
    let sql = sql
        .bind(new_id::<EnvironmentId>())
        .bind(new.codebase)
        .bind(new.work.kind)
        .bind(&new.work.id)
        .bind(&new.branch)
        .bind(&new.path)
        .bind(state)
        .bind(&new.base)
        .bind(false)
        .bind(&new.provider)
        .bind_json(&new.metadata)?
        .bind(life.0)
        .bind(life.1);
    tx.fetch_one(sql).await
}

fn moved_on(environment: &Environment) -> StoreError {
    StoreError::Conflict(format!("environment {}", environment.work))
}

/// A `LIKE` pattern for texts that contain `part`, with `!` as escape. What `lower` makes of a letter beyond ASCII depends on
/// the engine; such a letter stands for any character, so that both find what was meant.
fn contains(part: &str) -> String {
    let mut pattern = String::from("%");
    for c in part.chars() {
        match c {
            '!' | '%' | '_' => pattern.extend(['!', c]),
            c if c.is_ascii() => pattern.push(c.to_ascii_lowercase()),
            c if c.is_lowercase() || c.is_uppercase() => pattern.push('_'),
            c => pattern.push(c),
        }
    }
    pattern.push('%');
    pattern
}
