//! Part `intake`: signed deliveries that lead to nothing, as fast as they are accepted, at 32 and at 128 connections. Ours
//! are each a row that is on the disk before the answer, on SQLite and on the PostgreSQL that `TEST_POSTGRES_URL` names;
//! beside them a Probot app that keeps nothing, where Node and npm are there: the same bodies, in turns, in one run. And
//! how many of them that are stored a second are dealt with after a start.

use super::{SECRET, Service, free_port, median, postgres};
use futures::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use treewarden::{
    demo::github::{Standin, StandinOptions},
    github::{payload, signature},
    model::*,
    store::{Accepted, NewDelivery, Store},
};

const REPOSITORY: &str = "octo/intake";
const CONNECTIONS: [usize; 2] = [32, 128];
const ROUNDS: usize = 3;
const DELIVERIES: usize = 5_000;
const STORED: usize = 10_000;
/// Beyond all numbers that were sent.
const BEYOND: usize = 10_000_000;
/// Rows that wait for one write.
const AT_ONCE: usize = 500;
const PROBOT: &str = "probot@14.3.2";
/// A handler that does nothing: what it takes to receive, to check and to route.
const APP: &str = r#"import { run } from "probot";
run((app) => { app.on("issue_comment.created", async () => {}); });
"#;

pub async fn measure() {
    let root = std::env::temp_dir().join(format!("treewarden-bench-{}-intake", std::process::id()));
    std::fs::create_dir_all(&root).expect("a directory");
    let standin = Standin::start(StandinOptions::new(root.join("github"))).await.expect("the stand-in");
    let repository = standin.create_repository(REPOSITORY, &[("README.md", "# intake\n")]).await.expect("a repository");
    let installation = standin.installation_id(REPOSITORY).expect("an installation");
    let bodies = |from| (from..from + DELIVERIES).map(|number| body(repository, installation, number)).collect();

    let database = postgres::Database::create().await;
    let start =
        |home: &str, url: Option<&str>| Service::start_on(&root.join(home), &root.join("stamps"), &standin, url);
    let sqlite = start("sqlite", None);
    sqlite.ready().await;
    let postgres = database.as_ref().map(|database| start("postgres", Some(&database.url)));
    if let Some(postgres) = &postgres {
        postgres.ready().await;
    }
    let probot = Probot::start(&standin);
    if let Some(probot) = &probot {
        probot.ready().await;
    }
    let ours = [("SQLite", Some(&sqlite)), ("PostgreSQL", postgres.as_ref())];
    let mut number = 0;
    for connections in CONNECTIONS {
        let mut results: Vec<(&str, Vec<Burst>)> = Vec::new();
        for round in 0..ROUNDS {
            let mut turns: Vec<_> =
                ours.iter().filter_map(|(name, service)| Some((*name, Some((*service)?)))).collect();
            turns.extend(probot.as_ref().map(|_| ("Probot", None)));
            let first = round % turns.len();
            turns.rotate_left(first);
            for (name, service) in turns {
                let (url, bodies): (_, Vec<Vec<u8>>) = match service {
                    Some(service) => (format!("http://{}/webhooks/github", service.address), bodies(number)),
                    None => (probot.as_ref().expect("it runs").url.clone(), bodies(number)),
                };
                number += DELIVERIES;
                let burst = burst(&url, bodies, connections).await;
                // What is left to be done is not in the way of the next one.
                if let Some(service) = service {
                    service.settled().await;
                }
                match results.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, bursts)) => bursts.push(burst),
                    None => results.push((name, vec![burst])),
                }
            }
        }
        print(connections, &results);
    }
    if probot.is_none() {
        println!("  beside Probot: left out, since node or npm is not there");
    }
    drop(probot);
    drop(sqlite);
    drop(postgres);

    drain("SQLite", &format!("sqlite://{}", root.join("sqlite/treewarden.db").display()), &bodies, || {
        start("sqlite", None)
    })
    .await;
    if let Some(database) = database {
        drain("PostgreSQL", &database.url, &bodies, || start("postgres", Some(&database.url))).await;
        database.drop().await;
    }
    standin.stop();
    let _ = std::fs::remove_dir_all(&root);
}

/// What came of one round of one receiver.
struct Burst {
    /// Accepted in a second.
    rate: f64,
    /// In milliseconds.
    p50: f64,
    p99: f64,
}

fn print(connections: usize, results: &[(&str, Vec<Burst>)]) {
    let of = |bursts: &[Burst], figure: fn(&Burst) -> f64| median(&mut bursts.iter().map(figure).collect::<Vec<_>>());
    let probot = results.iter().find(|(name, _)| *name == "Probot").map(|(_, bursts)| of(bursts, |burst| burst.rate));
    for (name, bursts) in results {
        let rate = of(bursts, |burst| burst.rate);
        let beside =
            probot.filter(|_| *name != "Probot").map(|probot| format!("  ({:.2} times Probot's)", rate / probot));
        println!(
            "deliveries accepted, {connections:>3} connections, {name:<10}: {rate:>6.0} /s, p50 {:>5.1} ms, p99 {:>5.1} ms{}",
            of(bursts, |burst| burst.p50),
            of(bursts, |burst| burst.p99),
            beside.unwrap_or_default()
        );
    }
}

