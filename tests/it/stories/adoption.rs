//! Worktrees that somebody else made: taken over where that is safe, and never doubled.

use crate::support::world::{ANN, REPO, World, git};
use serde_json::json;
use std::path::PathBuf;
use treewarden::model::*;

/// A world whose repository is here, an issue in it that nobody has worked on, and a worktree on that issue's branch that
/// a person made at `place`, with a commit in it.
async fn made_by_hand(place: impl Fn(&World) -> PathBuf) -> (World, i64, PathBuf) {
    let world = World::new().await;
    world.worked_issue("agent:noop").await;
    let issue = world.issue();
    let (canonical, place) = (world.canonical().await, place(&world));
    let branch = format!("issue-{issue}");
    git(&canonical, &["worktree", "add", "-q", "-b", &branch, place.to_str().unwrap(), "refs/remotes/origin/main"]);
    std::fs::write(place.join("by-hand.txt"), "by hand\n").unwrap();
    git(&place, &["add", "by-hand.txt"]);
    git(&place, &["commit", "-q", "-m", "By hand"]);
    (world, issue, place)
}

fn beside_ours(world: &World) -> PathBuf {
    world.home().join("worktrees/octo/hello/by-hand")
}

#[tokio::test]
async fn a_worktree_on_the_branch_is_taken_over_with_what_it_holds() {
    let (world, issue, place) = made_by_hand(beside_ours).await;
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("Took over the worktree of `issue-2`"), "{status}");
    let environment = world.environments().await.pop().unwrap();
    assert_eq!((environment.path.clone(), environment.work.to_string()), (place, "issue-2".to_owned()));
    assert_eq!(environment.metadata.adopted_from, Some(AdoptedFrom::Branch));
    assert_eq!(world.remote_file("issue-2", "by-hand.txt").await.as_deref(), Some("by hand\n"));
    let worktrees = git(&world.canonical().await, &["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("locked treewarden").count(), 2, "{worktrees}");

    // Somebody else's branch is not deleted, whatever is proven.
    let pull = world.pull_of("issue-2").number;
    world.standin.set_draft(REPO, ANN, pull, false).unwrap();
    world.standin.merge(REPO, ANN, pull, treewarden::demo::github::MergeMethod::Merge).await.unwrap();
    world.settle().await;
    assert!(!environment.path.exists());
    assert!(world.local_tip("issue-2").await.is_some());
    world.end().await;
}

#[tokio::test]
async fn one_that_may_not_be_taken_over_is_left_alone_and_said() {
    let outside = made_by_hand(|world| world.dir.path().join("elsewhere")).await;
    let dirty = made_by_hand(beside_ours).await;
    std::fs::write(dirty.2.join("private.txt"), "not for everybody\n").unwrap();
    let locked = made_by_hand(beside_ours).await;
    git(&locked.0.canonical().await, &["worktree", "lock", "--reason", "mine", locked.2.to_str().unwrap()]);
    for (world, issue, place) in [outside, dirty, locked] {
        world.ask(issue, "add a note");
        world.settle().await;
        let status = world.status(issue);
        assert!(status.starts_with("❌ **Failed**"), "{status}");
        assert!(status.contains("in use in a worktree that I did not make"), "{status}");
        assert_eq!(world.environments().await.len(), 1);
        assert!(place.join("by-hand.txt").exists());
        // When it is gone, the branch is simply continued.
        git(&world.canonical().await, &["worktree", "remove", "-f", "-f", place.to_str().unwrap()]);
        world.ask(issue, "add a note");
        world.settle().await;
        assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
        world.end().await;
    }
}

#[tokio::test]
async fn a_place_of_old_becomes_an_environment_with_the_first_mention() {
    let world = World::new().await;
    world.worked_issue("agent:noop").await;
    let issue = world.issue();
    world.ask(issue, "/status");
    world.settle().await;
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    let thread = world.store().find_conversation(codebase.id, ThreadNumber(issue)).await.unwrap().unwrap();
    let place = beside_ours(&world);
    let add = ["worktree", "add", "-q", "-b", "old-name", place.to_str().unwrap(), "refs/remotes/origin/main"];
    git(&world.canonical().await, &add);
    let key = format!("legacy/{}", thread.id);
    world.store().set_setting(&key, &json!({"path": place}), Timestamp::from_unix(1_772_323_200)).await.unwrap();

    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("Took over the worktree of `old-name`"), "{status}");
    let environment = world.environments().await.pop().unwrap();
    assert_eq!((environment.path, environment.branch.as_str()), (place, "old-name"));
    assert!(environment.metadata.migrated);
    assert_eq!(world.store().legacy_path(thread.id).await.unwrap(), None, "settled");
    world.end().await;
}

#[tokio::test]
async fn a_worktree_asked_for_by_its_branch_follows_the_same_rules() {
    let (world, _, place) = made_by_hand(beside_ours).await;
    let thread = world.issue();
    std::fs::write(place.join("private.txt"), "not for everybody\n").unwrap();
    world.ask(thread, "/worktree create issue-2");
    world.settle().await;
    assert!(world.answer(thread).contains("may not take over"), "{}", world.answer(thread));
    assert_eq!(world.environments().await.len(), 1);
    std::fs::remove_file(place.join("private.txt")).unwrap();
    world.ask(thread, "/worktree create issue-2");
    world.settle().await;
    let answer = world.answer(thread);
    assert!(answer.contains("Took over the worktree of `issue-2`") && answer.contains("**task-issue-2**"), "{answer}");
    let made = world.environments().await.pop().unwrap();
    assert_eq!((made.path, made.metadata.foreign_branch), (place, true));
    world.end().await;
}

/// As an import leaves it: nobody knew where its work is to go.
#[tokio::test]
async fn an_environment_without_a_base_gets_one_and_delivers() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let mut environment = world.environment().await;
    environment.base = None;
    world.store().update_environment(&environment).await.unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.pull_of("issue-1").base_branch, "main");
    world.end().await;
}
