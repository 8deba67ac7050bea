//! GitHub cannot reach the service: everything comes by asking for it, and all else is as ever.

use crate::support::world::{ANN, REPO, World};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::time::Duration;
use treewarden::{
    decide::missed::rest_after,
    demo::github::{Fault, MergeMethod, Standin},
    model::*,
    orchestrator::Looked,
};

const POLL: (&str, &str) = ("TREEWARDEN_WEBHOOK", "poll");
const LIST: &str = "/app/hook/deliveries";
const ONE: &str = "/app/hook/deliveries/";

/// What GitHub has is asked for until there is no more, and what it leads to is done.
async fn poll(world: &World) {
    loop {
        let before = asked_for(&world.standin);
        look(world, 0).await;
        if asked_for(&world.standin) == before {
            return;
        }
    }
}

/// One look as it will be this many seconds from now.
async fn look(world: &World, later: u64) {
    world.standin.settled().await;
    let now = Timestamp::new(chrono::Utc::now()).plus(Duration::from_secs(later));
    world.orchestrator().look_for_missed(now).await.unwrap();
    world.settle().await;
}

/// Deliveries that GitHub was asked for.
fn asked_for(standin: &Standin) -> usize {
    let requests = standin.requests();
    requests.iter().filter(|request| request.method == "GET" && request.path.starts_with(ONE)).count()
}

async fn post(world: &World) -> u16 {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = http.post(format!("http://{}/webhooks/github", world.service.address)).body("{}");
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn without_a_port_a_mention_leads_to_a_pull_request() {
    let world = World::with(&[POLL]).await;
    assert_eq!(post(&world).await, 404, "there is no door");
    let issue = world.issue();
    world.ask(issue, "add a greeting");
    poll(&world).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    assert_eq!(world.answers(issue).len(), 1);
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));

    world.merge(world.pull_of("issue-1").number, MergeMethod::Squash).await;
    world.standin.close(REPO, ANN, issue).unwrap();
    poll(&world).await;
    assert!(world.environments().await.is_empty());
    let delivered = world.standin.deliveries();
    assert!(delivered.iter().all(|record| record.outcome.as_ref().unwrap().status_code == 0), "none was handed over");
    world.end().await;
}

/// By itself, within the time that is promised.
#[tokio::test]
async fn nobody_has_to_press_anything() {
    let world = World::with(&[POLL]).await;
    let issue = world.issue();
    let comment = world.ask(issue, "/status");
    world.until("an answer", || async { (!world.answers(issue).is_empty()).then_some(()) }).await;
    assert_eq!(world.reactions(comment), ["eyes"]);
    world.end().await;
}

#[tokio::test]
async fn commands_edits_and_deletions_come_by_asking() {
    let world = World::with(&[POLL]).await;
    let issue = world.issue();
    let comment = world.standin.comment(REPO, ANN, issue, "note one").unwrap();
    poll(&world).await;
    assert_eq!(world.runs().await.len(), 0);
    world.standin.edit_comment(REPO, ANN, comment, &world.mention("note one")).unwrap();
    poll(&world).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);

    // While an agent is at work: a request that is taken back, and one to stop, which does not wait.
    world.ask(issue, "take your time agent:sleep=60");
    look_only(&world).await;
    world.until_agent_works().await;
    let regretted = world.ask(issue, "note something foolish");
    look_only(&world).await;
    world.until("the request in the queue", || async { (world.runs().await.len() == 3).then_some(()) }).await;
    world.standin.delete_comment(REPO, ANN, regretted).unwrap();
    look_only(&world).await;
    world
        .until("it to be taken back", || async {
            (world.run_states().await.last() == Some(&RunState::Cancelled)).then_some(())
        })
        .await;
    world.ask(issue, "/stop");
    poll(&world).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded, RunState::Cancelled, RunState::Cancelled]);
    assert!(!world.remote_file("issue-1", "NOTES.md").await.unwrap().contains("foolish"));
    world.end().await;
}

/// Something is under way, and stays so.
async fn look_only(world: &World) {
    world.standin.settled().await;
    world.orchestrator().look_for_missed(Timestamp::new(chrono::Utc::now())).await.unwrap();
}

#[tokio::test]
async fn what_was_taken_is_not_fetched_again() {
    let world = World::with(&[POLL]).await;
    let issue = world.issue();
    world.ask(issue, "add a greeting");
    poll(&world).await;
    // As after a kill between the inbox and what is remembered of it.
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    let before: (String,) = sqlx::query_as("SELECT value FROM settings WHERE key LIKE 'missed-deliveries/%'")
        .fetch_one(&mut database)
        .await
        .unwrap();
    world.ask(issue, "also greet in French");
    poll(&world).await;
    let asked = asked_for(&world.standin);
    sqlx::query("UPDATE settings SET value = $1 WHERE key LIKE 'missed-deliveries/%'")
        .bind(before.0)
        .execute(&mut database)
        .await
        .unwrap();
    drop(database);
    let world = world.restart(|_| ()).await;
    for later in [0, 3600, 80 * 3600] {
        look(&world, later).await;
    }
    assert_eq!(asked_for(&world.standin), asked);
    assert_eq!((world.run_states().await, world.answers(issue).len()), (vec![RunState::Succeeded; 2], 2));
    world.end().await;
}

