//! The payloads that GitHub publishes as examples of its events, through the door and the workers.

use crate::support::{published, world::World};
use serde_json::{Value, json};
use treewarden::{github::payload, model::*};

/// Every example as it is; those of our events also as they come to an App: most leave out who installed it.
fn deliveries(examples: Vec<(String, Value)>) -> impl Iterator<Item = (String, Value)> {
    examples.into_iter().flat_map(|(event, body)| {
        let mut whole = body.clone();
        whole["installation"] = json!({"id": 4242});
        let whole = published::comes_to_us(&event).then(|| (event.clone(), whole));
        std::iter::once((event, body)).chain(whole)
    })
}

#[tokio::test]
async fn every_example_that_github_publishes_is_taken_and_handled() {
    let Some(examples) = published::examples() else { return };
    let world = World::new().await;
    let mut sent = 0;
    for (event, body) in deliveries(examples) {
        world.deliver(&event, &body).await;
        sent += 1;
    }
    world.settle().await;
    let stored = world.store().list_deliveries(sent, 0).await.unwrap();
    for delivery in &stored {
        let reason = delivery.reason.as_deref().unwrap_or_default();
        let handled = matches!(delivery.state, InboxState::Done | InboxState::Ignored);
        assert!(handled && !reason.contains("the body is not"), "{}: {:?} {reason}", delivery.event, delivery.state);
    }
    let known = stored.iter().filter(|delivery| published::comes_to_us(&delivery.event)).count();
    assert!(known > 150, "{known} of {}", stored.len());
    world.end().await;
}

/// BR-152
#[test]
fn every_example_of_our_events_is_understood() {
    let Some(examples) = published::examples() else { return };
    for (event, body) in deliveries(examples).filter(|(event, _)| published::comes_to_us(event)) {
        let understood = payload::understand(&event, body.to_string().as_bytes()).unwrap();
        let matters = body.get("installation").is_some() && leads_on(&event, &body);
        assert_eq!(matches!(understood, Event::Nothing(_)), !matters, "{event} {}: {understood:?}", body["action"]);
    }
}

fn leads_on(event: &str, body: &Value) -> bool {
    match (event, body["action"].as_str().unwrap_or_default()) {
        ("installation" | "installation_repositories", _) => true,
        // Those are of other Apps, and of none of our runs.
        ("check_run", _) => false,
        ("repository", action) => matches!(action, "renamed" | "transferred" | "edited" | "deleted"),
        (_, "edited") => body["changes"]["body"].is_object(),
        ("issues", "opened") => body["changes"]["old_issue"].is_null(),
        ("issues", action) => matches!(action, "closed" | "reopened" | "transferred"),
        ("pull_request", action) => matches!(action, "opened" | "closed" | "reopened" | "synchronize"),
        ("pull_request_review", action) => action == "submitted",
        (_, action) => matches!(action, "created" | "deleted"),
    }
}
