//! Commands are answered at once, also while a run is live.

use super::trash::answered_now;
use crate::support::world::{ANN, REPO, World, git};
use std::time::Duration;
use treewarden::{demo::github::Fault, model::*};

#[tokio::test]
async fn commands_are_answered_while_a_run_is_live() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "take your time agent:sleep=600");
    world.until_agent_works().await;

    let ask = async |words: &str| {
        let before = world.answers(issue).len();
        world.ask(issue, words);
        let what = format!("the answer to {words}");
        world.until(&what, || async { (world.answers(issue).len() > before).then_some(()) }).await;
        world.answer(issue)
    };
    let help = ask("/help").await;
    for command in ["/status", "/stop", "/worktree list", "/worktree remove", "/worktree pin"] {
        assert!(help.contains(command), "{command} in {help}");
    }
    let status = ask("/status").await;
    for line in [
        "Worktree **issue-1** on branch `issue-1`, based on `main`",
        "run running",
        "1 worktree of 25 in this repository: 0 merged, 0 stale (closed, or without activity for long), 1 active or kept",
    ] {
        assert!(status.contains(line), "{line} in {status}");
    }
    assert!(ask("/worktree list").await.contains("**issue-1** `issue-1` ← active"));
    assert!(ask("/worktree pin").await.contains("is pinned"));
    assert!(ask("/worktree unpin").await.contains("no longer pinned"));
    let refused = ask("/worktree remove").await;
    assert!(refused.contains("a run is live or queued in it") && refused.contains("Nothing was removed"), "{refused}");
    assert!(ask("/worktree lst").await.contains("Did you mean `/worktree list`?"));
    let orphans = ask("/worktree orphans").await;
    assert!(orphans.contains("- `issue-1` at `octo/hello/issue-1`, `issue-1`"), "{orphans}");
    for kind in ["merged", "stale"] {
        let report = ask(&format!("/worktree cleanup {kind}")).await;
        assert!(report.contains(&format!("No worktree of this repository is {kind}")), "{report}");
    }
    let made = ask("/worktree create aside").await;
    assert!(made.contains("**task-aside** on branch `aside`"), "{made}");
    let back_there = "**issue-1** on branch `issue-1`";
    assert!(ask("/worktree link issue-1").await.contains(back_there), "{}", world.answer(issue));
    assert!(ask("/worktree remove task-aside").await.starts_with("🧹"), "{}", world.answer(issue));
    let back = ask("/worktree restore task-aside").await;
    assert!(back.contains("goes on in the worktree **task-aside**"), "{back}");
    assert!(ask("/worktree link issue-1").await.contains(back_there), "{}", world.answer(issue));
    assert_eq!(world.until_agent_works().await.state, RunState::Running, "nothing disturbed the run");

    assert!(ask("/stop").await.contains("Stopping"));
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled]);
    let status = world.status(issue);
    assert!(status.starts_with("⏹️ **Stopped**") && status.contains("Stopped on request"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn only_admins_are_told_how_the_service_is_and_no_thread_where_things_lie() {
    let world = World::new().await;
    let erin = world.standin.user_number("erin");
    let admins = format!("erin:{erin}");
    let agent = ("TREEWARDEN_AGENT_COMMAND", "/opt/no/such/agent");
    let world = world.restart_with(&[("TREEWARDEN_ADMINS", &admins), agent]).await;
    world.standin.set_permission(REPO, "bob", Permission::Admin).unwrap();
    let issue = world.issue();
    let ask = async |who: &str| {
        let comment = world.standin.comment(REPO, who, issue, &world.mention("/doctor")).unwrap();
        world.settle().await;
        (world.reactions(comment), world.answer(issue))
    };
    let (reaction, refusal) = ask(ANN).await;
    let needed = "this needs admin permission on the repository, or to be named in the settings of this service";
    assert!(reaction == ["confused"] && refusal.contains(needed), "{refusal}");
    let home = world.home().canonicalize().unwrap();
    for who in ["bob", "erin"] {
        let (reaction, told) = ask(who).await;
        assert_eq!(reaction, ["eyes"], "{who}");
        for words in [
            "**octo/hello**\n- ✔ GitHub hands it over",
            "- ✔ App: it is installed on octo",
            "✔ git",
            "✘ agent",
            "/doctor",
        ] {
            assert!(told.contains(words), "{words} in {told}");
        }
        for secret in [&*home.display().to_string(), "/opt/no/such", "TREEWARDEN_AGENT_COMMAND", "treewarden.toml"] {
            assert!(!told.contains(secret), "{secret} in {told}");
        }
    }
    world.end().await;
}

/// A mention that waits for GitHub holds up its thread, but not a `/stop`; and it starts nothing any more.
#[tokio::test]
async fn a_stop_overtakes_what_waits_in_its_thread_and_ends_it() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let limit = Fault::SecondaryLimit { retry_after: 5 };
    world.standin.faults().inject(Some("GET"), "/repos/octo/hello/collaborators/", 1, limit);
    world.ask(issue, "add a greeting");
    world.until("the mention to wait", || async { (world.standin.faults().left() == 0).then_some(()) }).await;
    world.ask(issue, "/STOP");
    world.until("an answer", || async { (!world.answers(issue).is_empty()).then_some(()) }).await;
    assert!(world.answer(issue).contains("does not begin either"), "{}", world.answer(issue));
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled]);
    assert!(world.status(issue).starts_with("⏹️ **Stopped**"), "{}", world.status(issue));
    // What comes later is not meant.
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled, RunState::Succeeded]);
    world.end().await;
}

