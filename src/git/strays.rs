//! What a registry says of worktrees that nobody's records know: where they are, who made them, and when something last
//! happened in them. Starts no process, and changes nothing.

use super::error::GitError;
use super::own_files::{is_made, look};
use super::registry::{AdminEntry, COMPLETE, LOCK_REASON, entries, find};
use super::repository::Repository;
use super::worktree::Worktree;
use super::{blocking, place_of};
use crate::model::Timestamp;
use std::{
    fs::Metadata,
    path::{Path, PathBuf},
};

/// Files of an entry that git, or we, write when something happens in its worktree. The directory itself is no witness: every
/// look may leave a lock in it for a moment.
const WITNESSES: [&str; 9] =
    ["gitdir", "commondir", "HEAD", "index", "locked", "logs/HEAD", "ORIG_HEAD", "COMMIT_EDITMSG", COMPLETE];

/// What files tell of a registered worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// It has our lock and our mark of a whole checkout. Each alone says nothing: a person can lock for any reason.
    pub made_by_us: bool,
    /// When it was marked as whole.
    pub made_at: Option<Timestamp>,
    /// The newest of all times that there are.
    pub touched: Timestamp,
}

impl Repository {
    /// The places of all registered worktrees, whether or not anything is there. A repository that was never made has none.
    pub async fn registered_places(&self) -> Result<Vec<PathBuf>, GitError> {
        let directory = self.directory().to_owned();
        blocking(move || {
            if !is_made(&directory) {
                return Ok(Vec::new());
            }
            let files = entries(&directory.join("worktrees"))?.into_iter().filter_map(|entry| entry.git_file());
            Ok(files.filter_map(|file| file.parent().map(place_of)).collect())
        })
        .await
    }
}

impl Worktree {
    /// An error where it is not registered, or cannot be looked at.
    pub async fn traces(&self) -> Result<Traces, GitError> {
        let (repository, path) = (self.repository().directory().to_owned(), self.files().to_owned());
        blocking(move || {
            let entry = find(&repository, &path)?
                .ok_or_else(|| GitError::NotFound(format!("a worktree registered at {}", path.display())))?;
            traces(&entry, &path)
        })
        .await
    }
}

fn traces(entry: &AdminEntry, path: &Path) -> Result<Traces, GitError> {
    let made_at = changed(&entry.directory.join(COMPLETE))?;
    let files = WITNESSES.iter().map(|name| entry.directory.join(name));
    let mut touched = changed(&entry.directory.join("gitdir"))?;
    for file in files.chain([path.to_owned(), path.join(".git")]) {
        touched = touched.max(changed(&file)?);
    }
    let touched = touched.ok_or_else(|| GitError::Unreadable(format!("{} has no times", entry.directory.display())))?;
    Ok(Traces { made_by_us: made_at.is_some() && entry.lock()?.as_deref() == Some(LOCK_REASON), made_at, touched })
}

fn changed(path: &Path) -> Result<Option<Timestamp>, GitError> {
    let time = |meta: Metadata| {
        let time = meta.modified().map_err(|error| GitError::file("looking at", path, &error))?;
        Ok(Timestamp::new(time.into()))
    };
    look(path)?.map(time).transpose()
}
