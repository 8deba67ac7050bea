//! The disk: sizes that people see, caches that idle worktrees give up, and what a repository that takes too much is told.

use super::bad_input::Mount;
use super::commands::answered;
use crate::support::world::{ANN, REPO, World, git};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use treewarden::{model::*, orchestrator::sweep::Pass};

const MB: usize = 1_000_000;

fn filled(path: &Path, size: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![7; size]).unwrap();
}

/// What a build leaves: 6 MB in two caches, and things that only look like one.
fn built(worktree: &Path) {
    fs::write(worktree.join(".gitignore"), "*.log\ntarget/\nnode_modules/\nbuild/\n").unwrap();
    filled(&worktree.join("target/debug/out"), 4 * MB);
    fs::write(worktree.join("target/CACHEDIR.TAG"), "").unwrap();
    filled(&worktree.join("web/node_modules/a/index.js"), 2 * MB);
    std::os::unix::fs::symlink(worktree, worktree.join("web/node_modules/out")).unwrap();
    // Ignored and named so, but nobody knows by whom; no cache's name; somebody's repository; something that is tracked.
    filled(&worktree.join("plans/target/plan.txt"), 10);
    filled(&worktree.join("build/result"), 10);
    filled(&worktree.join("tool/node_modules/dep/.git/HEAD"), 10);
    filled(&worktree.join("kept/node_modules/patched.js"), 10);
    git(worktree, &["add", "-f", "kept/node_modules/patched.js"]);
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => pending.push(entry.path()),
                false => found.push(entry.path().strip_prefix(root).unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

fn notes(report: &CleanupReport) -> Vec<String> {
    report.lines.iter().flat_map(|line| line.notes.clone()).collect()
}

async fn dry_run(world: &World) -> CleanupReport {
    world.service.orchestrator.pass(&Pass::everywhere(Trigger::Panel, true, "ann")).await.unwrap()
}

async fn measured(world: &World, what: &str, wanted: impl Fn(u64) -> bool) -> DiskUse {
    let look = || async { world.environment().await.metadata.disk.filter(|used| wanted(used.bytes)) };
    world.until(what, look).await
}

/// BR-204
#[tokio::test]
async fn an_idle_worktree_gives_up_what_tools_make_again_and_nothing_else() {
    let world = World::with(&[("TREEWARDEN_RECLAIM_AFTER", "3d")]).await;
    let issue = world.worked_issue("add a greeting").await;
    let worktree = world.environment().await.path;
    built(&worktree);
    let (before, status) = (files(&worktree), git(&worktree, &["status", "--porcelain", "--ignored=no"]));
    assert!(notes(&world.pass().await).is_empty(), "it is not idle for long enough");
    measured(&world, "its size with the caches", |bytes| bytes > 6 * MB as u64).await;
    let list = answered(&world, issue, "/worktree list").await;
    assert!(list.contains(", 6.") && list.contains(" MB\n"), "{list}");

    world.days_pass(4);
    let would = notes(&dry_run(&world).await);
    let stays = "`tool/node_modules` stays: a repository lies in it, at dep";
    assert_eq!(would, ["would reclaim 6.0 MB of what tools make again: `target`, `web/node_modules`", stays]);
    assert_eq!(files(&worktree), before);
    // A person has a shell there.
    let mut shell = Command::new("sleep").arg("600").current_dir(&worktree).stdin(Stdio::null()).spawn().unwrap();
    let in_use = format!("its caches stay: process {} is at work in it", shell.id());
    assert_eq!((notes(&dry_run(&world).await), notes(&world.pass().await)), (vec![in_use.clone()], vec![in_use]));
    shell.kill().unwrap();
    shell.wait().unwrap();
    answered(&world, issue, "/worktree pin").await;
    world.days_pass(4);
    assert_eq!(notes(&world.pass().await), ["its caches stay: it is pinned"]);
    answered(&world, issue, "/worktree unpin").await;
    world.days_pass(4);
    assert_eq!(files(&worktree), before);

    let report = world.pass().await;
    assert_eq!(notes(&report), ["reclaimed 6.0 MB of what tools make again: `target`, `web/node_modules`", stays]);
    let gone = |path: &PathBuf| path.starts_with("target") || path.starts_with("web/node_modules");
    let left: Vec<_> = before.iter().filter(|path| !gone(path)).cloned().collect();
    assert_eq!(files(&worktree), left);
    assert_eq!(git(&worktree, &["status", "--porcelain", "--ignored=no"]), status);
    let small = measured(&world, "its size without them", |bytes| bytes < MB as u64).await;
    assert!(small.whole);
    let audit = world.store().list_audit(50).await.unwrap();
    let entry = audit.iter().find(|entry| entry.action == "environment.reclaimed").unwrap();
    assert_eq!((entry.actor.as_str(), entry.subject.as_str()), ("schedule", "octo/hello#issue-1"));
    let page = world.page("/cleanup").await;
    assert!(page.contains("reclaimed 6.0 MB of what tools make again: target"), "{page}");
    assert!(page.contains("; 6.0 MB of caches reclaimed"), "{page}");
    assert!(world.environment().await.metadata.reclaiming.is_none());
    assert_eq!(notes(&world.pass().await), [stays], "there is nothing more");
    let trash = world.home().join("trash");
    world.until("an empty trash", || async { (fs::read_dir(&trash).unwrap().count() == 0).then_some(()) }).await;
    world.ask(issue, "go on");
    world.settle().await;
    world.end().await;
}

/// By itself nothing is reclaimed.
#[tokio::test]
async fn caches_stay_where_nobody_asked_for_it() {
    let world = World::with(&[("DISK_SOFT_MARK", "2MB")]).await;
    world.worked_issue("add a greeting").await;
    let worktree = world.environment().await.path;
    built(&worktree);
    let before = files(&worktree);
    world.pass().await;
    measured(&world, "its size", |bytes| bytes > 6 * MB as u64).await;
    world.days_pass(10);
    assert!(notes(&world.pass().await).iter().all(|note| !note.contains("reclaim")));
    assert_eq!(files(&worktree), before);
    world.end().await;
}

/// Each state that a kill can leave.
#[tokio::test]
async fn a_reclaim_goes_on_where_it_was_killed() {
    let mut world = World::with(&[("TREEWARDEN_RECLAIM_AFTER", "3d")]).await;
    world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let worktree = environment.path.clone();
    let place = world.home().join("trash").join(format!("{}.cache-0", environment.id));
    let cache = worktree.join("target");
    for step in ["journalled", "moved", "wanted back", "somebody's", "released", "deleted"] {
        fs::write(worktree.join(".gitignore"), "*.log\ntarget/\n").unwrap();
        filled(&cache.join("out"), 10);
        fs::write(cache.join("CACHEDIR.TAG"), "").unwrap();
        let mut row = world.environment().await;
        let directories = vec![CacheDirectory { path: "target".to_owned(), frees: 4096 }];
        row.metadata.reclaiming = Some(PendingReclaim { directories, actor: "schedule".to_owned() });
        world.store().update_environment(&row).await.unwrap();
        let audited = world.store().list_audit(100).await.unwrap().len();
        match step {
            "journalled" => {}
            "released" => fs::rename(&cache, place.with_extension("cache-0.done")).unwrap(),
            "deleted" => fs::remove_dir_all(&cache).unwrap(),
            _ => fs::rename(&cache, &place).unwrap(),
        }
        if step == "wanted back" {
            // Somebody had it tracked at the last moment.
            let blob = git(&worktree, &["hash-object", "-w", "--no-filters", place.join("out").to_str().unwrap()]);
            git(&worktree, &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},target/out")]);
        }
        if step == "somebody's" {
            // Somebody made a repository in it at the last moment.
            filled(&place.join("own/.git/HEAD"), 10);
        }
        world = world.restart(|_| ()).await;
        assert!(world.environment().await.metadata.reclaiming.is_none(), "{step}");
        let stays = ["journalled", "wanted back", "somebody's"].contains(&step);
        assert_eq!(cache.join("out").exists(), stays, "{step}");
        assert_eq!(cache.join("own/.git/HEAD").exists(), step == "somebody's", "{step}");
        assert!(!place.exists(), "{step}");
        let new = world.store().list_audit(100).await.unwrap().len() - audited;
        assert_eq!(new, usize::from(step == "moved" || step == "released"), "{step}");
        if step == "wanted back" {
            git(&worktree, &["rm", "-q", "--cached", "target/out"]);
        }
    }
    let _ = fs::remove_file(worktree.join(".gitignore"));
    git(&worktree, &["checkout", "-q", "--", ".gitignore"]);
    world.end().await;
}

/// Those of `target` are in the trash, and its row says so.
async fn begun(world: &World) -> (Environment, PathBuf) {
    let mut row = world.environment().await;
    fs::write(row.path.join(".gitignore"), "*.log\ntarget/\n").unwrap();
    let place = world.home().join("trash").join(format!("{}.cache-0", row.id));
    filled(&place.join("out"), 10);
    let directories = vec![CacheDirectory { path: "target".to_owned(), frees: 4096 }];
    row.metadata.reclaiming = Some(PendingReclaim { directories, actor: "schedule".to_owned() });
    (world.store().update_environment(&row).await.unwrap(), place)
}

#[tokio::test]
async fn a_removal_brings_a_reclaim_to_its_end_first() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let (row, place) = begun(&world).await;
    // Git tracks something in it, and there is another one in its place.
    let blob = git(&row.path, &["hash-object", "-w", "--no-filters", place.join("out").to_str().unwrap()]);
    git(&row.path, &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},target/out")]);
    filled(&row.path.join("target/new"), 10);
    let refused = answered(&world, issue, "/worktree remove --force").await;
    assert!(refused.contains("one of its caches is half-way out") && refused.contains("Nothing is lost"), "{refused}");
    assert!(place.join("out").exists() && row.path.join("target/new").exists());
    assert!(world.environment().await.metadata.reclaiming.is_some());
    git(&row.path, &["rm", "-q", "--cached", "target/out"]);
    let removed = answered(&world, issue, "/worktree remove --force").await;
    assert!(removed.contains("🧹") && !row.path.exists(), "{removed}");
    assert!(!place.exists());
    let audit = world.store().list_audit(50).await.unwrap();
    assert!(audit.iter().any(|entry| entry.action == "environment.reclaimed"));
    world.end().await;
}

/// As after a restored database.
#[tokio::test]
async fn a_cache_in_the_trash_that_nothing_goes_on_with_is_told() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let (mut row, place) = begun(&world).await;
    row.metadata.reclaiming = None;
    world.store().update_environment(&row).await.unwrap();
    let told = format!("left over in the trash, at {}", place.canonicalize().unwrap().display());
    for report in [dry_run(&world).await, world.pass().await] {
        assert!(notes(&report).iter().any(|note| note.contains(&told)), "{report:?}");
    }
    git(&row.path, &["checkout", "-q", "--", ".gitignore"]);
    answered(&world, issue, "/worktree remove").await;
    let report = world.pass().await;
    let line = report.lines.last().unwrap();
    assert!(matches!(&line.result, ReportResult::Kept(why) if why[0].contains(&told)), "{report:?}");
    assert!(place.join("out").exists());
    fs::remove_dir_all(place).unwrap();
    world.end().await;
}

