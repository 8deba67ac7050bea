//! Where people talk to the bot. A platform makes an outbox row true, once, however often it is asked; it decides nothing.

mod github;
pub mod local;

pub use github::GithubPlatform;
pub use local::LocalPlatform;

use crate::model::*;
use std::time::Duration;

/// Why a row could not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Worth another try, not before `after` when there is a time to wait for.
    #[error("{why}")]
    Retry { after: Option<Duration>, why: String },
    /// The platform wants nothing more of this installation before `after`, whatever it is.
    #[error("{why}")]
    Limited { after: Duration, why: String },
    /// Trying again cannot help.
    #[error("{0}")]
    Permanent(String),
}

/// All platforms there are: each row goes to the one it is for.
pub struct Platforms {
    pub github: GithubPlatform,
    pub local: LocalPlatform,
}

#[async_trait::async_trait]
impl Platform for Platforms {
    async fn send(&self, codebase: &Codebase, row: &OutboxRow) -> Result<Option<i64>, SendError> {
        match &row.outgoing {
            Outgoing::Message { .. } => self.local.send(codebase, row).await,
            Outgoing::React { .. }
            | Outgoing::Comment { .. }
            | Outgoing::PullRequest { .. }
            | Outgoing::CheckRun(_) => self.github.send(codebase, row).await,
        }
    }
}

#[async_trait::async_trait]
pub trait Platform: Send + Sync {
    /// Makes `row.outgoing` true and answers with the id of what stands for it (comment, check run, pull request), if any.
    async fn send(&self, codebase: &Codebase, row: &OutboxRow) -> Result<Option<i64>, SendError>;
}
