//! Canonical repositories: creation, fetch, push, refs and history, against the git program's own answers.

use crate::git_lab::{Lab, branch, known};
use std::{fs, path::Path};
use treewarden::demo::github::{Standin, StandinOptions};
use treewarden::git::{Content, Credential, Ends, FetchRequest, GitError, Merging, PushOutcome, Rejection};
use treewarden::model::*;

fn pull(number: u32) -> FetchRequest {
    let pair = (format!("refs/pull/{number}/head"), format!("refs/treewarden/pr/{number}"));
    FetchRequest { branches: false, extra: vec![pair] }
}

#[tokio::test]
async fn the_program_is_new_enough() {
    let version = Lab::new().git.version().await.unwrap();
    assert!(version.starts_with("2."), "{version}");
}

#[tokio::test]
async fn a_repository_is_made_once_and_its_configuration_put_back() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let config = repository.directory().join("config");
    let written = fs::read_to_string(&config).unwrap();
    assert_eq!(lab.run(repository.directory(), &["config", "core.bare"]), "true");
    assert_eq!(fs::read_dir(repository.directory().parent().unwrap()).unwrap().count(), 1);
    assert!(!repository.restore_config().await.unwrap());
    // BR-094: what a stray init does to the shared file, and the half of what a sparse checkout does.
    for (key, value) in [("core.bare", "false"), ("extensions.worktreeConfig", "true"), ("alias.x", "!touch pwn")] {
        lab.run(repository.directory(), &["config", key, value]);
        assert!(repository.restore_config().await.unwrap(), "{key}");
        assert_eq!(fs::read_to_string(&config).unwrap(), written);
    }
    // A link in its place would make us write elsewhere.
    let elsewhere = lab.path("elsewhere");
    fs::write(&elsewhere, "mine").unwrap();
    fs::remove_file(&config).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &config).unwrap();
    assert!(repository.restore_config().await.unwrap());
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "mine");
    // The next process learns the remote from the file.
    let other = treewarden::git::Git::new(treewarden::git::GitSettings {
        local_remotes: true,
        ..treewarden::git::GitSettings::new("git", lab.path("state"))
    });
    assert_eq!(
        other.unwrap().repository(repository.directory()).remote_head(None).await.unwrap(),
        Some(branch("main"))
    );
}

#[tokio::test]
async fn a_directory_with_something_else_in_it_is_left_alone() {
    let lab = Lab::new();
    let place = lab.path("repos/c.git");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("precious"), "p").unwrap();
    let repository = lab.git.repository(&place);
    assert!(repository.ensure(lab.path("r.git").to_str().unwrap()).await.is_err());
    assert_eq!(fs::read_to_string(place.join("precious")).unwrap(), "p");
}

#[tokio::test]
async fn an_empty_remote_has_no_head_until_the_first_push() {
    let lab = Lab::new();
    lab.run(&lab.root, &["init", "-q", "--bare", "e.git"]);
    let repository = lab.git.repository(lab.path("repos/e.git"));
    repository.ensure(lab.path("e.git").to_str().unwrap()).await.unwrap();
    assert_eq!(repository.remote_head(None).await.unwrap(), None);
    lab.fetch(&repository).await;
    lab.run(&lab.path("people"), &["push", "-q", lab.path("e.git").to_str().unwrap(), "main"]);
    assert_eq!(repository.remote_head(None).await.unwrap(), Some(branch("main")));
}

#[tokio::test]
async fn a_default_branch_of_any_name_is_found() {
    let lab = Lab::new();
    lab.run(&lab.path("people"), &["push", "-q", "origin", "main:trunk"]);
    lab.run(&lab.path("r.git"), &["symbolic-ref", "HEAD", "refs/heads/trunk"]);
    lab.run(&lab.path("people"), &["push", "-q", "origin", ":main"]);
    let repository = lab.repository().await;
    assert_eq!(repository.remote_head(None).await.unwrap(), Some(branch("trunk")));
    assert_eq!(repository.tip("refs/remotes/origin/main").await.unwrap(), None);
}

#[tokio::test]
async fn a_commit_that_is_not_here_is_told_from_a_no() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (main, nowhere) = (lab.main_tip(&repository).await, CommitSha::new(&"1".repeat(40)).unwrap());
    let missing = |error: GitError| matches!(error, GitError::NotFound(what) if what.contains("1111111"));
    assert!(missing(repository.is_ancestor(&nowhere, &main).await.unwrap_err()));
    assert!(missing(repository.is_ancestor(&main, &nowhere).await.unwrap_err()));
    assert!(missing(repository.ahead_behind(&nowhere, &main).await.unwrap_err()));
}

