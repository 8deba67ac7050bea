//! What an import works with: the rows of the older schema as they were found, and what is to be taken over from them.
//!
//! Rows of the source are texts that nobody has checked; what a plan holds has been.

use super::*;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, path::PathBuf};

/// How far the older schema had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OldStage {
    /// Conversations name the path of their worktree.
    Paths,
    /// They name a provider, too; the path is the environment's id.
    Providers,
    /// Environments are rows of their own.
    Environments,
}

/// A table of the older schema, without its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OldTable {
    Codebases,
    Conversations,
    IsolationEnvironments,
    Sessions,
}

impl OldTable {
    pub const ALL: [Self; 4] = [Self::Codebases, Self::Conversations, Self::IsolationEnvironments, Self::Sessions];

    pub fn as_str(self) -> &'static str {
        match self {
            OldTable::Codebases => "codebases",
            OldTable::Conversations => "conversations",
            OldTable::IsolationEnvironments => "isolation_environments",
            OldTable::Sessions => "sessions",
        }
    }
}

impl fmt::Display for OldTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One row: its columns as texts. A column without a value, or that the source does not have, is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldRow(pub BTreeMap<&'static str, String>);

/// The older database, read in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldData {
    pub stage: OldStage,
    pub codebases: Vec<OldRow>,
    pub conversations: Vec<OldRow>,
    pub environments: Vec<OldRow>,
    pub sessions: Vec<OldRow>,
}

/// A row of the source, as people find it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldName {
    pub table: OldTable,
    pub id: String,
    /// What it is about, such as `octo/hello#42`.
    pub about: String,
}

/// What is to be taken over. Whatever of it is there already stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportPlan {
    pub codebases: Vec<CodebaseImport>,
    pub environments: Vec<EnvironmentImport>,
    pub conversations: Vec<ConversationImport>,
    pub sessions: Vec<SessionImport>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodebaseImport {
    /// Absent when only conversations name it.
    pub row: Option<OldName>,
    pub repository: RepositoryFacts,
}

/// A repository as GitHub describes it, or as it is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFacts {
    pub host: Host,
    pub name: RepoName,
    pub default_branch: Option<BranchName>,
}

impl RepositoryFacts {
    pub fn id(&self) -> RepositoryId {
        self.host.repository()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentImport {
    pub row: OldName,
    pub repository: RepositoryId,
    pub work: Work,
    pub branch: BranchName,
    /// With links resolved; at most one of a plan has it.
    pub path: PathBuf,
    pub metadata: EnvironmentMetadata,
    pub created_at: Timestamp,
    pub last_activity_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationImport {
    pub row: OldName,
    pub thread: ThreadImport,
    pub place: PlaceImport,
    pub created_at: Timestamp,
    pub last_activity_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadImport {
    Github(GithubThread),
    Held { platform: PlatformKind, thread: String, repository: Option<RepositoryId> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GithubThread {
    pub repository: RepositoryId,
    pub number: ThreadNumber,
    pub kind: ThreadKind,
    pub title: String,
    pub state: ThreadState,
}

/// What a conversation is to point to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceImport {
    Nothing,
    /// The environment at this path.
    Environment(PathBuf),
    /// A worktree that becomes an environment when it is first used.
    Legacy(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionImport {
    pub row: OldName,
    /// Where the conversation stands in the plan.
    pub conversation: usize,
    pub agent: String,
    pub external_id: String,
    pub opened_at: Timestamp,
}

/// What became of one row of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Import {
    Taken,
    /// Here already; nothing was changed.
    Present,
    /// Something else stands where it would, named for people.
    InTheWay(String),
    /// What it depends on is not here.
    Dangling,
}

/// What became of a whole plan, row by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub codebases: Vec<Import>,
    pub environments: Vec<Import>,
    pub conversations: Vec<Import>,
    pub sessions: Vec<Import>,
}

/// A path that waits to become an environment, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyPath {
    /// The key it is stored under.
    pub key: String,
    /// Absent when key or value are not what they should be.
    pub known: Option<(ConversationId, PathBuf)>,
}
