//! The program as people run it: its commands, its refusals, and how it stops.

mod crowd;
mod demo;
mod doctor;
mod doctor_service;
mod env;
mod full_disk;
mod missed;
mod other_user;
mod say;
mod sealed;
mod setup;
mod stopping;

use crate::support::world::{ANN, REPO};
use rustix::process::{Pid, Signal, kill_process};
use secrecy::ExposeSecret;
use std::{
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};
use treewarden::{
    demo::github::{Standin, StandinOptions},
    model::*,
    store::Store,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_treewarden");
/// Nothing here takes longer than this.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The program with an environment of its own: what the settings of whoever runs the tests say does not count.
pub(crate) fn treewarden(arguments: &[&str], home: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("TREEWARDEN_HOME", home).stdin(Stdio::null()).kill_on_drop(true);
    command
}

pub(crate) async fn output_of(mut command: impl std::borrow::BorrowMut<Command>) -> Output {
    timeout(PATIENCE, command.borrow_mut().output()).await.expect("it did not end").unwrap()
}

/// The same, with standard output where the command has it.
async fn captured(mut command: Command) -> Output {
    let process = command.spawn().unwrap();
    // Ours would keep the pipe open.
    drop(command);
    timeout(PATIENCE, process.wait_with_output()).await.expect("it did not end").unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A home and the stand-in it is connected to.
pub(crate) struct Installation {
    pub dir: TempDir,
    pub standin: Standin,
}

impl Installation {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let standin = Standin::start(StandinOptions::new(dir.path().join("github"))).await.unwrap();
        standin.create_repository(REPO, &[("README.md", "# hello\n")]).await.unwrap();
        standin.set_permission(REPO, ANN, Permission::Write).unwrap();
        standin.set_webhook("http://127.0.0.1:1/webhooks/github", "a secret of the test".to_owned().into());
        Self { dir, standin }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = treewarden(arguments, &self.dir.path().join("home"));
        command.env("TREEWARDEN_LISTEN", "127.0.0.1:0").env("TREEWARDEN_SANDBOX", "off").env("TREEWARDEN_LOG", "warn");
        command.env("TREEWARDEN_AGENT_COMMAND", format!("'{PROGRAM}' demo-agent"));
        command.env("GITHUB_API_URL", self.standin.api_url()).env("GITHUB_WEB_URL", self.standin.web_url());
        command.env("GITHUB_APP_ID", self.standin.app_id().to_string());
        command.env("GITHUB_APP_PRIVATE_KEY", self.standin.private_key_pem().expose_secret());
        command.env("GITHUB_WEBHOOK_SECRET", "a secret of the test");
        command
    }

    pub async fn run(&self, arguments: &[&str]) -> Output {
        output_of(self.command(arguments)).await
    }

    pub async fn serve(&self) -> Serving {
        self.serve_with(self.command(&["serve"])).await
    }

    async fn serve_with(&self, mut command: Command) -> Serving {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = timeout(PATIENCE, lines.next_line()).await.expect("it does not start").unwrap().unwrap();
        let url = first.strip_prefix("Treewarden listens on ").expect(&first).to_owned();
        self.standin.set_webhook(&format!("{url}/webhooks/github"), "a secret of the test".to_owned().into());
        // What it prints later must not block it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Serving { process, url }
    }

    pub async fn store(&self) -> Store {
        let path = self.dir.path().join("home/treewarden.db");
        Store::open(&format!("sqlite://{}", path.display())).await.unwrap()
    }

    /// Ann opens an issue and mentions the bot on it.
    fn ask(&self, words: &str) -> i64 {
        let issue = self.standin.open_issue(REPO, ANN, "Greet people", "We should.").unwrap();
        self.standin.comment(REPO, ANN, issue, &format!("@{} {words}", self.standin.app_slug())).unwrap();
        issue
    }
}

pub(crate) struct Serving {
    process: Child,
    url: String,
}

impl Serving {
    async fn get(&self, path: &str) -> (u16, String) {
        let answer = reqwest::get(format!("{}{path}", self.url)).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// The exit code, once it has ended.
    async fn ended(mut self) -> Option<i32> {
        timeout(PATIENCE, self.process.wait()).await.expect("it does not stop").unwrap().code()
    }

    pub async fn stop(self) {
        self.terminate();
        assert_eq!(self.ended().await, Some(0));
    }
}

/// Looks again and again until there is an answer.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let search = async {
        loop {
            match look().await {
                Some(found) => return found,
                None => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    };
    timeout(PATIENCE, search).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

async fn runs(store: &Store) -> Vec<Run> {
    store.list_runs(Default::default(), 10, 0).await.unwrap()
}

async fn until_succeeded(store: &Store, count: usize) {
    until("runs that succeeded", || async {
        let done = runs(store).await.iter().filter(|run| run.state == RunState::Succeeded).count() == count;
        (done && store.unfinished().await.unwrap().is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn half_of_the_credentials_start_nothing_and_the_refusal_names_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = treewarden(&["serve"], &dir.path().join("home"));
    command.env("GITHUB_APP_ID", "7");
    let output = output_of(command).await;
    let refusal = text(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    for name in ["GITHUB_APP_PRIVATE_KEY", "GITHUB_WEBHOOK_SECRET"] {
        assert!(refusal.contains(name), "{name} in {refusal}");
    }
    assert!(!dir.path().join("home/treewarden.db").exists());
}

/// A refusal is about what was asked for, and asks nobody to set up what a command does not need.
#[tokio::test]
async fn a_command_without_settings_is_refused_in_words_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let refusal = async |arguments: &[&str]| {
        let output = output_of(treewarden(arguments, &home)).await;
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        text(&output.stderr)
    };
    let cleanup = refusal(&["cleanup", "--dry-run"]).await;
    let removed = format!("so nothing was looked at or removed (home: {})", home.display());
    assert!(cleanup.contains(&removed) && !cleanup.contains("demo") && !cleanup.contains("was started"), "{cleanup}");
    let say = refusal(&["say", "hello"]).await;
    assert!(say.contains("so nothing was sent"), "{say}");
    for command in [&["env", "list"][..], &["import", "--from", "sqlite://no/such.db", "--dry-run"]] {
        let refused = refusal(command).await;
        assert!(!refused.contains("was started") && !refused.contains("GITHUB_APP_ID"), "{refused}");
    }
    assert!(!home.exists());
}

/// Settings that only an agent needs are asked for by what runs one.
#[tokio::test]
async fn a_cleanup_needs_no_sandbox() {
    let installation = Installation::new().await;
    let strict = |arguments: &[&str]| {
        let mut command = installation.command(arguments);
        command.env_remove("TREEWARDEN_SANDBOX");
        command
    };
    let cleanup = output_of(strict(&["cleanup"])).await;
    assert!(cleanup.status.success() && text(&cleanup.stdout).contains("0 worktrees were looked at."), "{cleanup:?}");
    let serve = output_of(strict(&["serve"])).await;
    assert!(!serve.status.success() && text(&serve.stderr).contains("TREEWARDEN_SANDBOX=off"), "{serve:?}");
}

#[tokio::test]
async fn every_wrong_setting_is_reported_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = [
        ("TREEWARDEN_LISTEN", "nowhere"),
        ("MAX_CONCURRENT_RUNS", "many"),
        ("STALE_THRESHOLD_DAYS", "-1"),
        ("TREEWARDEN_SANDBOX", "perhaps"),
        ("GITHUB_APP_ID", "seven"),
    ];
    let mut command = treewarden(&["serve"], &dir.path().join("home"));
    command.envs(wrong).env("GITHUB_APP_PRIVATE_KEY", "a key that is none");
    let output = output_of(command).await;
    let report = text(&output.stderr);
    assert!(!output.status.success(), "{report}");
    for (name, value) in wrong {
        assert!(report.contains(name) && report.contains(value), "{name} in {report}");
    }
    assert!(report.contains("GITHUB_WEBHOOK_SECRET"), "{report}");
    assert!(report.contains("GITHUB_APP_PRIVATE_KEY") && !report.contains("a key that is none"), "{report}");
    assert!(!dir.path().join("home").exists());
}

#[tokio::test]
async fn it_serves_and_the_other_commands_know_of_it() {
    let installation = Installation::new().await;
    let nothing = installation.run(&["env", "list"]).await;
    assert!(!nothing.status.success() && text(&nothing.stderr).contains("no database"), "{nothing:?}");
    assert!(installation.run(&["migrate"]).await.status.success());
    let home = installation.dir.path().join("home");
    let none = format!("No environment (home: {}).\n", home.display());
    assert_eq!(text(&installation.run(&["env", "list"]).await.stdout), none);
    let serving = installation.serve().await;
    assert_eq!(serving.get("/healthz").await, (200, "ok\n".to_owned()));
    let (status, ready) = serving.get("/readyz").await;
    let quoted = include_str!("../../docs/operations.md").contains(&ready);
    assert!(status == 200 && quoted, "docs/operations.md quotes it as {ready}");

    installation.ask("add a greeting");
    installation.standin.settled().await;
    for delivery in installation.standin.deliveries() {
        assert_eq!(delivery.outcome.unwrap().status_code, 202, "{}", delivery.event);
    }
    until_succeeded(&installation.store().await, 1).await;
    let (status, metrics) = serving.get("/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "treewarden_runs_total{result=\"succeeded\"} 1",
        "treewarden_run_seconds_count 1",
        "treewarden_environments{state=\"active\"} 1",
        "treewarden_environments{state=\"creating\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }

    let doctor = installation.run(&["doctor"]).await;
    assert!(doctor.status.success() && text(&doctor.stdout).contains("this version's schema"), "{doctor:?}");
    let second = installation.run(&["serve"]).await;
    assert!(!second.status.success() && text(&second.stderr).contains("Another Treewarden runs"), "{second:?}");
    let cleanup = installation.run(&["cleanup", "--dry-run"]).await;
    assert!(!cleanup.status.success() && text(&cleanup.stderr).contains("cleanup page"), "{cleanup:?}");
    let list = installation.run(&["env", "list"]).await;
    assert!(list.status.success(), "{list:?}");
    let stdout = text(&list.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    let place = |line: usize, word: &str| lines[line].find(word).expect(lines[line]);
    assert!(lines.len() == 2 && lines[1].contains("octo/hello#issue-1  issue-1  active"), "{list:?}");
    assert_eq!((place(0, "name"), place(0, "state")), (place(1, "octo/hello"), place(1, "active")), "{list:?}");
    serving.stop().await;

    let show = installation.run(&["env", "show", "octo/hello#issue-1"]).await;
    assert!(show.status.success() && text(&show.stdout).contains("branch    issue-1"), "{show:?}");
    let kept = async || {
        let show = text(&installation.run(&["env", "show", "octo/hello#1"]).await.stdout);
        show.lines().find_map(|line| line.strip_prefix("kept      ").map(str::to_owned)).expect("a line that says it")
    };
    assert!(kept().await.starts_with("not examined yet"), "{}", kept().await);
    let cleanup = installation.run(&["cleanup", "--dry-run"]).await;
    assert!(
        cleanup.status.success() && text(&cleanup.stdout).contains("kept     octo/hello#issue-1: work goes on"),
        "{cleanup:?}"
    );
    let sum = "1 worktree was looked at: 0 would go, 1 would be kept, in ";
    let said = text(&cleanup.stdout);
    assert!(said.contains(sum) && said.ends_with(". Nothing was changed.\n"), "{cleanup:?}");

    let serving = installation.serve().await;
    installation.standin.close(REPO, ANN, 1).unwrap();
    let store = installation.store().await;
    until("the removal", || async { store.live_environments(None).await.unwrap().is_empty().then_some(()) }).await;
    serving.stop().await;
    for name in ["octo/hello#issue-1", "octo/hello#1"] {
        let show = text(&installation.run(&["env", "show", name]).await.stdout);
        assert!(show.contains("\nremoved ") && !show.contains("\nkept ") && !show.contains("\ntrash "), "{show}");
        let restore: Vec<&str> = show.lines().filter(|line| line.starts_with("restore   ")).collect();
        assert!(restore.len() == 1 && restore[0].contains("/worktree restore issue-1 in a thread"), "{show}");
    }
    let unknown = text(&installation.run(&["env", "show", "hello#issue-1"]).await.stderr);
    assert!(unknown.contains("No repository is called hello. It goes by owner/name"), "{unknown}");
}

#[tokio::test]
async fn asked_to_stop_it_lets_the_agent_end_and_keeps_taking_deliveries() {
    let installation = Installation::new().await;
    let serving = installation.serve().await;
    installation.ask("agent:sleep=3 add a greeting");
    let store = installation.store().await;
    until("an agent at work", || async { runs(&store).await.pop().filter(|run| run.process.is_some()) }).await;

    serving.terminate();
    until("the stop", || async { (serving.get("/readyz").await.0 == 503).then_some(()) }).await;
    let late = installation.ask("write this down");
    installation.standin.settled().await;
    let taken = installation.standin.deliveries().into_iter().all(|delivery| {
        let outcome = delivery.outcome.unwrap();
        outcome.status_code == 202
    });
    assert!(taken, "a delivery was not taken");
    assert_eq!(serving.ended().await, Some(0));
    let ended = runs(&store).await;
    assert_eq!(ended.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded], "{ended:?}");
    assert!(store.unfinished().await.unwrap().deliveries > 0, "the late delivery was claimed");

    let serving = installation.serve().await;
    until_succeeded(&store, 2).await;
    assert!(installation.standin.branch_tip(REPO, &format!("issue-{late}")).await.unwrap().is_some());
    serving.stop().await;
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    let installation = Installation::new().await;
    assert!(installation.run(&["migrate"]).await.status.success());
    for (arguments, expected) in [(&["env", "list"][..], 0), (&["doctor"], 0), (&["doctor", "--json"], 0)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = installation.command(arguments);
        command.stdout(writer).stderr(Stdio::piped());
        let output = captured(command).await;
        assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(expected), ""), "{arguments:?}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut refused = treewarden(&["serve"], &installation.dir.path().join("other"));
    refused.env("TREEWARDEN_LISTEN", "nowhere").stderr(writer);
    let status = timeout(PATIENCE, refused.status()).await.expect("it did not end").unwrap();
    assert_eq!(status.code(), Some(1));
}