/// What a login page with status 200, or an empty body, looks like to git.
#[tokio::test]
async fn a_remote_that_suddenly_names_no_branch_is_not_believed() {
    let lab = Lab::new();
    lab.run(&lab.path("people"), &["push", "-q", "origin", "main:other"]);
    let repository = lab.repository().await;
    let before = lab.main_tip(&repository).await;
    fs::rename(lab.path("r.git"), lab.path("real.git")).unwrap();
    lab.run(&lab.path(""), &["init", "-q", "--bare", "r.git"]);
    let all = FetchRequest { branches: true, extra: vec![] };
    let answer = repository.fetch(&all, None).await;
    assert!(matches!(&answer, Err(GitError::Unreachable(why)) if why.contains("no branch at all")), "{answer:?}");
    assert_eq!(lab.main_tip(&repository).await, before);
    assert!(repository.tip("refs/remotes/origin/other").await.unwrap().is_some());

    fs::remove_dir_all(lab.path("r.git")).unwrap();
    fs::rename(lab.path("real.git"), lab.path("r.git")).unwrap();
    repository.fetch(&all, None).await.unwrap();
}

#[tokio::test]
async fn fetching_prunes_the_remote_s_branches_and_never_ours() {
    let lab = Lab::new();
    lab.run(&lab.path("people"), &["push", "-q", "origin", "main:gone"]);
    let repository = lab.repository().await;
    lab.worktree(&repository, "gone").await;
    lab.run(&lab.path("people"), &["push", "-q", "origin", ":gone"]);
    lab.fetch(&repository).await;
    assert_eq!(repository.tip("refs/remotes/origin/gone").await.unwrap(), None);
    assert!(repository.tip("refs/heads/gone").await.unwrap().is_some());
    assert!(!repository.directory().join("FETCH_HEAD").exists());
}

/// BR-086
#[tokio::test]
async fn pull_request_heads_have_refs_of_their_own_and_follow_forced_pushes() {
    let lab = Lab::new();
    let people = lab.path("people");
    let repository = lab.repository().await;
    let main = lab.main_tip(&repository).await;
    // BR-106, BR-107, BR-109, BR-111: a fork's head named main, rewritten later; the branch itself is nowhere.
    lab.run(&people, &["checkout", "-q", "--detach"]);
    let first = lab.commit(&people, "a", "1\n");
    lab.run(&people, &["push", "-q", "origin", "HEAD:refs/pull/7/head"]);
    repository.fetch(&pull(7), None).await.unwrap();
    assert_eq!(repository.tip("refs/treewarden/pr/7").await.unwrap(), Some(first));
    lab.run(&people, &["commit", "-q", "--amend", "-m", "rewritten"]);
    lab.run(&people, &["push", "-q", "-f", "origin", "HEAD:refs/pull/7/head"]);
    repository.fetch(&pull(7), None).await.unwrap();
    assert_eq!(repository.tip("refs/treewarden/pr/7").await.unwrap(), Some(lab.sha(&people, "HEAD")));
    assert_eq!(lab.main_tip(&repository).await, main);
    let missing = repository.fetch(&pull(8), None).await.unwrap_err();
    assert_eq!(missing, GitError::NotFound("refs/pull/8/head on the remote".into()));
}

#[tokio::test]
async fn waiting_fetches_are_merged_and_a_bad_one_fails_alone() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    for number in 1..=5 {
        lab.run(&lab.path("people"), &["push", "-q", "origin", &format!("main:refs/pull/{number}/head")]);
    }
    let requests: Vec<_> = (1..=6).map(pull).collect();
    let results = futures::future::join_all(requests.iter().map(|request| repository.fetch(request, None))).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 5);
    assert!(matches!(results[5], Err(GitError::NotFound(_))));
    for number in 1..=5 {
        assert!(repository.tip(&format!("refs/treewarden/pr/{number}")).await.unwrap().is_some());
    }
}

/// The first goes at once, and those that come while it is under way go together.
#[tokio::test]
async fn six_fetches_ask_the_remote_twice() {
    const REPO: &str = "octo/hello";
    let lab = Lab::new();
    let standin = Standin::start(StandinOptions::new(lab.path("github"))).await.unwrap();
    standin.create_repository(REPO, &[("README.md", "# hello\n")]).await.unwrap();
    let host = standin.url().split_once("://").unwrap().1.trim_end_matches('/').to_owned();
    let credential = Credential { host, token: standin.installation_token(REPO).unwrap().into() };
    let repository = lab.git.repository(lab.path("repos/hello.git"));
    repository.ensure(&standin.clone_url(REPO)).await.unwrap();

    let kept = |number: u32| format!("refs/treewarden/pr/{number}");
    let requests: Vec<_> = (1..=6)
        .map(|number| FetchRequest { branches: true, extra: vec![("refs/heads/main".to_owned(), kept(number))] })
        .collect();
    let fetches = requests.iter().map(|request| repository.fetch(request, Some(&credential)));
    for result in futures::future::join_all(fetches).await {
        result.unwrap();
    }
    let main = standin.branch_tip(REPO, "main").await.unwrap();
    for number in 1..=6 {
        assert_eq!(repository.tip(&kept(number)).await.unwrap().map(String::from), main, "{number}");
    }
    // Each is turned away once, before git shows the token.
    let answered = |path: &str, status| path.ends_with("/info/refs") && status == 200;
    let asked = standin.requests().into_iter().filter(|request| answered(&request.path, request.status));
    assert_eq!(asked.count(), 2);
    standin.stop();
}

