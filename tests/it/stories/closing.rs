//! Threads that are closed, merged or opened again.

use crate::support::world::{ANN, REPO, World, git};
use std::{
    process::{Child, Command},
    time::Duration,
};
use treewarden::{
    demo::github::{Fault, MergeMethod},
    model::*,
};

#[tokio::test]
async fn closing_without_merging_keeps_the_branch_and_reopening_continues_on_it() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    let answer = world.answer(issue);
    assert!(answer.contains("The branch `issue-1`") && answer.contains("is kept"), "{answer}");
    assert!(!environment.path.exists() && world.environments().await.is_empty());
    assert!(world.local_tip("issue-1").await.is_some());

    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("Continuing on existing branch `issue-1`, 1 commit ahead"), "{status}");
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);
    assert_ne!(world.environment().await.id, environment.id);
    world.end().await;
}

/// Whoever may close the thread need not be one who may command.
#[tokio::test]
async fn a_thread_that_a_stranger_closes_lets_go_of_its_worktree_as_well() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    world.standin.close(REPO, "stranger", issue).unwrap();
    world.settle().await;
    assert!(!environment.path.exists() && world.environments().await.is_empty());
    assert_eq!(world.store().list_receipts(10).await.unwrap().len(), 1);
    world.end().await;
}

#[tokio::test]
async fn a_thread_that_never_met_the_bot_leaves_no_trace() {
    let world = World::new().await;
    let met = world.worked_issue("add a greeting").await;
    let before = world.store().list_audit(100).await.unwrap().len();
    let unmet = world.issue();
    let comment = world.standin.comment(REPO, ANN, unmet, "by the way").unwrap();
    world.standin.delete_comment(REPO, ANN, comment).unwrap();
    world.standin.close(REPO, ANN, unmet).unwrap();
    world.standin.reopen(REPO, ANN, unmet).unwrap();
    world.standin.close(REPO, ANN, unmet).unwrap();
    world.settle().await;
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    assert!(world.store().find_conversation(codebase.id, ThreadNumber(unmet)).await.unwrap().is_none());
    assert!(world.store().find_conversation(codebase.id, ThreadNumber(met)).await.unwrap().is_some());
    assert_eq!(world.store().list_audit(100).await.unwrap().len(), before);

    // First met when it is closed already: no close will ever come.
    world.ask(unmet, "add a note");
    world.settle().await;
    let thread = world.store().find_conversation(codebase.id, ThreadNumber(unmet)).await.unwrap().unwrap();
    assert_eq!(thread.state, ThreadState::Closed);
    assert!(world.environments().await.iter().all(|live| live.work.id != unmet.to_string()));
    assert!(world.local_tip(&format!("issue-{unmet}")).await.is_some(), "the work is kept on its branch");
    world.end().await;
}

/// BR-171: Its lease ends with the run, and that is no loss of it to anybody.
#[tokio::test]
async fn a_thread_that_is_closed_during_its_run_is_looked_after_however_long_that_takes() {
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", "sleep 600")]).await;
    let (closed, other) = (world.issue(), world.issue());
    world.ask(closed, "work");
    let agent = world.until_agent_works().await.process.unwrap();
    let path = world.environment().await.path;
    world.standin.close(REPO, ANN, closed).unwrap();
    world
        .until("the close to wait for the run", || async {
            let kept = world.environment().await.metadata.kept_because;
            kept.iter().any(|why| why.starts_with("a run is live")).then_some(())
        })
        .await;

    let mut held = world.standin.faults().hold("GET", "/octo/hello.git/info/refs");
    assert!(Command::new("kill").args(["-KILL", "--", &format!("-{}", agent.group)]).status().unwrap().success());
    held.arrived().await;
    assert_eq!(world.run_states().await, [RunState::Failed]);
    // Rings for all runs of the service.
    world.ask(other, "/stop");
    world.until("an answer", || async { world.answers(other).pop() }).await;
    drop(held);
    world.settle().await;
    assert!(!path.exists() && world.environments().await.is_empty());
    assert!(world.answer(closed).starts_with("🧹 The worktree was removed"), "{}", world.answer(closed));
    world.end().await;
}

