//! `git worktree list --porcelain -z`, the registry as git itself sees it.

use super::error::GitError;
use super::place_of;
use super::registry::LOCK_REASON;
use super::repository::Repository;
use crate::model::{BranchName, CommitSha};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// One registered worktree; the canonical repository itself is the one with `bare`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeEntry {
    pub path: PathBuf,
    pub head: Option<CommitSha>,
    pub branch: Option<BranchName>,
    /// The reason it is locked for, which may be empty.
    pub locked: Option<String>,
    /// Git would drop it: its directory is missing. Never a live checkout.
    pub prunable: bool,
    pub bare: bool,
    pub detached: bool,
}

impl WorktreeEntry {
    /// As all of ours are, from their making to their end.
    pub fn has_our_lock(&self) -> bool {
        self.locked.as_deref() == Some(LOCK_REASON)
    }

    /// Whether this is the entry for `path`, however either is spelled.
    pub fn is_at(&self, path: &Path) -> bool {
        // Costs a look at the disk only where it may be true.
        self.path == path || (self.path.file_name() == path.file_name() && place_of(&self.path) == place_of(path))
    }
}

impl Repository {
    /// All registered worktrees, the repository itself first.
    pub async fn worktrees(&self) -> Result<Vec<WorktreeEntry>, GitError> {
        match self.list().await {
            Err(GitError::Failed { .. }) => {
                let _turn = self.turn().await;
                self.worktrees_in_turn().await
            }
            result => result,
        }
    }

    pub(super) async fn worktrees_in_turn(&self) -> Result<Vec<WorktreeEntry>, GitError> {
        match self.list().await {
            Err(error) if self.clear_leftovers(None, &error).await? => self.list().await,
            result => result,
        }
    }

    async fn list(&self) -> Result<Vec<WorktreeEntry>, GitError> {
        let output = self.call("worktree list").await?.args(["--porcelain", "-z"]).ok().await?;
        parse(&output)
    }
}

/// Attributes end with NUL, entries with an empty attribute. Unknown attributes are of no concern.
fn parse(output: &[u8]) -> Result<Vec<WorktreeEntry>, GitError> {
    let mut entries: Vec<WorktreeEntry> = Vec::new();
    for attribute in output.split(|byte| *byte == 0).filter(|attribute| !attribute.is_empty()) {
        let (name, value) = match attribute.iter().position(|byte| *byte == b' ') {
            Some(space) => (&attribute[..space], &attribute[space + 1..]),
            None => (attribute, &attribute[attribute.len()..]),
        };
        if name == b"worktree" {
            let path = PathBuf::from(OsString::from_vec(value.to_owned()));
            entries.push(WorktreeEntry { path, ..WorktreeEntry::default() });
            continue;
        }
        let text = String::from_utf8_lossy(value);
        let Some(entry) = entries.last_mut() else {
            return Err(GitError::Unreadable(format!("git listed a worktree attribute without a worktree: {text}")));
        };
        match name {
            // All zeroes for a branch without a commit.
            b"HEAD" => entry.head = CommitSha::new(&text).ok().filter(|sha| sha.as_str().bytes().any(|b| b != b'0')),
            // An agent may be on a branch whose name we would never use; that must not hide the other entries.
            b"branch" => entry.branch = text.strip_prefix("refs/heads/").and_then(|name| BranchName::new(name).ok()),
            b"locked" => entry.locked = Some(text.into_owned()),
            b"prunable" => entry.prunable = true,
            b"bare" => entry.bare = true,
            b"detached" => entry.detached = true,
            _ => {}
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_and_reasons_are_taken_as_they_are() {
        let sha = "0123456789012345678901234567890123456789";
        let output = format!(
            "worktree /c.git\0bare\0\0worktree /d/a\nb\0HEAD {sha}\0branch refs/heads/b\0locked x\ny\0\0\
             worktree /d/s p\0HEAD {sha}\0detached\0prunable gitdir file points to non-existent location\0\0\
             worktree /d/o\0HEAD 0000000000000000000000000000000000000000\0branch refs/heads/new\0locked\0\0"
        );
        let entries = parse(output.as_bytes()).unwrap();
        assert_eq!(entries.len(), 4);
        assert!(entries[0].bare);
        assert_eq!(entries[1].path, PathBuf::from("/d/a\nb"));
        assert_eq!(entries[1].locked.as_deref(), Some("x\ny"));
        assert_eq!(entries[1].branch.as_ref().unwrap().as_str(), "b");
        assert!(entries[2].detached && entries[2].prunable && entries[2].branch.is_none());
        assert_eq!((entries[3].head.as_ref(), entries[3].locked.as_deref()), (None, Some("")));
        assert!(parse(b"HEAD 1\0\0").is_err());
    }
}