#[tokio::test]
async fn a_dropped_fetch_does_not_strand_those_that_joined_it() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let new = lab.people_commit("n", "1\n");
    let request = FetchRequest { branches: true, extra: vec![] };
    let leader = tokio::time::timeout(std::time::Duration::ZERO, repository.fetch(&request, None));
    let (leader, follower) = tokio::join!(leader, repository.fetch(&request, None));
    assert!(leader.is_err());
    follower.unwrap();
    assert_eq!(lab.main_tip(&repository).await, new);
}

#[tokio::test]
async fn a_push_says_what_the_remote_did() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    let work = branch("b");
    let first = lab.commit(&path, "x", "1\n");
    assert_eq!(repository.push(&work, None).await.unwrap(), PushOutcome::Pushed(first.clone()));
    assert_eq!(repository.push(&work, None).await.unwrap(), PushOutcome::UpToDate(first.clone()));
    assert_eq!(repository.remote_branch(&work, None).await.unwrap(), Some(first));
    assert_eq!(repository.remote_branch(&branch("heads/b"), None).await.unwrap(), None);
    // Somebody else was faster.
    let people = lab.path("people");
    lab.run(&people, &["fetch", "-q", "origin"]);
    lab.run(&people, &["checkout", "-q", "b"]);
    let theirs = lab.people_commit("y", "theirs\n");
    lab.commit(&path, "x", "2\n");
    let outcome = repository.push(&work, None).await.unwrap();
    assert_eq!(outcome, PushOutcome::Rejected { reason: Rejection::NonFastForward });
    assert_eq!(repository.remote_branch(&work, None).await.unwrap(), Some(theirs));
    let missing = repository.push(&branch("none"), None).await;
    assert!(matches!(missing, Err(GitError::NotFound(_))), "{missing:?}");
}

#[tokio::test]
async fn a_refusal_of_the_remote_is_passed_on() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    lab.commit(&path, "x", "1\n");
    let hook = lab.path("r.git/hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho 'file x is too large' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let PushOutcome::Rejected { reason: Rejection::Other(words) } = repository.push(&branch("b"), None).await.unwrap()
    else {
        panic!("not rejected")
    };
    assert!(words.contains("pre-receive hook declined") && words.contains("file x is too large"), "{words}");
}

/// As the kernel does when memory is short.
#[tokio::test]
async fn a_git_that_was_killed_is_worth_another_try() {
    let lab = Lab::new();
    let program = lab.path("short-lived");
    fs::write(&program, "#!/bin/sh\nkill -9 $$\n").unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let git = treewarden::git::Git::new(treewarden::git::GitSettings::new(program, lab.path("short"))).unwrap();
    let error = git.version().await.unwrap_err();
    assert!(matches!(error, GitError::Killed { .. }) && error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn refs_move_by_compare_and_swap() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let one = lab.main_tip(&repository).await;
    let two = lab.people_commit("g", "2\n");
    lab.fetch(&repository).await;
    let name = "refs/treewarden/trash/x";
    assert!(repository.set_ref(name, &one, None).await.unwrap());
    assert!(repository.set_ref(name, &one, None).await.unwrap(), "repeating is fine");
    assert!(!repository.set_ref(name, &two, Some(&two)).await.unwrap());
    assert!(repository.set_ref(name, &two, Some(&one)).await.unwrap());
    let unknown = CommitSha::new(&"1".repeat(40)).unwrap();
    assert!(repository.set_ref(name, &unknown, Some(&two)).await.is_err());
    assert_eq!(repository.tip(name).await.unwrap(), Some(two));
}

#[tokio::test]
async fn a_branch_is_deleted_only_where_it_was_seen_and_never_under_a_worktree() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let main = lab.main_tip(&repository).await;
    let (path, _) = lab.worktree(&repository, "b").await;
    assert!(!repository.delete_branch(&branch("b"), &main).await.unwrap(), "checked out");
    let moved = lab.commit(&path, "x", "1\n");
    lab.run(&path, &["switch", "-q", "-c", "other"]);
    assert!(!repository.delete_branch(&branch("b"), &main).await.unwrap(), "moved");
    assert!(repository.delete_branch(&branch("b"), &moved).await.unwrap());
    assert!(repository.delete_branch(&branch("b"), &moved).await.unwrap(), "gone before");
}

