//! A pass over everything judges by what git and GitHub say: what became of each branch, and when somebody last worked on it.

use super::commands::answered;
use crate::support::{
    tree::tree,
    world::{ANN, REPO, World, git},
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use treewarden::{
    demo::github::{MergeMethod, OpenPull},
    model::*,
    orchestrator::sweep::Pass,
};

const STILL_ACTIVE: &str = "work goes on: it is neither merged nor stale";

/// A worktree of its own, made on request in a thread that goes on elsewhere afterwards.
async fn made(world: &World, thread: i64, words: &str) -> Environment {
    let branch = words.split(' ').next().unwrap();
    answered(world, thread, &format!("/worktree create {words}")).await;
    let made = world.environments().await.into_iter().find(|live| live.branch.as_str() == branch);
    made.unwrap_or_else(|| panic!("{words}: {}", world.answer(thread)))
}

/// A commit of Ann's that gives a file this text.
fn commit(path: &Path, file: &str, text: &str) {
    fs::write(path.join(file), text).unwrap();
    git(path, &["add", file]);
    git(path, &["commit", "-qm", &format!("{file} is {text:?}")]);
}

/// Ann pushes what the worktree has.
fn push(world: &World, environment: &Environment) {
    let remote = world.standin.git_dir(REPO).unwrap();
    let branch = environment.branch.full_ref();
    git(&environment.path, &["push", "-q", "-f", remote.to_str().unwrap(), &format!("HEAD:{branch}")]);
}

/// Ann's pull request for what the worktree has.
async fn pull(world: &World, environment: &Environment, base: &str) -> i64 {
    push(world, environment);
    let head = environment.branch.as_str();
    let open = OpenPull { title: "Work", body: "", head, base, ..OpenPull::default() };
    world.standin.open_pull(REPO, ANN, open).await.unwrap()
}

/// What people do to branches of the remote, in a clone of theirs that is on `main`.
fn people(world: &World) -> PathBuf {
    let (clone, remote) = (world.dir.path().join("people"), world.standin.git_dir(REPO).unwrap());
    if !clone.exists() {
        git(world.dir.path(), &["clone", "-q", remote.to_str().unwrap(), clone.to_str().unwrap()]);
    }
    git(&clone, &["fetch", "-q", "--prune"]);
    git(&clone, &["checkout", "-q", "-B", "main", "origin/main"]);
    clone
}

/// By branch, what a pass says.
fn results(report: CleanupReport) -> BTreeMap<String, ReportResult> {
    report.lines.into_iter().map(|line| (line.branch, line.result)).collect()
}

/// BR-016, BR-018, BR-028, BR-029, BR-030, BR-031, BR-036, BR-038, BR-039: what a pass finds merged goes with its branch, and
/// nothing else does. Nothing here moves a branch of the service's own repository but its fetches.
#[tokio::test]
async fn a_pass_removes_exactly_what_is_proven_to_be_merged() {
    const MERGED: &[(&str, &str)] = &[
        ("squash-one", "everything `squash-one` changes is in `main`"),
        ("squash-many", "everything `squash-many` changes is in `main`"),
        ("rebased", "everything `rebased` changes is in `main`"),
        ("merge-commit", "`merge-commit` is merged into `main`"),
        ("by-hand", "everything `by-hand` changes is in `main`"),
        ("into-dev", "`into-dev` is merged into `dev`"),
        ("moved-on", "merged exactly this commit of `moved-on`"),
    ];
    const KEPT: &[&str] = &["fresh", "closed", "reused", "went-on", "cancelled", "reverted", "elsewhere", "unpushed"];
    let world = World::new().await;
    world.standin.push_commit(REPO, ANN, "dev", "Dev", &[("dev.txt", Some("1\n"))]).await.unwrap();
    let thread = world.issue();
    let mut all = BTreeMap::new();
    for name in MERGED.iter().map(|(name, _)| *name).chain(KEPT.iter().copied()) {
        let words = if name == "into-dev" { format!("{name} --base dev") } else { name.to_owned() };
        let environment = made(&world, thread, &words).await;
        let file = format!("{name}.txt");
        if name != "fresh" {
            commit(&environment.path, &file, "1\n");
        }
        if name != "squash-one" && name != "fresh" {
            commit(&environment.path, &file, if name == "cancelled" { "" } else { "2\n" });
        }
        all.insert(name, environment);
    }
    git(&all["cancelled"].path, &["rm", "-q", "cancelled.txt"]);
    git(&all["cancelled"].path, &["commit", "-qm", "Take it back"]);
    for (name, base, method) in [
        ("squash-one", "main", MergeMethod::Squash),
        ("squash-many", "main", MergeMethod::Squash),
        ("rebased", "main", MergeMethod::Rebase),
        ("merge-commit", "main", MergeMethod::Merge),
        ("into-dev", "dev", MergeMethod::Merge),
        ("moved-on", "main", MergeMethod::Squash),
        ("reused", "main", MergeMethod::Squash),
        ("went-on", "main", MergeMethod::Squash),
        ("elsewhere", "dev", MergeMethod::Merge),
    ] {
        let pull = pull(&world, &all[name], base).await;
        world.merge(pull, method).await;
    }
    // Closed without a merge, and its branch deleted: `[gone]` proves nothing.
    let closed = pull(&world, &all["closed"], "main").await;
    world.standin.close(REPO, ANN, closed).unwrap();
    world.standin.delete_branch(REPO, ANN, "closed").await.unwrap();
    // The name has another story now, and a pull request that waits.
    git(&all["reused"].path, &["reset", "-q", "--hard", all["reused"].start.as_ref().unwrap().as_str()]);
    commit(&all["reused"].path, "another.txt", "1\n");
    pull(&world, &all["reused"], "main").await;
    commit(&all["went-on"].path, "later.txt", "1\n");
    push(&world, &all["by-hand"]);
    push(&world, &all["reverted"]);
    let clone = people(&world);
    for name in ["by-hand", "reverted"] {
        git(&clone, &["merge", "-q", "--squash", &format!("origin/{name}")]);
        git(&clone, &["commit", "-qm", name]);
    }
    git(&clone, &["revert", "--no-edit", "HEAD"]);
    // The same lines are other ones by now: only GitHub knows.
    commit(&clone, "moved-on.txt", "another\n");
    git(&clone, &["push", "-q", "origin", "main"]);
    world.settle().await;

    let tips: BTreeMap<_, _> = all.iter().map(|(name, one)| (*name, git(&one.path, &["rev-parse", "HEAD"]))).collect();
    let mut results = results(world.pass().await);
    world.settle().await;
    for (name, proof) in MERGED {
        let result = results.remove(*name);
        assert!(matches!(&result, Some(ReportResult::Removed(why)) if why.contains(proof)), "{name}: {result:?}");
        assert!(!all[name].path.exists() && world.local_tip(name).await.is_none(), "{name}");
        // Whatever becomes of the branch, its commits stay.
        let kept = git(&world.canonical().await, &["rev-parse", &format!("refs/treewarden/archive/{}", all[name].id)]);
        assert_eq!(kept, tips[name], "{name}");
    }
    for name in KEPT {
        let result = results.remove(*name);
        let still = ReportResult::Kept(vec![STILL_ACTIVE.to_owned()]);
        assert_eq!(result, Some(still), "{name}");
        assert_eq!(world.local_tip(name).await.as_ref(), Some(&tips[name]), "{name}");
        assert_eq!(git(&all[name].path, &["status", "--porcelain"]), "", "{name}");
    }
    assert!(results.is_empty(), "{results:?}");
    world.end().await;
}

/// Made at a time of their own, by the clock of whoever makes it.
fn commit_after(days: u64, path: &Path, file: &str) {
    fs::write(path.join(file), "later\n").unwrap();
    git(path, &["add", file]);
    let at = SystemTime::now() + Duration::from_secs(days * 24 * 3600);
    let at = format!("@{} +0000", at.duration_since(UNIX_EPOCH).unwrap().as_secs());
    let mut commit = Command::new("git");
    commit.current_dir(path).args(["-c", "user.name=Ann", "-c", "user.email=ann@localhost", "commit", "-qm", "Later"]);
    assert!(commit.env("GIT_AUTHOR_DATE", &at).env("GIT_COMMITTER_DATE", &at).status().unwrap().success());
}

/// BR-017, BR-021, BR-022, BR-058: the latest of the last message, the last run's end, the last commit anywhere on the branch, and the
/// creation counts; what is not committed keeps a worktree at any age; and looking is no activity.
#[tokio::test]
async fn only_what_people_and_runs_did_makes_a_worktree_young() {
    let world = World::new().await;
    let thread = world.issue();
    let mut all = BTreeMap::new();
    for name in ["left-alone", "deleted-there", "edited-below", "committed-to", "pushed-to"] {
        let environment = made(&world, thread, name).await;
        fs::create_dir(environment.path.join("below")).unwrap();
        commit(&environment.path, "below/work.txt", "1\n");
        push(&world, &environment);
        all.insert(name, environment);
    }
    let spoken_to = world.worked_issue("agent:noop").await;
    let spoken_to_branch = format!("issue-{spoken_to}");
    let tip = world.local_tip("deleted-there").await.unwrap();
    let below = all["edited-below"].path.join("below/work.txt");
    fs::write(&below, "edited\n").unwrap();
    for _ in 0..2 {
        world.days_pass(5);
        let report = world.pass().await;
        let kept = |line: &ReportLine| matches!(line.result, ReportResult::Kept(_));
        assert!(report.lines.len() == 6 && report.lines.iter().all(kept), "{report:?}");
    }
    // Ten days have passed. Somebody goes on with three of them, each in another way.
    commit_after(10, &all["committed-to"].path, "later.txt");
    let clone = people(&world);
    git(&clone, &["checkout", "-q", "pushed-to"]);
    commit_after(10, &clone, "later.txt");
    git(&clone, &["push", "-q", "origin", "pushed-to"]);
    world.ask(spoken_to, "agent:noop");
    world.settle().await;
    // Deleted elsewhere: what was known of it does not make its commits safe.
    git(&world.standin.git_dir(REPO).unwrap(), &["update-ref", "-d", "refs/heads/deleted-there"]);
    world.days_pass(5);
    let mut seen = results(world.pass().await);
    for name in ["left-alone", "deleted-there"] {
        let result = seen.remove(name);
        let kept = format!("every commit stays on `{name}`, which is kept");
        assert!(matches!(&result, Some(ReportResult::Removed(why)) if why.contains(&kept)), "{name}: {result:?}");
        assert!(!all[name].path.exists(), "{name}");
    }
    let dirty = ReportResult::Kept(vec!["uncommitted work: 1 changed file".to_owned()]);
    assert_eq!(seen.remove("edited-below"), Some(dirty.clone()));
    for name in ["committed-to", "pushed-to", &spoken_to_branch] {
        let result = seen.remove(name);
        assert_eq!(result, Some(ReportResult::Kept(vec![STILL_ACTIVE.to_owned()])), "{name}");
    }
    let canonical = world.canonical().await;
    assert_eq!(world.local_tip("deleted-there").await, Some(tip));
    assert_eq!(git(&canonical, &["for-each-ref", "refs/remotes/origin/deleted-there"]), "");

    world.days_pass(400);
    let mut seen = results(world.pass().await);
    assert_eq!(seen.remove("edited-below"), Some(dirty));
    assert!(seen.len() == 3 && seen.values().all(|result| matches!(result, ReportResult::Removed(_))), "{seen:?}");
    assert_eq!(fs::read_to_string(below).unwrap(), "edited\n");
    assert_eq!(world.environment().await.id, all["edited-below"].id);
    world.end().await;
}

/// BR-020: the stash is everybody's: what one worktree put there keeps that one, with its branch, and is never touched.
#[tokio::test]
async fn what_lies_in_the_stash_keeps_the_worktree_it_came_from() {
    let world = World::new().await;
    let thread = world.issue();
    let (stashed, other) = (made(&world, thread, "stashed").await, made(&world, thread, "other").await);
    fs::write(stashed.path.join("README.md"), "half done\n").unwrap();
    git(&stashed.path, &["stash", "-q"]);
    world.days_pass(15);
    let mut seen = results(world.pass().await);
    let kept = seen.remove("stashed");
    let why = "1 change of its branch in the repository's stash";
    assert!(
        matches!(&kept, Some(ReportResult::Kept(why_not)) if why_not.len() == 1 && why_not[0].starts_with(why)),
        "{kept:?}"
    );
    assert!(matches!(seen.remove("other"), Some(ReportResult::Removed(_))) && !other.path.exists());
    let refused = answered(&world, thread, "/worktree remove stashed").await;
    assert!(refused.contains(why) && refused.contains("Nothing was removed."), "{refused}");
    assert_eq!(git(&stashed.path, &["stash", "list"]).lines().count(), 1);
    git(&stashed.path, &["stash", "pop", "-q"]);
    assert_eq!(fs::read_to_string(stashed.path.join("README.md")).unwrap(), "half done\n");
    world.end().await;
}

/// BR-039: what a run did is merged work also where the base was moved forward to it by hand; what never did anything is not.
#[tokio::test]
async fn a_fast_forward_of_a_runs_work_is_a_merge_and_a_fresh_branch_is_none() {
    let world = World::new().await;
    let (done, fresh) = (world.worked_issue("add a greeting").await, world.worked_issue("agent:noop").await);
    let (done, fresh) = (format!("issue-{done}"), format!("issue-{fresh}"));
    let tip = world.remote_tip(&done).await.unwrap();
    git(&world.standin.git_dir(REPO).unwrap(), &["update-ref", "refs/heads/main", &tip]);
    let mut seen = results(world.pass().await);
    assert_eq!(seen.remove(&done), Some(ReportResult::Removed(format!("`{done}` is merged into `main`"))));
    assert_eq!(seen.remove(&fresh), Some(ReportResult::Kept(vec![STILL_ACTIVE.to_owned()])));
    assert_eq!((world.local_tip(&done).await, world.local_tip(&fresh).await.is_some()), (None, true));
    world.end().await;
}

/// It is never over, whatever became of it.
#[tokio::test]
async fn work_that_began_in_a_chat_is_kept_by_every_pass() {
    let world = World::new().await;
    let thread = world.issue();
    let mut chat = made(&world, thread, "chat").await;
    commit(&chat.path, "work.txt", "1\n");
    let pull = pull(&world, &chat, "main").await;
    chat.metadata.created_by = Some(PlatformKind::Telegram);
    let chat = world.store().update_environment(&chat).await.unwrap();
    world.merge(pull, MergeMethod::Squash).await;
    world.days_pass(400);
    let seen = results(world.pass().await);
    let why = "it belongs to a chat on Telegram, and such work is never over";
    assert_eq!(seen["chat"], ReportResult::Kept(vec![why.to_owned()]));
    assert!(chat.path.join("work.txt").exists());
    world.end().await;
}

/// Nothing goes because of a time that was none, and nothing stays for ever because of one.
#[tokio::test]
async fn a_clock_that_jumps_and_comes_back() {
    let world = World::new().await;
    let thread = world.issue();
    made(&world, thread, "before").await;
    let issue = world.worked_issue("add a greeting").await;
    let spoken_to = format!("issue-{issue}");
    let active = ReportResult::Kept(vec![STILL_ACTIVE.to_owned()]);
    let expect = async |name: &str, expected: &ReportResult| {
        assert_eq!(results(world.pass().await).get(name), Some(expected), "{name}");
    };
    world.days_pass(365);
    world.ask(issue, "agent:noop");
    world.settle().await;
    world.clock_goes_back(365);
    for name in ["before", &spoken_to] {
        expect(name, &active).await;
    }
    // Since then it is as if somebody had spoken now; and a run is an activity as ever.
    world.days_pass(10);
    world.ask(issue, "agent:noop");
    world.settle().await;
    expect(&spoken_to, &active).await;
    world.days_pass(10);
    let seen = results(world.pass().await);
    assert_eq!(seen[&spoken_to], active);
    assert!(matches!(seen["before"], ReportResult::Removed(_)), "{seen:?}");
    world.days_pass(5);
    let seen = results(world.pass().await);
    assert!(matches!(&seen[&spoken_to], ReportResult::Removed(why) if why.contains("which is kept")), "{seen:?}");
    world.end().await;
}

/// No time has passed where GitHub's clock says so.
#[tokio::test]
async fn a_clock_that_is_ahead_makes_nothing_stale() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let name = format!("issue-{issue}");
    let passed = async |github_ahead: i64| {
        world.standin.set_clock_ahead(github_ahead);
        // As every two minutes: its answer has its time.
        world.orchestrator().look_for_missed(Timestamp::new(chrono::Utc::now())).await.unwrap();
        results(world.pass().await).remove(&name).unwrap()
    };
    world.days_pass(20);
    assert_eq!(passed(-20 * 24 * 3600).await, ReportResult::Kept(vec![STILL_ACTIVE.to_owned()]));
    assert!(matches!(passed(0).await, ReportResult::Removed(_)));
    world.end().await;
}

