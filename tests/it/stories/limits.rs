//! The limit of worktrees: what is provably merged makes room, and nothing else is taken away for it.

use crate::support::world::{ANN, REPO, World, git};
use treewarden::model::*;

const TWO: &[(&str, &str)] = &[("MAX_WORKTREES_PER_CODEBASE", "2")];

/// A person puts what the issue's branch holds onto main by hand; its thread stays open.
async fn merged_by_hand(world: &World, branch: &str) {
    let notes = world.remote_file(branch, "NOTES.md").await.unwrap();
    let files = [("NOTES.md", Some(notes.as_str()))];
    world.standin.push_commit(REPO, ANN, "main", "Take notes", &files).await.unwrap();
}

#[tokio::test]
async fn merged_work_makes_room() {
    let world = World::with(TWO).await;
    let first = world.worked_issue("write this down").await;
    let second = world.worked_issue("add a greeting").await;
    merged_by_hand(&world, &format!("issue-{first}")).await;
    let third = world.worked_issue("add a greeting").await;

    let status = world.status(third);
    assert!(status.starts_with('✅') && status.contains("Cleaned up 1 merged worktree to make room."), "{status}");
    let live: Vec<String> = world.environments().await.iter().map(|live| live.work.to_string()).collect();
    assert_eq!(live, [format!("issue-{second}"), format!("issue-{third}")]);
    assert!(world.answer(first).contains("is in `main`"), "its thread is told: {}", world.answer(first));
    world.end().await;
}

#[tokio::test]
async fn nothing_that_is_kept_makes_room_and_the_reply_counts_it() {
    let world = World::with(TWO).await;
    let first = world.worked_issue("write this down").await;
    world.worked_issue("add a greeting").await;
    merged_by_hand(&world, &format!("issue-{first}")).await;
    let place = world.environments().await.remove(0).path;
    std::fs::write(place.join("precious.txt"), "precious\n").unwrap();
    let third = world.worked_issue("add a greeting").await;

    let status = world.status(third);
    assert!(status.contains("You have 2 active worktrees for **hello** (limit reached)."), "{status}");
    for line in ["• 0 merged (can auto-remove)", "• 0 stale (no activity in 14+ days)", "• 2 active"] {
        assert!(status.contains(line), "{line} in {status}");
    }
    assert!(place.join("precious.txt").exists());
    assert_eq!(world.environments().await.len(), 2);
    world.end().await;
}

/// What came from the base was not merged into it, and the thread is open: nothing is over.
#[tokio::test]
async fn a_branch_that_only_followed_its_base_makes_no_room() {
    let world = World::with(TWO).await;
    world.worked_issue("agent:noop").await;
    world.standin.push_commit(REPO, ANN, "main", "Move on", &[("more.txt", Some("more\n"))]).await.unwrap();
    world.worked_issue("add a greeting").await;
    let place = world.environments().await.remove(0).path;
    git(&place, &["merge", "--ff-only", "-q", "origin/main"]);
    assert!(place.join("more.txt").exists());
    let third = world.worked_issue("add a greeting").await;
    assert!(world.status(third).contains("• 0 merged (can auto-remove)"), "{}", world.status(third));
    let report = world.pass().await;
    assert!(report.lines.iter().all(|line| matches!(line.result, ReportResult::Kept(_))), "{report:?}");
    assert!(place.exists());
    world.end().await;
}

/// `git pull && git push` on the base puts its old tip beside the line of first parents: an untouched worktree that was
/// made from there has still nothing that could have been merged.
#[tokio::test]
async fn a_base_that_was_merged_aside_makes_no_room() {
    let world = World::with(TWO).await;
    world.standin.push_commit(REPO, ANN, "main", "Move on", &[("more.txt", Some("more\n"))]).await.unwrap();
    world.worked_issue("agent:noop").await;
    let remote = world.standin.git_dir(REPO).unwrap();
    let mine = git(&remote, &["commit-tree", "main~1^{tree}", "-p", "main~1", "-m", "Mine"]);
    let merge = git(&remote, &["commit-tree", "main^{tree}", "-p", &mine, "-p", "main", "-m", "Pull"]);
    git(&remote, &["update-ref", "refs/heads/main", &merge]);
    let report = world.pass().await;
    assert!(matches!(&report.lines[..], [line] if matches!(line.result, ReportResult::Kept(_))), "{report:?}");
    assert_eq!(world.environments().await.len(), 1);
    world.end().await;
}

#[tokio::test]
async fn cleaning_up_by_command_does_what_its_dry_run_says() {
    let world = World::new().await;
    let first = world.worked_issue("write this down").await;
    let second = world.worked_issue("add a greeting").await;
    merged_by_hand(&world, &format!("issue-{first}")).await;

    world.ask(second, "/worktree cleanup stale");
    world.settle().await;
    assert!(world.answer(second).contains("No worktree of this repository is stale"));
    world.ask(second, "/worktree cleanup merged --dry-run");
    world.settle().await;
    let answer = world.answer(second);
    assert!(answer.starts_with(&format!("- `issue-{first}` would be removed: everything")), "{answer}");
    assert_eq!(world.environments().await.len(), 2);
    world.ask(second, "/status");
    world.settle().await;
    let status = world.answer(second);
    assert!(
        status.contains(
            "2 worktrees of 25 in this repository: 1 merged, 0 stale (closed, or without activity for long), 1 active or kept"
        ),
        "{status}"
    );
    world.ask(second, "/worktree cleanup merged");
    world.settle().await;
    assert!(world.answer(second).starts_with(&format!("- `issue-{first}` was removed: everything")));
    let left = world.environment().await;
    assert_eq!((left.work.to_string(), left.state), (format!("issue-{second}"), EnvironmentState::Active));
    world.end().await;
}
