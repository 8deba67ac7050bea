//! What nobody asks for and keeps a server usable for years: repositories are packed, what is over is forgotten, and what
//! fails each time is left alone for a while.

use super::commands::answered;
use crate::support::world::{ANN, REPO, World, git};
use std::{fs, os::unix::fs::symlink, time::Duration};
use tokio_util::sync::CancellationToken;
use treewarden::{
    config::{Config, Flags},
    demo::github::MergeMethod,
    model::*,
    store::RunFilter,
};

const INTERVAL: Duration = Duration::from_secs(6 * 3600);

/// GitHub sends a delivery again for three days; what is younger than a week is always known.
#[test]
fn nothing_is_forgotten_that_github_may_send_again() {
    let load = |days: Option<&str>| {
        let flags = Flags { home: Some("/srv/tw".into()), ..Flags::default() };
        let env = |name: &str| days.filter(|_| name == "RETENTION_DAYS").map(str::to_owned);
        Config::load(&flags, env, |_| Err(std::io::ErrorKind::NotFound.into()))
    };
    let days = |config: Config| config.retain_for.as_secs() / 86_400;
    assert_eq!((days(load(None).unwrap()), days(load(Some("7")).unwrap())), (90, 7));
    for wrong in ["6", "0", "3651"] {
        let problems = load(Some(wrong)).unwrap_err().to_string();
        assert!(problems.contains("expected a whole number from 7 to 3650"), "{problems}");
    }
}

#[tokio::test]
async fn what_is_over_is_forgotten_and_what_proves_work_stays() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let run = world.runs().await.remove(0);
    let (log, page) = (world.service.orchestrator.log_path(run.id), format!("/runs/{}", run.id));
    let forget = async || world.service.orchestrator.forget_outlived(&CancellationToken::new()).await.unwrap();
    forget().await;
    assert!(log.exists() && !world.page(&page).await.contains("The log was deleted"));
    let deliveries = world.store().list_deliveries(100, 0).await.unwrap().len();

    world.days_pass(91);
    assert!(forget().await > 3);
    assert_eq!(forget().await, 0);
    assert!(!log.exists() && !log.with_extension("prompt").exists());
    let shown = world.page(&page).await;
    assert!(shown.contains("The log was deleted: logs are kept for 90 days"), "{shown}");
    let left = world.store().list_deliveries(100, 0).await.unwrap();
    assert!(left.len() < deliveries && left.iter().any(|delivery| delivery.id == run.delivery), "{left:?}");
    let same = world.store().list_runs(RunFilter::All, 9, 0).await.unwrap().remove(0);
    assert_eq!((same.id, same.outcome), (run.id, run.outcome));
    // The thread goes on where it was, with a comment of its own.
    let (answers, environment) = (world.answers(issue).len(), world.environment().await);
    world.ask(issue, "also greet in French");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded, RunState::Succeeded]);
    assert_eq!(world.answers(issue).len(), answers + 1);
    assert_eq!(world.environment().await.id, environment.id);
    world.end().await;
}

#[tokio::test]
async fn a_repository_is_packed_and_work_goes_on_in_it() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let (canonical, codebase) = (world.canonical().await, world.environment().await.codebase);
    let known = async || world.store().load_maintained(codebase).await.unwrap();
    let maintain = async || world.service.orchestrator.maintain(&CancellationToken::new()).await.unwrap();
    let loose = || git(&canonical, &["count-objects"]).split_whitespace().next().unwrap().parse::<u64>().unwrap();
    assert!(loose() > 0);
    maintain().await;
    assert_eq!(loose(), 0);
    let first = known().await;
    assert!(first.packed_at.is_some() && first.repacked_at == first.packed_at && first.trouble.is_none(), "{first:?}");
    world.ask(issue, "also greet in French");
    world.settle().await;
    maintain().await;
    assert_eq!(known().await, first, "once a day is enough");
    world.days_pass(8);
    maintain().await;
    let packs =
        || git(&canonical, &["count-objects", "-v"]).lines().find(|line| line.starts_with("packs")).unwrap().to_owned();
    assert_eq!((loose(), packs().as_str()), (0, "packs: 1"));
    assert!(known().await.repacked_at > first.repacked_at);

    // Something is in the way. People are told, and it is tried again.
    let (fan_out, elsewhere) = (canonical.join("objects/ff"), world.dir.path().join("ff"));
    let _ = fs::remove_dir(&fan_out);
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &fan_out).unwrap();
    world.days_pass(1);
    maintain().await;
    let trouble = known().await.trouble.unwrap();
    assert!(trouble.why.contains("is a link"), "{trouble:?}");
    let page = world.page("/").await;
    assert!(page.contains("is not packed") && page.contains("is a link"), "{page}");
    fs::remove_file(&fan_out).unwrap();
    world.days_pass(1);
    maintain().await;
    assert_eq!(known().await.trouble, None);
    assert!(!world.page("/").await.contains("is not packed"));

    // The work is merged, and its worktree goes, as ever.
    world.merge(world.pull_of("issue-1").number, MergeMethod::Squash).await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(world.environments().await.is_empty());
    git(&canonical, &["fsck"]);
    world.end().await;
}

/// An environment that cannot be looked at costs each pass as much as it can, so it is left alone for longer and longer.
#[tokio::test]
async fn what_fails_in_each_pass_is_left_alone_for_a_while() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    // A submodule with an index that would take all the memory there is.
    let (files, inner) = (&environment.path, environment.path.join("inner"));
    git(files, &["init", "-q", "inner"]);
    for place in [&inner, files] {
        fs::write(place.join("more"), "1\n").unwrap();
        git(place, &["add", "."]);
        git(place, &["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "more"]);
    }
    let (index, good) = (inner.join(".git/index"), fs::read(inner.join(".git/index")).unwrap());
    fs::File::options().write(true).open(&index).unwrap().set_len(1 << 40).unwrap();
    let pass = async || {
        let lines = world.pass().await.lines;
        match lines.into_iter().next().unwrap().result {
            ReportResult::Kept(reasons) => reasons.join("; "),
            ReportResult::Removed(why) | ReportResult::Failed(why) => why,
        }
    };
    world.days_pass(20);
    let first = pass().await;
    assert!(first.contains("it could not be checked"), "{first}");
    world.time_passes(INTERVAL);
    assert_eq!(pass().await, first, "once may be chance");
    world.time_passes(INTERVAL);
    let put_off = pass().await;
    assert!(put_off.starts_with("it failed 2 times in a row, so passes leave it alone until"), "{put_off}");
    assert!(put_off.contains("it could not be checked"), "{put_off}");
    world.time_passes(INTERVAL);
    assert_eq!(pass().await, first);
    for _ in 0..3 {
        world.time_passes(INTERVAL);
        let put_off = pass().await;
        assert!(put_off.starts_with("it failed 3 times in a row"), "{put_off}");
    }
    // A person does not wait.
    let asked = answered(&world, issue, "/worktree remove").await;
    assert!(asked.contains("could not be checked") && !asked.contains("times in a row"), "{asked}");
    assert!(environment.path.exists());
    fs::write(&index, good).unwrap();
    world.days_pass(20);
    let well = pass().await;
    assert!(!well.contains("could not be checked") && !well.contains("it failed"), "{well}");
    world.end().await;
}
