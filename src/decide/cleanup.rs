//! Whether an environment may be removed, what becomes of its branch, and otherwise every reason to keep it.

mod keep;

pub use keep::{ByHand, Keep, Kind};

use crate::model::*;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Everything a removal depends on. Every `Probe` is a question that may have failed.
#[derive(Clone, Debug)]
pub struct RemovalFacts {
    pub now: Timestamp,
    pub occasion: Occasion,
    /// Of its codebase.
    pub mode: CodebaseMode,
    pub environment: Environment,
    pub validity: Probe<Validity>,
    /// A queued or live run uses it.
    pub busy: bool,
    /// Open conversations of other threads that point to it.
    pub open_conversations: Vec<ThreadId>,
    /// Platforms without an adapter whose threads point to it; such threads are never closed.
    pub held_on: Vec<PlatformKind>,
    /// Every thread that is known to use it is closed.
    pub threads_closed: bool,
    /// A lock that is not ours, with its reason.
    pub foreign_lock: Probe<Option<String>>,
    pub work: Probe<WorkInProgress>,
    pub branch: Probe<BranchFacts>,
    /// Why GitHub did not say whether it merged the branch, where nothing else proves that.
    pub github_silent: Option<String>,
    /// The branch was compared with the remote as it is now; else as the last fetch left it, since the App no longer reaches
    /// the codebase.
    pub fetched: bool,
    pub stale_after: Duration,
}

/// Why an environment is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A person named this very one.
    Named,
    /// The same, and uncommitted work is to go to the trash with it.
    Forced,
    /// Its thread was closed.
    Closed,
    /// Something new is about to take its place: the worktree of a linked pull request, or of what is asked for after its
    /// merge.
    MakesWay,
    /// All of them are looked at, with none in particular in mind.
    Pass,
}

/// What the worktree holds that is not committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkInProgress {
    /// Branch that HEAD is on; absent when detached.
    pub on_branch: Option<BranchName>,
    pub changed: u64,
    pub untracked: u64,
    /// Merge, rebase, cherry-pick, revert or bisect in progress.
    pub operation: Option<String>,
    /// Edits hidden by skip-worktree or assume-unchanged.
    pub hidden_changes: bool,
    /// Submodules with work of their own.
    pub submodules: Vec<String>,
    /// Repositories or worktrees inside.
    pub nested: Vec<String>,
    pub ignored: Ignored,
    /// Changes that `git stash` put aside on its branch.
    pub stashed: u64,
}

/// Ignored files outside known caches that are no unchanged copies of the operator's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    pub files: u64,
    pub bytes: u64,
    /// Most bytes of them that the trash takes.
    pub most: u64,
    /// The path of the largest.
    pub largest: Option<String>,
}

impl WorkInProgress {
    /// Of a worktree that holds nothing but its branch.
    pub fn nothing(branch: &BranchName) -> Self {
        Self { on_branch: Some(branch.clone()), ..Self::default() }
    }
}

/// What the branch holds, against the base as fetched just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchFacts {
    pub tip: CommitSha,
    /// When the newest commit that the base lacks was made, by the clock of whoever made it.
    pub last_commit: Option<Timestamp>,
    /// The branch has, or is known to have had, commits that did not come from the base.
    pub has_own_commits: bool,
    pub merged: Option<MergeProof>,
}

/// How a branch came to where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Lineage {
    /// Commits that the base lacks and never had.
    pub ahead: u64,
    /// It does not stand where its environment began.
    pub moved: bool,
    /// It was ahead of the base when its environment began.
    pub began_ahead: bool,
    /// The base itself once stood at this very commit.
    pub base_stood_there: bool,
    /// A run left commits on it that the base lacked then, and it still has them.
    pub worked_on: bool,
}

/// Whether a branch has, or had, commits that did not come from the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnWork {
    None,
    /// It stands where the base stood, and no run worked on it: it only followed, unless people's work on it became the
    /// base's by a fast-forward, which GitHub calls a merge.
    IfMerged,
    Some,
}

pub fn own_work(lineage: Lineage) -> OwnWork {
    match lineage {
        Lineage { ahead: 0, moved: false, began_ahead: false, .. } => OwnWork::None,
        Lineage { ahead: 0, moved: true, base_stood_there: true, worked_on: false, .. } => OwnWork::IfMerged,
        _ => OwnWork::Some,
    }
}

