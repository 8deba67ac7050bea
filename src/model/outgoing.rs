//! What is to be said on a platform, as rows of the outbox hold it.

use super::*;
use serde::{Deserialize, Serialize};

/// Something to be made true on a platform. Rows hold the wanted state, so sending twice changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outgoing {
    /// Add a reaction (`eyes`, `confused`, …) to a message.
    React { number: ThreadNumber, source: MessageSource, content: String },
    /// One comment that exists once and has this body. The body already carries `marker` (hidden).
    Comment { number: ThreadNumber, body: String, marker: String },
    /// A message in a thread that is no issue or pull request: the one the row's conversation is.
    Message { body: String },
    /// An open pull request from `head` into `base` exists.
    PullRequest { head: BranchName, base: BranchName, title: String, body: String, draft: bool },
    /// One check run of a run exists on a commit, and says this.
    CheckRun(CheckRun),
}

/// What stands beside a commit of a pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    pub head: CommitSha,
    /// GitHub keeps it as the check run's own id of ours.
    pub run: RunId,
    /// Absent while the run is live.
    pub conclusion: Option<Conclusion>,
    /// One line, without Markdown.
    pub title: String,
    /// Markdown.
    pub summary: String,
    /// The run's page in the panel.
    pub details_url: String,
    /// At most three.
    pub actions: Vec<CheckAction>,
}

/// A button below a check run, which GitHub shows once it is completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAction {
    pub button: Button,
    /// At most 20 characters.
    pub label: String,
    /// At most 40 characters.
    pub description: String,
}

impl Outgoing {
    /// What is said in a conversation. The body already carries `marker`, which nobody needs who keeps messages by their id.
    pub fn text(conversation: &Conversation, body: String, marker: String) -> Self {
        match conversation.thread {
            ThreadId::Numbered { number, .. } => Outgoing::Comment { number, body, marker },
            ThreadId::Named(_) => {
                let text = body.trim_end();
                Outgoing::Message { body: text.strip_suffix(&marker).unwrap_or(text).trim_end().to_owned() }
            }
        }
    }
}

/// Which of the rows that are due is sent first; the order in which they were wanted comes second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Tells people that they were heard.
    Heard = 0,
    /// Somebody waits for it: an answer, a pull request, how a run ended.
    Result = 1,
    /// Says that something waits or is worked on.
    Progress = 2,
}

/// Who sends. Each installation has one sender in each lane, so that nobody waits to be heard for a request that hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Only what tells people that they were heard.
    Heard,
    /// Everything else.
    Content,
}

impl From<Turn> for Lane {
    fn from(turn: Turn) -> Self {
        match turn {
            Turn::Heard => Lane::Heard,
            Turn::Result | Turn::Progress => Lane::Content,
        }
    }
}

impl From<&Outgoing> for Turn {
    /// Where the text is not known to be about something that goes on.
    fn from(outgoing: &Outgoing) -> Self {
        match outgoing {
            Outgoing::React { .. } => Turn::Heard,
            Outgoing::Comment { .. } | Outgoing::Message { .. } | Outgoing::PullRequest { .. } => Turn::Result,
            Outgoing::CheckRun(CheckRun { conclusion: Some(_), .. }) => Turn::Result,
            Outgoing::CheckRun(CheckRun { conclusion: None, .. }) => Turn::Progress,
        }
    }
}

/// A row of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    pub id: OutboxId,
    /// Unique: `status/<run>` (`status/<run>/2` goes on where that is too long), `check/<run>`, `pull/<run>`, `react/<delivery>/eyes`, `answer/<thread>/comment/<id>`, … Writing to a key
    /// again replaces what is wanted.
    pub key: String,
    pub codebase: CodebaseId,
    pub conversation: Option<ConversationId>,
    pub outgoing: Outgoing,
    /// Raised whenever the wanted state changes; `sent_version` follows when it was sent.
    pub version: i64,
    pub sent_version: i64,
    /// Id of what was created: of the comment or check run, or the pull request's number.
    pub remote_id: Option<i64>,
    pub state: OutboxState,
    /// More than zero and no `remote_id`: an earlier try may have had its effect, look for it first.
    pub attempts: i64,
    pub last_error: Option<String>,
    pub not_before: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What a row of the outbox answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Delivery(InboxId),
    Run(RunId),
    /// It tells of something that happened by itself.
    Nobody,
}

impl OutboxRow {
    pub fn told(&self) -> Told {
        match self.key.split_once('/') {
            Some(("answer", id)) => whole(id).parse().map_or(Told::Nobody, Told::Delivery),
            Some(("status", id)) => whole(id).parse().map_or(Told::Nobody, Told::Run),
            _ => Told::Nobody,
        }
    }
}

/// Without the number of the part, where a text is told in several.
fn whole(id: &str) -> &str {
    match id.rsplit_once('/') {
        Some((whole, part)) if part.parse::<u8>().is_ok() => whole,
        _ => id,
    }
}
