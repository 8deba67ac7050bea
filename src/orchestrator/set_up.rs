//! Connecting an App while the service runs: what GitHub gives for a code is stored sealed before anything else can fail, then
//! it is asked who we are, for as long as that takes, and from then on everything works as if the App had been there from the
//! start.
//!
//! A crash before the App is stored leaves one on GitHub that nobody has the key of, and this service as it was; after that,
//! the next start finds it.

use super::{Orchestrator, StepError};
use crate::github::{
    Connection, Github, GithubError, GithubSettings,
    manifest::{ConversionCode, NewApp, convert},
};
use crate::model::*;
use crate::reply::set_up as words;
use crate::store::{AppSecrets, Sealer, StoreError, StoredApp};
use crate::telemetry::{Redactor, field::EFFECT};
use secrecy::SecretString;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::sync::Mutex as AsyncMutex;

/// How often a code is tried where GitHub stumbles, and how often what came back is written down where the database does.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause before GitHub is asked again who we are.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Longer than it takes from the button on GitHub to here.
const MAKING: Duration = Duration::from_secs(600);
/// How long the answer to the browser waits for that.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the key that secrets are sealed with, where there is none yet. The error is a sentence.
pub type MakeSealer = Arc<dyn Fn() -> Result<Sealer, String> + Send + Sync>;

/// What the set-up is built from.
pub struct SetUpParts {
    pub orchestrator: Orchestrator,
    pub api_url: String,
    pub web_url: String,
    pub sealer: MakeSealer,
    /// Learns what comes in.
    pub redactor: Redactor,
    /// Opens the door for deliveries.
    pub webhook_secret: Arc<OnceLock<SecretString>>,
    /// Whether deliveries are fetched, where the settings say it; else whoever sets up does.
    pub fetches: Option<bool>,
}

/// A cheap handle; all clones are one.
#[derive(Clone)]
pub struct SetUp {
    inner: Arc<Inner>,
}

struct Inner {
    parts: SetUpParts,
    /// One conversion at a time.
    gate: AsyncMutex<()>,
    waiting: Mutex<Option<Waiting>>,
    /// States whose answer was taken.
    answered: Mutex<HashSet<String>>,
}

/// An App that is stored, of which GitHub has not yet said who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub slug: String,
    /// Why not, when it was asked, and what to do about it.
    pub why: Option<(String, &'static str)>,
}

/// How far a set-up has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No App.
    Open,
    Waiting(Waiting),
    Connected,
}

/// Why an App was not taken. The sentence says what became of it.
#[derive(Debug, thiserror::Error)]
pub enum NotTakenUp {
    /// GitHub was not asked.
    #[error("{}", words::there_already())]
    ThereAlready,
    /// Before anything was asked of GitHub.
    #[error("{}", words::not_ready(.0))]
    NotReady(String),
    /// GitHub was not asked.
    #[error("{}", words::not_kept(.0))]
    NotKept(String),
    #[error("{}", words::not_converted(.0))]
    NotConverted(String),
    #[error("{}", words::not_stored(slug, &error.to_string()))]
    NotStored { slug: String, error: StoreError },
}

