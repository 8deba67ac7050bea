//! How much environments and repositories take on the disk: in `isolation_environments.metadata`, and in table `settings`.

use super::sql::sql;
use super::{Store, StoreError};
use crate::model::*;

impl Store {
    /// Remembers what the files of an environment take. Changes no version: writers of other facts are not disturbed, and one
    /// that comes between goes first.
    pub async fn remember_disk_use(&self, id: EnvironmentId, used: DiskUse) -> Result<(), StoreError> {
        let Some(environment) = self.load_environment(id).await? else { return Ok(()) };
        let metadata = EnvironmentMetadata { disk: Some(used), ..environment.metadata };
        let sql = sql!(
            "UPDATE isolation_environments SET metadata = $3
             WHERE id = $1 AND version = $2 AND state <> 'destroyed'"
        );
        self.db.execute(sql.bind(id).bind(environment.version).bind_json(&metadata)?).await.map(drop)
    }

    /// What a canonical repository takes. A record that this version cannot read counts as none: it is measured again.
    pub async fn load_repository_use(&self, codebase: CodebaseId) -> Result<Option<DiskUse>, StoreError> {
        let value = self.setting(&key(codebase)).await?;
        Ok(value.and_then(|value| serde_json::from_value(value).ok()))
    }

    pub async fn save_repository_use(&self, codebase: CodebaseId, used: DiskUse) -> Result<(), StoreError> {
        self.set_setting(&key(codebase), &used, used.at).await
    }

    /// What takes how much of a codebase, as it was measured last.
    pub async fn disk_shares(&self, codebase: CodebaseId) -> Result<DiskShares, StoreError> {
        let live = self.live_environments(Some(codebase)).await?.into_iter();
        let worktrees = live.map(|one| (one.id, one.work.to_string(), one.metadata.disk)).collect();
        Ok(DiskShares { repository: self.load_repository_use(codebase).await?, worktrees })
    }
}

fn key(codebase: CodebaseId) -> String {
    format!("disk/{codebase}")
}
