//! Table `codebases`. A repository is known by GitHub's id, or by its path on this machine; its name is only what it is
//! called at the moment.

use super::codec::FromRow;
use super::db::{Row, Tx};
use super::sql::{new_id, sql};
use super::{Answer, Store, StoreError, corrupt};
use crate::model::*;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// A repository as an event or GitHub's answer describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCodebase {
    pub github_id: RepositoryId,
    pub installation: InstallationId,
    pub name: RepoName,
    /// `None`: not said, keep what is known.
    pub default_branch: Option<BranchName>,
    /// GitHub says that the App reaches it: asked just now, or in a delivery about that very thing. Any other delivery may be
    /// older than the loss of access, and ends that not.
    pub reached: bool,
}

/// A repository on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLocalCodebase {
    pub path: PathBuf,
    /// What it would be called; where another one is called so, a part of the path's SHA-256 is added.
    pub name: RepoName,
    /// `None`: keep what is known.
    pub default_branch: Option<BranchName>,
}

impl FromRow for Codebase {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        let host = match row.maybe("local_path")? {
            Some(path) => Host::Local { path },
            None => Host::Github { id: row.get("github_id")?, installation: row.get("installation_id")? },
        };
        Ok(Codebase {
            id: row.get("id")?,
            host,
            name: row.get("name")?,
            repository_dir: row.get("repository_dir")?,
            default_branch: row.maybe("default_branch")?,
            connected: row.get("connected")?,
            reach: row.get("access")?,
            reach_since: row.maybe("access_since")?,
            mode: row.get("mode")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

impl Store {
    /// Makes or renews the row of a repository. Another repository that still goes by this name lost it to this one and is
    /// disconnected: names are given away on GitHub, ids are not.
    pub async fn upsert_codebase(&self, new: NewCodebase, now: Timestamp) -> Result<Codebase, StoreError> {
        if let Some(known) = self.find_codebase_by_github(new.github_id).await?
            && says_nothing_new(&known, &new)
        {
            return Ok(known);
        }
        let mut tx = self.db.begin().await?;
        let codebase = upsert_in(&mut tx, &new, self.first_mode, now).await?;
        tx.commit().await?;
        Ok(codebase)
    }

    /// Makes or renews the row of a repository on this machine.
    pub async fn upsert_local_codebase(&self, new: NewLocalCodebase, now: Timestamp) -> Result<Codebase, StoreError> {
        let known = self.find_codebase_by_path(&new.path).await?;
        if let Some(known) = known.filter(|known| known.connected && new.keeps(&known.default_branch)) {
            return Ok(known);
        }
        let mut tx = self.db.begin().await?;
        let codebase = upsert_local_in(&mut tx, &new, self.first_mode, now).await?;
        tx.commit().await?;
        Ok(codebase)
    }

    pub async fn find_codebase_by_path(&self, path: &Path) -> Result<Option<Codebase>, StoreError> {
        let sql = sql!("SELECT * FROM codebases WHERE local_path = $1");
        self.db.fetch_optional(sql.bind(path.to_owned())).await
    }

    pub async fn load_codebase(&self, id: CodebaseId) -> Result<Option<Codebase>, StoreError> {
        self.db.fetch_optional(sql!("SELECT * FROM codebases WHERE id = $1").bind(id)).await
    }

    /// By name, in whatever case. Where several had the name, the one that has it now.
    pub async fn find_codebase(&self, name: &RepoName) -> Result<Option<Codebase>, StoreError> {
        let sql = sql!(
            "SELECT * FROM codebases WHERE lower(name) = lower($1) ORDER BY connected DESC, updated_at DESC LIMIT 1"
        );
        self.db.fetch_optional(sql.bind(name)).await
    }

    pub async fn find_codebase_by_github(&self, id: RepositoryId) -> Result<Option<Codebase>, StoreError> {
        self.db.fetch_optional(sql!("SELECT * FROM codebases WHERE github_id = $1").bind(id)).await
    }

    /// All of them that can be read, by name.
    pub async fn list_codebases(&self) -> Result<Vec<Codebase>, StoreError> {
        let sql = sql!("SELECT * FROM codebases ORDER BY lower(name), id LIMIT $1 OFFSET $2");
        self.db.fetch_readable(sql, u32::MAX, 0).await
    }

    /// Access was given or taken away. A repository whose name went to another one stays disconnected until GitHub is
    /// asked about it under its new name. False: nothing changed, or it was not as in `before` any more.
    pub async fn set_reach(
        &self,
        id: CodebaseId,
        before: Reach,
        reach: Reach,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = sql!(
            "UPDATE codebases SET access = $2, access_since = $4, connected = $3, updated_at = $4
             WHERE id = $1 AND access = $5 AND access <> $2
               AND NOT EXISTS (SELECT 1 FROM codebases AS other
                               WHERE lower(other.name) = lower(codebases.name) AND other.connected
                                 AND other.id <> codebases.id)"
        );
        let sql = sql.bind(id).bind(reach).bind(reach.is_connected()).bind(now).bind(before);
        Ok(self.db.execute(sql).await? > 0)
    }

    /// False: it was in that mode already.
    pub async fn set_codebase_mode(
        &self,
        id: CodebaseId,
        mode: CodebaseMode,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = sql!("UPDATE codebases SET mode = $2, updated_at = $3 WHERE id = $1 AND mode <> $2");
        Ok(self.db.execute(sql.bind(id).bind(mode).bind(now)).await? > 0)
    }
}

/// The same within a transaction, whatever is known already. `mode`: what one starts in that is not known.
pub(super) async fn upsert_in(
    tx: &mut Tx,
    new: &NewCodebase,
    mode: CodebaseMode,
    now: Timestamp,
) -> Result<Codebase, StoreError> {
    tx.execute(
        sql!(
            "UPDATE codebases SET connected = false, access = $4, access_since = $1, updated_at = $1
             WHERE lower(name) = lower($2) AND github_id <> $3 AND connected"
        )
        .bind(now)
        .bind(&new.name)
        .bind(new.github_id)
        .bind(Reach::NameTaken),
    )
    .await?;
    let directory = free_directory(tx, new).await?;
    tx.fetch_one(
        sql!(
            "INSERT INTO codebases (id, github_id, installation_id, name, repository_dir, default_branch, connected,
                                        mode, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, true, $9, $7, $7)
                 ON CONFLICT (github_id) DO UPDATE SET
                     installation_id = excluded.installation_id, name = excluded.name,
                     connected = codebases.connected OR $8,
                     access = CASE WHEN $8 THEN $10 ELSE codebases.access END,
                     access_since = CASE WHEN $8 AND codebases.access <> $10 THEN excluded.updated_at
                                         ELSE codebases.access_since END,
                     default_branch = coalesce(excluded.default_branch, codebases.default_branch),
                     updated_at = excluded.updated_at
                 RETURNING *"
        )
        .bind(new_id::<CodebaseId>())
        .bind(new.github_id)
        .bind(new.installation)
        .bind(&new.name)
        .bind(directory)
        .bind(&new.default_branch)
        .bind(now)
        .bind(new.reached)
        .bind(mode)
        .bind(Reach::Whole),
    )
    .await
}

/// The same within a transaction, whatever is known already.
pub(super) async fn upsert_local_in(
    tx: &mut Tx,
    new: &NewLocalCodebase,
    mode: CodebaseMode,
    now: Timestamp,
) -> Result<Codebase, StoreError> {
    let name = free_name(tx, new).await?;
    let sql = sql!(
        "INSERT INTO codebases (id, github_id, installation_id, name, repository_dir, default_branch, connected,
                                local_path, mode, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, true, $7, $9, $8, $8)
         ON CONFLICT (local_path) WHERE local_path IS NOT NULL DO UPDATE SET
             connected = true, access = $10, default_branch = coalesce(excluded.default_branch, codebases.default_branch),
             updated_at = excluded.updated_at
         RETURNING *"
    );
    let sql = sql
        .bind(new_id::<CodebaseId>())
        .bind(Host::Local { path: new.path.clone() }.repository())
        .bind(0_i64)
        .bind(&name)
        .bind(format!("{name}.git"))
        .bind(&new.default_branch)
        .bind(&new.path)
        .bind(now)
        .bind(mode)
        .bind(Reach::Whole);
    tx.fetch_one(sql).await
}

fn says_nothing_new(known: &Codebase, new: &NewCodebase) -> bool {
    (known.reach == Reach::Whole || !new.reached)
        && known.name == new.name
        && known.installation() == Some(new.installation)
        && (new.default_branch.is_none() || known.default_branch == new.default_branch)
}

impl NewLocalCodebase {
    fn keeps(&self, default: &Option<BranchName>) -> bool {
        self.default_branch.is_none() || self.default_branch == *default
    }
}

/// The name it would have, unless a repository of another path has it.
async fn free_name(tx: &mut Tx, new: &NewLocalCodebase) -> Result<RepoName, StoreError> {
    let sql = sql!(
        "SELECT count(*) AS answer FROM codebases
         WHERE (lower(name) = lower($1) OR lower(repository_dir) = lower($2))
           AND (local_path IS NULL OR local_path <> $3)"
    );
    let (plain, directory) = (&new.name, format!("{}.git", new.name));
    let taken: Answer = tx.fetch_one(sql.bind(plain).bind(directory).bind(&new.path)).await?;
    if taken.0 == 0 {
        return Ok(new.name.clone());
    }
    let digest = hex::encode(Sha256::digest(new.path.as_os_str().as_encoded_bytes()));
    let start: String = plain.name().chars().take(80).collect();
    RepoName::new(plain.owner(), &format!("{start}-{}", &digest[..8])).map_err(|error| corrupt("name", error))
}

/// Used for a first sight only: the place of a known repository never changes.
async fn free_directory(tx: &mut Tx, new: &NewCodebase) -> Result<String, StoreError> {
    let plain = format!("{}.git", new.name);
    let sql =
        sql!("SELECT count(*) AS answer FROM codebases WHERE lower(repository_dir) = lower($1) AND github_id <> $2");
    let taken: Answer = tx.fetch_one(sql.bind(&plain).bind(new.github_id)).await?;
    // `~` is in no repository's name, so that this cannot be another one's plain directory.
    Ok(if taken.0 == 0 { plain } else { format!("{}~{}.git", new.name, new.github_id) })
}
