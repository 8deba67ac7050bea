//! What becomes of something on the disk that no live row knows: a worktree, a registration without one, a directory that
//! git does not know. And which work a worktree is for that gets a row.
//!
//! By itself a pass takes away only what is proven to be merged, clean, made here, and nobody's for an hour; a person may
//! have a worktree of ours removed as any environment is. What others made is theirs until a person takes it in hand.

use super::cleanup::{self, Because, Keep, Occasion, Removal, RemovalFacts};
use crate::model::*;
use std::time::Duration;

/// A creation that is under way has no row for a moment, and people need some time for what they do by hand.
pub const YOUNG: Duration = Duration::from_secs(3600);

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A worktree of the repository below our directory.
    Orphan,
    /// Registered below our directory, and nothing is there.
    Registration,
    /// Where worktrees of the repository are made, and git does not know it.
    Unregistered,
    /// A worktree of the repository outside of our directory.
    Foreign,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Orphan, Class::Registration, Class::Unregistered, Class::Foreign];
}

/// What disk, git and database say of it. Every `Probe` is a question that may have failed.
#[derive(Clone, Debug)]
pub struct OrphanFacts {
    pub class: Class,
    /// A person named it, or a pass looks at all.
    pub occasion: Occasion,
    /// Of its codebase.
    pub mode: CodebaseMode,
    pub now: Timestamp,
    /// By how much the wall clock went ahead of the time that really passed, since this process began.
    pub clock_jumped: Duration,
    /// It bears the marks of a worktree that was made here.
    pub made_by_us: Probe<bool>,
    pub made_at: Option<Timestamp>,
    /// Since when this database knows the codebase.
    pub known_since: Timestamp,
    /// The newest of all times that files and former rows tell.
    pub touched: Probe<Timestamp>,
    /// It lies inside another worktree, or around one.
    pub entangled: bool,
    /// The directory that it is in is there.
    pub surrounded: bool,
    /// A process works in it.
    pub used_by: Probe<Option<u32>>,
    /// Absent when detached.
    pub branch: Option<BranchName>,
    /// A live row has this branch.
    pub branch_taken: bool,
    /// The branch was made from a fork's pull request, and no row says from which.
    pub strangers: bool,
    /// Of the environment that it would be. Absent where it can be none.
    pub removal: Option<RemovalFacts>,
}

impl OrphanFacts {
    /// The same, looked at for another reason.
    #[must_use]
    pub fn on(mut self, occasion: Occasion) -> Self {
        self.occasion = occasion;
        if let Some(removal) = &mut self.removal {
            removal.occasion = occasion;
        }
        self
    }
}

/// Why it stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stays {
    Elsewhere,
    UnknownToGit,
    MadeByOthers,
    /// Whoever made it had another database.
    OlderThanDatabase,
    /// Something happened in it within [`YOUNG`], or may have.
    Young,
    AgeUnknown(String),
    Entangled,
    /// The directory it was in is not there either.
    OutOfSight,
    InUse(u32),
    NoBranch,
    BranchTaken(BranchName),
    /// As any other environment its commits would get the operator's files, and be pushed.
    Strangers,
    /// Its directory is there, and empty.
    Empty,
    NotMerged,
    /// A reason to keep that any environment may have.
    Keep(Keep),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As an environment, by the sequence of all.
    Remove(Removal),
    /// Only git's registration is left.
    TakeOut,
    Stay(Vec<Stays>),
}

