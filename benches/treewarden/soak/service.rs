//! The service as a process that may be killed at any moment, and is started again on the same port and home.

use super::random::Random;
use rustix::process::{Pid, Signal, kill_process};
use secrecy::ExposeSecret;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};
use treewarden::{demo::github::Standin, store::Store};

/// For a start, also of one that has much to finish.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const SECRET: &str = "a secret of the soak";
const PROGRAM: &str = env!("CARGO_BIN_EXE_treewarden");

pub struct Service {
    root: PathBuf,
    /// What it is started with.
    settings: Vec<(String, String)>,
    pub address: String,
    child: Option<Child>,
    starts: usize,
    pub kills: usize,
    /// Gits that were killed, with the service or alone.
    pub killed_gits: usize,
}

impl Service {
    pub fn new(root: &Path, standin: &Standin, database: Option<&str>, more: &[(&str, String)]) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let address = format!("127.0.0.1:{port}");
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut settings = vec![
            set("PATH", &std::env::var("PATH").unwrap_or_default()),
            set("TREEWARDEN_HOME", &root.join("home").display().to_string()),
            set("TREEWARDEN_LISTEN", &address),
            set("TREEWARDEN_LOG", "info"),
            set("TREEWARDEN_SANDBOX", "off"),
            set("GITHUB_API_URL", &standin.api_url()),
            set("GITHUB_WEB_URL", &standin.web_url()),
            set("GITHUB_APP_ID", &standin.app_id().to_string()),
            set("GITHUB_APP_PRIVATE_KEY", standin.private_key_pem().expose_secret()),
            set("GITHUB_WEBHOOK_SECRET", SECRET),
        ];
        settings.extend(database.map(|url| set("DATABASE_URL", url)));
        settings.extend(more.iter().map(|(name, value)| set(name, value)));
        standin.set_webhook(&format!("http://{address}/webhooks/github"), SECRET.to_owned().into());
        Self { root: root.to_owned(), settings, address, child: None, starts: 0, kills: 0, killed_gits: 0 }
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub fn database(&self) -> String {
        let own = self.settings.iter().find(|(name, _)| name == "DATABASE_URL").map(|(_, url)| url.clone());
        own.unwrap_or_else(|| format!("sqlite://{}", self.home().join("treewarden.db").display()))
    }

    pub async fn store(&self) -> Store {
        Store::open(&self.database()).await.expect("a database")
    }

    /// Starts it, and waits until it takes work.
    pub async fn start(&mut self) {
        self.starts += 1;
        let log = fs::File::create(self.log(self.starts)).expect("a log");
        let mut command = Command::new(PROGRAM);
        command.arg("serve").env_clear().envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        self.child = Some(command.spawn().expect("the service starts"));
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = client.get(format!("http://{}/readyz", self.address)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            assert!(!self.has_ended(), "the service ended while it started: {}", self.log(self.starts).display());
            assert!(Instant::now() < deadline, "the service is not ready: {}", self.log(self.starts).display());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn log(&self, start: usize) -> PathBuf {
        self.root.join(format!("service-{start}.log"))
    }

    /// By itself: nobody killed it.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().expect("its state").is_some())
    }

    /// As the kernel kills it when memory is short, or as power fails: then its gits end with it.
    pub fn kill(&mut self, with_gits: bool) {
        let Some(mut child) = self.child.take() else { return };
        let gits = if with_gits { gits_of(child.id()) } else { Vec::new() };
        child.kill().expect("the service can be killed");
        self.killed_gits += gits.into_iter().filter(|git| kill(*git)).count();
        child.wait().expect("its end");
        self.kills += 1;
    }

    /// One of its gits, if there is any just now.
    pub fn kill_git(&mut self, random: &mut Random) {
        let Some(child) = &self.child else { return };
        let gits = gits_of(child.id());
        self.killed_gits += usize::from(random.pick(&gits).is_some_and(|git| kill(*git)));
    }

    /// Asks it to end, and waits for that.
    pub async fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().expect("its state").is_none() {
            assert!(Instant::now() < deadline, "the service does not stop: {}", self.log(self.starts).display());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Lines of all logs that tell of a panic.
    pub fn panics(&self) -> Vec<String> {
        let logs = (1..=self.starts).map(|start| fs::read_to_string(self.log(start)).unwrap_or_default());
        logs.flat_map(|log| log.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn kill(id: i32) -> bool {
    Pid::from_raw(id).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// The gits below a process, its agents' too.
fn gits_of(root: u32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name stands in brackets and may hold anything: proc_pid_stat(5).
        let (Some(open), Some(close)) = (stat.find('('), stat.rfind(')')) else { continue };
        let parent = stat[close + 1..].split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
        let Some(parent) = parent else { continue };
        children.entry(parent).or_default().push((id, stat[open + 1..close].starts_with("git")));
    }
    let (mut seen, mut pending, mut gits) = (BTreeSet::new(), vec![root as i32], Vec::new());
    while let Some(parent) = pending.pop() {
        for (id, is_git) in children.get(&parent).into_iter().flatten() {
            if seen.insert(*id) {
                pending.push(*id);
                gits.extend(is_git.then_some(*id));
            }
        }
    }
    gits
}