/// Anybody may leave a ref in the way of ours.
#[tokio::test]
async fn a_removal_whose_last_commit_cannot_be_kept_is_told() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let canonical = world.canonical().await;
    git(&canonical, &["update-ref", "refs/treewarden/archive", "refs/heads/issue-1"]);
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    let answer = world.answer(issue);
    assert!(answer.contains("is kept; nothing was removed") && answer.contains("refs/treewarden/archive"), "{answer}");
    let environment = world.environment().await;
    assert!(environment.state == EnvironmentState::Active && environment.path.exists());
    git(&canonical, &["update-ref", "-d", "refs/treewarden/archive"]);
    world.ask(issue, "/worktree remove");
    world.settle().await;
    assert!(world.environments().await.is_empty() && !environment.path.exists());
    world.end().await;
}

#[tokio::test]
async fn a_thread_that_is_closed_while_its_run_waits_goes_with_the_end_of_that_run() {
    let world = World::with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let (stopped, deleted) = (world.worked_issue("add a greeting").await, world.worked_issue("add a note").await);
    let other = world.issue();
    world.ask(other, "agent:sleep=600");
    world.until_agent_works().await;
    for closed in [stopped, deleted] {
        let asked = world.ask(closed, "add a readme");
        let of_it = |live: &Environment| live.work.id == closed.to_string();
        world
            .until("the run to wait", || async { world.run_states().await.contains(&RunState::Queued).then_some(()) })
            .await;
        world.standin.close(REPO, ANN, closed).unwrap();
        world
            .until("the close to wait for the run", || async {
                let environment = world.environments().await.into_iter().find(of_it)?;
                environment.metadata.kept_because.iter().any(|why| why.starts_with("a run is live")).then_some(())
            })
            .await;
        match closed == stopped {
            true => drop(world.ask(closed, "/stop")),
            false => world.standin.delete_comment(REPO, ANN, asked).unwrap(),
        }
        world
            .until("the worktree to go", || async { (!world.environments().await.iter().any(of_it)).then_some(()) })
            .await;
    }
    world.ask(other, "/stop");
    world.settle().await;
    world.end().await;
}

/// The branch that was kept here is behind the remote's by then.
#[tokio::test]
async fn a_kept_branch_takes_in_what_people_pushed_meanwhile() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(world.environments().await.is_empty());
    world.standin.push_commit(REPO, ANN, "issue-1", "Mine", &[("mine.txt", Some("mine\n"))]).await.unwrap();
    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && !status.contains("not pushed"), "{status}");
    assert!(world.environment().await.path.join("mine.txt").exists());
    assert_eq!(world.pull_of("issue-1").commits.len(), 3);
    world.end().await;
}

/// Its files cannot go to the trash, because something lies there in their place.
#[tokio::test]
async fn a_removal_that_is_stuck_is_told_and_goes_on() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let in_the_way = world.home().join("trash").join(environment.id.to_string());
    std::fs::create_dir(&in_the_way).unwrap();
    for _ in 0..2 {
        world.ask(issue, "/worktree remove");
        world.settle().await;
        let answer = world.answer(issue);
        assert!(answer.contains("stopped half-way") && answer.contains("Nothing is lost"), "{answer}");
        assert!(!answer.contains("Nothing was removed") && !answer.contains("could not be checked"), "{answer}");
    }
    let stuck = world.environment().await;
    assert_eq!(stuck.state, EnvironmentState::Removing);
    assert!(stuck.metadata.kept_because[0].contains("something at its old path"), "{stuck:?}");
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**") && status.contains("does not come to its end"), "{status}");

    std::fs::remove_dir(&in_the_way).unwrap();
    // Whatever says in the registration that somebody worked there: the row says so as well.
    for mark in ["index", "treewarden-complete"] {
        std::fs::remove_file(world.canonical().await.join("worktrees/issue-1").join(mark)).unwrap();
    }
    let world = world.restart(|_| ()).await;
    world.settle().await;
    let back = world.environment().await;
    assert_eq!((back.state, back.metadata.kept_because.len()), (EnvironmentState::Active, 0));
    world.ask(issue, "/worktree remove");
    world.settle().await;
    assert!(world.answer(issue).starts_with("🧹"), "{}", world.answer(issue));
    world.end().await;
}

