//! An issue that goes on after its branch was merged: on a branch of its own, which proposes only what is new.

use crate::support::world::{ANN, REPO, World, git};
use treewarden::{demo::github::MergeMethod, model::*};

/// Ann merges the open pull request of a branch.
async fn merge(world: &World, branch: &str, method: MergeMethod) {
    let pull = world.pull_of(branch).number;
    world.merge(pull, method).await;
}

async fn settings(world: &World, text: &str) {
    world.standin.push_commit(REPO, ANN, "main", "Settings", &[(REPO_SETTINGS_FILE, Some(text))]).await.unwrap();
}

async fn reopened(world: &World, issue: i64, words: &str) -> String {
    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, words);
    world.settle().await;
    world.status(issue)
}

/// What was merged stays out of the next pull request, also where GitHub keeps the merged branch.
async fn goes_on_after_a_merge_by(method: MergeMethod) {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    for (before, now) in [("issue-1", "issue-1-2"), ("issue-1-2", "issue-1-3")] {
        merge(&world, before, method).await;
        assert!(world.environments().await.is_empty());
        let merged = world.remote_tip(before).await;
        assert!(merged.is_some(), "nobody deleted it");

        world.standin.reopen(REPO, ANN, issue).unwrap();
        world.ask(issue, &format!("add a note about {now}"));
        world.settle().await;
        let status = world.status(issue);
        assert!(status.contains(&format!("`{before}` was merged already")), "{status}");
        assert!(!status.contains("Continuing on existing branch"), "{status}");
        assert_eq!(world.environment().await.branch.as_str(), now);
        assert_eq!(world.pull_of(now).commits.len(), 1, "only what is new is proposed");
        assert_eq!(world.remote_tip(before).await, merged);
    }
    // Closed without a merge, it is continued as ever.
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("Continuing on existing branch `issue-1-3`, 1 commit ahead"), "{status}");
    world.end().await;
}

/// BR-076
#[tokio::test]
async fn work_goes_on_after_a_squash_merge_on_a_branch_of_its_own() {
    goes_on_after_a_merge_by(MergeMethod::Squash).await;
}

#[tokio::test]
async fn work_goes_on_after_a_merge_commit_on_a_branch_of_its_own() {
    goes_on_after_a_merge_by(MergeMethod::Merge).await;
}

#[tokio::test]
async fn work_goes_on_after_a_rebase_merge_on_a_branch_of_its_own() {
    goes_on_after_a_merge_by(MergeMethod::Rebase).await;
}

/// Here or on the remote: git keeps `a` and `a/b` in the same place.
#[tokio::test]
async fn names_with_branches_below_them_are_passed_over() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    world.standin.push_commit(REPO, ANN, "issue-1-2/x", "Other", &[("o.txt", Some("o\n"))]).await.unwrap();
    git(&world.canonical().await, &["update-ref", "refs/heads/issue-1-3/x", "refs/remotes/origin/main"]);
    merge(&world, "issue-1", MergeMethod::Squash).await;
    let status = reopened(&world, issue, "add a note").await;
    assert!(status.starts_with('✅') && status.contains("a branch of its own: `issue-1-4`"), "{status}");
    assert_eq!(world.pull_of("issue-1-4").commits.len(), 1);
    world.end().await;
}

/// What a person pushed before the merge is on the remote only, and merged with the rest.
#[tokio::test]
async fn commits_that_people_added_before_the_merge_are_no_obstacle() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    world.standin.push_commit(REPO, ANN, "issue-1", "Better", &[("hello.sh", Some("echo Ahoy\n"))]).await.unwrap();
    merge(&world, "issue-1", MergeMethod::Squash).await;
    let status = reopened(&world, issue, "add a note").await;
    assert!(status.contains("a branch of its own: `issue-1-2`"), "{status}");
    assert_eq!(world.pull_of("issue-1-2").commits.len(), 1);
    world.end().await;
}

