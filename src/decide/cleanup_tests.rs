//! Tests of `cleanup`: every reason on its own, and what no combination of facts may lead to.

use super::*;
use proptest::prelude::*;
use uuid::Uuid;

fn sha(digit: char) -> CommitSha {
    CommitSha::new(&digit.to_string().repeat(40)).unwrap()
}

fn issue(number: i64) -> ThreadId {
    ThreadId::Numbered { kind: ThreadKind::Issue, number: ThreadNumber(number) }
}

fn branch() -> BranchName {
    BranchName::new("issue-1").unwrap()
}

pub fn facts() -> RemovalFacts {
    RemovalFacts {
        now: Timestamp::from_unix(1_000_000),
        occasion: Occasion::Closed,
        mode: CodebaseMode::On,
        environment: Environment {
            id: EnvironmentId(Uuid::nil()),
            codebase: CodebaseId(Uuid::nil()),
            work: Work { kind: WorkKind::Issue, id: "1".into() },
            branch: branch(),
            path: "/w".into(),
            state: EnvironmentState::Active,
            base: BranchName::new("main").ok(),
            start: Some(sha('a')),
            pinned: false,
            provider: "worktree".into(),
            metadata: EnvironmentMetadata::default(),
            version: 1,
            created_at: Timestamp::from_unix(0),
            last_activity_at: Timestamp::from_unix(999_999),
            destroyed_at: None,
        },
        validity: Probe::Known(Validity::Valid),
        busy: false,
        open_conversations: vec![],
        held_on: vec![],
        threads_closed: false,
        foreign_lock: Probe::Known(None),
        work: Probe::Known(WorkInProgress { on_branch: Some(branch()), ..Default::default() }),
        branch: Probe::Known(with_own_commits(true, Some(merged()))),
        github_silent: None,
        fetched: true,
        stale_after: Duration::from_secs(14 * 86_400),
    }
}

pub fn merged() -> MergeProof {
    MergeProof::ContentInBase { base: BranchName::new("main").unwrap() }
}

fn with_own_commits(has_own_commits: bool, merged: Option<MergeProof>) -> BranchFacts {
    BranchFacts { tip: sha('b'), last_commit: None, has_own_commits, merged }
}

pub fn with_branch(has_own_commits: bool, merged: Option<MergeProof>) -> RemovalFacts {
    RemovalFacts { branch: Probe::Known(with_own_commits(has_own_commits, merged)), ..facts() }
}

pub fn with_work(change: impl FnOnce(&mut WorkInProgress)) -> RemovalFacts {
    let mut work = WorkInProgress { on_branch: Some(branch()), ..Default::default() };
    change(&mut work);
    RemovalFacts { work: Probe::Known(work), ..facts() }
}

/// So many bytes, where the trash takes `most`.
pub fn ignored(bytes: u64, most: u64) -> Ignored {
    Ignored { files: 1, bytes, most, largest: Some(".env".into()) }
}

#[test]
fn ignored_files_go_to_the_trash_on_every_occasion_as_far_as_it_takes_them() {
    use Occasion::*;
    let old = Timestamp::from_unix(2_000_000_000);
    for occasion in [Named, Forced, Closed, MakesWay, Pass] {
        let with = |bytes| RemovalFacts { occasion, now: old, ..with_work(|work| work.ignored = ignored(bytes, 5)) };
        let Verdict::Remove(removal) = verdict(&with(5)) else { panic!("{occasion:?}") };
        assert_eq!((removal.rescued, removal.keep_work, removal.because), (1, false, Because::Merged(merged())));
        let too_many = Keep::IgnoredFiles { bytes: 6, most: 5, largest: ".env".into() };
        assert_eq!(verdict(&with(6)), Verdict::Keep(vec![too_many]), "{occasion:?}");
    }
}

#[test]
fn proven_work_goes_with_its_branch() {
    let Verdict::Remove(removal) = verdict(&facts()) else { panic!() };
    assert!(removal.delete_branch);
    assert_eq!(removal.because, Because::Merged(merged()));
}

#[test]
fn unproven_work_keeps_its_branch() {
    let Verdict::Remove(removal) = verdict(&with_branch(true, None)) else { panic!() };
    assert!(!removal.delete_branch);
    assert_eq!(removal.because, Because::BranchKept);
}

