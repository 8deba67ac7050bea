//! What a new worktree got beside its checkout, and what it lacks: told to people once, in the first lines of a run.

use super::CommitSha;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Patterns at the root of a checkout, as in a `.gitignore`: which of the operator's files are copied.
pub const COPY_FILE: &str = ".worktreeinclude";

/// Nothing in it: nothing to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Furnished {
    pub copies: Copies,
    pub submodules: Submodules,
    pub lfs: Lfs,
    pub work: BroughtBack,
}

/// What became of the work that an earlier worktree of a restored environment held; nothing in it: all is there, or there
/// was none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BroughtBack {
    /// The commit that holds it, when there was any.
    pub keepsake: Option<CommitSha>,
    /// Files that the branch has changed since, which are as the branch has them.
    pub left: Vec<String>,
    /// Why some of it may be missing, in words for people.
    pub failed: Option<String>,
}

impl BroughtBack {
    /// Whether nothing of it is left in the trash only.
    pub fn is_whole(&self) -> bool {
        self.left.is_empty() && self.failed.is_none()
    }
}

/// What became of the files that Git LFS keeps; nothing in it: all are there, or there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lfs {
    /// How many are pointers since the server has no `git-lfs`.
    pub without_program: u64,
    /// Why some may still be pointers, in words for people.
    pub failed: Option<String>,
}

/// Something in a worktree that no commit of ours takes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    /// Relative; a final slash marks a directory.
    pub path: PathBuf,
    pub why: NotTakenBecause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTakenBecause {
    /// In git's words, fit for people elsewhere.
    GitRefuses(String),
    /// It is a file that the service copied into a worktree, or holds what such a one held.
    Copy,
    /// GitHub takes none of more than `most` bytes.
    TooLarge { bytes: u64, most: u64 },
    /// A submodule would be recorded at a commit that it was recorded at before.
    GoesBack,
}

/// What became of the submodules; nothing in it: all are there, or none were wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Submodules {
    /// Paths, each with the reason in words for people.
    pub failed: Vec<(String, String)>,
    /// None was filled, since a fork's pull request changes where they come from.
    pub other_addresses: bool,
    /// Why none of them could even be tried.
    pub not_tried: Option<String>,
    /// Why they were not brought along when their worktree moved: they stay at the commits they were at.
    pub not_moved: Option<String>,
}

/// What became of the files that an operator keeps for a repository. Paths are relative.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Copies {
    pub copied: Vec<String>,
    /// Patterns that name one file, which the operator does not keep.
    pub missing: Vec<String>,
    pub refused: Vec<(String, NotCopied)>,
    /// Why nothing more was copied, in words for people.
    pub failed: Option<String>,
}

/// Why a file that was asked for was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotCopied {
    /// The checkout has something there.
    InTheWay,
    /// A link that leads out of the directory it is kept in.
    LeadsOut,
    /// A repository, a pipe, or a name that cannot be shown.
    NotPlain,
    /// More, or more files, than a worktree is given.
    TooMuch,
}
