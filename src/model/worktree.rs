//! What a worktree is made from, and what the disk says about a recorded one.

use super::CommitSha;

/// Whether a recorded worktree is really there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Directory and registration exist, and both belong to the codebase's canonical repository.
    Valid,
    /// The directory is gone or empty, or the checkout was never finished.
    Missing,
    /// The files are there, but the registration, its HEAD or the link to it is gone: git no longer knows what they are.
    Broken,
    /// A worktree of ours in which somebody made a repository of its own: `.git` is a directory, as after `git init`.
    OwnRepository,
    /// Something else stands at the path: another repository, a file, a link.
    Foreign,
}

/// What a new worktree starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeStart {
    /// The branch is made at this commit. One that is there already at exactly this commit will do.
    NewBranch(CommitSha),
    /// The branch exists and is continued as it is.
    Existing,
}

/// What may have to be fetched for a checkout, besides the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckoutNeeds {
    /// Some `.gitattributes`, in whichever directory, speaks of LFS.
    pub lfs: bool,
    /// Some directory is another repository's.
    pub submodules: bool,
}

impl CheckoutNeeds {
    pub const NONE: Self = Self { lfs: false, submodules: false };
    /// What is assumed where it cannot be told.
    pub const ALL: Self = Self { lfs: true, submodules: true };

    /// What either of two checkouts needs.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { lfs: self.lfs || other.lfs, submodules: self.submodules || other.submodules }
    }
}

/// What becomes of the submodules of a new worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SubmodulePolicy {
    #[default]
    Leave,
    /// With those inside them.
    All,
    /// Only when the addresses are those of this full ref; none inside of them.
    AsIn(String),
}