/// Git would be at it for minutes; its files stay.
#[tokio::test]
async fn a_commit_that_takes_very_long_ends_when_somebody_asks_to_stop() {
    const AGENT: &str = "sh -c 'mkdir huge; for i in $(seq 2000); do truncate -s 99M huge/$i; done'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", AGENT)]).await;
    let issue = world.issue();
    world.ask(issue, "fill the disk");
    let delivering = || async { (world.run_states().await == [RunState::Delivering]).then_some(()) };
    world.until("the delivery to begin", delivering).await;
    world.ask(issue, "/stop");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled]);
    let status = world.status(issue);
    assert!(status.contains("while the work was being delivered. Everything the agent had done is kept"), "{status}");
    assert!(world.environment().await.path.join("huge").exists() && world.remote_tip("issue-1").await.is_none());
    std::fs::remove_dir_all(world.environment().await.path.join("huge")).unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_git_server_that_says_nothing_is_not_waited_for_once_somebody_asks_to_stop() {
    let world = World::new().await;
    let issue = world.issue();
    let mut held = world.standin.faults().hold("GET", "/octo/hello.git/info/refs");
    world.ask(issue, "add a greeting");
    held.arrived().await;
    world.ask(issue, "/stop");
    world.until("the run to end", || async { (world.run_states().await == [RunState::Cancelled]).then_some(()) }).await;
    assert!(world.environments().await.is_empty());
    drop(held);
    world.settle().await;
    assert!(world.status(issue).starts_with("⏹"), "{}", world.status(issue));
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.end().await;
}

/// Whatever holds it up.
#[tokio::test]
async fn what_was_deleted_while_it_waited_for_another_try_is_not_done() {
    let world = World::new().await;
    let worked = world.worked_issue("add a greeting").await;
    for (login, words) in [("bob", "add a note"), ("eve", "/worktree remove --force")] {
        world.standin.set_permission(REPO, login, Permission::Write).unwrap();
        world.standin.faults().inject(Some("GET"), "/repos/octo/hello/collaborators/", u32::MAX, Fault::Status(502));
        let comment = world.standin.comment(REPO, login, worked, &world.mention(words)).unwrap();
        let waits = async || {
            let waiting = world.store().list_deliveries(10, 0).await.unwrap();
            waiting.iter().any(|line| line.state == InboxState::Received && line.tries > 0)
        };
        world.until("it to wait for another try", || async { waits().await.then_some(()) }).await;
        world.standin.delete_comment(REPO, login, comment).unwrap();
        world.standin.settled().await;
        world.standin.faults().clear();
        world.settle().await;
        assert_eq!(world.runs().await.len(), 1, "{words}");
        assert_eq!(world.environments().await.len(), 1, "{words}");
    }
    world.end().await;
}

