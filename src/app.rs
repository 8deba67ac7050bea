//! The composition root: builds everything from the settings, starts the workers and the server, and stops them gently.
//!
//! No logic of the product lives here; what the command line asks for is in [`commands`].

pub mod commands;
mod connection;
mod credentials;
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
mod secret_key;
mod short_lived;
mod story;

use crate::agent::{self, AgentRunner, CommandRunner, Limits};
use crate::config::{AppCredentials, Config, Deliveries, GithubConfig, HomeError, Sandbox};
use crate::git::{Git, GitError, GitSettings};
use crate::github::{GithubError, Wire};
use crate::isolation::{IsolationError, WorktreeProvider};
use crate::model::Timestamp;
use crate::orchestrator::{Clock, Orchestrator, Parts, SetUp, SetUpParts, Settings, StepError, Workers};
use crate::platform::{GithubPlatform, LocalPlatform, Platforms};
use crate::store::{self, Alone, Disk, Store, StoreError};
use crate::telemetry::{Metrics, Redactor};
use crate::web::{LoginLinks, ServeLimits, WebParts, WebState, loopback_url, router, serve};
use connection::connected;
use credentials::CredentialsError;
use door::{Door, DoorError, fresh_token};
use lock::{HomeLock, LockError};
use look::{Taken, take};
use secrecy::{ExposeSecret, SecretString};
use secret_key::sealer_for_the_first;
use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
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
    /// Only a service can be without one.
    #[error("No GitHub App is connected")]
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
         {error}. Nothing was begun; {meanwhile}. {advice} Then start again.", meanwhile = meanwhile(*began_before),
        advice = error.advice(*stored)
    )]
    Github { error: GithubError, began_before: bool, stored: bool },
    #[error(
        "{0}. Nothing was begun. Bring that key back, or give the service the App's credentials in GITHUB_APP_ID, \
         GITHUB_APP_PRIVATE_KEY_FILE and GITHUB_WEBHOOK_SECRET, which count before what is stored; treewarden disconnect forgets that App. {DOCTOR}"
    )]
    Credentials(CredentialsError),
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
    Isolation(IsolationError),
    Credentials(CredentialsError)
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

/// A running Treewarden.
pub struct Service {
    pub address: SocketAddr,
    pub public_url: String,
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
    /// By which App it works, and how its deliveries come.
    github: GithubConfig,
    taken: Taken,
}

pub fn wall_clock() -> Clock {
    Arc::new(|| Timestamp::new(chrono::Utc::now()))
}

impl Core {
    /// Takes the home, opens and migrates the database, and asks GitHub who we are, where an App is known. `redactor` is taught
    /// what is secret of it.
    pub async fn build(
        config: &Config,
        public_url: &str,
        redactor: &Redactor,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let taken = take(config).await?;
        let patience = config.database_patience.unwrap_or(store::PATIENCE);
        let store = Store::open_with(config.database_url.expose_secret(), patience).await?.starting_in(config.mode);
        match orchestrator(config, &store, public_url, taken.home.node(), clock, redactor.clone()).await {
            Ok((orchestrator, github)) => Ok(Self { orchestrator, github, taken }),
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }
}

/// Refuses where neither the settings nor the database know of an App and there is nothing to do without one. Makes nothing.
async fn demand_app(config: &Config) -> Result<(), StartError> {
    match config.local || credentials::are_there(config).await? {
        true => Ok(()),
        false => Err(StartError::NoApp),
    }
}

/// Built around an open database, with the App it works by.
async fn orchestrator(
    config: &Config,
    store: &Store,
    public_url: &str,
    node: &str,
    clock: Clock,
    redactor: Redactor,
) -> Result<(Orchestrator, GithubConfig), StartError> {
    store.migrate().await?;
    let proxy = config.github.proxy.clone();
    let git = Git::new(GitSettings { proxy, ..GitSettings::new("git", config.home.join("git")) })?;
    git.version().await?;
    let at = credentials::load(config, store, &redactor).await?.github;
    let wire = match &at.app {
        Some(app) => {
            let began_before = store.load_missed_watch(app.app_id).await?.is_some();
            let connection = connected(&at, app, store, clock()).await?;
            let stored = config.github.app.is_none();
            Wire::connected(connection.map_err(|error| StartError::Github { error, began_before, stored })?)
        }
        None => Wire::default(),
    };
    // What waits for an App that is not known (any more) is not given up for that.
    store.hold_github(wire.connection().is_none());
    let platforms = Platforms {
        github: GithubPlatform::new(wire.clone()),
        local: LocalPlatform::new(store.clone(), clock.clone()),
    };
    let agent = config.agent.as_ref().map(|agent| {
        let runner = CommandRunner::new(agent.argv.clone(), agent.env.clone(), redactor.clone());
        Arc::new(runner) as Arc<dyn AgentRunner>
    });
    tokio::spawn(agent::clear_forgotten(agent::homes(&config.home)));
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
        wire,
        agent,
        examine: doctor::examiner(config, store, clock.clone()),
        clock,
        redact: Arc::new(move |text| redactor.redact(text)),
    });
    Ok((orchestrator, at))
}

