//! What takes space on the disk, and how much it may be.

use super::{EnvironmentId, Timestamp};
use serde::{Deserialize, Serialize};

/// How much something takes on the disk, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Of allocated blocks; what several names share counts once.
    pub bytes: u64,
    /// All of it could be looked at. Else it is at least so much.
    pub whole: bool,
    pub at: Timestamp,
}

/// How much one codebase may take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskMarks {
    /// Beyond it, cleanup begins by itself.
    pub soft: Option<u64>,
    /// Beyond it, no worktree is made.
    pub hard: Option<u64>,
}

/// A directory of a worktree that a tool fills again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheDirectory {
    /// In the worktree.
    pub path: String,
    /// What its deletion frees, in bytes.
    pub frees: u64,
}

/// Caches that are on their way out of a worktree, written down before the first of them is touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingReclaim {
    pub directories: Vec<CacheDirectory>,
    /// Who had it done, as the audit log calls them.
    pub actor: String,
}

/// What takes how much of a codebase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskShares {
    /// The canonical repository, whose objects all worktrees share. `None`: not measured yet.
    pub repository: Option<DiskUse>,
    /// Each live environment with what it is called; `None`: not measured yet, or not ours.
    pub worktrees: Vec<(EnvironmentId, String, Option<DiskUse>)>,
}

impl DiskShares {
    fn known(&self) -> impl Iterator<Item = &DiskUse> {
        self.worktrees.iter().filter_map(|(_, _, used)| used.as_ref()).chain(&self.repository)
    }

    /// Of all that is known.
    pub fn bytes(&self) -> u64 {
        self.known().fold(0, |sum, used| sum.saturating_add(used.bytes))
    }

    /// Of the worktrees alone.
    pub fn bytes_of_worktrees(&self) -> u64 {
        self.bytes() - self.repository.map_or(0, |used| used.bytes)
    }

    /// Whether it is all of it, and not only at least so much.
    pub fn is_whole(&self) -> bool {
        let measured = self.repository.is_some() && self.worktrees.iter().all(|(_, _, used)| used.is_some());
        measured && self.known().all(|used| used.whole)
    }

    /// When the oldest of the figures was taken; `None` when there is none.
    pub fn as_of(&self) -> Option<Timestamp> {
        self.known().map(|used| used.at).min()
    }

    /// The worktree that takes most.
    pub fn largest(&self) -> Option<(EnvironmentId, &str, DiskUse)> {
        let known = self.worktrees.iter().filter_map(|(id, name, used)| Some((*id, name.as_str(), (*used)?)));
        known.max_by_key(|(_, _, used)| used.bytes)
    }
}
