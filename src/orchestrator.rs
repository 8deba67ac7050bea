//! The shell around the pure core: it gathers facts, asks `decide`, and applies what was decided.
//!
//! No policy lives here, and no SQL, git process, GitHub call or sentence for people: those have rooms of their own.
//! This is the only room that creates, reuses or removes environments; pages, commands and the command line call its
//! verbs. Every effect can be repeated: after a crash the same rows are claimed again and lead to the same end.
//!
//! Reading order: [`arrive`] (a delivery comes into the inbox), [`intake`] (a delivery becomes a run or an answer), [`buttons`] (so does a press), [`runs`] (a run from queue to delivery), [`mode`] (how far the bot goes in a repository), [`prepare`]
//! (isolation, under the repository's own settings: [`repo_settings`]; a fork's commit only once it is approved: [`approve`]), [`follow`] (taking new commits in), [`deliver`] (commit, push, pull request), [`host`] (whom a repository is asked about), [`scan`] (one look at all environments), [`sweep`] (removal), [`proofs`] (what is merged), [`links`], [`set_up`] (an App that is connected while the service runs), [`memory`] (what agents remember), [`outbox`] (sending), [`recover`] (after a
//! crash), [`disk`] (what is measured and reclaimed), [`doctor`] (what a thread is told of the service), [`missed`] (deliveries that never came in), [`backoff`] (what fails each time),
//! [`maintenance`] (upkeep of repositories), [`retention`] (the end of old rows and logs), [`workers`] (the loops).

mod access;
mod approve;
mod arrive;
mod assign;
mod background;
mod backoff;
mod buttons;
mod census;
mod commands;
mod comparisons;
mod create;
mod deliver;
mod disk;
mod doctor;
mod floods;
mod follow;
mod gather;
mod host;
mod intake;
mod lanes;
mod lease;
mod links;
mod local;
mod looks;
mod maintenance;
mod memory;
mod mend;
mod missed;
mod mode;
mod moved;
mod offline;
mod outbox;
mod pace;
mod permission;
mod prepare;
mod proofs;
mod recover;
mod repo_settings;
pub mod restore;
mod retention;
mod retry;
mod runs;
mod scan;
mod set_up;
mod status;
mod steady;
pub mod sweep;
mod thread_events;
pub mod unheard;
mod workers;

pub use arrive::NotArrived;
pub use local::NotTaken;
pub use missed::Looked;
pub use set_up::{MakeSealer, NotTakenUp, SetUp, SetUpParts, Stage, Waiting};
pub use workers::Workers;