/// How it is known that the branch's work is in the base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MergeProof {
    /// The tip is an ancestor of the base.
    Ancestor { base: BranchName },
    /// Merging the branch into the base would change nothing, and its net difference is not empty.
    ContentInBase { base: BranchName },
    /// GitHub merged a pull request with exactly this head commit.
    PullRequest { number: ThreadNumber },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Remove(Removal),
    /// The worktree is gone already: only the row is left to close.
    Ghost,
    Keep(Vec<Keep>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub tip: CommitSha,
    /// Delete the branch if it still stands at `tip`; otherwise it stays.
    pub delete_branch: bool,
    /// There is uncommitted work, which goes to the trash.
    pub keep_work: bool,
    /// So many files of it are changed.
    pub changed: u64,
    /// So many are new to git.
    pub untracked: u64,
    /// So many ignored files go there, too.
    pub rescued: u64,
    pub because: Because,
}

/// Why a removal is safe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Because {
    Merged(MergeProof),
    /// Clean, and every commit stays reachable through the branch, which is kept.
    BranchKept,
    /// Clean and without a commit of its own.
    NothingDone,
    /// A person asked for it; what is not committed goes to the trash, and the branch is kept.
    WorkKept,
}

/// What a pass would do with an environment, in the words of limits and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Its work is proven to be in the base, and nothing else keeps it.
    Merged,
    /// Nothing has happened for long, or its threads are closed, and nothing keeps it.
    Stale,
    /// Only the row is left.
    Ghost,
    Active,
}

impl Class {
    /// Whether it goes when a codebase is at its limit: nothing that anybody may come back to.
    pub fn makes_room(self) -> bool {
        match self {
            Class::Merged | Class::Ghost => true,
            Class::Stale | Class::Active => false,
        }
    }

    /// Counts one that is there. A row that could not be closed takes a place like one in use.
    pub fn count_in(self, census: &mut Census) {
        match self {
            Class::Merged => census.merged += 1,
            Class::Stale => census.stale += 1,
            Class::Ghost | Class::Active => census.active += 1,
        }
    }
}

/// The class of an environment from the facts of a pass.
pub fn classify(facts: &RemovalFacts) -> Class {
    match verdict(facts) {
        Verdict::Remove(Removal { because: Because::Merged(_), .. }) => Class::Merged,
        Verdict::Remove(Removal {
            because: Because::BranchKept | Because::NothingDone | Because::WorkKept, ..
        }) => Class::Stale,
        Verdict::Ghost => Class::Ghost,
        Verdict::Keep(_) => Class::Active,
    }
}

/// Whether a pass over one class is about this environment: it is of that class, or would be if nothing kept it. What
/// cannot be known counts, too, so that people see the doubt.
pub fn concerns(facts: &RemovalFacts, class: Class) -> bool {
    if classify(facts) == class {
        return true;
    }
    match facts.environment.state {
        EnvironmentState::Creating | EnvironmentState::Destroyed => return false,
        EnvironmentState::Active | EnvironmentState::Removing => {}
    }
    match &facts.branch {
        _ if facts.github_silent.is_some() => classify(facts) != Class::Ghost,
        Probe::Unknown(_) => classify(facts) != Class::Ghost,
        Probe::Known(BranchFacts { merged: Some(_), has_own_commits: true, .. }) => class == Class::Merged,
        Probe::Known(branch) => class == Class::Stale && is_over(facts, branch),
    }
}

/// What stands there is known to be no worktree of ours, which keeps it.
fn is_not_ours(validity: &Probe<Validity>) -> bool {
    match validity {
        Probe::Known(Validity::Broken | Validity::OwnRepository | Validity::Foreign) => true,
        Probe::Known(Validity::Valid | Validity::Missing) | Probe::Unknown(_) => false,
    }
}

/// Its threads are closed, or nothing has happened for long.
fn is_over(facts: &RemovalFacts, branch: &BranchFacts) -> bool {
    facts.threads_closed || facts.now.since(last_activity(facts, branch)) >= facts.stale_after
}

