//! `kill -9` at every effect: a story, told again and again with the service killed at its first, second, third, …
//! effect and started again, always with the same end.
//!
//! The service runs in a process of its own: this test binary, told to run only [`child`]. There a tracing layer counts
//! the events that mark effects and ends the process with SIGKILL at the chosen one; shipping code knows nothing of it.

use crate::support::world::{ANN, REPO, git};
use futures::StreamExt;
use secrecy::ExposeSecret;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tracing::{Event, Subscriber};
use tracing_subscriber::{Layer, filter::LevelFilter, layer::Context, layer::SubscriberExt, util::SubscriberInitExt};
use treewarden::{
    app::Service,
    config::{Config, Flags},
    demo::github::{MergeMethod, OpenPull, Standin, StandinOptions},
    model::*,
    store::{EnvironmentFilter, Store},
    telemetry::field::EFFECT,
};

/// In the child's environment: at which effect it dies (0: never), and where it writes its address and its effects.
const BOMB: &str = "CRASH_TEST_BOMB";
const DIARY: &str = "CRASH_TEST_DIARY";
/// The first effect to die at, and the distance to the next. Usually some of the effects are tried, in a minute or so; with
/// a step of 1 all of them, in about ten.
const FROM: &str = "CRASH_TEST_FROM";
const STEP: &str = "CRASH_TEST_STEP";
/// The greatest number of effects the story may have; more would mean that it never ends.
const MOST: usize = 400;
const AT_ONCE: usize = 2;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(15);
/// Quick, and the same words make the same files whatever was there before.
const AGENT: &str = "sh -c 'words=$(cat); case $words in *chapter-two*) echo two > two.txt;; *chapter-one*) echo one > one.txt;; esac; echo Written.'";

/// Kills the process at an effect, after noting it.
struct Bomb {
    at: usize,
    seen: AtomicUsize,
    diary: PathBuf,
}

impl<S: Subscriber> Layer<S> for Bomb {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != EFFECT {
            return;
        }
        let number = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        let mut words = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            words.push_str(&format!(" {}={value:?}", field.name()));
        });
        note(&self.diary, &format!("effect {number}{words}"));
        if number == self.at {
            let me = rustix::process::getpid();
            let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
        }
    }
}

