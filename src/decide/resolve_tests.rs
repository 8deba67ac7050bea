//! Tests of `resolve`: the order of places, and what doubt may never lead to.

use super::super::branches::{Branches, NameFacts};
use super::*;
use proptest::prelude::*;
use uuid::Uuid;

fn sha(digit: char) -> CommitSha {
    CommitSha::new(&digit.to_string().repeat(40)).unwrap()
}

fn environment(number: u128, work: Work, branch: &str) -> Environment {
    Environment {
        id: EnvironmentId(Uuid::from_u128(number)),
        codebase: CodebaseId(Uuid::nil()),
        work,
        branch: BranchName::new(branch).unwrap(),
        path: "/w".into(),
        state: EnvironmentState::Active,
        base: BranchName::new("main").ok(),
        start: Some(sha('a')),
        pinned: false,
        provider: "worktree".into(),
        metadata: EnvironmentMetadata::default(),
        version: 1,
        created_at: Timestamp::from_unix(0),
        last_activity_at: Timestamp::from_unix(0),
        destroyed_at: None,
    }
}

fn work(kind: WorkKind, id: &str) -> Work {
    Work { kind, id: id.into() }
}

fn candidate(number: u128, validity: Probe<Validity>) -> Candidate {
    Candidate { environment: environment(number, work(WorkKind::Issue, "1"), "issue-1"), validity }
}

fn issue_facts() -> ResolveFacts {
    ResolveFacts {
        work: work(WorkKind::Issue, "1"),
        pull: None,
        default_branch: BranchName::new("trunk").ok(),
        remote: Remote::WithDefault,
        settings: RepoSettings::default(),
        named_base_exists: false,
        current: None,
        legacy: None,
        same_work: None,
        strays: vec![],
        linked: vec![],
        branches: Branches::default(),
        made_way: None,
        links: vec![],
        links_unknown: false,
    }
}

fn pull(head: &str, fork: bool) -> PullFacts {
    PullFacts {
        number: ThreadNumber(9),
        head: BranchName::new(head).unwrap(),
        head_sha: sha('b'),
        fork,
        head_gone: false,
        head_renamed: false,
        base: BranchName::new("main").unwrap(),
    }
}

fn pull_facts(head: &str, fork: bool) -> ResolveFacts {
    ResolveFacts { work: work(WorkKind::PullRequest, "9"), pull: Some(pull(head, fork)), ..issue_facts() }
}

#[test]
fn an_issue_that_goes_on_with_work_of_its_own_joins_no_other() {
    let kept = BranchName::new("issue-42").unwrap();
    let facts = |share_linked, contains| ResolveFacts {
        branches: Branches { last: Some(kept.clone()), ..Branches::default() },
        linked: vec![linked(contains)],
        settings: RepoSettings { share_linked, ..RepoSettings::default() },
        ..issue_facts()
    };
    let lacks = || Probe::Known(false);
    let doubt = Probe::Unknown("why".to_owned());
    for (contains, why) in [(lacks(), Apart::LacksKept(kept.clone())), (doubt, Apart::Doubt)] {
        let Choice::Create(place) = resolve(&facts(ShareLinked::Auto, contains)).choice else { panic!() };
        assert_eq!(place.not_shared.unwrap().1, why);
        assert_eq!(place.branch, kept);
    }
    for facts in [facts(ShareLinked::Auto, Probe::Known(true)), facts(ShareLinked::Always, lacks())] {
        assert!(matches!(resolve(&facts).choice, Choice::Use { found: Found::Linked(_), .. }));
    }
}

fn linked(contains_head: Probe<bool>) -> LinkedCandidate {
    LinkedCandidate { candidate: candidate(3, Probe::Known(Validity::Valid)), contains_head, may_make_way: false }
}

fn stray(branch: &str, adoptable: bool) -> Stray {
    Stray {
        path: "/w/there".into(),
        at_place: false,
        branch: BranchName::new(branch).ok(),
        validity: Probe::Known(Validity::Valid),
        foreign_lock: Probe::Known(None),
        holds: Probe::Known(if adoptable { Holds::Nothing } else { Holds::Uncommitted }),
    }
}

#[test]
fn a_worktree_that_is_there_is_adopted_and_never_doubled() {
    let adopted = |facts: ResolveFacts| match resolve(&facts).choice {
        Choice::Adopt { place, path, from, .. } => Some((place.branch.to_string(), path == *"/w/there", from)),
        _ => None,
    };
    let issue =
        |adoptable| ResolveFacts { strays: vec![stray("other", true), stray("issue-1", adoptable)], ..issue_facts() };
    assert_eq!(adopted(issue(true)), Some(("issue-1".to_owned(), true, AdoptedFrom::Branch)));
    assert!(matches!(resolve(&issue(false)).choice, Choice::Block(Block::CheckedOut { why: Unfit::Unclean, .. })));
    let pull = ResolveFacts { strays: vec![stray("feature/x", true)], ..pull_facts("feature/x", false) };
    assert_eq!(adopted(pull.clone()), Some(("feature/x".to_owned(), true, AdoptedFrom::Branch)));
    // At the very place of a new one: taken over on the right branch, never doubled, and left alone on any other.
    let in_place = |branch: Option<&str>, adoptable| {
        let branch = branch.map(|branch| BranchName::new(branch).unwrap());
        let there = Stray { at_place: true, branch, ..stray("other", adoptable) };
        resolve(&ResolveFacts { strays: vec![there], ..issue_facts() }).choice
    };
    assert!(matches!(in_place(Some("issue-1"), true), Choice::Adopt { from: AdoptedFrom::Path, .. }));
    assert!(matches!(in_place(Some("issue-1"), false), Choice::Block(Block::CheckedOut { .. })));
    for on in [Some("other"), None] {
        let Choice::Block(Block::PlaceTaken { branch, on: told }) = in_place(on, true) else { panic!("{on:?}") };
        assert_eq!((branch.as_str(), told.as_ref().map(BranchName::as_str)), ("issue-1", on));
    }
    // Alike is not the same: results would be pushed elsewhere.
    let alike = ResolveFacts { strays: vec![stray("feature-x", true)], ..pull };
    assert!(matches!(resolve(&alike).choice, Choice::Create(_)));
}

