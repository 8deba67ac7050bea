//! What comes back of what was removed: which environment a person means, whether it is back already, what its new row takes
//! over, and for how long the trash keeps what was not committed.

use crate::model::*;
use std::{ops::RangeInclusive, time::Duration};

const DAY: Duration = Duration::from_secs(86_400);

/// The environments that a name stands for, out of all whose work or branch may be called so, the newest first. They are of
/// one piece of work.
pub fn called(mut found: Vec<Environment>, name: &str) -> Vec<Environment> {
    let alike = |text: &str| text.eq_ignore_ascii_case(name);
    // Work counts before a branch: a pull request's has the branch of the issue that it closes.
    let is_work = found.iter().any(|one| alike(&one.work.to_string()));
    found.retain(|one| alike(&one.work.to_string()) || (!is_work && alike(one.branch.as_str())));
    let newest = found.first().map(|newest| newest.work.clone());
    found.retain(|one| Some(&one.work) == newest.as_ref());
    found
}

/// An environment of the work, with what is left of it.
#[derive(Clone, Debug)]
pub struct Had {
    pub environment: Environment,
    /// Of its removal.
    pub receipt: Option<Receipt>,
    /// What the trash has under its name.
    pub in_trash: Option<CommitSha>,
}

impl Had {
    /// Its uncommitted work. A removal that went no further may have left something in the trash, too.
    fn keepsake(&self) -> Option<CommitSha> {
        let is_kept = self.receipt.as_ref().is_some_and(|receipt| receipt.details.safety_ref.is_some());
        self.in_trash.clone().filter(|_| is_kept)
    }
}

/// Whether what was brought back is all that the trash has: the last look may have come later.
fn has_all(restores: &Restores, had: &Had) -> bool {
    let keepsake = had.keepsake();
    keepsake.is_none() || keepsake == restores.keepsake
}

/// Whether more was kept of what a live environment brought back since it did.
pub fn kept_since(live: &Environment, had: &[Had]) -> bool {
    let Some(restores) = live.metadata.restores.as_ref().filter(|restores| restores.whole) else { return false };
    had.iter().any(|had| had.environment.id == restores.environment && !has_all(restores, had))
}

/// The environment that the work has now.
#[derive(Clone, Debug)]
pub struct Live {
    pub environment: Environment,
    pub users: Vec<ConversationId>,
}

#[derive(Clone, Debug)]
pub struct RestoreFacts {
    /// This very one is asked for; `None`: whichever of the work has most to give back.
    pub only: Option<EnvironmentId>,
    /// The thread that is to go on in it.
    pub thread: Option<ConversationId>,
    pub live: Option<Live>,
    /// The newest first.
    pub had: Vec<Had>,
}

/// What is brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    pub environment: Environment,
    pub details: ReceiptDetails,
    /// Its uncommitted work, when there was any and the trash still has it.
    pub keepsake: Option<CommitSha>,
}

/// What becomes of the wish to have an environment back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restoration {
    /// An earlier try of this very wish came as far as to this one.
    GoOn(Box<Environment>),
    /// The work has another one by now.
    Occupied(Box<Environment>),
    BringBack(Box<Removed>),
    NeverRemoved,
}

pub fn restoration(facts: &RestoreFacts) -> Restoration {
    match &facts.live {
        Some(live) if is_of(facts, live) => Restoration::GoOn(Box::new(live.environment.clone())),
        Some(live) => Restoration::Occupied(Box::new(live.environment.clone())),
        None => match removed_last(facts) {
            Some(removed) => Restoration::BringBack(Box::new(removed)),
            None => Restoration::NeverRemoved,
        },
    }
}

/// Whether an environment that is there was brought back by this very wish, before a crash: nobody else works in it.
fn is_of(facts: &RestoreFacts, live: &Live) -> bool {
    let Some(restores) = &live.environment.metadata.restores else { return false };
    facts.only.is_none_or(|only| only == restores.environment) && live.users.iter().all(|id| facts.thread == Some(*id))
}

/// The last of them that was removed with something uncommitted which nobody brought back, else the last that was removed.
fn removed_last(facts: &RestoreFacts) -> Option<Removed> {
    // One that got lost with its directory has given nothing back that could be removed with a receipt.
    let took_it_over =
        facts.had.iter().filter(|had| had.environment.state != EnvironmentState::Destroyed || had.receipt.is_some());
    let back: Vec<&Restores> = took_it_over
        .filter_map(|had| had.environment.metadata.restores.as_ref())
        .filter(|restores| restores.whole)
        .collect();
    let asked_for = facts.had.iter().filter(|had| facts.only.is_none_or(|only| only == had.environment.id));
    let mut candidates = asked_for.filter_map(|had| {
        // What was only let go of is where it was.
        let details = had.receipt.as_ref().map(|receipt| &receipt.details).filter(|details| !details.released)?;
        let (environment, keepsake) = (had.environment.clone(), had.keepsake());
        let is_back = back.iter().any(|restores| restores.environment == environment.id && has_all(restores, had));
        (!is_back).then(|| Removed { environment, details: details.clone(), keepsake })
    });
    let last = candidates.next()?;
    if last.keepsake.is_some() {
        return Some(last);
    }
    Some(candidates.find(|removed| removed.keepsake.is_some()).unwrap_or(last))
}

/// What the new row says of what comes back.
pub fn as_it_was(removed: &Removed) -> EnvironmentMetadata {
    let before = &removed.environment.metadata;
    EnvironmentMetadata {
        links: before.links.clone(),
        links_elsewhere: before.links_elsewhere.clone(),
        fork_head: before.fork_head.clone(),
        lost_head: before.lost_head.clone(),
        agreed: before.agreed.clone(),
        foreign_branch: before.foreign_branch,
        created_by: before.created_by,
        restores: Some(Restores {
            environment: removed.environment.id,
            keepsake: removed.keepsake.clone(),
            tip: removed.details.tip.clone(),
            whole: false,
        }),
        ..Default::default()
    }
}

/// When a pass has to be on record from, for a clock that says `now` to be believed: one that was set ahead has none there.
/// Nor has a service that was off for long, whose trash waits for one more day.
pub fn witnessed(now: Timestamp, between_passes: Duration) -> RangeInclusive<Timestamp> {
    now.minus(3 * DAY + 2 * between_passes)..=now.minus(DAY)
}

/// Something in the trash, and what may still need it.
#[derive(Clone, Debug)]
pub struct TrashFacts {
    pub now: Timestamp,
    /// That it is as late as that: a pass is on record from [`then`](witnessed).
    pub witnessed: bool,
    /// Whose it is.
    pub environment: EnvironmentId,
    /// What the receipt promised; absent of a removal that went no further.
    pub kept_until: Option<Timestamp>,
    pub made: Timestamp,
    /// For how long such a thing is kept without a promise.
    pub trash_for: Duration,
    /// The live environments of the codebase.
    pub live: Vec<Environment>,
}

/// Whether the time of something in the trash is over. It never is while its environment is being removed, or comes back.
pub fn has_expired(facts: &TrashFacts) -> bool {
    let is_awaited = facts.live.iter().any(|one| match one.state {
        EnvironmentState::Removing => one.id == facts.environment,
        EnvironmentState::Creating => {
            one.metadata.restores.as_ref().is_some_and(|restores| restores.environment == facts.environment)
        }
        EnvironmentState::Active | EnvironmentState::Destroyed => false,
    });
    facts.witnessed && !is_awaited && facts.kept_until.unwrap_or_else(|| facts.made.plus(facts.trash_for)) <= facts.now
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
