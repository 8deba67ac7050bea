//! Tests of `restore`: which one comes back, and what is never taken for it.

use super::*;
use proptest::prelude::*;
use uuid::Uuid;

fn id(number: u128) -> EnvironmentId {
    EnvironmentId(Uuid::from_u128(number))
}

fn thread(number: u128) -> ConversationId {
    ConversationId(Uuid::from_u128(number))
}

fn sha(digit: char) -> CommitSha {
    CommitSha::new(&digit.to_string().repeat(40)).unwrap()
}

fn environment(number: u128, work: (WorkKind, &str), branch: &str) -> Environment {
    let environment = super::super::cleanup::tests::facts().environment;
    let work = Work { kind: work.0, id: work.1.into() };
    Environment { id: id(number), work, branch: BranchName::new(branch).unwrap(), ..environment }
}

fn issue(number: u128) -> Environment {
    environment(number, (WorkKind::Issue, "1"), "issue-1")
}

fn restoring(number: u128, of: u128, whole: bool) -> Environment {
    let restores = Restores { environment: id(of), keepsake: Some(sha('c')), tip: None, whole };
    let metadata = EnvironmentMetadata { restores: Some(restores), ..EnvironmentMetadata::default() };
    Environment { metadata, ..issue(number) }
}

fn receipt(of: EnvironmentId, kept: bool, released: bool) -> Receipt {
    let safety_ref = kept.then(|| "refs/treewarden/trash/x".to_owned());
    Receipt {
        id: ReceiptId(Uuid::nil()),
        environment: of,
        trigger: Trigger::Command,
        details: ReceiptDetails { tip: Some(sha('b')), safety_ref, released, ..ReceiptDetails::default() },
        created_at: Timestamp::from_unix(0),
    }
}

/// `kept`: with uncommitted work, which the trash has.
fn removed(environment: Environment, kept: bool) -> Had {
    let receipt = receipt(environment.id, kept, false);
    Had { receipt: Some(receipt), in_trash: kept.then(|| sha('c')), environment }
}

fn facts(had: Vec<Had>) -> RestoreFacts {
    RestoreFacts { only: None, thread: Some(thread(1)), live: None, had }
}

fn brought_back(facts: &RestoreFacts) -> Option<(u128, bool)> {
    match restoration(facts) {
        Restoration::BringBack(removed) => Some((removed.environment.id.0.as_u128(), removed.keepsake.is_some())),
        Restoration::GoOn(_) | Restoration::Occupied(_) | Restoration::NeverRemoved => None,
    }
}

#[test]
fn work_counts_before_a_branch_and_the_newest_work_counts() {
    let pull = environment(3, (WorkKind::PullRequest, "2"), "issue-1");
    let named = |found: &[&Environment], name: &str| {
        let found = called(found.iter().map(|one| (*one).clone()).collect(), name);
        found.iter().map(|one| one.id.0.as_u128()).collect::<Vec<_>>()
    };
    assert_eq!(named(&[&pull, &issue(2), &issue(1)], "Issue-1"), [2, 1]);
    assert_eq!(named(&[&pull], "ISSUE-1"), [3], "there is no such work");
    let other = environment(4, (WorkKind::Task, "x"), "issue-1");
    assert_eq!(named(&[&other, &pull], "issue-1"), [4]);
    assert!(named(&[&issue(1)], "issue").is_empty());
}

#[test]
fn uncommitted_work_comes_back_before_anything_newer() {
    let had = vec![removed(issue(3), false), removed(issue(2), true), removed(issue(1), true)];
    assert_eq!(brought_back(&facts(had.clone())), Some((2, true)));
    assert_eq!(brought_back(&RestoreFacts { only: Some(id(3)), ..facts(had.clone()) }), Some((3, false)));
    assert_eq!(brought_back(&facts(had[..1].to_vec())), Some((3, false)));
    let back = |whole| [vec![removed(restoring(4, 2, whole), false)], had.clone()].concat();
    assert_eq!(brought_back(&facts(back(true))), Some((1, true)), "it was brought back whole");
    assert_eq!(brought_back(&facts(back(false))), Some((2, true)), "it was not");
    let gone = Environment { state: EnvironmentState::Destroyed, ..restoring(4, 2, true) };
    let lost = Had { environment: gone, receipt: None, in_trash: None };
    assert_eq!(brought_back(&facts([vec![lost], had].concat())), Some((2, true)), "it was lost with its directory");
}

/// It came back while the last look was held up.
#[test]
fn what_was_kept_since_it_came_back_comes_back_too() {
    let late = Had { in_trash: Some(sha('e')), ..removed(issue(2), true) };
    let back = restoring(4, 2, true);
    assert!(kept_since(&back, std::slice::from_ref(&late)) && !kept_since(&back, &[removed(issue(2), true)]));
    assert!(!kept_since(&back, &[Had { in_trash: None, ..late.clone() }]), "its time is over");
    let had = vec![removed(back, false), late];
    assert_eq!(brought_back(&facts(had.clone())), Some((2, true)));
    assert_eq!(brought_back(&RestoreFacts { only: Some(id(2)), ..facts(had) }), Some((2, true)));
}

#[test]
fn only_what_a_receipt_says_was_removed_comes_back() {
    let never = Had { environment: issue(1), receipt: None, in_trash: Some(sha('c')) };
    assert_eq!(restoration(&facts(vec![never])), Restoration::NeverRemoved);
    let let_go = Had { environment: issue(1), receipt: Some(receipt(id(1), false, true)), in_trash: None };
    assert_eq!(restoration(&facts(vec![let_go])), Restoration::NeverRemoved, "it is where it was");
    let stray = Had { in_trash: Some(sha('c')), ..removed(issue(1), false) };
    assert_eq!(brought_back(&facts(vec![stray])), Some((1, false)), "of a removal that went no further");
    let expired = Had { in_trash: None, ..removed(issue(1), true) };
    assert_eq!(brought_back(&facts(vec![expired])), Some((1, false)));
}

