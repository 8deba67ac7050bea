//! A soak: environments are made, used, merged, closed and removed at random, while the service and its gits are killed
//! at random moments. In the end disk, git and database say the same, and no commit and no file is lost.
//!
//! `cargo bench -- soak [--environments=1000] [--minutes=7] [--seed=N]`. Without a seed it takes one from the clock,
//! and prints it. A seed gives the same walk; what it meets depends on the machine as well. Everything that is made is
//! written down by whoever made it ([`ledger`]), and looked for at the end ([`verify`]). Where something is wrong,
//! everything stays to be looked at.

mod agent;
mod ledger;
mod random;
mod service;
mod verify;
mod walk;

use super::postgres;
use ledger::{Ledger, Note};
use service::Service;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};
use treewarden::{
    demo::github::{Standin, StandinOptions},
    model::*,
    store::Store,
};
use verify::{End, Findings};
use walk::Walk;

/// Each with an owner, and so a pace of writing to GitHub, of its own.
const CODEBASES: usize = 24;
const ANN: &str = "ann";
/// Of the base: those that agents rewrite, and those that people do.
const FILES: u64 = 40;
const AGENTS_FILES: u64 = 20;
/// Until everything has come to rest after the walk.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// More rows than there are.
const ALL: u32 = 100_000;

/// How long and how much.
pub struct Plan {
    environments: i64,
    limit: Duration,
    seed: u64,
}

impl Plan {
    /// From `--environments=…`, `--minutes=…` and `--seed=…`.
    pub fn from_args() -> Self {
        let given = |name: &str| {
            let value = std::env::args().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('=').map(str::to_owned));
            value.map(|value| value.parse::<u64>().unwrap_or_else(|_| panic!("{name} wants a number, not {value}")))
        };
        let by_clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_secs());
        Self {
            environments: given("--environments").unwrap_or(1_000) as i64,
            limit: Duration::from_secs(60 * given("--minutes").unwrap_or(7)),
            seed: given("--seed").unwrap_or_else(by_clock),
        }
    }
}

/// The name of a file that the base has.
fn base_file(number: u64) -> String {
    format!("file{number}.txt")
}

/// On SQLite, and on the PostgreSQL that `TEST_POSTGRES_URL` names. Whether nothing was wrong.
pub async fn all(plan: &Plan) -> bool {
    let on_sqlite = soak(plan, None).await;
    if std::env::var_os("TEST_POSTGRES_URL").is_none() {
        return on_sqlite;
    }
    let Some(database) = postgres::Database::create().await else { return on_sqlite };
    let on_postgres = soak(plan, Some(&database.url)).await;
    if on_postgres {
        database.drop().await;
    }
    on_sqlite && on_postgres
}

