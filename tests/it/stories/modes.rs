//! How far the bot goes in a repository: on, staged (it says what it would do), off.

use crate::support::world::{ANN, REPO, World};
use treewarden::model::*;

async fn switched(world: &World, mode: CodebaseMode) {
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    assert!(world.orchestrator().set_mode(&codebase, mode, "panel").await.unwrap());
}

/// Nothing was cloned, made, run or pushed.
async fn nothing_was_done(world: &World) {
    assert!(world.runs().await.is_empty() && world.all_environments().await.is_empty());
    assert!(!world.canonical().await.exists());
    assert_eq!(world.remote_tip("issue-1").await, None);
}

#[tokio::test]
async fn in_staged_mode_it_says_what_it_would_do_and_does_nothing() {
    let world = World::with(&[("TREEWARDEN_MODE", "staged")]).await;
    let issue = world.issue();
    let asked = world.ask(issue, "add a greeting");
    world.settle().await;
    assert_eq!(world.reactions(asked), ["eyes"]);
    let told = world.answer(issue);
    for words in [
        "**octo/hello** is staged: I say what I would do, and do nothing.",
        "1. make the worktree **issue-1** on the branch `issue-1`, from `main`",
        "push the branch, and open a draft pull request into `main`",
        &format!("switches it on with `{}`", world.mention("/enable")),
    ] {
        assert!(told.contains(words), "{words} in {told}");
    }
    assert_eq!(world.answers(issue).len(), 1);
    nothing_was_done(&world).await;

    for (command, words) in [
        ("/worktree pin", "I would carry out `/worktree pin`, which protects this thread's worktree from cleanup."),
        ("/worktree create aside", "I would carry out `/worktree create`"),
        ("/worktree remove issue-9", "So `/worktree remove` was only tried out."),
        ("/worktree cleanup merged", "So `/worktree cleanup merged` was only tried out."),
        ("/worktree list", "This repository has no worktrees."),
        ("/status", "this repository is staged"),
        ("/stop", "No run is live or queued"),
        ("/helpp", "Did you mean `/help`?"),
    ] {
        let before = world.answers(issue).len();
        world.ask(issue, command);
        world.settle().await;
        assert!(world.answer(issue).contains(words), "{command}: {}", world.answer(issue));
        assert_eq!(world.answers(issue).len(), before + 1, "{command}");
    }
    nothing_was_done(&world).await;
    // Whoever may not ask is told so as ever.
    world.standin.set_permission(REPO, "mallory", Permission::Read).unwrap();
    let stranger = world.standin.comment(REPO, "mallory", issue, &world.mention("do it")).unwrap();
    world.settle().await;
    assert_eq!(world.reactions(stranger), ["confused"]);
    world.end().await;
}

#[tokio::test]
async fn enable_is_for_admins_and_for_nobody_else() {
    let world = World::new().await;
    let admins = format!("erin:{}", world.standin.user_number("erin"));
    let world = world.restart_with(&[("TREEWARDEN_MODE", "staged"), ("TREEWARDEN_ADMINS", &admins)]).await;
    let issue = world.issue();
    let by = async |who: &str| {
        let comment = world.standin.comment(REPO, who, issue, &world.mention("/enable")).unwrap();
        world.settle().await;
        world.reactions(comment)
    };
    let mode = async || world.store().list_codebases().await.unwrap()[0].mode;
    assert_eq!(by(ANN).await, ["confused"], "to write is not enough");
    assert!(world.answer(issue).contains("this needs admin permission"), "{}", world.answer(issue));
    assert_eq!(mode().await, CodebaseMode::Staged);
    assert_eq!(by("erin").await, ["eyes"], "named, with no permission at all");
    assert!(world.answer(issue).contains("**octo/hello** is switched on"), "{}", world.answer(issue));
    assert_eq!(mode().await, CodebaseMode::On);
    let audit = world.store().list_audit(20).await.unwrap();
    let entry = audit.iter().find(|entry| entry.action == "codebase.mode").unwrap();
    assert_eq!((entry.actor.as_str(), entry.subject.as_str(), entry.detail.as_str()), ("erin", REPO, "on"));
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));

    switched(&world, CodebaseMode::Staged).await;
    world.standin.set_permission(REPO, ANN, Permission::Admin).unwrap();
    assert_eq!(by(ANN).await, ["eyes"], "an admin of the repository");
    assert_eq!(mode().await, CodebaseMode::On);
    assert_eq!(by(ANN).await, ["eyes"]);
    assert!(world.answer(issue).contains("is switched on already"), "{}", world.answer(issue));
    world.end().await;
}

