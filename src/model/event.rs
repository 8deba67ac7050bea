//! What happened on a platform, in our words. GitHub's payloads are turned into these at the edge (`github::payload`), and so
//! is what was said on this machine (`platform::local`).

use super::{
    BranchName, Button, CodebaseId, CommentId, CommitSha, InstallationId, RepoName, RepositoryId, RunId, ThreadKind,
    ThreadName, ThreadNumber, ThreadState, Timestamp, UserId,
};
use serde::{Deserialize, Serialize};

/// A person or bot account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    pub id: UserId,
    pub login: String,
    /// GitHub's account type is not "User".
    pub is_bot: bool,
}

/// The repository an event is about, with the installation that gives access to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryRef {
    pub id: RepositoryId,
    pub name: RepoName,
    pub installation: InstallationId,
    /// As the payload says; absent when it does not.
    pub default_branch: Option<BranchName>,
}

/// One issue or pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRef {
    pub repository: RepositoryRef,
    pub number: ThreadNumber,
    pub kind: ThreadKind,
    pub title: String,
    /// When the event happened; open where the payload does not say.
    pub state: ThreadState,
}

/// A thread of this machine's own platform. Its codebase is known already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalThread {
    pub codebase: CodebaseId,
    pub name: ThreadName,
}

/// What the person of this machine did in a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalEvent {
    /// All of it is for the bot.
    Said { thread: LocalThread, text: String, at: Timestamp },
    /// They are done with the thread, and want nothing of it to be read any more.
    Closed { thread: LocalThread },
}

/// Whoever speaks on this machine: the one who may read the service's home.
pub const LOCAL_PERSON: &str = "local";

impl LocalEvent {
    pub fn thread(&self) -> &LocalThread {
        match self {
            LocalEvent::Said { thread, .. } | LocalEvent::Closed { thread } => thread,
        }
    }
}

/// Where in a thread a message stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageSource {
    /// A message of a thread on this machine.
    Local,
    /// The body of the issue or pull request itself.
    ThreadBody,
    IssueComment {
        id: CommentId,
    },
    Review {
        id: CommentId,
    },
    ReviewComment {
        id: CommentId,
        review: Option<CommentId>,
        path: String,
        line: Option<i64>,
        diff_hunk: String,
    },
}

impl MessageSource {
    /// The comment or review that it is; the text of a thread is neither.
    pub fn comment(&self) -> Option<CommentId> {
        match self {
            MessageSource::ThreadBody | MessageSource::Local => None,
            MessageSource::IssueComment { id }
            | MessageSource::Review { id }
            | MessageSource::ReviewComment { id, .. } => Some(*id),
        }
    }

    /// Whether both are the same message. Comments, reviews and comments of reviews are numbered apart.
    pub fn is_same(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.comment() == other.comment()
    }

    /// The review that it is the text of, or a part of. A review is handed in as a whole.
    pub fn review(&self) -> Option<CommentId> {
        match self {
            MessageSource::Review { id } => Some(*id),
            MessageSource::ReviewComment { review, .. } => *review,
            MessageSource::Local | MessageSource::ThreadBody | MessageSource::IssueComment { .. } => None,
        }
    }
}

/// Something a person wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub thread: ThreadRef,
    pub source: MessageSource,
    pub author: Person,
    pub body: String,
    /// Link to the message for people.
    pub url: String,
    /// When it was written, by GitHub's clock; absent when the payload does not say.
    pub written_at: Option<Timestamp>,
}

/// Somebody's press on a button below a check run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Press {
    pub repository: RepositoryRef,
    /// The App that the check run is of.
    pub app: u64,
    /// The run that it tells of, as whoever made it said.
    pub run: RunId,
    pub button: Button,
    pub by: Person,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    Archived,
    Unarchived,
    Deleted,
}

/// What is said of the App's access to repositories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// The installation as a whole was created, unsuspended, or had permissions accepted.
    Granted,
    Suspended,
    Uninstalled,
    /// Of a repository itself.
    Repository {
        id: RepositoryId,
        fate: Fate,
    },
    Repositories {
        added: Vec<(RepositoryId, RepoName)>,
        removed: Vec<(RepositoryId, RepoName)>,
    },
}

/// One delivery, understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A new comment, review, review comment, or the body of a newly opened issue or pull request.
    Written(Message),
    /// An edit by `editor`; `previous` is the text before it, absent when the payload does not say.
    Edited {
        message: Message,
        previous: Option<String>,
        editor: Person,
    },
    /// A comment was deleted; its author is absent for a deleted account.
    Deleted {
        thread: ThreadRef,
        source: MessageSource,
        author: Option<Person>,
    },
    /// An issue or pull request was closed. `merged_head` is the head commit that was merged, for merged pull requests.
    Closed {
        thread: ThreadRef,
        merged_head: Option<CommitSha>,
        by: Person,
    },
    Reopened {
        thread: ThreadRef,
        by: Person,
    },
    /// An issue went to another repository, where it is a new one; `to` is `owner/name#number`, absent when the payload does
    /// not say.
    Transferred {
        thread: ThreadRef,
        to: Option<String>,
        by: Person,
    },
    /// A push to a pull request's head: from `before`, absent when the payload does not say, to `head`.
    HeadMoved {
        thread: ThreadRef,
        before: Option<CommitSha>,
        head: CommitSha,
        by: Person,
    },
    Pressed(Press),
    /// The repository has another name now; its id stays.
    Renamed {
        repository: RepositoryRef,
    },
    Installation {
        installation: InstallationId,
        access: Access,
    },
    /// Something on this machine's own platform.
    Local(LocalEvent),
    /// Understood well enough to know that there is nothing to do, with the reason.
    Nothing(String),
}

impl Event {
    /// What somebody wrote, as it reads now.
    pub fn message(&self) -> Option<&Message> {
        match self {
            Event::Written(message) | Event::Edited { message, .. } => Some(message),
            Event::Deleted { .. }
            | Event::Closed { .. }
            | Event::Reopened { .. }
            | Event::Transferred { .. }
            | Event::HeadMoved { .. }
            | Event::Pressed(_)
            | Event::Renamed { .. }
            | Event::Installation { .. }
            | Event::Local(_)
            | Event::Nothing(_) => None,
        }
    }
}
