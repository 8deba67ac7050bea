//! The disk: sizes that people see, caches that idle worktrees give up, and what a repository that takes too much is told.

use super::commands::answered;
use crate::support::world::{World, git};
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
    assert_eq!(would, ["would reclaim 6.0 MB of what tools make again: `target`, `web/node_modules`"]);
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
    assert_eq!(notes(&report), ["reclaimed 6.0 MB of what tools make again: `target`, `web/node_modules`"]);
    let gone = |path: &PathBuf| path.starts_with("target") || path.starts_with("web/node_modules");
    let left: Vec<_> = before.iter().filter(|path| !gone(path)).cloned().collect();
    assert_eq!(files(&worktree), left);
    assert_eq!(git(&worktree, &["status", "--porcelain", "--ignored=no"]), status);
    let small = measured(&world, "its size without them", |bytes| bytes < MB as u64).await;
    assert!(small.whole);
    let audit = world.store().list_audit(50).await.unwrap();
    let entry = audit.iter().find(|entry| entry.action == "environment.reclaimed").unwrap();
    assert_eq!((entry.actor.as_str(), entry.subject.as_str()), ("schedule", "octo/hello#issue-1"));
    assert!(world.page("/cleanup").await.contains("reclaimed 6.0 MB of what tools make again: target"));
    assert!(world.environment().await.metadata.reclaiming.is_none());
    assert!(notes(&world.pass().await).is_empty(), "there is nothing more");
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
    for step in ["journalled", "moved", "wanted back", "somebody's", "released"] {
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
            "released" => fs::remove_dir_all(&cache).unwrap(),
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
    let status = answered(&world, issue, "/status").await;
    assert!(status.contains("more than the soft mark of 5.0 MB: merged worktrees are removed"), "{status}");
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
