//! What is looked at before anything is made, by a start and by the doctor alike: so a start that is refused has changed
//! nothing, and the doctor has told it before.

use super::{
    StartError,
    lock::{self, HomeLock, LockError, Standing},
};
use crate::config::Config;
use crate::isolation::{IsolationError, WorktreeProvider};
use crate::store::{Schema, Store, StoreError};
use secrecy::ExposeSecret;
use std::{
    fs::{self, DirEntry},
    path::{Path, PathBuf},
};

/// Takes the home for a command that changes something, and makes what is missing in it.
pub(super) async fn take_home(config: &Config) -> Result<HomeLock, StartError> {
    config.look_at_home()?;
    if HomeLock::look(&config.home, &config.worktree_base)? == Standing::Running {
        // Who only looked is gone by the next try.
        drop(HomeLock::take(&config.home, &config.worktree_base)?);
    }
    Places::resolved(config)?.look(config).await?;
    if let Schema::Newer { found, known } = Store::schema(config.database_url.expose_secret()).await? {
        return Err(StoreError::NewerSchema { found, known }.into());
    }
    config.prepare_home()?;
    Ok(HomeLock::take(&config.home, &config.worktree_base)?)
}

/// Where the worktrees are, and what is removed of them, with links resolved.
pub(super) struct Places {
    pub base: PathBuf,
    trash: PathBuf,
}

impl Places {
    pub fn resolved(config: &Config) -> Result<Self, LockError> {
        let trash = lock::resolved(&config.home)?.join("trash");
        Ok(Self { base: lock::resolved(&config.worktree_base)?, trash })
    }

    pub fn home(&self) -> &Path {
        self.trash.parent().unwrap_or(&self.trash)
    }

    /// Where they were before, when another directory is to have them now.
    pub fn before(&self) -> Result<Option<PathBuf>, IsolationError> {
        WorktreeProvider::left_behind(&self.base, &self.trash)
    }

    /// Whether a start would find the worktrees that the home and the database know of.
    pub async fn look(&self, config: &Config) -> Result<(), IsolationError> {
        if let Some(before) = self.before()?
            // A database that cannot be asked is refused later, or has a line of its own.
            && Store::is_lived_in(config.database_url.expose_secret(), &before).await.unwrap_or(false)
        {
            return Err(IsolationError::LeftBehind { before, base: self.base.clone() });
        }
        WorktreeProvider::look(&self.base, &self.trash)
    }
}

/// Which directory has repositories or worktrees of earlier work; a database without tables knows nothing of them.
pub(super) fn left_over(config: &Config) -> Option<PathBuf> {
    // What begins with a dot is the mark, or the trash.
    let is_work = |entry: DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    let has_work =
        |place: &PathBuf| fs::read_dir(place).is_ok_and(|entries| entries.filter_map(Result::ok).any(is_work));
    let base = Some(&config.worktree_base).filter(|base| base.join(".treewarden").is_file()).cloned();
    [base, Some(config.home.join("repos"))].into_iter().flatten().find(has_work)
}
