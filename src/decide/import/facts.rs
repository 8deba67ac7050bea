//! What the choice rests on, and the reasons it can give.

use crate::model::*;
use std::{collections::BTreeMap, path::PathBuf};

/// Everything the choice depends on.
#[derive(Clone, Debug)]
pub struct Facts {
    pub now: Timestamp,
    /// The host that repositories' addresses have, with its port when it is not the default one.
    pub web_host: String,
    /// By name in lower case.
    pub repositories: BTreeMap<String, Result<RepositoryFacts, Unreached>>,
    /// Those on this machine, by path as the rows spell it; else why it cannot be worked on.
    pub local: BTreeMap<String, Result<RepositoryFacts, String>>,
    /// `None`: GitHub knows no such thread. One that is not listed was not asked for.
    pub threads: BTreeMap<(RepositoryId, ThreadNumber), Option<ThreadFacts>>,
    /// By path as the rows spell it.
    pub places: BTreeMap<String, Place>,
}

/// Why nothing is known of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// There is no App to ask with.
    NoApp,
    NotInstalled,
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFacts {
    pub kind: ThreadKind,
    pub title: String,
    pub state: ThreadState,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Nothing,
    NoWorktree,
    /// A link to somewhere else, which is not followed.
    Link,
    /// A worktree or a clone that our repositories do not know.
    Elsewhere {
        branch: Option<BranchName>,
        /// Whether a fetch of ours has brought what is committed on the branch, of each repository that was fetched.
        fetched: BTreeMap<RepositoryId, Probe<bool>>,
    },
    /// A worktree of this repository's canonical one, with what ties it to that damaged.
    Broken(RepositoryId),
    /// A worktree of a repository on this machine, which has its branch.
    AtHome {
        repository: RepositoryId,
        branch: Option<BranchName>,
    },
    /// A worktree of ours on the default branch, on which no work is done.
    OnDefault(BranchName),
    /// A worktree of ours that is not below the directory for worktrees.
    Outside,
    Locked(String),
    Unclear(String),
    /// A whole worktree of this repository's canonical one.
    Usable {
        repository: RepositoryId,
        path: PathBuf,
        branch: Option<BranchName>,
        /// It holds something uncommitted.
        unclean: bool,
    },
}

/// A conversation whose place of old waits, and what decides where its work may go on.
#[derive(Clone, Debug)]
pub struct Waits {
    pub work: Work,
    pub repository: Option<RepositoryId>,
    pub has_environment: bool,
    /// Of a pull request's thread.
    pub pull: Option<Probe<PullHead>>,
    /// Branches that work is never done on.
    pub bases: Vec<BranchName>,
    pub created_at: Timestamp,
    pub last_activity_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullHead {
    pub head: BranchName,
    pub base: BranchName,
    /// The branch is one of this repository, under this very name, and the pull request is open: results go there.
    pub takes_results: bool,
}

/// Why a row, or the place a conversation points to, is not taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// This column is empty, or not understood.
    Column(&'static str),
    NoAddress,
    OtherHost(String),
    Unreached(Unreached),
    UnknownPlatform(String),
    ThreadGone,
    /// Its codebase is none of those that are taken over.
    NoCodebase,
    /// Another row is about the same.
    Twin(String),
    Destroyed,
    OtherProvider(String),
    WorktreeGone(String),
    NoWorktree(String),
    Link(String),
    WorkStays {
        path: String,
        branch: Option<BranchName>,
        fetched: Probe<bool>,
    },
    Broken(String),
    /// Its branch is in the repository that is worked on.
    AtHome {
        path: String,
        branch: Option<BranchName>,
    },
    /// What is on its branch may be a fork's, and nobody knows which commits.
    ForksBranch {
        path: String,
        branch: BranchName,
    },
    /// On a branch that this work's results cannot go to.
    OtherBranch {
        path: String,
        branch: BranchName,
    },
    /// There is no repository on this machine that could be worked on.
    NoRepository {
        path: String,
        why: String,
    },
    Outside(String),
    Locked {
        path: String,
        why: String,
    },
    Unclear {
        path: String,
        why: String,
    },
    OtherRepository(String),
    Detached(String),
    NoEnvironmentRow(String),
    NotActive,
    NoConversation,
    NoEnvironment,
    NoAdapter(PlatformKind),
    NewerSession,
    InTheWay(String),
    /// Of a path that waits: its conversation is not there, or has an environment by now.
    Forgotten,
    Settled,
}