#[test]
fn the_place_of_old_comes_before_the_works_own_and_serves_only_where_it_may() {
    let issue = |legacy| ResolveFacts { legacy: Some(legacy), ..issue_facts() };
    let Choice::Adopt { place, from, .. } = resolve(&issue(stray("by-hand", true))).choice else { panic!() };
    assert_eq!(
        (place.branch.as_str(), place.work.to_string(), from),
        ("by-hand", "issue-1".to_owned(), AdoptedFrom::Legacy)
    );
    let pull = ResolveFacts { legacy: Some(stray("by-hand", true)), ..pull_facts("feature/x", false) };
    let of_the_works =
        ResolveFacts { same_work: Some(candidate(2, Probe::Known(Validity::Valid))), ..issue(stray("by-hand", true)) };
    let locked = Stray { foreign_lock: Probe::Known(Some("mine".to_owned())), ..stray("by-hand", true) };
    let merging = Stray { holds: Probe::Known(Holds::Unfinished), ..stray("by-hand", true) };
    let unseen = Stray { holds: Probe::Unknown("?".to_owned()), ..stray("by-hand", true) };
    for legacy in [stray("trunk", true), stray("a`b", true), locked, merging, unseen] {
        let facts = issue(legacy);
        assert!(matches!(resolve(&facts).choice, Choice::Create(_)), "{facts:?}");
    }
    assert!(matches!(resolve(&pull).choice, Choice::Create(_)));
    assert!(matches!(resolve(&of_the_works).choice, Choice::Use { found: Found::SameWork, .. }));

    // What its own thread left uncommitted goes along.
    for (adoptable, left) in [(true, false), (false, true)] {
        let Choice::Adopt { unclean, .. } = resolve(&issue(stray("by-hand", adoptable))).choice else { panic!() };
        assert_eq!(unclean, left);
    }
}

#[test]
fn the_place_of_old_yields_to_a_row_that_serves_or_is_in_doubt_only() {
    for validity in [Validity::Valid, Validity::Missing, Validity::Broken, Validity::OwnRepository, Validity::Foreign] {
        let same_work = Some(candidate(2, Probe::Known(validity)));
        let id = same_work.as_ref().map(|same| same.environment.id);
        let facts = ResolveFacts { legacy: Some(stray("by-hand", true)), same_work, ..issue_facts() };
        let Resolution { forget, choice } = resolve(&facts);
        match validity {
            Validity::Missing => {
                assert_eq!(Some(forget), id.map(|id| vec![id]));
                assert!(matches!(choice, Choice::Adopt { from: AdoptedFrom::Legacy, .. }), "{choice:?}");
            }
            Validity::Valid => assert!(matches!(choice, Choice::Use { found: Found::SameWork, .. }), "{choice:?}"),
            Validity::Broken | Validity::OwnRepository | Validity::Foreign => {
                assert!(matches!(choice, Choice::Block(_)) && forget.is_empty(), "{choice:?}");
            }
        }
    }
}

#[test]
fn a_new_issue_gets_its_own_branch_from_the_default_branch() {
    let Choice::Create(place) = resolve(&issue_facts()).choice else { panic!("expected a creation") };
    assert_eq!((place.branch.as_str(), place.base.as_str(), place.origin), ("issue-1", "trunk", Origin::Base));
}

#[test]
fn work_whose_branch_was_merged_gets_the_next_one() {
    let name = |name: &str| BranchName::new(name).unwrap();
    let begun = |branches: Branches| {
        let choice = resolve(&ResolveFacts { branches, ..issue_facts() }).choice;
        let Choice::Create(place) = choice else { panic!("expected a creation") };
        (place.branch.to_string(), place.instead_of.map(|old| old.to_string()))
    };
    let again = |last: Option<&str>, merged: Option<&str>, taken: &[&str]| {
        let taken = taken.iter().copied().map(name).collect();
        begun(Branches { last: last.map(name), merged: merged.map(name), taken })
    };
    let one = Some("issue-1".to_owned());
    assert_eq!(again(None, None, &[]), ("issue-1".to_owned(), None));
    assert_eq!(again(None, Some("issue-1"), &["issue-1"]), ("issue-1-2".to_owned(), one.clone()));
    assert_eq!(again(None, Some("issue-1"), &["issue-1", "issue-1-2"]), ("issue-1-3".to_owned(), one));
    assert_eq!(again(None, None, &["issue-1"]), ("issue-1-2".to_owned(), None), "somebody else's, or a base");
    assert_eq!(again(Some("before/issue-1"), None, &[]), ("before/issue-1".to_owned(), None));
    let trunk = NameFacts {
        branch: name("trunk"),
        exists: true,
        merged: false,
        is_base: true,
        in_use: false,
        has_below: false,
    };
    assert_eq!(begun(Branches::after(Some(trunk))), ("issue-1".to_owned(), None), "nothing is pushed to a base");
}

