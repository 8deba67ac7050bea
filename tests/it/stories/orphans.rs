//! What no environment has: taken away where it is proven to be over, and otherwise left alone until somebody decides.

use crate::support::world::{ANN, REPO, World, git};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use treewarden::{demo::github::MergeMethod, model::*, orchestrator::sweep::Pass};

const HOURS: Duration = Duration::from_secs(2 * 3600);

/// A world whose repository is here.
async fn with_repository() -> World {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(world.environments().await.is_empty());
    world
}

fn folder(world: &World) -> PathBuf {
    world.home().canonicalize().unwrap().join("worktrees/octo/hello")
}

/// A worktree at `place` on a new branch with a commit of its own, as a service left it whose database got lost.
async fn left_over(world: &World, place: &Path, branch: &str) {
    let canonical = world.canonical().await;
    let add = ["worktree", "add", "-q", "--lock", "--reason", "treewarden", "-b", branch, place.to_str().unwrap()];
    git(&canonical, &[&add[..], &["refs/remotes/origin/main"]].concat());
    fs::write(entry(place).join("treewarden-complete"), "").unwrap();
    fs::write(place.join(format!("{branch}.txt")), "left\n").unwrap();
    git(place, &["add", "."]);
    git(place, &["commit", "-q", "-m", "Left over"]);
}

/// Its registration.
fn entry(place: &Path) -> PathBuf {
    git(place, &["rev-parse", "--absolute-git-dir"]).into()
}

/// Somebody takes what is on the branch into `main` by other commits.
async fn merged_by_hand(world: &World, branch: &str) {
    let file = format!("{branch}.txt");
    world.standin.push_commit(REPO, ANN, "main", "Take it", &[(file.as_str(), Some("left\n"))]).await.unwrap();
}

/// What a pass said, by the names in it.
pub(super) fn said(report: &CleanupReport) -> BTreeMap<String, ReportResult> {
    report.lines.iter().map(|line| (line.branch.clone(), line.result.clone())).collect()
}

async fn dry_pass(world: &World) -> CleanupReport {
    world.service.orchestrator.pass(&Pass::everywhere(Trigger::Schedule, true, "schedule")).await.unwrap()
}

