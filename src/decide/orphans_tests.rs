//! Tests of `orphans`: each reason to let something be on its own, and what no doubt may lead to.

use super::super::cleanup::tests::{facts as removal_facts, with_branch, with_work};
use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// A worktree of ours that is merged, clean, and old enough to the second.
fn orphan() -> OrphanFacts {
    let removal = RemovalFacts { occasion: Occasion::Pass, ..removal_facts() };
    OrphanFacts {
        class: Class::Orphan,
        occasion: Occasion::Pass,
        mode: CodebaseMode::On,
        now: removal.now,
        clock_jumped: Duration::ZERO,
        made_by_us: Probe::Known(true),
        made_at: Some(Timestamp::from_unix(500_000)),
        known_since: Timestamp::from_unix(400_000),
        touched: Probe::Known(removal.now.minus(HOUR)),
        entangled: false,
        surrounded: true,
        used_by: Probe::Known(None),
        branch: Some(removal.environment.branch.clone()),
        branch_taken: false,
        strangers: false,
        removal: Some(removal),
    }
}

fn with(change: impl FnOnce(&mut OrphanFacts)) -> OrphanFacts {
    let mut facts = orphan();
    change(&mut facts);
    facts
}

fn with_removal(removal: RemovalFacts) -> OrphanFacts {
    with(|facts| facts.removal = Some(RemovalFacts { occasion: Occasion::Pass, ..removal }))
}