/// Every reason is collected, so that people see all of them at once.
pub fn verdict(facts: &OrphanFacts) -> Verdict {
    let mut stays = Vec::new();
    match facts.class {
        Class::Foreign => return Verdict::Stay(vec![Stays::Elsewhere]),
        Class::Unregistered => return Verdict::Stay(vec![Stays::UnknownToGit]),
        Class::Orphan | Class::Registration => {}
    }
    match &facts.made_by_us {
        Probe::Known(true) => {}
        Probe::Known(false) => stays.push(Stays::MadeByOthers),
        Probe::Unknown(why) => stays.push(Stays::Keep(Keep::CannotVerify(why.clone()))),
    }
    if is_automatic(facts) && facts.made_at.is_some_and(|at| at < facts.known_since) {
        stays.push(Stays::OlderThanDatabase);
    }
    stays.extend(age(facts));
    if facts.class == Class::Registration {
        if !facts.surrounded {
            stays.push(Stays::OutOfSight);
        }
        if is_automatic(facts) {
            stays.extend(Keep::for_mode(facts.mode).map(Stays::Keep));
        }
        return if stays.is_empty() { Verdict::TakeOut } else { Verdict::Stay(stays) };
    }
    if facts.entangled {
        stays.push(Stays::Entangled);
    }
    match &facts.used_by {
        Probe::Known(None) => {}
        Probe::Known(Some(process)) => stays.push(Stays::InUse(*process)),
        Probe::Unknown(why) => stays.push(Stays::Keep(Keep::CannotVerify(why.clone()))),
    }
    stays.extend(branch(facts));
    match facts.removal.as_ref().map(cleanup::verdict) {
        // Said already: it is on no branch.
        None => {}
        Some(cleanup::Verdict::Ghost) => stays.push(Stays::Empty),
        Some(cleanup::Verdict::Keep(reasons)) => stays.extend(reasons.into_iter().map(|reason| match reason {
            Keep::StillActive => Stays::NotMerged,
            reason => Stays::Keep(reason),
        })),
        Some(cleanup::Verdict::Remove(removal)) if is_automatic(facts) && !is_merged(&removal) => {
            stays.push(Stays::NotMerged);
        }
        Some(cleanup::Verdict::Remove(removal)) if stays.is_empty() => return Verdict::Remove(removal),
        Some(cleanup::Verdict::Remove(_)) => {}
    }
    stays.dedup();
    Verdict::Stay(stays)
}

/// From when on a person may have it removed, should nothing happen in it until then; `None`: they may now, or age is not all
/// that speaks against it.
pub fn removable_from(facts: &OrphanFacts) -> Option<Timestamp> {
    match (verdict(&facts.clone().on(Occasion::Forced)), &facts.touched) {
        (Verdict::Stay(stays), Probe::Known(touched)) if stays == [Stays::Young] => Some(touched.plus(YOUNG)),
        _ => None,
    }
}

/// Whether nobody may remove it before it was adopted.
pub fn only_once_adopted(facts: &OrphanFacts) -> bool {
    facts.class == Class::Orphan && facts.made_by_us == Probe::Known(false)
}

/// What speaks against giving it a row, which changes nothing in it. Only a person asks for that.
pub fn against_adoption(facts: &OrphanFacts) -> Vec<Stays> {
    match facts.class {
        Class::Foreign => return vec![Stays::Elsewhere],
        Class::Unregistered => return vec![Stays::UnknownToGit],
        Class::Registration => return vec![Stays::Empty],
        Class::Orphan => {}
    }
    let mut stays: Vec<Stays> = facts.entangled.then_some(Stays::Entangled).into_iter().collect();
    stays.extend(branch(facts));
    if let Some(removal) = &facts.removal {
        stays.extend(match &removal.validity {
            Probe::Known(Validity::Valid) => None,
            Probe::Known(Validity::Missing) => Some(Stays::Empty),
            Probe::Known(Validity::Broken) => Some(Stays::Keep(Keep::Broken)),
            Probe::Known(Validity::OwnRepository) => Some(Stays::Keep(Keep::OwnRepository)),
            Probe::Known(Validity::Foreign) => Some(Stays::Keep(Keep::ForeignPath)),
            Probe::Unknown(why) => Some(Stays::Keep(Keep::CannotVerify(why.clone()))),
        });
        stays.extend(match &removal.foreign_lock {
            Probe::Known(None) => None,
            Probe::Known(Some(reason)) => Some(Stays::Keep(Keep::LockedBySomeoneElse(reason.clone()))),
            Probe::Unknown(why) => Some(Stays::Keep(Keep::CannotVerify(why.clone()))),
        });
    }
    stays
}