#[test]
fn a_commit_is_activity_unless_it_comes_from_the_future() {
    let day = |day: i64| Timestamp::from_unix(day * 86_400);
    let class = |last_commit| {
        let branch = BranchFacts { last_commit, ..with_own_commits(true, None) };
        let mut facts = RemovalFacts { now: day(30), occasion: Occasion::Pass, ..facts() };
        facts.environment.last_activity_at = day(10);
        facts.branch = Probe::Known(branch);
        classify(&facts)
    };
    assert_eq!(class(None), Class::Stale);
    assert_eq!(class(Some(day(9))), Class::Stale);
    assert_eq!(class(Some(day(20))), Class::Active);
    assert_eq!(class(Some(day(31))), Class::Stale);
}

/// Seen from the clock as it is on each day, in this order.
#[test]
fn an_activity_later_than_the_clock_counts_as_of_when_that_was_seen() {
    let day = |day: i64| Timestamp::from_unix(day * 86_400);
    let mut facts = RemovalFacts { occasion: Occasion::Pass, ..with_branch(true, None) };
    facts.environment.last_activity_at = day(400);
    let mut look = |today: i64, run: Option<i64>| {
        facts.now = day(today);
        let class = classify(&facts);
        let known = facts.environment.metadata.dated_ahead;
        facts.environment.metadata.dated_ahead =
            dated_ahead(known, facts.environment.last_activity_at, run.map(day), facts.now);
        class
    };
    // A clock that was ahead.
    assert_eq!([look(100, None), look(113, Some(110)), look(123, Some(110))], [Class::Active; 3]);
    assert_eq!(look(124, Some(110)), Class::Stale);
    // One that goes back further, and is put right.
    assert_eq!([look(50, None), look(63, None)], [Class::Active; 2]);
    assert_eq!(look(64, None), Class::Stale);
    assert_eq!([look(401, None), look(410, None)], [Class::Active; 2], "by then it is no more ahead");
    assert_eq!(look(414, None), Class::Stale);
}

#[test]
fn what_would_be_stale_or_merged_but_for_a_reason_is_shown() {
    let day = |day: i64| Timestamp::from_unix(day * 86_400);
    let with = |merged: Option<MergeProof>, closed: bool, changed: u64| {
        let mut facts = with_work(|work| work.changed = changed);
        facts.branch = Probe::Known(with_own_commits(true, merged));
        facts.environment.last_activity_at = day(29);
        RemovalFacts { now: day(30), occasion: Occasion::Pass, threads_closed: closed, ..facts }
    };
    for (facts, class, about) in [
        (with(None, true, 1), Class::Active, Some(Class::Stale)),
        (with(None, true, 0), Class::Stale, Some(Class::Stale)),
        (with(Some(merged()), false, 1), Class::Active, Some(Class::Merged)),
        (with(Some(merged()), true, 0), Class::Merged, Some(Class::Merged)),
        (with(None, false, 1), Class::Active, None),
    ] {
        assert_eq!(classify(&facts), class);
        for one in [Class::Merged, Class::Stale] {
            assert_eq!(concerns(&facts, one), about == Some(one), "{one:?}: {facts:?}");
        }
    }
    let doubt = RemovalFacts { branch: Probe::Unknown("no".into()), ..with(None, false, 0) };
    assert!(concerns(&doubt, Class::Merged) && concerns(&doubt, Class::Stale));
}

#[test]
fn a_fresh_branch_is_not_merged() {
    let Verdict::Remove(removal) = verdict(&with_branch(false, Some(merged()))) else { panic!() };
    assert_eq!(removal.because, Because::NothingDone);
}

#[test]
fn a_persons_branch_is_never_deleted() {
    let mut facts = facts();
    facts.environment.metadata.foreign_branch = true;
    let Verdict::Remove(removal) = verdict(&facts) else { panic!() };
    assert!(!removal.delete_branch);
}