/// Merged into another base than the default branch, the issue stays open, and its worktree with it.
#[tokio::test]
async fn an_open_issue_leaves_its_merged_worktree_unless_something_is_in_it() {
    let world = World::new().await;
    world.standin.push_commit(REPO, ANN, "dev", "Dev", &[("dev.txt", Some("dev\n"))]).await.unwrap();
    settings(&world, "base: dev\n").await;
    let issue = world.worked_issue("add a greeting").await;
    let first = world.environment().await;
    merge(&world, "issue-1", MergeMethod::Squash).await;
    assert_eq!(world.environment().await.id, first.id, "the issue is open");
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("`issue-1` was merged already") && status.contains("`issue-1-2`"), "{status}");
    let second = world.environment().await;
    assert!(!first.path.exists() && second.path.join("hello.sh").exists(), "it begins at what was merged");
    assert_eq!(world.pull_of("issue-1-2").commits.len(), 1);
    assert!(world.store().receipt_of(first.id).await.unwrap().is_some());

    std::fs::write(second.path.join("precious.txt"), "precious\n").unwrap();
    merge(&world, "issue-1-2", MergeMethod::Squash).await;
    world.ask(issue, "agent:noop");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("`issue-1-2` was merged already, but its worktree holds something more"), "{status}");
    assert_eq!(world.environment().await.id, second.id);
    assert!(second.path.join("precious.txt").exists());
    world.end().await;
}

#[tokio::test]
async fn what_was_merged_by_hand_is_merged_too() {
    let world = World::new().await;
    settings(&world, "pull_request: never\n").await;
    let issue = world.worked_issue("add a greeting").await;
    let tip = world.remote_tip("issue-1").await.unwrap();
    git(&world.standin.git_dir(REPO).unwrap(), &["update-ref", "refs/heads/main", &tip]);
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    world.standin.push_commit(REPO, ANN, "main", "Later", &[("later.txt", Some("later\n"))]).await.unwrap();
    let status = reopened(&world, issue, "add a note").await;
    assert!(status.contains("`issue-1` was merged already"), "{status}");
    let environment = world.environment().await;
    assert_eq!(environment.branch.as_str(), "issue-1-2");
    assert!(environment.path.join("later.txt").exists());
    world.end().await;
}

/// BR-177
#[tokio::test]
async fn a_name_that_somebody_else_has_is_passed_over() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    world.standin.push_commit(REPO, ANN, "issue-1-2", "Mine", &[("mine.txt", Some("mine\n"))]).await.unwrap();
    let other = world.issue();
    world.ask(other, "/worktree create issue-1-3");
    world.settle().await;
    merge(&world, "issue-1", MergeMethod::Squash).await;
    let status = reopened(&world, issue, "add a note").await;
    assert!(status.contains("a branch of its own: `issue-1-4`"), "{status}");
    assert_eq!(world.pull_of("issue-1-4").commits.len(), 1);

    // A base is not worked on, whatever it is called.
    let unlucky = world.issue();
    let base = format!("issue-{unlucky}");
    world.standin.push_commit(REPO, ANN, &base, "Base", &[("base.txt", Some("base\n"))]).await.unwrap();
    settings(&world, &format!("base: {base}\n")).await;
    world.ask(unlucky, "add a note");
    world.settle().await;
    let status = world.status(unlucky);
    assert!(status.contains(&format!("Working in isolated branch `{base}-2`")), "{status}");
    world.end().await;
}

#[tokio::test]
async fn what_is_kept_on_a_later_branch_is_gone_on_with_whatever_becomes_of_the_first() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    merge(&world, "issue-1", MergeMethod::Squash).await;
    reopened(&world, issue, "add a note").await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    world.standin.delete_branch(REPO, ANN, "issue-1").await.unwrap();
    let status = reopened(&world, issue, "add a word").await;
    assert!(status.contains("Continuing on existing branch `issue-1-2`, 1 commit ahead"), "{status}");
    assert_eq!(world.pull_of("issue-1-2").commits.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn in_a_merged_pull_request_people_are_told_that_it_is() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    merge(&world, "issue-1", MergeMethod::Squash).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.status(pull).contains(&format!("#{pull} is merged already")), "{}", world.status(pull));
    world.end().await;
}
