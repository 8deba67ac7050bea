//! What a removal takes to the trash without being asked: files that git ignores, and what was written at the last moment.

use super::commands::answered;
use crate::support::world::{ANN, REPO, World, git};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};
use treewarden::{agent::process::RUN_MARK, model::*};

/// BR-006
#[tokio::test]
async fn ignored_files_go_to_the_trash_and_come_back() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let note = environment.path.join("debug.log");
    fs::write(&note, "notes of hours\n").unwrap();
    fs::set_permissions(&note, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(answered(&world, issue, "/status").await.contains("`debug.log`: they go to the trash with the worktree"));
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    let told = world.answer(issue);
    assert!(told.starts_with("🧹") && told.contains("; a file that git ignores goes to the trash."), "{told}");
    assert!(told.contains("A file that git ignores is kept until"), "{told}");
    assert_eq!(told.lines().filter(|line| !line.is_empty()).count(), 2, "one line and the marker: {told}");
    assert!(!note.exists());
    let page = world.page(&format!("/environments/{}", environment.id)).await;
    assert!(page.contains("Files that git ignores"), "{page}");

    world.standin.reopen(REPO, ANN, issue).unwrap();
    let back = answered(&world, issue, "/worktree restore issue-1").await;
    assert!(back.contains("is there again, as it was"), "{back}");
    assert_eq!(fs::read_to_string(&note).unwrap(), "notes of hours\n");
    assert_eq!(fs::metadata(&note).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(git(&environment.path, &["status", "--porcelain"]), "");
    world.end().await;
}

/// BR-006: above the cap they keep the worktree, by force, too; a pass that only looks says the same.
#[tokio::test]
async fn more_ignored_files_than_the_trash_takes_keep_the_worktree() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let path = world.environment().await.path;
    fs::write(path.join("debug.log"), "notes\n").unwrap();
    let dump = fs::File::create(path.join("dump.log")).unwrap();
    dump.set_len(256 * 1024 * 1024).unwrap();
    let why = "257 MB of files that git ignores, more than the 256 MB that go to the trash with a worktree; the largest is `dump.log`";
    for words in ["/worktree remove", "/worktree remove --force"] {
        let refused = answered(&world, issue, words).await;
        assert!(refused.contains(why) && refused.contains("Nothing was removed."), "{refused}");
    }
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(world.answer(issue).contains(why), "{}", world.answer(issue));
    for report in [world.dry_run().await, world.pass().await] {
        assert!(
            matches!(&report.lines[0].result, ReportResult::Kept(reasons) if reasons[0].contains(why)),
            "{report:?}"
        );
    }
    dump.set_len(0).unwrap();
    let dry = world.dry_run().await.lines.remove(0).result;
    let ReportResult::Removed(said) = &dry else { panic!("{dry:?}") };
    assert!(said.ends_with("; 2 files that git ignores go to the trash"), "{said}");
    assert_eq!(world.pass().await.lines.remove(0).result, dry);
    assert!(!path.exists());
    world.end().await;
}

/// A kill, and a program that wrote on through a directory it had open: as they leave it after the receipt was written.
#[tokio::test]
async fn what_was_written_at_the_last_moment_is_told_and_comes_back() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let canonical = world.canonical().await;
    assert!(answered(&world, issue, "/worktree remove").await.starts_with("🧹"));
    let files = world.home().join("trash").join(environment.id.to_string());
    world.until("the files to go", || async { (!files.exists()).then_some(()) }).await;
    let told = world.answers(issue).len();

    git(&canonical, &["worktree", "add", "-q", "--detach", files.to_str().unwrap(), "refs/heads/issue-1"]);
    let apart = canonical.join("treewarden-removed").join(environment.id.to_string());
    fs::rename(canonical.join("worktrees").join(environment.id.to_string()), &apart).unwrap();
    fs::write(files.join("late"), "at the last moment\n").unwrap();
    let mut writer = Command::new("sleep").arg("600").current_dir(&files).spawn().unwrap();
    world.look_through_trash().await;
    let receipt = async || world.store().receipt_of(environment.id).await.unwrap().unwrap().details;
    let held_up = receipt().await.held_up.unwrap();
    assert!(held_up.contains("still at work") && files.join("late").exists(), "{held_up}");
    assert!(world.page(&format!("/environments/{}", environment.id)).await.contains("Not deleted yet"));
    writer.kill().unwrap();
    writer.wait().unwrap();

    for _ in 0..2 {
        world.look_through_trash().await;
        world.settle().await;
        assert!(!files.exists() && !apart.exists());
        assert_eq!(receipt().await.held_up, None);
        assert_eq!(world.answers(issue).len(), told + 1);
    }
    let late = world.answer(issue);
    assert!(late.starts_with("🧹 Something was still written in the worktree of `issue-1`"), "{late}");
    assert!(late.contains("What was not committed is kept until"), "{late}");
    assert!(late.contains("`/worktree restore issue-1`"), "{late}");
    answered(&world, issue, "/worktree restore issue-1").await;
    let back = fs::read_to_string(environment.path.join("late")).unwrap();
    assert_eq!(back, "at the last moment\n");
    world.end().await;
}