/// What is pushed stays there; the next step is not taken.
#[tokio::test]
async fn a_run_that_is_stopped_while_it_delivers_opens_no_pull_request() {
    let world = World::new().await;
    let issue = world.issue();
    let silence = Fault::HangAfterApplying(Duration::from_secs(3));
    world.standin.faults().inject(Some("GET"), "/repos/octo/hello/pulls", 1, silence);
    world.ask(issue, "add a greeting");
    world.until("the delivery to wait", || async { (world.standin.faults().left() == 0).then_some(()) }).await;
    world.ask(issue, "/stop");
    world.settle().await;
    assert!(world.answer(issue).contains("Stopping 1 run"), "{}", world.answer(issue));
    assert_eq!(world.run_states().await, [RunState::Cancelled]);
    let status = world.status(issue);
    assert!(status.contains("while the work was being delivered"), "{status}");
    assert!(status.contains("no pull request was opened, since somebody asked to stop"), "{status}");
    assert!(world.standin.pulls(REPO).unwrap().is_empty() && world.remote_tip("issue-1").await.is_some());

    world.ask(issue, "add a note");
    world.settle().await;
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn work_that_was_stopped_goes_on_with_the_next_mention() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "agent:sleep=600");
    let run = world.until_agent_works().await;
    let environment = world.environment().await;
    std::fs::write(environment.path.join("half.txt"), "half done\n").unwrap();
    world.ask(issue, "/stop");
    world
        .until("the end of the run", || async {
            world.store().load_run(run.id).await.unwrap().filter(|run| run.state.is_final())
        })
        .await;
    assert!(environment.path.join("half.txt").exists(), "work done so far is kept");

    world.ask(issue, "go on");
    world.settle().await;
    assert_eq!(world.remote_file("issue-1", "half.txt").await.as_deref(), Some("half done\n"));
    world.end().await;
}

#[tokio::test]
async fn a_worktree_is_removed_on_request_and_its_branch_kept() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let tip = world.local_tip("issue-1").await;
    world.ask(issue, "/worktree remove");
    world.settle().await;

    assert!(world.answer(issue).starts_with("🧹 The worktree was removed"), "{}", world.answer(issue));
    assert!(!environment.path.exists() && world.environments().await.is_empty());
    assert!(tip.is_some() && world.local_tip("issue-1").await == tip, "the unmerged branch is kept");
    assert!(world.store().receipt_of(environment.id).await.unwrap().is_some());
    world.end().await;
}

#[tokio::test]
async fn a_dirty_worktree_is_not_removed_on_request() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    std::fs::write(environment.path.join("README.md"), "edited\n").unwrap();
    std::fs::write(environment.path.join("new.txt"), "new\n").unwrap();
    world.ask(issue, "/worktree remove");
    world.settle().await;

    let answer = world.answer(issue);
    assert!(answer.contains("uncommitted work: 1 changed file and 1 untracked file"), "{answer}");
    assert_eq!(world.environment().await.id, environment.id);
    assert_eq!(std::fs::read_to_string(environment.path.join("README.md")).unwrap(), "edited\n");
    world.end().await;
}

#[tokio::test]
async fn the_same_issue_gets_an_environment_every_time_after_a_removal() {
    let world = World::new().await;
    let issue = world.issue();
    for round in 1..=3 {
        world.ask(issue, &format!("note {round}"));
        world.settle().await;
        assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
        world.ask(issue, "/worktree remove");
        world.settle().await;
        assert!(world.environments().await.is_empty());
    }
    assert_eq!(world.all_environments().await.len(), 3, "history rows stay");
    let notes = world.remote_file("issue-1", "NOTES.md").await.unwrap();
    assert_eq!(notes, "# Notes\n\n- note 1\n- note 2\n- note 3\n");
    world.end().await;
}

#[tokio::test]
async fn a_queued_run_is_stopped_at_once() {
    let world = World::with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let (busy, waiting) = (world.issue(), world.issue());
    world.ask(busy, "agent:sleep=600");
    world.until_agent_works().await;
    world.ask(waiting, "add a greeting");
    world.until_run_is(RunState::Queued).await;
    world
        .until("the place in the queue", || async {
            world.statuses(waiting).pop().filter(|status| status.contains("**Queued** for `ann`"))
        })
        .await;
    world.ask(waiting, "/stop");
    world.until_run_is(RunState::Cancelled).await;
    world.ask(busy, "/stop");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled; 2]);
    assert!(world.status(waiting).starts_with("⏹️ **Stopped**"));
    world.end().await;
}

/// What the bot answers to a command, all done.
pub async fn answered(world: &World, thread: i64, words: &str) -> String {
    world.ask(thread, words);
    world.settle().await;
    world.answer(thread)
}