#[test]
fn a_pull_request_uses_its_real_branch_and_a_fork_a_pinned_review_branch() {
    let Choice::Create(place) = resolve(&pull_facts("feature/x", false)).choice else { panic!() };
    assert_eq!((place.branch.as_str(), place.origin), ("feature/x", Origin::PullHead));

    let Choice::Create(place) = resolve(&pull_facts("main", true)).choice else { panic!() };
    assert_eq!(place.branch.as_str(), "pr-9-review");
    assert_eq!(place.origin, Origin::PinnedHead { number: ThreadNumber(9), sha: sha('b') });

    let mut gone = pull_facts("feature/x", false);
    gone.pull.as_mut().unwrap().head_gone = true;
    let Choice::Create(place) = resolve(&gone).choice else { panic!() };
    assert_eq!(place.branch.as_str(), "pr-9-review");
    let head = BranchName::new("feature/x").unwrap();
    assert_eq!(place.origin, Origin::LostHead { head, sha: sha('b'), lost: Lost::Gone });

    let mut refused = pull_facts("pull/9/head", false);
    refused.pull.as_mut().unwrap().head_renamed = true;
    let Choice::Create(place) = resolve(&refused).choice else { panic!() };
    assert_eq!(place.branch.as_str(), "pr-9-review");
    assert!(matches!(place.origin, Origin::LostHead { lost: Lost::Refused, .. }));
}

#[test]
fn a_name_that_cannot_be_shown_is_not_worked_on() {
    let odd = pull_facts("a`@ann`b", false);
    let Choice::Create(place) = resolve(&odd).choice else { panic!() };
    assert_eq!(place.branch.as_str(), "pr-9-review");
    assert!(matches!(place.origin, Origin::LostHead { lost: Lost::Unshowable, .. }));
    let base = ResolveFacts { default_branch: BranchName::new("a`b").ok(), ..issue_facts() };
    assert!(matches!(resolve(&base).choice, Choice::Block(Block::UnshowableBase)));
}

#[test]
fn the_default_branch_is_nobodys_worktree() {
    let facts = pull_facts("trunk", false);
    let Choice::Create(place) = resolve(&facts).choice else { panic!() };
    assert_eq!(place.branch.as_str(), "pr-9-review");
    let head = facts.default_branch.unwrap();
    assert_eq!(place.origin, Origin::LostHead { head, sha: sha('b'), lost: Lost::Default });
}

#[test]
fn an_empty_repository_blocks() {
    let facts = ResolveFacts { remote: Remote::Empty, ..issue_facts() };
    assert_eq!(resolve(&facts).choice, Choice::Block(Block::EmptyRepository));
    let unnamed = ResolveFacts { default_branch: None, ..issue_facts() };
    assert_eq!(resolve(&unnamed).choice, Choice::Block(Block::EmptyRepository));
    let without = ResolveFacts { remote: Remote::WithoutDefault, ..issue_facts() };
    let trunk = BranchName::new("trunk").unwrap();
    assert_eq!(resolve(&without).choice, Choice::Block(Block::NoDefaultBranch(Some(trunk))));
    let detached = ResolveFacts { default_branch: None, ..without };
    assert_eq!(resolve(&detached).choice, Choice::Block(Block::NoDefaultBranch(None)));
}

#[test]
fn a_stale_reference_is_forgotten_and_a_new_place_made() {
    let facts = ResolveFacts { current: Some(candidate(1, Probe::Known(Validity::Missing))), ..issue_facts() };
    let resolution = resolve(&facts);
    assert_eq!(resolution.forget, vec![EnvironmentId(Uuid::from_u128(1))]);
    assert!(matches!(resolution.choice, Choice::Create(_)));
}

#[test]
fn sharing_needs_the_same_branch_or_the_head_commit() {
    let share = |head: &str, fork, contains| {
        let facts = ResolveFacts { linked: vec![linked(contains)], ..pull_facts(head, fork) };
        resolve(&facts).choice
    };
    let shared = |choice: &Choice| matches!(choice, Choice::Use { found: Found::Linked(_), .. });
    assert!(shared(&share("issue-1", false, Probe::Known(false))));
    assert!(shared(&share("other", false, Probe::Known(true))));
    for (head, fork, contains, why) in [
        ("other", false, Probe::Known(false), Apart::LacksHead),
        ("other", false, Probe::Unknown("unreadable".into()), Apart::Doubt),
        ("issue-1", true, Probe::Known(true), Apart::Fork),
    ] {
        let Choice::Create(place) = share(head, fork, contains) else { panic!("{head} must not share") };
        assert_eq!(place.not_shared, Some((work(WorkKind::Issue, "1"), why)));
    }
}

