//! `POST /webhooks/github`: what is accepted, what is refused, and that GitHub hears the truth about it.

use super::serve::{ask, hear, saying, until_closed};
use super::*;
use serde_json::json;
use tokio::io::AsyncWriteExt;

/// Whether it speaks to the bot is looked at in its turn.
const COMMENT: &[u8] = br#"{"action":"created","repository":{"id":1,"full_name":"acme/app"},"installation":{"id":3},
"issue":{"number":5},"comment":{"id":9,"body":"I asked `@treewarden-demo`","user":{"id":5,"login":"ann","type":"User"}},"odd":1.0}
"#;

async fn refusal(request: RequestBuilder) -> (u16, String) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, json(answer).await["error"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_accepted_delivery_is_stored_with_its_place_in_the_order() {
    let stage = Stage::new().await;
    let answer = stage.delivery("g-1", "issue_comment", COMMENT).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    assert_eq!(json(answer).await, json!({"status": "accepted"}));
    let stored = &stage.store.list_deliveries(10, 0).await.unwrap()[0];
    assert_eq!((stored.guid.as_str(), stored.event.as_str()), ("g-1", "issue_comment"));
    assert_eq!((stored.conversation_key.as_deref(), stored.state), (Some("1#5"), InboxState::Received));
    let whole = stage.store.load_delivery(stored.id).await.unwrap().unwrap();
    assert_eq!(whole.body, COMMENT);
}

#[tokio::test]
async fn a_duplicate_is_one_by_its_id_and_by_its_signed_body() {
    // BR-148
    let stage = Stage::new().await;
    stage.delivery("g-1", "issue_comment", COMMENT).send().await.unwrap();
    for guid in ["g-1", "g-other"] {
        let answer = stage.delivery(guid, "issue_comment", COMMENT).send().await.unwrap();
        assert_eq!(answer.status(), 202);
        assert_eq!(json(answer).await, json!({"status": "duplicate"}), "{guid}");
    }
    assert_eq!(stage.store.list_deliveries(10, 0).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_not_signed_as_it_is_stores_nothing_and_blocks_nothing() {
    // BR-145, BR-146, BR-148
    let stage = Stage::new().await;
    let good = signature::sign(&secret(), COMMENT);
    let foreign = signature::sign(&SecretString::from("another"), COMMENT);
    let signed = |header: Option<&str>, body: &[u8]| {
        let request = stage.request(Method::POST, "/webhooks/github").body(body.to_owned());
        let request = request.header("X-GitHub-Delivery", "g-1").header("X-GitHub-Event", "issue_comment");
        match header {
            Some(header) => request.header("X-Hub-Signature-256", header),
            None => request,
        }
    };
    let mut changed = COMMENT.to_vec();
    changed[10] ^= 1;
    let cases = [
        (None, COMMENT, "the X-Hub-Signature-256 header is missing"),
        (Some("sha256="), COMMENT, "the X-Hub-Signature-256 header is not sha256= and 64 hex digits"),
        (Some("sha1=0000000000000000000000000000000000000000"), COMMENT, "the X-Hub-Signature-256 header is not"),
        (Some(foreign.as_str()), COMMENT, "the signature does not fit"),
        (Some(good.as_str()), &changed, "the signature does not fit"),
        (None, b"not even JSON".as_slice(), "the X-Hub-Signature-256 header is missing"),
    ];
    for (header, body, sentence) in cases {
        let (status, error) = refusal(signed(header, body)).await;
        assert_eq!(status, 401, "{header:?}");
        assert!(error.starts_with(sentence) && error.ends_with("; nothing was stored"), "{error}");
    }
    let two = stage.delivery("g-1", "issue_comment", COMMENT).header("X-Hub-Signature-256", foreign);
    assert_eq!(two.send().await.unwrap().status(), 401, "which of two is meant?");
    assert!(stage.store.list_deliveries(10, 0).await.unwrap().is_empty());
    let answer = stage.delivery("g-1", "issue_comment", COMMENT).send().await.unwrap();
    assert_eq!(json(answer).await, json!({"status": "accepted"}));
}

#[tokio::test]
async fn the_exact_bytes_are_signed_whatever_they_look_like() {
    // BR-145
    let stage = Stage::new().await;
    let odd = b"{\"b\":1.0, \"a\":\"\\u00e9 \\/\"}\n";
    let answer = stage.delivery("g-1", "issue_comment", odd).send().await.unwrap();
    assert_eq!(answer.status(), 202);
}

#[tokio::test]
async fn signed_nonsense_is_refused_by_name() {
    let stage = Stage::new().await;
    for body in [b"{".as_slice(), b"", b"[1]", b"\"text\"", b"\xff\xfe"] {
        let (status, error) = refusal(stage.delivery("g-1", "issues", body)).await;
        assert_eq!(status, 400);
        assert!(error.starts_with("the body is not a JSON object"), "{error}");
    }
    let mut request = stage.delivery("g-1", "issues", b"payload=%7B%7D").build().unwrap();
    request.headers_mut().insert(header::CONTENT_TYPE, "application/x-www-form-urlencoded".parse().unwrap());
    let answer = stage.http.execute(request).await.unwrap();
    assert_eq!(answer.status(), 415);
    assert_eq!(json(answer).await["error"], "set the webhook's content type to application/json; nothing was stored");
    let long = "x".repeat(201);
    for (guid, event, missing) in
        [("", "issues", "x-github-delivery"), ("g", "", "x-github-event"), (&long, "issues", "x-github-delivery")]
    {
        let (status, error) = refusal(stage.delivery(guid, event, COMMENT)).await;
        assert_eq!(status, 400);
        assert_eq!(error, format!("the {missing} header is missing or too long; nothing was stored"));
    }
    assert!(stage.store.list_deliveries(10, 0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_body_of_25_megabytes_is_taken_and_one_byte_more_is_not() {
    let stage = Stage::new().await;
    let whole = padded(0, 25 * 1024 * 1024);
    let answer = stage.delivery("g-1", "issue_comment", &whole).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let stored = stage.store.find_delivery("g-1").await.unwrap().unwrap();
    assert!(stage.store.load_delivery(stored).await.unwrap().unwrap().body == whole);
    // Nothing that long is hashed, so that its signature does not matter.
    let long = stage.delivery("g-2", "issue_comment", b"").body(padded(0, 25 * 1024 * 1024 + 1));
    let (status, error) = refusal(long).await;
    assert_eq!(status, 413);
    assert_eq!(error, "the body is over 25 MB, more than GitHub ever sends; nothing was stored");
}

/// [`COMMENT`], with another id, and as long as that.
fn padded(id: usize, size: usize) -> Vec<u8> {
    let comment = String::from_utf8_lossy(COMMENT).replace("\"id\":9", &format!("\"id\":{id}"));
    let mut body = comment.trim_end().trim_end_matches('}').as_bytes().to_vec();
    body.extend(b",\"pad\":\"");
    body.resize(size - 2, b'x');
    body.extend(b"\"}");
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn large_bodies_that_come_at_once_are_all_stored_whole() {
    let stage = Stage::new().await;
    let bodies: Vec<Vec<u8>> = (0..24).map(|id| padded(id, 1_000_000 + id)).collect();
    let sends =
        bodies.iter().enumerate().map(|(n, body)| stage.delivery(&format!("g-{n}"), "issue_comment", body).send());
    for answer in futures::future::join_all(sends).await {
        assert_eq!(answer.unwrap().status(), 202);
    }
    for (n, body) in bodies.iter().enumerate() {
        let stored = stage.store.find_delivery(&format!("g-{n}")).await.unwrap().unwrap();
        assert!(stage.store.load_delivery(stored).await.unwrap().unwrap().body == *body, "{n}");
    }
}

/// The head of a delivery that is fine but for what is put in, and whose body is still to come.
fn head(without: &str, instead: &str, length: usize) -> String {
    let zeros = "0".repeat(64);
    let lines = [
        "POST /webhooks/github HTTP/1.1".to_owned(),
        "Host: hooks.example.com".to_owned(),
        format!("Content-Length: {length}"),
        "Content-Type: application/json".to_owned(),
        "X-GitHub-Delivery: g-1".to_owned(),
        "X-GitHub-Event: issues".to_owned(),
        format!("X-Hub-Signature-256: sha256={zeros}"),
    ];
    let kept = lines.iter().filter(|line| without.is_empty() || !line.starts_with(without)).map(String::as_str);
    let all: Vec<&str> = kept.chain([instead].into_iter().filter(|line| !line.is_empty())).collect();
    all.join("\r\n") + "\r\n\r\n"
}

const BIG: usize = 25 * 1024 * 1024;
const UNSIGNED: &str = "the X-Hub-Signature-256 header is missing; nothing was stored\"}";

#[tokio::test]
async fn what_the_head_shows_to_be_wrong_is_refused_before_the_body() {
    let stage = Stage::new().await;
    let malformed = "the X-Hub-Signature-256 header is not sha256= and 64 hex digits";
    let form = "Content-Type: application/x-www-form-urlencoded";
    let short = "X-Hub-Signature-256: sha256=00";
    for (without, instead, length, status, sentence) in [
        ("X-Hub", "", BIG, 401, "the X-Hub-Signature-256 header is missing"),
        ("X-Hub", short, BIG, 401, malformed),
        ("X-GitHub-Delivery", "", BIG, 400, "the x-github-delivery header is missing or too long"),
        ("X-GitHub-Event", "X-GitHub-Event: ", BIG, 400, "the x-github-event header is missing or too long"),
        ("Content-Type", form, BIG, 415, "set the webhook's content type to application/json"),
        ("", "", BIG + 1, 413, "the body is over 25 MB, more than GitHub ever sends"),
        ("Content-Length", "Content-Length: 99999999999999", 0, 413, "the body is over 25 MB"),
    ] {
        let head = head(without, instead, length);
        let mut stream = saying(&stage, head.as_bytes()).await;
        let heard = hear(&mut stream, "; nothing was stored\"}").await;
        assert!(heard.starts_with(&format!("HTTP/1.1 {status} ")) && heard.contains(sentence), "{head}{heard}");
    }
    assert!(stage.store.list_deliveries(10, 0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_refusal_reaches_whoever_goes_on_sending() {
    let stage = Stage::new().await;
    let mut sending = saying(&stage, head("X-Hub", "", 1 << 20).as_bytes()).await;
    hear(&mut sending, UNSIGNED).await;
    sending.write_all(&vec![b' '; 1 << 20]).await.unwrap();
    // All of it went past: the connection is good for the next request.
    ask(&mut sending).await;
}

#[tokio::test]
async fn who_asks_before_sending_is_told_to_send_nothing() {
    let stage = Stage::new().await;
    let head = head("X-Hub", "Expect: 100-continue", BIG);
    let heard = until_closed(&mut saying(&stage, head.as_bytes()).await).await;
    assert!(heard.starts_with("HTTP/1.1 401 ") && heard.ends_with(UNSIGNED), "{heard}");
}

#[tokio::test]
async fn what_people_say_to_each_other_is_ignored_at_once_and_not_kept() {
    let stage = Stage::new().await;
    let said =
        json!({"id": 9, "body": "I asked @treewarden and @ann", "user": {"id": 5, "login": "ann", "type": "User"}});
    let body = |action: &str, parts: serde_json::Value| {
        let mut body = json!({"action": action, "repository": {"id": 1, "full_name": "acme/app"},
            "installation": {"id": 3}, "sender": said["user"]});
        body.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
        body
    };
    let (issue, pull) = (json!({"number": 5}), json!({"number": 6}));
    let mut opened = said.clone();
    opened["number"] = json!(5);
    let changes = json!({"body": {"from": "I asked @treewarden-demo"}});
    let deliveries = [
        ("issue_comment", body("created", json!({"issue": issue, "comment": said}))),
        ("issue_comment", body("edited", json!({"issue": issue, "comment": said, "changes": changes}))),
        ("issues", body("opened", json!({"issue": opened}))),
        ("pull_request_review", body("submitted", json!({"pull_request": pull, "review": said}))),
        ("pull_request_review_comment", body("created", json!({"pull_request": pull, "comment": said}))),
    ];
    for (n, (event, body)) in deliveries.iter().enumerate() {
        let (guid, body) = (format!("g-{n}"), body.to_string());
        for status in ["accepted", "duplicate"] {
            let answer = stage.delivery(&guid, event, body.as_bytes()).send().await.unwrap();
            assert_eq!(json(answer).await, json!({"status": status}), "{event}");
        }
        let stored = stage.store.find_delivery(&guid).await.unwrap().unwrap();
        let stored = stage.store.load_delivery(stored).await.unwrap().unwrap();
        let expected = (InboxState::Ignored, Some("the bot is not mentioned"), &b""[..]);
        assert_eq!((stored.state, stored.reason.as_deref(), &*stored.body), expected, "{event}");
        assert!(stored.conversation_key.is_some(), "{event}");
        // The same, to the bot.
        let heard = body.replace("@ann", "@Treewarden-Demo");
        let guid = format!("h-{n}");
        stage.delivery(&guid, event, heard.as_bytes()).send().await.unwrap();
        let stored = stage.store.find_delivery(&guid).await.unwrap().unwrap();
        let stored = stage.store.load_delivery(stored).await.unwrap().unwrap();
        assert_eq!((stored.state, &*stored.body), (InboxState::Received, heard.as_bytes()), "{event}");
    }
}

#[tokio::test]
async fn an_event_nobody_asked_for_is_kept_as_ignored_with_the_reason() {
    let stage = Stage::new().await;
    let answer = stage.delivery("g-1", "star", br#"{"action":"created"}"#).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let stored = &stage.store.list_deliveries(10, 0).await.unwrap()[0];
    assert_eq!(stored.state, InboxState::Ignored);
    assert_eq!(stored.reason.as_deref(), Some("Treewarden does not act on the event \"star\""));
}

#[tokio::test]
async fn when_the_database_does_not_take_it_github_is_told_and_can_send_it_again() {
    let stage = Stage::new().await;
    let database = stage.dir.path().canonicalize().unwrap().join("home/treewarden.db");
    let away = sqlx::SqlitePool::connect(&format!("sqlite://{}", database.display())).await.unwrap();
    sqlx::query("ALTER TABLE inbox RENAME TO inbox_away").execute(&away).await.unwrap();
    let answer = stage.delivery("g-1", "issue_comment", COMMENT).send().await.unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()[header::RETRY_AFTER], "30");
    assert_eq!(json(answer).await["error"], "the delivery could not be stored just now; deliver it again in a minute");
    sqlx::query("ALTER TABLE inbox_away RENAME TO inbox").execute(&away).await.unwrap();
    let answer = stage.delivery("g-1", "issue_comment", COMMENT).send().await.unwrap();
    assert_eq!(json(answer).await, json!({"status": "accepted"}));
}

/// BR-178: fifty deliveries and the panel, while another process writes for three seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_long_transaction_elsewhere_is_no_error_to_anybody_and_loses_nothing() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let database = stage.dir.path().canonicalize().unwrap().join("home/treewarden.db");
    let away = sqlx::SqlitePool::connect(&format!("sqlite://{}", database.display())).await.unwrap();
    let long = away.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let began = std::time::Instant::now();
    let sends: Vec<_> = (0..50)
        .map(|n| {
            let body = String::from_utf8_lossy(COMMENT).replace("\"id\":9", &format!("\"id\":{n}"));
            tokio::spawn(stage.delivery(&format!("g-{n}"), "issue_comment", body.as_bytes()).send())
        })
        .collect();
    while began.elapsed() < Duration::from_secs(3) {
        for path in ["/", "/deliveries", "/healthz"] {
            let status = browser.get(path).await.status().as_u16();
            assert!(status < 500, "{path}: {status}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(sends.iter().all(|send| !send.is_finished()), "nothing is acknowledged before it is stored");
    long.rollback().await.unwrap();
    for send in sends {
        assert_eq!(send.await.unwrap().unwrap().status(), 202);
    }
    assert_eq!(stage.store.unfinished().await.unwrap().deliveries, 50);
}

#[tokio::test]
async fn the_webhook_needs_no_cookie_no_origin_and_no_known_host() {
    let stage = Stage::new().await;
    let request = stage.delivery("g-1", "issue_comment", COMMENT);
    let request = request.header(header::HOST, "hooks.example.com").header("X-Forwarded-For", "140.82.112.1");
    assert_eq!(request.header(header::ORIGIN, "https://evil.test").send().await.unwrap().status(), 202);
}

/// Whoever is to be told would have to be told of the very text.
#[tokio::test]
async fn a_delivery_whose_handling_panics_is_given_up_though_nobody_can_be_told() {
    let stage = Stage::new().await;
    let issue =
        json!({"number": 1, "title": UNSPEAKABLE, "state": "open", "html_url": "", "user": {"id": 5, "login": "ann"}});
    let repository = json!({"id": 1, "full_name": REPO, "default_branch": "main"});
    let comment = json!({"id": 2, "body": format!("@{} help", stage.standin.app_slug()), "html_url": "",
        "user": {"id": 5, "login": "ann", "type": "User"}});
    let body = json!({"action": "created", "installation": {"id": 3}, "repository": repository, "issue": issue,
        "comment": comment});
    let body = body.to_string();
    assert_eq!(stage.delivery("g1", "issue_comment", body.as_bytes()).send().await.unwrap().status(), 202);
    let workers = Workers::start(&stage.orchestrator, Arc::default());
    let given_up = async {
        loop {
            let line = stage.store.list_deliveries(1, 0).await.unwrap().remove(0);
            if line.state == InboxState::Failed {
                break line;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let line = tokio::time::timeout(Duration::from_secs(20), given_up).await.expect("it stays claimed");
    assert!(line.reason.unwrap().contains("something went wrong inside"));
    assert!(workers.shut_down(Duration::from_secs(20)).await);
}
