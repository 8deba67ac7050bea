//! Work of git's own that is under way in a worktree.

use super::{Worktree, entry::is_spoilt};
use crate::git::own_files::look;
use crate::git::{GitError, registry::AdminEntry};
use crate::model::Probe;
use std::path::PathBuf;

/// Files and directories in the admin entry that stand for an unfinished operation (gitrepository-layout(5)).
const OPERATIONS: &[(&str, Kept, &str)] = &[
    ("rebase-merge", Kept::Directory, "rebase"),
    ("rebase-apply", Kept::Directory, "rebase"),
    ("MERGE_HEAD", Kept::File, "merge"),
    ("MERGE_AUTOSTASH", Kept::File, "merge, with changes that git put aside for it,"),
    ("CHERRY_PICK_HEAD", Kept::File, "cherry-pick"),
    ("REVERT_HEAD", Kept::File, "revert"),
    ("BISECT_LOG", Kept::File, "bisect"),
    ("sequencer", Kept::Directory, "sequence of commits"),
];

/// As what git keeps an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    File,
    Directory,
}

impl Worktree {
    /// The operation in progress, in a word or two. The files may well look clean meanwhile. Starts no process.
    pub async fn operation_in_progress(&self) -> Probe<Option<String>> {
        self.known_operation().await.into()
    }

    pub(super) async fn known_operation(&self) -> Result<Option<String>, GitError> {
        let entry = self.entry().await?;
        for (name, _, operation) in OPERATIONS {
            if look(&entry.directory.join(name))?.is_some() {
                return Ok(Some((*operation).to_owned()));
            }
        }
        Ok(None)
    }
}

/// What stands at the place of an operation and is none: git writes neither links nor pipes there.
pub(super) fn false_operations(entry: &AdminEntry) -> Result<Vec<PathBuf>, GitError> {
    let mut found = Vec::new();
    for (name, kept, _) in OPERATIONS {
        let path = entry.directory.join(name);
        let Some(meta) = look(&path)? else { continue };
        let is_none = match kept {
            Kept::File => is_spoilt(&path, &meta),
            Kept::Directory => !meta.is_dir(),
        };
        if is_none {
            found.push(path);
        }
    }
    Ok(found)
}
