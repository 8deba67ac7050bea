//! Commands are answered at once, also while a run is live.

use crate::support::world::World;
use treewarden::model::*;

#[tokio::test]
async fn commands_are_answered_while_a_run_is_live() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "take your time agent:sleep=600");
    world.until_agent_works().await;

    let ask = async |words: &str| {
        let before = world.answers(issue).len();
        world.ask(issue, words);
        let what = format!("the answer to {words}");
        world.until(&what, || async { (world.answers(issue).len() > before).then_some(()) }).await;
        world.answer(issue)
    };
    let help = ask("/help").await;
    for command in ["/status", "/stop", "/worktree list", "/worktree remove", "/worktree pin"] {
        assert!(help.contains(command), "{command} in {help}");
    }
    let status = ask("/status").await;
    for line in ["Worktree **issue-1** on branch `issue-1`, based on `main`", "run running", "1 worktree of 25"] {
        assert!(status.contains(line), "{line} in {status}");
    }
    assert!(ask("/worktree list").await.contains("**issue-1** `issue-1` (active) ← active"));
    assert!(ask("/worktree pin").await.contains("is pinned"));
    assert!(ask("/worktree unpin").await.contains("no longer pinned"));
    let refused = ask("/worktree remove").await;
    assert!(refused.contains("a run is live or queued in it") && refused.contains("Nothing was removed"), "{refused}");
    assert!(ask("/worktree lst").await.contains("Did you mean `/worktree list`?"));
    assert_eq!(world.until_agent_works().await.state, RunState::Running, "nothing disturbed the run");

    assert!(ask("/stop").await.contains("Stopping"));
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled]);
    let status = world.status(issue);
    assert!(status.starts_with("⏹️ **Stopped**") && status.contains("Stopped on request"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn work_that_was_stopped_goes_on_with_the_next_mention() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "agent:sleep=600");
    let run = world.until_agent_works().await;
    let environment = world.environment().await;
    std::fs::write(environment.path.join("half.txt"), "half done\n").unwrap();
    world.ask(issue, "/stop");
    world
        .until("the end of the run", || async {
            world.store().load_run(run.id).await.unwrap().filter(|run| run.state.is_final())
        })
        .await;
    assert!(environment.path.join("half.txt").exists(), "work done so far is kept");

    world.ask(issue, "go on");
    world.settle().await;
    assert_eq!(world.remote_file("issue-1", "half.txt").await.as_deref(), Some("half done\n"));
    world.end().await;
}

#[tokio::test]
async fn a_worktree_is_removed_on_request_and_its_branch_kept() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let tip = world.local_tip("issue-1").await;
    world.ask(issue, "/worktree remove");
    world.settle().await;

    assert!(world.answer(issue).starts_with("🧹 The worktree was removed"), "{}", world.answer(issue));
    assert!(!environment.path.exists() && world.environments().await.is_empty());
    assert!(tip.is_some() && world.local_tip("issue-1").await == tip, "the unmerged branch is kept");
    assert!(world.store().receipt_of(environment.id).await.unwrap().is_some());
    world.end().await;
}

#[tokio::test]
async fn a_dirty_worktree_is_not_removed_on_request() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    std::fs::write(environment.path.join("README.md"), "edited\n").unwrap();
    std::fs::write(environment.path.join("new.txt"), "new\n").unwrap();
    world.ask(issue, "/worktree remove");
    world.settle().await;

    let answer = world.answer(issue);
    assert!(answer.contains("uncommitted work: 1 changed file and 1 untracked file"), "{answer}");
    assert_eq!(world.environment().await.id, environment.id);
    assert_eq!(std::fs::read_to_string(environment.path.join("README.md")).unwrap(), "edited\n");
    world.end().await;
}

#[tokio::test]
async fn the_same_issue_gets_an_environment_every_time_after_a_removal() {
    let world = World::new().await;
    let issue = world.issue();
    for round in 1..=3 {
        world.ask(issue, &format!("note {round}"));
        world.settle().await;
        assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
        world.ask(issue, "/worktree remove");
        world.settle().await;
        assert!(world.environments().await.is_empty());
    }
    assert_eq!(world.all_environments().await.len(), 3, "history rows stay");
    let notes = world.remote_file("issue-1", "NOTES.md").await.unwrap();
    assert_eq!(notes, "# Notes\n\n- note 1\n- note 2\n- note 3\n");
    world.end().await;
}

#[tokio::test]
async fn a_queued_run_is_stopped_at_once() {
    let world = World::with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let (busy, waiting) = (world.issue(), world.issue());
    world.ask(busy, "agent:sleep=600");
    world.until_agent_works().await;
    world.ask(waiting, "add a greeting");
    world.until_run_is(RunState::Queued).await;
    world
        .until("the place in the queue", || async {
            world.statuses(waiting).pop().filter(|status| status.contains("**Queued** for `ann`"))
        })
        .await;
    world.ask(waiting, "/stop");
    world.until_run_is(RunState::Cancelled).await;
    world.ask(busy, "/stop");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled; 2]);
    assert!(world.status(waiting).starts_with("⏹️ **Stopped**"));
    world.end().await;
}
