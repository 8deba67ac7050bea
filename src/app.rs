//! The composition root: builds everything from the settings, starts the workers and the server, and stops them gently.
//!
//! No logic of the product lives here; what the command line asks for is in [`commands`].

pub mod commands;
mod doctor;
mod door;
mod env;
mod hangup;
mod import;
mod lock;
mod look;
mod program;
mod say;
mod scratch;
mod short_lived;
mod story;

use crate::agent::{self, AgentRunner, CommandRunner, Limits};
use crate::config::{AppCredentials, Config, Deliveries, HomeError, Sandbox};
use crate::git::{Git, GitError, GitSettings};
use crate::github::{AppIdentity, Github, GithubError, GithubSettings};
use crate::isolation::{IsolationError, WorktreeProvider};
use crate::model::Timestamp;
use crate::orchestrator::{Clock, Orchestrator, Parts, Settings, StepError, Workers};
use crate::platform::{GithubPlatform, LocalPlatform, Platforms};
use crate::store::{self, Alone, Disk, Store, StoreError};
use crate::telemetry::{Metrics, Redactor};
use crate::web::{LoginLinks, ServeLimits, WebParts, WebState, loopback_url, router, serve};
use door::{Door, DoorError, fresh_token};
use lock::{HomeLock, LockError};
use look::{Taken, take};
use secrecy::{ExposeSecret, SecretString};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How long live runs may take to end after the process was asked to stop.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(60);
/// How long a claim holds without a heartbeat.
const LEASE: Duration = Duration::from_secs(60);
/// How often histograms are folded.
const METRICS_UPKEEP: Duration = Duration::from_secs(10);
/// For the last statements on the database; a step that hangs must not hold up the end of the process.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Why the service does not start, or a command that needs what it needs. Every sentence says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "No GitHub App is configured, so nothing was started. Set GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY (or _FILE) and \
         GITHUB_WEBHOOK_SECRET; the README says where they come from. Without GitHub, for repositories on this machine: \
         TREEWARDEN_LOCAL=on. To look around first: treewarden demo"
    )]
    NoApp,
    #[error(
        "An agent is configured, but this version has no sandbox to confine it, so nothing was started. Agents would run as \
         the user of this service: where you trust them that far, write TREEWARDEN_SANDBOX=off."
    )]
    NoSandbox,
    #[error("{0}{after}", after = after_home(.0))]
    Home(HomeError),
    #[error("{0}{after}", after = after_lock(.0))]
    Lock(LockError),
    #[error("{0}. Nothing was begun; {DOCTOR}")]
    Door(DoorError),
    #[error("{0}. Nothing was begun; {DOCTOR}")]
    Store(StoreError),
    #[error("{0}. Nothing was begun; {DOCTOR}")]
    Git(GitError),
    #[error("{0}{after}", after = after_isolation(.0))]
    Isolation(IsolationError),
    #[error(
        "GitHub did not say which App this is, and without that the bot could not recognise its own comments: \
         {error}. Nothing was begun; {meanwhile}. {advice} Then start again.", meanwhile = meanwhile(*began_before), advice = advice(error)
    )]
    Github { error: GithubError, began_before: bool },
    #[error("The state of the last run could not be recovered")]
    Recover(#[from] StepError),
    #[error("{address} cannot be listened on: {error}. Choose another with --listen or TREEWARDEN_LISTEN.")]
    Listen { address: String, error: std::io::Error },
}

/// The way out of what is wrong with this machine.
const DOCTOR: &str = "treewarden doctor, with the settings of the service, says what mends it.";

macro_rules! told_whole {
    ($($variant:ident($error:ty)),*) => {$(
        // Not as its source: the sentence has it.
        impl From<$error> for StartError {
            fn from(error: $error) -> Self {
                StartError::$variant(error)
            }
        }
    )*};
}
told_whole!(
    Home(HomeError),
    Lock(LockError),
    Door(DoorError),
    Store(StoreError),
    Git(GitError),
    Isolation(IsolationError)
);