/// A program that somebody left running; it ends with the story.
pub struct Program(pub Child);

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// BR-049: A program that works in the worktree keeps it, whoever asks, until it has ended.
#[tokio::test]
async fn a_removal_that_fails_is_told_and_done_once_the_cause_is_gone() {
    let world = World::new().await;
    let (named, closed) = (world.worked_issue("add a greeting").await, world.worked_issue("add a greeting").await);
    let environments = world.environments().await;
    let at_work = |environment: &Environment| {
        let program = Command::new("sleep").arg("600").current_dir(&environment.path).spawn().unwrap();
        (format!("process {} is still at work in the worktree", program.id()), Program(program))
    };
    let [(in_named, first), (in_closed, second)] = [at_work(&environments[0]), at_work(&environments[1])];
    world.ask(named, "/worktree remove");
    world.standin.close(REPO, ANN, closed).unwrap();
    world.settle().await;

    for (issue, why) in [(named, &in_named), (closed, &in_closed)] {
        let answer = world.answer(issue);
        assert!(answer.contains("kept") && answer.contains(why.as_str()), "{answer}");
    }
    assert!(world.answer(named).contains("Nothing was removed."), "{}", world.answer(named));
    for (environment, why) in environments.iter().zip([in_named, in_closed]) {
        let kept = world.store().load_environment(environment.id).await.unwrap().unwrap();
        assert_eq!((kept.state, &kept.metadata.removal), (EnvironmentState::Active, &None));
        assert_eq!(kept.metadata.kept_because, [why]);
        assert_eq!(git(&kept.path, &["status", "--porcelain"]), "");
        assert!(world.store().receipt_of(environment.id).await.unwrap().is_none());
    }

    drop((first, second));
    world.ask(named, "/worktree remove");
    world.settle().await;
    assert!(world.answer(named).starts_with("🧹"), "{}", world.answer(named));
    let report = world.pass().await;
    assert!(matches!(&report.lines[..], [line] if matches!(line.result, ReportResult::Removed(_))), "{report:?}");
    world.settle().await;
    assert!(world.environments().await.is_empty() && environments.iter().all(|gone| !gone.path.exists()));
    world.end().await;
}

/// Its files cannot go to the trash, because somebody took that away.
#[tokio::test]
async fn a_removal_that_cannot_move_the_files_is_told_and_done_later() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let (trash, elsewhere) = (world.home().join("trash"), world.dir.path().join("trash"));
    std::fs::rename(&trash, &elsewhere).unwrap();
    world.ask(issue, "/worktree remove");
    world.settle().await;
    let answer = world.answer(issue);
    assert!(answer.contains("is kept") && answer.contains("Nothing was removed."), "{answer}");
    assert!(answer.contains("moving [worktrees]/octo/hello/issue-1: No such file or directory"), "{answer}");
    let kept = world.environment().await;
    assert_eq!((kept.state, &kept.metadata.removal), (EnvironmentState::Active, &None));
    assert!(kept.path.join("hello.sh").exists());

    std::fs::rename(&elsewhere, &trash).unwrap();
    world.ask(issue, "/worktree remove");
    world.settle().await;
    assert!(world.answer(issue).starts_with("🧹"), "{}", world.answer(issue));
    assert!(world.environments().await.is_empty() && !kept.path.exists());
    world.end().await;
}

#[tokio::test]
async fn closing_with_uncommitted_work_keeps_it_and_says_so() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    std::fs::write(environment.path.join("precious.txt"), "precious\n").unwrap();
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;

    let answer = world.answer(issue);
    assert!(answer.starts_with("Cannot remove worktree - you have uncommitted changes."), "{answer}");
    assert_eq!(std::fs::read_to_string(environment.path.join("precious.txt")).unwrap(), "precious\n");
    let kept = world.environment().await;
    assert_eq!((kept.id, kept.state), (environment.id, EnvironmentState::Active));
    assert_eq!(kept.metadata.kept_because, ["uncommitted work: 1 untracked file"]);

    // As the comment says: the next cleanup removes it, once the cause is gone.
    std::fs::remove_file(environment.path.join("precious.txt")).unwrap();
    let report = world.pass().await;
    assert!(matches!(report.lines[0].result, ReportResult::Removed(_)), "{report:?}");
    assert!(!environment.path.exists() && world.environments().await.is_empty());
    assert!(world.local_tip("issue-1").await.is_some());
    world.end().await;
}

#[tokio::test]
async fn closing_during_a_run_waits_for_it() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "note this agent:sleep=2");
    world.until_agent_works().await;
    let environment = world.environment().await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world
        .until("the close to be noted", || async {
            let codebase = environment.codebase;
            let thread = world.store().find_conversation(codebase, ThreadNumber(issue)).await.unwrap()?;
            (thread.state == ThreadState::Closed).then_some(())
        })
        .await;
    assert!(environment.path.exists(), "not under the agent's feet");
    world.settle().await;
    world.until("the removal", || async { world.environments().await.is_empty().then_some(()) }).await;
    world.settle().await;

    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    assert!(world.remote_file("issue-1", "NOTES.md").await.is_some(), "the work was delivered first");
    assert!(world.local_tip("issue-1").await.is_some());
    assert!(!environment.path.exists());
    assert!(world.answer(issue).starts_with("🧹"), "{}", world.answer(issue));
    world.end().await;
}

