//! What is looked at before anything is made, by a start and by the doctor alike: so a start that is refused has changed
//! nothing, and the doctor has told it before.

use super::{
    StartError,
    lock::{self, HomeLock, LockError, Standing},
};
use crate::config::Config;
use crate::isolation::{IsolationError, WorktreeProvider};
use crate::store::{Alone, Schema, Store, StoreError};
use secrecy::ExposeSecret;
use std::{
    fs::{self, DirEntry},
    path::{Path, PathBuf},
};

/// What a service, or a command that changes something, has to itself until this is dropped.
pub(super) struct Taken {
    pub home: HomeLock,
    pub database: Alone,
}

/// Takes the home and the database for a command that changes something, and makes what is missing in the home.
pub(super) async fn take(config: &Config) -> Result<Taken, StartError> {
    let url = config.database_url.expose_secret();
    config.look_at_home()?;
    if HomeLock::look(&config.home, &config.worktree_base)? == Standing::Running {
        // Who only looked is gone by the next try.
        drop(HomeLock::take(&config.home, &config.worktree_base)?);
    }
    // Before what another one has seems to be missing.
    Store::is_free(url).await?;
    let places = Places::resolved(config)?;
    places.look(config).await?;
    match Store::schema(url).await? {
        Schema::Newer { found, known } => return Err(StoreError::NewerSchema { found, known }.into()),
        Schema::Missing => {
            if let Some(work) = left_over(config) {
                tracing::warn!(path = %work.display(), "the database is new, and knows nothing of the earlier work that is here");
            }
        }
        Schema::Current | Schema::Older { .. } => {}
    }
    config.prepare_home()?;
    let home = HomeLock::take(&config.home, &config.worktree_base)?;
    let database = Store::take_alone(url, &name(&config.home)).await?;
    // Once more: it may not have answered before, and another one may have written until now.
    if Store::schema(url).await? == Schema::Current
        && let Some(other) = places.other_disk(url).await?
    {
        return Err(other.into());
    }
    Ok(Taken { home, database })
}

/// Who this is, to the people who meet it at a database.
fn name(home: &Path) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("process {} on {host}, home {}", std::process::id(), home.display())
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
        WorktreeProvider::look(&self.base, &self.trash)?;
        match self.other_disk(config.database_url.expose_secret()).await {
            Ok(Some(other)) => Err(other),
            // As above.
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// That neither this home nor the directory it is to have is known to be the one that has the worktrees of the
    /// database's environments: what is not here is not gone.
    async fn other_disk(&self, url: &str) -> Result<Option<IsolationError>, StoreError> {
        let Some(known) = Store::known_disk(url).await? else { return Ok(None) };
        let is_this_one = HomeLock::node_of(self.home()).is_some_and(|node| node == known.node)
            || WorktreeProvider::mark_in(&self.base).is_some_and(|mark| mark == known.mark);
        if is_this_one {
            return Ok(None);
        }
        let place = Store::live_place(url, &self.base).await?;
        Ok(place.map(|place| IsolationError::OtherDisk { base: self.base.clone(), place, mark: known.mark }))
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