/// Every merge situation of the cases, in one repository: (branch, adds nothing, net difference empty).
fn merged_in_all_ways(lab: &Lab) -> Vec<(&'static str, bool, bool)> {
    let people = lab.path("people");
    let run = |args: &[&str]| lab.run(&people, args);
    let begin = |name: &str| {
        run(&["checkout", "-q", "-b", name, "main"]);
    };
    let squash = |name: &str| {
        run(&["checkout", "-q", "main"]);
        run(&["merge", "-q", "--squash", name]);
        run(&["commit", "-qm", name]);
    };
    begin("squashed"); // BR-028
    lab.commit(&people, "s", "1\n");
    lab.commit(&people, "s", "2\n");
    squash("squashed");
    begin("rebased"); // BR-036
    lab.commit(&people, "r", "1\n");
    run(&["checkout", "-q", "main"]);
    lab.commit(&people, "o", "1\n");
    run(&["cherry-pick", "main..rebased"]);
    begin("cancelled"); // BR-038
    lab.commit(&people, "f", "try\n");
    run(&["revert", "--no-edit", "HEAD"]);
    begin("then-changed"); // BR-029: only GitHub knows
    lab.commit(&people, "t", "1\n");
    squash("then-changed");
    lab.commit(&people, "t", "another\n");
    begin("unmerged");
    lab.commit(&people, "u", "1\n");
    run(&["checkout", "-q", "main"]);
    run(&["push", "-q", "origin", "--all"]);
    vec![
        ("squashed", true, false),
        ("rebased", true, false),
        ("cancelled", true, true),
        ("then-changed", false, false),
        ("unmerged", false, false),
    ]
}

fn count_objects(directory: &Path) -> usize {
    let mut pending = vec![directory.to_owned()];
    let mut count = 0;
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { pending.push(path) } else { count += 1 }
        }
    }
    count
}

#[tokio::test]
async fn a_trial_merge_tells_squashed_work_and_writes_nothing() {
    let lab = Lab::new();
    let expected = merged_in_all_ways(&lab);
    let repository = lab.repository().await;
    let base = lab.main_tip(&repository).await;
    let objects = count_objects(&repository.directory().join("objects"));
    for (name, adds_nothing, net_empty) in expected {
        let tip = repository.tip(&branch(name).remote_ref()).await.unwrap().unwrap();
        assert_eq!(repository.merge_adds_nothing(&base, &tip).await.unwrap(), adds_nothing, "{name}");
        let ends = Ends { tip: tip.clone(), base: base.clone() };
        let standing = repository.standings(vec![ends.clone()]).await.unwrap()[&ends];
        assert_eq!(standing.merging == Merging::NothingToMerge, net_empty, "{name}");
        // What is told without a merge is never other than what the merge says.
        assert!(standing.merging != Merging::Changes || !adds_nothing, "{name}");
        assert_eq!(standing.ahead, repository.ahead_behind(&tip, &base).await.unwrap().0, "{name}");
    }
    assert_eq!(count_objects(&repository.directory().join("objects")), objects);
    assert_eq!(fs::read_dir(lab.path("state/scratch")).unwrap().count(), 0);
    let missing = CommitSha::new(&"1".repeat(40)).unwrap();
    assert!(repository.merge_adds_nothing(&base, &missing).await.is_err());
}