#[tokio::test]
async fn a_thread_goes_on_in_a_worktree_made_on_request() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let first = world.environment().await;
    world.standin.push_commit(REPO, ANN, "release-2", "Branch off", &[("two.txt", Some("2\n"))]).await.unwrap();
    let answer = answered(&world, issue, "/worktree create Feature/Dark --base release-2").await;
    assert!(answer.starts_with("Working in isolated branch `Feature/Dark`"), "{answer}");
    assert!(answer.contains("**task-Feature/Dark** on branch `Feature/Dark`"), "{answer}");
    assert_eq!(world.environments().await.len(), 2, "the first one stays");
    let list = answered(&world, issue, "/worktree list").await;
    assert!(list.contains("**task-Feature/Dark** `Feature/Dark` ← active, last activity 2"), "{list}");
    assert!(list.contains("**issue-1** `issue-1`, used by no thread, last activity 2"), "{list}");

    world.ask(issue, "write this down");
    world.settle().await;
    let made = world.all_environments().await.into_iter().find(|made| made.id != first.id).unwrap();
    assert!(made.path.join("two.txt").exists(), "from its base");
    let pull = world.pull_of("Feature/Dark");
    assert_eq!(pull.base_branch, "release-2");
    assert_eq!(world.pull_of("issue-1").commits.len(), 1, "nothing more went there");

    // Back, by name, in any case.
    let answer = answered(&world, issue, "/worktree link ISSUE-1").await;
    assert!(answer.contains("**issue-1** on branch `issue-1`"), "{answer}");
    let again = answered(&world, issue, "/worktree create Feature/Dark").await;
    assert!(again.starts_with("This thread goes on in the worktree **task-Feature/Dark**"), "made once: {again}");
    assert_eq!(world.environments().await.len(), 2);
    let gone = answered(&world, issue, "/worktree remove task-feature/dark").await;
    assert!(gone.starts_with("🧹"), "{gone}");
    assert!(
        answered(&world, issue, "/worktree link task-Feature/Dark").await.contains("is called `task-Feature/Dark`")
    );
    world.end().await;
}

#[tokio::test]
async fn an_existing_branch_is_continued_and_nothing_is_made_where_nothing_may_be() {
    let world = World::with(&[("MAX_WORKTREES_PER_CODEBASE", "2")]).await;
    world.standin.push_commit(REPO, ANN, "theirs", "Mine", &[("mine.txt", Some("mine\n"))]).await.unwrap();
    let issue = world.issue();
    let answer = answered(&world, issue, "/worktree create theirs").await;
    assert!(answer.starts_with("Continuing on existing branch `theirs`, 1 commit ahead"), "{answer}");
    for (words, why) in [
        ("/worktree create main", "`main` is a base"),
        ("/worktree create a..b", "cannot be used"),
        ("/worktree create x`y", "back-tick"),
        ("/worktree create refs/heads/x", "without 'refs/heads/'"),
        ("/worktree create x --base refs/pull/1/head", "without 'refs/heads/'"),
        ("/worktree create 0123456789abcdef0123456789abcdef01234567", "looks like the id of a commit"),
        ("/worktree create theirs/too", "git cannot have"),
        (
            "/worktree create other --base nowhere",
            "`nowhere` does not exist on the remote. Nothing was created. Name one that is there",
        ),
    ] {
        let answer = answered(&world, issue, words).await;
        assert!(answer.contains(why) && answer.contains("Nothing was created"), "{words}: {answer}");
        assert_eq!(world.environments().await.len(), 1, "{words}");
    }
    for base in ["-", "@", "@{-1}", "HEAD", "HEAD~1", "main@{yesterday}", "main:README.md", ":/Mine", "main^{tree}"] {
        let answer = answered(&world, issue, &format!("/worktree create x --base {base}")).await;
        assert!(!answer.contains("isolated branch") && world.environments().await.len() == 1, "{base}: {answer}");
    }
    // BR-073
    let option = answered(&world, issue, "/worktree create x1 --base=--lock").await;
    assert!(option.contains("is not how that is used") && world.environments().await.len() == 1, "{option}");
    let handled = world.store().list_deliveries(500, 0).await.unwrap();
    assert!(handled.iter().any(|delivery| delivery.reason.as_deref() == Some("told how a command is used")));
    // The branch of another thread's worktree stays with that thread.
    let other = world.worked_issue("agent:noop").await;
    let taken = answered(&world, issue, &format!("/worktree create issue-{other}")).await;
    assert!(taken.contains("is in use by the worktree of"), "{taken}");
    let full = answered(&world, issue, "/worktree create third").await;
    assert!(full.contains("(limit reached)"), "{full}");
    world.end().await;
}

#[tokio::test]
async fn two_at_once_make_one_worktree() {
    let world = World::new().await;
    let issue = world.issue();
    for _ in 0..3 {
        world.ask(issue, "/worktree create wip");
    }
    let other = world.issue();
    world.ask(other, "/worktree create wip");
    world.settle().await;
    assert_eq!(world.environment().await.branch.as_str(), "wip");
    assert!(
        world.answers(issue).iter().chain(&world.answers(other)).all(|answer| answer.body.contains("**task-wip**"))
    );
    // It is the first one's own; for the other it is somebody else's, and closing that thread leaves it alone.
    world.standin.close(REPO, ANN, other).unwrap();
    world.settle().await;
    assert_eq!(world.environments().await.len(), 1);
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(world.environments().await.is_empty());
    world.end().await;
}