/// What is safe and what to do, where the sentence itself does not say it.
fn after_home(error: &HomeError) -> String {
    match error {
        HomeError::Open { .. }
        | HomeError::NotOurs { .. }
        | HomeError::OfAnother { .. }
        | HomeError::OfWorktrees { .. }
        | HomeError::NotItsOwn { .. }
        | HomeError::BaseOpen { .. } => String::new(),
        HomeError::NotMade { .. }
        | HomeError::NotADirectory { .. }
        | HomeError::NotAFile { .. }
        | HomeError::NotWritable { .. }
        | HomeError::NotReadable { .. } => format!(". Nothing was begun; {DOCTOR}"),
        HomeError::WorktreeBase(inner) => after_home(inner),
    }
}

fn after_lock(error: &LockError) -> String {
    match error {
        LockError::Taken(_) | LockError::Shared(_) => String::new(),
        LockError::Unusable { .. } => format!(". Nothing was begun; {DOCTOR}"),
    }
}

fn after_isolation(error: &IsolationError) -> String {
    match error {
        IsolationError::OutOfSight { .. }
        | IsolationError::Unmarked { .. }
        | IsolationError::LeftBehind { .. }
        | IsolationError::OtherDisk { .. }
        | IsolationError::MarkTaken(_) => ".".to_owned(),
        _ => format!(". Nothing was begun; {DOCTOR}"),
    }
}

/// What becomes of what people write until the next start. `began_before`: there was one of this App here.
fn meanwhile(began_before: bool) -> &'static str {
    match began_before {
        true => "what GitHub delivers meanwhile is fetched after it",
        false => "whoever mentions the bot before its first start has to do so again afterwards",
    }
}

/// What to do about a GitHub that does not say who we are.
fn advice(error: &GithubError) -> &'static str {
    match error {
        GithubError::Unreachable(_) | GithubError::OutcomeUnknown => {
            "Check the network, a proxy that is in use (https_proxy), and GITHUB_API_URL: where that says https, its port has to \
             speak HTTPS."
        }
        GithubError::NotFound(_) | GithubError::BadAnswer(_) => {
            "Check GITHUB_API_URL: what answers there is not GitHub's API, which an Enterprise Server has at \
             https://<host>/api/v3."
        }
        GithubError::Unauthorized => "Compare GITHUB_APP_ID and the private key with the App's page on GitHub.",
        GithubError::Settings(_) => "Give it the .pem file that GitHub made, as GITHUB_APP_PRIVATE_KEY_FILE.",
        GithubError::Forbidden(_) | GithubError::Invalid(_) => {
            "See on the App's page on GitHub whether it is suspended."
        }
        GithubError::RateLimited { .. } | GithubError::Server { .. } => "Wait until GitHub answers.",
    }
}

/// The setting that remembers the App's identity.
const IDENTITY: &str = "github/identity";

/// A running Treewarden.
pub struct Service {
    pub address: SocketAddr,
    pub public_url: String,
    pub slug: String,
    pub orchestrator: Orchestrator,
    pub links: LoginLinks,
    /// How long live runs may take to end after [`Service::stop`] was asked for.
    pub shutdown_limit: Duration,
    workers: Workers,
    clock: Clock,
    stopping: Arc<AtomicBool>,
    close: CancellationToken,
    server: JoinHandle<()>,
    /// Has the database to itself.
    watch: AbortOnDropHandle<StoreError>,
    _home: HomeLock,
}

/// The orchestrator with everything below it, without workers or server; what one-off commands use.
pub struct Core {
    pub orchestrator: Orchestrator,
    pub slug: String,
    taken: Taken,
}

pub fn wall_clock() -> Clock {
    Arc::new(|| Timestamp::new(chrono::Utc::now()))
}