/// A clock that is behind for a time, with people at work all the while.
#[tokio::test]
async fn a_clock_that_goes_back_and_is_put_right() {
    let world = World::new().await;
    world.days_pass(100);
    let issue = world.worked_issue("add a greeting").await;
    world.clock_goes_back(60);
    world.pass().await;
    world.days_pass(60);
    let active = ReportResult::Kept(vec![STILL_ACTIVE.to_owned()]);
    assert_eq!(results(world.pass().await)[&format!("issue-{issue}")], active);
    world.days_pass(15);
    let seen = results(world.pass().await);
    assert!(seen.values().all(|result| matches!(result, ReportResult::Removed(_))), "{seen:?}");
    world.end().await;
}

/// BR-001, BR-007, BR-008, BR-009, BR-010, BR-015, BR-026: at any age, whoever asks; and every look says the same.
#[tokio::test]
async fn what_is_nowhere_else_keeps_its_worktree() {
    const KEPT: &[(&str, &str)] = &[
        ("edited", "uncommitted work: 1 changed file"),
        ("untracked", "uncommitted work: 1 untracked file"),
        ("rebasing", "a rebase is in progress"),
        ("bisecting", "a bisect is in progress"),
        ("hidden", "edits hidden from git status"),
        ("drifted", "it was made for `drifted` but stands on `elsewhere`"),
        ("detached", "it was made for `detached` but its HEAD is detached"),
        ("submodule", "the submodule `sub` holds work of its own"),
        ("pinned", "it is pinned"),
    ];
    let world = World::new().await;
    let thread = world.issue();
    let mut all = BTreeMap::new();
    for (name, _) in KEPT {
        let environment = made(&world, thread, name).await;
        let path = &environment.path;
        assert_eq!(git(path, &["status", "--porcelain", "--ignored"]), "", "{name}");
        commit(path, "work.txt", "1\n");
        commit(path, "work.txt", "2\n");
        let write = |file: &str| fs::write(path.join(file), "precious\n").unwrap();
        match *name {
            "edited" => write("README.md"),
            "untracked" => {
                git(path, &["config", "status.showUntrackedFiles", "no"]);
                write("precious.txt");
            }
            "rebasing" => {
                let edit = "sequence.editor=sed -i 1abreak";
                git(path, &["-c", edit, "rebase", "-q", "-i", "HEAD~2"]);
            }
            "bisecting" => drop(git(path, &["bisect", "start"])),
            "hidden" => {
                git(path, &["update-index", "--skip-worktree", "README.md"]);
                write("README.md");
            }
            "drifted" => {
                git(path, &["switch", "-q", "-c", "elsewhere"]);
                commit(path, "more.txt", "1\n");
            }
            "detached" => {
                git(path, &["checkout", "-q", "--detach"]);
                commit(path, "more.txt", "1\n");
            }
            "submodule" => {
                let other = world.dir.path().join("other");
                git(world.dir.path(), &["init", "-q", other.to_str().unwrap()]);
                commit(&other, "s", "1\n");
                let add =
                    ["-c", "protocol.file.allow=always", "submodule", "-q", "add", other.to_str().unwrap(), "sub"];
                git(path, &add);
                git(path, &["commit", "-qm", "Use the other"]);
                git(&path.join("sub"), &["switch", "-q", "-c", "x"]);
                commit(&path.join("sub"), "z", "1\n");
                git(&path.join("sub"), &["checkout", "-q", "--detach", "HEAD~1"]);
            }
            _ => drop(world.service.orchestrator.set_pinned(environment.id, true, "ann").await.unwrap()),
        }
        all.insert(*name, environment);
    }
    world.days_pass(100);
    let before: Vec<_> = all.values().map(|one| tree(&one.path)).collect();
    let canonical = world.canonical().await;
    let state = || {
        let refs = git(&canonical, &["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/"]);
        (refs, git(&canonical, &["worktree", "list", "--porcelain"]))
    };
    let before = (before, state());
    let dry = results(world.service.orchestrator.pass(&Pass::everywhere(Trigger::Panel, true, "ann")).await.unwrap());
    let seen = results(world.pass().await);
    let stale = answered(&world, thread, "/worktree cleanup stale").await;
    for (name, why) in KEPT {
        let ReportResult::Kept(reasons) = &seen[*name] else { panic!("{name}: {:?}", seen[*name]) };
        assert!(reasons.iter().any(|reason| reason.starts_with(why)), "{name}: {reasons:?}");
        assert_eq!(dry[*name], seen[*name], "{name}");
        assert!(stale.contains(&format!("- `{name}` is kept: {}", reasons.join("; "))), "{name}: {stale}");
        let refused = answered(&world, thread, &format!("/worktree remove {name}")).await;
        assert!(refused.contains(why) && refused.contains("Nothing was removed."), "{name}: {refused}");
    }
    assert_eq!((all.values().map(|one| tree(&one.path)).collect::<Vec<_>>(), state()), before);
    world.end().await;
}

