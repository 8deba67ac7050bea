//! The reasons to keep an environment, and what can be said of each of them: whether it passes, where the work it is about
//! can go, what a person does about it.

use crate::model::*;
use serde::{Deserialize, Serialize};

/// One reason to keep an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    Busy,
    StillUsedBy(ThreadId),
    /// A thread of another kind than the environment was made for.
    UsedOn(PlatformKind),
    /// Work that began there is never over.
    Persistent(PlatformKind),
    Pinned,
    /// Its codebase is staged, or switched off: only people take anything away there.
    NotOn(CodebaseMode),
    /// Its issue is another one now, in another repository. Which one is not told where everybody reads.
    Transferred,
    LockedBySomeoneElse(String),
    UncommittedChanges {
        changed: u64,
        untracked: u64,
    },
    OperationInProgress(String),
    HiddenChanges,
    SubmoduleWork(String),
    NestedRepository(String),
    /// More bytes of ignored files than the trash takes.
    IgnoredFiles {
        bytes: u64,
        most: u64,
        largest: String,
    },
    /// Changes in the repository's stash, which are of its branch.
    Stashed(u64),
    BranchDrift {
        recorded: BranchName,
        actual: Option<BranchName>,
    },
    ForeignPath,
    /// Files without a registration.
    Broken,
    /// Its `.git` is a directory, as after `git init`.
    OwnRepository,
    /// Somebody wants it gone by force, and the trash cannot take in all that is not committed.
    TrashCannotHold(String),
    /// Something on this machine is in the way: a process at work in it, a file of another user, a ref that cannot be written.
    Obstructed(String),
    CannotVerify(String),
    /// GitHub did not say what it merged.
    GithubSilent(String),
    /// Only in passes over everything: neither merged nor stale, and its thread is open.
    StillActive,
    /// Being created or removed by somebody else at this moment.
    InTransition,
    /// Its removal has begun and is held up, with the files in the trash.
    RemovalStuck(String),
}

/// What a reason is about, and so what can end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It goes away by itself.
    Passing,
    /// Work that a commit takes in, and the trash.
    Uncommitted,
    /// Work that no commit takes in, but the trash does, or the stash, which stays.
    Unseen,
    /// Work of another repository, which neither takes in.
    OtherRepository,
    /// It stays until somebody does something.
    Lasting,
}

/// What a person does about a reason that `--force` does not override and that does not say so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByHand {
    Unpin,
    Unlock,
    /// Finish what is in progress, or give it up.
    EndOperation,
    /// Push what the repository inside holds, or move it away.
    MoveRepositoryOut,
    SwitchBack,
    /// Take away what stands where the worktree was.
    MoveAside,
    /// Take away what is in the way, then ask again.
    ClearTheWay,
}

impl Keep {
    /// All of [`Kind::Passing`].
    pub const PASSING: [Keep; 5] = [
        Keep::Busy,
        Keep::StillActive,
        Keep::InTransition,
        Keep::NotOn(CodebaseMode::Staged),
        Keep::NotOn(CodebaseMode::Off),
    ];

    pub fn for_mode(mode: CodebaseMode) -> Option<Self> {
        match mode {
            CodebaseMode::On => None,
            CodebaseMode::Staged | CodebaseMode::Off => Some(Keep::NotOn(mode)),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Keep::Busy | Keep::StillActive | Keep::InTransition | Keep::NotOn(_) => Kind::Passing,
            Keep::UncommittedChanges { .. } => Kind::Uncommitted,
            Keep::HiddenChanges | Keep::Stashed(_) => Kind::Unseen,
            Keep::NestedRepository(_) | Keep::SubmoduleWork(_) | Keep::OwnRepository => Kind::OtherRepository,
            Keep::StillUsedBy(_)
            | Keep::UsedOn(_)
            | Keep::Persistent(_)
            | Keep::Pinned
            | Keep::Transferred
            | Keep::LockedBySomeoneElse(_)
            | Keep::OperationInProgress(_)
            | Keep::BranchDrift { .. }
            | Keep::ForeignPath
            | Keep::Broken
            | Keep::IgnoredFiles { .. }
            | Keep::TrashCannotHold(_)
            | Keep::Obstructed(_)
            | Keep::CannotVerify(_)
            | Keep::GithubSilent(_)
            | Keep::RemovalStuck(_) => Kind::Lasting,
        }
    }

    /// Whether the trash can hold what it is about. A repository inside, or what git is in the middle of, it cannot.
    pub fn fits_the_trash(&self) -> bool {
        match self.kind() {
            Kind::Uncommitted | Kind::Unseen => true,
            Kind::Passing | Kind::OtherRepository | Kind::Lasting => false,
        }
    }

    /// Whether a removal by force is refused for it whatever else is done: no trash holds another repository.
    pub fn is_beyond_force(&self) -> bool {
        self.kind() == Kind::OtherRepository
    }

    pub fn by_hand(&self) -> Option<ByHand> {
        match self {
            Keep::Pinned => Some(ByHand::Unpin),
            Keep::LockedBySomeoneElse(_) => Some(ByHand::Unlock),
            Keep::OperationInProgress(_) => Some(ByHand::EndOperation),
            Keep::NestedRepository(_) => Some(ByHand::MoveRepositoryOut),
            Keep::BranchDrift { .. } => Some(ByHand::SwitchBack),
            Keep::ForeignPath => Some(ByHand::MoveAside),
            Keep::Obstructed(_) | Keep::CannotVerify(_) => Some(ByHand::ClearTheWay),
            Keep::Busy
            | Keep::NotOn(_)
            | Keep::StillUsedBy(_)
            | Keep::UsedOn(_)
            | Keep::Persistent(_)
            | Keep::Transferred
            | Keep::UncommittedChanges { .. }
            | Keep::HiddenChanges
            | Keep::SubmoduleWork(_)
            | Keep::IgnoredFiles { .. }
            | Keep::Stashed(_)
            | Keep::Broken
            | Keep::OwnRepository
            | Keep::TrashCannotHold(_)
            | Keep::GithubSilent(_)
            | Keep::StillActive
            | Keep::InTransition
            | Keep::RemovalStuck(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_passes_asks_nothing_of_anybody_and_the_trash_takes_no_other_repository() {
        for passing in Keep::PASSING {
            assert_eq!((passing.kind(), passing.by_hand()), (Kind::Passing, None));
        }
        let changes = Keep::UncommittedChanges { changed: 1, untracked: 0 };
        for (reason, kind, fits) in [
            (changes, Kind::Uncommitted, true),
            (Keep::HiddenChanges, Kind::Unseen, true),
            (Keep::IgnoredFiles { bytes: 2, most: 1, largest: ".env".into() }, Kind::Lasting, false),
            (Keep::Stashed(1), Kind::Unseen, true),
            (Keep::NestedRepository("n".into()), Kind::OtherRepository, false),
            (Keep::SubmoduleWork("s".into()), Kind::OtherRepository, false),
            (Keep::OwnRepository, Kind::OtherRepository, false),
            (Keep::OperationInProgress("merge".into()), Kind::Lasting, false),
            (Keep::Busy, Kind::Passing, false),
        ] {
            assert_eq!((reason.kind(), reason.fits_the_trash()), (kind, fits), "{reason:?}");
        }
    }
}