/// GitHub is slow to tell where to fetch from, and every removal has to wait for it.
#[tokio::test]
async fn many_slow_removals_keep_nobody_from_being_heard() {
    let world = World::new().await;
    let issues: Vec<i64> = (0..6).map(|_| world.issue()).collect();
    for issue in &issues {
        world.ask(*issue, "agent:noop");
    }
    let other = world.issue();
    world.settle().await;
    let slow = Fault::HangAfterApplying(Duration::from_secs(4));
    world.standin.faults().inject(Some("GET"), "/repos/octo/hello$", 4, slow);
    for issue in &issues {
        world.standin.close(REPO, ANN, *issue).unwrap();
    }
    world.until("the removals to wait", || async { (world.standin.faults().left() == 0).then_some(()) }).await;
    let comment = world.ask(other, "/help");
    world.until("👀", || async { world.reactions(comment).contains(&"eyes".to_owned()).then_some(()) }).await;
    assert_eq!(world.environments().await.len(), 6, "all removals still wait");
    world.until("the answer", || async { (!world.answers(other).is_empty()).then_some(()) }).await;
    world.settle().await;
    assert!(world.environments().await.is_empty());
    world.end().await;
}

async fn merged_by(method: MergeMethod) {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    world.ask(pull, "add a note");
    world.settle().await;
    let environment = world.environment().await;
    world.merge(pull, method).await;

    assert!(!world.standin.issue(REPO, issue).unwrap().open, "`Fixes #1` closed it");
    assert!(!environment.path.exists() && world.environments().await.is_empty());
    assert_eq!(world.local_tip("issue-1").await, None, "the merged branch is deleted");
    let receipt = world.store().receipt_of(environment.id).await.unwrap().unwrap();
    assert!(receipt.details.branch_deleted, "{receipt:?}");
    let told: Vec<_> = [issue, pull].into_iter().flat_map(|number| world.answers(number)).collect();
    assert_eq!(told.iter().filter(|comment| comment.body.starts_with("🧹")).count(), 1, "told once");
    let worktrees = git(&world.canonical().await, &["worktree", "list", "--porcelain"]);
    assert!(!worktrees.contains("issue-1"), "{worktrees}");
    world.end().await;
}

#[tokio::test]
async fn a_merge_commit_removes_worktree_and_local_branch() {
    merged_by(MergeMethod::Merge).await;
}

#[tokio::test]
async fn a_squash_merge_removes_worktree_and_local_branch() {
    merged_by(MergeMethod::Squash).await;
}

#[tokio::test]
async fn a_rebase_merge_removes_worktree_and_local_branch() {
    merged_by(MergeMethod::Rebase).await;
}

#[tokio::test]
async fn commits_that_came_after_the_merge_are_kept() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    let environment = world.environment().await;
    std::fs::write(environment.path.join("later.txt"), "later\n").unwrap();
    git(&environment.path, &["add", "later.txt"]);
    git(&environment.path, &["commit", "-qm", "After the pull request"]);
    let tip = world.local_tip("issue-1").await.unwrap();
    world.merge(pull, MergeMethod::Squash).await;

    assert_eq!(world.local_tip("issue-1").await, Some(tip), "the branch with the later commit stays");
    assert!(world.answer(issue).contains("is kept") || world.answer(pull).contains("is kept"));
    world.end().await;
}

#[tokio::test]
async fn a_merge_during_a_run_keeps_what_the_run_adds() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    world.ask(pull, "note this agent:sleep=3");
    world.until_agent_works().await;
    world.merge(pull, MergeMethod::Squash).await;

    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    let tip = world.local_tip("issue-1").await.expect("the branch with the new commit is kept");
    let canonical = world.canonical().await;
    assert_eq!(git(&canonical, &["show", &format!("{tip}:NOTES.md")]), "# Notes\n\n- note this agent:sleep=3");
    let status = world.status(pull);
    assert!(status.contains(&format!("#{pull} was merged while the agent worked")), "{status}");
    assert_eq!(world.standin.pulls(REPO).unwrap().len(), 1, "people decide what becomes of the rest");
    world.end().await;
}

