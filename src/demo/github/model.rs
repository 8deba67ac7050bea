//! The stand-in's nouns: accounts, repositories, threads and what hangs on them, as plain data.
//!
//! No behaviour beyond trivial questions, no I/O, no JSON: `actions` changes these, `render` shows them.

use super::auth::Permissions;
use crate::model::Permission;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};

pub(super) type Moment = DateTime<Utc>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccountKind {
    User,
    Organization,
    Bot,
}

impl AccountKind {
    pub fn as_str(self) -> &'static str {
        match self {
            AccountKind::User => "User",
            AccountKind::Organization => "Organization",
            AccountKind::Bot => "Bot",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Account {
    pub id: i64,
    pub login: String,
    pub kind: AccountKind,
}

/// Who does something: an account, and whether it is the App's bot acting through an installation token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Actor {
    pub account: i64,
    pub via_app: bool,
}

impl Actor {
    pub fn person(account: i64) -> Self {
        Self { account, via_app: false }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Repository {
    pub id: i64,
    pub owner: i64,
    pub name: String,
    pub default_branch: String,
    pub fork_of: Option<i64>,
    pub archived: bool,
    /// No branch has a commit yet.
    pub empty: bool,
    /// Permission of accounts other than the owner, who is always admin.
    pub permissions: BTreeMap<i64, Permission>,
    /// Branches that refuse pushes.
    pub protected: BTreeSet<String>,
    pub threads: BTreeMap<i64, Thread>,
    pub comments: BTreeMap<i64, Comment>,
    pub reviews: BTreeMap<i64, Review>,
    pub review_comments: BTreeMap<i64, ReviewComment>,
    pub check_runs: BTreeMap<i64, CheckRun>,
    pub created_at: Moment,
    pub pushed_at: Moment,
}

impl Repository {
    pub fn permission_of(&self, account: i64) -> Permission {
        if account == self.owner {
            return Permission::Admin;
        }
        self.permissions.get(&account).copied().unwrap_or(Permission::None)
    }
}

/// An issue, or a pull request when `pull` is there; both share one sequence of numbers.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub id: i64,
    pub number: i64,
    pub title: String,
    pub body: String,
    pub author: Actor,
    pub open: bool,
    /// `completed`, `not_planned`, `reopened`: issues only.
    pub state_reason: Option<String>,
    pub labels: Vec<Label>,
    pub reactions: Vec<Reaction>,
    pub pull: Option<Pull>,
    pub created_at: Moment,
    pub updated_at: Moment,
    pub closed_at: Option<Moment>,
    pub closed_by: Option<i64>,
}

#[derive(Clone, Debug)]
pub(super) struct Label {
    pub id: i64,
    pub name: String,
}

#[derive(Clone, Debug)]
pub(super) struct Pull {
    pub id: i64,
    /// None once the head repository was deleted.
    pub head_repository: Option<i64>,
    /// Owner of the head repository; stays known after a deletion.
    pub head_owner: i64,
    pub head_branch: String,
    pub head_sha: String,
    pub base_branch: String,
    pub base_sha: String,
    pub draft: bool,
    /// Commits of the head that the base lacks, oldest first; frozen by the merge.
    pub commits: Vec<String>,
    pub stat: DiffStat,
    pub mergeable: bool,
    pub merged: Option<Merged>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DiffStat {
    pub files: u64,
    pub additions: u64,
    pub deletions: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub commit: String,
    pub by: i64,
    pub at: Moment,
}

#[derive(Clone, Debug)]
pub(super) struct Comment {
    pub id: i64,
    pub thread: i64,
    pub author: Actor,
    pub body: String,
    pub reactions: Vec<Reaction>,
    pub created_at: Moment,
    pub updated_at: Moment,
}

#[derive(Clone, Debug)]
pub(super) struct Review {
    pub id: i64,
    pub thread: i64,
    pub author: Actor,
    pub body: String,
    /// `APPROVED`, `CHANGES_REQUESTED` or `COMMENTED`.
    pub state: String,
    pub commit: String,
    pub submitted_at: Moment,
}

#[derive(Clone, Debug)]
pub(super) struct ReviewComment {
    pub id: i64,
    pub thread: i64,
    pub review: i64,
    pub author: Actor,
    pub body: String,
    pub path: String,
    pub line: Option<i64>,
    pub diff_hunk: String,
    pub commit: String,
    pub in_reply_to: Option<i64>,
    pub reactions: Vec<Reaction>,
    pub created_at: Moment,
    pub updated_at: Moment,
}

#[derive(Clone, Debug)]
pub(super) struct Reaction {
    pub id: i64,
    pub author: i64,
    pub content: String,
    pub created_at: Moment,
}

/// Names of reactions as the REST API spells them.
pub(super) const REACTIONS: [&str; 8] = ["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"];

#[derive(Clone, Debug)]
pub(super) struct CheckRun {
    pub id: i64,
    pub name: String,
    pub head_sha: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub details_url: Option<String>,
    pub external_id: Option<String>,
    pub output: serde_json::Value,
    pub actions: Vec<CheckAction>,
    pub started_at: Moment,
    pub completed_at: Option<Moment>,
}

/// A button below a check run, for whoever made it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub(super) struct CheckAction {
    pub label: String,
    pub description: String,
    pub identifier: String,
}

#[derive(Clone, Debug)]
pub(super) struct Installation {
    pub id: i64,
    /// The account the App is installed on.
    pub account: i64,
    pub repositories: BTreeSet<i64>,
    pub suspended: bool,
    /// What its owner has granted; absent: all that the App asks for.
    pub permissions: Option<Permissions>,
    pub created_at: Moment,
}
