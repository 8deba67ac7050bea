//! How fast GitHub is written to, and what happens when it asks for patience.

use crate::support::world::{ANN, REPO, World};
use std::time::Duration;
use tokio::time::Instant;
use treewarden::{
    demo::github::{Fault, RequestRecord},
    model::*,
};

/// Who mentions the bot is told so within this time.
const HEARD: Duration = Duration::from_secs(2);

/// What made or changed something, the first first.
fn writes(world: &World, method: &str, path: &str) -> Vec<RequestRecord> {
    let mut writes = world.standin.requests();
    writes.retain(|request| request.method == method && request.path.starts_with(path));
    writes
}

fn comments_of(issue: i64) -> String {
    format!("/repos/octo/hello/issues/{issue}/comments")
}

#[tokio::test]
async fn new_content_of_an_installation_is_a_second_apart() {
    let (beside, elsewhere) = ("octo/beside", "someone/elsewhere");
    let world = World::at_its_own_pace(&[]).await;
    for repository in [beside, elsewhere] {
        world.standin.create_repository(repository, &[("README.md", "# more\n")]).await.unwrap();
        world.standin.set_permission(repository, ANN, Permission::Write).unwrap();
    }
    for repository in [REPO, beside, REPO, elsewhere] {
        let issue = world.standin.open_issue(repository, ANN, "Greet people", "").unwrap();
        world.standin.comment(repository, ANN, issue, &world.mention("agent:noop")).unwrap();
    }
    world.settle().await;
    let comments = |path: &str| {
        let mut comments = writes(&world, "POST", path);
        comments.retain(|request| request.path.ends_with("/comments"));
        comments
    };
    let made = comments("/repos/octo/");
    assert_eq!(made.len(), 3, "{made:?}");
    for pair in made.windows(2) {
        assert!(pair[1].at - pair[0].at >= Duration::from_secs(1), "{made:?}");
    }
    let other = comments("/repos/someone/");
    assert!(other[0].at < made[2].at, "another installation has its own pace: {other:?}, {made:?}");
    world.end().await;
}

#[tokio::test]
async fn a_status_comment_is_edited_every_fifteen_seconds_at_most_and_its_end_at_once() {
    let world = World::at_its_own_pace(&[]).await;
    let (quick, long) = (world.issue(), world.issue());
    world.settle().await;
    world.ask(quick, "agent:noop");
    world.ask(long, "agent:sleep=16");
    world.settle().await;
    let edits = |issue: i64| {
        let comment = world.answers(issue).remove(0).id;
        writes(&world, "PATCH", &format!("/repos/octo/hello/issues/comments/{comment}"))
    };
    assert_eq!(edits(quick).len(), 1, "all its stages took a few seconds: {:?}", edits(quick));
    let (made, edits) = (writes(&world, "POST", &comments_of(long)).remove(0), edits(long));
    assert_eq!(edits.len(), 2, "{edits:?}");
    let interval = Duration::from_secs(15);
    assert!(edits[0].at - made.at >= interval, "{made:?}, {edits:?}");
    assert!(edits[1].at - edits[0].at < interval, "its end waited: {edits:?}");
    assert!(world.status(long).starts_with('✅'), "{}", world.status(long));
    world.end().await;
}

#[tokio::test]
async fn no_agent_starts_before_its_comment_is_there() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let mut held = world.standin.faults().hold("POST", &comments_of(issue));
    world.ask(issue, "agent:sleep=600");
    held.arrived().await;
    let ready = || async { world.environments().await.pop().filter(|one| one.state == EnvironmentState::Active) };
    world.until("its worktree", ready).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(world.run_states().await, [RunState::Preparing]);
    drop(held);
    world.until_agent_works().await;
    assert_eq!(world.answers(issue).len(), 1);
    world.ask(issue, "/stop");
    world.settle().await;

    // Whoever stops it meanwhile does not wait either.
    let issue = world.issue();
    world.settle().await;
    let mut held = world.standin.faults().hold("POST", &comments_of(issue));
    world.ask(issue, "agent:sleep=600");
    held.arrived().await;
    world.until_run_is(RunState::Preparing).await;
    world.ask(issue, "/stop");
    world.until_run_is(RunState::Cancelled).await;
    drop(held);
    world.end().await;
}

#[tokio::test]
async fn an_agent_waits_ten_seconds_for_its_comment_and_no_longer() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let mut held = world.standin.faults().hold("POST", &comments_of(issue));
    let asked = Instant::now();
    world.ask(issue, "agent:noop");
    held.arrived().await;
    world.until_agent_works().await;
    assert!(asked.elapsed() >= Duration::from_secs(10), "after {:?}", asked.elapsed());
    drop(held);
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.end().await;
}

/// A question meets it, and everything else waits as well.
#[tokio::test]
async fn nothing_is_written_until_a_used_up_limit_is_renewed() {
    let world = World::new().await;
    world.standin.set_permission(REPO, "bob", Permission::Write).unwrap();
    let (first, second) = (world.issue(), world.issue());
    world.settle().await;
    let about_bob = "/repos/octo/hello/collaborators/bob/";
    world.standin.faults().inject(Some("GET"), about_bob, 1, Fault::PrimaryLimit { reset: 4 });
    world.standin.comment(REPO, "bob", first, &world.mention("agent:noop")).unwrap();
    world.until("the limit", || async { (world.standin.faults().left() == 0).then_some(()) }).await;
    world.ask(second, "agent:noop");
    world.settle().await;
    let limited = world.standin.requests().into_iter().find(|request| request.path.starts_with(about_bob)).unwrap();
    let written = writes(&world, "POST", "/repos/octo/");
    // Whole seconds are told.
    assert!(written[0].at - limited.at >= Duration::from_secs(3), "{limited:?}, {written:?}");
    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    assert_eq!((world.answers(first).len(), world.answers(second).len()), (1, 1));
    world.end().await;
}

#[tokio::test]
async fn a_request_for_a_comment_that_hangs_keeps_nobody_from_being_heard() {
    let world = World::new().await;
    let (slow, other) = (world.issue(), world.issue());
    world.settle().await;
    let mut held = world.standin.faults().hold("POST", &comments_of(slow));
    world.ask(slow, "agent:noop");
    held.arrived().await;
    let asked = Instant::now();
    let comment = world.ask(other, "agent:noop");
    world.until("eyes", || async { (world.reactions(comment) == ["eyes"]).then_some(()) }).await;
    assert!(asked.elapsed() < HEARD, "heard after {:?}", asked.elapsed());
    assert!(world.answers(other).is_empty(), "one writer of content for each installation");
    drop(held);
    world.settle().await;
    assert_eq!((world.answers(slow).len(), world.answers(other).len()), (1, 1));
    world.end().await;
}