#[test]
fn every_reason_keeps_on_its_own() {
    let mut pinned = facts();
    pinned.environment.pinned = true;
    let cases = [
        (RemovalFacts { busy: true, ..facts() }, Keep::Busy),
        (pinned, Keep::Pinned),
        (RemovalFacts { open_conversations: vec![issue(9)], ..facts() }, Keep::StillUsedBy(issue(9))),
        (
            RemovalFacts { foreign_lock: Probe::Known(Some("demo".into())), ..facts() },
            Keep::LockedBySomeoneElse("demo".into()),
        ),
        (RemovalFacts { validity: Probe::Known(Validity::Broken), ..facts() }, Keep::Broken),
        (RemovalFacts { validity: Probe::Known(Validity::OwnRepository), ..facts() }, Keep::OwnRepository),
        (RemovalFacts { validity: Probe::Known(Validity::Foreign), ..facts() }, Keep::ForeignPath),
        (
            RemovalFacts { work: Probe::Unknown("unreadable".into()), ..facts() },
            Keep::CannotVerify("unreadable".into()),
        ),
        (RemovalFacts { branch: Probe::Unknown("no fetch".into()), ..facts() }, Keep::CannotVerify("no fetch".into())),
        (
            RemovalFacts { github_silent: Some("502".into()), ..with_branch(true, None) },
            Keep::GithubSilent("502".into()),
        ),
        (with_work(|w| w.changed = 1), Keep::UncommittedChanges { changed: 1, untracked: 0 }),
        (with_work(|w| w.untracked = 2), Keep::UncommittedChanges { changed: 0, untracked: 2 }),
        (with_work(|w| w.operation = Some("rebase".into())), Keep::OperationInProgress("rebase".into())),
        (with_work(|w| w.hidden_changes = true), Keep::HiddenChanges),
        (with_work(|w| w.submodules = vec!["sub".into()]), Keep::SubmoduleWork("sub".into())),
        (with_work(|w| w.nested = vec!["n".into()]), Keep::NestedRepository("n".into())),
        (with_work(|w| w.ignored = ignored(2, 1)), Keep::IgnoredFiles { bytes: 2, most: 1, largest: ".env".into() }),
        (with_work(|w| w.stashed = 1), Keep::Stashed(1)),
        (with_work(|w| w.on_branch = None), Keep::BranchDrift { recorded: branch(), actual: None }),
    ];
    for (facts, reason) in cases {
        assert_eq!(verdict(&facts), Verdict::Keep(vec![reason]));
    }
}

#[test]
fn what_force_passes_over_is_known_beside_what_it_does_not() {
    let both = with_work(|w| (w.untracked, w.nested) = (1, vec!["n".into()]));
    let uncommitted = Keep::UncommittedChanges { changed: 0, untracked: 1 };
    let forced = RemovalFacts { occasion: Occasion::Forced, ..both.clone() };
    assert_eq!(verdict(&forced), Verdict::Keep(vec![Keep::NestedRepository("n".into())]));
    assert_eq!(passed_over(&forced), std::slice::from_ref(&uncommitted));
    assert_eq!(verdict(&both), Verdict::Keep(vec![uncommitted, Keep::NestedRepository("n".into())]));
    assert_eq!(passed_over(&both), []);
}

/// BR-186
#[test]
fn what_was_transferred_stays_until_a_person_names_it() {
    let mut facts = RemovalFacts { now: Timestamp::from_unix(2_000_000_000), ..facts() };
    facts.environment.metadata.transferred_to = Some("acme/other#77".into());
    for occasion in [Occasion::Closed, Occasion::MakesWay, Occasion::Pass] {
        let facts = RemovalFacts { occasion, ..facts.clone() };
        assert_eq!(verdict(&facts), Verdict::Keep(vec![Keep::Transferred]));
        assert_eq!(classify(&facts), Class::Active);
    }
    assert!(matches!(verdict(&RemovalFacts { occasion: Occasion::Named, ..facts }), Verdict::Remove(_)));
}

#[test]
fn a_missing_worktree_is_a_ghost() {
    let facts = RemovalFacts {
        validity: Probe::Known(Validity::Missing),
        work: Probe::Unknown("gone".into()),
        branch: Probe::Unknown("gone".into()),
        ..facts()
    };
    assert_eq!(verdict(&facts), Verdict::Ghost);
    let pointed_to = RemovalFacts { open_conversations: vec![issue(7)], ..facts.clone() };
    let (mut pinned, mut transferred) = (facts.clone(), facts.clone());
    pinned.environment.pinned = true;
    transferred.environment.metadata.transferred_to = Some("octo/other".into());
    for facts in [pointed_to, pinned, transferred] {
        for occasion in [Occasion::Named, Occasion::Forced, Occasion::Closed, Occasion::MakesWay, Occasion::Pass] {
            assert_eq!(verdict(&RemovalFacts { occasion, ..facts.clone() }), Verdict::Ghost);
        }
    }
    let mut elsewhere = RemovalFacts { open_conversations: vec![issue(7)], ..facts.clone() };
    elsewhere.environment.metadata.adopted_from = Some(AdoptedFrom::Branch);
    elsewhere.environment.pinned = true;
    let kept = verdict(&RemovalFacts { occasion: Occasion::Pass, ..elsewhere });
    assert!(matches!(kept, Verdict::Keep(_)), "its disk may be away: {kept:?}");
    let busy = RemovalFacts { busy: true, ..facts };
    assert!(matches!(verdict(&busy), Verdict::Keep(_)));
}

