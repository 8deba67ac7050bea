//! A fork's pull request is worked on only at a commit that a writer approved, and only as long as it is the head.

use crate::support::world::{ANN, REPO, World, git};
use treewarden::demo::github::OpenPull;
use treewarden::model::*;

const PULL: &str = "/repos/octo/hello/pulls/1";
const ISSUE: &str = "/repos/octo/hello/issues/1";
const FETCH: &str = "/octo/hello.git/info/refs";

/// A file by which a stranger would have an agent run something.
const HOOKS: &str = ".claude/settings.json";

/// A fork's pull request with a file for agents. Answers with its number, the fork, and the head.
async fn forked(world: &World) -> (i64, String, String) {
    let fork = world.standin.fork(REPO, "bob").await.unwrap();
    let head = world.standin.push_commit(&fork, "bob", "x", "Hooks", &[(HOOKS, Some("{}\n"))]).await.unwrap();
    let pull = OpenPull { title: "From a fork", head: "bob:x", ..OpenPull::default() };
    (world.standin.open_pull(REPO, "bob", pull).await.unwrap(), fork, head)
}

/// Bob pushes one more commit. Answers with the new head.
async fn push(world: &World, fork: &str) -> String {
    world.standin.push_commit(fork, "bob", "x", "More", &[("more.txt", Some("more\n"))]).await.unwrap()
}

/// The newest run did not start because of what is `said`, and the thread was told once, with the commit to approve.
async fn refused(world: &World, pull: i64, head: &str, said: &str) {
    world.settle().await;
    let run = world.runs().await.pop().unwrap();
    assert_eq!(run.state, RunState::Failed, "{run:#?}");
    let status = world.status(pull);
    assert!(status.contains(said) && status.contains("nothing was run"), "{status}");
    assert!(status.contains(&world.mention(&format!("/approve {head}"))), "{status}");
    assert!(!world.service.orchestrator.log_path(run.id).exists(), "an agent was started");
}

/// What Ann asks the bot in a thread is answered so.
async fn answered(world: &World, number: i64, words: &str) -> String {
    world.ask(number, words);
    world.settle().await;
    world.answer(number)
}

async fn audited(world: &World, action: &str) -> Vec<(String, String, String)> {
    let entries = world.store().list_audit(100).await.unwrap().into_iter().filter(|entry| entry.action == action);
    entries.map(|entry| (entry.actor, entry.subject, entry.detail)).collect()
}

#[tokio::test]
async fn nothing_of_a_fork_is_run_before_a_writer_approved_it() {
    let world = World::new().await;
    let (pull, _, head) = forked(&world).await;
    world.ask(pull, "add a greeting");
    refused(&world, pull, &head, &format!("nobody has approved its head, `{head}`")).await;
    assert_eq!(world.answers(pull).len(), 1, "told once");
    assert!(world.all_environments().await.is_empty());
    let fetched = world.standin.requests().into_iter().filter(|request| request.path == FETCH).count();
    assert_eq!(fetched, 0, "not even fetched");

    world.approve(pull).await;
    assert_eq!(audited(&world, "pull.approved").await, [(ANN.to_owned(), format!("{REPO}#{pull}"), head.clone())]);
    world.ask(pull, "add a greeting");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains(&format!("Reviewing PR at commit `{}`", &head[..7])), "{status}");
    let environment = world.environment().await;
    assert!(environment.path.join(HOOKS).exists() && environment.path.join("hello.sh").exists());

    // As long as the head is the same: on top of what was done, too.
    world.ask(pull, "add a note");
    world.settle().await;
    assert_eq!(world.runs().await.pop().unwrap().state, RunState::Succeeded, "{}", world.status(pull));
    world.end().await;
}

#[tokio::test]
async fn a_push_ends_the_approval_also_when_it_is_taken_back() {
    let world = World::new().await;
    let (pull, fork, first) = forked(&world).await;
    world.approve(pull).await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    let worked = world.local_tip("pr-1-review").await.unwrap();

    let second = push(&world, &fork).await;
    world.ask(pull, "add a note");
    refused(&world, pull, &second, &format!("pushed to it since `{}` was approved", &first[..7])).await;
    assert!(!world.environment().await.path.join("more.txt").exists(), "the worktree stays as it was");
    let ended = (String::from("bob"), format!("{REPO}#{pull}"), format!("{first}, {second} was pushed"));
    assert_eq!(audited(&world, "pull.approval_ended").await, [ended]);

    world.standin.force_branch(&fork, "bob", "x", &first).await.unwrap();
    world.ask(pull, "add a note");
    refused(&world, pull, &first, "pushed to it since").await;
    assert_eq!(world.local_tip("pr-1-review").await.unwrap(), worked);
    world.end().await;
}

