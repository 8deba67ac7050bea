//! Worktrees that somebody else made: taken over where that is safe, and never doubled.

use crate::support::world::{ANN, REPO, World, git};
use serde_json::json;
use std::path::{Path, PathBuf};
use treewarden::{demo::github::MergeMethod, model::*};

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
    world.merge(pull, MergeMethod::Merge).await;
    assert!(!environment.path.exists());
    assert!(world.local_tip("issue-2").await.is_some());
    world.end().await;
}

fn elsewhere(world: &World) -> PathBuf {
    world.dir.path().canonicalize().unwrap().join("another tool/w")
}

/// What git lists about the worktree at `place`.
async fn listed(world: &World, place: &Path) -> String {
    let list = git(&world.canonical().await, &["worktree", "list", "--porcelain"]);
    let entry = list.split("\n\n").find(|entry| entry.starts_with(&format!("worktree {}\n", place.display())));
    entry.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_worktree_of_another_tool_is_used_where_it_is_and_let_go_of() {
    let (world, issue, place) = made_by_hand(elsewhere).await;
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("Took over the worktree of `issue-2`"), "{status}");
    let environment = world.environments().await.pop().unwrap();
    assert_eq!((&environment.path, environment.metadata.adopted_from), (&place, Some(AdoptedFrom::Branch)));
    assert!(environment.metadata.foreign_branch);
    assert_eq!(world.remote_file("issue-2", "by-hand.txt").await.as_deref(), Some("by hand\n"));
    assert!(listed(&world, &place).await.contains("locked treewarden"));

    // It is the thread's, also after a restart, and no orphan.
    let world = world.restart(|_| {}).await;
    world.ask(issue, "agent:noop");
    world.settle().await;
    assert!(world.status(issue).contains("Working in isolated branch `issue-2`"), "{}", world.status(issue));
    world.ask(issue, "/worktree orphans");
    world.settle().await;
    let answer = world.answer(issue);
    assert!(
        answer.contains("outside of my directory, `issue-2`") && answer.contains("All of them are mine"),
        "{answer}"
    );

    // Let go of by command, and taken over again.
    world.ask(issue, "/worktree remove");
    world.settle().await;
    assert!(world.answer(issue).contains("was let go of"), "{}", world.answer(issue));
    assert!(place.join("by-hand.txt").exists() && !listed(&world, &place).await.contains("locked"));
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert!(world.status(issue).contains("Took over the worktree"), "{}", world.status(issue));
    let environment = world.environments().await.into_iter().find(|each| each.path == place).unwrap();

    let pull = world.pull_of("issue-2").number;
    world.merge(pull, MergeMethod::Merge).await;
    let told = world.answer(issue);
    assert!(told.contains("was let go of") && told.contains("stay where they are, and I unlocked it"), "{told}");
    assert!(!told.contains(place.to_str().unwrap()), "{told}");
    assert!(world.environments().await.iter().all(|left| left.id != environment.id));
    let receipt = world.store().receipt_of(environment.id).await.unwrap().unwrap();
    assert!(receipt.details.released && receipt.details.bytes_freed.is_none() && !receipt.details.branch_deleted);
    assert!(place.join("by-hand.txt").exists() && git(&place, &["status", "--porcelain"]).is_empty());
    let entry = listed(&world, &place).await;
    assert!(entry.contains("branch refs/heads/issue-2") && !entry.contains("locked"), "{entry}");

    // Its branch is merged now, so it is taken over no more.
    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, "add a greeting");
    world.settle().await;
    let newest = world.environments().await.into_iter().find(|each| each.branch.as_str() == "issue-2-2").unwrap();
    assert!(newest.path.starts_with(world.home()), "{newest:?}");
    world.end().await;
}

#[tokio::test]
async fn one_that_its_maker_took_away_is_forgotten_and_stays_listed() {
    let (world, issue, place) = made_by_hand(elsewhere).await;
    world.ask(issue, "add a note");
    world.settle().await;
    std::fs::remove_dir_all(&place).unwrap();
    world.ask(issue, "agent:noop");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**") && status.contains("its files are gone"), "{status}");
    assert_eq!(world.environments().await.len(), 1);
    let entry = listed(&world, &place).await;
    assert!(entry.contains("prunable") && !entry.contains("locked"), "{entry}");
    git(&world.canonical().await, &["worktree", "prune", "--expire=now"]);
    world.ask(issue, "agent:noop");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert!(world.environments().await.pop().unwrap().path.starts_with(world.home()));
    world.end().await;
}

