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
    /// A worktree or a clone that our repositories do not know.
    Elsewhere {
        branch: Option<BranchName>,
    },
    /// A worktree of ours that is not below the directory for worktrees.
    Outside,
    Locked(String),
    Unclear(String),
    /// A whole worktree of this repository's canonical one.
    Usable {
        repository: RepositoryId,
        path: PathBuf,
        branch: Option<BranchName>,
    },
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
    WorkStays {
        path: String,
        branch: Option<BranchName>,
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
