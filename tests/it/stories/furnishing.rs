//! What a new worktree gets beside its checkout, and what people are told about it.

use crate::support::world::{ANN, REPO, World};
use std::fs;
use treewarden::{demo::github::MergeMethod, model::*};

async fn put(world: &World, path: &str, text: &str) {
    world.standin.push_commit(REPO, ANN, "main", "Prepare", &[(path, Some(text))]).await.unwrap();
}

#[tokio::test]
async fn files_the_operator_keeps_are_copied_and_told_and_no_reason_to_keep_a_worktree() {
    let world = World::new().await;
    let kept = world.home().join("copy").join(REPO);
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join(".env"), "KEY=secret\n").unwrap();
    fs::write(kept.join("unasked"), "x\n").unwrap();
    put(&world, REPO_SETTINGS_FILE, "pull_request: open\ncopy: [.env, other.json]\n").await;
    let issue = world.worked_issue("add a greeting").await;
    let status = world.status(issue);
    assert!(status.starts_with('✅'), "{status}");
    let said = "Copied into the worktree: `.env`. Asked for, but not kept on this server: `other.json`.";
    assert!(status.contains(said), "{status}");
    let environment = world.environment().await;
    assert_eq!(fs::read_to_string(environment.path.join(".env")).unwrap(), "KEY=secret\n");
    assert!(!environment.path.join("unasked").exists());
    assert_eq!(world.remote_file("issue-1", ".env").await, None);
    // Told once.
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(!world.status(issue).contains("Copied"), "{}", world.status(issue));

    // A fork's code gets to see none of it.
    let (pull, _) = world.pull_from_fork("far").await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.status(pull).contains("not copied into the worktree of a fork's pull request"));
    let environments = world.environments().await;
    let fork = environments.iter().find(|live| live.metadata.fork_head.is_some()).unwrap();
    assert!(!fork.path.join(".env").exists());

    let number = world.pull_of("issue-1").number;
    world.standin.merge(REPO, ANN, number, MergeMethod::Squash).await.unwrap();
    world.settle().await;
    assert!(!environment.path.exists(), "{:?}", world.environments().await);
    world.end().await;
}
