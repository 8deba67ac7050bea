//! The only agent processes: what an agent is asked ([`prompt`]), how its process is started and ended ([`process`]),
//! and what is kept of what it said.
//!
//! An agent is not trusted. It gets no token, no key, no database, and only named environment variables; nothing it
//! prints is believed, run, or unlimited. What may not live here: git, the database, GitHub, and any decision about what
//! happens to its work. Runners that speak a protocol, and the sandbox, join [`AgentRunner`] and [`process`].

mod command;
pub mod process;
pub mod prompt;
mod transcript;

pub use command::{CommandRunner, FALLBACK_PATH};

use crate::model::{AgentProcess, BranchName, RepoName, RunId, ThreadNumber};
use async_trait::async_trait;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Gives one turn to an agent.
#[async_trait]
pub trait AgentRunner: Send + Sync {
    /// Runs the agent until it ends, `cancel` fires, or its time is over; afterwards none of its processes is left that
    /// could be found. Dropping the future kills them too. An error means that no agent was at work.
    async fn run(
        &self,
        spec: TurnSpec,
        events: mpsc::Sender<AgentEvent>,
        cancel: CancellationToken,
    ) -> Result<TurnEnd, AgentError>;
}

/// One turn.
#[derive(Clone, Debug)]
pub struct TurnSpec {
    pub run: RunId,
    /// The worktree.
    pub cwd: PathBuf,
    /// The agent's `HOME`: what it keeps between turns of one conversation. Made when missing.
    pub state_dir: PathBuf,
    /// Known secrets and common tokens are taken out of it.
    pub prompt: String,
    /// Environment variables unless the settings name them, too, as [`name_env`] makes them.
    pub defaults: Vec<(String, String)>,
    /// Further environment variables, as [`work_env`] makes them.
    pub env: Vec<(String, String)>,
    pub limits: Limits,
    /// Where its output is written; appended to, made when missing. The agent reads its prompt from
    /// the file beside it (`.prompt`).
    pub log: PathBuf,
}

/// What one turn may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub wall: Duration,
    /// How much of its output the log keeps, head and tail; the agent may print more.
    pub output_bytes: u64,
    /// Between the request to end and the kill.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { wall: Duration::from_secs(60 * 60), output_bytes: 8 * 1024 * 1024, grace: Duration::from_secs(5) }
    }
}

/// Something to tell about a turn while it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// First of all: what to end after a crash of the service.
    Started(AgentProcess),
    /// The agent says what it is doing. Dropped when the receiver lags behind.
    Status(String),
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    pub outcome: Outcome,
    /// What the agent answered (Markdown, untrusted, limited); may be empty with any outcome.
    pub answer: String,
    /// Absent when a signal ended it.
    pub exit: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Why, in words for people.
    Failed(String),
    Cancelled,
    TimedOut,
}

/// Why there was no turn.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the agent's program {program:?} was not found; check TREEWARDEN_AGENT_COMMAND and PATH")]
    NotFound { program: String },
    #[error("the agent's program {program:?} could not be started: {error}")]
    NotStarted { program: String, error: io::Error },
    #[error("the worktree {} is not there", path.display())]
    NoWorktree { path: PathBuf },
    #[error("{} could not be prepared for the agent: {error}", path.display())]
    NotPrepared { path: PathBuf, error: io::Error },
    #[error("{} could not be set aside: {error}", path.display())]
    NotForgotten { path: PathBuf, error: io::Error },
    #[error("the agent's process was lost sight of: {0}")]
    Lost(io::Error),
}

/// Where the homes of all agents are, by conversation.
pub fn homes(home: &Path) -> PathBuf {
    home.join("agents")
}

/// Takes away what an agent kept in its `HOME`: moved aside at once, so that a next turn finds nothing of it, and deleted
/// in the background. What cannot be deleted stays aside until [`clear_forgotten`].
pub async fn forget(state_dir: &Path) -> Result<(), AgentError> {
    let aside = state_dir.with_extension(format!("{FORGOTTEN}{}", uuid::Uuid::now_v7()));
    match fs::rename(state_dir, &aside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(AgentError::NotForgotten { path: state_dir.to_owned(), error }),
    }
    tokio::task::spawn_blocking(move || delete(&aside));
    Ok(())
}

/// Deletes what [`forget`] had set aside when a crash cut it short, in the directory that all agents' homes are in. Meant
/// for the start of the service.
pub async fn clear_forgotten(homes: PathBuf) {
    let cleared = tokio::task::spawn_blocking(move || {
        let Ok(entries) = fs::read_dir(homes) else { return };
        entries.flatten().map(|entry| entry.path()).filter(|path| is_forgotten(path)).for_each(|path| delete(&path));
    });
    if let Err(error) = cleared.await {
        tracing::warn!(%error, "what agents were to forget is not deleted; the next start tries again");
    }
}

/// What is put behind a home's name, with an id, when it is set aside.
const FORGOTTEN: &str = "forgotten-";

fn is_forgotten(path: &Path) -> bool {
    let id = path.extension().and_then(|extension| extension.to_str()?.strip_prefix(FORGOTTEN));
    id.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok()) && path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

fn delete(aside: &Path) {
    if let Err(error) = fs::remove_dir_all(aside) {
        tracing::warn!(path = %aside.display(), %error, "an agent's memory was set aside and not deleted");
    }
}

/// In whose name git commits for the agent: without one it commits and merges nothing where the machine has no full name.
pub fn name_env(name: &str, email: &str) -> Vec<(String, String)> {
    let of = |who: &str| [(format!("GIT_{who}_NAME"), name.to_owned()), (format!("GIT_{who}_EMAIL"), email.to_owned())];
    ["AUTHOR", "COMMITTER"].iter().flat_map(|who| of(who)).collect()
}

/// The variables that tell an agent what it works on.
pub fn work_env(
    repository: &RepoName,
    thread: Option<ThreadNumber>,
    branch: &BranchName,
    base: Option<&BranchName>,
) -> Vec<(String, String)> {
    let mut env = vec![
        ("TREEWARDEN_REPO".to_owned(), repository.to_string()),
        ("TREEWARDEN_BRANCH".to_owned(), branch.to_string()),
    ];
    env.extend(thread.map(|number| ("TREEWARDEN_ISSUE".to_owned(), number.to_string())));
    env.extend(base.map(|base| ("TREEWARDEN_BASE".to_owned(), base.to_string())));
    env
}