fn note(diary: &Path, line: &str) {
    let mut file = fs::File::options().create(true).append(true).open(diary).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The service that is killed; started by the test below, and nothing at all otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of the crash test, which starts it itself"]
async fn child() {
    let (Ok(at), Ok(diary)) = (std::env::var(BOMB), std::env::var(DIARY)) else { return };
    let bomb = Bomb { at: at.parse().unwrap(), seen: AtomicUsize::new(0), diary: diary.clone().into() };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let ours = tracing_subscriber::filter::Targets::new().with_target("treewarden", LevelFilter::DEBUG);
    tracing_subscriber::registry().with(bomb).with(lines).with(ours).init();
    let config = Config::from_process(&Flags::default()).unwrap();
    let service = Service::start(&config).await.unwrap();
    note(Path::new(&diary), &format!("listening {}", service.address));
    std::future::pending::<()>().await;
}

/// A world whose service may die at any moment.
struct Story {
    dir: TempDir,
    standin: Standin,
    service: Child,
    /// How often the service was started.
    starts: usize,
    killed: bool,
    /// Effects before the command was given.
    before_command: usize,
    store: Option<Store>,
}

/// What is the same, wherever the service was killed.
#[derive(Debug, PartialEq, Eq)]
struct End {
    branches: Vec<String>,
    /// The tree of `main`.
    files: String,
    /// Head branch, merged, open.
    pulls: Vec<(String, bool, bool)>,
    environments: Vec<EnvironmentState>,
    receipts: usize,
    local_refs: Vec<String>,
    worktrees: usize,
    directories: Vec<String>,
    succeeded: usize,
}

impl Story {
    async fn begin(bomb: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let standin = Standin::start(StandinOptions::new(dir.path().join("github"))).await.unwrap();
        standin.create_repository(REPO, &[("README.md", "# hello\n")]).await.unwrap();
        standin.set_permission(REPO, ANN, Permission::Write).unwrap();
        let service = launch(dir.path(), &standin, 1, bomb);
        let mut story = Self { dir, standin, service, starts: 1, killed: false, before_command: 0, store: None };
        story.ready().await;
        story
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
        let path = self.dir.path().join("home/treewarden.db");
        Store::open(&format!("sqlite://{}", path.display())).await.unwrap()
    }

    /// Starts the service again when it was killed; says whether it was.
    fn revive(&mut self) -> bool {
        let Some(status) = self.service.try_wait().unwrap() else { return false };
        assert!(status.code().is_none(), "the service ended by itself: {status}\n{}", self.account());
        self.killed = true;
        self.starts += 1;
        assert!(self.starts < 4, "the service dies again and again\n{}", self.account());
        self.service = launch(self.dir.path(), &self.standin, self.starts, 0);
        true
    }

    /// Until nothing is under way, with a new start after a kill and the deliveries it missed sent again.
    async fn settle(&mut self) {
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
        let store = self.store.as_ref().unwrap();
        let environments = store.live_environments(None).await.unwrap();
        let moving = environments.iter().any(|environment| environment.state != EnvironmentState::Active);
        let closed = store.closed_conversations_with_environment().await.unwrap();
        !moving && closed.is_empty() && store.unfinished().await.unwrap().is_empty()
    }

    /// Ann asks for something, and once more when the service was killed while the agent was at work.
    async fn ask(&mut self, number: i64, words: &str) {
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

    async fn newest_run(&self) -> Run {
        self.store.as_ref().unwrap().list_runs(Default::default(), 1, 0).await.unwrap().remove(0)
    }

    fn own_comments(&self, number: i64) -> Vec<String> {
        let comments = self.standin.comments(REPO, number).unwrap();
        comments.into_iter().filter(|comment| comment.via_app).map(|comment| comment.body).collect()
    }

    /// A command takes a worktree away, and says so whatever comes between the two.
    async fn tell_of_a_command(&mut self) -> End {
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "write chapter-one").await;
        self.before_command = self.effects();
        self.standin.comment(REPO, ANN, issue, &format!("@{} /worktree remove", self.standin.app_slug())).unwrap();
        self.settle().await;
        let answers: Vec<_> =
            self.own_comments(issue).into_iter().filter(|body| body.contains("<!-- treewarden:answer/")).collect();
        assert_eq!(answers.len(), 1, "{answers:?}\n{}", self.account());
        assert!(answers[0].starts_with("🧹 The worktree was removed"), "{answers:?}\n{}", self.account());
        self.end().await
    }

    /// Nothing comes of an issue; its worktree makes way for a pull request of Ann's own that closes it.
    async fn tell_of_making_way(&mut self) -> End {
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "think about it").await;
        self.standin.push_commit(REPO, ANN, "feature/x", "Begin", &[("zero.txt", Some("zero\n"))]).await.unwrap();
        let body = format!("Closes #{issue}");
        let pull = OpenPull { title: "A chapter", body: &body, head: "feature/x", ..OpenPull::default() };
        let pull = self.standin.open_pull(REPO, ANN, pull).await.unwrap();
        self.settle().await;
        self.before_command = self.effects();
        self.ask(pull, "write chapter-two").await;
        self.no_doubled_comments(&[issue, pull]).await;
        let store = self.store.as_ref().unwrap();
        let live = store.live_environments(None).await.unwrap();
        assert_eq!(live.len(), 1, "{live:?}\n{}", self.account());
        let users = store.conversations_of(live[0].id).await.unwrap();
        assert_eq!(users.len(), 2, "both threads are tied: {users:?}\n{}", self.account());
        // A run that was interrupted has been asked for anew, as another request.
        let told = self.own_comments(pull).iter().any(|body| body.contains("held nothing of its own"));
        assert!(told, "{:?}\n{}", self.own_comments(pull), self.account());
        self.end().await
    }

    /// An issue becomes a pull request, which gets a second commit and is merged.
    async fn tell(&mut self) -> End {
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "write chapter-one").await;
        let pulls = self.standin.pulls(REPO).unwrap();
        assert_eq!(pulls.len(), 1, "{pulls:?}\n{}", self.account());
        let pull = pulls[0].number;
        self.ask(pull, "now chapter-two").await;
        self.standin.set_draft(REPO, ANN, pull, false).unwrap();
        self.standin.merge(REPO, ANN, pull, MergeMethod::Squash).await.unwrap();
        self.settle().await;
        self.no_doubled_comments(&[issue, pull]).await;
        let end = self.end().await;
        assert!(end.local_refs.is_empty(), "{end:?}\n{}", self.account());
        end
    }

    /// Each marker once, and one status comment for each run, at its final text.
    async fn no_doubled_comments(&self, threads: &[i64]) {
        let mut markers = BTreeSet::new();
        let mut statuses = 0;
        for body in threads.iter().flat_map(|number| self.own_comments(*number)) {
            let marker = body.lines().find(|line| line.starts_with("<!-- treewarden:")).unwrap_or_default().to_owned();
            statuses += usize::from(marker.contains("status/"));
            assert!(!body.starts_with(['🕐', '🌱', '🤖', '📦']), "not the last word: {body}\n{}", self.account());
            assert!(markers.insert(marker), "said twice: {body}\n{}", self.account());
        }
        let runs = self.store.as_ref().unwrap().list_runs(Default::default(), 100, 0).await.unwrap();
        assert_eq!(statuses, runs.len(), "{}", self.account());
        let removed = markers.iter().filter(|marker| marker.contains("cleanup/")).count();
        assert_eq!(removed, 1, "who was told of the removal: {markers:?}\n{}", self.account());
    }

    async fn end(&self) -> End {
        let store = self.store.as_ref().unwrap();
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
        directories.extend(self.emptied(&home.join("trash")).await);
        let receipts = store.list_receipts(10).await.unwrap();
        let runs = store.list_runs(Default::default(), 100, 0).await.unwrap();
        let pulls = self.standin.pulls(REPO).unwrap();
        let refs = git(&canonical, &["for-each-ref", "--format=%(refname)", "refs/heads"]);
        End {
            branches: self.standin.branches(REPO).await.unwrap(),
            files: git(&remote, &["rev-parse", "main^{tree}"]),
            pulls: pulls.into_iter().map(|pull| (pull.head_branch, pull.merged_as.is_some(), pull.open)).collect(),
            environments: environments.iter().map(|environment| environment.state).collect(),
            receipts: receipts.len(),
            local_refs: refs.lines().map(str::to_owned).collect(),
            worktrees: git(&canonical, &["worktree", "list", "--porcelain"]).matches("worktree ").count(),
            directories,
            succeeded: runs.iter().filter(|run| run.state == RunState::Succeeded).count(),
        }
    }

    /// What is left in the trash when its emptying, which nobody waits for, had time.
    async fn emptied(&self, trash: &Path) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !names(trash).is_empty() && Instant::now() < deadline {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        names(trash)
    }

    /// All effects of all starts, and the end of the last log, for the message of a failure.
    fn account(&self) -> String {
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

    fn effects(&self) -> usize {
        let diary = fs::read_to_string(self.diary(1)).unwrap_or_default();
        diary.lines().filter(|line| line.starts_with("effect ")).count()
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

fn launch(dir: &Path, standin: &Standin, start: usize, bomb: usize) -> Child {
    let diary = diary(dir, start);
    let log = fs::File::create(diary.with_extension("log")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::child", "--ignored", "--nocapture"]);
    command.env(BOMB, bomb.to_string()).env(DIARY, &diary);
    command.env("TREEWARDEN_HOME", dir.join("home")).env("TREEWARDEN_LISTEN", "127.0.0.1:0");
    command.env("GITHUB_API_URL", standin.api_url()).env("GITHUB_WEB_URL", standin.web_url());
    command.env("GITHUB_APP_ID", standin.app_id().to_string());
    command.env("GITHUB_APP_PRIVATE_KEY", standin.private_key_pem().expose_secret());
    command.env("GITHUB_WEBHOOK_SECRET", "a secret of the story");
    command.env("TREEWARDEN_AGENT_COMMAND", AGENT).env("TREEWARDEN_SANDBOX", "off");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_effect_it_comes_to_the_same_end() {
    let mut undisturbed = Story::begin(0).await;
    let expected = undisturbed.tell().await;
    let account = undisturbed.account();
    assert!(!undisturbed.killed);
    let effects = undisturbed.effects();
    drop(undisturbed);
    assert_eq!(expected.pulls, [("issue-1".to_owned(), true, false)], "{account}");
    assert_eq!((expected.receipts, expected.worktrees, expected.succeeded), (1, 1, 2), "{expected:?}\n{account}");
    assert!(expected.directories.is_empty() && expected.local_refs.is_empty(), "{expected:?}\n{account}");
    assert_eq!(expected.environments, [EnvironmentState::Destroyed]);

    killed_from(1, effects, &expected, Story::tell).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_during_a_command_it_gives_the_same_answer() {
    let mut undisturbed = Story::begin(0).await;
    let expected = undisturbed.tell_of_a_command().await;
    let (before, effects) = (undisturbed.before_command, undisturbed.effects());
    drop(undisturbed);
    assert_eq!((expected.receipts, expected.worktrees, expected.succeeded), (1, 1, 1), "{expected:?}");
    killed_from(before + 1, effects, &expected, Story::tell_of_a_command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_worktree_makes_way_it_comes_to_the_same_end() {
    let mut undisturbed = Story::begin(0).await;
    let expected = undisturbed.tell_of_making_way().await;
    let (before, effects, account) = (undisturbed.before_command, undisturbed.effects(), undisturbed.account());
    drop(undisturbed);
    assert_eq!((expected.receipts, expected.worktrees, expected.succeeded), (1, 2, 2), "{expected:?}\n{account}");
    assert_eq!(expected.local_refs, ["refs/heads/feature/x"], "{account}");
    killed_from(before + 1, effects, &expected, Story::tell_of_making_way).await;
}

/// Effects may come in another order, and a few more or fewer; until one story gets through unharmed.
async fn killed_from(first: usize, effects: usize, expected: &End, tell: impl AsyncFn(&mut Story) -> End) {
    let number =
        |name: &str, usual: usize| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let bombs = (number(FROM, first).max(first)..MOST).step_by(number(STEP, 9));
    let tell = &tell;
    let stories = futures::stream::iter(bombs).map(|bomb| async move {
        let mut story = Story::begin(bomb).await;
        let end = tell(&mut story).await;
        (bomb, story.killed, end, story.account())
    });
    let mut stories = std::pin::pin!(stories.buffered(AT_ONCE));
    let mut covered = 0;
    while let Some((bomb, killed, end, account)) = stories.next().await {
        assert_eq!(end, *expected, "killed at effect {bomb}\n{account}");
        if !killed {
            break;
        }
        covered = bomb;
    }
    println!("killed at effects {first} to {covered}, always the same end ({effects} undisturbed)");
    // The last few are answers that nobody waits for.
    let step = number(STEP, 9);
    assert!(covered + step + 10 >= effects && covered < MOST - 1, "only up to {covered} of {effects}");
}
