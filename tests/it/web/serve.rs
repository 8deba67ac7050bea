//! Connections of strangers: what they can hold, and for how long. Nothing here waits for one of the usual time limits.

use super::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// What a test waits for comes sooner.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
const NEVER: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(100);
const PLENTY: usize = 100;
const HALF: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
const WHOLE: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Nothing is wrong with it so far.
const SLOW_BODY: &[u8] =
    b"POST /webhooks/github HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\nX-GitHub-Delivery: slow\r\n\
      X-GitHub-Event: star\r\nX-Hub-Signature-256: \
      sha256=0000000000000000000000000000000000000000000000000000000000000000\r\n\r\n{";

async fn limited(limits: ServeLimits) -> Stage {
    Stage::with("http://127.0.0.1:3000", limits).await
}

/// A connection on which something was said.
pub(super) async fn saying(stage: &Stage, words: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(stage.base.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(words).await.unwrap();
    stream
}

/// Reads to the end of the connection, which the other side has to make.
pub(super) async fn until_closed(stream: &mut TcpStream) -> String {
    let mut heard = Vec::new();
    // Being cut off is an end, too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut heard)).await.expect("it stays open");
    String::from_utf8(heard).unwrap()
}

/// Asks for one answer and reads it; the connection stays.
pub(super) async fn ask(stream: &mut TcpStream) {
    stream.write_all(WHOLE).await.unwrap();
    hear(stream, "\r\n\r\nok\n").await;
}

/// Reads an answer up to its last words.
pub(super) async fn hear(stream: &mut TcpStream, last: &str) -> String {
    let mut heard = Vec::new();
    while !heard.ends_with(last.as_bytes()) {
        let read = timeout(PATIENCE, stream.read_buf(&mut heard)).await.expect("no answer").unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&heard));
    }
    String::from_utf8(heard).unwrap()
}

async fn takes_a_delivery(stage: &Stage, guid: &str) {
    let delivery = stage.delivery(guid, "star", format!("{{\"of\":\"{guid}\"}}").as_bytes()).send();
    assert_eq!(timeout(PATIENCE, delivery).await.expect("no answer").unwrap().status(), 202);
}

#[tokio::test]
async fn who_does_not_ask_in_time_is_shown_out() {
    let stage = limited(ServeLimits { head: MOMENT, connections: PLENTY, farewell: NEVER }).await;
    for words in [b"".as_slice(), HALF] {
        let mut stream = saying(&stage, words).await;
        assert_eq!(until_closed(&mut stream).await, "", "{words:?}");
    }
    let mut idle = saying(&stage, WHOLE).await;
    let heard = until_closed(&mut idle).await;
    assert!(heard.starts_with("HTTP/1.1 200") && heard.ends_with("ok\n"), "{heard}");
}

#[tokio::test]
async fn who_holds_connections_keeps_nobody_else_out() {
    let stage = limited(ServeLimits { head: NEVER, connections: 8, farewell: NEVER }).await;
    for words in [b"".as_slice(), HALF, SLOW_BODY] {
        let mut held = Vec::new();
        for _ in 0..40 {
            held.push(saying(&stage, words).await);
        }
        takes_a_delivery(&stage, &format!("g-{}", words.len())).await;
        assert_eq!(stage.browse("/login").send().await.unwrap().status(), 200);
        // All but the last eight had to give up their places.
        for stream in &mut held[..32] {
            assert_eq!(until_closed(stream).await, "");
        }
    }
}

#[tokio::test]
async fn a_connection_in_use_outlives_those_that_only_wait() {
    let stage = limited(ServeLimits { head: NEVER, connections: 4, farewell: NEVER }).await;
    let mut used = saying(&stage, b"").await;
    for _ in 0..10 {
        ask(&mut used).await;
        let _held = [saying(&stage, HALF).await, saying(&stage, HALF).await];
    }
    ask(&mut used).await;
}

#[tokio::test]
async fn closing_answers_what_was_asked_and_waits_for_no_stranger() {
    let stage = limited(ServeLimits { head: NEVER, connections: PLENTY, farewell: MOMENT }).await;
    let mut idle = saying(&stage, b"").await;
    ask(&mut idle).await;
    let mut half = saying(&stage, HALF).await;
    takes_a_delivery(&stage, "g-1").await;
    stage.close.cancel();
    timeout(PATIENCE, stage.server).await.expect("it goes on").unwrap();
    for stream in [&mut idle, &mut half] {
        assert_eq!(until_closed(stream).await, "");
    }
    assert!(TcpStream::connect(stage.base.strip_prefix("http://").unwrap()).await.is_err(), "it still listens");
}

#[tokio::test]
async fn what_is_being_sent_when_the_listener_closes_is_still_taken() {
    let stage = limited(ServeLimits { head: NEVER, connections: PLENTY, farewell: NEVER }).await;
    let body = br#"{"action":"created"}"#;
    let head = format!(
        "POST /webhooks/github HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-GitHub-Delivery: g-1\r\n\
         X-GitHub-Event: star\r\nX-Hub-Signature-256: {}\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        signature::sign(&secret(), body),
        body.len()
    );
    let mut sending = saying(&stage, head.as_bytes()).await;
    // The handler asks for the body, so that the request has begun.
    let mut go_on = [0; 25];
    timeout(PATIENCE, sending.read_exact(&mut go_on)).await.expect("not asked for").unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stage.close.cancel();
    sending.write_all(body).await.unwrap();
    assert!(until_closed(&mut sending).await.starts_with("HTTP/1.1 202"));
    timeout(PATIENCE, stage.server).await.expect("it goes on").unwrap();
    assert_eq!(stage.store.list_deliveries(10, 0).await.unwrap().len(), 1);
}
