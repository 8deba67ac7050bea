//! The App's own deliveries: over how many pages they are followed, where the requests go, and asking for one again.

use super::fake::{Answer, Fake};
use super::*;
use treewarden::github::GithubError;

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

#[tokio::test]
async fn the_list_is_followed_by_its_cursor_on_this_host_until_it_is_past_the_moment() {
    let fake = Fake::start().await;
    let pages = [
        page(&[attempt(9, 900), attempt(8, 800)], Some("v1_7%2F%2B")),
        page(&[attempt(7, 400), attempt(6, 600)], Some("v1_5")),
        page(&[attempt(5, 499), attempt(4, 300)], Some("v1_3")),
    ];
    fake.on(LIST, pages);
    let log = fake.client().attempts_since(Timestamp::from_unix(500)).await.unwrap();
    assert_eq!(log.attempts.iter().map(|attempt| attempt.id.0).collect::<Vec<_>>(), [9, 8, 6]);
    assert!(log.complete);
    let asked: Vec<_> = fake.seen(LIST).into_iter().map(|seen| seen.line).collect();
    let [first, second, third] =
        ["", "&cursor=v1_7%2F%2B", "&cursor=v1_5"].map(|end| format!("{LIST}?per_page=100{end}"));
    assert_eq!(asked, [first, second, third]);
    assert!(fake.seen(LIST).iter().all(|seen| seen.auth.starts_with("Bearer ey")), "as the App itself");
    assert_eq!(fake.minted(), 0);
}

#[tokio::test]
async fn a_list_without_an_end_is_left_and_it_is_said() {
    let fake = Fake::start().await;
    fake.on(LIST, (0..200).map(|n| page(&[attempt(n, 900)], Some("v1_1"))));
    let log = fake.client().attempts_since(Timestamp::from_unix(500)).await.unwrap();
    assert!(!log.complete);
    assert_eq!((log.attempts.len(), fake.seen(LIST).len()), (100, 100));
}

#[tokio::test]
async fn nothing_delivered_is_an_empty_log() {
    let fake = Fake::start().await;
    fake.on(LIST, [page(&[], None)]);
    let log = fake.client().attempts_since(Timestamp::from_unix(500)).await.unwrap();
    assert!(log.complete && log.attempts.is_empty());
}

#[tokio::test]
async fn another_attempt_is_asked_for_once_even_when_github_stumbles() {
    let fake = Fake::start().await;
    let line = "POST /api/v3/app/hook/deliveries/42/attempts";
    fake.on(line, [Answer::Json(202, json!({})), Answer::Json(502, json!({}))]);
    let client = fake.client();
    assert_eq!(client.redeliver(AttemptId(42)).await, Ok(()));
    assert_eq!(client.redeliver(AttemptId(42)).await, Err(GithubError::Server { status: 502 }));
    assert_eq!(fake.seen(line).len(), 2);
}