#[tokio::test]
async fn off_is_silent_until_an_admin_enables_it() {
    let world = World::with(&[("TREEWARDEN_MODE", "off")]).await;
    let issue = world.issue();
    for words in ["add a greeting", "/status", "/enable", "/nonsense"] {
        let comment = world.ask(issue, words);
        world.settle().await;
        assert_eq!(world.reactions(comment), [""; 0], "{words}");
    }
    assert!(world.answers(issue).is_empty() && world.runs().await.is_empty());
    assert_eq!(world.store().list_codebases().await.unwrap()[0].mode, CodebaseMode::Off, "the panel shows it");
    let ignored = world.store().list_deliveries(50, 0).await.unwrap();
    let off = ignored.iter().filter(|line| line.reason.as_deref() == Some("the repository is switched off"));
    assert_eq!(off.count(), 4, "{ignored:?}");
    world.standin.set_permission(REPO, ANN, Permission::Admin).unwrap();
    world.ask(issue, "/enable");
    world.settle().await;
    assert!(world.answer(issue).contains("is switched on"), "{}", world.answer(issue));
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));

    // What happens to its threads is written down, and said to nobody.
    switched(&world, CodebaseMode::Off).await;
    let (environment, before) = (world.environment().await, world.answers(issue).len());
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(environment.path.exists());
    assert_eq!(world.answers(issue).len(), before);
    world.end().await;
}

#[tokio::test]
async fn staging_again_stops_what_waits_and_pushes_nothing() {
    let world = World::with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let (first, second) = (world.issue(), world.issue());
    world.ask(first, "add a greeting agent:sleep=2");
    world.until_agent_works().await;
    world.ask(second, "add a note");
    world.until("the second run", || async { (world.runs().await.len() == 2).then_some(()) }).await;
    switched(&world, CodebaseMode::Staged).await;
    world.settle().await;
    let status = world.status(first);
    assert!(status.contains("not pushed: this repository is staged by now"), "{status}");
    assert!(world.local_tip("issue-1").await.is_some(), "it is committed here");
    assert_eq!(world.remote_tip("issue-1").await, None);
    let status = world.status(second);
    assert!(status.contains("is staged by now, so the work did not begin"), "{status}");
    assert_eq!(world.environments().await.len(), 1, "nothing was made for it");

    switched(&world, CodebaseMode::On).await;
    world.ask(first, "agent:noop");
    world.settle().await;
    assert!(world.status(first).starts_with('✅'), "{}", world.status(first));
    assert_eq!(world.remote_tip("issue-1").await, world.local_tip("issue-1").await);
    world.end().await;
}

#[tokio::test]
async fn a_close_in_staged_mode_removes_nothing() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    switched(&world, CodebaseMode::Staged).await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    let kept = "its repository is staged: only people take anything away there";
    assert!(world.answer(issue).contains(kept), "{}", world.answer(issue));
    world.days_pass(100);
    let report = world.pass().await;
    assert!(report.lines.iter().all(|line| matches!(line.result, ReportResult::Kept(_))), "{report:?}");
    assert!(environment.path.join("hello.sh").exists());
    assert!(!world.page("/").await.contains("class=\"main\"><a class=\"strong code\""), "nobody has to do anything");

    // A command foresees what it would do, and the pass does it once it may.
    world.ask(issue, "/worktree cleanup stale");
    world.settle().await;
    assert!(world.answer(issue).contains("`issue-1` would be removed"), "{}", world.answer(issue));
    assert!(environment.path.exists());
    switched(&world, CodebaseMode::On).await;
    world.pass().await;
    assert!(!environment.path.exists() && world.local_tip("issue-1").await.is_some());
    world.settle().await;
    world.end().await;
}