use crate::agent::{AgentRunner, Limits};
use crate::decide::authority::Authority;
use crate::git::{Git, GitError};
use crate::github::{AppIdentity, Github, GithubError, Wire};
use crate::isolation::Provider;
use crate::model::*;
use crate::platform::Platform;
use crate::reply::{agent_text, places::Places};
use crate::store::{InboxWriter, NewOutgoing, Store, StoreError};
use crate::telemetry::field::EFFECT;
use futures::future::BoxFuture;
use std::{collections::HashMap, fmt::Display, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What the orchestrator is told once, at start.
#[derive(Clone)]
pub struct Settings {
    /// `<home>`: repositories, agents' homes and run logs live below it.
    pub home: PathBuf,
    /// Where worktrees are made.
    pub worktree_base: PathBuf,
    /// How people reach the panel, without a trailing slash.
    pub public_url: String,
    /// GitHub's pages, without a trailing slash.
    pub web_url: String,
    pub environment_limit: u32,
    /// Who may ask for what.
    pub authority: Authority,
    /// Work may start from what the last fetch brought while the git server cannot be reached.
    pub offline_create: bool,
    pub run_limit: u32,
    pub stale_after: Duration,
    /// For how long removed work can be brought back.
    pub trash_for: Duration,
    pub sweep_interval: Duration,
    /// For how long logs of runs, and rows that are over, are kept.
    pub retain_for: Duration,
    /// How much of the disk one codebase may take.
    pub disk_marks: DiskMarks,
    /// Idle for so long, an environment gives up its caches; absent: none does.
    pub reclaim_after: Option<Duration>,
    pub agent_limits: Limits,
    /// Names this installation in leases; stays the same over restarts on the same home.
    pub node: String,
    /// How long a claim holds without a heartbeat.
    pub lease: Duration,
    pub pacing: Pacing,
}

/// The wall clock, passed in.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Looks at everything that has to be right, unless that was done just now.
pub type Examine = Arc<dyn Fn() -> BoxFuture<'static, Examination> + Send + Sync>;

/// Takes known secrets and token shapes out of a text before it leaves.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The orchestrator. A cheap handle; all clones are one.
#[derive(Clone)]
pub struct Orchestrator {
    inner: Arc<Inner>,
}

/// Everything an [`Orchestrator`] is built from.
pub struct Parts {
    pub settings: Settings,
    pub store: Store,
    /// What writes to the inbox.
    pub inbox: InboxWriter,
    pub git: Git,
    pub wire: Wire,
    pub platform: Arc<dyn Platform>,
    pub provider: Arc<dyn Provider>,
    /// Absent: every run fails with a sentence that says how to configure one.
    pub agent: Option<Arc<dyn AgentRunner>>,
    pub clock: Clock,
    pub redact: Redact,
    pub examine: Examine,
}

struct Inner {
    parts: Parts,
    /// What no thread is told by its path.
    places: Places,
    wake: Wake,
    /// Deliveries and runs that were claimed, and what their ends bring with them: the service ends after them.
    work: TaskTracker,
    /// Cancelled when the service stops: nothing that may wait is begun from then on.
    stopping: CancellationToken,
    permissions: permission::PermissionCache,
    floods: floods::Floods,
    pace: pace::Pace,
    censuses: census::Censuses,
    backoffs: backoff::Backoffs,
    comparisons: comparisons::Comparisons,
    looks: looks::Looks,
    last_looks: sweep::LastLooks,
    /// Since the process began.
    steady: steady::Steady,
    disk: disk::DiskWatch,
    lanes: lanes::Lanes,
    leases: lease::Leases,
    runs_at_work: lease::AtWork<Run>,
    deliveries_at_work: lease::AtWork<Delivery>,
    outgoing_at_work: lease::AtWork<OutboxRow>,
    /// Whether anything may be claimed. Claims are made under its reading half, and taken back under its writing half.
    claiming: tokio::sync::RwLock<bool>,
    /// What the comments of the runs in the queue were last told.
    places_told: tokio::sync::Mutex<HashMap<RunId, u32>>,
    /// One reading of a settings file at a time.
    repo_settings: tokio::sync::Mutex<()>,
    /// One look for missed deliveries at a time, each with what those before it read.
    missed: tokio::sync::Mutex<missed::Watched>,
}

/// Bells between the loops: ringing one early only makes its loop look once more.
#[derive(Default)]
struct Wake {
    deliveries: Notify,
    stops: Notify,
    runs: Notify,
    outgoing: Notify,
    heard: Notify,
    sent: Notify,
    cancelled: Notify,
    connected: Notify,
}

impl Wake {
    /// Whoever sends in this lane.
    fn sender(&self, lane: Lane) -> &Notify {
        match lane {
            Lane::Heard => &self.heard,
            Lane::Content => &self.outgoing,
        }
    }
}

impl Orchestrator {
    pub fn new(parts: Parts) -> Self {
        let inner = Inner {
            places: places(&parts.settings),
            parts,
            wake: Wake::default(),
            work: TaskTracker::new(),
            stopping: CancellationToken::new(),
            permissions: permission::PermissionCache::default(),
            floods: floods::Floods::default(),
            pace: pace::Pace::default(),
            censuses: census::Censuses::default(),
            backoffs: backoff::Backoffs::default(),
            comparisons: comparisons::Comparisons::default(),
            looks: looks::Looks::default(),
            last_looks: sweep::LastLooks::default(),
            steady: steady::Steady::begin(),
            disk: disk::DiskWatch::default(),
            lanes: lanes::Lanes::default(),
            leases: lease::Leases::default(),
            runs_at_work: lease::AtWork::default(),
            deliveries_at_work: lease::AtWork::default(),
            outgoing_at_work: lease::AtWork::default(),
            claiming: tokio::sync::RwLock::new(true),
            places_told: tokio::sync::Mutex::default(),
            repo_settings: tokio::sync::Mutex::default(),
            missed: tokio::sync::Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether anything is claimed from here on, or taken back. What is at work goes on.
    pub async fn let_claim(&self, may: bool) {
        *self.inner.claiming.write().await = may;
    }

    /// Held while something is claimed; absent when nothing may be.
    async fn claiming(&self) -> Option<tokio::sync::RwLockReadGuard<'_, bool>> {
        Some(self.inner.claiming.read().await).filter(|may| **may)
    }

    /// Whether anything is claimed just now, as far as that can be seen in so long.
    pub async fn may_claim(&self, patience: std::time::Duration) -> bool {
        tokio::time::timeout(patience, self.inner.claiming.read()).await.is_ok_and(|may| *may)
    }

    pub fn store(&self) -> &Store {
        &self.inner.parts.store
    }

    /// Whether the git program can be run.
    pub async fn git_answers(&self) -> bool {
        self.parts().git.version().await.is_ok()
    }

    /// What is right and what is not, as it was looked at within the last minute.
    pub async fn examine(&self) -> Examination {
        (self.parts().examine)().await
    }

    /// Tells the intake loops that something new lies in the inbox; `out_of_turn`: a request to stop.
    pub fn delivery_arrived(&self, out_of_turn: bool) {
        if out_of_turn {
            self.inner.wake.stops.notify_one();
        }
        self.inner.wake.deliveries.notify_one();
    }

    /// The App that is connected; where none is, whoever works in its place.
    pub fn identity(&self) -> &AppIdentity {
        self.parts().wire.identity()
    }

    pub fn is_connected(&self) -> bool {
        self.github().is_some()
    }

    /// GitHub sends nothing here: all that it would is fetched.
    pub fn fetches_deliveries(&self) -> bool {
        self.parts().wire.connection().is_some_and(|connection| connection.fetches)
    }

    fn github(&self) -> Option<&Github> {
        self.parts().wire.github()
    }

    fn parts(&self) -> &Parts {
        &self.inner.parts
    }

    fn settings(&self) -> &Settings {
        &self.inner.parts.settings
    }

    fn node(&self) -> &str {
        &self.settings().node
    }

    fn now(&self) -> Timestamp {
        (self.inner.parts.clock)()
    }

    /// The time by which something is old enough to go: a clock that was set ahead makes nothing older, where GitHub's tells it
    /// from time that has passed, or this process has seen it.
    fn now_at_least(&self) -> Timestamp {
        let now = self.now();
        match self.github() {
            Some(github) => now.min(github.by_its_clock(now)),
            None => now.minus(self.inner.steady.jumped()),
        }
    }

    /// Writes down what is to be said, with secrets taken out; the outbox loop sends it.
    async fn say(
        &self,
        key: String,
        codebase: CodebaseId,
        conversation: Option<ConversationId>,
        outgoing: Outgoing,
    ) -> Result<(), StoreError> {
        self.ask_to_send(self.new_outgoing(key, codebase, conversation, outgoing)).await
    }

    fn new_outgoing(
        &self,
        key: String,
        codebase: CodebaseId,
        conversation: Option<ConversationId>,
        outgoing: Outgoing,
    ) -> NewOutgoing {
        let (turn, outgoing) = (Turn::from(&outgoing), self.redacted(outgoing));
        NewOutgoing { key, codebase, conversation, outgoing, turn, not_before: self.now() }
    }

    async fn ask_to_send(&self, new: NewOutgoing) -> Result<(), StoreError> {
        tracing::debug!(target: EFFECT, { outbox.key = %new.key }, "write down what is to be said");
        let lane = Lane::from(new.turn);
        self.store().enqueue(new, self.now()).await?;
        self.inner.wake.sender(lane).notify_one();
        Ok(())
    }

    /// All of it or nothing.
    async fn ask_to_send_all(&self, all: &[NewOutgoing]) -> Result<(), StoreError> {
        if let [new] = all {
            return self.ask_to_send(new.clone()).await;
        }
        for new in all {
            tracing::debug!(target: EFFECT, { outbox.key = %new.key }, "write down what is to be said");
        }
        self.store().enqueue_all(all, self.now()).await?;
        all.iter().for_each(|new| self.inner.wake.sender(Lane::from(new.turn)).notify_one());
        Ok(())
    }

    /// As it leaves: without secrets, without the server's own directories, with nothing in it that turns text around, and not
    /// longer than GitHub takes.
    fn redacted(&self, outgoing: Outgoing) -> Outgoing {
        let clean = |text: &str| self.cleaned(text);
        match outgoing {
            Outgoing::Comment { number, body, marker } => {
                Outgoing::Comment { number, body: agent_text::whole_comment(&clean(&body), &marker), marker }
            }
            Outgoing::PullRequest { head, base, title, body, draft } => {
                Outgoing::PullRequest { head, base, title: clean(&title), body: clean(&body), draft }
            }
            Outgoing::CheckRun(CheckRun { head, run, conclusion, title, summary, details_url, actions }) => {
                let (title, summary) = (clean(&title), agent_text::whole_summary(&clean(&summary)));
                Outgoing::CheckRun(CheckRun { head, run, conclusion, title, summary, details_url, actions })
            }
            Outgoing::Message { body } => Outgoing::Message { body: agent_text::whole_comment(&clean(&body), "") },
            Outgoing::React { .. } => outgoing,
        }
    }

    fn cleaned(&self, text: &str) -> String {
        written_out(&self.redact(&self.inner.places.hide(text)), LINES)
    }

    /// [`audit`](Self::audit) about something within a codebase: a thread (`octo/hello#42`) or an environment
    /// (`octo/hello#issue-42`).
    async fn audit_within(&self, codebase: CodebaseId, what: impl Display, actor: &str, action: &str, detail: &str) {
        let name = match self.store().load_codebase(codebase).await {
            Ok(codebase) => codebase.map(|codebase| codebase.name.to_string()).unwrap_or_default(),
            Err(error) => {
                tracing::warn!(audit.action = action, %error, "the audit entry lacks its repository");
                String::new()
            }
        };
        self.audit(actor, action, &format!("{name}#{what}"), detail).await;
    }

    /// The text without known secrets and tokens.
    pub fn redact(&self, text: &str) -> String {
        (self.parts().redact)(text)
    }

    /// An entry of the audit log; a failure to write one is logged and stops nothing.
    async fn audit(&self, actor: &str, action: &str, subject: &str, detail: &str) {
        if let Err(error) = self.store().append_audit(actor, action, subject, detail, self.now()).await {
            tracing::error!(audit.action = action, error = %error, "audit entry not written");
        }
    }
}

/// As they are given, and as git and the file system name them behind links.
fn places(settings: &Settings) -> Places {
    let known = [(&settings.worktree_base, "worktrees"), (&settings.home, "home")];
    let real = known.iter().filter_map(|(path, word)| path.canonicalize().ok().map(|path| (path, *word)));
    Places::new(known.iter().map(|(path, word)| ((*path).clone(), *word)).chain(real))
}

/// Why a step could not be carried out. The sentence is fit for people.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Github(#[from] GithubError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Isolation(#[from] crate::isolation::IsolationError),
    #[error(transparent)]
    Agent(#[from] crate::agent::AgentError),
    /// GitHub did not say what the person may do, which is no answer either way.
    #[error("whether `{login}` may ask for this is not known: {error}")]
    PermissionUnknown { login: String, error: GithubError },
    /// A decision not to go on, already worded.
    #[error("{0}")]
    Refused(String),
    /// The environment is taken by another run: wait for it.
    #[error("another run is at work in the same worktree")]
    Occupied(EnvironmentId),
    /// It had not begun.
    #[error("the service is stopping")]
    Stopping,
    #[error("somebody asked to stop")]
    Stopped,
    /// A mistake in this program. Steps can be repeated, so that nothing is lost.
    #[error("something went wrong inside Treewarden; its log has the details")]
    Panicked,
    /// The lease was lost to another worker; whatever this one did is repeated there.
    #[error("the lease on this run was lost")]
    LeaseLost,
}

impl StepError {
    /// How long GitHub asked to wait, where that is why.
    fn wait_asked_for(&self) -> Option<Duration> {
        let StepError::Github(error) = self else { return None };
        error.retry_after()
    }

    /// An error that is only a cause becomes a message for people.
    fn worded(self, words: fn(&str) -> String) -> Self {
        match self {
            StepError::Store(_)
            | StepError::Github(_)
            | StepError::Git(_)
            | StepError::Isolation(_)
            | StepError::Agent(_)
            | StepError::PermissionUnknown { .. }
            | StepError::Panicked => StepError::Refused(words(self.to_string().trim_end_matches('.'))),
            StepError::Refused(_)
            | StepError::Occupied(_)
            | StepError::Stopping
            | StepError::Stopped
            | StepError::LeaseLost => self,
        }
    }
}
