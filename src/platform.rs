//! Where people talk to the bot. A platform makes an outbox row true, once, however often it is asked; it decides nothing.

mod github;

pub use github::GithubPlatform;

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

#[async_trait::async_trait]
pub trait Platform: Send + Sync {
    /// Makes `row.outgoing` true and answers with the id of what stands for it (comment, pull request), if any.
    async fn send(&self, codebase: &Codebase, row: &OutboxRow) -> Result<Option<i64>, SendError>;
}
