//! Deliveries that never came in: they are fetched, handled once, and never fetched without end.

use crate::support::world::{ANN, REPO, World};
use axum::{Router, http::StatusCode};
use serde_json::json;
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::{fs, time::Duration};
use treewarden::{
    demo::github::{Fault, Standin},
    model::*,
    orchestrator::{Looked, StepError},
};

const LIST: &str = "/app/hook/deliveries";
const ONE: &str = "/app/hook/deliveries/";
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// A look as it will be this many seconds from now, and what comes of it.
async fn look(world: &World, later: u64) {
    world.standin.settled().await;
    look_at(world, later).await.unwrap();
    world.settle().await;
}

async fn look_at(world: &World, later: u64) -> Result<Looked, StepError> {
    let now = Timestamp::new(chrono::Utc::now()).plus(Duration::from_secs(later));
    world.service.orchestrator.look_for_missed(now).await
}

/// Deliveries that GitHub was asked for.
fn asked_for(standin: &Standin) -> usize {
    let requests = standin.requests();
    requests.iter().filter(|request| request.method == "GET" && request.path.starts_with(ONE)).count()
}

fn status_of_newest(standin: &Standin) -> u16 {
    standin.deliveries().pop().unwrap().outcome.unwrap().status_code
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
    assert_eq!((asked_for(&world.standin), world.answers(issue).len()), (2, 1));

    for later in [5 * MINUTE, HOUR, 80 * HOUR] {
        look(&world, later).await;
    }
    assert_eq!(asked_for(&world.standin), 2, "what arrived is not fetched");
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

/// A parked page, a login page, a forwarder that nobody listens to: GitHub believes that it was delivered.
#[tokio::test]
async fn what_somebody_else_took_for_us_is_fetched() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}/webhooks/github", listener.local_addr().unwrap());
    let router = Router::new().fallback(|| async { (StatusCode::OK, "<title>Parked</title>") });
    tokio::spawn(async move { axum::serve(listener, router).await });
    world.standin.set_webhook(&proxy, "a secret of the story".to_owned().into());
    world.ask(issue, "add a greeting");
    world.standin.settled().await;
    assert_eq!((status_of_newest(&world.standin), world.run_states().await.len()), (200, 0));
    look(&world, 0).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    // With it came what the work itself led to: nobody hands that over, either.
    look(&world, 2 * MINUTE).await;
    let before = asked_for(&world.standin);
    look(&world, HOUR).await;
    assert_eq!((asked_for(&world.standin), world.answers(issue).len()), (before, 1));
    world.end().await;
}

/// All of it was handed over, and answered with 202, by a service whose memory is older than that.
#[tokio::test]
async fn what_a_restored_backup_has_forgotten_comes_again() {
    let world = World::new().await;
    let before = world.worked_issue("add a greeting").await;
    let (home, backup) = (world.home(), world.dir.path().join("backup"));
    let world = world.restart(|_| copy(&home, &backup)).await;
    let after = world.worked_issue("/worktree create dark-mode").await;
    assert_eq!(status_of_newest(&world.standin), 202);
    assert_eq!(world.environments().await.len(), 2);
    let world = world.restart(|_| {
        fs::remove_dir_all(&home).unwrap();
        copy(&backup, &home);
    });
    let world = world.await;
    look(&world, 2 * MINUTE).await;
    for record in world.standin.deliveries() {
        assert!(world.store().knows_delivery(&record.guid).await.unwrap(), "{record:?}");
    }
    assert_eq!((world.environments().await.len(), world.run_states().await), (2, vec![RunState::Succeeded]));
    assert_eq!(world.answers(before).len(), 1);
    assert!(world.answer(after).contains("dark-mode"), "{}", world.answer(after));
    let asked = asked_for(&world.standin);
    look(&world, HOUR).await;
    assert_eq!(asked_for(&world.standin), asked, "once");
    world.end().await;
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[tokio::test]
async fn what_the_inbox_could_not_take_is_fetched_when_it_can() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'no room'); END";
    sqlx::query(refuse).execute(&mut database).await.unwrap();
    world.ask(issue, "add a greeting");
    world.standin.settled().await;
    assert_eq!(status_of_newest(&world.standin), 503);
    for later in 0..10 {
        look_at(&world, later * HOUR).await.unwrap_err();
    }
    assert_eq!(world.run_states().await.len(), 0);

    // It was no fault of the delivery.
    sqlx::query("DROP TRIGGER refuse").execute(&mut database).await.unwrap();
    look(&world, 10 * HOUR).await;
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
    assert_eq!(asked_for(&world.standin), 1);
    let lines = world.store().list_deliveries(500, 0).await.unwrap();
    let ignored = lines.iter().filter_map(|line| line.reason.as_deref());
    assert_eq!(ignored.filter(|reason| reason.contains("has been opened again since")).count(), 1, "{lines:?}");
    assert_eq!(world.environment().await.id, environment.id);
    assert!(environment.path.exists());
    world.end().await;
}

