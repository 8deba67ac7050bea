//! States and kinds that the database stores as text. Each enum knows its own spelling; a spelling nobody knows is an
//! error, never a default.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A stored text that is none of the enum's spellings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a known {what}")]
pub struct UnknownState {
    pub what: &'static str,
    pub text: String,
}

macro_rules! text_enums {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant),* }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownState;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(UnknownState { what: stringify!($name), text: text.to_owned() }),
                }
            }
        }
    )*};
}

text_enums! {
    /// Where people talk to the bot.
    PlatformKind { Github = "github", Local = "local", Slack = "slack", Discord = "discord", Telegram = "telegram" }

    /// What kind of thread a conversation is.
    ThreadKind { Issue = "issue", PullRequest = "pull_request" }

    /// Whether a thread is open, as GitHub last told us.
    ThreadState { Open = "open", Closed = "closed", Merged = "merged" }

    /// How a worktree that no row knew was found. `Orphan`: somebody, or a pass, took it in hand.
    AdoptedFrom { Legacy = "legacy", Path = "path", Branch = "branch", Orphan = "orphan" }

    /// What an environment is for.
    WorkKind { Issue = "issue", PullRequest = "pr", Review = "review", Thread = "thread", Task = "task" }

    /// Life of an environment. `Creating` and `Removing` are journal entries: a restart finishes or undoes them.
    EnvironmentState { Creating = "creating", Active = "active", Removing = "removing", Destroyed = "destroyed" }

    /// Life of a run. Everything from `Succeeded` on is final.
    RunState {
        Queued = "queued", Preparing = "preparing", Running = "running", Delivering = "delivering",
        Succeeded = "succeeded", Failed = "failed", Cancelled = "cancelled", TimedOut = "timed_out",
        /// The service died while the agent was at work.
        Interrupted = "interrupted",
    }

    /// Life of a delivery in the inbox.
    InboxState { Received = "received", Claimed = "claimed", Done = "done", Ignored = "ignored", Failed = "failed" }

    /// Life of a row in the outbox.
    OutboxState { Pending = "pending", Sending = "sending", Sent = "sent", Failed = "failed" }

    /// How far the bot goes in a codebase. `Staged`: it only says what it would do. `Off`: it says nothing either.
    CodebaseMode { On = "on", Staged = "staged", Off = "off" }

    /// What GitHub lets the App do in a codebase, and why not more.
    Reach {
        Whole = "reached",
        /// It can be read, and nothing can be written.
        Archived = "archived",
        Suspended = "suspended", Uninstalled = "uninstalled",
        /// The installation does not include it.
        NotSelected = "not_selected",
        Deleted = "deleted",
        /// Another one is called so now, and GitHub has not said what this one is called.
        NameTaken = "name_taken",
        /// It was lost before reasons were written down.
        Lost = "lost",
    }

    /// What GitHub says a person may do on a repository.
    Permission { None = "none", Read = "read", Triage = "triage", Write = "write", Maintain = "maintain", Admin = "admin" }

    /// What made the service look at an environment for removal.
    Trigger {
        ThreadClosed = "thread_closed", Schedule = "schedule", Limit = "limit", Command = "command", Panel = "panel",
        /// Below a check run.
        Button = "button",
        Cli = "cli", Startup = "startup", MadeWay = "made_way",
        /// Its repository takes more of the disk than it should.
        Disk = "disk",
    }

    /// How a check run came out, in GitHub's words.
    Conclusion {
        Success = "success", Failure = "failure", Neutral = "neutral", Cancelled = "cancelled", TimedOut = "timed_out",
    }

    /// What a button below a check run asks for. GitHub brings this spelling back, of at most 20 characters.
    Button { Stop = "stop", Retry = "retry", CleanUp = "clean_up" }
}

impl Reach {
    /// Whether the App can at least look at it.
    pub fn is_connected(self) -> bool {
        match self {
            Reach::Whole | Reach::Archived => true,
            Reach::Suspended
            | Reach::Uninstalled
            | Reach::NotSelected
            | Reach::Deleted
            | Reach::NameTaken
            | Reach::Lost => false,
        }
    }
}

impl RunState {
    /// Nothing will change this run any more.
    pub fn is_final(self) -> bool {
        match self {
            RunState::Queued | RunState::Preparing | RunState::Running | RunState::Delivering => false,
            RunState::Succeeded
            | RunState::Failed
            | RunState::Cancelled
            | RunState::TimedOut
            | RunState::Interrupted => true,
        }
    }
}
