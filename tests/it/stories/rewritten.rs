//! Somebody rewrites the base, to take off it what should never have been there: nothing of ours brings that back.

use crate::support::world::{ANN, REPO, World};
use treewarden::demo::github::OpenPull;

const SECRET: &str = "prod.env";

/// A repository whose `main` has a commit too many; what `main` was before it.
async fn leaked(world: &World) -> String {
    let clean = world.remote_tip("main").await.unwrap();
    world.standin.push_commit(REPO, ANN, "main", "Oops", &[(SECRET, Some("SECRET=1\n"))]).await.unwrap();
    clean
}

/// An issue with a worktree in which no agent has been.
async fn with_worktree(world: &World) -> i64 {
    let issue = world.issue();
    world.ask(issue, "/worktree create issue-1");
    world.settle().await;
    issue
}

async fn purge(world: &World, clean: &str) {
    world.standin.force_branch(REPO, ANN, "main", clean).await.unwrap();
    world.standin.push_commit(REPO, ANN, "main", "Other work", &[("other.txt", Some("other\n"))]).await.unwrap();
    world.settle().await;
}

#[tokio::test]
async fn a_branch_without_work_begins_at_the_new_base() {
    let world = World::new().await;
    let clean = leaked(&world).await;
    let issue = world.worked_issue("agent:noop").await;
    assert!(world.environment().await.path.join(SECRET).exists());
    purge(&world, &clean).await;
    world.ask(issue, "agent:noop");
    world.settle().await;
    let status = world.status(issue);
    assert!(
        status.contains("`main` was rewritten on the remote, so `issue-1`, which had nothing of its own"),
        "{status}"
    );
    assert!(status.contains("no file changed, nothing to push"), "{status}");
    assert_eq!(world.remote_tip("issue-1").await, None);
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert_eq!(world.remote_file("issue-1", SECRET).await, None);
    assert!(world.remote_file("issue-1", "hello.sh").await.is_some());
    world.end().await;
}

#[tokio::test]
async fn what_was_taken_off_the_base_is_no_work_of_a_closed_thread() {
    let world = World::new().await;
    let clean = leaked(&world).await;
    let issue = world.worked_issue("agent:noop").await;
    purge(&world, &clean).await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert_eq!(world.local_tip("issue-1").await, None, "{}", world.answer(issue));
    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert_eq!(world.remote_file("issue-1", SECRET).await, None);
    assert!(world.remote_file("issue-1", "hello.sh").await.is_some());
    world.end().await;
}

#[tokio::test]
async fn work_on_what_was_taken_off_the_base_stays_here_until_it_is_moved() {
    let agent = "sh -c 'if grep -q \"please rebase\"; then git rebase -q --onto origin/main HEAD~1; else echo work > work.txt; fi; echo done'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let clean = leaked(&world).await;
    let issue = with_worktree(&world).await;
    std::fs::write(world.environment().await.path.join("mine.txt"), "mine\n").unwrap();
    purge(&world, &clean).await;
    world.ask(issue, "work");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("still stands on what was taken off it: the worktree has uncommitted changes"), "{status}");
    let why = "not pushed: `main` was rewritten, and `issue-1` still has 1 commit that was taken off it, which would be published again";
    assert!(status.contains(why), "{status}");
    assert_eq!(world.remote_tip("issue-1").await, None);
    world.ask(issue, "please rebase");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && !status.contains("not pushed"), "{status}");
    assert_eq!(world.remote_file("issue-1", SECRET).await, None);
    for (path, content) in [("work.txt", "work\n"), ("mine.txt", "mine\n"), ("other.txt", "other\n")] {
        assert_eq!(world.remote_file("issue-1", path).await.as_deref(), Some(content), "{path}");
    }
    world.end().await;
}

/// Where the remote's branch has it anyway, no push brings it there.
#[tokio::test]
async fn what_the_branch_has_on_the_remote_is_pushed_on_top_of() {
    let world = World::new().await;
    let clean = leaked(&world).await;
    let issue = world.worked_issue("add a greeting").await;
    purge(&world, &clean).await;
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && !status.contains("not pushed"), "{status}");
    assert_eq!(world.local_tip("issue-1").await, world.remote_tip("issue-1").await);
    world.end().await;
}

/// A release that is rolled back is no secret.
#[tokio::test]
async fn what_another_branch_still_has_is_published_by_no_push() {
    let world = World::new().await;
    let before = leaked(&world).await;
    let main = world.remote_tip("main").await.unwrap();
    world.standin.force_branch(REPO, ANN, "release", &main).await.unwrap();
    world.worked_issue("agent:noop").await;
    world.standin.force_branch(REPO, ANN, "release", &before).await.unwrap();
    let pull = OpenPull { title: "Release", head: "main", base: "release", ..OpenPull::default() };
    let pull = world.standin.open_pull(REPO, ANN, pull).await.unwrap();
    world.ask(pull, "add a greeting");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.starts_with('✅') && !status.contains("not pushed"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn an_agent_that_brings_back_what_was_taken_off_is_told_so() {
    let agent = "sh -c 'git reset -q --hard origin/main@{1}; echo done'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let clean = leaked(&world).await;
    let issue = with_worktree(&world).await;
    purge(&world, &clean).await;
    world.ask(issue, "bring it back");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("not pushed: `main` was rewritten, and `issue-1` still has 1 commit"), "{status}");
    assert_eq!(world.remote_tip("issue-1").await, None);
    world.end().await;
}
