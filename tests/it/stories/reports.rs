//! What is said of passes and removals: before they are done, afterwards, and where the work was discussed.

use super::commands::answered;
use super::trash::answered_now;
use crate::support::world::{ANN, REPO, World, git};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::{
    fs,
    path::Path,
    process::{Child, Command},
};
use treewarden::{
    demo::github::MergeMethod,
    model::*,
    orchestrator::sweep::{Pass, Swept},
};

/// A program that somebody left running; it ends with the story.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// An issue whose worktree is in each of many states, and what has to live as long as that.
async fn in_many_states(world: &World) -> (Vec<(&'static str, EnvironmentId)>, Program) {
    type Change = fn(&Path);
    const STATES: &[(&str, Change)] = &[
        ("clean", |_| ()),
        ("changed", |path| fs::write(path.join("README.md"), "edited\n").unwrap()),
        ("untracked", |path| fs::write(path.join("new.txt"), "new\n").unwrap()),
        ("ignored", |path| fs::write(path.join("x.log"), "line\n").unwrap()),
        ("too large", |path| fs::File::create(path.join("x.log")).unwrap().set_len(300 << 20).unwrap()),
        ("staged", |path| {
            fs::write(path.join("new.txt"), "new\n").unwrap();
            git(path, &["add", "new.txt"]);
        }),
        ("hidden", |path| {
            git(path, &["update-index", "--skip-worktree", "README.md"]);
            fs::write(path.join("README.md"), "edited\n").unwrap();
        }),
        ("stashed", |path| {
            fs::write(path.join("README.md"), "edited\n").unwrap();
            git(path, &["stash"]);
        }),
        ("elsewhere", |path| drop(git(path, &["switch", "-q", "-c", "elsewhere"]))),
        ("detached", |path| drop(git(path, &["switch", "-q", "--detach"]))),
        ("bisecting", |path| drop(git(path, &["bisect", "start"]))),
        ("nested", |path| {
            fs::create_dir(path.join("inner")).unwrap();
            git(&path.join("inner"), &["init", "-q"]);
        }),
        ("locked", |path| {
            git(path, &["worktree", "unlock", "."]);
            git(path, &["worktree", "lock", "--reason", "mine", "."]);
        }),
        ("own repository", |path| {
            fs::remove_file(path.join(".git")).unwrap();
            git(path, &["init", "-q"]);
        }),
        ("gone", |path| fs::remove_dir_all(path).unwrap()),
    ];
    let mut made = Vec::new();
    let worked = async || {
        let issue = world.worked_issue("add a greeting").await;
        let live = world.environments().await;
        (issue, live.into_iter().find(|live| live.work.id == issue.to_string()).unwrap())
    };
    for (name, change) in STATES {
        let (_, environment) = worked().await;
        change(&environment.path);
        made.push((*name, environment.id));
    }
    let (_, pinned) = worked().await;
    world.service.orchestrator.set_pinned(pinned.id, true, ANN).await.unwrap();
    made.push(("pinned", pinned.id));
    let (_, at_work) = worked().await;
    let program = Command::new("sleep").arg("600").current_dir(&at_work.path).spawn().unwrap();
    made.push(("at work", at_work.id));
    // The last one: it is looked after as soon as somebody asks, and nothing settles until then.
    let (issue, merged) = worked().await;
    world.service.orchestrator.set_pinned(merged.id, true, ANN).await.unwrap();
    world.merge(world.pull_of(&format!("issue-{issue}")).number, MergeMethod::Squash).await;
    world.service.orchestrator.set_pinned(merged.id, false, ANN).await.unwrap();
    made.push(("merged", merged.id));
    (made, Program(program))
}

/// But for what only shows when it is done.
fn comparable(swept: Swept) -> Swept {
    match swept {
        Swept::Removed(mut details) => {
            (details.bytes_freed, details.keepsake, details.told) = (None, None, None);
            details.kept_until = details.kept_until.map(|_| Timestamp::from_unix(0));
            Swept::Removed(details)
        }
        other @ (Swept::Kept(_) | Swept::Gone) => other,
    }
}

async fn all_there_is(world: &World) -> (Vec<Environment>, String, usize) {
    // All that is ours; what is the remote's, a look fetches.
    let refs = git(&world.canonical().await, &["for-each-ref", "refs/heads", "refs/treewarden", "refs/stash"]);
    let mut environments = world.all_environments().await;
    // That is measured beside all else.
    environments.iter_mut().for_each(|environment| environment.metadata.disk = None);
    (environments, refs, world.store().list_audit(500).await.unwrap().len())
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_says_what_the_removal_then_does() {
    let world = World::new().await;
    let (made, program) = in_many_states(&world).await;
    let (orchestrator, trigger) = (&world.service.orchestrator, Trigger::Panel);
    let (mut went, mut stayed) = (Vec::new(), Vec::new());
    for (state, id) in made {
        let before = all_there_is(&world).await;
        let mut foreseen = Vec::new();
        for force in [false, true] {
            foreseen.push(comparable(orchestrator.foresee(id, force, trigger, ANN).await.unwrap()));
        }
        assert_eq!(all_there_is(&world).await, before, "{state}");
        for (force, foreseen) in [false, true].into_iter().zip(foreseen) {
            let done = match force {
                true => orchestrator.remove_by_force(id, trigger, ANN).await.unwrap(),
                false => orchestrator.remove(id, trigger, ANN).await.unwrap(),
            };
            assert_eq!(comparable(done.clone()), foreseen, "{state}, by force: {force}");
            match done {
                Swept::Removed(_) | Swept::Gone => {
                    went.push((state, force));
                    break;
                }
                Swept::Kept(_) => stayed.push((state, force)),
            }
        }
    }
    for plainly in ["clean", "gone", "merged"] {
        assert!(went.contains(&(plainly, false)), "{plainly}: {went:?}");
    }
    for by_force in ["changed", "untracked", "staged", "hidden", "stashed"] {
        assert!(stayed.contains(&(by_force, false)) && went.contains(&(by_force, true)), "{by_force}: {went:?}");
    }
    for never in ["elsewhere", "detached", "bisecting", "nested", "locked", "own repository", "pinned"] {
        assert!(stayed.contains(&(never, true)), "{never}: {stayed:?}");
    }
    drop(program);
    world.end().await;
}

#[tokio::test]
async fn a_dry_pass_changes_nothing_and_says_what_the_pass_then_does() {
    let world = World::new().await;
    let (made, program) = in_many_states(&world).await;
    world.days_pass(20);
    let before = all_there_is(&world).await;
    let dry = Pass::everywhere(Trigger::Schedule, true, "schedule");
    let foreseen = world.service.orchestrator.pass(&dry).await.unwrap();
    assert_eq!(all_there_is(&world).await, before);
    let done = world.pass().await;
    assert_eq!((foreseen.lines.len(), foreseen.dry_run, done.dry_run), (made.len(), true, false));
    for (foreseen, done) in foreseen.lines.iter().zip(&done.lines) {
        assert_eq!((foreseen.environment, &foreseen.result), (done.environment, &done.result));
    }
    let sums = done.sums();
    assert!(sums.removed >= 3 && sums.kept > sums.removed && sums.failed == 0, "{sums:?}");
    assert!(sums.bytes_freed > 0 && foreseen.sums().bytes_freed == 0, "{sums:?}");
    drop(program);
    world.end().await;
}

/// It is not known before whether that succeeds.
#[tokio::test]
async fn a_dry_run_says_what_would_be_mended_first() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let link = world.environment().await.path.join(".git");
    fs::remove_file(&link).unwrap();
    let told = answered(&world, issue, "/worktree remove --dry-run").await;
    assert!(told.contains("a removal mends them first") && !link.exists(), "{told}");
    assert!(answered(&world, issue, "/worktree remove").await.starts_with("🧹"));
    world.end().await;
}

#[tokio::test]
async fn a_command_that_is_tried_out_says_what_it_would_answer() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let before = all_there_is(&world).await;
    let told = answered(&world, issue, "/worktree remove --dry-run").await;
    assert!(
        told.starts_with("Nothing was changed. Without `--dry-run` the answer would be, as things are now:"),
        "{told}"
    );
    assert_eq!(all_there_is(&world).await, before);
    let quoted = |told: &str| {
        let lines = told.lines().filter_map(|line| line.strip_prefix("> ").map(str::to_owned));
        lines.collect::<Vec<_>>().join("\n")
    };
    let done = answered(&world, issue, "/worktree remove").await;
    assert!(done.starts_with("🧹") && done.starts_with(&quoted(&told)), "{told}\n{done}");
    answered(&world, issue, "/worktree restore issue-1").await;

    // Another open thread works there: only this one would let go of it.
    let other = world.issue();
    answered(&world, other, "/worktree link issue-1").await;
    let told = answered(&world, other, "/worktree remove --dry-run").await;
    assert!(quoted(&told).starts_with("This thread no longer works in **issue-1**"), "{told}");
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    let thread = world.store().find_conversation(codebase.id, ThreadNumber(other)).await.unwrap().unwrap();
    assert_eq!(thread.environment, Some(world.environment().await.id));

    fs::write(environment.path.join("new.txt"), "new\n").unwrap();
    let told = answered(&world, other, "/worktree remove issue-1 --dry-run").await;
    assert!(quoted(&told).contains("- uncommitted work: 1 untracked file"), "{told}");
    let told = answered(&world, other, "/worktree remove --dry-run issue-1 --force").await;
    assert!(quoted(&told).contains("What was not committed is kept until"), "{told}");
    assert!(world.environment().await.metadata.kept_because.is_empty());
    let told = answered(&world, other, "/worktree remove issue-7 --dry-run").await;
    assert!(quoted(&told).contains("No worktree of this repository is called `issue-7`"), "{told}");

    // While a run is live, its end is not foreseen.
    world.ask(issue, "agent:sleep=600");
    world.until_agent_works().await;
    let told = answered_now(&world, other, "/worktree remove issue-1 --force --dry-run").await;
    assert!(quoted(&told).contains("a run is live or queued in it"), "{told}");
    world.ask(issue, "/stop");
    world.end().await;
}

