//! What the choice of an environment depends on.

use super::Block;
use crate::decide::branches::Branches;
use crate::model::*;
use std::path::PathBuf;

/// An environment row with what the disk says about it.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub environment: Environment,
    pub validity: Probe<Validity>,
}

impl Candidate {
    pub fn is_valid(&self) -> bool {
        self.validity == Probe::Known(Validity::Valid)
    }
}

/// Work that a closing reference connects to this thread, with its live environment.
#[derive(Clone, Debug)]
pub struct LinkedCandidate {
    pub candidate: Candidate,
    /// The environment's branch contains the pull request's head commit, or what is kept on the issue's own branch.
    pub contains_head: Probe<bool>,
    /// It holds nothing of its own ([`crate::decide::pristine`]), and nothing is in the way of the pull request's branch.
    pub may_make_way: bool,
}

/// A worktree of the same repository that no live environment has: somebody else made it, or it was left over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    pub path: PathBuf,
    /// It stands where one of ours would be made.
    pub at_place: bool,
    /// Absent when detached, or on a branch whose name we would not use.
    pub branch: Option<BranchName>,
    pub validity: Probe<Validity>,
    /// A lock that is not ours, with its reason.
    pub foreign_lock: Probe<Option<String>>,
    pub holds: Probe<Holds>,
}

/// What a run would find in a worktree beside its commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Nothing,
    /// Something that the run would publish as its own.
    Uncommitted,
    /// A merge or the like, which a commit would end.
    Unfinished,
}

impl Stray {
    pub fn is_on(&self, branch: &BranchName) -> bool {
        self.branch.as_ref() == Some(branch)
    }

    /// What speaks against taking it over. A doubt does.
    pub fn unfit(&self) -> Option<Unfit> {
        match (&self.validity, &self.foreign_lock, &self.holds) {
            (Probe::Known(Validity::Missing), ..) => Some(Unfit::Gone),
            (Probe::Known(Validity::Broken | Validity::OwnRepository | Validity::Foreign), ..) => Some(Unfit::NotWhole),
            (_, Probe::Known(Some(why)), _) => Some(Unfit::Locked(why.clone())),
            (Probe::Unknown(why), ..) | (_, Probe::Unknown(why), _) | (.., Probe::Unknown(why)) => {
                Some(Unfit::Doubt(why.clone()))
            }
            (.., Probe::Known(Holds::Unfinished)) => Some(Unfit::Unfinished),
            (.., Probe::Known(Holds::Uncommitted)) => Some(Unfit::Unclean),
            (Probe::Known(Validity::Valid), Probe::Known(None), Probe::Known(Holds::Nothing)) => None,
        }
    }
}

/// Why a worktree that nobody manages may not be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Its files are gone.
    Gone,
    /// What is at its path is not this worktree, or git does not know it any more.
    NotWhole,
    Locked(String),
    Unclean,
    /// A merge or the like is under way in it.
    Unfinished,
    Doubt(String),
}

/// The pull request a message stands in.
#[derive(Clone, Debug)]
pub struct PullFacts {
    pub number: ThreadNumber,
    pub head: BranchName,
    pub head_sha: CommitSha,
    /// The head lives in another repository, or its repository is gone: nothing can be pushed there.
    pub fork: bool,
    /// The head branch no longer exists in this repository.
    pub head_gone: bool,
    /// Its name is one that we do not accept; `head` is a name in its stead.
    pub head_renamed: bool,
    pub base: BranchName,
}

/// What the remote has, as fetched just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// No branch at all.
    Empty,
    /// Branches, but not the one that its host names as the default, or none is named.
    WithoutDefault,
    WithDefault,
}

impl Remote {
    /// The default branch to start from.
    pub(super) fn base(self, default: Option<&BranchName>) -> Result<&BranchName, Block> {
        match (self, default) {
            (Remote::WithDefault, Some(default)) => Ok(default),
            (Remote::WithoutDefault, named) => Err(Block::NoDefaultBranch(named.cloned())),
            (Remote::Empty, _) | (Remote::WithDefault, None) => Err(Block::EmptyRepository),
        }
    }
}

/// Everything the choice depends on.
#[derive(Clone, Debug)]
pub struct ResolveFacts {
    pub work: Work,
    /// Absent for issues.
    pub pull: Option<PullFacts>,
    /// The repository's default branch, as GitHub names it, whether or not it exists.
    pub default_branch: Option<BranchName>,
    pub remote: Remote,
    /// What the repository asks for, as its default branch says.
    pub settings: RepoSettings,
    /// The base these settings name is on the remote.
    pub named_base_exists: bool,
    /// The environment the conversation points to.
    pub current: Option<Candidate>,
    /// Where the conversation worked before it was imported.
    pub legacy: Option<Stray>,
    /// The live environment of the same work.
    pub same_work: Option<Candidate>,
    /// On the branch that a new environment would get ([`super::new_branch`]), or at its place; looked for only when neither
    /// the conversation nor the work has an environment that is whole.
    pub strays: Vec<Stray>,
    pub linked: Vec<LinkedCandidate>,
    /// Absent for pull requests, which have their branch.
    pub branches: Branches,
    /// Linked work whose environment has made way for this very request, before or after a restart.
    pub made_way: Option<Work>,
    /// References to other work, whether or not it has an environment.
    pub links: Vec<Work>,
    /// GitHub could not say what this thread is linked with; `links` are what its text says.
    pub links_unknown: bool,
}
