//! The App's own deliveries: over how many pages they are followed, where the requests go, and what was in one.

use super::fake::{Answer, Fake};
use super::*;
use treewarden::github::{AttemptLog, GithubError};

const LIST: &str = "GET /api/v3/app/hook/deliveries";

fn attempt(id: i64, seconds: i64) -> Value {
    let at = Timestamp::from_unix(seconds).to_string();
    json!({"id": id, "guid": format!("g{id}"), "delivered_at": at, "redelivery": false, "duration": 0.3, "status": "OK",
        "status_code": 202, "event": "issues", "action": null, "installation_id": null, "repository_id": null,
        "throttled_at": null})
}

fn page(attempts: &[Value], next: Option<&str>) -> Answer {
    let link = next.map(|cursor| {
        let url = format!("https://elsewhere.example/app/hook/deliveries?per_page=100&cursor={cursor}");
        ("link", format!("<{url}>; rel=\"next\", <https://elsewhere.example/>; rel=\"prev\""))
    });
    Answer::Full(200, link.into_iter().collect(), json!(attempts).to_string())
}

/// The first reading, back to second 500.
async fn read(fake: &Fake) -> AttemptLog {
    let (mut log, since) = (AttemptLog::default(), Timestamp::from_unix(500));
    fake.client().read_attempts(&mut log, since, since).await.unwrap();
    log
}

fn ids(log: &AttemptLog) -> Vec<i64> {
    log.attempts().iter().map(|attempt| attempt.id.0).collect()
}

#[tokio::test]
async fn the_list_is_followed_by_its_cursor_on_this_host_until_it_is_past_the_moment() {
    let fake = Fake::start().await;
    let pages = [
        page(&[attempt(9, 900), attempt(8, 800)], Some("v1_7%2F%2B")),
        page(&[attempt(7, 400), attempt(6, 600)], Some("v1_5")),
        page(&[attempt(5, 499), attempt(4, 300)], Some("v1_3")),
    ];
    fake.on(LIST, pages);
    let log = read(&fake).await;
    assert_eq!(ids(&log), [6, 8, 9]);
    assert!(log.is_complete());
    let asked: Vec<_> = fake.seen(LIST).into_iter().map(|seen| seen.line).collect();
    let [first, second, third] =
        ["", "&cursor=v1_7%2F%2B", "&cursor=v1_5"].map(|end| format!("{LIST}?per_page=100{end}"));
    assert_eq!(asked, [first, second, third]);
    assert!(fake.seen(LIST).iter().all(|seen| seen.auth.starts_with("Bearer ey")), "as the App itself");
    assert_eq!(fake.minted(), 0);
}

#[tokio::test]
async fn what_one_reading_does_not_reach_the_next_one_goes_on_with() {
    let fake = Fake::start().await;
    let since = Timestamp::from_unix(500);
    fake.on(LIST, (0..100).map(|n| page(&[attempt(1000 - n, 2000 - n)], Some(&format!("v1_{n}")))));
    let mut log = read(&fake).await;
    assert!(!log.is_complete());
    assert_eq!((ids(&log).len(), fake.seen(LIST).len()), (100, 100));
    assert_eq!(log.newest(), Some(Timestamp::from_unix(2000)));

    // What is new first, and of that only what is new; then the older ones.
    let new = page(&[attempt(1001, 2100), attempt(1000, 2000)], Some("v1_new"));
    let known = page(&[attempt(999, 1999)], Some("v1_known"));
    fake.on(LIST, [new, known, page(&[attempt(7, 600)], Some("v1_last")), page(&[attempt(6, 499)], None)]);
    fake.client().read_attempts(&mut log, since, Timestamp::from_unix(2000)).await.unwrap();
    assert!(log.is_complete());
    assert_eq!((ids(&log).len(), ids(&log)[0]), (102, 7));
    let asked: Vec<_> = fake.seen(LIST).split_off(100).into_iter().map(|seen| seen.line).collect();
    assert_eq!(
        asked,
        ["", "&cursor=v1_new", "&cursor=v1_99", "&cursor=v1_last"].map(|end| format!("{LIST}?per_page=100{end}"))
    );

    fake.on(LIST, [page(&[attempt(1001, 2100)], Some("v1_new")), page(&[attempt(999, 1999)], Some("v1_known"))]);
    fake.client().read_attempts(&mut log, since, Timestamp::from_unix(2050)).await.unwrap();
    assert_eq!((log.is_complete(), fake.seen(LIST).len()), (true, 106), "what is known is not read again");
}

#[tokio::test]
async fn a_place_that_github_does_not_know_any_more_is_left() {
    let fake = Fake::start().await;
    let since = Timestamp::from_unix(500);
    fake.on(LIST, (0..100).map(|n| page(&[attempt(1000 - n, 900)], Some("v1_1"))));
    let mut log = read(&fake).await;
    fake.on(
        LIST,
        [page(&[], None), Answer::Json(502, json!({})), Answer::Json(502, json!({})), Answer::Json(502, json!({}))],
    );
    fake.client().read_attempts(&mut log, since, since).await.unwrap_err();
    assert_eq!((ids(&log).len(), log.is_complete()), (100, false), "it goes on later");
    fake.on(LIST, [page(&[], None), Answer::Json(422, json!({"message": "Invalid cursor"}))]);
    fake.client().read_attempts(&mut log, since, since).await.unwrap_err();
    assert!(ids(&log).is_empty(), "it begins anew");
}

#[tokio::test]
async fn nothing_delivered_is_an_empty_log() {
    let fake = Fake::start().await;
    fake.on(LIST, [page(&[], None)]);
    let log = read(&fake).await;
    assert!(log.is_complete() && ids(&log).is_empty());
}

#[tokio::test]
async fn a_delivery_is_fetched_as_it_was_sent() {
    let fake = Fake::start().await;
    let line = "GET /api/v3/app/hook/deliveries/42";
    let payload = r#"{"action":"created", "odd":1.0,"text":"\u00e9 \/","big":12345678901234567890123}"#;
    let whole = |payload: &str| {
        let head = r#"{"id":42,"guid":"g42","event":"issue_comment","url":"https://elsewhere.example","request":"#;
        Answer::Full(200, vec![], format!(r#"{head}{{"headers":{{"X-GitHub-Event":"ping"}},"payload":{payload}}}}}"#))
    };
    fake.on(line, [whole(payload), whole("null"), Answer::Json(200, json!({"id": 42, "guid": "g42"}))]);
    let fetch = async || fake.client().fetch_delivery(AttemptId(42)).await;
    let fetched = fetch().await.unwrap();
    assert_eq!((fetched.guid.as_str(), fetched.event.as_str()), ("g42", "issue_comment"));
    assert_eq!(fetched.body.unwrap().into_inner(), payload.as_bytes());
    assert!(fetch().await.unwrap().body.is_none(), "GitHub has it no more");
    assert!(matches!(fetch().await, Err(GithubError::BadAnswer(_))));
    assert!(fake.seen(line).iter().all(|seen| seen.auth.starts_with("Bearer ey")), "as the App itself");
}