/// BR-169
#[tokio::test]
async fn a_mention_and_a_command_for_the_same_branch_at_once_make_one_worktree() {
    for command_first in [true, false] {
        let world = World::new().await;
        let issue = world.issue();
        let (words, command) = ("add a greeting", format!("/worktree create issue-{issue}"));
        let asked = if command_first { [command.as_str(), words] } else { [words, command.as_str()] };
        for words in asked {
            world.ask(issue, words);
        }
        world.settle().await;
        assert_eq!(world.environment().await.branch.as_str(), format!("issue-{issue}"));
        assert_eq!(world.run_states().await, [RunState::Succeeded], "{command_first}: {:?}", world.answers(issue));
        world.end().await;
    }
}

#[tokio::test]
async fn worktrees_that_only_git_knows_are_listed() {
    let world = World::new().await;
    let issue = world.issue();
    assert!(answered(&world, issue, "/worktree orphans").await.contains("Git knows no worktree"));
    world.worked_issue("agent:noop").await;
    let (canonical, place) = (world.canonical().await, world.dir.path().join("elsewhere"));
    git(&canonical, &["worktree", "add", "-q", "-b", "by-hand", place.to_str().unwrap(), "refs/remotes/origin/main"]);
    let list = answered(&world, issue, "/worktree orphans").await;
    assert!(list.contains("- `issue-2` at `octo/hello/issue-2`, `issue-2`"), "{list}");
    assert!(list.contains("- `by-hand` at outside of my directory ← untracked"), "{list}");
    assert!(!list.contains(world.dir.path().to_str().unwrap()), "no path of the machine: {list}");
    // BR-042: nobody's worktree is removed by a command.
    std::fs::write(place.join("precious.txt"), "precious\n").unwrap();
    for words in ["by-hand", "by-hand --force", place.to_str().unwrap()] {
        let answer = answered(&world, issue, &format!("/worktree remove {words}")).await;
        assert!(answer.starts_with("No worktree of this repository is called"), "{answer}");
        assert!(place.join("precious.txt").exists() && place.join(".git").exists(), "{words}");
    }
    world.end().await;
}

#[tokio::test]
async fn status_says_when_head_left_the_branch() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let path = world.environment().await.path;
    git(&path, &["checkout", "-q", "--detach"]);
    let status = answered(&world, issue, "/status").await;
    assert!(status.contains("HEAD is detached, on no branch"), "{status}");
    git(&path, &["checkout", "-q", "-b", "aside"]);
    let status = answered(&world, issue, "/status").await;
    assert!(status.contains("HEAD is on `aside` instead"), "{status}");
    // Who works there finds it so, and is not to blame.
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("HEAD of the worktree was on `aside` before this message"), "{status}");
    assert!(status.contains("is on `aside`, not on `issue-1`") && !status.contains("the agent left"), "{status}");
    git(&path, &["checkout", "-q", "issue-1"]);
    assert!(!answered(&world, issue, "/status").await.contains("HEAD"));
    world.end().await;
}

#[tokio::test]
async fn a_thread_is_forgotten_on_request() {
    let agent = "sh -c 'cat \"$HOME/memory\" 2>/dev/null || echo fresh; echo remembered > \"$HOME/memory\"'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let issue = world.worked_issue("one").await;
    assert!(world.status(issue).contains("fresh"), "{}", world.status(issue));
    world.ask(issue, "two");
    world.settle().await;
    assert!(world.status(issue).contains("remembered"));
    let environment = world.environment().await;
    assert!(answered(&world, issue, "/reset").await.starts_with("The agent has forgotten this thread"));
    world.ask(issue, "three");
    world.settle().await;
    assert!(world.status(issue).contains("fresh"), "{}", world.status(issue));
    assert_eq!(world.environment().await.id, environment.id);
    world.end().await;
}

