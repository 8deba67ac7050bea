//! How much of the disk a codebase may take, and which environments give up what tools make again.

use crate::model::*;
use std::time::Duration;

/// Where a codebase stands against its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Within,
    /// More than this, its soft mark.
    OverSoft(u64),
    /// More than this, its hard mark.
    OverHard(u64),
}

impl Standing {
    pub fn is_over(self) -> bool {
        self != Standing::Within
    }
}

/// What is not measured takes nothing: a size that nobody knows keeps nobody from anything.
pub fn standing(shares: &DiskShares, marks: DiskMarks) -> Standing {
    let used = shares.bytes();
    match (marks.soft.filter(|mark| used > *mark), marks.hard.filter(|mark| used > *mark)) {
        (_, Some(hard)) => Standing::OverHard(hard),
        (Some(soft), None) => Standing::OverSoft(soft),
        (None, None) => Standing::Within,
    }
}

/// What is known of an environment whose caches may go.
#[derive(Clone, Debug)]
pub struct ReclaimFacts<'a> {
    pub now: Timestamp,
    pub environment: &'a Environment,
    /// A run is live or queued in it.
    pub busy: bool,
    /// Idle for so long, it gives up its caches; `None`: none ever does.
    pub reclaim_after: Option<Duration>,
    /// Its codebase takes more than it should, whatever goes by age.
    pub over_soft: bool,
    pub validity: Probe<Validity>,
    pub foreign_lock: Probe<Option<String>>,
}

/// Why caches stay that would go otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spare {
    Busy,
    Pinned,
    MadeByOthers,
    Locked(String),
    /// A process is at work in the worktree.
    InUse(u32),
    CannotVerify(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// It is not asked for, or not due.
    No,
    Yes,
    /// It is due, and something speaks against it.
    Spare(Spare),
}

/// Whether the caches of an environment go.
pub fn reclaim(facts: &ReclaimFacts<'_>) -> Reclaim {
    let Some(after) = facts.reclaim_after else { return Reclaim::No };
    let environment = facts.environment;
    match environment.state {
        EnvironmentState::Active => {}
        // There is nothing to take from, or somebody is at it.
        EnvironmentState::Creating | EnvironmentState::Removing | EnvironmentState::Destroyed => return Reclaim::No,
    }
    if facts.now.since(environment.last_activity_at) < after && !facts.over_soft {
        return Reclaim::No;
    }
    let against = match (&facts.validity, &facts.foreign_lock) {
        _ if facts.busy => Some(Spare::Busy),
        _ if environment.pinned => Some(Spare::Pinned),
        _ if environment.metadata.adopted_from.is_some() => Some(Spare::MadeByOthers),
        (Probe::Unknown(why), _) | (_, Probe::Unknown(why)) => Some(Spare::CannotVerify(why.clone())),
        // The pass itself says what is wrong with it.
        (Probe::Known(Validity::Missing | Validity::Broken | Validity::Foreign | Validity::OwnRepository), _) => {
            return Reclaim::No;
        }
        (Probe::Known(Validity::Valid), Probe::Known(Some(reason))) => Some(Spare::Locked(reason.clone())),
        (Probe::Known(Validity::Valid), Probe::Known(None)) => None,
    };
    against.map_or(Reclaim::Yes, Reclaim::Spare)
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
