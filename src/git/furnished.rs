//! The mark that a new worktree has all it gets beside its checkout, with what there is to tell about it: a creation that
//! is repeated after a crash tells the same, and touches nothing.

use super::error::GitError;
use super::worktree::Worktree;
use super::{blocking, plain_file};
use crate::model::Furnished;
use std::io;

/// In the admin entry, as JSON.
pub(super) const FURNISHED: &str = "treewarden-furnished";

/// More than there can be to tell.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

impl Worktree {
    /// What was told about it when it was complete; `None` while it is not.
    pub async fn furnished(&self) -> Result<Option<Furnished>, GitError> {
        let path = self.entry().await?.directory.join(FURNISHED);
        // What cannot be read any more was complete all the same.
        blocking(move || match plain_file(&path, MOST_BYTES) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                tracing::warn!(path = %path.display(), error = %error, "what a worktree was given cannot be read any more");
                Ok(Some(Furnished::default()))
            }
        })
        .await
    }

    pub async fn mark_furnished(&self, furnished: &Furnished) -> Result<(), GitError> {
        let path = self.entry().await?.directory.join(FURNISHED);
        let bytes = serde_json::to_vec(furnished).map_err(|error| GitError::Unreadable(error.to_string()))?;
        blocking(move || super::write_whole(&path, &bytes)).await
    }
}
