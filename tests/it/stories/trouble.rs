//! Agents that fail, and pushes that are refused: nothing is lost, nothing is overwritten, and it is said.

use super::commands::answered;
use crate::support::world::{ANN, REPO, World, git};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::time::{Duration, SystemTime};
use treewarden::{
    demo::github::{Fault, MergeMethod},
    model::*,
    orchestrator::sweep::Pass,
    store::Store,
};

/// BR-180
#[tokio::test]
async fn a_failing_agent_is_told_with_its_reason_and_the_next_mention_works() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:fail").await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**"), "{status}");
    assert!(status.contains("exit") && status.contains("mention me again"), "{status}");
    // The panel says the same: the run's page in full, the overview why it failed.
    let run = &world.runs().await[0];
    let why = run.reason.as_deref().unwrap();
    let sentence = why.lines().next().unwrap();
    assert!(status.contains(sentence), "{sentence} in {status}");
    let page = world.page(&format!("/runs/{}", run.id)).await;
    assert!(page.contains(why) && page.contains("Nothing was pushed"), "{why} in {page}");
    for list in ["/", "/runs"] {
        let page = world.page(list).await;
        assert!(page.contains(sentence), "{sentence} on {list}: {page}");
    }
    assert!(world.standin.pulls(REPO).unwrap().is_empty());

    world.ask(issue, "add a greeting");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Failed, RunState::Succeeded]);
    assert_eq!(world.all_environments().await.len(), 1);
    assert_eq!(world.statuses(issue).len(), 2);
    assert_eq!(world.page("/").await.matches(sentence).count(), 1);
    world.end().await;
}

