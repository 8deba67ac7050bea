//! HTTP: the webhook, health and metrics, and the panel. Handlers check, ask the store or call a verb of the orchestrator,
//! and show the outcome; they decide nothing about environments.
//!
//! What may not live here: SQL, git, GitHub calls, policy. [`mod@router`] lists every route in one table.
//!
//! Reading order: [`mod@serve`] (connections), [`mod@router`], [`webhook`] (what GitHub sends), [`local`] (what is said on this machine), [`guard`] and [`session`] (who gets in), [`pages`] (what
//! people see), [`verbs`] (what they may do), [`view`] (rows as people read them).

mod assets;
mod body;
mod error;
mod flash;
mod guard;
mod health;
mod local;
mod login;
mod pages;
mod router;
mod serve;
mod session;
mod verbs;
mod view;
mod webhook;

pub use guard::loopback_url;
pub use login::LoginLinks;
pub use router::router;
pub use serve::{ServeLimits, serve};

use crate::model::Timestamp;
use crate::orchestrator::{Orchestrator, SetUp};
use crate::store::Store;
use secrecy::SecretString;
use std::sync::{Arc, OnceLock, atomic::AtomicBool};

/// Everything handlers need. A cheap handle.
#[derive(Clone)]
pub struct WebState {
    pub inner: Arc<WebParts>,
}

pub struct WebParts {
    pub store: Store,
    pub orchestrator: Orchestrator,
    /// Empty until an App is connected: nobody delivers.
    pub webhook_secret: Arc<OnceLock<SecretString>>,
    /// What opens `/local/messages`; absent: they are switched off.
    pub local_token: Option<SecretString>,
    pub links: LoginLinks,
    /// Prometheus text.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// The workers get through to the database.
    pub workers_healthy: Arc<AtomicBool>,
    /// Set when the process is asked to stop: `/readyz` then says so.
    pub stopping: Arc<AtomicBool>,
    pub set_up: SetUp,
    pub clock: crate::orchestrator::Clock,
    /// How browsers reach the panel, without a trailing slash.
    pub public_url: String,
    /// GitHub's pages, without a trailing slash.
    pub web_url: String,
    pub environment_limit: u32,
    pub run_time_limit: std::time::Duration,
    /// Where this machine listens, as the sign-in page tells it.
    pub port: u16,
}

impl WebState {
    fn now(&self) -> Timestamp {
        (self.inner.clock)()
    }

    /// A text from outside (of git, GitHub, an agent, a person) as a page may show it: without secrets, and without what makes
    /// it read as what it does not say. Every such text passes here.
    fn shown(&self, text: &str) -> String {
        view::straight(&self.inner.orchestrator.redact(text))
    }

    /// The same for a sentence of ours that may quote one.
    fn prose(&self, text: &str) -> view::Prose {
        view::Prose::of_shown(&self.shown(text))
    }

    /// Where a full stop of the page follows.
    fn sentence(&self, text: &str) -> view::Prose {
        self.prose(text.trim_end().trim_end_matches('.'))
    }
}
