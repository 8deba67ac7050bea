//! Nothing is lost, even by force: what was not committed goes to the trash, and comes back as it was.

use super::commands::answered;
use crate::support::world::{World, git};
use std::{fs, os::unix::fs::PermissionsExt};
use treewarden::model::*;

const LIST: &[&str] = &["for-each-ref", "--format=%(refname)", "refs/treewarden/trash/"];

/// BR-025
#[tokio::test]
async fn what_was_removed_by_force_comes_back_as_it_was() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let before = world.environment().await;
    let read = |name: &str| fs::read(before.path.join(name)).unwrap();
    fs::write(before.path.join("README.md"), "half done\r\n").unwrap();
    fs::write(before.path.join("staged"), "once\n").unwrap();
    git(&before.path, &["add", "staged"]);
    fs::write(before.path.join("staged"), "twice\n").unwrap();
    fs::write(before.path.join(".gitignore"), ".env\ntarget/\n").unwrap();
    fs::write(before.path.join(".env"), "KEY=1").unwrap();
    fs::set_permissions(before.path.join(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(before.path.join("target")).unwrap();
    fs::write(before.path.join("target/cache"), "again").unwrap();
    let status = git(&before.path, &["status", "--porcelain"]);

    let refused = answered(&world, issue, "/worktree remove").await;
    assert!(
        refused.contains("uncommitted work") && refused.contains("`/worktree remove issue-1 --force`"),
        "{refused}"
    );
    assert!(refused.contains("kept in the trash for 30 days"), "{refused}");
    let gone = answered(&world, issue, "/worktree remove --force").await;
    assert!(
        gone.starts_with("🧹") && gone.contains("What was not committed, and 1 file that git ignores, are kept until"),
        "{gone}"
    );
    assert!(gone.contains(": `/worktree restore issue-1` brings that back"), "{gone}");
    assert!(!before.path.exists() && world.environments().await.is_empty());

    let back = answered(&world, issue, &format!("/worktree restore {}", before.work)).await;
    assert!(back.contains("What went to the trash is there again, as it was."), "{back}");
    let after = world.environment().await;
    assert_eq!((&after.path, &after.branch, &after.work), (&before.path, &before.branch, &before.work));
    assert_eq!(git(&after.path, &["status", "--porcelain"]), status);
    assert_eq!(
        (read("README.md"), read("staged"), read(".env")),
        (b"half done\r\n".into(), b"twice\n".into(), b"KEY=1".into())
    );
    assert_eq!(git(&after.path, &["show", ":staged"]), "once");
    assert_eq!(fs::metadata(after.path.join(".env")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!after.path.join("target").exists(), "a tool fills it again");

    let again = answered(&world, issue, &format!("/worktree restore {}", before.work)).await;
    assert!(again.contains("This thread goes on in the worktree"), "{again}");
    // Somebody deletes the directory by hand: what the trash holds is promised for its time.
    fs::remove_dir_all(&after.path).unwrap();
    let once_more = answered(&world, issue, &format!("/worktree restore {}", before.work)).await;
    assert!(once_more.contains("What went to the trash is there again, as it was."), "{once_more}");
    assert_eq!(git(&before.path, &["status", "--porcelain"]), status);
    world.ask(issue, "go on");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded, RunState::Succeeded]);
    assert_eq!(world.remote_file("issue-1", "staged").await.as_deref(), Some("twice\n"));
    world.end().await;
}

/// The thread goes on before somebody thinks of what is in the trash.
#[tokio::test]
async fn what_the_branch_has_changed_since_is_named_and_can_be_asked_for_again() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let before = world.environment().await;
    fs::write(before.path.join("README.md"), "mine\n").unwrap();
    fs::write(before.path.join("new"), "mine\n").unwrap();
    answered(&world, issue, "/worktree remove --force").await;
    world
        .standin
        .push_commit("octo/hello", "ann", "issue-1", "More", &[("README.md", Some("theirs\n"))])
        .await
        .unwrap();
    world.ask(issue, "go on");
    world.settle().await;
    for _ in 0..2 {
        assert!(answered(&world, issue, "/worktree remove").await.starts_with("🧹"));
        let back = answered(&world, issue, &format!("/worktree restore {}", before.work)).await;
        assert!(back.contains("apart from `README.md`, which the branch has changed since"), "{back}");
        let path = world.environment().await.path;
        assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "theirs\n");
        assert_eq!(fs::read_to_string(path.join("new")).unwrap(), "mine\n");
        fs::remove_file(path.join("new")).unwrap();
    }
    world.end().await;
}