#[tokio::test]
async fn one_that_may_not_be_taken_over_is_left_alone_and_said_why() {
    let mut cases = Vec::new();
    for beside in [beside_ours, elsewhere] {
        let dirty = made_by_hand(beside).await;
        std::fs::write(dirty.2.join("private.txt"), "not for everybody\n").unwrap();
        cases.push((dirty, "it holds something uncommitted"));
        let locked = made_by_hand(beside).await;
        git(&locked.0.canonical().await, &["worktree", "lock", "--reason", "mine", locked.2.to_str().unwrap()]);
        cases.push((locked, "somebody locked it (mine)"));
        let merging = made_by_hand(beside).await;
        git(&merging.2, &["merge", "-q", "--no-ff", "--no-commit", "-s", "ours", &unrelated(&merging.2)]);
        cases.push((merging, "a merge or the like is under way in it"));
    }
    let home = made_by_hand(|world| world.home().canonicalize().unwrap().join("agents/w")).await;
    cases.push((home, "holds, or lies in, a directory of mine"));
    let around = made_by_hand(|world| world.dir.path().canonicalize().unwrap().join("w")).await;
    let real = around.0.dir.path().canonicalize().unwrap();
    std::fs::rename(&around.2, real.join("moved")).unwrap();
    std::os::unix::fs::symlink(real.join("moved"), &around.2).unwrap();
    cases.push((around, "no directory is there"));
    let gone = made_by_hand(elsewhere).await;
    std::fs::remove_dir_all(&gone.2).unwrap();
    cases.push((gone, "its files are gone"));
    for ((world, issue, place), why) in cases {
        world.ask(issue, "add a note");
        world.settle().await;
        let status = world.status(issue);
        assert!(status.starts_with("❌ **Failed**"), "{status}");
        assert!(status.contains("in use in a worktree that I did not make") && status.contains(why), "{why}: {status}");
        assert!(!status.contains(place.to_str().unwrap()), "{status}");
        assert_eq!(world.environments().await.len(), 1);
        assert!(!listed(&world, &place).await.contains("locked treewarden"));
        // When it is gone, the branch is simply continued.
        if place.is_symlink() {
            std::fs::remove_file(&place).unwrap();
        }
        git(&world.canonical().await, &["worktree", "remove", "-f", "-f", place.to_str().unwrap()]);
        world.ask(issue, "add a note");
        world.settle().await;
        assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
        world.end().await;
    }
}

/// A world as in [`made_by_hand`], whose worktree stands where Treewarden's own would.
async fn in_our_place() -> (World, i64, PathBuf) {
    made_by_hand(|world| world.home().canonicalize().unwrap().join("worktrees/octo/hello/issue-2")).await
}

#[tokio::test]
async fn one_in_the_very_place_is_taken_over_on_its_branch_only() {
    let (world, issue, place) = in_our_place().await;
    let refused = async |on: &str| {
        let tip = git(&place, &["rev-parse", "HEAD"]);
        for command in ["add a note", "/worktree create issue-2"] {
            world.ask(issue, command);
            world.settle().await;
        }
        for told in [world.status(issue), world.answer(issue)] {
            assert!(told.contains("stands where that of `issue-2` belongs, and is not on this branch"), "{told}");
            assert!(told.contains(on) && told.contains("`git worktree move`"), "{told}");
            assert!(!told.contains(place.to_str().unwrap()), "{told}");
        }
        assert_eq!(world.environments().await.len(), 1, "no row is left that would go on with it");
        assert_eq!(git(&place, &["rev-parse", "HEAD"]), tip);
        assert!(place.join("by-hand.txt").exists() && !listed(&world, &place).await.contains("locked"));
    };
    git(&place, &["switch", "-q", "-c", "precious"]);
    refused(", but on `precious`").await;
    git(&place, &["switch", "-q", "--detach"]);
    refused("not on this branch (").await;

    // As the answer says.
    git(&place, &["switch", "-q", "issue-2"]);
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).contains("Took over the worktree of `issue-2`"), "{}", world.status(issue));
    let environment = world.environments().await.pop().unwrap();
    assert_eq!((&environment.path, environment.metadata.adopted_from), (&place, Some(AdoptedFrom::Path)));
    assert_eq!(world.remote_file("issue-2", "by-hand.txt").await.as_deref(), Some("by hand\n"));
    world.end().await;
}

