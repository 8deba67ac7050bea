//! What the store keeps, one struct a table. Fields are columns; times are UTC; money and secrets do not occur.

use super::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// A repository Treewarden works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codebase {
    pub id: CodebaseId,
    pub host: Host,
    pub name: RepoName,
    /// As its host last said; absent for an empty repository.
    pub default_branch: Option<BranchName>,
    /// Where its canonical repository lies below `repos/`; chosen once, kept through renames.
    pub repository_dir: String,
    /// False when the installation no longer reaches it; environments stay and are listed.
    pub connected: bool,
    pub reach: Reach,
    /// Absent for one that was always reached.
    pub reach_since: Option<Timestamp>,
    pub mode: CodebaseMode,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Who keeps a codebase: whom its branches come from and go to, and who can be asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    Github {
        id: RepositoryId,
        installation: InstallationId,
    },
    /// A repository on this machine, never one of its linked worktrees. Git speaks with it and nobody else is asked: it has
    /// no pull requests and no collaborators.
    Local {
        path: PathBuf,
    },
}

impl Host {
    /// GitHub's number of the repository. One on this machine has a number below zero, which GitHub gives to none, and another
    /// one for each path.
    pub fn repository(&self) -> RepositoryId {
        match self {
            Host::Github { id, .. } => *id,
            Host::Local { path } => {
                let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
                let number = digest.iter().take(7).fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
                RepositoryId(-1 - number)
            }
        }
    }
}

impl Codebase {
    pub fn github_id(&self) -> Option<RepositoryId> {
        match self.host {
            Host::Github { id, .. } => Some(id),
            Host::Local { .. } => None,
        }
    }

    /// The installation that gives access to it.
    pub fn installation(&self) -> Option<InstallationId> {
        match self.host {
            Host::Github { installation, .. } => Some(installation),
            Host::Local { .. } => None,
        }
    }
}

/// One thread on a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub id: ConversationId,
    pub platform: PlatformKind,
    pub codebase: CodebaseId,
    pub thread: ThreadId,
    pub title: String,
    pub state: ThreadState,
    /// The head commit that was merged, for a merged pull request.
    pub merged_head: Option<CommitSha>,
    pub environment: Option<EnvironmentId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A person let one commit of a fork's pull request run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The pull request's thread.
    pub conversation: ConversationId,
    pub head: CommitSha,
    pub approver: UserId,
    pub login: String,
    pub approved_at: Timestamp,
    /// When a push ended it.
    pub ended_at: Option<Timestamp>,
}

/// A thread of a platform that this version has no adapter for. It is kept, with what it points to, until an adapter takes
/// it over under the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldConversation {
    pub id: ConversationId,
    pub platform: PlatformKind,
    /// As the platform names it.
    pub thread: String,
    pub codebase: Option<CodebaseId>,
    pub environment: Option<EnvironmentId>,
    pub created_at: Timestamp,
    pub last_activity_at: Timestamp,
}

/// One isolated place to work: a worktree, its branch and this row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    pub id: EnvironmentId,
    pub codebase: CodebaseId,
    pub work: Work,
    pub branch: BranchName,
    /// Absolute path of the worktree.
    pub path: PathBuf,
    pub state: EnvironmentState,
    /// The branch this work will be merged into.
    pub base: Option<BranchName>,
    /// Where the branch stood when the environment was made; equal to the tip means "no work of its own yet".
    pub start: Option<CommitSha>,
    pub pinned: bool,
    /// Name of the provider that made it (`worktree`).
    pub provider: String,
    pub metadata: EnvironmentMetadata,
    /// Raised by every change; writers state the version they read.
    pub version: i64,
    pub created_at: Timestamp,
    /// Latest message or run; never touched by sweeps or page views.
    pub last_activity_at: Timestamp,
    pub destroyed_at: Option<Timestamp>,
}