/// The comments of runs that wait are renewed when the queue moves, and only then.
#[tokio::test]
async fn the_place_in_the_queue_is_renewed_when_the_queue_moves() {
    let world = World::with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let busy = world.issue();
    world.ask(busy, "agent:sleep=600");
    world.until_agent_works().await;
    let waiting = [world.issue(), world.issue(), world.issue()];
    let says = async |issue: i64, ahead: &str| {
        let first = format!("🕐 **Queued** for `ann`{ahead}\n");
        let what = format!("{first:?} on #{issue}");
        let said = || async { world.statuses(issue).pop().filter(|status| status.starts_with(&first)) };
        world.until(&what, said).await;
    };
    for (issue, ahead) in waiting.into_iter().zip(["", " · 1 run ahead", " · 2 runs ahead"]) {
        world.ask(issue, "add a greeting");
        says(issue, ahead).await;
    }
    let renew = async || world.service.orchestrator.renew_places().await.unwrap();
    let versions = async || {
        let mut versions = Vec::new();
        for run in world.runs().await.into_iter().filter(|run| run.state == RunState::Queued) {
            let row = world.store().load_outgoing_by_key(&format!("status/{}", run.id)).await.unwrap().unwrap();
            versions.push(row.version);
        }
        versions
    };
    renew().await;
    assert_eq!(versions().await, [1, 1, 1], "they say so already");
    world.ask(waiting[0], "/stop");
    world.until("the first one to be over", || async { (versions().await.len() == 2).then_some(()) }).await;
    renew().await;
    says(waiting[1], "").await;
    says(waiting[2], " · 1 run ahead").await;
    renew().await;
    assert_eq!(versions().await, [2, 2], "one edit a change");
    for issue in [waiting[1], waiting[2], busy] {
        world.ask(issue, "/stop");
    }
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled; 4]);
    world.end().await;
}

/// BR-126
#[tokio::test]
async fn a_message_that_comes_again_does_nothing_twice() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let said = || world.answers(issue).into_iter().map(|comment| comment.body).collect::<Vec<_>>();
    for words in ["/worktree pin", "/status", "/nonsense", "agent:noop"] {
        let comment = world.ask(issue, words);
        world.settle().await;
        let (before, runs) = (said(), world.runs().await.len());
        // Once more, as another delivery; then with its mention taken out and put in again.
        let sent = world.standin.deliveries().into_iter().map(|sent| serde_json::from_slice(&sent.body).unwrap());
        let mut bodies: Vec<serde_json::Value> = sent.collect();
        bodies.retain(|body| body["comment"]["id"] == comment);
        let mut again = bodies.pop().unwrap();
        again["sent"] = "again".into();
        world.standin.send_event("issue_comment", again);
        world.settle().await;
        for text in [words.to_owned(), world.mention(words), "no".to_owned(), world.mention("/worktree unpin")] {
            world.standin.edit_comment(REPO, ANN, comment, &text).unwrap();
            world.settle().await;
        }
        assert_eq!(said(), before, "{words}");
        assert_eq!(world.runs().await.len(), runs, "{words}");
    }
    assert!(world.environment().await.pinned);
    // Nor does the text of a thread.
    let listed = world.standin.open_issue(REPO, ANN, "Worktrees", &world.mention("/worktree list")).unwrap();
    world.settle().await;
    for text in ["no".to_owned(), world.mention("/worktree create x")] {
        world.standin.edit(REPO, ANN, listed, None, Some(&text)).unwrap();
        world.settle().await;
    }
    assert_eq!((world.answers(listed).len(), world.environments().await.len()), (1, 1));
    world.end().await;
}

/// A name, a branch or an id is one of this repository, and never another one's.
#[tokio::test]
async fn worktrees_of_another_repository_are_out_of_reach() {
    const OTHER: &str = "octo/other";
    let world = World::new().await;
    world.standin.create_repository(OTHER, &[("README.md", "# other\n")]).await.unwrap();
    world.standin.set_permission(OTHER, ANN, Permission::Write).unwrap();
    world.issue();
    let issue = world.worked_issue("add a greeting").await;
    let before = world.environment().await;
    let open = || world.standin.open_issue(OTHER, ANN, "Elsewhere", "Look over.").unwrap();
    let ask = async |thread: i64, words: &str| {
        world.standin.comment(OTHER, ANN, thread, &world.mention(words)).unwrap();
        world.settle().await;
        let mut own = world.standin.comments(OTHER, thread).unwrap();
        own.retain(|comment| comment.via_app);
        own.pop().unwrap().body
    };
    let first = open();
    for name in [before.work.to_string(), before.branch.to_string(), before.id.to_string()] {
        for command in ["remove", "link"] {
            let answer = ask(first, &format!("/worktree {command} {name}")).await;
            let nothing = format!("No worktree of this repository is called `{name}`, so nothing was changed.");
            assert!(answer.starts_with(&nothing), "{command}: {answer}");
        }
        let answer = ask(first, &format!("/worktree pin {name}")).await;
        assert!(answer.contains("is not how that is used") && answer.contains("Nothing was run"), "{answer}");
    }
    assert!(ask(first, "/worktree pin").await.starts_with("This thread has no worktree"));
    let as_it_was = |now: Vec<Environment>| now.into_iter().map(|one| (one.id, one.version)).collect::<Vec<_>>();
    assert_eq!(as_it_was(world.environments().await), [(before.id, before.version)]);
    // Of two with one name it is the one here.
    let same = open();
    assert_eq!(same, issue);
    assert!(ask(same, "agent:noop").await.starts_with('✅'));
    assert_eq!(world.environments().await.len(), 2);
    let answer = ask(first, &format!("/worktree remove {}", before.work)).await;
    assert!(answer.starts_with("🧹"), "{answer}");
    assert_eq!(as_it_was(world.environments().await), [(before.id, before.version)]);
    world.end().await;
}

