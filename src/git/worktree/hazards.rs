//! Work of git's own that is under way in a worktree.

use super::Worktree;
use crate::git::GitError;
use crate::model::Probe;
use std::{fs, io, path::Path};

/// Files and directories in the admin entry that stand for an unfinished operation (gitrepository-layout(5)).
const OPERATIONS: &[(&str, &str)] = &[
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
    ("sequencer", "sequence of commits"),
];

impl Worktree {
    /// The operation in progress, in a word or two. The files may well look clean meanwhile. Starts no process.
    pub async fn operation_in_progress(&self) -> Probe<Option<String>> {
        self.known_operation().await.into()
    }

    pub(super) async fn known_operation(&self) -> Result<Option<String>, GitError> {
        let entry = self.entry().await?;
        for (name, operation) in OPERATIONS {
            if exists(&entry.directory.join(name))? {
                return Ok(Some((*operation).to_owned()));
            }
        }
        Ok(None)
    }
}

fn exists(path: &Path) -> Result<bool, GitError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(GitError::file("looking at", path, &error)),
    }
}