#[tokio::test]
async fn an_agent_that_does_nothing_pushes_nothing() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("no file changed, nothing to push"), "{status}");
    assert_eq!(world.standin.branches(REPO).await.unwrap(), ["main"]);
    assert!(world.standin.pulls(REPO).unwrap().is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_missing_agent_program_is_named() {
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", "/nowhere/agent --now")]).await;
    let issue = world.worked_issue("add a greeting").await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**") && status.contains("/nowhere/agent"), "{status}");
    assert!(status.contains("Nothing was run") && !status.contains("so far"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn a_branch_that_a_person_moved_meanwhile_is_not_overwritten() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    world.ask(issue, "note this agent:sleep=2");
    world.until_agent_works().await;
    let theirs =
        world.standin.push_commit(REPO, ANN, "issue-1", "Mine", &[("mine.txt", Some("mine\n"))]).await.unwrap();
    world.settle().await;

    assert_eq!(world.remote_tip("issue-1").await, Some(theirs));
    let status = world.status(issue);
    assert!(status.contains("not pushed: the branch on the remote has commits that are not here"), "{status}");
    assert!(status.contains("nothing was overwritten, the work is kept on `issue-1`"), "{status}");
    let tip = world.local_tip("issue-1").await.unwrap();
    assert!(git(&world.canonical().await, &["show", &format!("{tip}:NOTES.md")]).contains("note this"));
    world.end().await;
}

#[tokio::test]
async fn a_protected_branch_is_left_alone() {
    let world = World::new().await;
    let pull = world.pull_from("release", "").await;
    let before = world.remote_tip("release").await;
    world.standin.protect_branch(REPO, "release", true).await.unwrap();
    world.ask(pull, "add a greeting");
    world.settle().await;

    assert_eq!(world.remote_tip("release").await, before);
    let status = world.status(pull);
    assert!(status.contains("not pushed: the branch is protected"), "{status}");
    let tip = world.local_tip("release").await;
    assert!(tip.is_some() && tip != before, "the work is kept");
    world.end().await;
}

/// What an agent does not end, the next one is told of, and ends.
#[tokio::test]
async fn what_an_agent_began_with_git_is_named_until_it_is_finished() {
    let agent = "sh -c 'if grep -q \"was begun in this worktree\"; then GIT_EDITOR=true git revert --continue; else \
                 git revert --no-commit HEAD; echo work > work.txt; fi; echo done'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    world.standin.push_commit(REPO, ANN, "main", "More", &[("more.txt", Some("more\n"))]).await.unwrap();
    let issue = world.worked_issue("take that back").await;
    let status = world.status(issue);
    assert!(status.contains("not committed and not pushed: a revert is in progress in the worktree"), "{status}");
    assert!(status.contains("Mention me and ask to finish that") && !status.contains("to deliver it"), "{status}");
    assert_eq!(world.remote_tip("issue-1").await, None);
    world.ask(issue, "go on");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && !status.contains("not pushed"), "{status}");
    assert_eq!(world.remote_file("issue-1", "more.txt").await, None);
    assert_eq!(world.remote_file("issue-1", "work.txt").await.as_deref(), Some("work\n"));
    world.end().await;
}

#[tokio::test]
async fn a_lock_that_a_killed_git_left_is_in_no_agents_way() {
    let agent = "sh -c 'echo $$ > work.txt && git add --all && git commit -q -m Work && echo committed'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let issue = world.worked_issue("work").await;
    let directory = git(&world.environment().await.path, &["rev-parse", "--absolute-git-dir"]);
    let past = SystemTime::now() - Duration::from_secs(60);
    std::fs::File::create(format!("{directory}/index.lock")).unwrap().set_modified(past).unwrap();
    world.ask(issue, "more work");
    world.settle().await;
    assert!(world.status(issue).contains("committed"), "{}", world.status(issue));
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);
    world.end().await;
}

/// BR-095
#[tokio::test]
async fn what_is_written_beside_a_sparse_checkout_is_delivered() {
    let agent =
        "sh -c 'git sparse-checkout set a && mkdir -p z && echo important > z/w && echo more > a/x && echo done'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let files = [("a/x", Some("1\n")), ("z/w", Some("1\n")), ("z/y", Some("1\n"))];
    world.standin.push_commit(REPO, ANN, "main", "Directories", &files).await.unwrap();
    let issue = world.worked_issue("work").await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && !status.contains("put back") && !status.contains("Not committed"), "{status}");
    for (path, content) in [("a/x", "more\n"), ("z/w", "important\n"), ("z/y", "1\n")] {
        assert_eq!(world.remote_file("issue-1", path).await.as_deref(), Some(content), "{path}");
    }
    assert!(!world.environment().await.path.join("z/y").exists(), "it is as sparse as the agent made it");
    world.end().await;
}

#[tokio::test]
async fn what_the_agent_put_aside_is_told_and_keeps_the_worktree() {
    let agent = "sh -c 'echo changed >> README.md && git stash -q && echo stashed'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let issue = world.worked_issue("try something").await;
    let status = world.status(issue);
    assert!(status.contains("⚠️ In no commit: 1 change of this branch that somebody put aside"), "{status}");
    assert!(!status.contains("in the worktree only"), "{status}");
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    let answer = world.answer(issue);
    assert!(answer.contains("1 change of its branch in the repository's stash"), "{answer}");
    assert!(world.environment().await.path.exists());
    world.end().await;
}

