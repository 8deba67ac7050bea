//! Identifiers. Rows are named by UUIDs (version 7, made in Rust, so that they sort by creation time); things on GitHub
//! by its numeric ids, which survive renames.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

macro_rules! row_ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }
    )*};
}

row_ids! {
    /// A row of `codebases`.
    CodebaseId,
    /// A row of `conversations`.
    ConversationId,
    /// A row of `isolation_environments`.
    EnvironmentId,
    /// A row of `runs`.
    RunId,
    /// A row of `sessions`.
    SessionId,
    /// A row of `outbox`.
    OutboxId,
    /// A row of `inbox`; the delivery's own GUID is a separate column.
    InboxId,
    /// A row of `receipts`.
    ReceiptId,
    /// A row of `cleanup_reports`.
    ReportId,
    /// A row of `audit_log`.
    AuditId,
    /// A row of `local_messages`: of the delivery that brought it, or of the outgoing row that it stands for.
    LocalMessageId,
}

macro_rules! github_ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

github_ids! {
    /// GitHub's id of an App installation.
    InstallationId,
    /// GitHub's id of a repository; stays the same through renames and transfers.
    RepositoryId,
    /// GitHub's id of a user or bot account.
    UserId,
    /// GitHub's id of an issue comment, review comment or review.
    CommentId,
    /// GitHub's id of one attempt to deliver a webhook.
    AttemptId,
}

/// The number of an issue or pull request within its repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ThreadNumber(pub i64);

impl fmt::Display for ThreadNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