#[test]
fn a_pass_leaves_recent_work_alone() {
    let recent = RemovalFacts { occasion: Occasion::Pass, ..with_branch(true, None) };
    assert_eq!(verdict(&recent), Verdict::Keep(vec![Keep::StillActive]));
    let old = RemovalFacts { now: Timestamp::from_unix(999_999 + 15 * 86_400), ..recent };
    assert!(matches!(verdict(&old), Verdict::Remove(_)));
    let used = RemovalFacts { open_conversations: vec![issue(7)], ..old };
    assert_eq!(verdict(&used), Verdict::Keep(vec![Keep::StillUsedBy(issue(7))]));
}

#[test]
fn a_pass_catches_up_with_a_thread_that_was_closed_before() {
    let closed = RemovalFacts { occasion: Occasion::Pass, threads_closed: true, ..with_branch(true, None) };
    let Verdict::Remove(removal) = verdict(&closed) else { panic!() };
    assert!(!removal.delete_branch);
}

#[test]
fn work_from_telegram_is_never_stale_and_never_taken_away_by_itself() {
    let mut old = RemovalFacts { occasion: Occasion::Pass, now: Timestamp::from_unix(2_000_000_000), ..facts() };
    old.environment.work = Work { kind: WorkKind::Thread, id: "abc".into() };
    assert!(matches!(verdict(&old), Verdict::Remove(_)));
    let mut begun_there = old.clone();
    begun_there.environment.metadata.created_by = Some(PlatformKind::Telegram);
    let used_there = RemovalFacts { held_on: vec![PlatformKind::Telegram], ..old.clone() };
    for facts in [begun_there, used_there] {
        assert_eq!(verdict(&facts), Verdict::Keep(vec![Keep::Persistent(PlatformKind::Telegram)]));
        assert_eq!(classify(&facts), Class::Active);
        assert!(matches!(verdict(&RemovalFacts { occasion: Occasion::Named, ..facts.clone() }), Verdict::Remove(_)));
        let gone = RemovalFacts { validity: Probe::Known(Validity::Missing), ..facts };
        assert_eq!(verdict(&gone), Verdict::Ghost);
    }
    let of_slack = RemovalFacts { held_on: vec![PlatformKind::Slack], ..old };
    assert!(matches!(verdict(&of_slack), Verdict::Remove(_)), "chats elsewhere go stale");
    let guest = RemovalFacts { held_on: vec![PlatformKind::Slack], ..facts() };
    assert_eq!(verdict(&guest), Verdict::Keep(vec![Keep::UsedOn(PlatformKind::Slack)]));
}

#[test]
fn only_a_person_takes_it_away_from_open_threads() {
    let used = |occasion| RemovalFacts { occasion, open_conversations: vec![issue(7)], ..facts() };
    assert!(matches!(verdict(&used(Occasion::Named)), Verdict::Remove(_)));
    for occasion in [Occasion::Closed, Occasion::MakesWay, Occasion::Pass] {
        assert_eq!(verdict(&used(occasion)), Verdict::Keep(vec![Keep::StillUsedBy(issue(7))]));
    }
}

prop_compose! {
    pub fn any_facts()(
        busy: bool, pinned: bool, others in 0..3i64, state in 0..4usize, changed in 0..3u64, untracked in 0..3u64,
        drift: bool, ignored: bool, own: bool, proven: bool, occasion in 0..4usize, threads_closed: bool,
        validity in 0..6usize, work_known: bool, branch_known: bool, locked: bool, foreign_branch: bool,
    ) -> RemovalFacts {
        let mut facts = facts();
        facts.busy = busy;
        facts.occasion = [Occasion::Named, Occasion::Closed, Occasion::Pass, Occasion::Forced][occasion];
        facts.threads_closed = threads_closed;
        facts.environment.pinned = pinned;
        facts.environment.metadata.foreign_branch = foreign_branch;
        facts.environment.state = EnvironmentState::ALL[state];
        facts.open_conversations = (0..others).map(issue).collect();
        facts.foreign_lock = Probe::Known(locked.then(|| "x".to_owned()));
        facts.validity = [
            Probe::Known(Validity::Valid), Probe::Known(Validity::Missing), Probe::Known(Validity::Foreign),
            Probe::Known(Validity::Broken), Probe::Known(Validity::OwnRepository), Probe::Unknown("no".to_owned()),
        ][validity].clone();
        facts.work = if work_known {
            Probe::Known(WorkInProgress {
                on_branch: (!drift).then(branch), changed, untracked,
                ignored: if ignored { super::tests::ignored(1, 1) } else { Ignored::default() }, ..Default::default()
            })
        } else { Probe::Unknown("no".into()) };
        facts.branch = if branch_known {
            Probe::Known(with_own_commits(own, proven.then(merged)))
        } else { Probe::Unknown("no".into()) };
        facts
    }
}