/// Also when nobody told us of the push.
#[tokio::test]
async fn a_push_whose_webhook_got_lost_ends_the_approval_too() {
    let world = World::new().await;
    let (pull, fork, _) = forked(&world).await;
    world.approve(pull).await;
    world.standin.faults().drop_deliveries(1);
    let second = push(&world, &fork).await;
    world.settle().await;
    assert_eq!(world.standin.faults().left(), 0, "nothing got lost");
    world.ask(pull, "add a greeting");
    refused(&world, pull, &second, "pushed to it since").await;
    world.end().await;
}

#[tokio::test]
async fn work_on_an_earlier_commit_makes_room_for_the_approved_one_and_is_kept() {
    let world = World::new().await;
    let (pull, fork, _) = forked(&world).await;
    world.approve(pull).await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    let worked = world.local_tip("pr-1-review").await.unwrap();
    let second = push(&world, &fork).await;
    world.approve(pull).await;
    world.ask(pull, "agent:noop");
    world.settle().await;

    let (status, environment) = (world.status(pull), world.environment().await);
    assert_eq!(world.runs().await.pop().unwrap().state, RunState::Succeeded, "{status}");
    let kept = format!("refs/treewarden/before/{}/{worked}", environment.id);
    assert!(status.contains(&format!("moved from `{}` to the approved commit", &worked[..7])), "{status}");
    assert!(status.contains(&kept), "{status}");
    assert_eq!(git(&environment.path, &["rev-parse", "HEAD"]), second);
    assert_eq!(git(&world.canonical().await, &["rev-parse", &kept]), worked);

    // What is not committed stays, and then nothing runs.
    std::fs::write(environment.path.join("README.md"), "mine\n").unwrap();
    push(&world, &fork).await;
    world.approve(pull).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains("could not be brought to the approved commit"), "{status}");
    assert!(status.contains("the worktree has uncommitted changes"), "{status}");
    assert_eq!(world.runs().await.pop().unwrap().state, RunState::Failed);
    assert_eq!(std::fs::read_to_string(environment.path.join("README.md")).unwrap(), "mine\n");
    world.end().await;
}

/// A branch that was kept says nothing about whose commits it has.
#[tokio::test]
async fn a_kept_branch_goes_back_to_the_approved_commit() {
    let world = World::new().await;
    let (pull, fork, first) = forked(&world).await;
    push(&world, &fork).await;
    world.approve(pull).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(answered(&world, pull, "/worktree remove").await.contains("removed"), "{}", world.answer(pull));
    world.standin.force_branch(&fork, "bob", "x", &first).await.unwrap();
    world.approve(pull).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert_eq!(world.runs().await.pop().unwrap().state, RunState::Succeeded, "{}", world.status(pull));
    let path = world.environment().await.path;
    assert_eq!(git(&path, &["rev-parse", "HEAD"]), first);
    assert!(!path.join("more.txt").exists());
    world.end().await;
}

#[tokio::test]
async fn only_the_present_head_of_a_fork_can_be_approved() {
    let world = World::new().await;
    let (pull, fork, first) = forked(&world).await;
    let second = push(&world, &fork).await;
    let said = answered(&world, pull, &format!("/approve {first}")).await;
    let right = world.mention(&format!("/approve {second}"));
    assert!(said.starts_with(&format!("`{first}` is not the head")) && said.contains(&right), "{said}");
    let said = answered(&world, pull, &format!("/approve {}", &second[..12])).await;
    assert!(said.contains("`/approve <full sha>`"), "{said}");
    world.ask(pull, "add a greeting");
    refused(&world, pull, &second, "nobody has approved").await;

    let own = world.pull_from("feature/y", "").await;
    let head = world.pull(own).head_sha;
    for thread in [own, world.issue()] {
        let said = answered(&world, thread, &format!("/approve {head}")).await;
        assert!(said.starts_with("Only the pull request of a fork needs an approval"), "{said}");
    }
    assert_eq!(audited(&world, "pull.approved").await, []);
    world.ask(own, "add a greeting");
    world.settle().await;
    assert!(world.status(own).starts_with('✅'), "{}", world.status(own));
    world.end().await;
}

#[tokio::test]
async fn a_reader_cannot_approve() {
    let world = World::new().await;
    let (pull, _, head) = forked(&world).await;
    world.standin.set_permission(REPO, "rea", Permission::Read).unwrap();
    for reader in ["rea", "bob"] {
        world.standin.comment(REPO, reader, pull, &world.mention(&format!("/approve {head}"))).unwrap();
        world.settle().await;
        let said = world.answer(pull);
        assert!(said.starts_with(&format!("Sorry `{reader}`, this needs write permission")), "{said}");
    }
    world.ask(pull, "add a greeting");
    refused(&world, pull, &head, "nobody has approved").await;
    world.end().await;
}