/// As a kill leaves it after the receipt was written: the files of a removed worktree are in the trash, with its entry.
async fn back_in_the_trash(world: &World, environment: &Environment) -> PathBuf {
    let canonical = world.canonical().await;
    let files = world.home().join("trash").join(environment.id.to_string());
    world.until("the files to go", || async { (!files.exists()).then_some(()) }).await;
    let apart = canonical.join("treewarden-removed").join(environment.id.to_string());
    world.until("their entry to go", || async { (!apart.exists()).then_some(()) }).await;
    git(&canonical, &["worktree", "add", "-q", "--detach", files.to_str().unwrap(), "refs/heads/issue-1"]);
    fs::rename(canonical.join("worktrees").join(environment.id.to_string()), &apart).unwrap();
    files
}

/// Somebody wants it back at once, and hears that all of it is not there yet.
#[tokio::test]
async fn what_is_kept_after_a_worktree_came_back_comes_back_too() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    assert!(answered(&world, issue, "/worktree remove").await.starts_with("🧹"));
    let files = back_in_the_trash(&world, &environment).await;
    fs::write(files.join("late"), "at the last moment\n").unwrap();
    let mut writer = Command::new("sleep").arg("600").current_dir(&files).spawn().unwrap();
    let back = answered(&world, issue, "/worktree restore issue-1").await;
    assert!(back.contains("at the very last may be missing") && back.contains("Nothing is lost"), "{back}");
    assert!(!environment.path.join("late").exists());
    writer.kill().unwrap();
    writer.wait().unwrap();
    world.look_through_trash().await;
    world.settle().await;
    assert!(world.answer(issue).contains("`/worktree restore issue-1` brings that back"), "{}", world.answer(issue));
    let more = answered(&world, issue, "/worktree restore issue-1").await;
    assert!(more.contains("More was kept") && more.contains("`/worktree remove issue-1`"), "{more}");
    assert!(answered(&world, issue, "/worktree remove issue-1").await.starts_with("🧹"));
    let back = answered(&world, issue, "/worktree restore issue-1").await;
    assert!(back.contains("is there again, as it was") && !back.contains("may be missing"), "{back}");
    assert_eq!(fs::read_to_string(environment.path.join("late")).unwrap(), "at the last moment\n");
    world.end().await;
}

/// Trying again does not change it, so somebody has to hear of it.
#[tokio::test]
async fn files_that_only_a_person_can_let_go_of_are_told_of_and_looked_at_now_and_then() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    assert!(answered(&world, issue, "/worktree remove").await.starts_with("🧹"));
    let files = back_in_the_trash(&world, &environment).await;
    git(&files, &["init", "-q", "inner"]);
    let told = world.answers(issue).len();
    for _ in 0..2 {
        world.look_through_trash().await;
        world.settle().await;
        assert_eq!(world.answers(issue).len(), told + 1);
    }
    let held = world.answer(issue);
    assert!(held.contains("are not deleted yet") && held.contains("a repository lies in inner"), "{held}");
    assert!(held.contains(&format!("under `{}`", environment.id)) && held.contains("Nothing is lost"), "{held}");
    fs::remove_dir_all(files.join("inner")).unwrap();
    world.look_through_trash().await;
    assert!(files.exists(), "it is put off");
    world.days_pass(1);
    world.look_through_trash().await;
    world.settle().await;
    assert!(!files.exists());
    assert_eq!(world.answers(issue).len(), told + 1);
    world.end().await;
}

/// What a run left behind has nobody any more who waits for it.
#[tokio::test]
async fn what_a_run_left_at_work_is_ended_and_what_others_do_keeps() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let path = world.environment().await.path;
    let run = world.runs().await.pop().unwrap();
    let sleeping =
        |mark: &str| Command::new("sleep").arg("600").env(RUN_MARK, mark).current_dir(&path).spawn().unwrap();
    let mut others = sleeping(&uuid::Uuid::nil().to_string());
    let mut left = sleeping(&run.id.to_string());
    let refused = answered(&world, issue, "/worktree remove").await;
    assert!(refused.contains(&format!("process {} is still at work", others.id())), "{refused}");
    assert!(left.wait().unwrap().code().is_none(), "killed");
    others.kill().unwrap();
    others.wait().unwrap();
    assert!(answered(&world, issue, "/worktree remove").await.starts_with("🧹"));
    world.end().await;
}