/// What the operator's copies brought, and what is mounted.
#[tokio::test]
async fn what_tools_do_not_make_again_stays() {
    let world = World::with(&[("TREEWARDEN_RECLAIM_AFTER", "3d")]).await;
    let kept = world.home().join("copy").join(REPO);
    filled(&kept.join(".venv/token"), 10);
    let settings = "copy: [.venv/token]\n";
    let files = [(REPO_SETTINGS_FILE, Some(settings)), (".gitignore", Some("*.log\n.venv/\nnode_modules/\ntarget/\n"))];
    world.standin.push_commit(REPO, ANN, "main", "Prepare", &files).await.unwrap();
    world.worked_issue("add a greeting").await;
    let worktree = world.environment().await.path;
    assert!(worktree.join(".venv/token").exists());
    filled(&worktree.join("target/CACHEDIR.TAG"), MB);
    let elsewhere = tempfile::tempdir().unwrap();
    filled(&elsewhere.path().join("precious"), 10);
    let place = worktree.join("node_modules");
    filled(&place.join("mine/a.js"), 10);
    let mount = Mount::of(elsewhere.path(), &place.join("mine"));
    world.days_pass(4);
    let told = notes(&world.pass().await);
    assert!(told[0].starts_with("reclaimed 1.0 MB of what tools make again: `target`"), "{told:?}");
    assert!(worktree.join(".venv/token").exists() && !worktree.join("target").exists());
    if mount.is_some() {
        assert_eq!(
            told[1..],
            [format!("`node_modules` stays: a file system is mounted in it, at {}", place.join("mine").display())]
        );
        assert!(place.join("mine/precious").exists());
    }
    drop(mount);
    world.end().await;
}