/// Facts about an environment that nothing is searched by; stored as JSON. Unknown fields are kept out, missing ones default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnvironmentMetadata {
    /// Other work that is known to belong together with this, whether or not it shares the environment.
    pub links: Vec<Work>,
    /// The same in other repositories, which never share an environment with this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links_elsewhere: Vec<Elsewhere>,
    /// Head of a fork's pull request this environment was made from.
    pub fork_head: Option<CommitSha>,
    /// Last commit of a pull request whose head branch is gone: the environment's own branch starts there.
    pub lost_head: Option<CommitSha>,
    /// Where the branch and its remote were last seen to agree.
    #[serde(default)]
    pub agreed: Option<CommitSha>,
    /// The branch existed before the environment did (a person's branch): never deleted by us.
    pub foreign_branch: bool,
    /// The branch had commits of its own when the environment was made.
    pub began_ahead: bool,
    /// The worktree was there before this row.
    pub adopted_from: Option<AdoptedFrom>,
    /// Taken over from another installation.
    pub migrated: bool,
    /// The platform on which the work began, where that is not GitHub.
    pub created_by: Option<PlatformKind>,
    /// Where its issue was transferred to, as `owner/name#number` or in words: nothing more comes of it here.
    pub transferred_to: Option<String>,
    /// Why it was kept the last time somebody asked for its removal, in words for people.
    pub kept_because: Vec<String>,
    /// What a person can do about that, where there is more to say, in words for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_steps: Vec<String>,
    /// It holds another repository, so that removing it by force is refused, too.
    #[serde(default)]
    pub beyond_force: bool,
    /// Its latest activity is later than the clock.
    #[serde(default)]
    pub dated_ahead: Option<DatedAhead>,
    /// What is to be told about its making, with the next run: kept until that has written it down, as a kill may come between.
    #[serde(default)]
    pub untold: Vec<String>,
    /// The removal that is under way (state `removing`), so that a restart can finish exactly it.
    pub removal: Option<PendingRemoval>,
    /// The removed environment that this one brings back.
    #[serde(default)]
    pub restores: Option<Restores>,
    /// What its files take on the disk, as it was measured last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUse>,
    /// What is just being taken out of its worktree, so that a restart can finish exactly it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaiming: Option<PendingReclaim>,
}

/// An activity that was noted by a clock which is behind it now. Which of the two was wrong nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatedAhead {
    pub activity: Timestamp,
    /// Until when more is known to have happened, by the clock as it is now.
    pub seen_at: Timestamp,
}

impl DatedAhead {
    /// Whether it was noted of this very activity, by a clock that has not gone back further since.
    pub fn is_about(&self, activity: Timestamp, now: Timestamp) -> bool {
        self.activity == activity && self.seen_at <= now
    }
}

/// What is brought back into a new worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restores {
    pub environment: EnvironmentId,
    /// Its uncommitted work, when there was any.
    pub keepsake: Option<CommitSha>,
    /// Where its branch stood, which may have been deleted with it.
    #[serde(default)]
    pub tip: Option<CommitSha>,
    /// All of that is in the worktree.
    #[serde(default)]
    pub whole: bool,
}

/// A removal that was decided and written down before its first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRemoval {
    pub trigger: Trigger,
    pub tip: CommitSha,
    pub delete_branch: bool,
    /// Uncommitted work goes to the trash.
    #[serde(default)]
    pub keep_work: bool,
    /// What of that was kept before the first step.
    #[serde(default)]
    pub kept: Option<CommitSha>,
    /// Ignored files that are kept with it.
    #[serde(default)]
    pub rescued: u64,
    /// Size of its files when they were looked at.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Why it is safe, one sentence for people.
    pub proof: String,
    /// The closed conversation that is told when it is done.
    #[serde(default)]
    pub tell: Option<ConversationId>,
    /// The delivery with the command that asked for it.
    #[serde(default)]
    pub asked_in: Option<InboxId>,
    /// Who had it removed, as the audit log calls them.
    #[serde(default)]
    pub actor: Option<String>,
    /// The work whose own environment takes its place.
    #[serde(default)]
    pub successor: Option<Work>,
    /// What holds it up, while its files are in the trash; one sentence for people.
    #[serde(default)]
    pub stuck: Option<String>,
}

/// The agent's own memory for a conversation in an environment, resumable by the id the agent gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSession {
    pub id: SessionId,
    pub conversation: ConversationId,
    pub environment: EnvironmentId,
    /// Name of the agent it belongs to; another agent cannot resume it.
    pub agent: String,
    pub external_id: String,
    pub opened_at: Timestamp,
}