#[test]
fn the_reason_why_linked_work_is_not_shared_is_the_one_that_holds() {
    let why = |facts: ResolveFacts, linked: LinkedCandidate| {
        let choice = resolve(&ResolveFacts { linked: vec![linked], ..facts }).choice;
        let Choice::Create(Place { not_shared, .. }) = choice else { panic!("{choice:?}") };
        not_shared.map(|(_, why)| why)
    };
    // An issue that a fork's pull request closes.
    let mut of_a_fork = linked(Probe::Known(false));
    of_a_fork.candidate.environment.metadata.fork_head = Some(sha('d'));
    assert_eq!(why(issue_facts(), of_a_fork), Some(Apart::Fork));
    let doubtful = |validity| LinkedCandidate { candidate: candidate(3, validity), ..linked(Probe::Known(false)) };
    for validity in [
        Probe::Known(Validity::Broken),
        Probe::Known(Validity::OwnRepository),
        Probe::Known(Validity::Foreign),
        Probe::Unknown("no".to_owned()),
    ] {
        assert_eq!(why(issue_facts(), doubtful(validity.clone())), Some(Apart::Doubt));
        assert_eq!(why(pull_facts("other", false), doubtful(validity.clone())), Some(Apart::Doubt));
        assert_eq!(why(pull_facts("other", true), doubtful(validity)), Some(Apart::Fork), "looked at or not");
    }
    assert_eq!(why(issue_facts(), doubtful(Probe::Known(Validity::Missing))), None, "there is nothing to share");
    let apart = RepoSettings { share_linked: ShareLinked::Never, ..RepoSettings::default() };
    let apart = ResolveFacts { settings: apart, ..pull_facts("other", false) };
    assert_eq!(why(apart, linked(Probe::Known(true))), Some(Apart::Settings));
}

fn sharing_as(share_linked: ShareLinked, head: &str, fork: bool, contains: Probe<bool>) -> Choice {
    let settings = RepoSettings { share_linked, ..RepoSettings::default() };
    resolve(&ResolveFacts { linked: vec![linked(contains)], settings, ..pull_facts(head, fork) }).choice
}

#[test]
fn always_shares_what_lacks_the_head_but_never_a_forks_or_a_doubtful_one() {
    let share = |head, fork, contains| match sharing_as(ShareLinked::Always, head, fork, contains) {
        Choice::Use { found, .. } => Some(found),
        Choice::Create(_) | Choice::MakeWay { .. } | Choice::Adopt { .. } | Choice::Block(_) => None,
    };
    let one = work(WorkKind::Issue, "1");
    assert_eq!(share("issue-1", false, Probe::Known(false)), Some(Found::Linked(one.clone())));
    assert_eq!(share("other", false, Probe::Known(true)), Some(Found::Linked(one.clone())));
    assert_eq!(share("other", false, Probe::Known(false)), Some(Found::LinkedApart(one)));
    assert_eq!(share("other", false, Probe::Unknown("unreadable".into())), None);
    assert_eq!(share("issue-1", true, Probe::Known(true)), None);
    for validity in [Validity::Foreign, Validity::Broken, Validity::Missing] {
        let candidate = candidate(3, Probe::Known(validity));
        let linked = vec![LinkedCandidate { candidate, contains_head: Probe::Known(true), may_make_way: true }];
        let settings = RepoSettings { share_linked: ShareLinked::Always, ..RepoSettings::default() };
        let facts = ResolveFacts { linked, settings, ..pull_facts("other", false) };
        assert!(matches!(resolve(&facts).choice, Choice::Create(_)), "{validity:?}");
    }
}

#[test]
fn an_environment_that_holds_nothing_makes_way_for_the_pull_requests_own() {
    let choice = |facts: ResolveFacts, may_make_way, contains: Probe<bool>| {
        let linked = vec![LinkedCandidate { may_make_way, ..linked(contains) }];
        resolve(&ResolveFacts { linked, ..facts }).choice
    };
    let lacks = || Probe::Known(false);
    let with = |share_linked, facts: ResolveFacts| ResolveFacts {
        settings: RepoSettings { share_linked, ..RepoSettings::default() },
        ..facts
    };
    let pull = || pull_facts("feature/x", false);
    for share_linked in [ShareLinked::Auto, ShareLinked::Always] {
        let Choice::MakeWay { environment, place } = choice(with(share_linked, pull()), true, lacks()) else {
            panic!()
        };
        assert_eq!((environment, place.branch.as_str()), (EnvironmentId(Uuid::from_u128(3)), "feature/x"));
    }
    assert!(matches!(choice(pull(), true, Probe::Known(true)), Choice::Use { found: Found::Linked(_), .. }));
    let elsewhere = ResolveFacts { strays: vec![stray("feature/x", true)], ..pull() };
    assert!(matches!(choice(elsewhere, true, lacks()), Choice::Adopt { .. }));
    let once = ResolveFacts { made_way: Some(work(WorkKind::Issue, "7")), ..pull() };
    let mut gone = pull();
    gone.pull.as_mut().unwrap().head_gone = true;
    for (facts, may) in [
        (pull(), false),
        (with(ShareLinked::Never, pull()), true),
        (pull_facts("feature/x", true), true),
        (pull_facts("trunk", false), true),
        (gone, true),
        (once, true),
    ] {
        assert!(matches!(choice(facts.clone(), may, lacks()), Choice::Create(_)), "{facts:?}");
    }
}