async fn passes(world: &World, trigger: Trigger) -> Vec<CleanupReport> {
    let mut reports = world.store().list_reports(100).await.unwrap();
    reports.retain(|report| report.trigger == trigger);
    reports
}

/// The run that brings a repository over its mark has a pass begun, once; caches go before their time.
#[tokio::test]
async fn over_the_soft_mark_cleanup_begins_by_itself() {
    let world = World::with(&[("DISK_SOFT_MARK", "5MB"), ("TREEWARDEN_RECLAIM_AFTER", "30d")]).await;
    let issue = world.worked_issue("add a greeting").await;
    let worktree = world.environment().await.path;
    fs::write(worktree.join(".gitignore"), "*.log\ntarget/\n").unwrap();
    git(&worktree, &["commit", "-qam", "Ignore"]);
    filled(&worktree.join("target/out"), 4 * MB);
    fs::write(worktree.join("target/CACHEDIR.TAG"), "").unwrap();
    filled(&worktree.join("large.log"), 7 * MB);
    world.ask(issue, "go on");
    world.settle().await;
    let began = || async { passes(&world, Trigger::Disk).await.pop() };
    let report = world.until("a pass because of the disk", began).await;
    let told = notes(&report);
    assert!(told[0].starts_with("reclaimed 4.0 MB of what tools make again: `target`"), "{told:?}");
    // The history is measured with the next pass only.
    let over = "its repository takes at least 7.";
    assert!(told[1].starts_with(over) && told[1].contains("more than the soft mark of 5.0 MB"), "{told:?}");
    assert!(!worktree.join("target").exists() && worktree.join("large.log").exists());
    // What has run is not promised any more.
    let passed = "more than the soft mark of 5.0 MB, also after the cleanup of ";
    let overview = || async { Some(world.page("/").await).filter(|page| page.contains(passed)) };
    world.until("the end of that pass", overview).await;
    let status = answered(&world, issue, "/status").await;
    assert!(status.contains(passed) && !status.contains("begins by itself"), "{status}");
    assert!(status.contains(" MB on disk as of "), "{status}");
    assert!(world.page("/").await.contains("more than the soft mark of 5.0 MB"));
    assert!(world.page("/environments").await.contains("7.") && world.page("/environments").await.contains(" MB"));
    // Still above it, no further pass begins by itself.
    let before = world.environment().await.metadata.disk.unwrap().at;
    world.ask(issue, "and on");
    world.settle().await;
    let again = || async { world.environment().await.metadata.disk.filter(|used| used.at > before) };
    world.until("the next measurement", again).await;
    assert_eq!(passes(&world, Trigger::Disk).await.len(), 1);
    world.end().await;
}