/// BR-059, BR-200: what a tool closed is opened and deleted, and nothing that a link leads to.
#[tokio::test]
async fn closed_directories_go_and_what_links_lead_to_stays() {
    let world = World::new().await;
    let thread = world.issue();
    let made = made(&world, thread, "built").await;
    commit(&made.path, ".gitignore", "target/\n");
    let shared = world.dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("keep"), "everybody's\n").unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    let closed = made.path.join("target/closed");
    fs::create_dir_all(&closed).unwrap();
    fs::write(closed.join("built"), "1\n").unwrap();
    symlink(&shared, closed.join("link")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    world.days_pass(15);
    let seen = results(world.pass().await);
    assert!(matches!(seen["built"], ReportResult::Removed(_)), "{seen:?}");
    let trash = world.home().join("trash");
    let empty = || async { (fs::read_dir(&trash).unwrap().count() == 0).then_some(()) };
    world.until("the trash to be emptied", empty).await;
    assert_eq!(fs::read_to_string(shared.join("keep")).unwrap(), "everybody's\n");
    assert_eq!(fs::metadata(&shared).unwrap().permissions().mode() & 0o777, 0o755);
    world.end().await;
}

/// BR-034: a history that was cut off is made whole before anything is judged by it.
#[tokio::test]
async fn a_history_that_was_cut_off_is_made_whole_first() {
    let world = World::new().await;
    let thread = world.issue();
    let (merged, open) = (made(&world, thread, "merged").await, made(&world, thread, "open").await);
    for environment in [&merged, &open] {
        commit(&environment.path, &format!("{}.txt", environment.branch), "1\n");
    }
    let pull = pull(&world, &merged, "main").await;
    world.merge(pull, MergeMethod::Squash).await;
    push(&world, &open);
    let shallow = world.canonical().await.join("shallow");
    let tips = [&merged, &open].map(|one| git(&one.path, &["rev-parse", "HEAD"]));
    fs::write(&shallow, format!("{}\n{}\n", tips[0], tips[1])).unwrap();
    let seen = results(world.pass().await);
    assert!(matches!(&seen["merged"], ReportResult::Removed(why) if why.contains("is in `main`")), "{seen:?}");
    assert_eq!(seen["open"], ReportResult::Kept(vec![STILL_ACTIVE.to_owned()]));
    assert!(!shallow.exists() && open.path.join("open.txt").exists());
    world.end().await;
}

/// BR-054: git spells the places behind a link in another way than whoever set the directory.
#[tokio::test]
async fn a_directory_behind_a_link_is_one_place() {
    let elsewhere = tempfile::tempdir().unwrap();
    let (real, link) = (elsewhere.path().join("real"), elsewhere.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let world = World::with(&[("WORKTREE_BASE", link.to_str().unwrap())]).await;
    let thread = world.issue();
    let (stale, named) = (made(&world, thread, "stale").await, made(&world, thread, "named").await);
    let known = answered(&world, thread, "/worktree orphans").await;
    assert!(known.contains("All of them are mine.") && !known.contains("untracked"), "{known}");
    let gone = answered(&world, thread, "/worktree remove named").await;
    assert!(gone.starts_with("🧹") && !named.path.exists(), "{gone}");
    world.days_pass(15);
    let seen = results(world.pass().await);
    assert!(matches!(seen["stale"], ReportResult::Removed(_)) && !stale.path.exists(), "{seen:?}");
    world.end().await;
}