/// Every file below a directory, with what is in it.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Presses a button of the panel. Answers with the page that led to, as text.
pub(super) async fn press(world: &World, verb: &str, place: &str) -> String {
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let http_still = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let base = format!("http://{}", world.service.address);
    let link = world.service.login_link();
    let token = [("token", link.rsplit('=').next().unwrap())];
    let entered = http_still.post(format!("{base}/login/one-time")).form(&token).send().await.unwrap();
    let cookie = entered.headers()[reqwest::header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let form = [("codebase", codebase.id.to_string()), ("place", place.to_owned())];
    let request = http_still.post(format!("{base}/cleanup/orphans/{verb}")).header("Cookie", &cookie);
    let answer =
        request.header("Origin", &base).header("Sec-Fetch-Site", "same-origin").form(&form).send().await.unwrap();
    assert_eq!(answer.status(), 303, "{verb} {place}");
    let page = answer.headers()[reqwest::header::LOCATION].to_str().unwrap().to_owned();
    http.get(format!("{base}{page}")).header("Cookie", &cookie).send().await.unwrap().text().await.unwrap()
}

async fn audited(world: &World, action: &str) -> Vec<(String, String)> {
    let audit = world.store().list_audit(100).await.unwrap().into_iter();
    audit.filter(|entry| entry.action == action).map(|entry| (entry.actor, entry.subject)).collect()
}

#[tokio::test]
async fn one_that_is_merged_clean_and_old_goes_with_a_receipt_and_comes_back() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    // The row is closed while its worktree is there.
    let now = environment.created_at;
    world.store().destroy_environment(&environment, None, now).await.unwrap();
    world.merge(world.pull_of("issue-1").number, MergeMethod::Squash).await;
    let young = said(&world.pass().await);
    let ReportResult::Kept(why) = &young["issue-1"] else { panic!("{young:?}") };
    assert_eq!(why[1..], ["something happened in it within the last hour"]);
    assert!(environment.path.exists());

    world.time_passes(HOURS);
    let before = files(&environment.path);
    let (dry, audit) = (dry_pass(&world).await, world.store().list_audit(100).await.unwrap().len());
    assert_eq!(files(&environment.path), before);
    assert_eq!((world.all_environments().await.len(), world.store().list_audit(100).await.unwrap().len()), (1, audit));
    let real = world.pass().await;
    assert_eq!(said(&real), said(&dry), "a dry run says the same");
    assert_eq!(said(&real).len(), 1, "{real:?}");
    let ReportResult::Removed(why) = &real.lines[0].result else { panic!("{real:?}") };
    assert!(why.ends_with("; no environment had it any more"), "{why}");
    assert!(!environment.path.exists() && world.local_tip("issue-1").await.is_none());
    let receipt = world.store().receipt_of(real.lines[0].environment.unwrap()).await.unwrap().unwrap();
    assert!(receipt.details.branch_deleted && receipt.trigger == Trigger::Schedule, "{receipt:?}");
    assert!(world.answer(issue).contains("was removed"), "its thread is told: {}", world.answer(issue));
    assert!(world.pass().await.lines.is_empty());

    let other = world.issue();
    world.ask(other, "/worktree restore issue-1");
    world.settle().await;
    assert!(world.answer(other).contains("goes on in the worktree **issue-1**"), "{}", world.answer(other));
    let back = files(&environment.path);
    let content = |files: &BTreeMap<PathBuf, Vec<u8>>| {
        files
            .iter()
            .filter(|(path, _)| !path.ends_with(".git"))
            .map(|(a, b)| (a.clone(), b.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(content(&back), content(&before));
    world.end().await;
}

/// BR-041, BR-042, BR-052
#[tokio::test]
async fn everything_else_is_kept_with_its_reason_and_not_touched() {
    let world = with_repository().await;
    let folder = folder(&world);
    let place = |name: &str| folder.join(name);
    for name in ["merged", "dirty", "locked", "unmerged", "detached", "young", "in-use", "theirs"] {
        left_over(&world, &place(name), name).await;
        if name != "unmerged" {
            merged_by_hand(&world, name).await;
        }
    }
    fs::write(place("dirty").join("dirty.txt"), "edited\n").unwrap();
    git(&place("locked"), &["worktree", "unlock", place("locked").to_str().unwrap()]);
    git(&place("locked"), &["worktree", "lock", "--reason", "keep for demo", place("locked").to_str().unwrap()]);
    git(&place("theirs"), &["worktree", "unlock", place("theirs").to_str().unwrap()]);
    git(&place("detached"), &["switch", "-q", "--detach"]);
    // Around a live one, and inside of it.
    world.worked_issue("add a greeting").await;
    let live = world.environment().await;
    left_over(&world, &live.path.join("inside.log"), "inside").await;
    merged_by_hand(&world, "inside").await;
    // What git does not know, and what lies elsewhere.
    fs::create_dir(place("plain")).unwrap();
    fs::write(place("plain").join("precious.txt"), "precious\n").unwrap();
    let elsewhere = world.dir.path().canonicalize().unwrap().join("elsewhere");
    left_over(&world, &elsewhere, "elsewhere").await;
    merged_by_hand(&world, "elsewhere").await;
    world.time_passes(HOURS);
    let soon = std::time::SystemTime::now() + HOURS;
    fs::File::open(entry(&place("young")).join("HEAD")).unwrap().set_modified(soon).unwrap();
    let mut user = Command::new("sleep").arg("600").current_dir(place("in-use")).stdin(Stdio::null()).spawn().unwrap();

    let before =
        (files(&folder), files(&elsewhere), git(&world.canonical().await, &["worktree", "list", "--porcelain"]));
    let dry = said(&dry_pass(&world).await);
    let looked =
        (files(&folder), files(&elsewhere), git(&world.canonical().await, &["worktree", "list", "--porcelain"]));
    assert_eq!(looked, before);
    let real = said(&world.pass().await);
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(real, dry);
    let expected = [
        ("dirty", "uncommitted work: 1 changed file"),
        ("locked", "somebody else locked it: keep for demo"),
        ("unmerged", "nothing proves that its work is merged"),
        ("young", "something happened in it within the last hour"),
        ("in-use", "is at work in it"),
        ("theirs", "it lacks the marks of a worktree that was made here"),
        ("inside", "it lies inside another worktree, or around one"),
        ("plain", "git knows no worktree there"),
        ("detached", "its HEAD is on no branch"),
    ];
    for (name, why) in expected {
        let ReportResult::Kept(reasons) = &real[name] else { panic!("{name}: {:?}", real[name]) };
        assert!(reasons.iter().any(|reason| reason.contains(why)), "{name}: {reasons:?}");
    }
    assert!(matches!(real["merged"], ReportResult::Removed(_)), "{:?}", real["merged"]);
    assert!(!real.contains_key("elsewhere"), "it is not ours to speak of: {real:?}");
    assert!(!place("merged").exists());
    let mut left = before.0;
    left.retain(|path, _| !path.starts_with(place("merged")));
    assert_eq!((files(&folder), files(&elsewhere)), (left, before.1));

    let issue = world.issue();
    world.ask(issue, "/worktree orphans");
    world.settle().await;
    let answer = world.answer(issue);
    for (name, why) in expected.into_iter().filter(|(name, _)| !["in-use", "detached", "plain"].contains(name)) {
        let line = answer.lines().find(|line| line.starts_with(&format!("- `{name}` at"))).unwrap_or_default();
        assert!(line.contains("← untracked (orphan)") && line.contains(why), "{name}: {answer}");
    }
    assert!(answer.contains("outside of my directory ← untracked (somebody else's)"), "{answer}");
    assert!(!answer.contains(world.dir.path().to_str().unwrap()), "no path of the machine: {answer}");
    world.end().await;
}

/// BR-056: a fresh database on the same disk.
#[tokio::test]
async fn what_is_older_than_the_database_waits_for_a_person() {
    let world = with_repository().await;
    let place = folder(&world).join("older");
    left_over(&world, &place, "older").await;
    merged_by_hand(&world, "older").await;
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    let before: std::time::SystemTime = codebase.created_at.datetime().into();
    let mark = fs::File::open(entry(&place).join("treewarden-complete")).unwrap();
    mark.set_modified(before - Duration::from_secs(1)).unwrap();
    world.time_passes(HOURS);
    let report = said(&world.pass().await);
    let ReportResult::Kept(reasons) = &report["older"] else { panic!("{report:?}") };
    assert!(reasons.iter().any(|why| why.contains("older than what this database knows")), "{reasons:?}");
    let told = press(&world, "remove", "octo/hello/older").await;
    assert!(told.contains("The worktree was removed."), "{told}");
    assert!(!place.exists() && world.local_tip("older").await.is_some(), "whose branch it is, nobody knows");
    assert_eq!(audited(&world, "environment.removed").await[0].0, "operator");
    world.end().await;
}

#[tokio::test]
async fn people_adopt_one_and_go_on_in_it() {
    let world = with_repository().await;
    let (issue, folder) = (world.issue(), folder(&world));
    let branch = format!("issue-{issue}");
    left_over(&world, &folder.join("theirs"), &branch).await;
    git(&folder.join("theirs"), &["worktree", "unlock", folder.join("theirs").to_str().unwrap()]);
    left_over(&world, &folder.join("task"), "feature").await;
    fs::write(folder.join("theirs/begun.txt"), "begun\n").unwrap();
    let page = world.page("/cleanup").await;
    assert!(page.contains("2 on the disk without an environment"), "{page}");
    let page = world.page("/cleanup/orphans").await;
    assert!(page.contains("octo/hello/theirs") && page.contains("it lacks the marks"), "{page}");
    assert!(page.contains("Adopt") && page.contains("It can be removed once it is adopted."), "{page}");
    assert!(page.contains("It can be removed from ") && !page.contains("adopt or remove"), "{page}");

    // Somebody else's cannot be removed without being adopted.
    for verb in ["remove", "remove-by-force"] {
        let told = press(&world, verb, "octo/hello/theirs").await;
        assert!(told.contains("Nothing was changed.") && told.contains("lacks the marks"), "{told}");
    }
    for (place, work) in [("theirs", &branch), ("task", &"task-feature".to_owned())] {
        let told = press(&world, "adopt", &format!("octo/hello/{place}")).await;
        assert!(told.contains("It is an environment now.") && told.contains(work), "{told}");
        let live = world.environments().await;
        let made = live.iter().find(|made| made.work.to_string() == *work).unwrap();
        assert_eq!((&made.path, made.state), (&folder.join(place), EnvironmentState::Active));
        assert!(made.metadata.foreign_branch && made.metadata.adopted_from == Some(AdoptedFrom::Orphan));
    }
    assert_eq!(fs::read_to_string(folder.join("theirs/begun.txt")).unwrap(), "begun\n");
    let told = press(&world, "adopt", "octo/hello/theirs").await;
    assert!(told.contains("nothing by now that has no environment"), "a second press: {told}");
    let adopted = audited(&world, "environment.adopted").await;
    assert_eq!(adopted.len(), 2, "{adopted:?}");
    assert!(adopted.iter().all(|(actor, _)| actor == "operator"), "{adopted:?}");

    world.ask(issue, "add a greeting");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.remote_file(&branch, "begun.txt").await.as_deref(), Some("begun\n"));
    world.ask(issue, "/worktree link task-feature");
    world.settle().await;
    assert!(world.answer(issue).contains("**task-feature** on branch `feature`"), "{}", world.answer(issue));
    assert!(world.page("/cleanup").await.contains("Every worktree on the disk has its environment."));
    world.end().await;
}

#[tokio::test]
async fn people_remove_one_and_get_it_back() {
    let world = with_repository().await;
    let place = folder(&world).join("left");
    left_over(&world, &place, "left").await;
    let young = press(&world, "remove", "octo/hello/left").await;
    assert!(young.contains("within the last hour"), "{young}");
    world.time_passes(HOURS);
    fs::write(place.join("half.txt"), "half\n").unwrap();
    world.time_passes(HOURS);
    let dirty = press(&world, "remove", "octo/hello/left").await;
    assert!(dirty.contains("1 untracked file") && dirty.contains("Remove by force"), "{dirty}");
    assert!(world.all_environments().await.len() == 1, "no row is left of what did not begin");
    let told = press(&world, "remove-by-force", "octo/hello/left").await;
    assert!(told.contains("The worktree was removed.") && told.contains("What was not committed"), "{told}");
    assert!(!place.exists() && world.local_tip("left").await.is_some());
    let removed = world.store().list_receipts(1).await.unwrap().remove(0);
    world.service.orchestrator.restore(removed.environment, "operator").await.unwrap();
    assert_eq!(fs::read_to_string(place.join("half.txt")).unwrap(), "half\n");
    for place in ["octo/hello/none", "../../../etc", "/etc", ""] {
        assert!(press(&world, "remove-by-force", place).await.contains("Nothing was changed."), "{place}");
    }
    world.end().await;
}

/// BR-045: one registration at a time, and only where its place is in sight.
#[tokio::test]
async fn a_registration_of_ours_without_a_directory_is_taken_out_with_what_it_held_kept() {
    let world = with_repository().await;
    let (folder, canonical) = (folder(&world), world.canonical().await);
    for name in ["gone", "theirs"] {
        left_over(&world, &folder.join(name), name).await;
    }
    git(&folder.join("theirs"), &["worktree", "unlock", folder.join("theirs").to_str().unwrap()]);
    git(&folder.join("gone"), &["switch", "-q", "--detach"]);
    git(&folder.join("gone"), &["commit", "-q", "--allow-empty", "-m", "Only here"]);
    let only_here = git(&folder.join("gone"), &["rev-parse", "HEAD"]);
    for name in ["gone", "theirs"] {
        fs::remove_dir_all(folder.join(name)).unwrap();
    }
    world.time_passes(HOURS);
    // As a file system that is not mounted.
    fs::rename(&folder, folder.with_extension("away")).unwrap();
    let report = said(&world.pass().await);
    assert!(report.values().all(|result| matches!(result, ReportResult::Kept(_))), "{report:?}");
    fs::rename(folder.with_extension("away"), &folder).unwrap();
    let dry = said(&dry_pass(&world).await);
    let real = said(&world.pass().await);
    assert_eq!(real, dry);
    assert!(matches!(real["gone"], ReportResult::Removed(_)), "{real:?}");
    assert!(matches!(real["theirs"], ReportResult::Kept(_)), "{real:?}");
    let listed = git(&canonical, &["worktree", "list", "--porcelain"]);
    assert!(!listed.contains("/gone") && listed.contains("/theirs"), "{listed}");
    let holding = git(&canonical, &["for-each-ref", "--contains", &only_here]);
    assert!(!holding.is_empty(), "the commit that only it held");
    assert_eq!(audited(&world, "registration.removed").await.len(), 1);
    world.end().await;
}

#[tokio::test]
async fn a_start_closes_rows_whose_worktrees_are_gone_and_says_so() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    fs::remove_dir_all(&environment.path).unwrap();
    let reports = world.store().list_reports(10).await.unwrap().len();
    let world = world.restart(|_| ()).await;
    let report = world.until("the pass of the start", || async {
        let all = world.store().list_reports(10).await.unwrap();
        (all.len() > reports).then(|| all.into_iter().next().unwrap())
    });
    let report = report.await;
    let told = ReportResult::Removed("its worktree was gone already".to_owned());
    assert_eq!(said(&report), BTreeMap::from([("issue-1".to_owned(), told)]));
    assert!(world.environments().await.is_empty() && world.local_tip("issue-1").await.is_some());
    assert!(!git(&world.canonical().await, &["worktree", "list"]).contains("issue-1"));
    world.end().await;
}
