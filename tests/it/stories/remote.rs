//! A remote that does more with a push than it was asked: what is told is what is there, read back.

use crate::support::world::{ANN, REPO, World, git};
use std::{fs, os::unix::fs::PermissionsExt};
use treewarden::{demo::github::Fault, model::*};

/// What the server does after it has taken `issue-1`, as `sh` with `$new` and `$ref`.
fn after_each_push(world: &World, script: &str) {
    let hook = world.standin.git_dir(REPO).unwrap().join("hooks/post-receive");
    let text = format!(
        "#!/bin/sh\nwhile read -r old new ref; do\n[ \"$ref\" = refs/heads/issue-1 ] || continue\n{script}\ndone\n"
    );
    fs::write(&hook, text).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
}

fn no_more(world: &World) {
    fs::remove_file(world.standin.git_dir(REPO).unwrap().join("hooks/post-receive")).unwrap();
}

/// Its truth line, or what stands in its place.
fn verified(world: &World, number: i64) -> String {
    let status = world.status(number);
    status.lines().find(|line| line.starts_with("**Verified")).unwrap_or_else(|| panic!("{status}")).to_owned()
}

#[tokio::test]
async fn a_server_that_puts_a_commit_on_top_is_told_as_it_is() {
    let world = World::new().await;
    after_each_push(
        &world,
        "export GIT_AUTHOR_NAME=Server GIT_AUTHOR_EMAIL=s@localhost GIT_COMMITTER_NAME=Server GIT_COMMITTER_EMAIL=s@localhost\n\
         git update-ref \"$ref\" \"$(git commit-tree -p \"$new\" -m Formatted \"$new^{tree}\")\"",
    );
    let issue = world.worked_issue("add a greeting").await;

    let (there, here) = (world.remote_tip("issue-1").await.unwrap(), world.local_tip("issue-1").await.unwrap());
    assert_ne!(there, here);
    let truth = verified(&world, issue);
    assert!(truth.contains(&format!("`issue-1` is at [`{}`]", &there[..7])), "{truth}");
    assert!(truth.contains(&format!("pushed from here was `{}`", &here[..7])), "{truth}");
    assert_eq!(world.runs().await[0].outcome.pushed.as_ref().map(CommitSha::as_str), Some(there.as_str()));

    // Work goes on from there.
    no_more(&world);
    world.ask(issue, "add a note");
    world.settle().await;
    let tip = world.local_tip("issue-1").await.unwrap();
    assert_eq!(git(&world.canonical().await, &["merge-base", &there, &tip]), there);
    assert_eq!(world.remote_tip("issue-1").await, Some(tip));
    assert!(!verified(&world, issue).contains("pushed from here"), "{}", verified(&world, issue));
    world.end().await;
}

#[tokio::test]
async fn a_branch_that_is_gone_right_after_the_push_is_not_called_delivered() {
    let world = World::new().await;
    after_each_push(&world, "git update-ref -d \"$ref\"");
    let issue = world.worked_issue("add a greeting").await;

    assert_eq!(world.remote_tip("issue-1").await, None);
    let status = world.status(issue);
    assert!(status.starts_with("⚠️ **Done, but not delivered**"), "{status}");
    let truth = verified(&world, issue);
    assert!(truth.contains("the remote took the commits, but has no branch `issue-1`"), "{truth}");
    assert!(truth.contains("kept") && !truth.contains("on the remote"), "{truth}");
    assert!(world.standin.pulls(REPO).unwrap().is_empty());
    assert!(world.local_tip("issue-1").await.is_some());

    no_more(&world);
    world.ask(issue, "agent:noop");
    world.settle().await;
    let pull = world.pull_of("issue-1");
    assert!(verified(&world, issue).contains(&pull.head_sha[..7]), "{}", verified(&world, issue));
    world.standin.close(REPO, ANN, issue).unwrap();
    world.end().await;
}

/// What the repository says of the remote is an agent's to spoil: it is asked before anything is concluded from it.
#[tokio::test]
async fn what_agents_make_of_the_view_of_the_remote_is_not_taken_for_its_word() {
    const AGENT: &str = "sh -c 'echo work > work.txt; git add -A; \
        git -c user.name=A -c user.email=a@localhost commit -qm Work; eval \"$SPOIL\"'";
    for spoil in [
        "git remote remove origin",
        "git update-ref refs/remotes/origin/main HEAD",
        "git for-each-ref --format=\"delete %(refname)\" refs/remotes | git update-ref --stdin",
        "git update-ref refs/remotes/origin/issue-1 HEAD",
    ] {
        let agent = AGENT.replace("$SPOIL", &spoil.replace('"', "\\\""));
        let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", &agent)]).await;
        let issue = world.worked_issue("work").await;
        let status = world.status(issue);
        assert!(status.starts_with('✅') && !status.contains("not pushed"), "{spoil}: {status}");
        let tip = world.local_tip("issue-1").await;
        assert_eq!(world.remote_tip("issue-1").await, tip, "{spoil}");
        assert!(verified(&world, issue).contains("1 file changed"), "{spoil}: {}", verified(&world, issue));
        assert_eq!(world.pull_of("issue-1").head_sha, tip.unwrap());
        world.end().await;
    }
}

/// Nobody is asked where nothing was done.
#[tokio::test]
async fn a_run_that_does_nothing_ends_well_without_the_remote() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "agent:noop agent:sleep=2");
    world.until_agent_works().await;
    world.standin.faults().inject(None, "/octo/hello.git/", 10_000, Fault::Status(500));
    world.settle().await;
    assert!(world.status(issue).contains("no file changed, nothing to push"), "{}", world.status(issue));
    world.standin.faults().clear();
    world.end().await;
}

/// An agent that is to start over drops what is on the remote; nothing takes that away from there by force, nor without a word.
#[tokio::test]
async fn what_was_dropped_here_and_is_on_the_remote_is_told() {
    const AGENT: &str = "sh -c 'if grep -q \"start over\"; then git reset -q --hard refs/remotes/origin/main; \
                         else echo work > work.txt; fi'";
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", AGENT)]).await;
    let issue = world.worked_issue("do it").await;
    let pushed = world.remote_tip("issue-1").await.unwrap();
    world.ask(issue, "start over");
    world.settle().await;
    assert_eq!(world.remote_tip("issue-1").await, Some(pushed));
    let status = world.status(issue);
    assert!(status.starts_with("⚠️ **Done, but not delivered**"), "{status}");
    assert!(status.contains("`issue-1` on the remote still has 1 commit that was dropped here"), "{status}");
    world.end().await;
}