impl Core {
    /// Takes the home, opens and migrates the database, and asks GitHub who we are. `token`: what opens the door for this
    /// machine's messages, if there is one.
    pub async fn build(
        config: &Config,
        public_url: &str,
        token: Option<&SecretString>,
        clock: Clock,
    ) -> Result<Self, StartError> {
        if config.github.app.is_none() && !config.local {
            return Err(StartError::NoApp);
        }
        let taken = take(config).await?;
        let patience = config.database_patience.unwrap_or(store::PATIENCE);
        let store = Store::open_with(config.database_url.expose_secret(), patience).await?.starting_in(config.mode);
        let redactor = Redactor::new(config.secrets().iter().chain(token));
        match orchestrator(config, &store, public_url, taken.home.node(), clock, redactor).await {
            Ok((orchestrator, slug)) => Ok(Self { orchestrator, slug, taken }),
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }
}

/// Built around an open database, with the name GitHub gave the App.
async fn orchestrator(
    config: &Config,
    store: &Store,
    public_url: &str,
    node: &str,
    clock: Clock,
    redactor: Redactor,
) -> Result<(Orchestrator, String), StartError> {
    store.migrate().await?;
    let proxy = config.github.proxy.clone();
    let git = Git::new(GitSettings { proxy, ..GitSettings::new("git", config.home.join("git")) })?;
    git.version().await?;
    let (github, identity) = match &config.github.app {
        Some(app) => {
            let began_before = store.load_missed_watch(app.app_id).await?.is_some();
            let unknown = |error| StartError::Github { error, began_before };
            let github = connected(config, app).map_err(unknown)?;
            let identity = who_we_are(&github, store, app.app_id, clock()).await?.map_err(unknown)?;
            (Some(github), identity)
        }
        None => (None, AppIdentity::nobody()),
    };
    let platforms = Platforms {
        github: github.clone().map(|github| GithubPlatform::new(github, identity.clone())),
        local: LocalPlatform::new(store.clone(), clock.clone()),
    };
    let agent = config.agent.as_ref().map(|agent| {
        let runner = CommandRunner::new(agent.argv.clone(), agent.env.clone(), redactor.clone());
        Arc::new(runner) as Arc<dyn AgentRunner>
    });
    tokio::spawn(agent::clear_forgotten(agent::homes(&config.home)));
    let slug = identity.slug.clone();
    let (base, trash) = (&config.worktree_base, &config.home.join("trash"));
    let provider = WorktreeProvider::new(base, trash)?;
    store.remember_disk(&Disk { node: node.to_owned(), mark: provider.mark().to_owned() }, clock()).await?;
    let orchestrator = Orchestrator::new(Parts {
        settings: settings(config, &provider, public_url, node),
        store: store.clone(),
        inbox: store.inbox_writer(),
        git,
        platform: Arc::new(platforms),
        provider: Arc::new(provider),
        github,
        identity,
        agent,
        clock,
        redact: Arc::new(move |text| redactor.redact(text)),
    });
    Ok((orchestrator, slug))
}

fn connected(config: &Config, app: &AppCredentials) -> Result<Github, GithubError> {
    Github::new(&GithubSettings {
        app_id: app.app_id,
        private_key_pem: app.private_key.clone(),
        api_url: config.github.api_url.clone(),
        web_url: config.github.web_url.clone(),
        timeout: None,
    })
}

/// What GitHub says, else what it said before: a GitHub that is down keeps nobody from taking its deliveries.
async fn who_we_are(
    github: &Github,
    store: &Store,
    app_id: u64,
    now: Timestamp,
) -> Result<Result<AppIdentity, GithubError>, StoreError> {
    let error = match github.app().await {
        Ok(identity) => {
            let value = serde_json::to_value(&identity).expect("plain data");
            store.set_setting(IDENTITY, &value, now).await?;
            return Ok(Ok(identity));
        }
        Err(error) if error.is_transient() => error,
        Err(error) => return Ok(Err(error)),
    };
    let known = store.setting(IDENTITY).await?.and_then(|value| serde_json::from_value::<AppIdentity>(value).ok());
    match known.filter(|identity| identity.app_id == app_id) {
        Some(identity) => {
            let safe = "GitHub does not answer; going on as the App it named before. Deliveries are kept, and what needs GitHub waits";
            tracing::warn!(app.slug = %identity.slug, %error, reason = advice(&error), "{safe}");
            Ok(Ok(identity))
        }
        None => Ok(Err(error)),
    }
}

fn settings(config: &Config, provider: &WorktreeProvider, public_url: &str, node: &str) -> Settings {
    Settings {
        home: config.home.clone(),
        // As git spells it.
        worktree_base: provider.base().to_owned(),
        public_url: public_url.to_owned(),
        web_url: config.github.web_url.clone(),
        fetches_deliveries: config.github.deliveries == Deliveries::Fetched,
        environment_limit: config.max_worktrees,
        authority: config.authority.clone().with_admins(config.admins.clone()),
        offline_create: config.offline_create,
        run_limit: config.max_runs,
        stale_after: config.stale_after,
        trash_for: config.trash_for,
        sweep_interval: config.cleanup_interval,
        retain_for: config.retain_for,
        disk_marks: config.disk_marks,
        reclaim_after: config.reclaim_after,
        agent_limits: Limits { wall: config.run_time_limit, ..Limits::default() },
        node: node.to_owned(),
        lease: LEASE,
        pacing: config.pacing,
    }
}

impl Service {
    /// Starts everything: deliveries are taken as soon as the database is open, and when this returns, work goes on where it
    /// was left.
    pub async fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_by(config, wall_clock()).await
    }

