//! A whole world for a story: the stand-in GitHub, and a real Treewarden over SQLite, git and HTTP beside it.
//!
//! Nothing here decides or waits by the clock: a story says what people do, lets everything [`World::settle`], and looks at
//! what people would see. [`World::end`] demands that nothing is left unfinished.

use super::published::{self, Asked};
use secrecy::{ExposeSecret, SecretString};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::{runtime::Runtime, task::spawn_blocking};
use tokio_util::sync::CancellationToken;
use treewarden::{
    app::{Service, wall_clock},
    config::{Config, Flags},
    demo::github::{CommentView, MergeMethod, OpenPull, PullView, RequestRecord, Standin, StandinOptions},
    github::signature,
    model::*,
    orchestrator::{Orchestrator, sweep::Pass},
    store::{EnvironmentFilter, Store},
};

/// Of the webhook.
const SECRET: &str = "a secret of the story";

/// Where no webhook is let in.
const NOBODY: &str = "http://127.0.0.1:1/webhooks/github";

pub const REPO: &str = "octo/hello";
/// Has write permission; everybody else has none until a story says so.
pub const ANN: &str = "ann";
/// A story in which something takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub struct World {
    pub standin: Standin,
    pub service: Service,
    pub dir: TempDir,
    /// Its name in `dir`.
    home: &'static str,
    settings: Vec<(String, String)>,
    times: Times,
    /// Seconds by which the service's clock is ahead of everybody else's.
    ahead: Arc<AtomicU64>,
    http: reqwest::Client,
}

/// How long things take that nobody sets.
#[derive(Clone, Copy)]
struct Times {
    /// For which a database's locks are waited for.
    patience: Option<Duration>,
    pacing: Pacing,
}

/// Stories are told faster than GitHub would let them go on.
pub const HASTE: Pacing =
    Pacing { content: Duration::from_millis(10), writes: Duration::from_millis(5), status: Duration::from_millis(500) };