/// A session ends with the worktree that its thread points to, and with no other.
#[tokio::test]
async fn a_memory_ends_with_the_worktree_of_its_thread() {
    let agent = "sh -c 'cat \"$HOME/memory\" 2>/dev/null || echo fresh; echo remembered > \"$HOME/memory\"'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", agent)]).await;
    let issue = world.worked_issue("one").await;
    let homes = || std::fs::read_dir(world.home().join("agents")).unwrap().count();
    let remembers = async |words: &str, remembers: bool| {
        world.ask(issue, words);
        world.settle().await;
        let said = if remembers { "remembered" } else { "fresh" };
        assert!(world.status(issue).contains(said), "{words}: {}", world.status(issue));
    };
    remembers("two", true).await;
    // Another worktree keeps it, and the one that was left takes nothing along.
    answered(&world, issue, "/worktree create wip").await;
    remembers("three", true).await;
    assert!(answered(&world, issue, &format!("/worktree remove issue-{issue}")).await.starts_with("🧹"));
    remembers("four", true).await;
    assert!(answered(&world, issue, "/worktree remove").await.starts_with("🧹"));
    world.until("nothing to be left of it", || async { (homes() == 0).then_some(()) }).await;
    remembers("five", false).await;
    // One that is gone by itself is noticed when it is needed.
    remembers("six", true).await;
    std::fs::remove_dir_all(world.environment().await.path).unwrap();
    remembers("seven", false).await;
    assert!(world.status(issue).contains("Detected a stale worktree reference"), "{}", world.status(issue));
    // And one that others use stays with them.
    let other = world.worked_issue("agent:noop").await;
    answered(&world, other, &format!("/worktree link issue-{issue}")).await;
    assert!(answered(&world, issue, "/worktree remove").await.contains("no longer works in"));
    remembers("eight", false).await;
    world.ask(other, "nine");
    world.settle().await;
    assert!(world.status(other).contains("remembered"), "{}", world.status(other));
    world.end().await;
}

/// BR-061
#[tokio::test]
async fn a_shared_worktree_is_not_let_go_of_under_anothers_run() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let other = world.issue();
    answered(&world, other, "/worktree link issue-1").await;
    world.ask(other, "agent:sleep=600");
    let run = world.until_agent_works().await;
    let before = world.answers(issue).len();
    world.ask(issue, "/worktree remove");
    world.until("the answer", || async { (world.answers(issue).len() > before).then_some(()) }).await;
    let told = world.answer(issue);
    assert!(told.contains(&format!("**issue-1** is in use by #{other} (run `{}`)", run.id)), "{told}");
    assert_eq!(world.store().conversations_of(world.environment().await.id).await.unwrap().len(), 2);
    world.ask(other, "/stop");
    world.settle().await;
    let left = answered(&world, issue, "/worktree remove --force").await;
    assert!(
        left.contains("no longer works in") && left.contains("`/worktree remove issue-1 --force` removes it"),
        "{left}"
    );
    assert!(answered(&world, other, "/worktree remove").await.starts_with("🧹"), "it was the last one");
    world.end().await;
}

/// Its thread was pointed to another worktree while the agent was at work.
#[tokio::test]
async fn a_run_at_work_elsewhere_keeps_no_worktree() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let other = world.issue();
    world.ask(other, "agent:sleep=600");
    world.until_agent_works().await;
    answered_now(&world, other, &format!("/worktree link issue-{issue}")).await;
    let gone = answered_now(&world, issue, &format!("/worktree remove issue-{issue}")).await;
    assert!(gone.starts_with("🧹"), "{gone}");
    let busy = answered_now(&world, issue, &format!("/worktree remove issue-{other}")).await;
    assert!(busy.contains("a run is live or queued in it"), "{busy}");
    world.ask(other, "/stop");
    world.settle().await;
    world.end().await;
}

