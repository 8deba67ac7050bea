//! The service is stopped while an agent is at work, and does not wait for it for ever.

use crate::support::world::World;
use std::time::Duration;
use tokio::time::timeout;
use treewarden::model::*;

/// The first turn leaves half of the work and never ends; the second does the rest.
const AGENT: &str =
    "sh -c 'if [ -e half.txt ]; then echo rest > rest.txt; else echo half > half.txt; exec sleep 600; fi'";

/// What was killed and not waited for yet is gone.
fn is_there(agent: AgentProcess) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", agent.group)).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[tokio::test]
async fn a_run_that_does_not_end_in_time_is_killed_and_its_work_is_kept() {
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", AGENT)]).await;
    let (world, process) = world.in_a_process().await;
    let issue = world.issue();
    world.ask(issue, "work");
    let run = world.until_agent_works().await;
    let place = world.environment().await.path;
    world.until("half of the work", || async { place.join("half.txt").exists().then_some(()) }).await;
    world.ask(issue, "go on");
    world.until("the second run in the queue", || async { (world.runs().await.len() == 2).then_some(()) }).await;
    let agent = run.process.unwrap();

    let gone = async || {
        let looking = async {
            while is_there(agent) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(20), looking).await.expect("the agent outlives the service");
    };
    let world = world.killed_after(process, Duration::from_millis(100), gone).await;
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Interrupted, RunState::Succeeded]);
    let statuses = world.statuses(issue);
    assert!(statuses[0].starts_with("⚡ **Interrupted** by a restart"), "{}", statuses[0]);
    assert!(statuses[0].contains("is kept in the worktree; mention me again"), "{}", statuses[0]);
    assert!(statuses[1].starts_with('✅'), "{}", statuses[1]);
    // What was queued went on in the same worktree, with what the killed agent had left there.
    assert_eq!(world.all_environments().await.len(), 1);
    for file in ["half.txt", "rest.txt"] {
        assert!(world.remote_file("issue-1", file).await.is_some(), "{file}");
    }
    world.end().await;
}
