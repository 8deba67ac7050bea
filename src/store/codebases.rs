//! Codebases, known by GitHub's id; names change and are reused.

use super::{
    Store, StoreError,
    db::{Row, sql},
};
use crate::model::*;
use uuid::Uuid;

/// What a payload or an answer of GitHub says about a repository.
#[derive(Clone, Debug)]
pub struct NewCodebase {
    pub github_id: RepositoryId,
    pub installation: InstallationId,
    pub name: RepoName,
    /// `None` leaves what is known as it is.
    pub default_branch: Option<BranchName>,
}

fn codebase(row: &Row) -> Result<Codebase, StoreError> {
    Ok(Codebase {
        id: CodebaseId(row.id("id")?),
        github_id: RepositoryId(row.int("github_id")?),
        installation: InstallationId(row.int("installation_id")?),
        name: row.parse("name")?,
        default_branch: row.try_into("default_branch")?,
        repository_dir: row.text("repository_dir")?,
        connected: row.bool("connected")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

impl Store {
    /// Inserts the repository or takes over its present name, installation and default branch. Where its canonical
    /// repository lies is chosen once and stays, whatever it is called later.
    pub async fn upsert_codebase(&self, new: NewCodebase, now: Timestamp) -> Result<Codebase, StoreError> {
        let known = self
            .db
            .fetch_optional(
                sql("UPDATE codebases SET installation_id = $1, name = $2, default_branch = coalesce($3, default_branch),
                        connected = $4, updated_at = $5 WHERE github_id = $6 RETURNING *")
                    .int(new.installation.0)
                    .text(new.name.to_string())
                    .text_opt(new.default_branch.clone())
                    .bool(true)
                    .time(now)
                    .int(new.github_id.0),
            )
            .await?;
        if let Some(row) = known {
            return codebase(&row);
        }
        let plain = format!("{}.git", new.name);
        let numbered = format!("{}-{}.git", new.name, new.github_id);
        // The plain place may belong to a repository that had this name before.
        for place in [plain, numbered] {
            let inserted = self
                .db
                .fetch_optional(
                    sql("INSERT INTO codebases (id, github_id, installation_id, name, default_branch, repository_dir,
                            connected, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
                            ON CONFLICT DO NOTHING RETURNING *")
                    .id(Uuid::now_v7())
                    .int(new.github_id.0)
                    .int(new.installation.0)
                    .text(new.name.to_string())
                    .text_opt(new.default_branch.clone())
                    .text(place)
                    .bool(true)
                    .time(now),
                )
                .await?;
            if let Some(row) = inserted {
                return codebase(&row);
            }
            if let Some(codebase) = self.find_codebase_by_github(new.github_id).await? {
                return Ok(codebase);
            }
        }
        Err(StoreError::Conflict)
    }

    pub async fn load_codebase(&self, id: CodebaseId) -> Result<Option<Codebase>, StoreError> {
        let row = self.db.fetch_optional(sql("SELECT * FROM codebases WHERE id = $1").id(id.0)).await?;
        row.as_ref().map(codebase).transpose()
    }

    pub async fn find_codebase_by_github(&self, id: RepositoryId) -> Result<Option<Codebase>, StoreError> {
        let row = self.db.fetch_optional(sql("SELECT * FROM codebases WHERE github_id = $1").int(id.0)).await?;
        row.as_ref().map(codebase).transpose()
    }

    /// By its present name, ignoring case; the latest one when a name was reused.
    pub async fn find_codebase(&self, name: &RepoName) -> Result<Option<Codebase>, StoreError> {
        let row = self
            .db
            .fetch_optional(
                sql("SELECT * FROM codebases WHERE lower(name) = lower($1) ORDER BY updated_at DESC LIMIT 1")
                    .text(name.to_string()),
            )
            .await?;
        row.as_ref().map(codebase).transpose()
    }

    pub async fn list_codebases(&self) -> Result<Vec<Codebase>, StoreError> {
        self.db.fetch_all(sql("SELECT * FROM codebases ORDER BY name")).await?.iter().map(codebase).collect()
    }

    pub async fn set_codebase_connected(
        &self,
        id: CodebaseId,
        connected: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let statement = sql("UPDATE codebases SET connected = $1, updated_at = $2 WHERE id = $3");
        self.db.execute(statement.bool(connected).time(now).id(id.0)).await.map(drop)
    }
}
