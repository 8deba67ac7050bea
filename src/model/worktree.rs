//! What the disk says about a recorded worktree.

/// Whether a recorded worktree is really there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Directory and registration exist, and both belong to the codebase's canonical repository.
    Valid,
    /// Directory or registration is gone, or the checkout was never finished.
    Missing,
    /// Something else stands at the path: another repository, a file, a link.
    Foreign,
}