/// Every reason to keep is collected, so that people see all of them at once; only with none is removal considered.
pub fn verdict(facts: &RemovalFacts) -> Verdict {
    let mut keep = Vec::new();
    if facts.busy {
        keep.push(Keep::Busy);
    }
    if facts.environment.pinned {
        keep.push(Keep::Pinned);
    }
    // A person may take an environment away from the threads that use it; nothing else may.
    match facts.occasion {
        Occasion::Named | Occasion::Forced => {}
        Occasion::Closed | Occasion::MakesWay | Occasion::Pass => {
            keep.extend(Keep::for_mode(facts.mode));
            keep.extend(facts.open_conversations.iter().cloned().map(Keep::StillUsedBy));
            keep.extend(facts.environment.metadata.transferred_to.as_ref().map(|_| Keep::Transferred));
        }
    }
    match facts.environment.state {
        EnvironmentState::Active => {}
        EnvironmentState::Creating | EnvironmentState::Removing | EnvironmentState::Destroyed => {
            let stuck = facts.environment.metadata.removal.as_ref().and_then(|removal| removal.stuck.clone());
            // Nothing else about it can be examined meanwhile.
            return Verdict::Keep(vec![stuck.map_or(Keep::InTransition, Keep::RemovalStuck)]);
        }
    }
    match &facts.validity {
        // Nothing of it is left to keep, whoever points to it: whoever asks next gets another. One that somebody else made may be
        // on a disk that is away just now.
        Probe::Known(Validity::Missing)
            if !facts.busy && (keep.is_empty() || facts.environment.metadata.adopted_from.is_none()) =>
        {
            return Verdict::Ghost;
        }
        Probe::Known(Validity::Missing | Validity::Valid) => {}
        Probe::Known(Validity::Broken) => keep.push(Keep::Broken),
        Probe::Known(Validity::OwnRepository) => keep.push(Keep::OwnRepository),
        Probe::Known(Validity::Foreign) => keep.push(Keep::ForeignPath),
        Probe::Unknown(why) => keep.push(Keep::CannotVerify(why.clone())),
    }
    match facts.occasion {
        Occasion::Named | Occasion::Forced => {}
        Occasion::Closed | Occasion::MakesWay | Occasion::Pass => keep.extend(platform_reasons(facts)),
    }
    match &facts.foreign_lock {
        Probe::Known(None) => {}
        Probe::Known(Some(reason)) => keep.push(Keep::LockedBySomeoneElse(reason.clone())),
        Probe::Unknown(why) => keep.push(Keep::CannotVerify(why.clone())),
    }
    match &facts.work {
        Probe::Known(work) => {
            let reasons = work_reasons(work, &facts.environment.branch);
            let forced = facts.occasion == Occasion::Forced;
            keep.extend(reasons.into_iter().filter(|reason| !(forced && reason.fits_the_trash())));
        }
        // It was said already that there is nothing of ours to look at.
        Probe::Unknown(_) if is_not_ours(&facts.validity) => {}
        Probe::Unknown(why) => keep.push(Keep::CannotVerify(why.clone())),
    }
    let branch = match &facts.branch {
        Probe::Known(branch) => Some(branch),
        Probe::Unknown(why) => {
            keep.push(Keep::CannotVerify(why.clone()));
            None
        }
    };
    keep.extend(facts.github_silent.clone().map(Keep::GithubSilent));
    if let Some(branch) = branch
        && facts.occasion == Occasion::Pass
        && branch.merged.is_none()
        && !is_over(facts, branch)
    {
        keep.push(Keep::StillActive);
    }
    keep.dedup();
    match branch {
        Some(branch) if keep.is_empty() => Verdict::Remove(removal(branch, facts)),
        _ => Verdict::Keep(keep),
    }
}

/// A commit from the future says nothing: a clock that was wrong once must not keep a worktree for ever.
fn last_activity(facts: &RemovalFacts, branch: &BranchFacts) -> Timestamp {
    let noted = facts.environment.last_activity_at;
    let noted = match facts.environment.metadata.dated_ahead {
        Some(ahead) if noted > facts.now && ahead.is_about(noted, facts.now) => ahead.seen_at,
        Some(_) | None => noted,
    };
    branch.last_commit.filter(|at| *at <= facts.now).map_or(noted, |at| at.max(noted))
}