fn branch(facts: &OrphanFacts) -> Option<Stays> {
    match &facts.branch {
        None => Some(Stays::NoBranch),
        Some(branch) if facts.branch_taken => Some(Stays::BranchTaken(branch.clone())),
        Some(_) => facts.strangers.then_some(Stays::Strangers),
    }
}

fn is_automatic(facts: &OrphanFacts) -> bool {
    match facts.occasion {
        Occasion::Named | Occasion::Forced => false,
        Occasion::Closed | Occasion::MakesWay | Occasion::Pass => true,
    }
}

fn is_merged(removal: &Removal) -> bool {
    match removal.because {
        Because::Merged(_) => !removal.keep_work,
        Because::BranchKept | Because::NothingDone | Because::WorkKept => false,
    }
}

/// A clock that went ahead makes nothing older, and a time that is still to come says nothing of the age.
fn age(facts: &OrphanFacts) -> Option<Stays> {
    match &facts.touched {
        Probe::Unknown(why) => Some(Stays::AgeUnknown(why.clone())),
        Probe::Known(touched) => {
            let age = facts.now.since(*touched).saturating_sub(facts.clock_jumped);
            (age < YOUNG).then_some(Stays::Young)
        }
    }
}

/// What a worktree may be for, the likeliest first; the first that no live row has is taken. What it was for before counts
/// most, then an issue or pull request whose branch has the very name that Treewarden gives it.
pub fn works(branch: &BranchName, prefix: &str, before: Option<&Work>) -> Vec<Work> {
    let of_name = branch.as_str().strip_prefix(prefix).and_then(|name| {
        let of = |kind, id: &str| {
            let work = Work { kind, id: id.to_owned() };
            let number: i64 = id.parse().ok()?;
            (number > 0 && number.to_string() == id).then_some(work)
        };
        match name.strip_prefix("pr-").and_then(|rest| rest.strip_suffix("-review")) {
            Some(id) => of(WorkKind::PullRequest, id),
            None => of(WorkKind::Issue, name.strip_prefix("issue-")?),
        }
    });
    let mut works: Vec<Work> = before.cloned().into_iter().chain(of_name).collect();
    works.push(Work::on_branch(branch));
    works.dedup();
    works
}

/// The branch that Treewarden gives a conversation with a name of its own.
pub fn branch_of_conversation(work: &Work, prefix: Option<&BranchPrefix>) -> Option<BranchName> {
    match work.kind {
        WorkKind::Thread => {
            let prefix = prefix.map(BranchPrefix::as_str).unwrap_or_default();
            BranchName::new(&format!("{prefix}{work}")).ok()
        }
        WorkKind::Issue | WorkKind::PullRequest | WorkKind::Review | WorkKind::Task => None,
    }
}

/// Whether the environment on a conversation's branch is its own: nobody has given it other work since it was adopted.
pub fn is_of_nobody_else(there: &Environment) -> bool {
    there.metadata.adopted_from == Some(AdoptedFrom::Orphan) && there.work == Work::on_branch(&there.branch)
}

/// What the row of a worktree says, `before`: as the newest of those that had this very place and branch said. Where nobody
/// knows whose the branch is, it is somebody's.
pub fn metadata(before: Option<&EnvironmentMetadata>) -> EnvironmentMetadata {
    let kept = before.map(|before| EnvironmentMetadata {
        links: before.links.clone(),
        links_elsewhere: before.links_elsewhere.clone(),
        fork_head: before.fork_head.clone(),
        lost_head: before.lost_head.clone(),
        agreed: before.agreed.clone(),
        foreign_branch: before.foreign_branch,
        began_ahead: before.began_ahead,
        created_by: before.created_by,
        transferred_to: before.transferred_to.clone(),
        ..EnvironmentMetadata::default()
    });
    let unknown = || EnvironmentMetadata { foreign_branch: true, ..EnvironmentMetadata::default() };
    EnvironmentMetadata { adopted_from: Some(AdoptedFrom::Orphan), ..kept.unwrap_or_else(unknown) }
}

#[cfg(test)]
#[path = "orphans_tests.rs"]
mod tests;
