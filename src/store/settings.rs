//! Table `settings`: small values under a key, JSON each. Also the gates: rows that serialise what must not overlap.

use super::codec::FromRow;
use super::db::{self, Row, Tx};
use super::sql::sql;
use super::{Store, StoreError};
use crate::model::{CodebaseId, Installations, KnownSettings, MessageSource, MissedWatch, RepositoryId, Timestamp};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::time::Duration;

/// Whose worktrees a database's environments are: a path alone may be there on several machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The home that had them when the service ran last.
    pub node: String,
    /// Of the directory in which they are.
    pub mark: String,
}

const IDENTITY: &str = "github/identity";

struct Setting(Value);

impl FromRow for Setting {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get_json("value").map(Setting)
    }
}

impl Store {
    /// What the database this URL names was told by [`Store::remember_disk`]; changes nothing.
    pub async fn known_disk(url: &str) -> Result<Option<Disk>, StoreError> {
        let written = db::known_disk(url).await?;
        Ok(written.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub async fn remember_disk(&self, disk: &Disk, now: Timestamp) -> Result<(), StoreError> {
        self.set_setting("worktrees/disk", disk, now).await
    }

    pub async fn setting(&self, key: &str) -> Result<Option<Value>, StoreError> {
        let row: Option<Setting> =
            self.db.fetch_optional(sql!("SELECT value FROM settings WHERE key = $1").bind(key)).await?;
        Ok(row.map(|row| row.0))
    }

    pub async fn set_setting(&self, key: &str, value: &impl Serialize, now: Timestamp) -> Result<(), StoreError> {
        let sql = sql!(
            "INSERT INTO settings (key, value, updated_at) VALUES ($1, $2, $3)
             ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"
        );
        self.db.execute(sql.bind(key).bind_json(value)?.bind(now)).await.map(drop)
    }

    /// Who GitHub said that we are.
    pub async fn remember_identity(&self, identity: &impl Serialize, now: Timestamp) -> Result<(), StoreError> {
        self.set_setting(IDENTITY, identity, now).await
    }

    /// What was remembered last; a record that this version cannot read counts as none.
    pub async fn known_identity<T: DeserializeOwned>(&self) -> Result<Option<T>, StoreError> {
        Ok(self.setting(IDENTITY).await?.and_then(|value| serde_json::from_value(value).ok()))
    }

    /// What was last seen of the App's installations; none where another version wrote it down.
    pub async fn load_installations(&self) -> Result<Installations, StoreError> {
        let value = self.setting(INSTALLATIONS).await?;
        Ok(value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default())
    }

    pub async fn save_installations(&self, seen: &Installations, now: Timestamp) -> Result<(), StoreError> {
        self.set_setting(INSTALLATIONS, seen, now).await
    }

    /// What was last seen of a repository's settings. A record that another version wrote and this one cannot read counts
    /// as none: the file will be read again.
    pub async fn load_repo_settings(&self, codebase: CodebaseId) -> Result<Option<KnownSettings>, StoreError> {
        let value = self.setting(&repo_settings_key(codebase)).await?;
        Ok(value.and_then(|value| serde_json::from_value(value).ok()))
    }

    pub async fn save_repo_settings(
        &self,
        codebase: CodebaseId,
        known: &KnownSettings,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.set_setting(&repo_settings_key(codebase), known, now).await
    }

    /// What is remembered of the deliveries of this App that did not arrive. A record that another version wrote and this
    /// one cannot read counts as none.
    pub async fn load_missed_watch(&self, app_id: u64) -> Result<Option<MissedWatch>, StoreError> {
        let value = self.setting(&missed_watch_key(app_id)).await?;
        Ok(value.and_then(|value| serde_json::from_value(value).ok()))
    }

    pub async fn save_missed_watch(&self, app_id: u64, watch: &MissedWatch, now: Timestamp) -> Result<(), StoreError> {
        self.set_setting(&missed_watch_key(app_id), watch, now).await
    }

    /// A message that nobody is to be answered for any more, whatever arrives of it later.
    pub async fn note_deleted(
        &self,
        repository: RepositoryId,
        source: &MessageSource,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let Some(key) = deleted_key(repository, source) else { return Ok(()) };
        self.set_setting(&key, &Value::Null, now).await?;
        let sql = sql!("DELETE FROM settings WHERE key LIKE 'deleted/%' AND updated_at < $1");
        self.db.execute(sql.bind(now.minus(NOTHING_ARRIVES_AFTER))).await.map(drop)
    }

    pub async fn was_deleted(&self, repository: RepositoryId, source: &MessageSource) -> Result<bool, StoreError> {
        match deleted_key(repository, source) {
            Some(key) => Ok(self.setting(&key).await?.is_some()),
            None => Ok(false),
        }
    }
}

/// GitHub delivers nothing again that is older than three days.
const NOTHING_ARRIVES_AFTER: Duration = Duration::from_secs(30 * 86_400);

/// Absent for what cannot be deleted by itself.
fn deleted_key(repository: RepositoryId, source: &MessageSource) -> Option<String> {
    match source {
        MessageSource::Local | MessageSource::ThreadBody | MessageSource::Review { .. } => None,
        MessageSource::IssueComment { id } => Some(format!("deleted/{repository}/comment/{id}")),
        MessageSource::ReviewComment { id, .. } => Some(format!("deleted/{repository}/review-comment/{id}")),
    }
}

fn missed_watch_key(app_id: u64) -> String {
    format!("missed-deliveries/{app_id}")
}

const INSTALLATIONS: &str = "github/installations";

fn repo_settings_key(codebase: CodebaseId) -> String {
    format!("repo-settings/{codebase}")
}

/// From here to the end of the transaction no other one passes the gate of this name.
pub(super) async fn pass_gate(tx: &mut Tx, name: &str, now: Timestamp) -> Result<(), StoreError> {
    let sql = sql!(
        "INSERT INTO settings (key, value, updated_at) VALUES ($1, $2, $3)
         ON CONFLICT (key) DO UPDATE SET updated_at = excluded.updated_at"
    );
    tx.execute(sql.bind(format!("gate/{name}")).bind_json(&Value::Null)?.bind(now)).await.map(drop)
}