#[tokio::test]
async fn one_moved_out_of_the_place_makes_room_for_ours() {
    let (world, issue, place) = in_our_place().await;
    git(&place, &["switch", "-q", "-c", "precious"]);
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with("❌ **Failed**"), "{}", world.status(issue));
    let other = elsewhere(&world);
    std::fs::create_dir_all(other.parent().unwrap()).unwrap();
    git(&world.canonical().await, &["worktree", "move", place.to_str().unwrap(), other.to_str().unwrap()]);
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    let environment = world.environments().await.pop().unwrap();
    assert_eq!((environment.path, environment.metadata.adopted_from), (place, None));
    assert_eq!(git(&other, &["branch", "--show-current"]), "precious");
    world.end().await;
}

#[tokio::test]
async fn what_is_no_worktree_and_stands_in_the_place_is_left_as_it_is() {
    let world = World::new().await;
    let issue = world.issue();
    let place = world.home().join("worktrees/octo/hello/issue-1");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("precious.txt"), "mine\n").unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**") && status.contains("has to be moved away first"), "{status}");
    assert!(world.environments().await.is_empty());
    assert_eq!(world.local_tip("issue-1").await, None);
    assert_eq!(std::fs::read_to_string(place.join("precious.txt")).unwrap(), "mine\n");
    std::fs::remove_dir_all(&place).unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.end().await;
}

/// A commit beside the branch, to be merged.
fn unrelated(place: &Path) -> String {
    let tree = git(place, &["rev-parse", "HEAD^{tree}"]);
    git(place, &["commit-tree", "-p", "HEAD~1", "-m", "Beside", &tree])
}

/// Lets `issue`, which the bot has heard of, wait for a place of old on the branch `old-name`, as an import does.
async fn with_place_of_old(world: &World, issue: i64) -> (ConversationId, PathBuf) {
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    let thread = world.store().find_conversation(codebase.id, ThreadNumber(issue)).await.unwrap().unwrap();
    let place = beside_ours(world);
    let add = ["worktree", "add", "-q", "-b", "old-name", place.to_str().unwrap(), "refs/remotes/origin/main"];
    git(&world.canonical().await, &add);
    let key = format!("legacy/{}", thread.id);
    world.store().set_setting(&key, &json!({"path": place}), Timestamp::from_unix(1_772_323_200)).await.unwrap();
    (thread.id, place)
}

/// A fresh issue for which such a place waits.
async fn imported_without_environment() -> (World, i64, ConversationId, PathBuf) {
    let world = World::new().await;
    world.worked_issue("agent:noop").await;
    let issue = world.issue();
    world.ask(issue, "/status");
    world.settle().await;
    let (thread, place) = with_place_of_old(&world, issue).await;
    (world, issue, thread, place)
}

#[tokio::test]
async fn a_place_of_old_is_taken_over_with_what_its_thread_left_there() {
    let (world, issue, thread, place) = imported_without_environment().await;
    std::fs::write(place.join("begun.txt"), "begun\n").unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("Something in it was not committed yet"), "{status}");
    let environment = world.environments().await.pop().unwrap();
    assert_eq!((&environment.path, environment.metadata.adopted_from), (&place, Some(AdoptedFrom::Legacy)));
    assert_eq!(world.remote_file("old-name", "begun.txt").await.as_deref(), Some("begun\n"));
    assert_eq!(world.store().legacy_path(thread).await.unwrap(), None, "settled");
    world.end().await;
}