/// BR-102: what libgit2 answers is what git answers.
#[tokio::test]
async fn history_agrees_with_git() {
    let lab = Lab::new();
    merged_in_all_ways(&lab);
    let repository = lab.repository().await;
    let (people, base) = (lab.path("people"), lab.main_tip(&repository).await);
    let names = ["main", "squashed", "rebased", "cancelled", "then-changed", "unmerged"];
    for name in names {
        let tip = repository.tip(&branch(name).remote_ref()).await.unwrap().unwrap();
        assert_eq!(tip, lab.sha(&people, &format!("refs/heads/{name}")));
        let counts = lab.run(&people, &["rev-list", "--left-right", "--count", &format!("{tip}...{base}")]);
        let (ahead, behind) = repository.ahead_behind(&tip, &base).await.unwrap();
        assert_eq!(format!("{ahead}\t{behind}"), counts, "{name}");
        for (one, other) in [(&tip, &base), (&base, &tip)] {
            let git =
                lab.try_run(&people, &["merge-base", "--is-ancestor", one.as_str(), other.as_str()]).status.success();
            assert_eq!(repository.is_ancestor(one, other).await.unwrap(), git, "{name}");
        }
        let numstat = lab.run(&people, &["diff", "--numstat", &format!("{base}...{tip}")]);
        let stat = repository.diff_stat(&base, &tip).await.unwrap();
        let column = |number: usize| -> u64 {
            numstat.lines().map(|line| line.split('\t').nth(number).unwrap().parse::<u64>().unwrap()).sum()
        };
        let git = (numstat.lines().count() as u64, column(0), column(1));
        assert_eq!((stat.files, stat.insertions, stat.deletions), git, "{name}");
        let log = repository.log(&base, &tip, 10).await.unwrap();
        let ours: Vec<_> = log.iter().map(|commit| format!("{} {}", commit.sha, commit.subject)).collect();
        let theirs = lab.run(&people, &["log", "--topo-order", "--format=%H %s", &format!("{base}..{tip}")]);
        assert_eq!(ours.join("\n"), theirs, "{name}");
    }
}

/// Merging brings a branch's commits in beside the line; only following, or a fast-forward, puts the branch on it.
#[tokio::test]
async fn where_the_base_once_stood_is_no_work_of_a_branch() {
    let lab = Lab::new();
    let people = lab.path("people");
    let start = lab.sha(&people, "main");
    let followed = lab.people_commit("f", "2\n");
    lab.run(&people, &["switch", "-qc", "work"]);
    let work = lab.people_commit("w", "1\n");
    lab.run(&people, &["switch", "-q", "main"]);
    lab.people_commit("f", "3\n");
    lab.run(&people, &["merge", "-q", "--no-ff", "work"]);
    let tip = lab.people_commit("f", "4\n");
    let repository = lab.repository().await;
    for (commit, stood) in [(&start, true), (&followed, true), (&work, false), (&tip, true)] {
        assert_eq!(repository.stood_at(&tip, commit).await.unwrap(), stood, "{commit}");
    }
    assert!(!repository.stood_at(&followed, &tip).await.unwrap());
}

/// A merge of people's that the base is fast-forwarded to puts its former commits beside its first parents.
#[tokio::test]
async fn where_a_fetch_saw_the_base_it_once_stood() {
    let lab = Lab::new();
    let people = lab.path("people");
    let repository = lab.repository().await;
    let seen = lab.people_commit("f", "2\n");
    lab.run(&people, &["push", "-q", "origin", "main"]);
    lab.fetch(&repository).await;
    lab.run(&people, &["switch", "-qc", "feature", "HEAD~"]);
    lab.people_commit("w", "1\n");
    lab.run(&people, &["merge", "-q", "--no-ff", "-m", "Catch up", "main"]);
    lab.run(&people, &["push", "-q", "origin", "feature:main"]);
    lab.fetch(&repository).await;
    let tip = lab.main_tip(&repository).await;
    assert!(!repository.stood_at(&tip, &seen).await.unwrap());
    assert!(repository.was_fetched_at(&branch("main"), &seen).await.unwrap());
    let beside = lab.sha(&people, "feature~");
    assert!(!repository.was_fetched_at(&branch("main"), &beside).await.unwrap());
}