#[test]
fn never_shares_only_the_very_branch_that_is_wanted() {
    for contains in [Probe::Known(true), Probe::Known(false)] {
        let choice = sharing_as(ShareLinked::Never, "issue-1", false, contains);
        assert!(matches!(choice, Choice::Use { found: Found::Linked(_), .. }), "git has a branch in one worktree only");
    }
    let Choice::Create(place) = sharing_as(ShareLinked::Never, "other", false, Probe::Known(true)) else { panic!() };
    let apart = Some((work(WorkKind::Issue, "1"), Apart::Settings));
    assert_eq!((place.branch.as_str(), place.not_shared), ("other", apart));
    // An issue stays out of its pull request's worktree.
    let mut candidate = candidate(3, Probe::Known(Validity::Valid));
    candidate.environment.branch = BranchName::new("feature/x").unwrap();
    let linked = vec![LinkedCandidate { candidate, contains_head: Probe::Known(false), may_make_way: true }];
    let settings = RepoSettings { share_linked: ShareLinked::Never, ..RepoSettings::default() };
    let Choice::Create(place) = resolve(&ResolveFacts { linked, settings, ..issue_facts() }).choice else { panic!() };
    assert_eq!(place.branch.as_str(), "issue-1");
}

#[test]
fn the_settings_name_the_base_and_begin_the_branch() {
    let settings = RepoSettings {
        base: BranchName::new("dev").ok(),
        branch_prefix: BranchPrefix::new("bot/").ok(),
        ..RepoSettings::default()
    };
    let missing = ResolveFacts { settings: settings.clone(), ..issue_facts() };
    let dev = BranchName::new("dev").unwrap();
    assert_eq!(resolve(&missing).choice, Choice::Block(Block::NoSuchBase(dev.clone())));
    let Choice::Create(place) = resolve(&ResolveFacts { named_base_exists: true, ..missing }).choice else { panic!() };
    assert_eq!((place.branch.as_str(), place.base.as_str()), ("bot/issue-1", "dev"));

    // A pull request has its own base and branch, whether or not the other base exists.
    let with = |facts: ResolveFacts| ResolveFacts { settings: settings.clone(), ..facts };
    let Choice::Create(place) = resolve(&with(pull_facts("feature/x", false))).choice else { panic!() };
    assert_eq!((place.branch.as_str(), place.base.as_str()), ("feature/x", "main"));
    let Choice::Create(place) = resolve(&with(pull_facts("feature/x", true))).choice else { panic!() };
    assert_eq!(place.branch.as_str(), "bot/pr-9-review");
    let Choice::Create(place) = resolve(&with(pull_facts("dev", false))).choice else { panic!() };
    assert_eq!(place.branch.as_str(), "bot/pr-9-review");
    assert_eq!(place.origin, Origin::LostHead { head: dev, sha: sha('b'), lost: Lost::Base });
}

fn validities() -> impl Strategy<Value = Probe<Validity>> {
    prop_oneof![
        Just(Probe::Known(Validity::Valid)),
        Just(Probe::Known(Validity::Missing)),
        Just(Probe::Known(Validity::Broken)),
        Just(Probe::Known(Validity::OwnRepository)),
        Just(Probe::Known(Validity::Foreign)),
        Just(Probe::Unknown("no".to_owned())),
    ]
}

fn any_settings() -> impl Strategy<Value = RepoSettings> {
    let sharing = prop_oneof![Just(ShareLinked::Auto), Just(ShareLinked::Always), Just(ShareLinked::Never)];
    (sharing, proptest::option::of(Just("dev")), proptest::option::of(Just("bot/"))).prop_map(
        |(share_linked, base, prefix)| RepoSettings {
            share_linked,
            base: base.and_then(|name| BranchName::new(name).ok()),
            branch_prefix: prefix.and_then(|prefix| BranchPrefix::new(prefix).ok()),
            ..RepoSettings::default()
        },
    )
}

fn any_facts() -> impl Strategy<Value = ResolveFacts> {
    let candidates = |number| proptest::option::of(validities().prop_map(move |v| candidate(number, v)));
    let contains =
        prop_oneof![Just(Probe::Known(true)), Just(Probe::Known(false)), Just(Probe::Unknown("no".to_owned()))];
    let linked = proptest::collection::vec(
        (validities(), contains, any::<bool>()).prop_map(|(v, contains_head, may_make_way)| LinkedCandidate {
            candidate: candidate(3, v),
            contains_head,
            may_make_way,
        }),
        0..3,
    )
    .prop_map(|mut linked: Vec<LinkedCandidate>| {
        let ids = (3..).map(|number| EnvironmentId(Uuid::from_u128(number)));
        linked.iter_mut().zip(ids).for_each(|(linked, id)| linked.candidate.environment.id = id);
        linked
    });
    let there = || (prop_oneof![Just("issue-1"), Just("trunk"), Just("by-hand")], any::<bool>(), any::<bool>());
    let there = || there().prop_map(|(branch, adoptable, at_place)| Stray { at_place, ..stray(branch, adoptable) });
    let unmanaged = (proptest::option::of(there()), proptest::collection::vec(there(), 0..3));
    let shape = (any::<bool>(), any::<bool>(), any::<bool>());
    let way = (prop_oneof![Just("issue-1"), Just("feature/x"), Just("trunk")], any::<bool>());
    (candidates(1), candidates(2), linked, shape, any_settings(), unmanaged, way).prop_map(
        |(current, same_work, linked, (is_pull, fork, empty), settings, (legacy, strays), (head, made))| {
            let base = if is_pull { pull_facts(head, fork) } else { issue_facts() };
            let made_way = made.then(|| work(WorkKind::Issue, "7"));
            let remote = if empty { Remote::Empty } else { Remote::WithDefault };
            ResolveFacts { current, same_work, linked, made_way, remote, settings, legacy, strays, ..base }
        },
    )
}