impl World {
    /// With `octo/hello`: one commit on `main`.
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// With settings that differ from the defaults, as environment variables.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::with_times(settings, Times { patience: None, pacing: HASTE }).await
    }

    /// The same, with a database whose locks are waited for only so long.
    pub async fn with_patience(settings: &[(&str, &str)], patience: Option<Duration>) -> Self {
        Self::with_times(settings, Times { patience, pacing: HASTE }).await
    }

    /// As fast as a service of people's goes.
    pub async fn at_its_own_pace(settings: &[(&str, &str)]) -> Self {
        Self::with_times(settings, Times { patience: None, pacing: Pacing::default() }).await
    }

    async fn with_times(settings: &[(&str, &str)], times: Times) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let standin = Standin::start(StandinOptions::new(dir.path().join("github"))).await.unwrap();
        standin.create_repository(REPO, &[("README.md", "# hello\n"), (".gitignore", "*.log\n")]).await.unwrap();
        standin.set_permission(REPO, ANN, Permission::Write).unwrap();
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect::<Vec<_>>();
        let ahead = Arc::new(AtomicU64::new(0));
        let service = start(&standin, &dir.path().join("home"), &settings, times, &ahead).await;
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        // No connection stays open when a service stops.
        let http = http.pool_max_idle_per_host(0).build().unwrap();
        Self { standin, service, dir, home: "home", settings, times, ahead, http }
    }

    pub fn store(&self) -> &Store {
        self.service.orchestrator.store()
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join(self.home)
    }

    /// Stops the service, moves its home, and starts it there.
    pub async fn moved_to(mut self, name: &'static str) -> Self {
        let (before, now) = (self.home(), self.dir.path().join(name));
        assert!(self.service.stop().await, "the service did not stop in time");
        std::fs::rename(before, &now).unwrap();
        self.service = start(&self.standin, &now, &self.settings, self.times, &self.ahead).await;
        Self { home: name, ..self }
    }

    /// Stops the service, and starts one with an empty home on the same directory of worktrees.
    pub async fn in_new_home(mut self, name: &'static str) -> Self {
        let (base, now) = (self.home().join("worktrees").display().to_string(), self.dir.path().join(name));
        assert!(self.service.stop().await, "the service did not stop in time");
        self.settings.push(("WORKTREE_BASE".into(), base));
        self.service = start(&self.standin, &now, &self.settings, self.times, &self.ahead).await;
        Self { home: name, ..self }
    }

    /// Stops the service, lets `meanwhile` happen, and starts it again on the same home.
    pub async fn restart(mut self, meanwhile: impl FnOnce(&Standin)) -> Self {
        let home = self.home();
        assert!(self.service.stop().await, "the service did not stop in time");
        meanwhile(&self.standin);
        self.service = start(&self.standin, &home, &self.settings, self.times, &self.ahead).await;
        self
    }

    /// Stops the service, and starts it again with further settings.
    pub async fn restart_with(mut self, settings: &[(&str, &str)]) -> Self {
        self.settings.extend(settings.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        self.restart(|_| ()).await
    }

    /// The service from here on in a runtime of its own, as in a process, which [`World::killed_after`] ends.
    pub async fn in_a_process(mut self) -> (Self, Runtime) {
        let (standin, home, settings) = (self.standin.clone(), self.home(), self.settings.clone());
        assert!(self.service.stop().await, "the service did not stop in time");
        let (times, ahead) = (self.times, self.ahead.clone());
        let started = spawn_blocking(move || {
            let process = Runtime::new().unwrap();
            (process.block_on(start(&standin, &home, &settings, times, &ahead)), process)
        });
        let (service, process) = started.await.unwrap();
        self.service = service;
        (self, process)
    }

    /// Asks the service to stop, gives what is live that long, ends the process as `main` does, lets `meanwhile` happen, and
    /// starts another.
    pub async fn killed_after(mut self, process: Runtime, limit: Duration, meanwhile: impl AsyncFnOnce()) -> Self {
        let home = self.home();
        let mut service = self.service;
        service.shutdown_limit = limit;
        let ended = spawn_blocking(move || process.block_on(service.stop()));
        assert!(!ended.await.unwrap(), "everything had ended");
        meanwhile().await;
        self.service = start(&self.standin, &home, &self.settings, self.times, &self.ahead).await;
        self
    }

    /// The service's clock goes on by so much, while nothing is under way.
    pub fn time_passes(&self, time: Duration) {
        self.ahead.fetch_add(time.as_secs(), Ordering::Relaxed);
    }

    /// The clock is put back, as after it was wrong.
    pub fn clock_goes_back(&self, days: u64) {
        self.ahead.fetch_sub(days * 24 * 3600, Ordering::Relaxed);
    }

    pub fn days_pass(&self, days: u64) {
        self.time_passes(Duration::from_secs(days * 24 * 3600));
    }

    // What people do.

    pub fn mention(&self, words: &str) -> String {
        format!("@{} {words}", self.service.slug())
    }

    /// Ann opens an issue that does not mention the bot.
    pub fn issue(&self) -> i64 {
        self.standin.open_issue(REPO, ANN, "Greet people", "We should greet people who come by.").unwrap()
    }

    /// Ann mentions the bot in a comment. Answers with the comment's id.
    pub fn ask(&self, number: i64, words: &str) -> i64 {
        self.standin.comment(REPO, ANN, number, &self.mention(words)).unwrap()
    }

    /// An issue on which Ann asked for something, all done.
    pub async fn worked_issue(&self, words: &str) -> i64 {
        let issue = self.issue();
        self.ask(issue, words);
        self.settle().await;
        issue
    }

    /// A pull request of Ann's from `branch` (one commit, in this repository).
    pub async fn pull_from(&self, branch: &str, body: &str) -> i64 {
        self.standin.push_commit(REPO, ANN, branch, "Start", &[("start.txt", Some("start\n"))]).await.unwrap();
        let pull = OpenPull { title: "A change", body, head: branch, ..OpenPull::default() };
        self.standin.open_pull(REPO, ANN, pull).await.unwrap()
    }

    /// A pull request of Bob's from his fork. Answers with its number and the fork's name.
    pub async fn pull_from_fork(&self, branch: &str) -> (i64, String) {
        let fork = self.standin.fork(REPO, "bob").await.unwrap();
        self.standin.push_commit(&fork, "bob", branch, "From afar", &[("far.txt", Some("far\n"))]).await.unwrap();
        let head = format!("bob:{branch}");
        let pull = OpenPull { title: "From a fork", body: "Please.", head: &head, ..OpenPull::default() };
        (self.standin.open_pull(REPO, "bob", pull).await.unwrap(), fork)
    }

    /// Ann approves a fork's pull request as it is now, and the bot has answered.
    pub async fn approve(&self, pull: i64) {
        let head = self.pull(pull).head_sha;
        self.ask(pull, &format!("/approve {head}"));
        self.settle().await;
        assert!(self.answer(pull).starts_with("Approved"), "{}", self.answer(pull));
    }

    // What people see.

    /// Everything the bot wrote in a thread, oldest first.
    pub fn answers(&self, number: i64) -> Vec<CommentView> {
        let mut comments = self.standin.comments(REPO, number).unwrap();
        comments.retain(|comment| comment.via_app);
        comments
    }

    /// The status comments of a thread, one a run, without those in which an answer goes on.
    pub fn statuses(&self, number: i64) -> Vec<String> {
        let own = self.answers(number).into_iter().map(|comment| comment.body);
        let is_status =
            |body: &String| body.rsplit_once("<!-- treewarden:status/").is_some_and(|(_, run)| !run.contains('/'));
        own.filter(is_status).collect()
    }

    /// The newest status comment of a thread.
    pub fn status(&self, number: i64) -> String {
        self.statuses(number).pop().unwrap_or_else(|| panic!("no status comment on #{number}"))
    }

    /// The newest comment of the bot that is no status comment.
    pub fn answer(&self, number: i64) -> String {
        let own = self.answers(number).into_iter().map(|comment| comment.body);
        let mut own: Vec<_> = own.filter(|body| !body.contains("<!-- treewarden:status/")).collect();
        own.pop().unwrap_or_else(|| panic!("no answer on #{number}"))
    }

    pub fn reactions(&self, comment: i64) -> Vec<String> {
        let reactions = self.standin.comment_reactions(REPO, comment).unwrap();
        reactions.into_iter().map(|reaction| reaction.content).collect()
    }

    pub fn pull(&self, number: i64) -> PullView {
        self.standin.pull(REPO, number).unwrap()
    }

    /// The one open pull request whose head is this branch.
    pub fn pull_of(&self, branch: &str) -> PullView {
        let mut pulls = self.standin.pulls(REPO).unwrap();
        pulls.retain(|pull| pull.open && pull.head_branch == branch);
        assert_eq!(pulls.len(), 1, "open pull requests of {branch}: {pulls:?}");
        pulls.remove(0)
    }

    /// Ann merges a pull request, draft or not, and what follows from that is done.
    pub async fn merge(&self, pull: i64, method: MergeMethod) {
        self.standin.set_draft(REPO, ANN, pull, false).unwrap();
        self.standin.merge(REPO, ANN, pull, method).await.unwrap();
        self.settle().await;
    }

    /// A second service beside this one, with a home of its own, as the same App: nothing is delivered to it by itself.
    pub async fn twin(&self) -> Service {
        let twin = start(&self.standin, &self.dir.path().join("twin"), &self.settings, self.times, &self.ahead).await;
        self.standin
            .set_webhook(&format!("http://{}/webhooks/github", self.service.address), SecretString::from(SECRET));
        twin
    }

    /// What GitHub says beside what the stand-in does by itself.
    pub async fn deliver(&self, event: &str, body: &serde_json::Value) {
        self.deliver_to(&self.service, event, body.to_string()).await;
    }

    pub async fn deliver_to(&self, service: &Service, event: &str, body: String) {
        let address = service.address;
        let delivery = self
            .http
            .post(format!("http://{address}/webhooks/github"))
            .header("Content-Type", "application/json")
            .header("X-GitHub-Event", event)
            .header("X-GitHub-Delivery", uuid::Uuid::now_v7().to_string())
            .header("X-Hub-Signature-256", signature::sign(&SecretString::from(SECRET), body.as_bytes()));
        assert_eq!(delivery.body(body).send().await.unwrap().status(), 202);
    }

    pub async fn remote_tip(&self, branch: &str) -> Option<String> {
        self.standin.branch_tip(REPO, branch).await.unwrap()
    }

    pub async fn remote_file(&self, branch: &str, path: &str) -> Option<String> {
        self.standin.file(REPO, branch, path).await.unwrap()
    }

    /// The text of a page of the panel, as somebody reads it who has just come in by a link.
    pub async fn page(&self, path: &str) -> String {
        let (http, base) = (&self.http, format!("http://{}", self.service.address));
        let link = self.service.login_link();
        let token = [("token", link.rsplit('=').next().unwrap())];
        let entered = http.post(format!("{base}/login/one-time")).form(&token).send().await.unwrap();
        let cookie = entered.headers()[reqwest::header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
        let page = http.get(format!("{base}{path}")).header(reqwest::header::COOKIE, cookie).send().await.unwrap();
        assert_eq!(page.status(), 200, "{path}");
        let mut text = String::new();
        for piece in page.text().await.unwrap().split('<') {
            text.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
        }
        [("&#39;", "'"), ("&#34;", "\""), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")]
            .into_iter()
            .fold(text, |text, (coded, plain)| text.replace(coded, plain))
    }

    // What the service holds.

    pub async fn environments(&self) -> Vec<Environment> {
        self.store().live_environments(None).await.unwrap()
    }

    /// The only live environment.
    pub async fn environment(&self) -> Environment {
        let mut live = self.environments().await;
        assert_eq!(live.len(), 1, "live environments: {live:?}");
        live.remove(0)
    }

    pub async fn all_environments(&self) -> Vec<Environment> {
        self.store().list_environments(&EnvironmentFilter::default(), 100, 0).await.unwrap()
    }

    /// Oldest first.
    pub async fn runs(&self) -> Vec<Run> {
        let mut runs = self.store().list_runs(Default::default(), 100, 0).await.unwrap();
        runs.reverse();
        runs
    }

    pub async fn run_states(&self) -> Vec<RunState> {
        self.runs().await.into_iter().map(|run| run.state).collect()
    }

    /// The canonical repository of `octo/hello`, wherever it lies.
    pub async fn canonical(&self) -> PathBuf {
        let codebases = self.store().list_codebases().await.unwrap();
        assert_eq!(codebases.len(), 1, "{codebases:?}");
        self.home().join("repos").join(&codebases[0].repository_dir)
    }

    /// The commit of a ref in the canonical repository.
    pub async fn local_tip(&self, branch: &str) -> Option<String> {
        let canonical = self.canonical().await;
        let reference = format!("refs/heads/{branch}");
        let tip = git(&canonical, &["for-each-ref", "--format=%(objectname)", &reference]);
        (!tip.is_empty()).then_some(tip)
    }

    /// A scheduled pass of the cleanup service, now.
    pub async fn pass(&self) -> CleanupReport {
        self.service.orchestrator.pass(&Pass::everywhere(Trigger::Schedule, false, "schedule")).await.unwrap()
    }

    /// What such a pass would do.
    pub async fn dry_run(&self) -> CleanupReport {
        self.service.orchestrator.pass(&Pass::everywhere(Trigger::Schedule, true, "schedule")).await.unwrap()
    }

    /// Looks at removed files that still wait for it, now.
    pub async fn look_through_trash(&self) {
        self.service.orchestrator.look_through_trash(&CancellationToken::new()).await.unwrap();
    }

    pub fn orchestrator(&self) -> &Orchestrator {
        &self.service.orchestrator
    }

    // Waiting.

    /// Until nothing is under way: no delivery travels, waits or is handled, no run is live, nothing is left to be said.
    pub async fn settle(&self) {
        self.until("everything to come to rest", || async {
            self.standin.settled().await;
            let seen = self.standin.deliveries().len();
            // In this order: what looking after a thread ends with is in the outbox from the same moment on.
            let rest =
                self.closed_threads_are_looked_after().await && self.store().unfinished().await.unwrap().is_empty();
            self.standin.settled().await;
            (rest && self.standin.deliveries().len() == seen).then_some(())
        })
        .await;
    }

    /// A run ends before its closed thread is looked at again; what follows is no row yet.
    async fn closed_threads_are_looked_after(&self) -> bool {
        for conversation in self.store().closed_conversations_with_environment().await.unwrap() {
            let Some(id) = conversation.environment else { continue };
            let Some(environment) = self.store().load_environment(id).await.unwrap() else { continue };
            let because = environment.metadata.kept_because;
            if because.is_empty() || because.iter().any(|why| why.starts_with("a run is live")) {
                return false;
            }
        }
        true
    }

    /// Looks again and again until there is an answer.
    pub async fn until<T, F: Future<Output = Option<T>>>(&self, what: &str, mut look: impl FnMut() -> F) -> T {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            if tokio::time::Instant::now() > deadline {
                panic!("waited in vain for {what}\n{}", self.describe().await);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Until the newest run is in this state.
    pub async fn until_run_is(&self, state: RunState) -> Run {
        let what = format!("a run that is {state}");
        self.until(&what, || async { self.runs().await.pop().filter(|run| run.state == state) }).await
    }

    /// Until the agent of the newest run is at work in its worktree.
    pub async fn until_agent_works(&self) -> Run {
        let what = "an agent at work";
        let working = |run: &Run| run.state == RunState::Running && run.process.is_some();
        self.until(what, || async { self.runs().await.pop().filter(working) }).await
    }

    async fn describe(&self) -> String {
        let outgoing = self.store().list_outgoing(50).await.unwrap();
        let outgoing = outgoing.into_iter().filter(|row| row.state != OutboxState::Sent);
        let outgoing: Vec<_> = outgoing.map(|row| (row.key, row.state, row.last_error)).collect();
        let runs: Vec<_> = self.runs().await.into_iter().map(|run| (run.state, run.reason)).collect();
        let live: Vec<_> = self.environments().await.into_iter().map(|e| (e.branch, e.state, e.metadata)).collect();
        let left = self.store().unfinished().await.unwrap();
        format!("left: {left:?}\nruns: {runs:?}\noutgoing: {outgoing:?}\nenvironments: {live:?}")
    }

    /// The end of every story: nothing is unfinished, and nothing failed to be said or handled behind anybody's back.
    pub async fn end(self) {
        self.settle().await;
        let failed = self.store().list_outgoing(500).await.unwrap();
        let failed: Vec<_> = failed.into_iter().filter(|row| row.state == OutboxState::Failed).collect();
        assert!(failed.is_empty(), "not sent: {failed:?}");
        // What a restart left for later is finished soon after it.
        self.until("every environment to be finished", || async {
            let live = self.environments().await;
            live.iter().all(|environment| environment.state == EnvironmentState::Active).then_some(())
        })
        .await;
        let deliveries = self.store().list_deliveries(500, 0).await.unwrap();
        for delivery in deliveries {
            assert_ne!(delivery.state, InboxState::Failed, "{}: {:?}", delivery.event, delivery.reason);
        }
        assert!(self.service.stop().await, "the service did not stop in time");
        self.standin.stop();
        let wrong: Vec<String> = self.standin.requests().iter().filter_map(objection).collect();
        assert!(wrong.is_empty(), "asked of GitHub: {wrong:#?}");
    }
}

/// Where GitHub redirected to is its own word, and the stand-in knows no such address otherwise.
fn objection(record: &RequestRecord) -> Option<String> {
    let RequestRecord { method, path, query, is_rest, body, .. } = record;
    let own = (*is_rest && !path.starts_with("/repositories/")) || path == published::GRAPHQL;
    let asked = Asked { method, path, query: query.as_deref(), body: body.as_ref() };
    own.then(|| published::objection(&asked)).flatten()
}

async fn start(
    standin: &Standin,
    home: &Path,
    settings: &[(String, String)],
    times: Times,
    ahead: &Arc<AtomicU64>,
) -> Service {
    let key = standin.private_key_pem();
    let env = |name: &str| {
        let own = settings.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.clone());
        own.or_else(|| match name {
            "TREEWARDEN_LISTEN" => Some("127.0.0.1:0".to_owned()),
            "GITHUB_API_URL" => Some(standin.api_url()),
            "GITHUB_WEB_URL" => Some(standin.web_url()),
            "GITHUB_APP_ID" => Some(standin.app_id().to_string()),
            "GITHUB_APP_PRIVATE_KEY" => Some(key.expose_secret().to_owned()),
            "GITHUB_WEBHOOK_SECRET" => (!fetches(settings)).then(|| SECRET.to_owned()),
            "TREEWARDEN_AGENT_COMMAND" => Some(format!("'{}' demo-agent", env!("CARGO_BIN_EXE_treewarden"))),
            "TREEWARDEN_SANDBOX" => Some("off".to_owned()),
            "PATH" => std::env::var("PATH").ok(),
            _ => None,
        })
    };
    let flags = Flags { home: Some(home.to_owned()), ..Flags::default() };
    let config = Config::load(&flags, env, |path| std::fs::read_to_string(path)).unwrap();
    let config = Config { database_patience: times.patience, pacing: times.pacing, ..config };
    let (clock, ahead) = (wall_clock(), ahead.clone());
    let clock = Arc::new(move || clock().plus(Duration::from_secs(ahead.load(Ordering::Relaxed))));
    let service = Service::start_by(&config, clock).await.unwrap();
    match config.github.app.as_ref().unwrap().webhook_secret.clone() {
        Some(secret) => standin.set_webhook(&format!("http://{}/webhooks/github", service.address), secret),
        None => standin.set_webhook(NOBODY, SecretString::default()),
    }
    service
}

fn fetches(settings: &[(String, String)]) -> bool {
    settings.iter().rfind(|(name, _)| name == "TREEWARDEN_WEBHOOK").is_some_and(|(_, value)| value == "poll")
}

/// What git says about a repository or worktree, without the last line break; a failure fails the story.
pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["-c", "user.name=Ann", "-c", "user.email=ann@localhost"])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env_remove("GIT_DIR")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