/// A comment of realistic size that concerns nobody.
fn body(repository: i64, installation: i64, number: usize) -> Vec<u8> {
    let body = json!({
        "action": "created",
        "issue": {"number": number % 100 + 1, "title": "T", "body": "x".repeat(6_000)},
        "comment": {"id": number, "body": "no mention", "user": {"id": 5, "login": "ann", "type": "User"}},
        "repository": {"id": repository, "full_name": REPOSITORY, "default_branch": "main"},
        "installation": {"id": installation},
        "sender": {"id": 5, "login": "ann", "type": "User"},
    });
    body.to_string().into_bytes()
}

/// Sends them all, signed, over so many connections.
async fn burst(url: &str, bodies: Vec<Vec<u8>>, connections: usize) -> Burst {
    let secret = SecretString::from(SECRET);
    let signed: Vec<(String, Vec<u8>)> =
        bodies.into_iter().map(|body| (signature::sign(&secret, &body), body)).collect();
    let (signed, next) = (Arc::new(signed), Arc::new(AtomicUsize::new(0)));
    let begun = Instant::now();
    let senders: Vec<_> = (0..connections)
        .map(|_| {
            let (url, signed, next) = (url.to_owned(), signed.clone(), next.clone());
            tokio::spawn(async move {
                let client = reqwest::Client::builder().pool_max_idle_per_host(1).build().expect("a client");
                let mut times = Vec::new();
                while let Some((signature, body)) = signed.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let request = client
                        .post(&url)
                        .header("content-type", "application/json")
                        .header("x-github-event", "issue_comment")
                        .header("x-github-delivery", uuid::Uuid::now_v7().to_string())
                        .header("x-hub-signature-256", signature);
                    let at = Instant::now();
                    let answer = request.body(body.clone()).send().await.expect("an answer");
                    assert!(answer.status().is_success(), "{}", answer.status());
                    let _ = answer.bytes().await;
                    times.push(at.elapsed().as_secs_f64() * 1e3);
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for sender in senders {
        times.extend(sender.await.expect("a sender"));
    }
    let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    Burst { rate, p50: times[times.len() / 2], p99: times[times.len() * 99 / 100] }
}

/// From a start with as many deliveries stored, which counts, until all of them are dealt with.
async fn drain(name: &str, url: &str, bodies: &impl Fn(usize) -> Vec<Vec<u8>>, start: impl Fn() -> Service) {
    let store = Store::open(url).await.expect("a database");
    let inbox = store.inbox_writer();
    let at = Timestamp::new(chrono::Utc::now());
    for from in (0..STORED).step_by(DELIVERIES) {
        let delivery = |body: Vec<u8>| NewDelivery {
            guid: uuid::Uuid::now_v7().to_string(),
            event: "issue_comment".to_owned(),
            conversation_key: payload::conversation_key(&body).expect("a body"),
            out_of_turn: false,
            body_key: hex::encode(Sha256::digest(&body)),
            body,
            ignored_because: None,
            at,
        };
        let stored = bodies(BEYOND + from).into_iter().map(|body| inbox.accept(delivery(body)));
        let stored = futures::stream::iter(stored).buffer_unordered(AT_ONCE);
        stored.for_each(async |row| assert_ne!(row.expect("a row"), Accepted::Duplicate)).await;
    }
    drop(inbox);
    store.close().await;
    let begun = Instant::now();
    let service = start();
    service.ready().await;
    service.settled().await;
    println!(
        "{STORED} stored deliveries, {name:<10}: {:>6.0} /s dealt with after a start",
        STORED as f64 / begun.elapsed().as_secs_f64()
    );
}

/// An App as its framework's documentation has people write it, in production mode, without logs.
struct Probot {
    child: Child,
    url: String,
}

impl Drop for Probot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Probot {
    /// `None`: there is no Node, or nothing from which it could be installed.
    fn start(standin: &Standin) -> Option<Self> {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probot");
        std::fs::create_dir_all(&place).expect("a directory");
        std::fs::write(place.join("app.mjs"), APP).expect("a file");
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(&place).arg(PROBOT);
        if !install.stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
            return None;
        }
        let port = free_port();
        let child = Command::new("node")
            .arg(place.join("app.mjs"))
            .current_dir(&place)
            .env("NODE_ENV", "production")
            .env("LOG_LEVEL", "fatal")
            .env("HOST", "127.0.0.1")
            .env("PORT", port.to_string())
            .env("APP_ID", standin.app_id().to_string())
            .env("PRIVATE_KEY", standin.private_key_pem().expose_secret())
            .env("WEBHOOK_SECRET", SECRET)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { child, url: format!("http://127.0.0.1:{port}/api/github/webhooks") })
    }

    async fn ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        // Whatever it says to that: it listens.
        while reqwest::get(&self.url).await.is_err() {
            assert!(Instant::now() < deadline, "Probot does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