fn named_facts(branch: &str, base: Option<&str>) -> NamedFacts {
    let name = |name: &str| BranchName::new(name).unwrap();
    NamedFacts {
        work: Work::on_branch(&name(branch)),
        branch: name(branch),
        base: base.map(name),
        settings_base: None,
        default_branch: Some(name("main")),
        remote: Remote::WithDefault,
        on_remote: vec![name("main"), name("next")],
        strays: Vec::new(),
    }
}

#[test]
fn a_named_branch_starts_at_the_base_that_was_named_or_else_configured() {
    let base_of = |facts: NamedFacts| on_named_branch(facts).map(|(place, _)| place.base.to_string());
    let name = |name: &str| BranchName::new(name).unwrap();
    assert_eq!(base_of(named_facts("f", None)), Ok("main".to_owned()));
    assert_eq!(base_of(named_facts("f", Some("next"))), Ok("next".to_owned()));
    let configured = NamedFacts { settings_base: Some(name("next")), ..named_facts("f", None) };
    assert_eq!(base_of(configured.clone()), Ok("next".to_owned()));
    assert_eq!(base_of(named_facts("f", Some("gone"))), Err(Block::BaseMissing(name("gone"))));
    let absent = NamedFacts { settings_base: Some(name("gone")), ..configured.clone() };
    assert_eq!(base_of(absent), Err(Block::NoSuchBase(name("gone"))));
    let without = |remote| NamedFacts { remote, ..named_facts("f", None) };
    assert_eq!(base_of(without(Remote::Empty)), Err(Block::EmptyRepository));
    assert_eq!(base_of(without(Remote::WithoutDefault)), Err(Block::NoDefaultBranch(Some(name("main")))));
    for protected in ["main", "next"] {
        let facts = NamedFacts { branch: name(protected), ..configured.clone() };
        assert_eq!(base_of(facts), Err(Block::ProtectedBranch(name(protected))));
    }
}

#[test]
fn a_named_branch_takes_over_a_worktree_only_without_any_doubt() {
    let there = |stray: Stray| on_named_branch(NamedFacts { strays: vec![stray], ..named_facts("f", None) });
    let whole = stray("f", true);
    assert_eq!(there(whole.clone()).map(|(_, there)| there), Ok(Some((whole.path.clone(), AdoptedFrom::Branch))));
    let branch = BranchName::new("f").unwrap();
    let unknown = || Unfit::Doubt("why".into());
    for (doubtful, why) in [
        (Stray { holds: Probe::Known(Holds::Uncommitted), ..whole.clone() }, Unfit::Unclean),
        (Stray { holds: Probe::Known(Holds::Unfinished), ..whole.clone() }, Unfit::Unfinished),
        (Stray { holds: Probe::Unknown("why".into()), ..whole.clone() }, unknown()),
        (Stray { foreign_lock: Probe::Known(Some("mine".into())), ..whole.clone() }, Unfit::Locked("mine".into())),
        (Stray { foreign_lock: Probe::Unknown("why".into()), ..whole.clone() }, unknown()),
        (Stray { validity: Probe::Known(Validity::Broken), ..whole.clone() }, Unfit::NotWhole),
        (Stray { validity: Probe::Known(Validity::Missing), ..whole.clone() }, Unfit::Gone),
        (Stray { validity: Probe::Unknown("why".into()), ..whole }, unknown()),
    ] {
        let refused = Err(Block::CheckedOut { branch: branch.clone(), why });
        assert_eq!(there(doubtful).map(|(_, there)| there), refused);
    }
    let in_place = Stray { at_place: true, ..stray("other", true) };
    let taken = Block::PlaceTaken { branch, on: in_place.branch.clone() };
    assert_eq!(there(in_place).map(|(_, there)| there), Err(taken));
}

/// What one of the rows that come into question is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Absent,
    Stale,
    Doubtful,
    BeingMade,
    BeingRemoved,
    Serves,
}

impl Row {
    const ALL: [Row; 6] = [Row::Absent, Row::Stale, Row::Doubtful, Row::BeingMade, Row::BeingRemoved, Row::Serves];

    fn candidate(self, number: u128) -> Option<Candidate> {
        let (state, validity) = match self {
            Row::Absent => return None,
            Row::Stale => (EnvironmentState::Active, Probe::Known(Validity::Missing)),
            Row::Doubtful => (EnvironmentState::Active, Probe::Unknown("no".to_owned())),
            Row::BeingMade => (EnvironmentState::Creating, Probe::Known(Validity::Missing)),
            Row::BeingRemoved => (EnvironmentState::Removing, Probe::Known(Validity::Valid)),
            Row::Serves => (EnvironmentState::Active, Probe::Known(Validity::Valid)),
        };
        let mut candidate = candidate(number, validity);
        candidate.environment.state = state;
        Some(candidate)
    }

    fn is_usable(self) -> bool {
        matches!(self, Row::BeingMade | Row::Serves)
    }
}