/// The service dies when the worktree's end is written down and the memory is still there.
#[tokio::test]
async fn a_memory_that_outlived_its_worktree_is_forgotten_by_the_next_start() {
    let world = World::new().await;
    let (gone, stays) = (world.worked_issue("one").await, world.worked_issue("two").await);
    assert!(answered(&world, gone, "/worktree remove").await.starts_with("🧹"));
    world.settle().await;
    let agents = world.home().join("agents");
    let homes: Vec<_> = world.runs().await.iter().map(|run| agents.join(run.conversation.to_string())).collect();
    let before = || homes.iter().filter(|home| home.exists()).count();
    assert_eq!(before(), 1, "{stays} keeps its own");
    let world = world.restart(|_| homes.iter().for_each(|home| std::fs::create_dir_all(home).unwrap())).await;
    world.settle().await;
    assert_eq!(before(), 1);
    world.end().await;
}

#[tokio::test]
async fn nothing_is_forgotten_under_a_live_agent() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "agent:sleep=600");
    world.until_agent_works().await;
    world.ask(issue, "/reset");
    world
        .until("the answer", || async { world.answers(issue).pop().filter(|a| a.body.contains("needs its memory")) })
        .await;
    world.ask(issue, "/stop");
    world.end().await;
}

#[tokio::test]
async fn the_status_says_how_far_a_worktree_is_and_what_waits() {
    let world = World::with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let issue = world.worked_issue("agent:commit").await;
    world.ask(issue, "agent:commit");
    world.settle().await;
    for file in ["one.txt", "two.txt", "three.txt"] {
        world.standin.push_commit(REPO, ANN, "main", "Move on", &[(file, Some("more\n"))]).await.unwrap();
    }
    // A mention elsewhere brings the base's new commits here.
    let busy = world.issue();
    world.ask(busy, "agent:sleep=600");
    world.until_agent_works().await;
    let place = world.environments().await.remove(0).path;
    std::fs::write(place.join("new.txt"), "new\n").unwrap();
    std::fs::write(place.join("committed.txt"), "changed\n").unwrap();
    let (between, asked) = (world.issue(), world.runs().await.len());
    for (number, waiting) in [(between, 1), (issue, 2)] {
        world.ask(number, "agent:noop");
        let queued = || async { (world.runs().await.len() == asked + waiting).then_some(()) };
        world.until("a run in the queue", queued).await;
    }
    world.ask(issue, "/status");
    let told = world.until("the status", || async {
        let said = world.answers(issue).into_iter().map(|comment| comment.body);
        said.rev().find(|body| body.contains("in this repository"))
    });
    let told = told.await;
    for line in [
        "- 2 commits ahead, 3 behind",
        "- 2 uncommitted files",
        "- run queued, 1 run ahead",
        &format!("- Worktree **issue-{issue}** on branch `issue-{issue}`, based on `main`"),
    ] {
        assert!(told.lines().any(|said| said.starts_with(line)), "{line} in {told}");
    }
    world.ask(busy, "/stop");
    world.settle().await;
    world.end().await;
}

#[tokio::test]
async fn no_thread_is_linked_to_a_worktree_whose_directory_is_gone() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let before = world.environment().await;
    std::fs::remove_dir_all(&before.path).unwrap();
    let other = world.issue();
    let answer = answered(&world, other, "/worktree link issue-1").await;
    assert!(answer.starts_with("The directory of the worktree `issue-1` is gone. Nothing was changed"), "{answer}");
    world.ask(issue, "agent:noop");
    world.settle().await;
    let answer = answered(&world, other, "/worktree link issue-1").await;
    assert!(answer.starts_with("This thread goes on in the worktree **issue-1**"), "{answer}");
    world.end().await;
}

#[tokio::test]
async fn what_stands_beside_a_command_is_not_passed_over_in_silence() {
    let world = World::new().await;
    let issue = world.issue();
    let told = "Only `/status` was read. What else this message says was not carried out";
    for (words, more) in [
        ("/status", false),
        ("/status\n\n> what somebody said\n", false),
        ("/status\nand then add a greeting", true),
        ("/status\n/worktree list", true),
    ] {
        assert_eq!(answered(&world, issue, words).await.contains(told), more, "{words}");
    }
    world.end().await;
}