fn why(facts: &OrphanFacts) -> Vec<Stays> {
    match verdict(facts) {
        Verdict::Stay(stays) => stays,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_merged_clean_ours_and_old_goes() {
    let Verdict::Remove(removal) = verdict(&orphan()) else { panic!() };
    assert!(matches!(removal.because, Because::Merged(_)));
    assert_eq!(against_adoption(&orphan()), []);
}

/// BR-041, BR-042, BR-052, BR-056
#[test]
fn each_reason_keeps_by_itself() {
    let dirty = Keep::UncommittedChanges { changed: 1, untracked: 0 };
    let cannot = |why: &str| Stays::Keep(Keep::CannotVerify(why.to_owned()));
    let branch = orphan().branch.unwrap();
    let cases = [
        (with(|facts| facts.class = Class::Foreign), Stays::Elsewhere),
        (with(|facts| facts.class = Class::Unregistered), Stays::UnknownToGit),
        (with(|facts| facts.made_by_us = Probe::Known(false)), Stays::MadeByOthers),
        (with(|facts| facts.made_by_us = Probe::Unknown("no".into())), cannot("no")),
        (with(|facts| facts.made_at = Some(Timestamp::from_unix(399_999))), Stays::OlderThanDatabase),
        (with(|facts| facts.touched = Probe::Known(facts.now.minus(HOUR).plus(Duration::from_secs(1)))), Stays::Young),
        (with(|facts| facts.touched = Probe::Unknown("no".into())), Stays::AgeUnknown("no".into())),
        (with(|facts| facts.entangled = true), Stays::Entangled),
        (with(|facts| facts.used_by = Probe::Known(Some(7))), Stays::InUse(7)),
        (with(|facts| facts.used_by = Probe::Unknown("no".into())), cannot("no")),
        (with(|facts| facts.branch = None), Stays::NoBranch),
        (with(|facts| facts.branch_taken = true), Stays::BranchTaken(branch)),
        (with(|facts| facts.strangers = true), Stays::Strangers),
        (with_removal(with_branch(true, None)), Stays::NotMerged),
        (with_removal(with_branch(false, None)), Stays::NotMerged),
        (with_removal(RemovalFacts { threads_closed: true, ..with_branch(true, None) }), Stays::NotMerged),
        (with_removal(with_work(|work| work.changed = 1)), Stays::Keep(dirty)),
        (
            with_removal(RemovalFacts { foreign_lock: Probe::Known(Some("mine".into())), ..removal_facts() }),
            Stays::Keep(Keep::LockedBySomeoneElse("mine".into())),
        ),
        (with_removal(RemovalFacts { branch: Probe::Unknown("no".into()), ..removal_facts() }), cannot("no")),
        (with_removal(RemovalFacts { validity: Probe::Known(Validity::Missing), ..removal_facts() }), Stays::Empty),
    ];
    for (facts, reason) in cases {
        assert_eq!(why(&facts), [reason]);
    }
}

#[test]
fn a_clock_that_went_ahead_makes_nothing_old() {
    let jumped = |age: Duration, jump: Duration| {
        with(|facts| (facts.touched, facts.clock_jumped) = (Probe::Known(facts.now.minus(age)), jump))
    };
    assert_eq!(why(&jumped(HOUR * 24, HOUR * 24)), [Stays::Young]);
    assert_eq!(why(&jumped(HOUR, Duration::from_secs(1))), [Stays::Young]);
    assert!(matches!(verdict(&jumped(HOUR * 25, HOUR * 24)), Verdict::Remove(_)));
    let to_come = with(|facts| facts.touched = Probe::Known(facts.now.plus(HOUR * 24)));
    assert_eq!(why(&to_come), [Stays::Young]);
}

#[test]
fn a_person_may_have_what_is_ours_removed_but_nobody_elses() {
    let named = |facts: OrphanFacts| facts.on(Occasion::Named);
    for facts in [with_removal(with_branch(true, None)), with(|facts| facts.made_at = Some(Timestamp::from_unix(0)))] {
        assert!(matches!(verdict(&named(facts)), Verdict::Remove(_)));
    }
    let unmerged = named(with_removal(with_branch(true, None)));
    let Verdict::Remove(removal) = verdict(&unmerged) else { panic!() };
    assert!(!removal.delete_branch);
    assert_eq!(why(&named(with(|facts| facts.made_by_us = Probe::Known(false)))), [Stays::MadeByOthers]);
    assert_eq!(why(&named(with(|facts| facts.touched = Probe::Known(facts.now)))), [Stays::Young]);
    let dirty = named(with_removal(with_work(|work| work.changed = 1)));
    assert_eq!(why(&dirty).len(), 1);
}

#[test]
fn a_registration_is_taken_out_only_where_its_place_is_in_sight() {
    let registration = |change: fn(&mut OrphanFacts)| {
        let mut facts = with(|facts| (facts.class, facts.branch, facts.removal) = (Class::Registration, None, None));
        change(&mut facts);
        facts
    };
    assert_eq!(verdict(&registration(|_| {})), Verdict::TakeOut);
    assert_eq!(why(&registration(|facts| facts.surrounded = false)), [Stays::OutOfSight]);
    assert_eq!(why(&registration(|facts| facts.made_by_us = Probe::Known(false))), [Stays::MadeByOthers]);
    assert_eq!(why(&registration(|facts| facts.touched = Probe::Known(facts.now))), [Stays::Young]);
    assert_eq!(against_adoption(&registration(|_| {})), [Stays::Empty]);
}

#[test]
fn what_others_made_may_be_adopted_and_what_is_in_use_may_not() {
    assert_eq!(against_adoption(&with(|facts| facts.made_by_us = Probe::Known(false))), []);
    assert_eq!(against_adoption(&with_removal(with_work(|work| work.changed = 1))), []);
    let locked = RemovalFacts { foreign_lock: Probe::Known(Some("mine".into())), ..removal_facts() };
    assert_eq!(against_adoption(&with_removal(locked)), [Stays::Keep(Keep::LockedBySomeoneElse("mine".into()))]);
    for (facts, reason) in [
        (with(|facts| facts.entangled = true), Stays::Entangled),
        (with(|facts| facts.branch = None), Stays::NoBranch),
        (with(|facts| facts.class = Class::Foreign), Stays::Elsewhere),
    ] {
        assert_eq!(against_adoption(&facts), [reason]);
    }
}

#[test]
fn a_worktree_is_for_the_thread_that_its_branch_is_called_after() {
    let works = |branch: &str, prefix: &str, before: Option<&Work>| -> Vec<String> {
        let branch = BranchName::new(branch).unwrap();
        super::works(&branch, prefix, before).iter().map(Work::to_string).collect()
    };
    assert_eq!(works("issue-42", "", None), ["issue-42", "task-issue-42"]);
    assert_eq!(works("pr-99-review", "", None), ["pr-99", "task-pr-99-review"]);
    assert_eq!(works("tw/issue-42", "tw/", None), ["issue-42", "task-tw/issue-42"]);
    for other in ["issue-42", "tw/issue-042", "tw/issue-0", "tw/issue--1", "tw/issue-42-2", "tw/pr-x-review", "feature"]
    {
        assert_eq!(works(other, "tw/", None), [format!("task-{other}")]);
    }
    let before = Work { kind: WorkKind::Thread, id: "chat".into() };
    assert_eq!(works("thread-31e06f7d", "", Some(&before)), ["thread-31e06f7d", "task-thread-31e06f7d"]);
}

#[test]
fn nobody_knows_whose_branch_it_is_where_no_row_told() {
    let known = EnvironmentMetadata { foreign_branch: false, began_ahead: true, ..Default::default() };
    assert!(metadata(None).foreign_branch);
    let after = metadata(Some(&known));
    assert!(!after.foreign_branch && after.began_ahead);
    assert_eq!(after.adopted_from, Some(AdoptedFrom::Orphan));
}

#[test]
fn a_conversation_finds_its_branch_by_its_name() {
    let chat = Work { kind: WorkKind::Thread, id: "chat".to_owned() };
    let prefix = BranchPrefix::new("bot/").ok();
    assert_eq!(branch_of_conversation(&chat, None).unwrap().as_str(), "thread-31e06f7d");
    assert_eq!(branch_of_conversation(&chat, prefix.as_ref()).unwrap().as_str(), "bot/thread-31e06f7d");
    assert_eq!(branch_of_conversation(&Work { kind: WorkKind::Issue, id: "1".to_owned() }, None), None);

    let mut there = orphan().removal.unwrap().environment;
    there.work = Work::on_branch(&there.branch);
    assert!(!is_of_nobody_else(&there), "it was made for that task");
    there.metadata.adopted_from = Some(AdoptedFrom::Orphan);
    assert!(is_of_nobody_else(&there));
    there.work = Work::of_task("another");
    assert!(!is_of_nobody_else(&there));
}

#[test]
fn what_cannot_be_removed_yet_can_be_from_when_on_or_once_adopted() {
    let touched = orphan().now.minus(HOUR / 2);
    let young = with(|facts| facts.touched = Probe::Known(touched));
    assert_eq!(removable_from(&young), Some(touched.plus(HOUR)));
    assert_eq!(removable_from(&orphan()), None, "it can be now");
    let theirs = with(|facts| (facts.touched, facts.made_by_us) = (Probe::Known(touched), Probe::Known(false)));
    assert_eq!((removable_from(&theirs), only_once_adopted(&theirs)), (None, true));
    assert!(!only_once_adopted(&young));
}