#[tokio::test]
async fn over_the_hard_mark_no_worktree_is_made_and_the_others_go_on() {
    let world = World::with(&[("DISK_HARD_MARK", "5MB")]).await;
    let issue = world.worked_issue("add a greeting").await;
    let worktree = world.environment().await.path;
    filled(&worktree.join("large.log"), 7 * MB);
    // Nobody has measured it: that keeps nobody from anything.
    let early = answered(&world, issue, "/worktree create early").await;
    assert!(early.contains("**task-early**"), "{early}");
    answered(&world, issue, "/worktree remove").await;
    answered(&world, issue, "/worktree link issue-1").await;
    world.ask(issue, "go on");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded, RunState::Succeeded]);
    measured(&world, "its size", |bytes| bytes > 7 * MB as u64).await;

    let second = world.issue();
    world.ask(second, "add a farewell");
    world.settle().await;
    let told = world.status(second);
    assert!(told.starts_with("❌") && told.contains("(hard mark reached)"), "{told}");
    assert!(told.contains("MB in **issue-1**") && told.contains("Nothing was created"), "{told}");
    let refused = answered(&world, second, "/worktree create spike").await;
    assert!(refused.contains("more than the 5.0 MB that it may (hard mark reached)"), "{refused}");
    assert_eq!(world.environments().await.len(), 1);
    // Who is there goes on.
    world.ask(issue, "and on");
    world.settle().await;
    assert_eq!(world.run_states().await.last(), Some(&RunState::Succeeded));
    // Somebody makes room by hand; who is refused has it measured.
    fs::remove_file(worktree.join("large.log")).unwrap();
    answered(&world, second, "/worktree create spike").await;
    measured(&world, "its new size", |bytes| bytes < MB as u64).await;
    let made = answered(&world, second, "/worktree create spike").await;
    assert!(made.contains("**task-spike**"), "{made}");
    world.time_passes(Duration::from_secs(1));
    world.end().await;
}