/// One at each step: looking, writing down what is to be done, keeping the last commit, moving the files, writing the receipt.
#[tokio::test]
async fn one_failing_environment_never_stops_the_pass() {
    let world = World::new().await;
    let mut made = Vec::new();
    for _ in 0..7 {
        world.worked_issue("add a greeting").await;
    }
    made.extend(world.environments().await);
    made.sort_by_key(|environment| environment.id);
    let [first, looked, journalled, archived, moved, receipted, last] = &made[..] else { panic!("{made:?}") };
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    let damage = format!("UPDATE conversations SET state = 'banana' WHERE environment_id = '{}'", looked.id);
    let refuse_journal = format!(
        "CREATE TRIGGER refuse_journal BEFORE UPDATE ON isolation_environments
         WHEN NEW.id = '{}' AND NEW.state = 'removing' BEGIN SELECT RAISE(ABORT, 'no journal today'); END",
        journalled.id
    );
    let refuse_receipt = format!(
        "CREATE TRIGGER refuse_receipt BEFORE INSERT ON receipts
         WHEN NEW.environment_id = '{}' BEGIN SELECT RAISE(ABORT, 'no receipt today'); END",
        receipted.id
    );
    for statement in [damage, refuse_journal, refuse_receipt] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut database).await.unwrap();
    }
    let canonical = world.canonical().await;
    let in_the_way = format!("refs/treewarden/archive/{}/x", archived.id);
    git(&canonical, &["update-ref", &in_the_way, "refs/remotes/origin/main"]);
    let occupied = world.home().join("trash").join(moved.id.to_string());
    fs::create_dir(&occupied).unwrap();

    world.days_pass(20);
    let report = world.pass().await;
    let of = |environment: &Environment| {
        let line = report.lines.iter().find(|line| line.environment == Some(environment.id));
        &line.unwrap_or_else(|| panic!("{} in {report:?}", environment.branch)).result
    };
    for gone in [first, last] {
        assert!(matches!(of(gone), ReportResult::Removed(_)) && !gone.path.exists(), "{report:?}");
    }
    for (failed, why) in
        [(looked, "unreadable in column state"), (journalled, "no journal today"), (receipted, "no receipt today")]
    {
        assert!(matches!(of(failed), ReportResult::Failed(told) if told.contains(why)), "{why}: {report:?}");
    }
    for (kept, why) in [(archived, "refs/treewarden/archive"), (moved, "stopped half-way")] {
        assert!(matches!(of(kept), ReportResult::Kept(told) if told[0].contains(why)), "{why}: {report:?}");
    }
    let stored = world.store().list_reports(1).await.unwrap().remove(0);
    assert_eq!((stored.id, &stored.lines), (report.id, &report.lines));
    let page = world.page("/cleanup").await;
    assert!(page.contains("2 removed, 2 kept, 3 failed, in ") && page.contains("no journal today"), "{page}");

    fs::remove_dir(&occupied).unwrap();
    git(&canonical, &["update-ref", "-d", &in_the_way]);
    for mend in [
        "UPDATE conversations SET state = 'open' WHERE state = 'banana'",
        "DROP TRIGGER refuse_journal",
        "DROP TRIGGER refuse_receipt",
    ] {
        sqlx::query(mend).execute(&mut database).await.unwrap();
    }
    let world = world.restart(|_| ()).await;
    world
        .until("what was begun to be finished", || async {
            let live = world.environments().await;
            live.iter().all(|one| one.state == EnvironmentState::Active).then_some(())
        })
        .await;
    world.pass().await;
    assert!(world.environments().await.is_empty() && made.iter().all(|gone| !gone.path.exists()));
    world.end().await;
}