    /// The same by another clock. What GitHub and the file system date stays theirs.
    pub async fn start_by(config: &Config, clock: Clock) -> Result<Self, StartError> {
        let secret = config.github.app.as_ref().and_then(|app| app.webhook_secret.clone());
        let webhook_secret = secret.filter(|_| config.github.deliveries == Deliveries::Sent);
        let address = config.listen.to_string();
        let listener = TcpListener::bind(&address).await;
        let listener = listener.map_err(|error| not_listening(config, address.clone(), error))?;
        let bound = listener.local_addr().map_err(|error| StartError::Listen { address, error })?;
        let public_url = config.public_url(bound);
        // Only a service runs agents.
        if config.agent.is_some() && config.sandbox != Sandbox::Off {
            return Err(StartError::NoSandbox);
        }
        // Before anything can print it, so that nothing lets it out.
        let token = config.local.then(fresh_token);
        let core = Core::build(config, &public_url, token.as_ref(), clock.clone()).await?;
        let Core { orchestrator, slug, taken: Taken { home, database } } = core;
        let watch = AbortOnDropHandle::new(tokio::spawn(keep_alone(database, orchestrator.clone())));

        let local_token = match door(config, bound, token) {
            Ok(token) => token,
            Err(error) => {
                orchestrator.store().close().await;
                return Err(error.into());
            }
        };
        let metrics = Metrics::start();
        let working = Arc::new(AtomicBool::new(false));
        let links = LoginLinks::default();
        let stopping = Arc::new(AtomicBool::new(false));
        let upkeep = metrics.clone();
        let parts = WebParts {
            store: orchestrator.store().clone(),
            orchestrator: orchestrator.clone(),
            webhook_secret,
            local_token,
            links: links.clone(),
            metrics: Box::new(move || metrics.render()),
            workers_healthy: working.clone(),
            stopping: stopping.clone(),
            clock: clock.clone(),
            public_url: public_url.clone(),
            web_url: config.github.web_url.clone(),
            slug: slug.clone(),
            environment_limit: config.max_worktrees,
            run_time_limit: config.run_time_limit,
            port: bound.port(),
        };
        let routes = router(WebState { inner: Arc::new(parts) });
        let close = CancellationToken::new();
        let server = tokio::spawn(serve(listener, routes, ServeLimits::of_this_process(), close.clone()));
        let closed = close.clone();
        tokio::spawn(async move {
            let fold = async {
                loop {
                    tokio::time::sleep(METRICS_UPKEEP).await;
                    upkeep.upkeep();
                }
            };
            closed.run_until_cancelled(fold).await
        });
        if config.github.app.as_ref().is_some_and(AppCredentials::has_short_secret) {
            tracing::warn!("the webhook secret is short enough to be guessed; `openssl rand -hex 32` makes a long one");
        }
        let elsewhere = Some(&config.worktree_base).filter(|base| !base.starts_with(&config.home));
        for place in elsewhere.into_iter().chain([&config.home]) {
            if let Some(kind) = short_lived::kind(place) {
                tracing::warn!(
                    path = %place.display(),
                    "this place is on {kind}, so all in it goes with the next start of the machine, or with its container; work \
                     that is not pushed is lost with it"
                );
            }
        }
        tracing::info!(listen = %bound, app.slug = %slug, "Treewarden takes deliveries");

        // What a crash left is looked at after the door is open: GitHub waits ten seconds for an answer, and recovery may ask
        // it a lot.
        if let Err(error) = orchestrator.recover().await {
            close.cancel();
            close_store(server, orchestrator.store()).await;
            return Err(error.into());
        }
        let workers = Workers::start(&orchestrator, working);
        Ok(Self {
            address: bound,
            public_url,
            slug,
            orchestrator,
            links,
            shutdown_limit: SHUTDOWN_LIMIT,
            workers,
            clock,
            stopping,
            close,
            server,
            watch,
            _home: home,
        })
    }