/// One execution of the agent for one message in one environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub codebase: CodebaseId,
    pub conversation: ConversationId,
    /// Known once isolation is resolved.
    pub environment: Option<EnvironmentId>,
    /// The delivery that asked for it; one run per delivery.
    pub delivery: InboxId,
    pub request: RunRequest,
    pub state: RunState,
    /// What became of it, in words for people; set with every final state but success.
    pub reason: Option<String>,
    /// How the environment was found, for the first line of the status comment.
    pub opening: Option<String>,
    /// The agent's last answer (Markdown), untrusted.
    pub answer: Option<String>,
    /// Process group of the agent, with its start time in clock ticks since boot, so that a restart can end exactly it.
    pub process: Option<AgentProcess>,
    pub outcome: RunOutcome,
    pub cancel_requested: bool,
    pub attempts: i64,
    pub created_at: Timestamp,
    /// When its preparation began, for good: waiting for another run does not count.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl Run {
    /// Whether it is at work in another environment than this one, wherever its thread points by now.
    pub fn is_elsewhere(&self, environment: EnvironmentId) -> bool {
        let at_work = matches!(self.state, RunState::Running | RunState::Delivering);
        at_work && self.environment.is_some_and(|its| its != environment)
    }
}

/// The message a run answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    pub requester: Person,
    /// The message without the mention.
    pub text: String,
    pub source: MessageSource,
    pub url: String,
    /// By the platform's clock; comments after it are no background to it.
    #[serde(default)]
    pub written_at: Option<Timestamp>,
    /// The review whose other parts it asks for, too.
    #[serde(default)]
    pub review: Option<CommentId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProcess {
    pub group: i32,
    pub start_ticks: u64,
}

/// What the service itself read back after a run; nothing here is the agent's claim. Stored as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOutcome {
    /// The branch's commit when the agent began. Older rows call it `began_at`.
    #[serde(alias = "began_at")]
    pub head_before: Option<CommitSha>,
    /// Its commit on the remote when the agent began.
    pub remote_before: Option<CommitSha>,
    /// Its commit after the run's work was committed. Older rows call it `ended_at`.
    #[serde(alias = "ended_at")]
    pub head_after: Option<CommitSha>,
    /// The branch's commit on the remote, read back after the push.
    pub pushed: Option<CommitSha>,
    pub pull_request: Option<ThreadNumber>,
    /// The head of the pull request that asked, as it was when the run was prepared.
    pub pull_head: Option<CommitSha>,
    /// The branch is pushed, and a person is to open its pull request: into this base.
    pub to_open_into: Option<BranchName>,
    pub files_changed: Option<u64>,
    pub commits: Option<u64>,
    /// Work that stayed local, and why (refused push, fork without write access).
    pub not_pushed_because: Option<String>,
    /// What could not be committed and stays in the worktree.
    pub left_behind: Option<String>,
    /// Changes of its branch in the repository's stash.
    pub stashed: u64,
    /// Files of the repository that only the service writes, which were changed while the agent was at work.
    pub restored: Vec<String>,
}

/// A stored webhook delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: InboxId,
    /// `X-GitHub-Delivery`.
    pub guid: String,
    /// `X-GitHub-Event`.
    pub event: String,
    /// Deliveries with the same key are handled one after the other, in order of arrival.
    pub conversation_key: Option<String>,
    /// It is handled at once, whatever of its conversation waits before it.
    pub out_of_turn: bool,
    /// The raw body as it was signed.
    pub body: Vec<u8>,
    pub state: InboxState,
    /// Why it was ignored or failed, or what it led to.
    pub reason: Option<String>,
    /// Claims so far.
    pub attempts: i64,
    /// Claims since it last arrived.
    pub tries: i64,
    pub received_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// A message of a thread on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalMessage {
    /// Stays the same when the message is edited.
    pub id: LocalMessageId,
    /// Absent: the service.
    pub author: Option<String>,
    /// The message that it answers.
    pub answers: Option<LocalMessageId>,
    pub body: String,
    /// Grows within the conversation with each writing, of whichever message.
    pub written: i64,
    /// Of the run that it asked for.
    pub run: Option<RunState>,
    /// How far the handling of what a person said is. Absent: the service said it.
    pub handling: Option<InboxState>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The stored proof of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: ReceiptId,
    pub environment: EnvironmentId,
    pub trigger: Trigger,
    pub details: ReceiptDetails,
    pub created_at: Timestamp,
}