/// One line where the work was discussed, whoever had it removed, and none for what stays.
#[tokio::test]
async fn each_removal_is_told_once_where_its_work_was_discussed() {
    let world = World::new().await;
    let mut issues = Vec::new();
    for _ in 0..7 {
        issues.push(world.worked_issue("add a greeting").await);
    }
    let live = world.environments().await;
    let of = |issue: i64| live.iter().find(|live| live.work.id == issue.to_string()).unwrap().clone();
    let [own, elsewhere, panel, cli, closed, stale, kept] = issues[..] else { panic!("{issues:?}") };
    let told = |issue: i64| {
        let bodies = world.answers(issue).into_iter().map(|comment| comment.body);
        bodies.filter(|body| body.contains("🧹")).collect::<Vec<_>>()
    };
    let by = async |issue: i64| {
        let receipt = world.store().receipt_of(of(issue).id).await.unwrap().unwrap();
        (receipt.trigger, receipt.details.actor.unwrap(), receipt.details.commits, receipt.details.subjects.len())
    };

    answered(&world, own, "/worktree remove").await;
    let answer = answered(&world, own, &format!("/worktree remove issue-{elsewhere}")).await;
    assert!(answer.starts_with("🧹"), "{answer}");
    let orchestrator = &world.service.orchestrator;
    orchestrator.remove(of(panel).id, Trigger::Panel, "operator").await.unwrap();
    orchestrator.remove(of(cli).id, Trigger::Cli, "cli").await.unwrap();
    world.standin.close(REPO, ANN, closed).unwrap();
    world.settle().await;
    orchestrator.set_pinned(of(kept).id, true, ANN).await.unwrap();
    world.days_pass(20);
    let said = world.answers(kept).len();
    for _ in 0..2 {
        world.pass().await;
        world.settle().await;
    }
    assert_eq!(world.answers(kept).len(), said, "a pass says nothing of what stays");
    // In the first thread there are the answers to both of its commands.
    assert_eq!(told(own).len(), 2, "{:?}", told(own));
    for issue in [elsewhere, panel, cli, closed, stale] {
        assert_eq!(told(issue).len(), 1, "{:?}", told(issue));
    }
    for (issue, trigger, actor) in [
        (own, Trigger::Command, ANN),
        (elsewhere, Trigger::Command, ANN),
        (panel, Trigger::Panel, "operator"),
        (cli, Trigger::Cli, "cli"),
        (closed, Trigger::ThreadClosed, "webhook"),
        (stale, Trigger::Schedule, "schedule"),
    ] {
        assert_eq!(by(issue).await, (trigger, actor.to_owned(), Some(1), 1), "{issue}");
    }
    let page = world.page(&format!("/environments/{}", of(stale).id)).await;
    for part in ["because of: schedule, by schedule", "1 commit", "Freed", "Bring it back"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    world.end().await;
}

/// Once all of it is in the base, what the base lacks says nothing any more.
#[tokio::test]
async fn a_receipt_counts_the_commits_of_merged_work_too() {
    for method in [MergeMethod::Merge, MergeMethod::Squash, MergeMethod::Rebase] {
        let world = World::new().await;
        let issue = world.worked_issue("add a greeting").await;
        world.standin.push_commit(REPO, ANN, "main", "Move on", &[("more.txt", Some("more\n"))]).await.unwrap();
        world.ask(issue, "add a note");
        world.settle().await;
        world.merge(world.pull_of("issue-1").number, method).await;
        let removed = world.all_environments().await.remove(0);
        let details = world.store().receipt_of(removed.id).await.unwrap().unwrap().details;
        assert!(details.branch_deleted && details.commits == Some(2), "{method:?}: {details:?}");
        assert_eq!(details.subjects.len(), 2);
        world.end().await;
    }
}

/// What comes by itself looks at files where something has happened, and goes on naming what it saw; whoever asks is told how it is
/// now.
#[tokio::test]
async fn work_that_goes_on_is_shown_with_what_its_files_hold() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    let notes = world.environment().await.path.join("notes.txt");
    fs::write(&notes, "mine\n").unwrap();
    let kept = async || world.environment().await.metadata.kept_because.join("; ");
    for _ in 0..2 {
        world.pass().await;
        let kept = kept().await;
        assert!(kept.contains("untracked") && kept.contains("work goes on"), "{kept}");
    }
    fs::remove_file(&notes).unwrap();
    world.service.orchestrator.pass(&Pass::everywhere(Trigger::Panel, false, "ann")).await.unwrap();
    let kept = kept().await;
    assert!(!kept.contains("untracked") && kept.contains("work goes on"), "{kept}");
}