fn settings(config: &Config, provider: &WorktreeProvider, public_url: &str, node: &str) -> Settings {
    Settings {
        home: config.home.clone(),
        // As git spells it.
        worktree_base: provider.base().to_owned(),
        public_url: public_url.to_owned(),
        web_url: config.github.web_url.clone(),
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
        Self::start_with(config, clock, &Redactor::new(&config.secrets())).await
    }

    /// The same. `redactor` learns what is secret, so that the log does not let it out either.
    pub async fn start_with(config: &Config, clock: Clock, redactor: &Redactor) -> Result<Self, StartError> {
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
        redactor.learn(&token);
        let core = Core::build(config, &public_url, redactor, clock.clone()).await?;
        let Core { orchestrator, github, taken: Taken { home, database } } = core;
        let short_secret = github.app.as_ref().is_some_and(AppCredentials::has_short_secret);
        let are_sent = github.deliveries == Deliveries::Sent;
        let secret = github.app.and_then(|app| app.webhook_secret).filter(|_| are_sent);
        let webhook_secret = Arc::new(secret.map(OnceLock::from).unwrap_or_default());
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
        let set_up = SetUp::new(SetUpParts {
            orchestrator: orchestrator.clone(),
            api_url: config.github.api_url.clone(),
            web_url: config.github.web_url.clone(),
            sealer: {
                let (config, redactor) = (config.clone(), redactor.clone());
                Arc::new(move || {
                    let sealer = sealer_for_the_first(&config).map_err(|error| error.to_string())?;
                    redactor.learn(&secret_key::in_file(&config));
                    Ok(sealer)
                })
            },
            redactor: redactor.clone(),
            webhook_secret: webhook_secret.clone(),
            fetches: credentials::deliveries(config).map(|deliveries| deliveries == Deliveries::Fetched),
        });
        let parts = WebParts {
            store: orchestrator.store().clone(),
            orchestrator: orchestrator.clone(),
            webhook_secret,
            local_token,
            links: links.clone(),
            metrics: Box::new(move || metrics.render()),
            workers_healthy: working.clone(),
            stopping: stopping.clone(),
            set_up,
            clock: clock.clone(),
            public_url: public_url.clone(),
            web_url: config.github.web_url.clone(),
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
        if short_secret {
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
        match orchestrator.is_connected() {
            true => {
                tracing::info!(listen = %bound, app.slug = %orchestrator.identity().slug, "Treewarden takes deliveries");
            }
            false => tracing::info!(listen = %bound, "Treewarden is there; no App is connected"),
        }

        // What a crash left is looked at after the door is open: GitHub waits ten seconds for an answer, and recovery may ask
        // it a lot.
        if let Err(error) = orchestrator.recover().await {
            close.cancel();
            close_store(server, orchestrator.store()).await;
            return Err(error.into());
        }
        orchestrator.look_at_access_at_start().await;
        let workers = Workers::start(&orchestrator, working);
        Ok(Self {
            address: bound,
            public_url,
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

    pub fn is_connected(&self) -> bool {
        self.orchestrator.is_connected()
    }

    /// GitHub sends nothing here: all that it would is fetched.
    pub fn fetches_deliveries(&self) -> bool {
        self.orchestrator.fetches_deliveries()
    }

    /// People write `@<slug>`.
    pub fn slug(&self) -> &str {
        &self.orchestrator.identity().slug
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