#[tokio::test]
async fn a_repository_the_agent_left_inside_is_kept_and_named() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:dirty-nested").await;
    let environment = world.environment().await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(world.answer(issue).contains("another repository lies inside"), "{}", world.answer(issue));
    assert!(environment.path.join("nested/work.txt").exists());
    let step = "What the repository inside holds has to be pushed from there, or moved away";
    assert!(world.answer(issue).contains(step), "{}", world.answer(issue));
    let page = world.page(&format!("/environments/{}", environment.id)).await;
    assert!(page.contains(step) && page.contains("By force it is not removed either"), "{page}");
    assert!(!page.contains(&format!("/environments/{}/remove-by-force", environment.id)), "{page}");
    // What `--force` would pass over is as true as before.
    std::fs::write(environment.path.join("mine.txt"), "mine\n").unwrap();
    let refused = answered(&world, issue, &format!("/worktree remove issue-{issue} --force")).await;
    assert!(refused.contains("another repository") && !refused.contains("uncommitted"), "{refused}");
    let kept = world.environment().await.metadata.kept_because;
    assert!(kept.len() == 2 && kept[0].starts_with("uncommitted work: "), "{kept:?}");
    std::fs::remove_file(environment.path.join("mine.txt")).unwrap();
    let asking = world.worked_issue("add a greeting").await;
    world.ask(asking, "/worktree cleanup stale");
    world.settle().await;
    let answer = world.answer(asking);
    assert!(answer.starts_with(&format!("- `issue-{issue}` is kept: ")), "{answer}");
    assert!(answer.contains("another repository lies inside"), "{answer}");
    assert!(!answer.contains(&format!("issue-{asking}")), "{answer}");
    world.end().await;
}

/// One file that git cannot take keeps nothing else from people, and is not lost either.
#[tokio::test]
async fn a_file_that_git_does_not_take_is_kept_and_named_and_the_rest_is_delivered() {
    const AGENT: &str =
        "sh -c 'echo \"*.txt working-tree-encoding=UTF-16\" > .gitattributes; echo plain > plain.txt; date > code.rs'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", AGENT)]).await;
    let issue = world.worked_issue("write").await;
    for _ in 0..2 {
        let status = world.status(issue);
        assert!(status.starts_with('✅'), "{status}");
        let told = "Not committed, and kept in the worktree only: git could not take in `plain.txt` (";
        assert!(status.contains(told) && status.contains("BOM is required"), "{status}");
        assert!(!status.contains(world.home().to_str().unwrap()), "{status}");
        assert!(world.remote_file("issue-1", "code.rs").await.is_some());
        assert_eq!(world.remote_file("issue-1", "plain.txt").await, None);
        world.ask(issue, "write more");
        world.settle().await;
    }
    let environment = world.environment().await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert_eq!(std::fs::read_to_string(environment.path.join("plain.txt")).unwrap(), "plain\n");
    world.end().await;
}

#[tokio::test]
async fn processes_an_agent_left_behind_are_ended() {
    let world = World::new().await;
    world.worked_issue("agent:fork").await;
    let pid = world.remote_file("issue-1", "left-behind.txt").await.unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "still running: {stat}");
    world.end().await;
}

#[tokio::test]
async fn messages_that_come_while_the_service_is_down_are_not_lost_when_redelivered() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let world = world.restart(|standin| {
        standin.comment(REPO, ANN, issue, &format!("@{} add a greeting", standin.app_slug())).unwrap();
    });
    let world = world.await;
    world.standin.settled().await;
    let missed = world.standin.deliveries().into_iter().rev().find(|record| record.event == "issue_comment").unwrap();
    world.standin.redeliver(missed.id).unwrap();
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn a_github_that_is_down_at_a_start_keeps_nothing_from_being_taken() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let world = world.restart(|standin| standin.faults().inject(Some("GET"), "/app", 3, Fault::Status(502)));
    let world = world.await;
    world.ask(issue, "add another one");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded, RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn a_delivery_that_takes_the_service_down_each_time_is_given_up_until_it_is_sent_again() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let asked = world.standin.deliveries().into_iter().find(|record| record.event == "issue_comment").unwrap();
    // What fourteen crashes in the middle of handling leave behind.
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    let crashed = "UPDATE inbox SET state = 'received', tries = 14 WHERE guid = $1";
    assert_eq!(sqlx::query(crashed).bind(&asked.guid).execute(&mut database).await.unwrap().rows_affected(), 1);
    let state = || async {
        let lines = world.store().list_deliveries(50, 0).await.unwrap();
        lines.into_iter().find(|line| line.guid == asked.guid).map(|line| (line.state, line.reason))
    };
    world
        .until("the delivery to be given up", || async { state().await.filter(|(now, _)| *now == InboxState::Failed) })
        .await;
    world.settle().await;
    assert!(world.answer(issue).contains("all 14 tries to handle it were cut short"), "{}", world.answer(issue));

    world.standin.redeliver(asked.id).unwrap();
    world.settle().await;
    assert_eq!(state().await.unwrap().0, InboxState::Done);

    // The fifteenth crash came when the person was to be told.
    let answers = world.answers(issue).len();
    let crashed = "UPDATE inbox SET state = 'received', tries = 15 WHERE guid = $1";
    sqlx::query(crashed).bind(&asked.guid).execute(&mut database).await.unwrap();
    sqlx::query("DELETE FROM outbox WHERE key LIKE 'answer/%'").execute(&mut database).await.unwrap();
    world.until("it to be given up", || async { state().await.filter(|(now, _)| *now == InboxState::Failed) }).await;
    world.settle().await;
    assert_eq!(world.answers(issue).len(), answers, "in silence");
    world.standin.redeliver(asked.id).unwrap();
    world.end().await;
}

