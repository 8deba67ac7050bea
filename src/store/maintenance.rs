//! What is remembered of the upkeep of repositories; in table `settings`, a key for each.

use super::{Store, StoreError};
use crate::model::{CodebaseId, Maintained, Timestamp};

impl Store {
    /// A record that another version wrote and this one cannot read counts as none: the repository is packed once more.
    pub async fn load_maintained(&self, codebase: CodebaseId) -> Result<Maintained, StoreError> {
        let value = self.setting(&key(codebase)).await?;
        Ok(value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default())
    }

    pub async fn save_maintained(
        &self,
        codebase: CodebaseId,
        known: &Maintained,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.set_setting(&key(codebase), known, now).await
    }
}

fn key(codebase: CodebaseId) -> String {
    format!("maintenance/{codebase}")
}