    /// Waits until another service has the database: the connection that held it was lost, and that one came in between.
    /// Nothing is claimed any more.
    pub async fn displaced(&mut self) -> StoreError {
        (&mut self.watch).await.unwrap_or_else(|error| StoreError::Failed(error.to_string()))
    }

    /// A fresh one-time link into the panel, for a browser on this machine.
    pub fn login_link(&self) -> String {
        format!("{}{}", loopback_url(self.address), self.links.issue((self.clock)()))
    }

    /// Stops claiming, lets live runs end, keeps taking deliveries into the inbox meanwhile, then closes the listener and
    /// the database: on SQLite the one file then holds everything, so that a copy of it is a backup.
    /// True when everything came to its end; the rest ends with the process, and is picked up by the next start.
    pub async fn stop(mut self) -> bool {
        self.stopping.store(true, Ordering::Relaxed);
        tracing::info!("stopping: nothing new is claimed, live runs may end");
        let all = self.workers.shut_down(self.shutdown_limit).await;
        self.close.cancel();
        close_store(self.server, self.orchestrator.store()).await;
        if !self.watch.is_finished() {
            self.watch.abort();
            let _ = (&mut self.watch).await;
        }
        tracing::info!(stop.complete = all, "stopped");
        all
    }
}

/// Claims nothing while the database may be another one's, and ends when it is.
async fn keep_alone(mut database: Alone, orchestrator: Orchestrator) -> StoreError {
    loop {
        database.lost().await;
        orchestrator.let_claim(false).await;
        tracing::warn!("the connection that holds the database is lost: nothing is begun until it is held again");
        if let Err(error) = database.take_again().await {
            return error;
        }
        tracing::info!("the database is held again");
        orchestrator.let_claim(true).await;
    }
}

/// What opens the service to whoever speaks on this machine, when that is switched on.
fn door(config: &Config, bound: SocketAddr, token: Option<SecretString>) -> Result<Option<SecretString>, DoorError> {
    match token {
        Some(token) => Ok(Some(Door::open(&config.home, loopback_url(bound), token)?.token)),
        None => Door::close(&config.home).map(|()| None),
    }
}

/// An address that is in use may be so by this very home's service, which is the better thing to know.
fn not_listening(config: &Config, address: String, error: std::io::Error) -> StartError {
    match HomeLock::take(&config.home, &config.worktree_base) {
        Err(taken @ (LockError::Taken(_) | LockError::Shared(_))) => taken.into(),
        Ok(_) | Err(LockError::Unusable { .. }) => StartError::Listen { address, error },
    }
}

/// Once the server, whose listener is being closed, has answered what it was asked.
async fn close_store(server: JoinHandle<()>, store: &Store) {
    if let Err(error) = server.await {
        tracing::error!(%error, "the server ended badly");
    }
    if tokio::time::timeout(CLOSE_LIMIT, store.close()).await.is_err() {
        tracing::warn!("the database was not closed in time; nothing is lost, but its file alone is no backup");
    }
}