#[tokio::test]
async fn a_branch_that_was_deleted_is_restored_without_anything_uncommitted() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "/worktree create spike");
    world.settle().await;
    let gone = answered(&world, issue, "/worktree remove --force").await;
    assert!(gone.contains("was deleted") && !gone.contains("not committed"), "{gone}");
    assert!(gone.contains("`/worktree restore task-spike`"), "{gone}");
    // What a removal that went no further kept is nobody's any more.
    let removed = world.all_environments().await.remove(0);
    let name = format!("refs/treewarden/trash/{}", removed.id);
    git(&world.canonical().await, &["update-ref", &name, "refs/remotes/origin/main"]);
    let never = answered(&world, issue, "/worktree restore task-other").await;
    assert!(never.contains("nothing to bring back"), "{never}");
    let back = answered(&world, issue, "/worktree restore task-spike").await;
    assert!(back.contains("**task-spike** on branch `spike`") && !back.contains("not committed"), "{back}");
    world.end().await;
}

#[tokio::test]
async fn the_trash_is_emptied_when_its_time_is_over() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    fs::write(environment.path.join("new"), "1").unwrap();
    answered(&world, issue, "/worktree remove --force").await;
    let canonical = world.canonical().await;
    // Whoever can write objects and refs there leaves one of a time that nobody can reckon with.
    let tree = git(&canonical, &["write-tree"]);
    let odd = format!("tree {tree}\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 900000000000000000 +0000\n\nodd\n");
    fs::write(world.home().join("odd"), odd).unwrap();
    let file = world.home().join("odd");
    let odd = git(&canonical, &["hash-object", "-t", "commit", "-w", "--literally", file.to_str().unwrap()]);
    let name = format!("refs/treewarden/trash/{}", uuid::Uuid::nil());
    git(&canonical, &["update-ref", &name, &odd]);
    world.days_pass(28);
    world.pass().await;
    world.days_pass(1);
    world.pass().await;
    assert_eq!(git(&canonical, LIST), format!("refs/treewarden/trash/{}", environment.id));
    world.days_pass(2);
    world.pass().await;
    assert_eq!(git(&canonical, LIST), "");
    let back = answered(&world, issue, "/worktree restore issue-1").await;
    assert!(back.contains("only its commits are back"), "{back}");
    assert!(!world.environment().await.path.join("new").exists());
    world.end().await;
}

/// Somebody holds one of the refs.
#[tokio::test]
async fn what_cannot_be_emptied_stops_nothing_else() {
    let world = World::new().await;
    let mut removed = Vec::new();
    for _ in 0..2 {
        let issue = world.worked_issue("add a greeting").await;
        let environment = world.environment().await;
        fs::write(environment.path.join("new"), "1").unwrap();
        answered(&world, issue, "/worktree remove --force").await;
        removed.push(environment.id);
    }
    let canonical = world.canonical().await;
    let first = format!("refs/treewarden/trash/{}", removed[0]);
    let in_the_way = canonical.join(format!("{first}.lock"));
    let held = fs::File::create(&in_the_way).unwrap();
    let both = git(&canonical, LIST);
    world.days_pass(31);
    world.pass().await;
    assert_eq!(git(&canonical, LIST), both, "the clock may only have been set ahead");
    world.days_pass(1);
    world.pass().await;
    assert_eq!(git(&canonical, LIST), first);
    drop(held);
    fs::remove_file(&in_the_way).unwrap();
    world.pass().await;
    assert_eq!(git(&canonical, LIST), "");
    world.end().await;
}

