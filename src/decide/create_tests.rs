//! Every combination of branches that are there and commits that are pinned.

use super::*;
use proptest::prelude::*;
use uuid::Uuid;

fn sha(digit: char) -> CommitSha {
    CommitSha::new(&digit.to_string().repeat(40)).unwrap()
}

fn place(kind: WorkKind, origin: Origin) -> Place {
    let (branch, base) = (BranchName::new("issue-1").unwrap(), BranchName::new("main").unwrap());
    Place {
        work: Work { kind, id: "1".into() },
        branch,
        base,
        origin,
        links: Vec::new(),
        not_shared: None,
        instead_of: None,
    }
}

#[test]
fn a_branch_of_our_own_making_is_not_foreign_and_any_other_may_be() {
    let (remote, here) =
        (Tips { remote: Some(sha('a')), ..Tips::default() }, Tips { here: Some(sha('a')), ..Tips::default() });
    let own = place(WorkKind::Issue, Origin::Base);
    assert!(!is_foreign(&own, false, &remote));
    assert!(is_foreign(&own, true, &remote), "an adopted one");
    let head = place(WorkKind::PullRequest, Origin::PullHead);
    assert!(is_foreign(&head, false, &remote));
    assert!(!is_foreign(&head, false, &here), "nobody else has it");
    let named = place(WorkKind::Task, Origin::Base);
    assert!(is_foreign(&named, false, &remote) && is_foreign(&named, false, &here));
    assert!(!is_foreign(&named, false, &Tips::default()));
}

#[test]
fn a_forks_kept_branch_becomes_nobody_elses() {
    let kept = Tips { here: Some(sha('a')), from_fork: true, ..Tips::default() };
    let branch = BranchName::new("issue-1").unwrap();
    let pinned = EnvironmentMetadata { fork_head: Some(sha('a')), ..EnvironmentMetadata::default() };
    assert_eq!(check(&branch, &pinned, &kept), Ok(()));
    let other = EnvironmentMetadata::default();
    assert_eq!(check(&branch, &other, &kept), Err(Block::ForkBranch(branch.clone())));
    assert_eq!(check(&branch, &other, &Tips { here: None, ..kept.clone() }), Ok(()), "nothing is left of it");
    assert_eq!(check(&branch, &other, &Tips { from_fork: false, ..kept }), Ok(()));
}

#[test]
fn only_the_base_or_the_branch_itself_starts_ordinary_work() {
    let plain = EnvironmentMetadata::default();
    let base = Tips { base: Some(sha('b')), ..Tips::default() };
    let kind = |metadata: &EnvironmentMetadata, tips: &Tips| start(metadata, tips).map(|start| start.kind);
    assert_eq!(kind(&plain, &base), Some(StartKind::Fresh));
    assert_eq!(kind(&plain, &Tips::default()), None);
    assert_eq!(kind(&plain, &Tips { remote: Some(sha('c')), ..base.clone() }), Some(StartKind::Continued));
    assert_eq!(
        kind(&plain, &Tips { here: Some(sha('b')), ..base.clone() }),
        Some(StartKind::Fresh),
        "made before a crash"
    );
    let there = Tips { here: Some(sha('b')), remote: Some(sha('b')), ..base.clone() };
    assert_eq!(kind(&plain, &there), Some(StartKind::Continued));
    let fork = EnvironmentMetadata { fork_head: Some(sha('d')), ..plain.clone() };
    let begun = start(&fork, &Tips { remote: Some(sha('c')), ..base.clone() }).unwrap();
    assert_eq!(
        (begun.tip, begun.kind),
        (sha('d'), StartKind::Pinned),
        "a fork's commit, not a branch of the same name"
    );
    assert_eq!(kind(&fork, &Tips { here: Some(sha('c')), ..base.clone() }), Some(StartKind::Continued), "an older one");
    let lost = EnvironmentMetadata { lost_head: Some(sha('e')), ..plain };
    assert_eq!(kind(&lost, &base), Some(StartKind::Pinned));
    assert_eq!(kind(&lost, &Tips { here: Some(sha('f')), ..base }), Some(StartKind::Continued), "it went on since");
}

