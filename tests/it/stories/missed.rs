//! Deliveries that GitHub could not hand over: they are asked for again, handled once, and never asked for without end.

use crate::support::world::{ANN, REPO, World};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::time::Duration;
use treewarden::{
    demo::github::{Fault, Standin},
    model::*,
};

const LIST: &str = "/app/hook/deliveries";
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// A look as it will be this many seconds from now, and what comes of it.
async fn look(world: &World, later: u64) {
    world.standin.settled().await;
    look_at(world, later).await.unwrap();
    world.settle().await;
}

async fn look_at(world: &World, later: u64) -> Result<(), impl std::fmt::Debug> {
    let now = Timestamp::new(chrono::Utc::now()).plus(Duration::from_secs(later));
    world.service.orchestrator.look_for_missed(now).await
}

fn asked_again(standin: &Standin) -> usize {
    standin.deliveries().iter().filter(|record| record.redelivery).count()
}

#[tokio::test]
async fn what_people_said_while_the_service_was_down_is_handled_after_the_start() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let world = world.restart(|standin| {
        standin.faults().drop_deliveries(2);
        standin.comment(REPO, ANN, issue, "I think so, too.").unwrap();
        standin.comment(REPO, ANN, issue, &format!("@{} add a greeting", standin.app_slug())).unwrap();
    });
    let world = world.await;
    let looks = || world.standin.requests().iter().any(|request| request.path.starts_with(LIST));
    world.until("the look after the start", || async { looks().then_some(()) }).await;
    look(&world, 2 * MINUTE).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    assert_eq!((asked_again(&world.standin), world.answers(issue).len()), (2, 1));

    for later in [5 * MINUTE, HOUR, 80 * HOUR] {
        look(&world, later).await;
    }
    assert_eq!(asked_again(&world.standin), 2, "what arrived is not asked for");
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn what_the_inbox_could_not_take_is_asked_for_when_it_can() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'no room'); END";
    sqlx::query(refuse).execute(&mut database).await.unwrap();
    world.ask(issue, "add a greeting");
    world.standin.settled().await;
    let refused = world.standin.deliveries().pop().unwrap();
    assert_eq!(refused.outcome.unwrap().status_code, 503);
    look(&world, 0).await;
    assert_eq!((asked_again(&world.standin), world.run_states().await.len()), (1, 0));

    sqlx::query("DROP TRIGGER refuse").execute(&mut database).await.unwrap();
    look(&world, MINUTE).await;
    assert_eq!(asked_again(&world.standin), 1, "not at once again");
    look(&world, 6 * MINUTE).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

/// What was undone meanwhile is not done again.
#[tokio::test]
async fn a_close_that_comes_after_the_reopening_closes_nothing() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    world.standin.faults().drop_deliveries(1);
    world.standin.close(REPO, ANN, issue).unwrap();
    world.standin.settled().await;
    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.settle().await;
    look(&world, 2 * MINUTE).await;
    assert_eq!(asked_again(&world.standin), 1);
    let lines = world.store().list_deliveries(500, 0).await.unwrap();
    let ignored = lines.iter().filter_map(|line| line.reason.as_deref());
    assert_eq!(ignored.filter(|reason| reason.contains("has been opened again since")).count(), 1, "{lines:?}");
    assert_eq!(world.environment().await.id, environment.id);
    assert!(environment.path.exists());
    world.end().await;
}

#[tokio::test]
async fn a_delivery_that_keeps_failing_is_not_asked_for_for_ever() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().drop_deliveries(100);
    world.ask(issue, "add a greeting");
    for hours in 1..60 {
        look(&world, hours * HOUR).await;
    }
    assert_eq!(asked_again(&world.standin), 6);
    world.standin.faults().clear();
    assert!(world.run_states().await.is_empty());

    // By hand, it still comes.
    let lost = world.standin.deliveries().pop().unwrap();
    world.standin.redeliver(lost.id).unwrap();
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn what_was_asked_for_before_a_restart_and_did_not_come_is_asked_for_after_it() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().drop_deliveries(2);
    world.ask(issue, "add a greeting");
    look(&world, 2 * MINUTE).await;
    assert_eq!(asked_again(&world.standin), 1);
    let world = world.restart(|_| ()).await;
    look(&world, 10 * MINUTE).await;
    assert_eq!(asked_again(&world.standin), 2);
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn more_than_a_page_of_them_come_all() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().drop_deliveries(130);
    for number in 0..130 {
        world.standin.comment(REPO, ANN, issue, &format!("Remark {number}")).unwrap();
    }
    look(&world, 2 * MINUTE).await;
    assert_eq!(asked_again(&world.standin), 100, "some at a time");
    look(&world, 4 * MINUTE).await;
    assert_eq!(asked_again(&world.standin), 130);
    let stored = world.store().list_deliveries(500, 0).await.unwrap();
    assert_eq!(stored.iter().filter(|line| line.event == "issue_comment").count(), 130);
    world.end().await;
}

#[tokio::test]
async fn a_github_that_does_not_answer_disturbs_nothing_and_is_asked_later() {
    let world = World::new().await;
    let lost = world.issue();
    world.settle().await;
    world.standin.faults().drop_deliveries(1);
    world.ask(lost, "add a greeting");
    world.standin.settled().await;
    world.standin.faults().inject(Some("GET"), LIST, 3, Fault::Status(502));
    look_at(&world, 2 * MINUTE).await.unwrap_err();
    world.standin.faults().inject(Some("GET"), LIST, 1, Fault::Html { status: 200 });
    look_at(&world, 2 * MINUTE).await.unwrap_err();
    world.standin.faults().inject(Some("POST"), LIST, 1, Fault::SecondaryLimit { retry_after: 60 });
    look_at(&world, 2 * MINUTE).await.unwrap_err();
    assert_eq!((world.standin.faults().left(), asked_again(&world.standin)), (0, 0));
    world.worked_issue("add a greeting").await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);

    // The answer is lost, the effect is not.
    world.standin.faults().inject(Some("POST"), LIST, 1, Fault::CutAfterApplying);
    look_at(&world, 2 * MINUTE).await.unwrap_err();
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    look(&world, HOUR).await;
    assert_eq!(asked_again(&world.standin), 1);
    world.end().await;
}