/// A row that somebody changed by hand is left alone; it keeps nothing else from going on, not even a start.
#[tokio::test]
async fn an_environment_that_cannot_be_read_stops_nobody() {
    let world = World::new().await;
    let damaged = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    let damage = "UPDATE isolation_environments SET state = 'banana'";
    assert_eq!(sqlx::query(damage).execute(&mut database).await.unwrap().rows_affected(), 1);
    let world = world.restart(|_| ()).await;
    let other = world.worked_issue("add a greeting").await;
    assert!(world.status(other).starts_with('✅'), "{}", world.status(other));
    world.ask(damaged, "go on");
    world.settle().await;
    let status = world.status(damaged);
    assert!(status.starts_with("❌ **Failed**") && status.contains("unreadable in column state"), "{status}");
    assert!(environment.path.exists());
    let report = world.pass().await;
    let of = |id| report.lines.iter().find(|line| line.environment == Some(id)).map(|line| &line.result);
    let Some(ReportResult::Failed(why)) = of(environment.id) else { panic!("{report:?}") };
    assert!(why.contains("unreadable in column state") && report.lines.len() == 2, "{report:?}");
    let mend = "UPDATE isolation_environments SET state = 'active' WHERE state = 'banana'";
    sqlx::query(mend).execute(&mut database).await.unwrap();
    world.ask(damaged, "go on");
    world.settle().await;
    assert!(world.status(damaged).starts_with('✅'), "{}", world.status(damaged));
    world.end().await;
}

/// An agent that takes its own commit back without a trace: what a run had made stays reachable after the removal.
#[tokio::test]
async fn commits_that_were_dropped_from_the_branch_are_kept() {
    let world = World::new().await;
    world.standin.protect_branch(REPO, "issue-1", true).await.unwrap();
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let dropped = world.local_tip("issue-1").await.unwrap();
    git(&environment.path, &["reset", "-q", "--hard", "origin/main"]);
    world.ask(issue, "/worktree remove");
    world.settle().await;
    assert!(world.answer(issue).starts_with("🧹"), "{}", world.answer(issue));
    let refs = git(&world.canonical().await, &["for-each-ref", "--format=%(objectname)", "--contains", &dropped]);
    assert!(refs.contains(&dropped), "{refs}");
    world.end().await;
}

