//! Much is stored and waits: it is claimed together.

use crate::support::world::{REPO, World};
use std::time::Duration;
use tokio::time::timeout;
use treewarden::{model::*, store::Store};

/// Handled at once.
const PLACES: usize = 4;

/// How many deliveries are in this state and were tried so often.
async fn count(store: &Store, state: InboxState, tries: i64) -> usize {
    let deliveries = store.list_deliveries(500, 0).await.unwrap();
    deliveries.iter().filter(|one| (one.state, one.tries) == (state, tries)).count()
}

#[tokio::test]
async fn claims_that_still_wait_for_their_place_are_given_back_at_a_stop() {
    let world = World::new().await;
    let people: Vec<String> = (0..10).map(|n| format!("person-{n}")).collect();
    let threads: Vec<i64> = people.iter().map(|_| world.issue()).collect();
    for person in &people {
        world.standin.set_permission(REPO, person, Permission::Write).unwrap();
    }
    world.settle().await;
    world.orchestrator().let_claim(false).await;
    for (person, thread) in people.iter().zip(&threads) {
        world.standin.comment(REPO, person, *thread, &world.mention("/status")).unwrap();
    }
    world.standin.settled().await;
    let mut held: Vec<_> =
        people.iter().map(|_| world.standin.faults().hold("GET", "/repos/octo/hello/collaborators/")).collect();
    world.orchestrator().let_claim(true).await;
    for held in &mut held[..PLACES] {
        held.arrived().await;
    }
    assert_eq!(count(world.store(), InboxState::Claimed, 1).await, people.len(), "claimed together");

    // The service waits for those that are at work.
    let store = world.store().clone();
    let release = tokio::spawn(async move {
        let given_back = async {
            while count(&store, InboxState::Received, 0).await < people.len() - PLACES {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let given_back = timeout(Duration::from_secs(30), given_back).await.is_ok();
        drop(held);
        given_back
    });
    let world = world.restart(|_| ()).await;
    assert!(release.await.unwrap(), "they are still claimed");
    world.settle().await;
    for thread in threads {
        assert_eq!(world.answers(thread).len(), 1, "thread {thread}");
    }
    world.end().await;
}
