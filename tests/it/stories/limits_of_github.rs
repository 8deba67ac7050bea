//! How fast GitHub is written to, and what happens when it asks for patience.

use crate::support::world::World;
use std::time::Duration;
use tokio::time::Instant;

/// Who mentions the bot is told so within this time.
const HEARD: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_request_for_a_comment_that_hangs_keeps_nobody_from_being_heard() {
    let world = World::new().await;
    let (slow, other) = (world.issue(), world.issue());
    world.settle().await;
    let mut held = world.standin.faults().hold("POST", &format!("/repos/octo/hello/issues/{slow}/comments"));
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