/// It was deleted with the worktree, and is made anew where it stood.
#[test]
fn a_branch_that_comes_back_is_where_it_was() {
    let restores =
        Restores { environment: EnvironmentId(Uuid::nil()), keepsake: None, tip: Some(sha('f')), whole: false };
    let back = EnvironmentMetadata { restores: Some(restores), ..EnvironmentMetadata::default() };
    let gone = Tips { remote: Some(sha('c')), base: Some(sha('b')), ..Tips::default() };
    let begun = start(&back, &gone).unwrap();
    assert_eq!(
        (begun.from, begun.tip, begun.kind),
        (WorktreeStart::NewBranch(sha('f')), sha('f'), StartKind::Continued)
    );
    let kept = start(&back, &Tips { here: Some(sha('a')), ..gone.clone() }).unwrap();
    assert_eq!((kept.from, kept.tip), (WorktreeStart::Existing, sha('a')), "it went on since");
    let fork = EnvironmentMetadata { fork_head: Some(sha('d')), ..back };
    let marked = Tips { from_fork: true, ..gone.clone() };
    assert!(!start(&fork, &marked).unwrap().forks, "our own work is not the fork's");
    assert!(start(&EnvironmentMetadata { restores: None, ..fork }, &marked).unwrap().forks);
}

#[test]
fn a_fork_gets_no_files_of_the_operator_and_no_addresses_of_its_own() {
    let settings = RepoSettings { submodules: true, lfs: true, ..RepoSettings::default() };
    let main = BranchName::new("main").unwrap();
    let all = CheckoutNeeds::ALL;
    let own = Extras { submodules: SubmodulePolicy::All, lfs: true, copies: true };
    assert_eq!(extras(&settings, false, Some(&main), all), own);
    let of_base = SubmodulePolicy::AsIn("refs/remotes/origin/main".into());
    let forks = Extras { submodules: of_base, lfs: true, copies: false };
    assert_eq!(extras(&settings, true, Some(&main), all), forks);
    assert_eq!(extras(&settings, true, None, all).submodules, SubmodulePolicy::Leave, "nobody vouches for an address");
}

#[test]
fn nothing_is_fetched_that_is_not_needed_or_not_wanted() {
    let wanted = RepoSettings { submodules: true, lfs: true, ..RepoSettings::default() };
    let unwanted = RepoSettings { submodules: false, lfs: false, ..RepoSettings::default() };
    let main = BranchName::new("main").unwrap();
    for from_fork in [false, true] {
        let of = |settings, needs| extras(settings, from_fork, Some(&main), needs);
        for nothing in [of(&wanted, CheckoutNeeds::NONE), of(&unwanted, CheckoutNeeds::ALL)] {
            assert_eq!((&nothing.submodules, nothing.lfs), (&SubmodulePolicy::Leave, false));
            assert!(!nothing.has_to_fetch());
        }
        let only_lfs = of(&wanted, CheckoutNeeds { lfs: true, ..CheckoutNeeds::NONE });
        assert_eq!((&only_lfs.submodules, only_lfs.lfs), (&SubmodulePolicy::Leave, true));
        let only_submodules = of(&wanted, CheckoutNeeds { submodules: true, ..CheckoutNeeds::NONE });
        assert!(only_submodules.submodules != SubmodulePolicy::Leave && !only_submodules.lfs);
        assert!(only_lfs.has_to_fetch() && only_submodules.has_to_fetch());
    }
}

proptest! {
    #[test]
    fn a_branch_that_is_here_is_never_reset(remote in any::<bool>(), base in any::<bool>(), fork in any::<bool>(), lost in any::<bool>()) {
        let metadata = EnvironmentMetadata {
            fork_head: fork.then(|| sha('d')),
            lost_head: lost.then(|| sha('e')),
            ..EnvironmentMetadata::default()
        };
        let tips = Tips { here: Some(sha('a')), remote: remote.then(|| sha('c')), base: base.then(|| sha('b')), from_fork: false };
        let start = start(&metadata, &tips).unwrap();
        prop_assert_eq!((start.from, start.tip), (WorktreeStart::Existing, sha('a')));
    }
}

#[test]
fn a_base_changes_only_when_it_is_no_longer_the_right_one() {
    let name = |name: &str| BranchName::new(name).unwrap();
    let (main, trunk, release) = (name("main"), name("trunk"), name("release"));
    let facts = |recorded, exists, pull, named| {
        let facts = BaseFacts { recorded, recorded_exists: exists, pull, named, default: Some(&trunk) };
        other_base(&facts).cloned()
    };
    assert_eq!(facts(Some(&main), true, None, None), None);
    assert_eq!(facts(Some(&main), true, None, Some(&release)), None, "work goes on from what it began on");
    assert_eq!(facts(Some(&main), true, Some(&main), None), None);
    assert_eq!(facts(Some(&main), true, Some(&release), None), Some(release.clone()), "retargeted");
    assert_eq!(facts(Some(&main), false, None, None), Some(trunk.clone()), "renamed");
    assert_eq!(facts(Some(&main), false, None, Some(&release)), Some(release.clone()));
    assert_eq!(facts(Some(&trunk), false, None, None), None, "there is no other one");
    assert_eq!(facts(None, false, None, None), Some(trunk.clone()), "imported");
}