/// What a receipt says; stored as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiptDetails {
    /// Why it was safe, one sentence for people.
    pub proof: String,
    pub branch: String,
    /// The branch's last commit.
    pub tip: Option<CommitSha>,
    pub branch_deleted: bool,
    /// Somebody else made the worktree, outside of our directory: files and registration are where they were.
    pub released: bool,
    /// The ref that holds what no commit of the branch held, when there was any: ignored files, after a forced removal
    /// uncommitted work, and what was written at the very last.
    pub safety_ref: Option<String>,
    /// What that ref holds.
    pub keepsake: Option<CommitSha>,
    /// Ignored files in it.
    pub rescued: u64,
    /// There is nothing else in it.
    pub only_ignored: bool,
    /// The thread that was told.
    pub told: Option<ConversationId>,
    /// Why its files still lie in the trash directory, when the last look at them found that they cannot go yet.
    pub held_up: Option<String>,
    /// Until when that ref stays.
    pub kept_until: Option<Timestamp>,
    pub bytes_freed: Option<u64>,
    /// The command that brings a deleted branch back, to be run in the service's repository; empty when it was kept.
    pub restore: String,
    /// The delivery with the command that asked for the removal: handled again after a crash, it still knows its effect.
    pub asked_in: Option<InboxId>,
    /// Who had it removed, as the audit log calls them: a login, `schedule`, `webhook`, `cli`.
    pub actor: Option<String>,
    /// How many commits of its own the branch had; `None`: that could not be told.
    pub commits: Option<u64>,
    /// What the newest of them say of themselves; of people and agents.
    pub subjects: Vec<String>,
}

/// One pass of the cleanup service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanupReport {
    pub id: ReportId,
    pub trigger: Trigger,
    pub dry_run: bool,
    pub lines: Vec<ReportLine>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
}

/// What happened to one environment in a pass, or to something on the disk that no environment has; the list is stored as
/// JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportLine {
    /// Absent where there is none.
    #[serde(default)]
    pub environment: Option<EnvironmentId>,
    /// As it was called then; absent in reports of versions that did not write it down.
    #[serde(default)]
    pub repository: Option<String>,
    /// Its branch, or the name of its directory where it has none.
    pub branch: String,
    pub result: ReportResult,
    /// By its removal; absent where nothing was removed, or where its size is not known.
    #[serde(default)]
    pub bytes_freed: Option<u64>,
    /// Bytes of caches that were taken out of it, or would be.
    #[serde(default)]
    pub bytes_reclaimed: u64,
    /// What there is to tell beside that: what was reclaimed, that its repository takes much of the disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ReportLine {
    pub fn of(repository: &RepoName, environment: Option<EnvironmentId>, branch: String, result: ReportResult) -> Self {
        let repository = Some(repository.to_string());
        Self { environment, repository, branch, result, bytes_freed: None, bytes_reclaimed: 0, notes: Vec::new() }
    }

    /// With its repository: many have an `issue-1`.
    pub fn name(&self) -> String {
        match &self.repository {
            Some(repository) => format!("{repository}#{}", self.branch),
            None => self.branch.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportResult {
    Removed(String),
    Kept(Vec<String>),
    Failed(String),
}

/// An entry of the append-only audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub id: AuditId,
    /// Who: a login, `schedule`, `webhook`, `cli`.
    pub actor: String,
    /// What: `environment.removed`, `run.started`, …
    pub action: String,
    /// To what, as a short text: a thread (`octo/hello#42`), an environment (`octo/hello#issue-42`), the id of a run.
    pub subject: String,
    pub detail: String,
    pub at: Timestamp,
}

/// How many environments of a codebase are of each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub merged: usize,
    pub stale: usize,
    pub active: usize,
}

impl Census {
    pub fn all(&self) -> usize {
        self.merged + self.stale + self.active
    }
}
