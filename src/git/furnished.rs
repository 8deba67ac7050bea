//! The mark that a new worktree has all it gets beside its checkout, with what there is to tell about it: a creation that
//! is repeated after a crash tells the same, and touches nothing.

use super::error::GitError;
use super::worktree::Worktree;
use crate::model::Furnished;
use std::{fs, io};

/// In the admin entry, as JSON.
const FURNISHED: &str = "treewarden-furnished";

impl Worktree {
    /// What was told about it when it was complete; `None` while it is not.
    pub async fn furnished(&self) -> Result<Option<Furnished>, GitError> {
        let path = self.entry().await?.directory.join(FURNISHED);
        match fs::read(&path) {
            // What cannot be read any more was complete all the same.
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(GitError::file("reading", &path, &error)),
        }
    }

    pub async fn mark_furnished(&self, furnished: &Furnished) -> Result<(), GitError> {
        let path = self.entry().await?.directory.join(FURNISHED);
        let bytes = serde_json::to_vec(furnished).map_err(|error| GitError::Unreadable(error.to_string()))?;
        super::write_whole(&path, &bytes)
    }
}