#[tokio::test]
async fn a_delivery_that_github_does_not_hand_out_is_not_asked_for_for_ever() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().drop_deliveries(1);
    world.standin.faults().inject(Some("GET"), ONE, 1000, Fault::Status(404));
    world.ask(issue, "add a greeting");
    for hours in 1..60 {
        look(&world, hours * HOUR).await;
    }
    assert_eq!(asked_for(&world.standin), 6);
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
async fn a_delivery_that_nobody_can_read_is_fetched_once() {
    let world = World::new().await;
    world.standin.send_event("issues", json!("no object"));
    world.standin.settled().await;
    assert_eq!(status_of_newest(&world.standin), 400);
    for later in [0, MINUTE, HOUR, 5 * HOUR] {
        look(&world, later).await;
    }
    assert_eq!(asked_for(&world.standin), 1);
    world.end().await;
}

/// The secrets differ: GitHub itself is no stranger, who would be.
#[tokio::test]
async fn what_was_signed_with_another_secret_is_believed_where_github_has_it() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let hook = format!("http://{}/webhooks/github", world.service.address);
    world.standin.set_webhook(&hook, "another secret".to_owned().into());
    world.ask(issue, "add a greeting");
    world.standin.settled().await;
    assert_eq!(status_of_newest(&world.standin), 401);
    look(&world, 0).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn what_was_fetched_and_comes_by_the_door_as_well_is_handled_once() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().drop_deliveries(1);
    world.ask(issue, "add a greeting");
    look(&world, 2 * MINUTE).await;
    let lost = world.standin.deliveries().into_iter().find(|record| record.event == "issue_comment").unwrap();
    world.standin.redeliver(lost.id).unwrap();
    world.settle().await;
    assert_eq!((world.run_states().await.len(), world.answers(issue).len()), (1, 1));
    world.end().await;
}

#[tokio::test]
async fn what_was_tried_before_a_restart_is_fetched_after_it() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().drop_deliveries(1);
    world.standin.faults().inject(Some("GET"), ONE, 1, Fault::Status(404));
    world.ask(issue, "add a greeting");
    look(&world, 2 * MINUTE).await;
    assert_eq!((asked_for(&world.standin), world.run_states().await.len()), (1, 0));
    let world = world.restart(|_| ()).await;
    look(&world, 10 * MINUTE).await;
    assert_eq!(asked_for(&world.standin), 2);
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
    world.standin.settled().await;
    assert!(look_at(&world, 2 * MINUTE).await.unwrap().more, "some at a time");
    assert_eq!(asked_for(&world.standin), 100);
    assert!(!look_at(&world, 2 * MINUTE + 10).await.unwrap().more);
    assert_eq!(asked_for(&world.standin), 130);
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
    world.standin.faults().inject(Some("GET"), ONE, 1, Fault::SecondaryLimit { retry_after: 60 });
    look_at(&world, 2 * MINUTE).await.unwrap_err();
    assert_eq!((world.standin.faults().left(), asked_for(&world.standin)), (0, 1));
    world.worked_issue("add a greeting").await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);

    // To wait was no try in vain; what is cut off is one.
    world.standin.faults().inject(Some("GET"), ONE, 3, Fault::CutAfterApplying);
    look_at(&world, 2 * MINUTE).await.unwrap_err();
    look(&world, 3 * MINUTE).await;
    assert_eq!((world.standin.faults().left(), world.run_states().await.len()), (0, 1));
    look(&world, 8 * MINUTE).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    let asked = asked_for(&world.standin);
    look(&world, HOUR).await;
    assert_eq!(asked_for(&world.standin), asked);
    world.end().await;
}
