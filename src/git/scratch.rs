//! Throw-away places of single calls: the index of a safety commit, the object store of a trial merge.

use super::error::GitError;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// What a killed process left behind is cleared by a later start, long after anybody may still use it.
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A directory of its own, removed when dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub fn new(parent: &Path) -> Result<Self, GitError> {
        let path = parent.join(uuid::Uuid::now_v7().to_string());
        fs::create_dir(&path).map_err(|error| GitError::file("making", &path, &error))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), error = %error, "scratch directory not removed");
        }
    }
}

/// Removes scratch directories nobody can be using any more.
pub(super) fn clear_leftovers(parent: &Path, now: SystemTime) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let age = entry.metadata().and_then(|meta| meta.modified()).map(|changed| now.duration_since(changed));
        if matches!(age, Ok(Ok(age)) if age > LEFTOVER_AGE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