/// What is to be remembered of an environment whose latest activity is later than `now`: it counts as of the moment in which
/// that was seen first, or of its newest run before `now`. Neither a clock that was ahead once keeps it for ever, nor does one that is
/// behind for a time make it stale.
pub fn dated_ahead(
    known: Option<DatedAhead>,
    activity: Timestamp,
    newest_run: Option<Timestamp>,
    now: Timestamp,
) -> Option<DatedAhead> {
    if activity <= now {
        return None;
    }
    let known = known.filter(|known| known.is_about(activity, now)).map_or(now, |known| known.seen_at);
    Some(DatedAhead { activity, seen_at: newest_run.map_or(known, |run| run.max(known)) })
}

/// A person may come back to a chat after a year and mean the same work.
fn is_persistent(platform: PlatformKind) -> bool {
    match platform {
        PlatformKind::Telegram => true,
        PlatformKind::Github | PlatformKind::Local | PlatformKind::Slack | PlatformKind::Discord => false,
    }
}

fn platform_reasons(facts: &RemovalFacts) -> Vec<Keep> {
    let began_on = facts.environment.metadata.created_by;
    let persistent = began_on.iter().chain(&facts.held_on).copied().filter(|platform| is_persistent(*platform));
    let mut reasons: Vec<Keep> = persistent.map(Keep::Persistent).collect();
    if facts.environment.work.kind != WorkKind::Thread {
        let guests = facts.held_on.iter().copied().filter(|platform| !is_persistent(*platform));
        reasons.extend(guests.map(Keep::UsedOn));
    }
    reasons
}

fn work_reasons(work: &WorkInProgress, recorded: &BranchName) -> Vec<Keep> {
    let mut keep = Vec::new();
    if work.on_branch.as_ref() != Some(recorded) {
        keep.push(Keep::BranchDrift { recorded: recorded.clone(), actual: work.on_branch.clone() });
    }
    if work.changed > 0 || work.untracked > 0 {
        keep.push(Keep::UncommittedChanges { changed: work.changed, untracked: work.untracked });
    }
    keep.extend(work.operation.clone().map(Keep::OperationInProgress));
    if work.hidden_changes {
        keep.push(Keep::HiddenChanges);
    }
    keep.extend(work.submodules.iter().cloned().map(Keep::SubmoduleWork));
    keep.extend(work.nested.iter().cloned().map(Keep::NestedRepository));
    let Ignored { bytes, most, largest, .. } = &work.ignored;
    if bytes > most {
        keep.push(Keep::IgnoredFiles { bytes: *bytes, most: *most, largest: largest.clone().unwrap_or_default() });
    }
    if work.stashed > 0 {
        keep.push(Keep::Stashed(work.stashed));
    }
    keep
}

/// What a removal by force takes to the trash. As long as it is refused for something else, that keeps the place as well.
pub fn passed_over(facts: &RemovalFacts) -> Vec<Keep> {
    match (&facts.work, facts.occasion) {
        (Probe::Known(work), Occasion::Forced) => {
            let reasons = work_reasons(work, &facts.environment.branch);
            reasons.into_iter().filter(Keep::fits_the_trash).collect()
        }
        (_, Occasion::Named | Occasion::Closed | Occasion::MakesWay | Occasion::Pass) | (Probe::Unknown(_), _) => {
            Vec::new()
        }
    }
}

/// The branch goes only when its own work is proven merged and it was ours; in every other case it stays.
fn removal(branch: &BranchFacts, facts: &RemovalFacts) -> Removal {
    let (keep_work, [changed, untracked, rescued]) = match &facts.work {
        Probe::Known(work) => {
            let reasons = work_reasons(work, &facts.environment.branch);
            let files = [work.changed, work.untracked, work.ignored.files];
            (reasons.iter().any(Keep::fits_the_trash), files)
        }
        Probe::Unknown(_) => (true, [0; 3]),
    };
    let (because, proven) = match &branch.merged {
        Some(proof) if branch.has_own_commits => (Because::Merged(proof.clone()), true),
        _ if keep_work => (Because::WorkKept, false),
        _ if branch.has_own_commits => (Because::BranchKept, false),
        _ => (Because::NothingDone, false),
    };
    let ours = facts.fetched && !facts.environment.metadata.foreign_branch;
    // A branch that never moved holds nothing that its start commit does not hold.
    let empty = because == Because::NothingDone;
    let delete_branch = ours && (proven || empty);
    Removal { tip: branch.tip.clone(), delete_branch, keep_work, changed, untracked, rescued, because }
}

#[cfg(test)]
#[path = "cleanup_tests.rs"]
pub(super) mod tests;