#[tokio::test]
async fn a_database_that_is_busy_for_long_ends_no_run() {
    let world = World::with_patience(&[], Some(Duration::from_secs(1))).await;
    let issue = world.issue();
    world.ask(issue, "add a greeting agent:sleep=1");
    world.until_agent_works().await;
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut other = file.connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    // Longer than the store is patient, and past the agent's end.
    tokio::time::sleep(Duration::from_secs(4)).await;
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

/// Its lease ends meanwhile, and cannot be renewed; nobody else takes it.
#[tokio::test]
async fn a_database_that_is_busy_for_long_hands_no_delivery_out_again() {
    let world = World::with_patience(&[], Some(Duration::from_secs(1))).await;
    let issue = world.issue();
    world.settle().await;
    let mut held = world.standin.faults().hold("GET", "/repos/octo/hello/collaborators/");
    world.ask(issue, "add a greeting");
    held.arrived().await;
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut other = file.connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    world.time_passes(Duration::from_secs(600));
    assert!(world.service.orchestrator.recover_expired().await.is_err());
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    world.service.orchestrator.recover_expired().await.unwrap();
    let claimed = world.store().list_deliveries(1, 0).await.unwrap().remove(0);
    assert_eq!((claimed.state, claimed.tries), (InboxState::Claimed, 1));
    drop(held);
    world.settle().await;
    let all = world.store().list_deliveries(50, 0).await.unwrap();
    let done = all.into_iter().find(|one| one.id == claimed.id).unwrap();
    assert_eq!((done.state, done.tries), (InboxState::Done, 1));
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    assert_eq!(world.answers(issue).len(), 1, "{:?}", world.answers(issue));
    world.end().await;
}

/// The machine slept for longer than a lease while a worktree was prepared.
#[tokio::test]
async fn a_run_that_is_driven_here_is_not_handed_out_again_when_its_lease_ends() {
    let world = World::new().await;
    let [slow, quick] = [world.issue(), world.issue()];
    world.settle().await;
    let mut held = world.standin.faults().hold("GET", "/octo/hello.git/info/refs");
    world.ask(slow, "add a greeting");
    held.arrived().await;
    let driven = world.runs().await.remove(0);
    assert_eq!((driven.state, driven.attempts), (RunState::Preparing, 1));
    world.time_passes(Duration::from_secs(600));
    // Whoever claims the second run has looked at the first.
    world.ask(quick, "add a greeting");
    let started = async || world.runs().await.pop().filter(|run| run.id != driven.id && run.attempts > 0);
    world.until("the second run to be claimed", started).await;
    world.service.orchestrator.recover_expired().await.unwrap();
    assert_eq!(world.runs().await.remove(0).attempts, 1);
    drop(held);
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    assert_eq!(world.runs().await.remove(0).attempts, 1);
    world.end().await;
}

#[tokio::test]
async fn what_is_being_sent_from_here_is_not_sent_again_when_its_lease_ends() {
    let world = World::new().await;
    world.standin.create_repository("octo/other", &[("README.md", "# other\n")]).await.unwrap();
    world.standin.set_permission("octo/other", ANN, Permission::Write).unwrap();
    let issue = world.issue();
    let other = world.standin.open_issue("octo/other", ANN, "Elsewhere", "Here, too.").unwrap();
    world.settle().await;
    let mut held = world.standin.faults().hold("POST", &format!("/repos/octo/hello/issues/{issue}/comments"));
    world.ask(issue, "/help");
    held.arrived().await;
    world.time_passes(Duration::from_secs(600));
    // Whoever sends this has looked for an older one first.
    world.standin.comment("octo/other", ANN, other, &world.mention("/help")).unwrap();
    let said = async || world.standin.comments("octo/other", other).unwrap().into_iter().find(|said| said.via_app);
    world.until("an answer elsewhere", said).await;
    world.service.orchestrator.recover_expired().await.unwrap();
    let rows = world.store().list_outgoing(50).await.unwrap();
    let sending: Vec<_> = rows.iter().filter(|row| row.state == OutboxState::Sending).collect();
    assert_eq!(sending.iter().map(|row| row.attempts).collect::<Vec<_>>(), [1], "{rows:?}");
    drop(held);
    world.settle().await;
    assert_eq!(world.answers(issue).len(), 1);
    world.end().await;
}

#[tokio::test]
async fn a_branch_the_agent_deleted_keeps_its_history() {
    let agent = "sh -c 'git update-ref -d refs/heads/issue-1; echo work > work.txt'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let issue = world.worked_issue("work").await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.pull_of("issue-1").commits.len(), 1);
    let base = git(&world.canonical().await, &["merge-base", "refs/heads/issue-1", "refs/remotes/origin/main"]);
    assert_eq!(Some(base), world.remote_tip("main").await);
    world.end().await;
}

#[tokio::test]
async fn a_thread_is_not_told_where_things_lie_on_the_server() {
    let agent = "sh -c 'echo \"I work in $PWD, at home in $HOME\"; echo \"broken: $PWD/x\" >&2; exit 3'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let issue = world.worked_issue("work").await;
    let status = world.status(issue);
    let home = world.home().canonicalize().unwrap();
    assert!(!status.contains(&home.display().to_string()), "{status}");
    for part in ["I work in [worktrees]/", "at home in [home]/agents/", "broken: [worktrees]/"] {
        assert!(status.contains(part), "{part} in {status}");
    }
    let kept = world.runs().await[0].reason.clone().unwrap();
    assert!(kept.contains(&home.display().to_string()), "the panel says where: {kept}");
    world.end().await;
}

#[tokio::test]
async fn a_worktree_the_agent_deleted_is_not_called_safe() {
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", "sh -c 'rm -rf \"$PWD\"; echo gone'")]).await;
    let issue = world.worked_issue("work").await;
    let status = world.status(issue);
    assert!(
        status.starts_with("❌ **Failed**") && status.contains("was taken away while the run was live"),
        "{status}"
    );
    assert!(!status.contains("Nothing is lost"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn an_agent_that_cuts_its_worktree_off_is_caught_and_the_next_mention_works() {
    let agent = "sh -c 'rm .git; date +%N >> work.txt; echo done'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let issue = world.worked_issue("work").await;
    world.ask(issue, "more work");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded, RunState::Succeeded]);
    assert_eq!(world.pull_of("issue-1").commits.len(), 2, "{}", world.status(issue));
    assert_eq!(world.all_environments().await.len(), 1, "the same worktree");
    world.end().await;
}

#[tokio::test]
async fn a_dry_run_mends_nothing_and_a_pass_does() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    let link = world.environment().await.path.join(".git");
    std::fs::remove_file(&link).unwrap();
    let dry = Pass::everywhere(Trigger::Panel, true, "ann");
    world.service.orchestrator.pass(&dry).await.unwrap();
    assert!(!link.exists(), "a dry run changed something");
    world.pass().await;
    assert!(link.is_file());
    world.end().await;
}

/// What its making had to tell is told with the next run.
#[tokio::test]
async fn a_creation_that_a_restart_finishes_is_told_later() {
    let world = World::new().await;
    let settings = "copy: [missing.json]\n";
    world.standin.push_commit(REPO, ANN, "main", "Ask", &[(REPO_SETTINGS_FILE, Some(settings))]).await.unwrap();
    let issue = world.worked_issue("add a greeting").await;
    // As a crash between the last step and its note leaves it.
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    let creating = "UPDATE isolation_environments SET state = 'creating'";
    assert_eq!(sqlx::query(creating).execute(&mut database).await.unwrap().rows_affected(), 1);
    let world = world.restart(|_| ()).await;
    let finished = |live: Environment| live.state == EnvironmentState::Active && !live.metadata.untold.is_empty();
    world.until("the creation to be finished", || async { finished(world.environment().await).then_some(()) }).await;
    for told in [true, false] {
        world.ask(issue, "add a note");
        world.settle().await;
        assert_eq!(world.status(issue).contains("`missing.json`"), told, "{}", world.status(issue));
    }
    world.end().await;
}

/// The service stops in the middle of a pass, and does not wait for its end.
#[tokio::test]
async fn a_pass_ends_early_when_the_service_stops() {
    let world = World::new().await;
    for _ in 0..3 {
        world.worked_issue("add a greeting").await;
    }
    let slow = Fault::HangAfterApplying(Duration::from_secs(3));
    // A pass asks GitHub about all branches at once.
    let world = world.restart(|standin| standin.faults().inject(Some("POST"), "/api/graphql", 1, slow)).await;
    world.until("the first pass to begin", || async { (world.standin.faults().left() < 1).then_some(()) }).await;
    let file = world.home().join("treewarden.db");
    assert!(world.service.stop().await);
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    let report = store.list_reports(1).await.unwrap().remove(0);
    assert!(report.lines.len() < 3, "{report:?}");
    store.close().await;
}

#[tokio::test]
async fn a_repository_somebody_made_in_a_worktree_is_named_and_kept() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let link = environment.path.join(".git");
    std::fs::remove_file(&link).unwrap();
    std::fs::create_dir(&link).unwrap();
    std::fs::write(link.join("HEAD"), "ref: refs/heads/theirs\n").unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("Somebody made a repository of its own in this worktree"), "{status}");
    world.pass().await;
    // BR-042: nor does anybody's word remove it.
    let other = world.issue();
    for force in ["", " --force"] {
        world.ask(other, &format!("/worktree remove issue-{issue}{force}"));
        world.settle().await;
        let answer = world.answer(other);
        assert!(answer.starts_with(&format!("The worktree of `issue-{issue}` is kept")), "{answer}");
        assert!(answer.contains("somebody made a repository of its own in it"), "{answer}");
        assert!(answer.contains("Nothing was removed.") && !answer.contains("all the same"), "{answer}");
    }
    assert_eq!(world.environment().await.id, environment.id);
    assert!(link.join("HEAD").is_file() && environment.path.join("hello.sh").exists());

    std::fs::rename(&link, environment.path.with_extension("aside")).unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.end().await;
}