fn takes(bytes: usize) -> DiskUse {
    DiskUse { bytes: bytes as u64, whole: true, at: Timestamp::from_unix(1_780_000_000) }
}

/// Without a worktree to say it at.
#[tokio::test]
async fn a_report_says_that_a_repository_takes_much_whatever_is_in_it() {
    let world = World::with(&[("DISK_SOFT_MARK", "5MB")]).await;
    let issue = world.worked_issue("add a greeting").await;
    answered(&world, issue, "/worktree remove").await;
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    let used = takes(9 * MB);
    world.store().save_repository_use(codebase.id, used).await.unwrap();
    let report = world.pass().await;
    let [line] = &report.lines[..] else { panic!("{report:?}") };
    let told = "its repository takes 9.0 MB of disk, more than the soft mark of 5.0 MB";
    assert_eq!((line.environment, &line.result), (None, &ReportResult::Kept(vec![told.to_owned()])));
    world.end().await;
}

/// The removals of the pass make room, so that nobody's caches have to go.
#[tokio::test]
async fn a_dry_run_counts_what_would_be_removed() {
    let world = World::with(&[("DISK_SOFT_MARK", "5MB"), ("TREEWARDEN_RECLAIM_AFTER", "60d")]).await;
    world.worked_issue("add a greeting").await;
    world.worked_issue("add a farewell").await;
    let all_measured = || async {
        let live = world.environments().await;
        (live.len() == 2 && live.iter().all(|one| one.metadata.disk.is_some())).then_some(live)
    };
    let live = world.until("the sizes", all_measured).await;
    built(&live[1].path);
    for one in &live {
        world.store().remember_disk_use(one.id, takes(4 * MB)).await.unwrap();
    }
    world.days_pass(20);
    let foreseen = dry_run(&world).await;
    let done = world.pass().await;
    assert!(matches!(done.lines[0].result, ReportResult::Removed(_)), "{done:?}");
    let told =
        |report: &CleanupReport| report.lines.iter().map(|line| (line.environment, line.notes.clone())).collect();
    let (foreseen, done): (Vec<_>, Vec<_>) = (told(&foreseen), told(&done));
    assert_eq!(foreseen, done);
    assert!(done.iter().all(|(_, notes)| notes.is_empty()), "{done:?}");
    assert!(live[1].path.join("target").exists());
    world.end().await;
}

/// Like any other pass that nobody asked for.
#[tokio::test]
async fn over_the_soft_mark_nothing_begins_while_nothing_may_be_claimed() {
    let world = World::with(&[("DISK_SOFT_MARK", "5MB")]).await;
    world.worked_issue("add a greeting").await;
    filled(&world.environment().await.path.join("large.log"), 7 * MB);
    world.orchestrator().let_claim(false).await;
    world.pass().await;
    measured(&world, "its size", |bytes| bytes > 7 * MB as u64).await;
    // With the history, which is measured after it.
    let history = || async {
        let codebase = world.store().list_codebases().await.unwrap().remove(0);
        world.store().load_repository_use(codebase.id).await.unwrap()
    };
    world.until("the size of its history", history).await;
    world.orchestrator().let_claim(true).await;
    assert!(passes(&world, Trigger::Disk).await.is_empty());
    let began = || async {
        world.pass().await;
        passes(&world, Trigger::Disk).await.pop()
    };
    world.until("a pass because of the disk", began).await;
    world.end().await;
}