#[test]
fn one_that_is_there_is_gone_on_with_only_if_this_wish_made_it() {
    let wish = |live: Environment, users: &[u128]| {
        let live = Live { environment: live, users: users.iter().copied().map(thread).collect() };
        RestoreFacts { live: Some(live), ..facts(vec![removed(issue(1), true)]) }
    };
    let goes_on = |facts: &RestoreFacts| matches!(restoration(facts), Restoration::GoOn(_));
    assert!(matches!(restoration(&wish(issue(2), &[])), Restoration::Occupied(_)));
    let own = || restoring(2, 1, false);
    assert!(goes_on(&wish(own(), &[])) && goes_on(&wish(own(), &[1])));
    assert!(matches!(restoration(&wish(own(), &[1, 2])), Restoration::Occupied(_)), "somebody else works in it");
    let panel = |only| RestoreFacts { only: Some(id(only)), thread: None, ..wish(own(), &[]) };
    assert!(goes_on(&panel(1)) && !goes_on(&panel(7)));
}

#[test]
fn what_comes_back_is_what_it_was() {
    let mut before = issue(1);
    before.metadata.fork_head = Some(sha('d'));
    before.metadata.foreign_branch = true;
    before.metadata.kept_because = vec!["a file".to_owned()];
    before.metadata.transferred_to = Some("octo/other#1".to_owned());
    let Restoration::BringBack(back) = restoration(&facts(vec![removed(before.clone(), true)])) else { panic!() };
    let restores = Restores { environment: id(1), keepsake: Some(sha('c')), tip: Some(sha('b')), whole: false };
    let expected = EnvironmentMetadata {
        fork_head: Some(sha('d')),
        foreign_branch: true,
        restores: Some(restores),
        ..EnvironmentMetadata::default()
    };
    assert_eq!(as_it_was(&back), expected);
}

#[test]
fn trash_is_kept_as_long_as_was_promised_and_while_it_is_awaited() {
    let at = Timestamp::from_unix;
    let facts = TrashFacts {
        now: at(100),
        witnessed: true,
        environment: id(1),
        kept_until: Some(at(100)),
        made: at(0),
        trash_for: Duration::from_secs(1_000),
        live: vec![issue(1), restoring(2, 1, true)],
    };
    assert!(has_expired(&facts), "an active one has all of it");
    assert!(!has_expired(&TrashFacts { kept_until: Some(at(101)), trash_for: Duration::ZERO, ..facts.clone() }));
    assert!(!has_expired(&TrashFacts { kept_until: None, ..facts.clone() }));
    assert!(has_expired(&TrashFacts { kept_until: None, trash_for: Duration::from_secs(100), ..facts.clone() }));
    assert!(!has_expired(&TrashFacts { witnessed: false, ..facts.clone() }), "the clock may have been set ahead");
    for (live, state) in [(issue(1), EnvironmentState::Removing), (restoring(2, 1, false), EnvironmentState::Creating)]
    {
        let live = vec![Environment { state, ..live }];
        assert!(!has_expired(&TrashFacts { live, ..facts.clone() }), "{state:?}");
    }
}

fn any_had() -> impl Strategy<Value = Vec<Had>> {
    let one = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::option::of((1..8_u128, any::<bool>(), any::<bool>())),
    );
    prop::collection::vec(one, 0..7).prop_map(|all| {
        let newest_first = all.into_iter().enumerate().rev();
        let had = newest_first.map(|(number, (receipted, kept, released, in_trash, restores))| {
            let number = number as u128 + 1;
            let environment = match restores {
                Some((of, whole, late)) if of < number => {
                    let mut restoring = restoring(number, of, whole);
                    restoring.metadata.restores.as_mut().unwrap().keepsake = (!late).then(|| sha('c'));
                    restoring
                }
                Some(_) | None => issue(number),
            };
            let receipt = receipted.then(|| receipt(environment.id, kept, released));
            Had { receipt, in_trash: in_trash.then(|| sha('c')), environment }
        });
        had.collect()
    })
}

proptest! {
    #[test]
    fn nothing_comes_back_twice_and_no_work_is_passed_over(had in any_had(), only in prop::option::of(1..8_u128)) {
        let facts = RestoreFacts { only: only.map(id), ..facts(had) };
        let holds = |had: &&Had| had.in_trash.is_some()
            && had.receipt.as_ref().is_some_and(|receipt| receipt.details.safety_ref.is_some());
        let is_back = |wanted: &Had| facts.had.iter().any(|had| {
            let lost = had.environment.state == EnvironmentState::Destroyed && had.receipt.is_none();
            let restores = had.environment.metadata.restores.as_ref();
            !lost && restores.is_some_and(|it| {
                let has_all = !holds(&wanted) || it.keepsake == wanted.in_trash;
                it.environment == wanted.environment.id && it.whole && has_all
            })
        });
        let may = |had: &&Had| had.receipt.as_ref().is_some_and(|receipt| !receipt.details.released)
            && !is_back(had)
            && facts.only.is_none_or(|only| only == had.environment.id);
        let with_work = facts.had.iter().filter(may).find(holds);
        match restoration(&facts) {
            Restoration::BringBack(removed) => {
                let had = facts.had.iter().filter(may).find(|had| had.environment.id == removed.environment.id);
                prop_assert!(had.is_some());
                prop_assert_eq!(removed.keepsake.is_some(), with_work.is_some());
            }
            Restoration::NeverRemoved => prop_assert!(!facts.had.iter().any(|had| may(&had))),
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