#[tokio::test]
async fn a_worktree_that_a_loss_of_power_emptied_goes_on() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    std::fs::write(environment.path.join("precious.txt"), "precious\n").unwrap();
    let entry = world.canonical().await.join("worktrees").join(environment.path.file_name().unwrap());
    for files in [&["index"][..], &["HEAD"], &["HEAD", "index"]] {
        for file in files {
            std::fs::write(entry.join(file), "").unwrap();
        }
        world.ask(issue, "add a note");
        world.settle().await;
        assert!(world.status(issue).starts_with('✅'), "{files:?}: {}", world.status(issue));
    }
    assert_eq!(world.environment().await.id, environment.id);
    assert_eq!(world.remote_file("issue-1", "precious.txt").await.as_deref(), Some("precious\n"));
    world.end().await;
}

#[tokio::test]
async fn a_repository_out_of_sight_at_a_start_closes_nothing() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    std::fs::write(environment.path.join("precious.txt"), "precious\n").unwrap();
    let canonical = world.canonical().await;
    let aside = canonical.with_extension("aside");
    let world = world.restart(|_| std::fs::rename(&canonical, &aside).unwrap()).await;
    world.pass().await;
    assert_eq!(world.environment().await.id, environment.id);

    let _ = std::fs::remove_dir_all(&canonical);
    let world = world.restart(|_| std::fs::rename(&aside, &canonical).unwrap()).await;
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.remote_file("issue-1", "precious.txt").await.as_deref(), Some("precious\n"));
    world.end().await;
}

