//! The check run beside the status comment of a run on a pull request.

use crate::support::world::{ANN, REPO, World};
use treewarden::demo::github::{CheckRunView, Fault};
use treewarden::model::*;

const TALK: [(&str, &str); 4] =
    [("contents", "write"), ("issues", "write"), ("metadata", "read"), ("pull_requests", "write")];

fn check_runs(world: &World) -> Vec<CheckRunView> {
    world.standin.check_runs(REPO).unwrap()
}

/// Of the only check run there is, or the one on this commit.
fn on<'a>(checks: &'a [CheckRunView], head: &str) -> &'a CheckRunView {
    let mut there = checks.iter().filter(|check| check.head_sha == head);
    let found = there.next().unwrap_or_else(|| panic!("none on {head}: {checks:#?}"));
    assert!(there.next().is_none(), "two on {head}: {checks:#?}");
    found
}

#[tokio::test]
async fn a_run_is_shown_on_the_commit_it_was_asked_on_and_on_what_it_pushed() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    let before = world.pull(pull).head_sha;
    world.ask(pull, "add a greeting");
    world.settle().await;

    let run = world.runs().await.remove(0);
    let (checks, after) = (check_runs(&world), world.pull(pull).head_sha);
    assert_eq!(checks.len(), 2, "{checks:#?}");
    for head in [&before, &after] {
        let check = on(&checks, head);
        assert_eq!((check.name.as_str(), check.conclusion.as_deref()), ("Treewarden", Some("success")));
        assert_eq!(check.external_id, Some(run.id.to_string()));
        assert_eq!(check.actions, ["retry", "clean_up"]);
        assert!(check.title.starts_with("✅ Done for ann"), "{}", check.title);
        assert!(check.summary.contains("**Verified by Treewarden:** `feature/x` is at"), "{}", check.summary);
        assert!(check.details_url.as_ref().unwrap().ends_with(&format!("/runs/{}", run.id)), "{check:?}");
    }
    assert!(world.status(pull).starts_with('✅'), "{}", world.status(pull));
    world.end().await;
}

#[tokio::test]
async fn a_live_run_says_how_it_is_stopped() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    let head = world.pull(pull).head_sha;
    world.ask(pull, "agent:sleep=600");
    world.until_agent_works().await;
    let live = world.until("a check run", || async { check_runs(&world).pop() }).await;
    assert_eq!((live.status.as_str(), live.conclusion, live.head_sha.as_str()), ("in_progress", None, head.as_str()));
    assert!(live.summary.contains(&format!("write `{}` in a comment", world.mention("/stop"))), "{}", live.summary);
    assert_eq!(live.actions, ["stop"]);
    world.ask(pull, "/stop");
    world.settle().await;

    let checks = check_runs(&world);
    let over = on(&checks, &head);
    assert_eq!((over.id, over.conclusion.as_deref()), (live.id, Some("cancelled")));
    world.end().await;
}

#[tokio::test]
async fn a_run_on_a_fork_is_shown_on_the_forks_commit() {
    let world = World::new().await;
    let (pull, _) = world.pull_from_fork("patch").await;
    let head = world.pull(pull).head_sha;
    world.ask(pull, "add a greeting");
    world.settle().await;
    assert_eq!(check_runs(&world), [], "nothing was begun");
    world.approve(pull).await;
    world.ask(pull, "look at it");
    world.settle().await;
    let checks = check_runs(&world);
    assert_eq!(checks.len(), 1, "{checks:#?}");
    assert!(on(&checks, &head).conclusion.is_some(), "{checks:#?}");
    world.end().await;
}

#[tokio::test]
async fn issues_have_no_commit_to_show_it_on() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    assert_eq!(check_runs(&world), []);
    world.end().await;
}

#[tokio::test]
async fn without_the_permission_everything_else_works() {
    let world = World::new().await;
    world.standin.register(&TALK, &["issue_comment", "pull_request"]);
    let pull = world.pull_from("feature/x", "").await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    assert!(world.status(pull).starts_with('✅'), "{}", world.status(pull));
    assert_eq!(check_runs(&world), []);
    // Accepted later, without a restart.
    world.standin.register(&[&TALK[..], &[("checks", "write")]].concat(), &["issue_comment", "pull_request"]);
    world.ask(pull, "add a note");
    world.settle().await;
    assert_eq!(check_runs(&world).len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_lost_answer_leaves_one_check_run() {
    for (method, path) in [("POST", "/repos/octo/hello/check-runs"), ("PATCH", "/repos/octo/hello/check-runs/")] {
        let world = World::new().await;
        let pull = world.pull_from("feature/x", "").await;
        let before = world.pull(pull).head_sha;
        world.standin.faults().inject(Some(method), path, 1, Fault::CutAfterApplying);
        world.ask(pull, "agent:sleep=1 add a greeting");
        world.settle().await;
        let (checks, after) = (check_runs(&world), world.pull(pull).head_sha);
        assert_eq!(checks.len(), 1 + usize::from(before != after), "{checks:#?}");
        for head in [&before, &after] {
            assert!(on(&checks, head).conclusion.is_some(), "{checks:#?}");
        }
        assert_eq!(world.run_states().await, [RunState::Succeeded]);
        world.end().await;
    }
}

/// A comment never waits for a check run.
#[tokio::test]
async fn check_runs_that_fail_for_long_hold_up_no_comment() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    world.standin.faults().inject(None, "/repos/octo/hello/check-runs", 1000, Fault::Status(500));
    world.ask(pull, "add a greeting");
    let over = || async { world.statuses(pull).pop().filter(|status| status.starts_with('✅')) };
    world.until("the end in the comment", over).await;
    world.standin.comment(REPO, ANN, pull, &world.mention("/help")).unwrap();
    let answered = || async { world.answers(pull).iter().any(|one| one.body.contains("/worktree")).then_some(()) };
    world.until("an answer", answered).await;
    world.standin.faults().clear();
    world.time_passes(std::time::Duration::from_secs(3600));
    world.settle().await;
    assert_eq!(check_runs(&world).len(), 2);
    world.end().await;
}