#[tokio::test]
async fn what_was_said_while_the_service_was_down_is_there_after_the_start() {
    let world = World::with(&[POLL]).await;
    let issue = world.issue();
    poll(&world).await;
    let world = world.restart(|standin| {
        standin.comment(REPO, ANN, issue, &format!("@{} add a greeting", standin.app_slug())).unwrap();
    });
    let world = world.await;
    poll(&world).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn a_delivery_that_was_given_up_is_tried_once_more_where_somebody_has_it_sent_again() {
    let world = World::with(&[POLL]).await;
    let issue = world.issue();
    world.ask(issue, "add a greeting");
    poll(&world).await;
    let asked = world.standin.deliveries().into_iter().find(|record| record.event == "issue_comment").unwrap();
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    // A while ago, and for whatever reason.
    let failed = "UPDATE inbox SET state = 'failed', finished_at = $2 WHERE guid = $1";
    let long_ago = "2020-01-01T00:00:00.000000Z";
    let changed = sqlx::query(failed).bind(&asked.guid).bind(long_ago).execute(&mut database).await.unwrap();
    assert_eq!(changed.rows_affected(), 1);
    let state = || async {
        let lines = world.store().list_deliveries(50, 0).await.unwrap();
        lines.into_iter().find(|line| line.guid == asked.guid).map(|line| line.state).unwrap()
    };
    poll(&world).await;
    assert_eq!(state().await, InboxState::Failed, "not by itself");
    world.standin.redeliver(asked.id).unwrap();
    poll(&world).await;
    assert_ne!(state().await, InboxState::Failed);
    assert_eq!(world.run_states().await, [RunState::Succeeded], "it had led to a run before");
    let asked = asked_for(&world.standin);
    poll(&world).await;
    assert_eq!(asked_for(&world.standin), asked, "and once");
    world.end().await;
}

#[tokio::test]
async fn changing_the_mode_handles_nothing_twice() {
    let world = World::new().await;
    let issue = world.worked_issue("note one").await;
    assert_ne!(post(&world).await, 404);
    let world = world.restart_with(&[POLL]).await;
    poll(&world).await;
    assert_eq!((asked_for(&world.standin), post(&world).await), (0, 404));
    world.ask(issue, "note two");
    poll(&world).await;
    let fetched = asked_for(&world.standin);
    let world = world.restart_with(&[("TREEWARDEN_WEBHOOK", "on")]).await;
    look(&world, 120).await;
    world.ask(issue, "note three");
    world.settle().await;
    look(&world, 240).await;
    assert_eq!(asked_for(&world.standin), fetched);
    assert_eq!((world.run_states().await, world.answers(issue).len()), (vec![RunState::Succeeded; 3], 3));
    let notes = world.remote_file("issue-1", "NOTES.md").await.unwrap();
    assert_eq!(notes, "# Notes\n\n- note one\n- note two\n- note three\n");
    world.end().await;
}

/// However long it was away, and whichever way they come otherwise.
#[tokio::test]
async fn a_thousand_missed_come_within_githubs_limits() {
    for settings in [&[][..], &[POLL]] {
        let world = World::with(settings).await;
        let issue = world.issue();
        poll(&world).await;
        let (asked, requests) = (asked_for(&world.standin), world.standin.requests().len());
        let world = world.restart(|standin| {
            standin.faults().drop_deliveries(1000);
            for number in 0..1000 {
                standin.comment(REPO, ANN, issue, &format!("Remark {number}")).unwrap();
            }
        });
        let world = world.await;
        world.standin.settled().await;
        // One look after the other, as long as there is more; in two minutes nothing is on its way any more.
        let mut now = Timestamp::new(chrono::Utc::now()).plus(Duration::from_secs(120));
        let begin = now;
        loop {
            let Looked { more, pages } = world.orchestrator().look_for_missed(now).await.unwrap();
            if !more {
                break;
            }
            now = now.plus(rest_after(more, pages, settings.is_empty()));
        }
        assert!(now.since(begin) < Duration::from_secs(300), "{:?}", now.since(begin));
        assert_eq!(asked_for(&world.standin) - asked, 1000, "once each");
        let beside = world.standin.requests().len() - requests - 1000;
        assert!(beside < 200, "{beside} requests beside that");
        world.settle().await;
        // All of them, in the order in which people wrote.
        let stored = world.store().list_deliveries(2000, 0).await.unwrap();
        let stored: Vec<_> =
            stored.iter().rev().filter(|line| line.event == "issue_comment").map(|line| &line.guid).collect();
        let written = world.standin.deliveries();
        let written: Vec<_> =
            written.iter().filter(|record| record.event == "issue_comment").map(|record| &record.guid).collect();
        assert_eq!((stored.len(), stored), (1000, written));
        world.end().await;
    }
}

#[tokio::test]
async fn a_github_that_does_not_answer_loses_nothing() {
    let world = World::with(&[POLL]).await;
    let issue = world.issue();
    poll(&world).await;
    world.standin.faults().inject(Some("GET"), ONE, 1, Fault::TooManyRequests { retry_after: 60 });
    world.standin.faults().inject(Some("GET"), LIST, 1, Fault::Html { status: 200 });
    world.ask(issue, "add a greeting");
    world.standin.settled().await;
    while world.standin.faults().left() > 0 {
        // Whoever meets them, this look or one of the service's own.
        let _ = world.orchestrator().look_for_missed(Timestamp::new(chrono::Utc::now())).await;
    }
    poll(&world).await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}