#[tokio::test]
async fn a_secret_that_somebody_writes_goes_no_further() {
    let world = World::new().await;
    let secret = "a secret of the story";
    let issue = world.standin.open_issue(REPO, ANN, &format!("It says {secret}"), "").unwrap();
    world.ask(issue, &format!("note {secret} and ghs_0123456789abcdef"));
    world.settle().await;
    let run = world.runs().await.remove(0);
    for page in ["/", "/runs", &format!("/runs/{}", run.id), "/environments"] {
        let page = world.page(page).await;
        assert!(!page.contains(secret) && !page.contains("ghs_0123"), "{page}");
    }
    let branch = format!("issue-{issue}");
    let message = git(&world.canonical().await, &["log", "-1", "--format=%B", &branch]);
    assert!(message.contains("[redacted]") && !message.contains(secret), "{message}");
    let pull = world.pull_of(&branch);
    assert!(!pull.title.contains(secret) && !pull.body.contains(secret), "{pull:?}");
    world.end().await;
}

/// BR-094
#[tokio::test]
async fn what_an_agent_changes_of_the_repository_itself_is_put_back_and_told() {
    let agent = "sh -c 'case \"$(cat)\" in *behave*) exit 0;; esac; common=$(git rev-parse --git-common-dir); \
                 GIT_DIR=$common git config core.bare false; mkdir $common/hooks; \
                 GIT_DIR=$common git symbolic-ref refs/remotes/origin/HEAD refs/heads/main; exit 3'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let good = world.worked_issue("behave").await;
    let canonical = world.canonical().await;
    let config = || std::fs::read_to_string(canonical.join("config")).unwrap();
    let before = config();
    let bad = world.worked_issue("misuse the repository").await;
    assert!(world.status(good).starts_with('✅') && !world.status(good).contains("put back"), "{}", world.status(good));
    let status = world.status(bad);
    assert!(
        status.starts_with("❌ **Failed**") && status.contains("it was put back: `config`, `hooks`, `refs`."),
        "{status}"
    );
    assert!(config() == before && !canonical.join("hooks").exists());
    let runs = world.runs().await;
    let page = async |run: &Run| world.page(&format!("/runs/{}", run.id)).await;
    assert!(page(&runs[1]).await.contains("it was put back: config, hooks, refs."));
    assert!(!page(&runs[0]).await.contains("Put back"));
    world.end().await;
}