/// The thread's own environment is gone; the place where it worked before is there.
#[tokio::test]
async fn a_place_of_old_comes_before_a_row_whose_worktree_is_gone() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let gone = world.environment().await;
    let (thread, place) = with_place_of_old(&world, issue).await;
    world.store().set_conversation_environment(thread, None, Timestamp::from_unix(1_772_323_200)).await.unwrap();
    std::fs::remove_dir_all(&gone.path).unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("Took over the worktree of `old-name`"), "{status}");
    let left = world.environments().await;
    assert_eq!(left.iter().map(|left| &left.path).collect::<Vec<_>>(), [&place]);
    assert_eq!(world.store().legacy_path(thread).await.unwrap(), None, "settled");
    world.end().await;
}

#[tokio::test]
async fn a_place_of_old_becomes_an_environment_with_the_first_mention() {
    let (world, issue, thread, place) = imported_without_environment().await;
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("Took over the worktree of `old-name`"), "{status}");
    let environment = world.environments().await.pop().unwrap();
    assert_eq!((environment.path, environment.branch.as_str()), (place, "old-name"));
    assert!(environment.metadata.migrated);
    assert_eq!(world.store().legacy_path(thread).await.unwrap(), None, "settled");
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

/// Merged into another base than the default branch, the issue stays open.
#[tokio::test]
async fn one_whose_branch_was_merged_is_let_go_of_before_the_next_run() {
    let (world, issue, place) = made_by_hand(elsewhere).await;
    world.ask(issue, "add a note");
    world.settle().await;
    let pull = world.pull_of("issue-2").number;
    world.standin.edit(REPO, ANN, pull, None, Some("No issue.")).unwrap();
    world.merge(pull, MergeMethod::Squash).await;
    assert!(world.standin.issue(REPO, issue).unwrap().open);
    world.ask(issue, "add a greeting");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("`issue-2-2`"), "{status}");
    assert!(status.contains("I let go of its worktree, which stays where somebody else made it"), "{status}");
    assert!(place.join("by-hand.txt").exists() && !listed(&world, &place).await.contains("locked"));
    world.end().await;
}

/// The older schema had a kind of its own for these.
#[tokio::test]
async fn an_imported_review_is_its_pull_requests_and_goes_with_it() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    let issue = world.worked_issue("agent:noop").await;
    let place = beside_ours(&world);
    let add = ["worktree", "add", "-q", "-b", "feature/x", place.to_str().unwrap(), "refs/remotes/origin/feature/x"];
    git(&world.canonical().await, &add);
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    let (now, work) = (codebase.created_at, Work { kind: WorkKind::Review, id: pull.to_string() });
    let review = EnvironmentImport {
        row: OldName { table: OldTable::IsolationEnvironments, id: "1".to_owned(), about: work.to_string() },
        repository: codebase.host.repository(),
        work: work.clone(),
        branch: BranchName::new("feature/x").unwrap(),
        path: place.clone(),
        metadata: EnvironmentMetadata { migrated: true, foreign_branch: true, ..EnvironmentMetadata::default() },
        created_at: now,
        last_activity_at: now,
    };
    let plan = ImportPlan { environments: vec![review], ..ImportPlan::default() };
    assert_eq!(world.store().import(&plan, true, now).await.unwrap().environments, [Import::Taken]);

    // Shown to everybody, and linked by its name.
    world.ask(issue, "/worktree list");
    world.settle().await;
    assert!(world.answer(issue).contains(&work.to_string()), "{}", world.answer(issue));

    world.ask(pull, "add a note");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.starts_with('✅') && status.contains("isolated branch `feature/x`"), "{status}");
    let review = world.environments().await.into_iter().find(|live| live.work == work).unwrap();
    assert_eq!((world.environments().await.len(), &review.path), (2, &place), "no second one");
    assert!(world.remote_file("feature/x", "NOTES.md").await.is_some_and(|notes| notes.contains("add a note")));

    world.merge(pull, MergeMethod::Squash).await;
    assert!(world.answer(pull).contains("was removed"), "{}", world.answer(pull));
    assert!(!place.exists() && world.environments().await.iter().all(|live| live.work != work));
    world.end().await;
}