/// A whole life on a remote that keeps its refs, or its objects, in another way than most.
async fn lives_on(lab: &Lab, remote: &Path) {
    let repository = lab.git.repository(lab.path("repos/c.git"));
    repository.ensure(&format!("file://{}", remote.display())).await.unwrap();
    lab.fetch(&repository).await;
    let main = lab.main_tip(&repository).await;
    let (path, worktree) = lab.worktree(&repository, "issue-1").await;
    assert_eq!(worktree.head().await.unwrap().branch, Some(branch("issue-1")));
    lab.commit(&path, "f", "work\n");
    assert!(known(worktree.status().await).is_clean());
    let tip = lab.sha(&path, "HEAD");
    assert_eq!(repository.ahead_behind(&tip, &main).await.unwrap(), (1, 0));
    assert_eq!(repository.push(&branch("issue-1"), None).await.unwrap(), PushOutcome::Pushed(tip.clone()));
    assert_eq!(repository.remote_branch(&branch("issue-1"), None).await.unwrap(), Some(tip.clone()));
    assert_eq!(lab.sha(remote, "refs/heads/issue-1"), tip);
    assert_eq!(repository.tip("refs/remotes/origin/issue-1").await.unwrap(), Some(tip.clone()), "noted with the push");
    lab.run(remote, &["update-ref", "refs/heads/main", tip.as_str()]);
    lab.fetch(&repository).await;
    assert!(repository.is_ancestor(&tip, &lab.main_tip(&repository).await).await.unwrap());
    assert_eq!(repository.worktrees().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_remote_with_reftables_is_like_any_other() {
    let lab = Lab::new();
    let (from, to) = (lab.path("r.git"), lab.path("reftable.git"));
    let made = lab.try_run(&lab.root, &["init", "-q", "--bare", "--ref-format=reftable", "reftable.git"]);
    if !made.status.success() {
        eprintln!("left out: this git knows no reftables");
        return;
    }
    lab.run(&from, &["push", "-q", to.to_str().unwrap(), "main"]);
    // BR-092: ours is made with files even where reftables are the default.
    lives_on(&lab, &to).await;
}

#[tokio::test]
async fn a_remote_that_offers_to_leave_objects_out_is_fetched_whole() {
    let lab = Lab::new();
    for number in 2..5 {
        lab.people_commit("f", &format!("{number}\n"));
    }
    lab.run(&lab.path("r.git"), &["config", "uploadpack.allowFilter", "true"]);
    lives_on(&lab, &lab.path("r.git")).await;
    let missing = lab.run(&lab.path("repos/c.git"), &["rev-list", "--objects", "--all", "--missing=print"]);
    assert!(!missing.lines().any(|line| line.starts_with('?')), "{missing}");
}

#[tokio::test]
async fn a_remote_that_is_shallow_itself_is_not_taken_for_empty() {
    let lab = Lab::new();
    for number in 2..5 {
        lab.people_commit("f", &format!("{number}\n"));
    }
    let whole = format!("file://{}", lab.path("r.git").display());
    lab.run(&lab.root, &["clone", "-q", "--bare", "--depth", "1", &whole, "shallow.git"]);
    let repository = lab.git.repository(lab.path("repos/c.git"));
    repository.ensure(&format!("file://{}", lab.path("shallow.git").display())).await.unwrap();
    let fetched = repository.fetch(&FetchRequest { branches: true, extra: vec![] }, None).await;
    assert!(matches!(fetched, Err(GitError::Refused { reason }) if reason.contains("--unshallow")));
    lab.run(&lab.path("shallow.git"), &["fetch", "-q", "--unshallow", "origin"]);
    lives_on(&lab, &lab.path("shallow.git")).await;
}

#[tokio::test]
async fn shallow_history_is_a_doubt() {
    let lab = Lab::new();
    for number in 2..5 {
        lab.people_commit("f", &format!("{number}\n"));
    }
    let remote = format!("file://{}", lab.path("r.git").display());
    lab.run(&lab.root, &["clone", "-q", "--bare", "--depth", "1", &remote, "repos/s.git"]);
    let repository = lab.git.repository(lab.path("repos/s.git"));
    repository.ensure(&remote).await.unwrap();
    let tip = repository.tip("refs/heads/main").await.unwrap().unwrap();
    // BR-034
    assert!(matches!(repository.is_ancestor(&tip, &tip).await, Err(GitError::Refused { .. })));
    assert!(repository.merge_adds_nothing(&tip, &tip).await.is_err());
}

#[tokio::test]
async fn thirty_creations_at_once_all_succeed() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
    // BR-071, through handles of their own
    let adds = (0..30).map(|number| {
        let repository = lab.git.repository(lab.path("repos/../repos/c.git"));
        let (path, start) = (lab.path("worktrees").join(number.to_string()), &start);
        async move { repository.add_worktree(&path, &branch(&format!("b{number}")), start).await }
    });
    let results = futures::future::join_all(adds).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(repository.worktrees().await.unwrap().len(), 31);
}

#[tokio::test]
async fn locks_of_a_killed_git_do_not_block_for_ever() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let new = lab.people_commit("n", "1\n");
    let directory = repository.directory();
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    let lock = |name: &str| {
        let file = fs::File::create(directory.join(name)).unwrap();
        file.set_modified(past).unwrap();
    };
    lock("refs/remotes/origin/main.lock");
    lab.fetch(&repository).await;
    assert_eq!(lab.main_tip(&repository).await, new);
    let name = "refs/treewarden/trash/x";
    assert!(repository.set_ref(name, &new, None).await.unwrap());
    lab.run(directory, &["pack-refs", "--all"]);
    lock("packed-refs.lock");
    lab.run(&lab.path("people"), &["push", "-q", "origin", "main:gone"]);
    lab.fetch(&repository).await;
    let (_, worktree) = lab.worktree(&repository, "b").await;
    lock("worktrees/b/index.lock");
    let newer = lab.people_commit("n", "2\n");
    lab.fetch(&repository).await;
    worktree.fast_forward(&branch("b"), &newer).await.unwrap();
}

