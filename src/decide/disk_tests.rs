//! Tests of `disk`: what counts, and whose caches go.

use super::*;
use proptest::prelude::*;

const HOUR: u64 = 3600;

fn used(bytes: u64) -> Option<DiskUse> {
    Some(DiskUse { bytes, whole: true, at: Timestamp::from_unix(0) })
}

fn shares(repository: Option<DiskUse>, worktrees: &[Option<DiskUse>]) -> DiskShares {
    let id = |number: usize| EnvironmentId(uuid::Uuid::from_u128(number as u128));
    let worktrees = worktrees.iter().enumerate().map(|(number, used)| (id(number), number.to_string(), *used));
    DiskShares { repository, worktrees: worktrees.collect() }
}

#[test]
fn a_codebase_is_over_a_mark_with_all_that_is_known_of_it() {
    let marks = |soft, hard| DiskMarks { soft, hard };
    let ten = shares(used(4), &[used(5), None, used(1)]);
    assert_eq!((ten.bytes(), ten.bytes_of_worktrees(), ten.is_whole()), (10, 6, false));
    for (marks, expected) in [
        (marks(None, None), Standing::Within),
        (marks(Some(10), Some(10)), Standing::Within),
        (marks(Some(9), Some(10)), Standing::OverSoft(9)),
        (marks(Some(9), None), Standing::OverSoft(9)),
        (marks(Some(5), Some(9)), Standing::OverHard(9)),
        (marks(None, Some(9)), Standing::OverHard(9)),
    ] {
        assert_eq!(standing(&ten, marks), expected, "{marks:?}");
    }
    // What nobody has measured keeps nobody from anything.
    assert_eq!(standing(&shares(None, &[None, None]), marks(Some(0), Some(0))), Standing::Within);
    assert!(shares(used(4), &[used(5)]).is_whole());
    assert_eq!(ten.largest().map(|(_, name, used)| (name.to_owned(), used.bytes)), Some(("0".to_owned(), 5)));
}

fn idle(environment: &Environment) -> ReclaimFacts<'_> {
    ReclaimFacts {
        now: environment.last_activity_at.plus(Duration::from_secs(72 * HOUR)),
        environment,
        busy: false,
        reclaim_after: Some(Duration::from_secs(72 * HOUR)),
        over_soft: false,
        validity: Probe::Known(Validity::Valid),
        foreign_lock: Probe::Known(None),
    }
}

fn environment() -> Environment {
    let environment = super::super::cleanup::tests::facts().environment;
    Environment { state: EnvironmentState::Active, pinned: false, ..environment }
}

#[test]
fn idle_ones_give_up_their_caches_when_that_is_asked_for() {
    let environment = environment();
    let facts = idle(&environment);
    let early = facts.now.minus(Duration::from_secs(1));
    assert_eq!(reclaim(&facts), Reclaim::Yes);
    assert_eq!(reclaim(&ReclaimFacts { now: early, ..facts.clone() }), Reclaim::No);
    assert_eq!(reclaim(&ReclaimFacts { now: early, over_soft: true, ..facts.clone() }), Reclaim::Yes);
    for over_soft in [false, true] {
        assert_eq!(reclaim(&ReclaimFacts { reclaim_after: None, over_soft, ..facts.clone() }), Reclaim::No);
    }
    // A clock that was set back makes nothing idle.
    let before = environment.last_activity_at.minus(Duration::from_secs(999 * HOUR));
    assert_eq!(reclaim(&ReclaimFacts { now: before, ..facts.clone() }), Reclaim::No);
}

#[test]
fn each_reason_to_spare_them_is_said() {
    let environment = environment();
    let facts = idle(&environment);
    let pinned = Environment { pinned: true, ..environment.clone() };
    let metadata = EnvironmentMetadata { adopted_from: Some(AdoptedFrom::Path), ..EnvironmentMetadata::default() };
    let adopted = Environment { metadata, ..environment.clone() };
    let locked = Probe::Known(Some("mine".to_owned()));
    let doubt = || "git did not answer".to_owned();
    for (facts, why) in [
        (ReclaimFacts { busy: true, ..facts.clone() }, Spare::Busy),
        (ReclaimFacts { environment: &pinned, ..facts.clone() }, Spare::Pinned),
        (ReclaimFacts { environment: &adopted, ..facts.clone() }, Spare::MadeByOthers),
        (ReclaimFacts { foreign_lock: locked, ..facts.clone() }, Spare::Locked("mine".to_owned())),
        (ReclaimFacts { foreign_lock: Probe::Unknown(doubt()), ..facts.clone() }, Spare::CannotVerify(doubt())),
        (ReclaimFacts { validity: Probe::Unknown(doubt()), ..facts.clone() }, Spare::CannotVerify(doubt())),
    ] {
        assert_eq!(reclaim(&facts), Reclaim::Spare(why));
    }
    for validity in [Validity::Missing, Validity::Broken, Validity::Foreign, Validity::OwnRepository] {
        assert_eq!(reclaim(&ReclaimFacts { validity: Probe::Known(validity), ..facts.clone() }), Reclaim::No);
    }
    for state in [EnvironmentState::Creating, EnvironmentState::Removing, EnvironmentState::Destroyed] {
        let other = Environment { state, ..environment.clone() };
        assert_eq!(reclaim(&ReclaimFacts { environment: &other, ..facts.clone() }), Reclaim::No);
    }
}

proptest! {
    /// One more thing that takes space never lets more be made.
    #[test]
    fn more_on_the_disk_is_never_less_over(sizes in prop::collection::vec(prop::option::of(0..100u64), 0..6), soft in 0..200u64, more in 0..100u64) {
        let marks = DiskMarks { soft: Some(soft), hard: Some(soft + 50) };
        let rank = |standing| match standing { Standing::Within => 0, Standing::OverSoft(_) => 1, Standing::OverHard(_) => 2 };
        let mut worktrees: Vec<_> = sizes.into_iter().map(|size| size.and_then(used)).collect();
        let before = rank(standing(&shares(None, &worktrees), marks));
        worktrees.push(used(more));
        prop_assert!(rank(standing(&shares(None, &worktrees), marks)) >= before);
    }

    /// Whatever else is so: a run, a pin and a doubt keep everything as it is.
    #[test]
    fn nothing_is_taken_from_who_is_at_work(over_soft: bool, pinned: bool, busy: bool, known: bool) {
        let environment = Environment { pinned, ..environment() };
        let validity = if known { Probe::Known(Validity::Valid) } else { Probe::Unknown(String::new()) };
        let facts = ReclaimFacts { over_soft, busy, validity, ..idle(&environment) };
        prop_assert_eq!(reclaim(&facts) == Reclaim::Yes, !pinned && !busy && known);
    }
}