/// Everything that could hit, hits: then one after the other does not, and the next one must.
#[test]
fn the_first_step_that_hits_wins() {
    let of = |number| EnvironmentId(Uuid::from_u128(number));
    let by_path = |branch| Stray { at_place: true, path: "/w/path".into(), ..stray(branch, true) };
    let by_branch = |branch| Stray { path: "/w/branch".into(), ..stray(branch, true) };
    for (facts, wanted, old) in
        [(issue_facts(), "issue-1", "by-hand"), (pull_facts("feature/x", false), "feature/x", "feature/x")]
    {
        for number in 0..6 * 6 * 6 * 2 * 3 * 2 {
            let mut number: usize = number;
            let mut one_of = |many: usize| {
                let chosen = number % many;
                number /= many;
                chosen
            };
            let [current, same, linked] = [Row::ALL[one_of(6)], Row::ALL[one_of(6)], Row::ALL[one_of(6)]];
            let (legacy, there, may) = (one_of(2) == 0, ["path", "branch", ""][one_of(3)], one_of(2) == 0);
            let strays = match there {
                "path" => vec![by_path(wanted)],
                "branch" => vec![by_branch(wanted)],
                _ => vec![],
            };
            let mut facts = ResolveFacts {
                current: current.candidate(1),
                same_work: same.candidate(2),
                legacy: legacy.then(|| Stray { path: "/w/old".into(), ..stray(old, true) }),
                linked: linked
                    .candidate(3)
                    .into_iter()
                    .map(|candidate| LinkedCandidate { candidate, ..self::linked(Probe::Known(true)) })
                    .collect(),
                strays,
                ..facts.clone()
            };
            if !may {
                facts.default_branch = BranchName::new("a`b").ok();
                facts.pull.iter_mut().for_each(|pull| pull.base = BranchName::new("a`b").unwrap());
            }
            let own = [(current, 1, Found::Conversation), (same, 2, Found::SameWork)];
            let Resolution { forget, choice } = resolve(&facts);
            let hit = own.iter().find(|(row, ..)| row.is_usable() || *row == Row::Doubtful);
            let looked_at = own.iter().take_while(|(row, ..)| !row.is_usable() && *row != Row::Doubtful);
            let mut stale: Vec<_> = looked_at.filter(|(row, ..)| *row == Row::Stale).map(|(_, n, _)| of(*n)).collect();
            let adopted = |way: AdoptedFrom, at: &str| matches!(&choice, Choice::Adopt { path, from, .. } if *from == way && path.to_str() == Some(at));
            let right = match hit {
                Some((Row::Doubtful, number, _)) => {
                    choice == Choice::Block(Block::CannotVerify { environment: of(*number), why: "no".to_owned() })
                }
                Some((_, number, found)) => choice == Choice::Use { environment: of(*number), found: found.clone() },
                None if legacy && may => adopted(AdoptedFrom::Legacy, "/w/old"),
                None => {
                    stale.extend((linked == Row::Stale).then(|| of(3)));
                    match there {
                        _ if linked.is_usable() => {
                            matches!(&choice, Choice::Use { environment, found: Found::Linked(_) } if *environment == of(3))
                        }
                        _ if !may => choice == Choice::Block(Block::UnshowableBase),
                        "path" => adopted(AdoptedFrom::Path, "/w/path"),
                        "branch" => adopted(AdoptedFrom::Branch, "/w/branch"),
                        _ => matches!(&choice, Choice::Create(place) if place.branch.as_str() == wanted),
                    }
                }
            };
            assert!(right, "{current:?} {same:?} {linked:?} {legacy} {there:?} {may}: {choice:?}");
            assert_eq!(forget, stale, "{current:?} {same:?} {linked:?} {legacy} {there:?} {may}");
        }
    }
}

const MADE: EnvironmentId = EnvironmentId(Uuid::from_u128(7));

/// What the facts are when a decision was applied, and what it made is `finished` or not yet.
fn applied(facts: ResolveFacts, resolution: &Resolution, finished: bool) -> ResolveFacts {
    let forgotten = |c: &Candidate| resolution.forget.contains(&c.environment.id);
    let mut after = facts;
    after.current = after.current.filter(|c| !forgotten(c));
    after.same_work = after.same_work.filter(|c| !forgotten(c));
    after.linked.retain(|linked| !forgotten(&linked.candidate));
    match &resolution.choice {
        Choice::Use { environment, .. } => {
            let linked = after.linked.iter().map(|linked| &linked.candidate);
            let mut known = after.current.iter().chain(&after.same_work).chain(linked);
            after.current = known.find(|c| c.environment.id == *environment && c.is_valid()).cloned();
            after.legacy = None;
        }
        Choice::Create(place) | Choice::Adopt { place, .. } => {
            let mut made = candidate(0, Probe::Known(if finished { Validity::Valid } else { Validity::Missing }));
            made.environment = environment(7, place.work.clone(), place.branch.as_str());
            made.environment.state = if finished { EnvironmentState::Active } else { EnvironmentState::Creating };
            (after.current, after.same_work) = (Some(made.clone()), Some(made));
            after.strays.retain(|stray| !stray.is_on(&place.branch));
            after.legacy = None;
        }
        Choice::MakeWay { environment, .. } => {
            after.made_way = after.linked.first().map(|linked| linked.candidate.environment.work.clone());
            after.linked.retain(|linked| linked.candidate.environment.id != *environment);
        }
        Choice::Block(_) => {}
    }
    after
}