#[tokio::test]
async fn a_file_is_read_from_the_branch_as_fetched_and_from_nowhere_else() {
    let lab = Lab::new();
    let (people, path) = (lab.path("people"), ".github/treewarden.yml");
    let repository = lab.repository().await;
    let main = "refs/remotes/origin/main";
    assert_eq!(repository.file_at(main, path, 100).await.unwrap(), None);
    assert_eq!(repository.file_at("refs/remotes/origin/none", path, 100).await.unwrap(), None);
    assert_eq!(repository.file_at(main, "f/treewarden.yml", 100).await.unwrap(), None, "below a file");

    fs::create_dir(people.join(".github")).unwrap();
    lab.commit(&people, path, "base: dev\n");
    lab.run(&people, &["push", "-q", "origin", "main"]);
    assert_eq!(repository.file_at(main, path, 100).await.unwrap(), None, "not fetched yet");
    lab.fetch(&repository).await;
    let file = repository.file_at(main, path, 100).await.unwrap().unwrap();
    assert_eq!(file.content, Content::Bytes(b"base: dev\n".to_vec()));
    assert_eq!(file.id.to_string(), lab.run(&people, &["rev-parse", &format!("HEAD:{path}")]));
    let long = repository.file_at(main, path, 5).await.unwrap().unwrap();
    assert_eq!((long.id, long.content), (file.id, Content::TooLarge(10)));
    // In a worktree of ours the file may say anything.
    let (worktree, _) = lab.worktree(&repository, "issue-1").await;
    fs::write(worktree.join(path), "base: other\n").unwrap();
    assert_eq!(
        repository.file_at(main, path, 100).await.unwrap().unwrap().content,
        Content::Bytes(b"base: dev\n".into())
    );

    fs::remove_file(people.join(path)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", people.join(path)).unwrap();
    lab.run(&people, &["add", "."]);
    lab.run(&people, &["commit", "-qm", "a link"]);
    lab.run(&people, &["push", "-q", "origin", "main"]);
    lab.fetch(&repository).await;
    assert_eq!(repository.file_at(main, path, 100).await.unwrap().unwrap().content, Content::NoFile);
    assert_eq!(repository.file_at(main, ".github", 100).await.unwrap().unwrap().content, Content::NoFile);
}

/// A copy of a repository on this machine speaks with that one and no other, whatever the settings and files say.
#[tokio::test]
async fn a_copy_of_a_repository_here_speaks_with_that_one_only() {
    let lab = Lab::new();
    let people = lab.path("people");
    let git = treewarden::git::Git::new(treewarden::git::GitSettings::new("git", lab.path("strict"))).unwrap();
    assert_eq!(git.main_repository(&people).await.unwrap(), people.canonicalize().unwrap());
    assert!(
        git.main_repository(&lab.path("strict")).await.is_err() && git.main_repository(Path::new("/")).await.is_err()
    );
    let repository = git.repository_of(lab.path("copies/c.git"), &people);
    repository.ensure(people.to_str().unwrap()).await.unwrap();
    lab.fetch(&repository).await;
    assert_eq!(repository.remote_head(None).await.unwrap(), Some(branch("main")));
    for other in [lab.path("r.git").to_str().unwrap(), "https://github.com/octo/hello.git"] {
        assert!(repository.ensure(other).await.is_err(), "{other}");
    }
    // Somebody who reaches the file cannot send it elsewhere, nor let another handle read a path.
    lab.run(repository.directory(), &["config", "remote.origin.url", lab.path("r.git").to_str().unwrap()]);
    assert!(repository.restore_config().await.unwrap());
    assert_eq!(lab.run(repository.directory(), &["config", "remote.origin.url"]), people.display().to_string());
    let other = treewarden::git::Git::new(treewarden::git::GitSettings::new("git", lab.path("strict"))).unwrap();
    assert!(other.repository(repository.directory()).remote_head(None).await.is_err());

    // Nothing that it names is run: neither for the objects that it borrows, nor as a hook.
    let touched = lab.path("touched");
    lab.run(&people, &["config", "core.alternateRefsCommand", &format!("touch '{}';:", touched.display())]);
    let borrowed = format!("{}\n", lab.path("r.git/objects").display());
    std::fs::write(people.join(".git/objects/info/alternates"), borrowed).unwrap();
    // Never to what is checked out, in whichever worktree, and never over what is there.
    let tip = lab.main_tip(&repository).await;
    let (_, _worktree) = lab.worktree(&repository, "ours").await;
    assert_eq!(repository.push(&branch("ours"), None).await.unwrap(), PushOutcome::Pushed(tip.clone()));
    lab.run(&people, &["worktree", "add", "-q", lab.path("side").to_str().unwrap(), "ours"]);
    lab.commit(&lab.path("worktrees/ours"), "f", "ours\n");
    let checked_out = PushOutcome::Rejected { reason: Rejection::CheckedOut };
    lab.run(&people, &["config", "receive.denyCurrentBranch", "updateInstead"]);
    assert_eq!(repository.push(&branch("ours"), None).await.unwrap(), checked_out);
    lab.commit(&lab.path("side"), "f", "theirs\n");
    lab.run(&lab.path("side"), &["checkout", "-q", "--detach"]);
    lab.run(&people, &["config", "receive.denyNonFastForwards", "false"]);
    let behind = PushOutcome::Rejected { reason: Rejection::NonFastForward };
    assert_eq!(repository.push(&branch("ours"), None).await.unwrap(), behind);
    assert!(!touched.exists());

    // Nor through a name that stands for another branch.
    lab.run(&people, &["symbolic-ref", "refs/heads/master", "refs/heads/main"]);
    lab.fetch(&repository).await;
    lab.worktree(&repository, "master").await;
    lab.commit(&lab.path("worktrees/master"), "f", "through\n");
    let alias = PushOutcome::Rejected { reason: Rejection::NameOf("main".to_owned()) };
    assert_eq!(repository.push(&branch("master"), None).await.unwrap(), alias);
    assert_eq!(lab.sha(&people, "refs/heads/main"), tip);
}

/// All the ways in which people keep repositories, under names that a shell or an address would read otherwise.
#[tokio::test]
async fn a_repository_here_is_found_however_it_is_kept() {
    let lab = Lab::new();
    let people = lab.path("people");
    let git = treewarden::git::Git::new(treewarden::git::GitSettings::new("git", lab.path("strict"))).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let bare = lab.path("it's 50% #1/bare.git");
    lab.run(&people, &["clone", "-q", "--bare", ".", &text(&bare)]);
    let linked = lab.path("linked of bare");
    lab.run(&bare, &["worktree", "add", "-q", "-b", "side", &text(&linked)]);
    let around = lab.path("around");
    lab.run(&people, &["clone", "-q", "--bare", ".", &text(&around.join(".git"))]);
    lab.run(&around, &["worktree", "add", "-q", "-b", "side", &text(&around.join("side"))]);
    let apart = lab.path("apart");
    lab.run(&people, &["clone", "-q", "--separate-git-dir", &text(&lab.path("kept apart")), ".", &text(&apart)]);
    let found = [
        (bare.clone(), &bare),
        (linked.clone(), &bare),
        (around.clone(), &around),
        (around.join("side"), &around),
        (apart.clone(), &lab.path("kept apart")),
        (people.join(".git"), &people),
    ];
    for (path, wanted) in found {
        let main = git.main_repository(&path).await.unwrap();
        assert_eq!(main, wanted.canonicalize().unwrap(), "{}", path.display());
        let copy = git.repository_of(lab.path("copies").join(main.file_name().unwrap()), &main);
        copy.ensure(main.to_str().unwrap()).await.unwrap();
        lab.fetch(&copy).await;
        assert_eq!(copy.remote_head(None).await.unwrap(), Some(branch("main")), "{}", path.display());
    }
    let copy = git.repository_of(lab.path("copies/bare.git"), &bare.canonicalize().unwrap());
    let (_, _worktree) = lab.worktree(&copy, "ours").await;
    assert!(matches!(copy.push(&branch("ours"), None).await.unwrap(), PushOutcome::Pushed(_)));
    // Its refs are for the git program to read, where that is new enough.
    let tables = lab.path("tables");
    lab.run(&people, &["clone", "-q", ".", &text(&tables)]);
    match lab.try_run(&tables, &["refs", "migrate", "--ref-format=reftable"]).status.success() {
        true => {
            let linked = lab.path("linked of tables");
            lab.run(&tables, &["worktree", "add", "-q", "-b", "side", &text(&linked)]);
            for path in [&tables, &linked] {
                assert_eq!(git.main_repository(path).await.unwrap(), tables.canonicalize().unwrap());
            }
            let copy = git.repository_of(lab.path("copies/tables.git"), &tables);
            copy.ensure(tables.to_str().unwrap()).await.unwrap();
            lab.fetch(&copy).await;
            let (_, _worktree) = lab.worktree(&copy, "theirs").await;
            assert!(matches!(copy.push(&branch("theirs"), None).await.unwrap(), PushOutcome::Pushed(_)));
        }
        false => eprintln!("left out: this git knows no reftables"),
    }
    let odd = lab.path("line\nbreak");
    lab.run(&people, &["clone", "-q", ".", &text(&odd)]);
    assert!(git.main_repository(&odd).await.unwrap_err().to_string().contains("line break"));
}
