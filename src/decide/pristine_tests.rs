//! Tests of `pristine`: what counts as nothing, and that no doubt and no work ever does.

use super::super::cleanup::tests::{any_facts, merged, with_branch, with_work};
use super::super::cleanup::{BranchFacts, Occasion};
use super::*;
use proptest::prelude::*;

fn empty() -> PristineFacts {
    let removal = RemovalFacts { occasion: Occasion::MakesWay, ..with_branch(false, None) };
    PristineFacts { removal, awaited: false, pushed: Probe::Known(false) }
}

fn with(change: impl FnOnce(&mut RemovalFacts)) -> PristineFacts {
    let mut facts = empty();
    change(&mut facts.removal);
    facts
}

#[test]
fn what_holds_nothing_goes_with_its_empty_branch() {
    let removal = pristine(&empty()).unwrap();
    assert_eq!((removal.delete_branch, removal.because), (true, Because::NothingDone));
    let persons = with(|facts| facts.environment.metadata.foreign_branch = true);
    assert!(!pristine(&persons).unwrap().delete_branch, "a person's branch stays");
}

#[test]
fn everything_that_is_there_or_waits_is_in_the_way() {
    let work =
        |change: fn(&mut super::super::cleanup::WorkInProgress)| with(|facts| facts.work = with_work(change).work);
    let branch = |own, merged| with(|facts| facts.branch = with_branch(own, merged).branch);
    let other = BranchName::new("other").unwrap();
    for facts in [
        PristineFacts { awaited: true, ..empty() },
        PristineFacts { pushed: Probe::Known(true), ..empty() },
        PristineFacts { pushed: Probe::Unknown("unreadable".into()), ..empty() },
        branch(true, None),
        // Merged or not, it was somebody's work, and its thread may come back to it.
        branch(true, Some(merged())),
        work(|work| work.changed = 1),
        work(|work| work.untracked = 1),
        work(|work| (work.ignored.bytes, work.ignored.most) = (2, 1)),
        work(|work| work.hidden_changes = true),
        work(|work| work.submodules = vec!["sub".into()]),
        work(|work| work.nested = vec!["inside".into()]),
        work(|work| work.operation = Some("rebase".into())),
        work(|work| work.on_branch = None),
        with(|facts| facts.work = with_work(|work| work.on_branch = Some(other)).work),
        with(|facts| facts.work = Probe::Unknown("unreadable".into())),
        with(|facts| facts.branch = Probe::Unknown("unreadable".into())),
        with(|facts| facts.busy = true),
        with(|facts| facts.environment.pinned = true),
        with(|facts| facts.environment.metadata.adopted_from = Some(AdoptedFrom::Branch)),
        with(|facts| facts.environment.state = EnvironmentState::Creating),
        with(|facts| {
            facts.open_conversations = vec![ThreadId::Numbered { kind: ThreadKind::Issue, number: ThreadNumber(9) }]
        }),
        with(|facts| facts.held_on = vec![PlatformKind::Slack]),
        with(|facts| facts.foreign_lock = Probe::Known(Some("mine".into()))),
        with(|facts| facts.foreign_lock = Probe::Unknown("unreadable".into())),
        with(|facts| facts.validity = Probe::Known(Validity::Missing)),
        with(|facts| facts.validity = Probe::Unknown("unreadable".into())),
    ] {
        assert_eq!(pristine(&facts), None, "{facts:?}");
    }
}

proptest! {
    /// It is never less careful than a removal, whatever the facts.
    #[test]
    fn only_what_may_be_removed_and_has_no_commit_is_pristine(
        removal in any_facts(), awaited: bool, pushed: Option<bool>,
    ) {
        let removal = RemovalFacts { occasion: Occasion::MakesWay, ..removal };
        let pushed = pushed.map_or(Probe::Unknown("no".to_owned()), Probe::Known);
        let facts = PristineFacts { removal, awaited, pushed };
        let answer = pristine(&facts);
        prop_assert_eq!(&answer, &pristine(&facts));
        if let Some(removal) = answer {
            prop_assert_eq!(&verdict(&facts.removal), &Verdict::Remove(removal));
            prop_assert!(!facts.awaited && !facts.removal.busy && facts.pushed == Probe::Known(false));
            let BranchFacts { has_own_commits, .. } = facts.removal.branch.known().expect("known");
            prop_assert!(!has_own_commits);
        }
    }

    /// One more reason never makes it so.
    #[test]
    fn another_reason_never_makes_it_pristine(removal in any_facts(), pushed: bool) {
        let removal = RemovalFacts { occasion: Occasion::MakesWay, ..removal };
        let facts = PristineFacts { removal, awaited: false, pushed: Probe::Known(pushed) };
        if pristine(&facts).is_none() {
            let busy = RemovalFacts { busy: true, ..facts.removal.clone() };
            prop_assert_eq!(pristine(&PristineFacts { removal: busy, ..facts.clone() }), None);
            prop_assert_eq!(pristine(&PristineFacts { awaited: true, ..facts }), None);
        }
    }
}
