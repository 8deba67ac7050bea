//! Part `intake`: signed deliveries, as fast as they are accepted, at 32 and at 128 connections: comments that concern nobody,
//! and closed issues, which somebody has to look at. Ours are each a row that is on the disk before the answer, on SQLite
//! and on the PostgreSQL that `TEST_POSTGRES_URL` names; beside them a Probot app that keeps nothing, where Node and npm are
//! there: the same bodies, in turns, in one run. And how many of the latter that are stored a second are dealt with after a
//! start.

use super::{SECRET, Service, free_port, median, postgres};
use futures::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
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
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use treewarden::{
    demo::github::{Standin, StandinOptions},
    github::{payload::Payload, signature},
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
    let bodies = |kind: Kind, from: usize| -> Vec<Vec<u8>> {
        (from..from + DELIVERIES).map(|number| kind.body((REPOSITORY, repository), installation, number)).collect()
    };
    println!("a delivery: {} bytes", Kind::Comment.body((REPOSITORY, repository), installation, 1).len());

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
    for (kind, connections) in Kind::ALL.into_iter().flat_map(|kind| CONNECTIONS.map(|connections| (kind, connections)))
    {
        let mut results: Vec<(&str, Vec<Burst>)> = Vec::new();
        for round in 0..ROUNDS {
            let mut turns: Vec<_> =
                ours.iter().filter_map(|(name, service)| Some((*name, Some((*service)?)))).collect();
            turns.extend(probot.as_ref().map(|_| ("Probot", None)));
            let first = round % turns.len();
            turns.rotate_left(first);
            for (name, service) in turns {
                let url = match service {
                    Some(service) => format!("http://{}/webhooks/github", service.address),
                    None => probot.as_ref().expect("it runs").url.clone(),
                };
                let burst = burst(&url, kind, bodies(kind, number), connections).await;
                number += DELIVERIES;
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
        print(kind, connections, &results);
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
pub struct Burst {
    /// Accepted in a second.
    pub rate: f64,
    /// In milliseconds.
    pub p50: f64,
    pub p99: f64,
}

fn print(kind: Kind, connections: usize, results: &[(&str, Vec<Burst>)]) {
    let of = |bursts: &[Burst], figure: fn(&Burst) -> f64| median(&mut bursts.iter().map(figure).collect::<Vec<_>>());
    let probot = results.iter().find(|(name, _)| *name == "Probot").map(|(_, bursts)| of(bursts, |burst| burst.rate));
    for (name, bursts) in results {
        let rate = of(bursts, |burst| burst.rate);
        let beside =
            probot.filter(|_| *name != "Probot").map(|probot| format!("  ({:.2} times Probot's)", rate / probot));
        println!(
            "{} accepted, {connections:>3} connections, {name:<10}: {rate:>6.0} /s, p50 {:>5.1} ms, p99 {:>5.1} ms{}",
            kind.name(),
            of(bursts, |burst| burst.p50),
            of(bursts, |burst| burst.p99),
            beside.unwrap_or_default()
        );
    }
}

/// What a delivery is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A comment that does not name the bot.
    Comment,
    /// An issue is closed that the bot was never asked about: known only once somebody has looked.
    Closed,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Comment, Self::Closed];

    fn event(self) -> &'static str {
        match self {
            Self::Comment => "issue_comment",
            Self::Closed => "issues",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Comment => "comments to nobody",
            Self::Closed => "issues closed",
        }
    }

    /// As long and as full of addresses as GitHub's own are: 25 KB.
    pub fn body(self, (name, repository): (&str, i64), installation: i64, number: usize) -> Vec<u8> {
        let issue = linked(
            "repos/octo/intake/issues/1",
            &ISSUE_LINKS,
            json!({
                "number": number % 100 + 1, "title": "A question", "state": "open", "body": words(number, 1_800), "user": user(),
            }),
        );
        let mut body = json!({
            "issue": issue,
            "repository": linked("repos/octo/intake", &REPOSITORY_LINKS, json!({
                "id": repository, "full_name": name, "default_branch": "main", "owner": user(),
            })),
            "installation": {"id": installation},
            "sender": user(),
        });
        match self {
            Self::Comment => {
                body["action"] = json!("created");
                body["comment"] = json!({"id": number, "body": words(number, 200), "user": user()});
            }
            Self::Closed => {
                body["action"] = json!("closed");
                body["issue"]["state"] = json!("closed");
                body["issue"]["closed_at"] = json!(format!("at {number}"));
            }
        }
        body.to_string().into_bytes()
    }
}

const ISSUE_LINKS: [&str; 8] =
    ["url", "repository_url", "labels_url", "comments_url", "events_url", "html_url", "timeline_url", "diff_url"];
const USER_LINKS: [&str; 12] = [
    "avatar_url",
    "url",
    "html_url",
    "followers_url",
    "following_url",
    "gists_url",
    "starred_url",
    "subscriptions_url",
    "organizations_url",
    "repos_url",
    "events_url",
    "received_events_url",
];
const REPOSITORY_LINKS: [&str; 24] = [
    "archive_url",
    "assignees_url",
    "blobs_url",
    "branches_url",
    "clone_url",
    "collaborators_url",
    "comments_url",
    "commits_url",
    "compare_url",
    "contents_url",
    "deployments_url",
    "downloads_url",
    "events_url",
    "forks_url",
    "git_commits_url",
    "git_refs_url",
    "git_tags_url",
    "hooks_url",
    "issues_url",
    "keys_url",
    "labels_url",
    "merges_url",
    "milestones_url",
    "pulls_url",
];

fn user() -> Value {
    linked("users/ann", &USER_LINKS, json!({"id": 5, "login": "ann", "type": "User"}))
}

fn linked(place: &str, links: &[&str], mut object: Value) -> Value {
    for link in links {
        object[*link] = json!(format!("https://api.github.com/{place}/{}{{/more}}", link.trim_end_matches("_url")));
    }
    object
}

/// So many words, in an order of their own for each number.
fn words(number: usize, count: usize) -> String {
    let mut state = number as u64 + 1;
    let word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("word{:x} ", state >> 44)
    };
    std::iter::repeat_with(word).take(count).collect()
}