async fn soak(plan: &Plan, database: Option<&str>) -> bool {
    let root = std::env::temp_dir().join(format!("treewarden-soak-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).expect("a directory");
    let root = root.canonicalize().expect("a directory");
    println!("soak, seed {}, on {}", plan.seed, if database.is_some() { "PostgreSQL" } else { "SQLite" });
    let begun = Instant::now();
    let since = Timestamp::new(chrono::Utc::now());
    let standin = Standin::start(StandinOptions::new(root.join("github"))).await.expect("the stand-in");
    let codebases = codebases(&standin).await;
    let ledger = Ledger::new(root.join("ledger"));
    let agent =
        format!("'{}' --soak-agent '{}'", std::env::current_exe().expect("this").display(), ledger.path().display());
    let settings = [
        ("TREEWARDEN_AGENT_COMMAND", agent),
        ("MAX_WORKTREES_PER_CODEBASE", "1000".to_owned()),
        ("MAX_CONCURRENT_RUNS", "6".to_owned()),
    ];
    let mut service = Service::new(&root, &standin, database, &settings);
    service.start().await;
    let mut walk = Walk::new(&standin, &mut service, &ledger, &codebases, plan.seed);
    let enough = walk.go(plan.environments, plan.limit).await;
    let done = std::mem::take(&mut walk.done);
    drop(walk);
    let walked = begun.elapsed();
    let rested = come_to_rest(&standin, &mut service).await;
    service.stop().await;

    let store = service.store().await;
    let notes = ledger.read();
    let home = service.home();
    let mut findings = End { standin: &standin, store: &store, home: &home, notes: &notes, since }.verify().await;
    findings.wrong.extend(rested.err());
    findings.wrong.extend(service.panics());
    println!(
        "  walked for {} s{}, at rest after {} s",
        walked.as_secs(),
        if enough { "" } else { " (time over)" },
        begun.elapsed().as_secs()
    );
    report(&store, &service, &notes, &done).await;
    store.close().await;
    standin.stop();
    tell(&findings, &root)
}

async fn codebases(standin: &Standin) -> Vec<String> {
    let texts: Vec<(String, String)> =
        (0..FILES).map(|file| (base_file(file), format!("{file}\n").repeat(20))).collect();
    let mut files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push((".gitignore", "*.log\ntarget/\n"));
    let mut names = Vec::new();
    for number in 0..CODEBASES {
        let name = format!("owner{number}/soak");
        standin.create_repository(&name, &files).await.expect("a repository");
        standin.set_permission(&name, ANN, Permission::Write).expect("a permission");
        names.push(name);
    }
    names
}

/// Everything that waits is done, then a last pass, and what follows from that.
async fn come_to_rest(standin: &Standin, service: &mut Service) -> Result<(), String> {
    let store = service.store().await;
    let rested = at_rest(standin, &store, service).await;
    store.close().await;
    rested?;
    service.stop().await;
    let begun = Timestamp::new(chrono::Utc::now());
    service.start().await;
    let store = service.store().await;
    let passed = async {
        let deadline = Instant::now() + PATIENCE;
        while !store.list_reports(1).await.expect("rows").iter().any(|report| report.started_at >= begun) {
            if Instant::now() > deadline {
                return Err("no pass came to its end".to_owned());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        at_rest(standin, &store, service).await
    };
    let passed = passed.await;
    store.close().await;
    passed
}

async fn at_rest(standin: &Standin, store: &Store, service: &mut Service) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    let mut quiet = 0;
    loop {
        assert!(!service.has_ended(), "the service ended by itself");
        standin.settled().await;
        let missed = missed(standin);
        for id in &missed {
            standin.redeliver(*id).expect("a delivery");
        }
        let unfinished = store.unfinished().await.expect("an answer");
        let live = store.live_environments(None).await.expect("rows");
        let moving = live.iter().filter(|environment| environment.state != EnvironmentState::Active).count();
        let trash = fs::read_dir(service.home().join("trash")).map_or(0, Iterator::count);
        let waiting = waiting(store).await;
        let rests = missed.is_empty() && unfinished.is_empty() && moving == 0 && trash == 0 && waiting == 0;
        quiet = if rests { quiet + 1 } else { 0 };
        if quiet >= 5 {
            return Ok(());
        }
        if Instant::now() > deadline {
            let missed = missed.len();
            return Err(format!(
                "no rest: {unfinished:?}, {missed} deliveries missed, {moving} environments in transition, {waiting} closed threads wait, {trash} in the trash"
            ));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Worktrees of closed threads that wait for the end of a run.
async fn waiting(store: &Store) -> usize {
    let mut waiting = 0;
    for conversation in store.closed_conversations_with_environment().await.expect("rows") {
        let Some(id) = conversation.environment else { continue };
        let Some(environment) = store.load_environment(id).await.expect("a row") else { continue };
        waiting += usize::from(environment.metadata.kept_because.iter().any(|why| why.starts_with("a run is live")));
    }
    waiting
}

/// Deliveries of which no attempt was accepted: the newest attempt of each.
fn missed(standin: &Standin) -> Vec<i64> {
    let (mut newest, mut accepted) = (BTreeMap::new(), BTreeSet::new());
    for delivery in standin.deliveries() {
        if delivery.outcome.as_ref().is_some_and(|outcome| outcome.status_code / 100 == 2) {
            accepted.insert(delivery.guid.clone());
        }
        newest.insert(delivery.guid, delivery.id);
    }
    newest.into_iter().filter(|(guid, _)| !accepted.contains(guid)).map(|(_, id)| id).collect()
}

async fn report(store: &Store, service: &Service, notes: &[Note], done: &BTreeMap<&'static str, usize>) {
    let counted = |all: &mut dyn Iterator<Item = String>| {
        let mut counts = BTreeMap::<String, usize>::new();
        all.for_each(|one| *counts.entry(one).or_default() += 1);
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts.into_iter().map(|(one, count)| format!("{count} {one}")).collect::<Vec<_>>().join(", ")
    };
    let environments = store.list_environments(&Default::default(), ALL, 0).await.expect("rows");
    let runs = store.list_runs(Default::default(), ALL, 0).await.expect("rows");
    let receipts = store.list_receipts(ALL).await.expect("rows");
    let restored = environments.iter().filter(|one| one.metadata.restores.is_some()).count();
    let live: Vec<_> = environments.iter().filter(|one| one.state != EnvironmentState::Destroyed).collect();
    println!("  environments: {} ({} live, {restored} restored)", environments.len(), live.len());
    println!("  runs: {}", counted(&mut runs.iter().map(|run| run.state.to_string())));
    println!("  kills: {} of the service, {} of its gits", service.kills, service.killed_gits);
    println!("  removed: {} ({})", receipts.len(), counted(&mut receipts.iter().map(|one| one.trigger.to_string())));
    let reasons = live.iter().flat_map(|one| &one.metadata.kept_because);
    println!("  kept, by reason: {}", counted(&mut reasons.map(|reason| plain(reason))));
    let commits = notes.iter().filter(|note| matches!(note, Note::Commit { .. })).count();
    let files = notes.iter().filter(|note| matches!(note, Note::File { .. } | Note::Nested { .. })).count();
    println!("  noted down: {commits} commits, {files} files");
    let done: Vec<String> = done.iter().map(|(what, count)| format!("{count} {what}")).collect();
    println!("  the walk: {}", done.join(", "));
}

/// Without numbers and names.
fn plain(reason: &str) -> String {
    let without_names: Vec<&str> = reason.split('`').step_by(2).collect();
    without_names.join("…").chars().filter(|character| !character.is_ascii_digit()).take(60).collect()
}

fn tell(findings: &Findings, root: &Path) -> bool {
    let Findings { lost, wrong } = findings;
    for line in lost.iter().map(|what| format!("LOST: {what}")).chain(wrong.iter().map(|what| format!("WRONG: {what}")))
    {
        println!("  {line}");
    }
    println!("lost: {}", lost.len());
    let sound = lost.is_empty() && wrong.is_empty();
    match sound {
        true => drop(fs::remove_dir_all(root)),
        false => println!("wrong: {}; everything is left in {}", wrong.len(), root.display()),
    }
    sound
}

/// As the agent of a soak, if that is what this process was started as.
pub fn as_agent() -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    (args.next().as_deref() == Some("--soak-agent")).then(|| agent::main(Path::new(&args.next().expect("the ledger"))))
}
