//! A world whose service is a process of its own, which may be killed at any moment and is then started again.

use super::{DIARY, FUSE, Fuse, LOOK_AGAIN, PATIENCE};
use crate::support::world::{ANN, REPO, git};
use secrecy::ExposeSecret;
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use treewarden::{
    demo::github::{Standin, StandinOptions},
    model::*,
    store::{EnvironmentFilter, Store},
};

/// Quick, and the same words make the same files whatever was there before.
const AGENT: &str = "sh -c 'words=$(cat); case $words in *chapter-two*) echo two > two.txt;; *chapter-one*) echo one > one.txt;; esac; echo Written.'";

/// What its repository may take, in bytes; most stories stay far below.
pub const SOFT_MARK: usize = 5_000_000;

/// A world whose service may die at any moment.
pub struct Story {
    dir: TempDir,
    pub standin: Standin,
    service: Child,
    /// How often the service was started.
    starts: usize,
    /// At which effect of each act it dies; 0 for never.
    bomb: usize,
    /// Of each act that has begun, whether the service was killed in it.
    pub killed: Vec<bool>,
    /// Effects that had come before each act.
    before_acts: Vec<usize>,
    store: Option<Store>,
    /// Where the service has its database; absent for the file in its home.
    database: Option<String>,
}

/// What is the same, wherever the service was killed.
#[derive(Debug, PartialEq, Eq)]
pub struct End {
    pub branches: Vec<String>,
    /// The tree of `main`.
    pub files: String,
    /// Head branch, merged, open.
    pub pulls: Vec<(String, bool, bool)>,
    pub environments: Vec<EnvironmentState>,
    pub receipts: usize,
    pub local_refs: Vec<String>,
    pub worktrees: usize,
    pub directories: Vec<String>,
    pub succeeded: usize,
}

impl Story {
    pub async fn begin(bomb: usize, database: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let standin = Standin::start(StandinOptions::new(dir.path().join("github"))).await.unwrap();
        standin.create_repository(REPO, &[("README.md", "# hello\n")]).await.unwrap();
        standin.set_permission(REPO, ANN, Permission::Write).unwrap();
        let service = launch(dir.path(), &standin, database, 1);
        let database = database.map(str::to_owned);
        let (killed, before_acts) = (Vec::new(), Vec::new());
        let mut story = Self { dir, standin, service, starts: 1, bomb, killed, before_acts, store: None, database };
        story.ready().await;
        story
    }

    /// An act begins, in which the service is to be killed once. What comes before the first one is not its subject.
    pub async fn act(&mut self) {
        while self.bomb > 0 {
            let mut fuse = Fuse::open(&fuse(self.dir.path()));
            if !self.dies_unseen(&fuse) {
                fuse.lay(self.bomb);
                break;
            }
            drop(fuse);
            self.last_kill().await;
        }
        self.before_acts.push(self.effects());
        self.killed.push(false);
    }

    fn dies_unseen(&self, fuse: &Fuse) -> bool {
        fuse.left() == Some(0) && self.killed.last() == Some(&false)
    }

    /// The last effects of an act are waited for by nobody, and the kill at one of them belongs to that act all the same.
    /// Says whether there was one.
    async fn last_kill(&mut self) -> bool {
        let unseen = self.dies_unseen(&Fuse::open(&fuse(self.dir.path())));
        if unseen {
            self.service.wait().unwrap();
            self.settle().await;
        }
        unseen
    }

    fn diary(&self, start: usize) -> PathBuf {
        diary(self.dir.path(), start)
    }

    /// Waits until the service takes deliveries; it may die before.
    async fn ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let diary = fs::read_to_string(self.diary(self.starts)).unwrap_or_default();
            if let Some(address) = diary.lines().find_map(|line| line.strip_prefix("listening ")) {
                let url = format!("http://{address}/webhooks/github");
                self.standin.set_webhook(&url, "a secret of the story".to_owned().into());
                self.store = Some(self.open_store().await);
                return;
            }
            self.revive();
            assert!(Instant::now() < deadline, "the service did not start\n{}", self.account());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn open_store(&self) -> Store {
        let file = || format!("sqlite://{}", self.dir.path().join("home/treewarden.db").display());
        Store::open(&self.database.clone().unwrap_or_else(file)).await.unwrap()
    }

