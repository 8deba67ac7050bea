//! What a new environment begins with: whose branch it is, where its worktree starts, and what is put into it.

use super::resolve::{Block, Origin, Place};
use crate::model::*;

/// Where the branches of a new environment stand. One that is absent does not exist.
#[derive(Clone, Debug, Default)]
pub struct Tips {
    /// The environment's branch, in the canonical repository.
    pub here: Option<CommitSha>,
    /// The same branch, on the remote.
    pub remote: Option<CommitSha>,
    /// The base, on the remote.
    pub base: Option<CommitSha>,
    /// The branch was once made here from a fork's pull request.
    pub from_fork: bool,
}

/// A branch that is kept here may hold what a stranger wrote. As anything but that pull request's it would get the
/// operator's files, and be pushed.
pub fn check(branch: &BranchName, metadata: &EnvironmentMetadata, tips: &Tips) -> Result<(), Block> {
    match tips.from_fork && tips.here.is_some() && metadata.fork_head.is_none() {
        true => Err(Block::ForkBranch(branch.clone())),
        false => Ok(()),
    }
}

/// Whether the branch is, or may be, somebody's own: a removal never deletes such a one.
pub fn is_foreign(place: &Place, adopted: bool, tips: &Tips) -> bool {
    match (place.work.kind, &place.origin) {
        _ if adopted => true,
        // A name that a person gave may be that of their own branch.
        (WorkKind::Task, _) => tips.remote.is_some() || tips.here.is_some(),
        (_, Origin::Base) => false,
        (_, Origin::PullHead | Origin::LostHead { .. } | Origin::PinnedHead { .. }) => tips.remote.is_some(),
    }
}

/// Where a worktree starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub from: WorktreeStart,
    /// The commit it begins at.
    pub tip: CommitSha,
    pub kind: StartKind,
    /// The tip is a fork's, and is to be remembered as that.
    pub forks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartKind {
    /// A new branch at the tip of its base.
    Fresh,
    /// The commit of a pull request whose own branch is not worked on.
    Pinned,
    /// A branch that was there, or is there again.
    Continued,
}

/// A branch that exists is continued as it is, never reset, and one that was deleted with a worktree that comes back is as if
/// it existed. `None`: there is nothing to start from, the base is gone.
pub fn start(metadata: &EnvironmentMetadata, tips: &Tips) -> Option<Start> {
    let EnvironmentMetadata { fork_head, lost_head, restores, .. } = metadata;
    let kept = tips.here.as_ref().or(restores.as_ref().and_then(|restores| restores.tip.as_ref()));
    let (tip, exists) = match (kept, fork_head, &tips.remote, lost_head) {
        (Some(kept), ..) => (kept, true),
        (None, Some(sha), ..) | (None, None, Some(sha), _) | (None, None, None, Some(sha)) => (sha, false),
        (None, None, None, None) => (tips.base.as_ref()?, false),
    };
    let kind = match (fork_head, lost_head) {
        (Some(sha), _) | (None, Some(sha)) if sha == tip => StartKind::Pinned,
        // A branch that a try before a crash made, and nobody has used, is as good as new.
        (None, _) if Some(tip) == tips.base.as_ref() && (!exists || tips.remote.is_none()) => StartKind::Fresh,
        (Some(_), _) | (None, _) => StartKind::Continued,
    };
    let from = match tips.here {
        Some(_) => WorktreeStart::Existing,
        None => WorktreeStart::NewBranch(tip.clone()),
    };
    // Of a branch that was kept, the mark that is there says more than its tip, which may be work of ours.
    let forks = fork_head.is_some() && !(tips.from_fork && exists);
    Some(Start { from, tip: tip.clone(), kind, forks })
}

/// What an environment's work may be compared with.
#[derive(Clone, Copy, Debug)]
pub struct BaseFacts<'a> {
    pub recorded: Option<&'a BranchName>,
    /// It is on the remote.
    pub recorded_exists: bool,
    /// That of the pull request the work is about, if it is on the remote.
    pub pull: Option<&'a BranchName>,
    /// What the repository's settings ask for, if it is on the remote.
    pub named: Option<&'a BranchName>,
    pub default: Option<&'a BranchName>,
}

/// The base in the place of the recorded one, when that is not, or no longer, the right one.
pub fn other_base<'a>(facts: &BaseFacts<'a>) -> Option<&'a BranchName> {
    let fallback = facts.named.or(facts.default);
    let wanted = match facts.recorded {
        Some(_) if facts.recorded_exists => facts.pull,
        _ => facts.pull.or(fallback),
    };
    wanted.filter(|wanted| Some(*wanted) != facts.recorded)
}

/// What a worktree gets beside its checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extras {
    pub submodules: SubmodulePolicy,
    /// Whether files that Git LFS keeps are downloaded.
    pub lfs: bool,
    /// The files that the operator keeps for the repository.
    pub copies: bool,
}

impl Extras {
    /// Whether anything of it comes from elsewhere.
    pub fn has_to_fetch(&self) -> bool {
        self.lfs || self.submodules != SubmodulePolicy::Leave
    }
}

/// Nothing is fetched that no checkout needs. Whoever opened a fork's pull request wrote code that could read the operator's
/// files, and the list of what is wanted; and must not choose addresses that are asked from this machine.
pub fn extras(settings: &RepoSettings, from_fork: bool, base: Option<&BranchName>, needs: CheckoutNeeds) -> Extras {
    let submodules = match (settings.submodules && needs.submodules, from_fork, base) {
        (false, ..) | (true, true, None) => SubmodulePolicy::Leave,
        (true, false, _) => SubmodulePolicy::All,
        (true, true, Some(base)) => SubmodulePolicy::AsIn(base.remote_ref()),
    };
    Extras { submodules, lfs: settings.lfs && needs.lfs, copies: !from_fork }
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