proptest! {
    /// Total, repeatable, and never uses a worktree that was not seen to be valid.
    #[test]
    fn only_valid_worktrees_are_used(facts in any_facts()) {
        let resolution = resolve(&facts);
        prop_assert_eq!(&resolution, &resolve(&facts));
        if let Choice::Use { environment, .. } = resolution.choice {
            let all = facts.current.iter().chain(&facts.same_work).chain(facts.linked.iter().map(|l| &l.candidate));
            let valid = all
                .filter(|c| c.environment.id == environment)
                .any(|c| c.validity == Probe::Known(Validity::Valid));
            prop_assert!(valid);
        }
    }

    /// What is adopted may be, and is on no branch that work is branched off; a branch never gets a second worktree.
    #[test]
    fn nothing_is_adopted_that_may_not_be_and_nothing_doubled(facts in any_facts()) {
        match resolve(&facts).choice {
            Choice::Adopt { place, from, unclean, .. } => {
                let known = facts.strays.iter().chain(&facts.legacy);
                let left_by_its_own = unclean.then_some(Unfit::Unclean).filter(|_| from == AdoptedFrom::Legacy);
                prop_assert!(known.clone().any(|stray| stray.is_on(&place.branch) && stray.unfit() == left_by_its_own));
                let serves = |c: &Candidate| !matches!(c.validity, Probe::Known(Validity::Missing));
                prop_assert!(!facts.current.iter().chain(&facts.same_work).any(serves));
                prop_assert!(Some(&place.branch) != facts.default_branch.as_ref());
                prop_assert!(Some(&place.branch) != facts.settings.base.as_ref());
            }
            Choice::Create(place) => {
                prop_assert!(facts.strays.iter().all(|stray| !stray.is_on(&place.branch) && !stray.at_place));
            }
            Choice::Use { .. } | Choice::MakeWay { .. } | Choice::Block(_) => {}
        }
    }

    /// Only a worktree known to be missing is forgotten.
    #[test]
    fn doubt_never_forgets(facts in any_facts()) {
        for id in resolve(&facts).forget {
            let all = facts.current.iter().chain(&facts.same_work).chain(facts.linked.iter().map(|l| &l.candidate));
            let missing = all
                .filter(|c| c.environment.id == id)
                .any(|c| c.validity == Probe::Known(Validity::Missing));
            prop_assert!(missing);
        }
    }

    /// A fork's head works in nobody else's environment, whatever the settings say.
    #[test]
    fn forks_stay_alone(facts in any_facts()) {
        if facts.pull.as_ref().is_some_and(|pull| pull.fork) {
            let shared = matches!(
                resolve(&facts).choice,
                Choice::Use { found: Found::Linked(_) | Found::LinkedApart(_), .. }
            );
            prop_assert!(!shared);
        }
    }

    /// Only a whole one that holds nothing makes way: for a pull request of this repository on its real branch, where threads
    /// may share, when nothing is there to be shared or taken over, and once.
    #[test]
    fn what_makes_way_may(facts in any_facts()) {
        if let Choice::MakeWay { environment, place } = resolve(&facts).choice {
            let pull = facts.pull.clone().expect("never for an issue");
            prop_assert_eq!((&place.branch, &place.origin), (&pull.head, &Origin::PullHead));
            prop_assert!(!pull.fork && Some(&pull.head) != facts.default_branch.as_ref());
            prop_assert!(facts.settings.share_linked != ShareLinked::Never && facts.made_way.is_none());
            prop_assert!(facts.strays.iter().all(|stray| !stray.is_on(&pull.head)));
            let may = |l: &LinkedCandidate| l.may_make_way && l.candidate.is_valid() && l.candidate.environment.id == environment;
            prop_assert!(facts.linked.iter().any(may));
            let held = |l: &LinkedCandidate| l.candidate.is_valid() && l.contains_head == Probe::Known(true);
            prop_assert!(!facts.linked.iter().any(held));
            // Once it has, the pull request's own is made.
            let after = ResolveFacts { linked: vec![], made_way: Some(work(WorkKind::Issue, "1")), ..facts };
            prop_assert!(matches!(resolve(&after).choice, Choice::Create(place) if place.branch == pull.head));
        }
    }

    /// Where the thread or the work has an environment that serves or is in doubt, none is made beside it, and nothing
    /// makes way.
    #[test]
    fn nothing_is_made_beside_the_works_own(facts in any_facts()) {
        let serves = |c: &Candidate| c.is_valid();
        let in_doubt = |c: &Candidate| !matches!(c.validity, Probe::Known(Validity::Valid | Validity::Missing));
        let own = || facts.current.iter().chain(&facts.same_work);
        let choice = resolve(&facts).choice;
        match own().find(|c| serves(c) || in_doubt(c)) {
            Some(first) if serves(first) => {
                let used = |choice| matches!(choice, Choice::Use { environment, .. } if environment == first.environment.id);
                prop_assert!(used(choice), "{:?}", facts);
            }
            Some(_) => prop_assert!(matches!(choice, Choice::Block(_))),
            None => {}
        }
    }

    /// Once a decision is applied, deciding again changes nothing: what was used, made or taken over is used.
    #[test]
    fn applying_and_deciding_again_gives_an_empty_plan(facts in any_facts(), finished in any::<bool>()) {
        let first = resolve(&facts);
        let again = resolve(&applied(facts, &first, finished));
        prop_assert_eq!(&again.forget, &vec![]);
        match first.choice {
            Choice::Use { environment, .. } => {
                prop_assert_eq!(again.choice, Choice::Use { environment, found: Found::Conversation });
            }
            Choice::Create(_) | Choice::Adopt { .. } => {
                prop_assert_eq!(again.choice, Choice::Use { environment: MADE, found: Found::Conversation });
            }
            Choice::MakeWay { .. } => {
                let makes_way = matches!(again.choice, Choice::MakeWay { .. });
                prop_assert!(!makes_way);
            }
            Choice::Block(why) => prop_assert_eq!(again.choice, Choice::Block(why)),
        }
    }
}