    /// Starts the service again when it was killed; says whether it was.
    fn revive(&mut self) -> bool {
        let Some(status) = self.service.try_wait().unwrap() else { return false };
        assert!(status.code().is_none(), "the service ended by itself: {status}\n{}", self.account());
        let first = self.killed.last_mut().is_some_and(|killed| !std::mem::replace(killed, true));
        assert!(first, "the service dies again and again\n{}", self.account());
        self.starts += 1;
        self.service = launch(self.dir.path(), &self.standin, self.database.as_deref(), self.starts);
        true
    }

    /// A kill and a start beside the one that is its subject.
    pub async fn start_again(&mut self) {
        self.service.kill().unwrap();
        self.service.wait().unwrap();
        self.starts += 1;
        self.service = launch(self.dir.path(), &self.standin, self.database.as_deref(), self.starts);
        self.ready().await;
    }

    /// Until nothing is under way, with a new start after a kill and the deliveries it missed sent again.
    pub async fn settle(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "no rest\n{}", self.account());
            if self.revive() {
                self.ready().await;
            }
            self.standin.settled().await;
            let missed = self.missed_deliveries();
            if !missed.is_empty() {
                // A service that is dead by now is started first.
                if self.service.try_wait().unwrap().is_none() {
                    for id in &missed {
                        self.standin.redeliver(*id).unwrap();
                    }
                }
                continue;
            }
            let seen = self.standin.deliveries().len();
            if self.rests().await && self.service.try_wait().unwrap().is_none() {
                self.standin.settled().await;
                if self.standin.deliveries().len() == seen && self.missed_deliveries().is_empty() {
                    return;
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Deliveries of which no attempt was accepted: the newest attempt of each.
    fn missed_deliveries(&self) -> Vec<i64> {
        let mut newest = BTreeMap::new();
        let mut accepted = BTreeSet::new();
        for delivery in self.standin.deliveries() {
            if delivery.outcome.as_ref().is_some_and(|outcome| outcome.status_code / 100 == 2) {
                accepted.insert(delivery.guid.clone());
            }
            newest.insert(delivery.guid, delivery.id);
        }
        newest.into_iter().filter(|(guid, _)| !accepted.contains(guid)).map(|(_, id)| id).collect()
    }

    async fn rests(&self) -> bool {
        let store = self.store();
        let environments = store.live_environments(None).await.unwrap();
        let moving = environments.iter().any(|environment| environment.state != EnvironmentState::Active);
        let closed = store.closed_conversations_with_environment().await.unwrap();
        !moving && closed.is_empty() && store.unfinished().await.unwrap().is_empty()
    }

    /// Ann asks for something, and once more when the service was killed while the agent was at work.
    pub async fn ask(&mut self, number: i64, words: &str) {
        let request = format!("@{} {words}", self.standin.app_slug());
        self.standin.comment(REPO, ANN, number, &request).unwrap();
        self.settle().await;
        if self.newest_run().await.state == RunState::Interrupted {
            let status = self.own_comments(number).pop().unwrap();
            assert!(status.contains("Interrupted"), "{status}");
            self.standin.comment(REPO, ANN, number, &request).unwrap();
            self.settle().await;
        }
        let run = self.newest_run().await;
        assert_eq!(run.state, RunState::Succeeded, "{run:?}\n{}", self.account());
    }

    pub fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// A worktree on a branch of the remote, as one of ours that lost its row hours ago.
    pub async fn leave_over(&self, branch: &str) -> PathBuf {
        let home = self.dir.path().canonicalize().unwrap().join("home");
        let (canonical, place) =
            (home.join("repos").join(format!("{REPO}.git")), home.join("worktrees").join(REPO).join(branch));
        let remote = self.standin.git_dir(REPO).unwrap();
        git(&canonical, &["fetch", "-q", remote.to_str().unwrap(), "+refs/heads/*:refs/remotes/origin/*"]);
        let from = format!("refs/remotes/origin/{branch}");
        let add = ["worktree", "add", "-q", "--no-track", "--lock", "--reason", "treewarden", "-b", branch];
        git(&canonical, &[&add[..], &[place.to_str().unwrap(), &from]].concat());
        let entry = PathBuf::from(git(&place, &["rev-parse", "--absolute-git-dir"]));
        fs::write(entry.join("treewarden-complete"), "").unwrap();
        let then = std::time::SystemTime::now() - Duration::from_secs(3 * 3600);
        let files = ["gitdir", "commondir", "HEAD", "index", "locked", "logs/HEAD", "ORIG_HEAD", "treewarden-complete"];
        let there = files.iter().map(|name| entry.join(name)).chain([place.clone(), place.join(".git")]);
        for file in there.filter(|file| file.exists()) {
            fs::File::open(file).unwrap().set_modified(then).unwrap();
        }
        // The database knows the repository for longer.
        let file = SqliteConnectOptions::new().filename(home.join("treewarden.db"));
        let older = "UPDATE codebases SET created_at = '2026-01-01T00:00:00.000000Z'";
        sqlx::query(older).execute(&mut file.connect().await.unwrap()).await.unwrap();
        place
    }

    pub async fn newest_run(&self) -> Run {
        self.store().list_runs(Default::default(), 1, 0).await.unwrap().remove(0)
    }

    pub fn own_comments(&self, number: i64) -> Vec<String> {
        let comments = self.standin.comments(REPO, number).unwrap();
        comments.into_iter().filter(|comment| comment.via_app).map(|comment| comment.body).collect()
    }

    /// Each marker once, and one status comment for each run, at its final text.
    pub async fn no_doubled_comments(&self, threads: &[i64]) {
        let mut markers = BTreeSet::new();
        let mut statuses = 0;
        for body in threads.iter().flat_map(|number| self.own_comments(*number)) {
            let marker = body.lines().find(|line| line.starts_with("<!-- treewarden:")).unwrap_or_default().to_owned();
            statuses += usize::from(marker.contains("status/"));
            assert!(!body.starts_with(['🕐', '🌱', '🤖', '📦']), "not the last word: {body}\n{}", self.account());
            assert!(markers.insert(marker), "said twice: {body}\n{}", self.account());
        }
        let runs = self.store().list_runs(Default::default(), 100, 0).await.unwrap();
        assert_eq!(statuses, runs.len(), "{}", self.account());
        let removed = markers.iter().filter(|marker| marker.contains("cleanup/")).count();
        assert_eq!(removed, 1, "who was told of the removal: {markers:?}\n{}", self.account());
    }

    /// On each commit one check run of each run that was shown there, and the run is over.
    fn no_doubled_check_runs(&self) {
        let mut shown = BTreeSet::new();
        for check in self.standin.check_runs(REPO).unwrap() {
            assert!(check.conclusion.is_some(), "not the last word: {check:?}\n{}", self.account());
            let place = (check.external_id, check.head_sha);
            assert!(shown.insert(place.clone()), "shown twice: {place:?}\n{}", self.account());
        }
    }

    pub async fn end(&mut self) -> End {
        self.last_kill().await;
        self.no_doubled_check_runs();
        let store = self.store().clone();
        let home = self.dir.path().join("home");
        let remote = self.standin.git_dir(REPO).unwrap();
        let canonical = home.join("repos").join(format!("{REPO}.git"));
        let environments = store.list_environments(&EnvironmentFilter::default(), 10, 0).await.unwrap();
        let failed = store.list_outgoing(500).await.unwrap();
        let failed: Vec<_> = failed.into_iter().filter(|row| row.state != OutboxState::Sent).collect();
        assert!(failed.is_empty(), "{failed:?}\n{}", self.account());
        // What the service asked GitHub to send again may come after the story.
        let deadline = Instant::now() + PATIENCE;
        while store.unfinished().await.unwrap().deliveries > 0 && Instant::now() < deadline {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        for delivery in store.list_deliveries(500, 0).await.unwrap() {
            assert!(matches!(delivery.state, InboxState::Done | InboxState::Ignored), "{delivery:?}");
        }
        let mut directories = below(&home.join("worktrees"));
        for kept_for_a_while in [home.join("trash"), canonical.join("treewarden-removed")] {
            directories.extend(self.emptied(&kept_for_a_while).await);
        }
        let receipts = store.list_receipts(10).await.unwrap();
        let runs = store.list_runs(Default::default(), 100, 0).await.unwrap();
        let pulls = self.standin.pulls(REPO).unwrap();
        let refs = git(&canonical, &["for-each-ref", "--format=%(refname)", "refs/heads"]);
        // A creation that was only journalled is closed with the next start, and begun anew.
        let made = environments.iter().filter(|environment| environment.start.is_some());
        End {
            branches: self.standin.branches(REPO).await.unwrap(),
            files: git(&remote, &["rev-parse", "main^{tree}"]),
            pulls: pulls.into_iter().map(|pull| (pull.head_branch, pull.merged_as.is_some(), pull.open)).collect(),
            environments: made.map(|environment| environment.state).collect(),
            receipts: receipts.len(),
            local_refs: refs.lines().map(str::to_owned).collect(),
            worktrees: git(&canonical, &["worktree", "list", "--porcelain"]).matches("worktree ").count(),
            directories,
            succeeded: runs.iter().filter(|run| run.state == RunState::Succeeded).count(),
        }
    }

    /// What is left in the trash when its emptying, which nobody waits for, had time.
    async fn emptied(&mut self, trash: &Path) -> Vec<String> {
        let mut deadline = Instant::now() + Duration::from_secs(5);
        while !names(trash).is_empty() && Instant::now() < deadline {
            if self.last_kill().await {
                deadline = Instant::now() + Duration::from_secs(5);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        names(trash)
    }

    /// All effects of all starts, and the end of the last log, for the message of a failure.
    pub fn account(&self) -> String {
        let mut text = String::new();
        for start in 1..=self.starts {
            let effects = fs::read_to_string(self.diary(start)).unwrap_or_default();
            let log = fs::read_to_string(self.diary(start).with_extension("log")).unwrap_or_default();
            let loud: Vec<_> = log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
            text.push_str(&format!("— start {start}\n{effects}\n{}\n", loud.join("\n")));
            if start == self.starts {
                let tail = log.len().saturating_sub(3000);
                text.push_str(log.get(tail..).unwrap_or_default());
            }
        }
        text
    }

    /// Of the first start.
    fn effects(&self) -> usize {
        let diary = fs::read_to_string(self.diary(1)).unwrap_or_default();
        diary.lines().filter(|line| line.starts_with("effect ")).count()
    }

    /// How many each act had, when nothing was killed.
    pub fn effects_of_acts(&self) -> Vec<usize> {
        let ends = self.before_acts.iter().skip(1).copied().chain([self.effects()]);
        self.before_acts.iter().zip(ends).map(|(begin, end)| end - begin).collect()
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
        self.standin.stop();
    }
}

fn diary(dir: &Path, start: usize) -> PathBuf {
    dir.join(format!("start-{start}.diary"))
}

fn fuse(dir: &Path) -> PathBuf {
    dir.join("fuse")
}

fn launch(dir: &Path, standin: &Standin, database: Option<&str>, start: usize) -> Child {
    let diary = diary(dir, start);
    let log = fs::File::create(diary.with_extension("log")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::child", "--ignored", "--nocapture"]);
    command.env(FUSE, fuse(dir)).env(DIARY, &diary);
    command.env("TREEWARDEN_HOME", dir.join("home")).env("TREEWARDEN_LISTEN", "127.0.0.1:0");
    command.env("GITHUB_API_URL", standin.api_url()).env("GITHUB_WEB_URL", standin.web_url());
    command.env("GITHUB_APP_ID", standin.app_id().to_string());
    command.env("GITHUB_APP_PRIVATE_KEY", standin.private_key_pem().expose_secret());
    command.env("GITHUB_WEBHOOK_SECRET", "a secret of the story");
    command.env("TREEWARDEN_AGENT_COMMAND", AGENT).env("TREEWARDEN_SANDBOX", "off");
    command.env("DISK_SOFT_MARK", format!("{}MB", SOFT_MARK / 1_000_000)).env("TREEWARDEN_RECLAIM_AFTER", "30d");
    if let Some(url) = database {
        command.env("DATABASE_URL", url);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// What lies in `<base>/<owner>/<repository>`, for all owners and repositories.
fn below(base: &Path) -> Vec<String> {
    let owners = names(base).into_iter().map(|owner| base.join(owner));
    let repositories = owners.flat_map(|owner| names(&owner).into_iter().map(move |name| owner.join(name)));
    repositories.flat_map(|repository| names(&repository)).collect()
}
