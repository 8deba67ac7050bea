//! What the disk says about a recorded worktree.

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