#[tokio::test]
async fn a_branch_deleted_during_a_run_is_not_pushed_again_by_itself() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    world.ask(issue, "note this agent:sleep=3");
    world.until_agent_works().await;
    world.standin.set_draft(REPO, ANN, pull, false).unwrap();
    world.standin.merge(REPO, ANN, pull, MergeMethod::Squash).await.unwrap();
    world.standin.delete_branch(REPO, ANN, "issue-1").await.unwrap();
    world.settle().await;

    let status = world.status(issue);
    assert!(status.contains("`issue-1` was deleted on the remote while the agent worked"), "{status}");
    assert_eq!(world.remote_tip("issue-1").await, None);
    assert!(world.local_tip("issue-1").await.is_some(), "the work is kept here");
    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, "and this");
    world.settle().await;
    assert!(world.remote_file("issue-1", "NOTES.md").await.unwrap().contains("note this"), "asked for, it is pushed");
    assert_eq!(world.standin.pulls(REPO).unwrap().len(), 2);
    world.end().await;
}

/// BR-111: what people deleted comes back with new work only, and that is said.
#[tokio::test]
async fn a_branch_deleted_between_two_runs_is_pushed_anew_only_with_something_new() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = world.pull_from("feature/x", "").await;
    world.ask(pull, "note this");
    world.settle().await;
    world.ask(pull, "/worktree pin");
    world.settle().await;
    for (thread, branch) in [(issue, "issue-1"), (pull, "feature/x")] {
        let first = world.pull_of(branch).number;
        world.standin.delete_branch(REPO, ANN, branch).await.unwrap();
        world.settle().await;
        world.ask(thread, "agent:noop");
        world.settle().await;
        let status = world.status(thread);
        assert!(status.contains(&format!("`{branch}` was deleted on the remote")), "{status}");
        assert!(status.starts_with('✅') && status.contains("this run changed nothing"), "{status}");
        assert_eq!(world.remote_tip(branch).await, None, "a run that adds nothing brings nothing back");

        world.ask(thread, "note that");
        world.settle().await;
        let status = world.status(thread);
        assert!(status.contains(&format!("`{branch}` was deleted on the remote")), "{status}");
        assert!(status.starts_with('✅'), "{status}");
        assert_eq!(world.remote_tip(branch).await, world.local_tip(branch).await);
        assert_ne!(world.pull_of(branch).number, first, "with a pull request of its own");
        world.ask(thread, "agent:noop");
        world.settle().await;
        assert!(!world.status(thread).contains("deleted on the remote"), "{}", world.status(thread));
    }
    world.end().await;
}

#[tokio::test]
async fn a_renamed_default_branch_is_the_base_from_then_on() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let merged = world.worked_issue("write this down").await;
    let tip = world.remote_tip("main").await.unwrap();
    world
        .standin
        .push_commit(REPO, ANN, "trunk", "Take notes", &[("NOTES.md", Some("# Notes\n\n- write this down\n"))])
        .await
        .unwrap();
    world.standin.set_default_branch(REPO, "trunk").await.unwrap();
    world.standin.delete_branch(REPO, ANN, "main").await.unwrap();
    assert_ne!(world.remote_tip("trunk").await.unwrap(), tip);
    world.ask(issue, "note the new name");
    world.settle().await;

    let status = world.status(issue);
    assert!(
        status.contains("The base branch `main` is gone from the remote, so work goes on against `trunk`."),
        "{status}"
    );
    assert!(!status.contains("not pushed"), "{status}");
    assert_eq!(world.environments().await[0].base.as_ref().map(BranchName::as_str), Some("trunk"));
    world.ask(merged, "/worktree remove");
    world.settle().await;
    assert!(world.answer(merged).contains("is in `trunk`"), "{}", world.answer(merged));
    world.end().await;
}

#[tokio::test]
async fn a_pinned_worktree_outlives_its_thread() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    world.ask(issue, "/worktree pin");
    world.settle().await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(world.answer(issue).contains("it is pinned"), "{}", world.answer(issue));
    assert!(world.environment().await.path.exists());
    world.end().await;
}

/// The run's worktree is nobody's then, and the new one's thread is over.
#[tokio::test]
async fn a_thread_that_changed_its_worktree_during_a_run_leaves_none_behind() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "agent:sleep=600");
    world.until_agent_works().await;
    world.ask(issue, "/worktree create apart");
    world.until("the answer", || async { world.answers(issue).pop().filter(|a| a.body.contains("`apart`")) }).await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.ask(issue, "/stop");
    world.settle().await;
    let left: Vec<_> = world.environments().await.into_iter().map(|live| live.branch).collect();
    assert!(left.is_empty(), "{left:?}: {:?}", world.answers(issue));
    world.end().await;
}