#[tokio::test]
async fn a_push_while_somebody_approves_comes_first() {
    let world = World::new().await;
    let (pull, fork, first) = forked(&world).await;
    world.settle().await;
    let mut held = world.standin.faults().hold("GET", PULL);
    world.ask(pull, &format!("/approve {first}"));
    held.arrived().await;
    let second = push(&world, &fork).await;
    drop(held);
    world.settle().await;
    assert!(world.answer(pull).contains(&format!("that is `{second}` now")), "{}", world.answer(pull));
    world.ask(pull, "add a greeting");
    refused(&world, pull, &second, "nobody has approved").await;
    world.end().await;
}

#[tokio::test]
async fn a_push_during_the_fetch_is_seen_before_there_is_a_worktree() {
    let world = World::new().await;
    let (pull, fork, _) = forked(&world).await;
    world.approve(pull).await;
    let mut held = world.standin.faults().hold("GET", FETCH);
    world.ask(pull, "add a greeting");
    held.arrived().await;
    let second = push(&world, &fork).await;
    drop(held);
    refused(&world, pull, &second, "pushed to it since").await;
    assert!(world.all_environments().await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_push_just_before_the_agent_starts_is_seen() {
    let world = World::new().await;
    let (pull, fork, first) = forked(&world).await;
    world.approve(pull).await;
    // Asked for the prompt, after the worktree was made.
    let mut held = world.standin.faults().hold("GET", ISSUE);
    world.ask(pull, "add a greeting");
    held.arrived().await;
    let environment = world.environment().await;
    assert_eq!(git(&environment.path, &["rev-parse", "HEAD"]), first);
    let second = push(&world, &fork).await;
    drop(held);
    refused(&world, pull, &second, "pushed to it since").await;
    assert!(!environment.path.join("hello.sh").exists());
    world.end().await;
}

#[tokio::test]
async fn a_run_that_was_queued_before_the_push_does_not_start_after_it() {
    let world = World::with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let (pull, fork, _) = forked(&world).await;
    world.approve(pull).await;
    let issue = world.issue();
    world.ask(issue, "agent:sleep=600");
    world.until_agent_works().await;
    world.ask(pull, "add a greeting");
    world.until_run_is(RunState::Queued).await;
    let second = push(&world, &fork).await;
    world.ask(issue, "/stop");
    refused(&world, pull, &second, "pushed to it since").await;
    assert!(world.environments().await.iter().all(|environment| environment.work.kind == WorkKind::Issue));

    // What was asked before the approval, and waits, runs after it.
    world.ask(issue, "agent:sleep=600");
    world.until_agent_works().await;
    world.ask(pull, "add a greeting");
    world.until_run_is(RunState::Queued).await;
    world.ask(pull, &format!("/approve {second}"));
    world.until("the approval", || async { world.answer(pull).contains(&second).then_some(()) }).await;
    world.ask(issue, "/stop");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains(&format!("Reviewing PR at commit `{}`", &second[..7])), "{status}");
    world.end().await;
}

/// Another thread that was led to a fork's worktree gets no further than the fork's own.
#[tokio::test]
async fn a_forks_worktree_is_not_entered_from_another_thread_either() {
    let world = World::new().await;
    let (pull, fork, _) = forked(&world).await;
    world.approve(pull).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    let issue = world.issue();
    assert!(answered(&world, issue, "/worktree link pr-1").await.contains("goes on in the worktree"));
    world.ask(issue, "agent:noop");
    world.settle().await;
    assert_eq!(world.runs().await.pop().unwrap().state, RunState::Succeeded, "{}", world.status(issue));

    let second = push(&world, &fork).await;
    world.ask(issue, "agent:noop");
    refused(&world, issue, &second, "The worktree is that of pull request #1, which comes from a fork").await;
    world.approve(pull).await;
    world.ask(issue, "agent:noop");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("could not be brought to the approved commit"), "still at the first one: {status}");
    world.ask(pull, "agent:noop");
    world.settle().await;
    world.ask(issue, "agent:noop");
    world.settle().await;
    assert_eq!(world.runs().await.pop().unwrap().state, RunState::Succeeded, "{}", world.status(issue));
    world.end().await;
}

#[tokio::test]
async fn an_approval_outlives_a_restart() {
    let world = World::new().await;
    let (pull, _, _) = forked(&world).await;
    world.approve(pull).await;
    let world = world.restart(|_| ()).await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded], "{}", world.status(pull));
    world.end().await;
}
