//! Whether an environment goes before the next run because all of its work is merged, so that what is asked for next begins at
//! the base.

use super::cleanup::{Because, Removal, RemovalFacts, Verdict, verdict};
use crate::model::*;

/// What the answer depends on, besides everything that a removal does.
#[derive(Clone, Debug)]
pub struct RetireFacts {
    /// Gathered for [`super::cleanup::Occasion::MakesWay`].
    pub removal: RemovalFacts,
    /// Another open thread uses it.
    pub shared: bool,
    /// Another thread has a run in it, or one that waits for it. What this one asks for, now or next, gets the new one.
    pub awaited: bool,
}

/// Only what was pushed to a branch of ours can have been merged by people; of nothing else GitHub has to be asked.
pub fn may_be_over(environment: &Environment) -> bool {
    let metadata = &environment.metadata;
    environment.state == EnvironmentState::Active && metadata.fork_head.is_none() && metadata.agreed.is_some()
}

/// The removal of merged work; `None` with any other work, anybody else who needs it, or any doubt.
pub fn retire(facts: &RetireFacts) -> Option<Removal> {
    let RetireFacts { removal, shared, awaited } = facts;
    let removal = RemovalFacts { busy: *awaited, open_conversations: Vec::new(), ..removal.clone() };
    match verdict(&removal) {
        Verdict::Remove(removal) if matches!(removal.because, Because::Merged(_)) => (!shared).then_some(removal),
        Verdict::Remove(_) | Verdict::Ghost | Verdict::Keep(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cleanup::{MergeProof, Occasion, tests::with_branch};
    use super::*;

    fn facts() -> RetireFacts {
        let proof = MergeProof::PullRequest { number: ThreadNumber(2) };
        let removal = RemovalFacts { occasion: Occasion::MakesWay, busy: true, ..with_branch(true, Some(proof)) };
        RetireFacts { removal, shared: false, awaited: false }
    }

    #[test]
    fn merged_work_goes_although_the_asking_run_is_there() {
        assert!(retire(&facts()).is_some_and(|removal| removal.delete_branch));
    }

    #[test]
    fn whatever_somebody_else_needs_or_is_not_merged_stays() {
        assert_eq!(retire(&RetireFacts { shared: true, ..facts() }), None);
        assert_eq!(retire(&RetireFacts { awaited: true, ..facts() }), None);
        for (own, proof) in [(true, None), (false, None)] {
            let removal = RemovalFacts { occasion: Occasion::MakesWay, ..with_branch(own, proof) };
            assert_eq!(retire(&RetireFacts { removal, ..facts() }), None);
        }
        let mut pinned = facts();
        pinned.removal.environment.pinned = true;
        assert_eq!(retire(&pinned), None);
        let mut held = facts();
        held.removal.held_on = vec![PlatformKind::Telegram];
        assert_eq!(retire(&held), None, "such work is never over");
    }
}