/// Sends them all, signed, over so many connections. Everything is ready before the clock starts, and the answers are only
/// read as far as it takes: what sends shares the machine with what receives.
pub async fn burst(url: &str, kind: Kind, bodies: Vec<Vec<u8>>, connections: usize) -> Burst {
    let url = reqwest::Url::parse(url).expect("a URL");
    let secret = SecretString::from(SECRET);
    let requests: Arc<Vec<_>> = Arc::new(bodies.iter().map(|body| request(&url, kind, &secret, body)).collect());
    let address = url.socket_addrs(|| None).expect("an address")[0];
    let connect = (0..connections).map(|_| TcpStream::connect(address));
    let streams: Vec<_> = futures::future::try_join_all(connect).await.expect("connections");
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let senders: Vec<_> = streams
        .into_iter()
        .map(|stream| {
            let (requests, next) = (requests.clone(), next.clone());
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut times = Vec::new();
                while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let at = Instant::now();
                    stream.write_all(request).await.expect("it takes the request");
                    let status = answer(&mut stream).await.expect("an answer");
                    assert!((200..300).contains(&status), "{status}");
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

/// One delivery, as it goes over the wire.
fn request(url: &reqwest::Url, kind: Kind, secret: &SecretString, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         x-github-event: {}\r\nx-github-delivery: {}\r\nx-hub-signature-256: {}\r\n\r\n",
        url.path(),
        body.len(),
        kind.event(),
        uuid::Uuid::now_v7(),
        signature::sign(secret, body)
    );
    [head.as_bytes(), body].concat()
}

/// Reads one answer to its end; its status. Its body is as long as it says, or comes in one chunk and an empty one.
async fn answer(stream: &mut BufReader<TcpStream>) -> std::io::Result<u16> {
    let (mut status, mut length) = (0, None);
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(rest) = line.strip_prefix("http/1.1 ") {
            status = rest[..3].parse().expect("a status");
        } else if let Some(bytes) = line.strip_prefix("content-length:") {
            length = Some(bytes.trim().parse().expect("a length"));
        } else if line.is_empty() {
            break;
        }
    }
    if let Some(length) = length {
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        return Ok(status);
    }
    while line != "0\r\n" {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    stream.read_line(&mut line).await?;
    Ok(status)
}

/// From a start with as many deliveries stored, which counts, until all of them are dealt with.
async fn drain(name: &str, url: &str, bodies: &impl Fn(Kind, usize) -> Vec<Vec<u8>>, start: impl Fn() -> Service) {
    let store = Store::open(url).await.expect("a database");
    let inbox = store.inbox_writer();
    let at = Timestamp::new(chrono::Utc::now());
    for from in (0..STORED).step_by(DELIVERIES) {
        let delivery = |body: Vec<u8>| NewDelivery {
            guid: uuid::Uuid::now_v7().to_string(),
            event: Kind::Closed.event().to_owned(),
            conversation_key: Payload::read(&body).expect("a body").conversation_key(),
            out_of_turn: false,
            body_key: hex::encode(Sha256::digest(&body)),
            body,
            ignored_because: None,
            at,
        };
        let stored = bodies(Kind::Closed, BEYOND + from).into_iter().map(|body| inbox.accept(delivery(body)));
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