proptest! {
    #[test]
    fn dirty_or_unknown_is_never_removed_but_by_force_into_the_trash(facts in any_facts()) {
        if let Verdict::Remove(removal) = verdict(&facts) {
            let work = facts.work.known().expect("known");
            let clean = work.changed == 0 && work.untracked == 0;
            prop_assert_eq!(removal.keep_work, !clean);
            prop_assert_eq!(removal.rescued, work.ignored.files);
            prop_assert!(clean || facts.occasion == Occasion::Forced);
            prop_assert_eq!(facts.validity, Probe::Known(Validity::Valid));
            prop_assert!(!facts.busy && !facts.environment.pinned);
        }
    }

    #[test]
    fn a_branch_with_unmerged_commits_is_never_deleted(facts in any_facts()) {
        if let Verdict::Remove(removal) = verdict(&facts) && removal.delete_branch {
            let branch = facts.branch.known().expect("known");
            prop_assert!(branch.merged.is_some() || !branch.has_own_commits);
        }
    }

    #[test]
    fn another_reason_to_keep_never_removes(facts in any_facts()) {
        if let Verdict::Keep(_) = verdict(&facts) {
            let mut more = facts.clone();
            more.environment.pinned = true;
            prop_assert!(matches!(verdict(&more), Verdict::Keep(_)));
            let staged = RemovalFacts { mode: CodebaseMode::Staged, ..facts.clone() };
            prop_assert!(matches!(verdict(&staged), Verdict::Keep(_)));
            let busier = RemovalFacts { busy: true, ..facts };
            prop_assert!(matches!(verdict(&busier), Verdict::Keep(_)));
        }
    }

    #[test]
    fn where_the_bot_is_not_on_only_a_person_removes(facts in any_facts(), off: bool) {
        let mode = if off { CodebaseMode::Off } else { CodebaseMode::Staged };
        let there = RemovalFacts { mode, ..facts.clone() };
        match facts.occasion {
            Occasion::Named | Occasion::Forced => prop_assert_eq!(verdict(&there), verdict(&facts)),
            Occasion::Closed | Occasion::MakesWay | Occasion::Pass => {
                prop_assert!(!matches!(verdict(&there), Verdict::Remove(_)));
            }
        }
    }

    /// What is kept without a look at its files is so whatever they hold.
    #[test]
    fn files_are_only_ever_one_more_reason_to_keep(facts in any_facts()) {
        let nothing = Probe::Known(WorkInProgress::nothing(&facts.environment.branch));
        match classify(&RemovalFacts { work: nothing, ..facts.clone() }) {
            Class::Merged | Class::Stale => {}
            class @ (Class::Ghost | Class::Active) => prop_assert_eq!(classify(&facts), class),
        }
    }
}

#[test]
fn a_branch_that_only_followed_its_base_has_no_work_of_its_own() {
    let lineage = Lineage { ahead: 0, moved: false, began_ahead: false, base_stood_there: false, worked_on: false };
    assert_eq!(own_work(lineage), OwnWork::None);
    assert_eq!(own_work(Lineage { moved: true, base_stood_there: true, ..lineage }), OwnWork::IfMerged);
    let forwarded = Lineage { moved: true, base_stood_there: true, worked_on: true, ..lineage };
    assert_eq!(own_work(forwarded), OwnWork::Some, "the base was moved along to its work");
    assert_eq!(own_work(Lineage { moved: true, ..lineage }), OwnWork::Some, "merged by a merge commit");
    assert_eq!(own_work(Lineage { began_ahead: true, ..lineage }), OwnWork::Some, "it came with work");
    assert_eq!(own_work(Lineage { ahead: 1, ..lineage }), OwnWork::Some);
}

#[test]
fn without_a_look_at_the_remote_the_branch_stays() {
    let merged = MergeProof::Ancestor { base: BranchName::new("main").unwrap() };
    for (own, proof) in [(true, Some(merged)), (false, None)] {
        let seen = |fetched| match verdict(&RemovalFacts { fetched, ..with_branch(own, proof.clone()) }) {
            Verdict::Remove(removal) => removal.delete_branch,
            other => panic!("{other:?}"),
        };
        assert!(seen(true) && !seen(false), "{proof:?}");
    }
}