/// What stands in a worktree's place after the agent is nobody's work but its own, if it is the worktree.
#[tokio::test]
async fn what_an_agent_puts_in_its_worktrees_place_is_not_published() {
    let agent = "sh -c 'W=$PWD; case \"$(cat)\" in \
                 *a-neighbour*) cd ..; mv $W $W.aside; ln -s $PWD/issue-1 $W;; \
                 *anything-else*) cd ..; mv $W $W.aside; mkdir $W; echo key > $W/id_rsa;; \
                 *nothing*) rm -rf $W; mkdir $W;; \
                 *a-clone*) cd ..; mv $W $W.aside; git clone -q $(git -C $W.aside rev-parse --git-common-dir) $W; echo x > $W/x.txt;; \
                 esac; echo secret > $W/mine.txt; echo done'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let neighbour = world.worked_issue("work").await;
    let files = world.environment().await.path;
    std::fs::write(files.join("draft.txt"), "nobody's business\n").unwrap();
    for words in ["a-neighbour", "anything-else", "nothing", "a-clone"] {
        let issue = world.worked_issue(words).await;
        let status = world.status(issue);
        assert!(status.contains("something else took the worktree's place"), "{words}: {status}");
        assert_eq!(world.remote_tip(&format!("issue-{issue}")).await, None, "{words}");
    }
    assert_eq!(world.remote_file("issue-1", "draft.txt").await, None);
    assert_eq!(std::fs::read_to_string(files.join("draft.txt")).unwrap(), "nobody's business\n");
    world.ask(neighbour, "more work");
    world.settle().await;
    assert!(world.status(neighbour).starts_with('✅'), "{}", world.status(neighbour));
    world.end().await;
}

/// It is what tells quickly that a branch was done with; GitHub and git know as well.
#[tokio::test]
async fn a_receipt_that_cannot_be_read_stops_no_thread() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    world.merge(world.pull_of("issue-1").number, MergeMethod::Squash).await;
    let removed = world.all_environments().await.remove(0);
    assert_eq!(removed.state, EnvironmentState::Destroyed);
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    let damaged = sqlx::query("UPDATE receipts SET details = '\"x\"'").execute(&mut database).await.unwrap();
    assert_eq!(damaged.rows_affected(), 1);
    assert!(world.store().receipt_of(removed.id).await.is_err());

    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, "please also greet in French");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.end().await;
}