impl SetUp {
    pub fn new(parts: SetUpParts) -> Self {
        let inner = Inner { parts, gate: AsyncMutex::default(), waiting: Mutex::default(), answered: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    pub fn stage(&self) -> Stage {
        match (self.orchestrator().is_connected(), &*self.waiting()) {
            (true, _) => Stage::Connected,
            (false, Some(waiting)) => Stage::Waiting(waiting.clone()),
            (false, None) => Stage::Open,
        }
    }

    /// Whether no answer to this state was taken before.
    pub fn is_first_answer(&self, state: &str) -> bool {
        self.inner.answered.lock().unwrap_or_else(PoisonError::into_inner).insert(state.to_owned())
    }

    /// Whether what will come in can be sealed; makes the key.
    pub fn make_ready(&self) -> Result<(), NotTakenUp> {
        (self.inner.parts.sealer)().map(drop).map_err(NotTakenUp::NotReady)
    }

    /// Whether deliveries are to be fetched, where the settings say it.
    pub fn fetches(&self) -> Option<bool> {
        self.inner.parts.fetches
    }

    /// Takes the App of this code, once there is none yet, with the wish that its deliveries be fetched. When this returns, it
    /// is stored, and most likely connected.
    pub async fn take_up(&self, code: ConversionCode, fetches: bool, actor: String) -> Result<(), NotTakenUp> {
        let _gate = self.inner.gate.lock().await;
        let store = self.orchestrator().store();
        let there = async { Ok::<_, StoreError>(self.stage() != Stage::Open || store.load_app().await?.is_some()) };
        match there.await {
            Ok(false) => {}
            Ok(true) => return Err(NotTakenUp::ThereAlready),
            Err(error) => return Err(NotTakenUp::NotKept(error.to_string())),
        }
        let sealer = (self.inner.parts.sealer)().map_err(NotTakenUp::NotKept)?;
        let app = self.converted(&code).await.map_err(|error| NotTakenUp::NotConverted(error.to_string()))?;
        tracing::debug!(target: EFFECT, { app.slug = %app.slug }, "App made on GitHub");
        self.inner.parts.redactor.learn([&app.private_key, &app.webhook_secret, &app.client_secret]);
        self.stored(&app, fetches, &sealer).await?;
        tracing::info!(target: EFFECT, { app.slug = %app.slug }, "App stored");
        *self.waiting() = Some(Waiting { slug: app.slug.clone(), why: None });
        let (this, stopping) = (self.clone(), self.orchestrator().inner.stopping.clone());
        let connecting =
            tokio::spawn(async move { stopping.run_until_cancelled(this.connect(app, fetches, actor)).await });
        // Until then there is a page that says what is waited for.
        let _ = tokio::time::timeout(PATIENCE, connecting).await;
        Ok(())
    }

    /// A code is used up by success only: after an answer that was lost, GitHub knows it no more.
    async fn converted(&self, code: &ConversionCode) -> Result<NewApp, GithubError> {
        let mut tried = 1;
        loop {
            match convert(&self.inner.parts.api_url, code).await {
                Err(GithubError::Server { .. } | GithubError::Unreachable(_)) if tried < TRIES => {
                    tokio::time::sleep(PAUSE * 2u32.pow(tried - 1)).await;
                    tried += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// With the moment from which on nothing that is said to this App is missed: what came while it was made met a closed door.
    async fn stored(&self, app: &NewApp, fetches: bool, sealer: &Sealer) -> Result<(), NotTakenUp> {
        let (store, now) = (self.orchestrator().store(), self.orchestrator().now());
        let secrets = AppSecrets {
            private_key: app.private_key.clone(),
            webhook_secret: app.webhook_secret.clone(),
            client_secret: app.client_secret.clone(),
        };
        let sealed = StoredApp::seal(app.app_id, &app.slug, &app.client_id, &secrets, sealer).fetching(fetches);
        let mut tried = 1;
        loop {
            let written = async {
                self.orchestrator().watch_from(app.app_id, now.minus(MAKING), now).await?;
                store.save_app(&sealed, now).await
            };
            match written.await {
                Ok(true) => return Ok(()),
                // The answer to an earlier try was lost.
                Ok(false) if tried > 1 && store.load_app().await.ok().flatten().as_ref() == Some(&sealed) => {
                    return Ok(());
                }
                Ok(false) => return Err(NotTakenUp::ThereAlready),
                Err(error) if error.is_transient() && tried < TRIES => {
                    tokio::time::sleep(PAUSE * 2u32.pow(tried - 1)).await;
                    tried += 1;
                }
                Err(error) => return Err(NotTakenUp::NotStored { slug: app.slug.clone(), error }),
            }
        }
    }

    /// Until GitHub has said who we are.
    async fn connect(&self, app: NewApp, fetches: bool, actor: String) {
        let mut pause = PAUSE;
        while let Err(error) = self.connected(&app, fetches, &actor).await {
            let advice = match &error {
                StepError::Github(error) => error.advice(true),
                _ => "The service's log says more.",
            };
            let why = Some((error.to_string(), advice));
            let first = self.waiting().replace(Waiting { slug: app.slug.clone(), why });
            if first.is_none_or(|waiting| waiting.why.is_none()) {
                tracing::warn!(app.slug = %app.slug, %error, "the App is stored, and not connected yet; it is tried again and again");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn connected(&self, app: &NewApp, fetches: bool, actor: &str) -> Result<(), StepError> {
        let SetUpParts { orchestrator, api_url, web_url, webhook_secret, .. } = &self.inner.parts;
        let github = Github::new(&GithubSettings {
            app_id: app.app_id,
            private_key_pem: app.private_key.clone(),
            api_url: api_url.clone(),
            web_url: web_url.clone(),
            timeout: None,
        })?;
        let identity = github.app().await?;
        orchestrator.store().remember_identity(&identity, orchestrator.now()).await?;
        let fetches = self.fetches().unwrap_or(fetches);
        orchestrator.connect(Connection { github, identity, fetches }, actor).await;
        // The door is opened last: who comes in is met by the App it speaks to.
        if !fetches {
            let _ = webhook_secret.set(app.webhook_secret.clone());
        }
        Ok(())
    }

    fn orchestrator(&self) -> &Orchestrator {
        &self.inner.parts.orchestrator
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Orchestrator {
    /// From here on everything goes by this App.
    async fn connect(&self, connection: Connection, actor: &str) {
        let identity = connection.identity.clone();
        if !self.parts().wire.connect(connection) {
            return;
        }
        tracing::info!(target: EFFECT, { app.slug = %identity.slug }, "App connected");
        self.audit(actor, "app.connected", &identity.slug, &format!("App number {}", identity.app_id)).await;
        self.store().hold_github(false);
        let wake = &self.inner.wake;
        for bell in [&wake.connected, &wake.deliveries, &wake.stops, &wake.runs, &wake.outgoing] {
            bell.notify_one();
        }
    }

    /// Nothing from before `since` is ever asked for, unless an earlier moment was written down.
    pub(super) async fn watch_from(&self, app: u64, since: Timestamp, now: Timestamp) -> Result<(), StoreError> {
        match self.store().load_missed_watch(app).await? {
            Some(_) => Ok(()),
            // GitHub tells times to the second.
            None => {
                let since = Timestamp::from_unix(since.unix());
                self.store().save_missed_watch(app, &MissedWatch::from(since), now).await
            }
        }
    }
}