/// A refusal leaves nothing behind: the branch comes back with the worktree.
#[tokio::test]
async fn a_branch_does_not_come_back_without_its_worktree() {
    let world = World::with(&[("MAX_WORKTREES_PER_CODEBASE", "1")]).await;
    let issue = world.issue();
    answered(&world, issue, "/worktree create spike").await;
    let path = world.environment().await.path;
    git(&path, &["commit", "-q", "--allow-empty", "-m", "Mine"]);
    let tip = git(&path, &["rev-parse", "HEAD"]);
    assert!(answered(&world, issue, "/worktree remove").await.starts_with("🧹"));
    let canonical = world.canonical().await;
    git(&canonical, &["update-ref", "-d", "refs/heads/spike"]);
    answered(&world, issue, "/worktree create other").await;
    let full = answered(&world, issue, "/worktree restore task-spike").await;
    assert!(full.contains("(limit reached)"), "{full}");
    assert_eq!(git(&canonical, &["for-each-ref", "refs/heads/spike"]), "");
    assert!(answered(&world, issue, "/worktree remove other").await.starts_with("🧹"));
    let back = answered(&world, issue, "/worktree restore task-spike").await;
    assert!(back.contains("**task-spike** on branch `spike`"), "{back}");
    assert_eq!(git(&world.environment().await.path, &["rev-parse", "HEAD"]), tip);
    world.end().await;
}

/// BR-041
#[tokio::test]
async fn force_takes_nothing_that_the_trash_cannot_hold() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "take your time agent:sleep=600");
    world.until_agent_works().await;
    let refused = answered_now(&world, issue, "/worktree remove --force").await;
    assert!(refused.contains("a run is live or queued in it"), "{refused}");
    answered_now(&world, issue, "/stop").await;
    world.settle().await;
    let path = world.environment().await.path;
    fs::write(path.join("new"), "1").unwrap();
    let inner = path.join("inner");
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    let refused = answered(&world, issue, "/worktree remove --force").await;
    assert!(refused.contains("another repository lies inside, at `inner`"), "{refused}");
    assert!(refused.contains("Nothing was removed. What the repository inside holds has to be pushed"), "{refused}");
    fs::remove_dir_all(&inner).unwrap();
    fs::File::create(path.join("large")).unwrap().set_len(257 * 1024 * 1024).unwrap();
    let refused = answered(&world, issue, "/worktree remove --force").await;
    let why = "the trash cannot hold all that is not committed: large has 257 MB";
    assert!(refused.contains(why) && path.join("large").exists(), "{refused}");
    fs::remove_file(path.join("large")).unwrap();
    answered(&world, issue, "/worktree pin").await;
    let refused = answered(&world, issue, "/worktree remove --force").await;
    assert!(refused.contains("it is pinned") && path.join("new").exists(), "{refused}");
    assert!(refused.contains("`/worktree unpin` in its thread ends the pin."), "{refused}");
    world.end().await;
}

/// While a run is live, nothing settles.
pub async fn answered_now(world: &World, thread: i64, words: &str) -> String {
    let before = world.answers(thread).len();
    world.ask(thread, words);
    world.until(words, || async { (world.answers(thread).len() > before).then_some(()) }).await;
    world.answer(thread)
}

/// The pull request's worktree has the issue's branch, and is another one.
#[tokio::test]
async fn a_name_of_work_counts_before_a_branch() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    fs::write(world.environment().await.path.join("new"), "mine\n").unwrap();
    answered(&world, issue, "/worktree remove --force").await;
    let pull = world.pull_of("issue-1").number;
    world.ask(pull, "go on");
    world.settle().await;
    assert!(answered(&world, pull, "/worktree remove").await.starts_with("🧹"));
    let back = answered(&world, issue, "/worktree restore issue-1").await;
    assert!(back.contains("**issue-1**") && back.contains("is there again, as it was"), "{back}");
    assert_eq!(fs::read_to_string(world.environment().await.path.join("new")).unwrap(), "mine\n");
    world.end().await;
}
