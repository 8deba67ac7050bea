//! Isolated places to work: made, examined and taken away again. What exactly an isolated place is, is the provider's
//! business; whether one may be made or removed is decided elsewhere.
//!
//! Everything here can be repeated after a crash at any point, and nothing that may hold work is deleted: what is in
//! the way is reported, what is removed goes to a trash first.

mod furnish;
mod in_use;
mod last_look;
mod mark;
mod mounts;
mod outside;
mod place;
mod reclaim;
mod trash;
mod turns;
mod usage;
mod way;
mod worktree;

/// Most that is kept of files that git ignores, in bytes.
pub const MOST_IGNORED: u64 = 256 * 1024 * 1024;

pub use furnish::{LFS as LFS_PATIENCE, SUBMODULES as SUBMODULES_PATIENCE};
pub use reclaim::{ReclaimRequest, Reclaimed};
pub use usage::{Usage, measure};
pub use worktree::WorktreeProvider;

use crate::git::{GitError, Repository, Ties, Uncommitted, WorktreeEntry};
use crate::model::*;
use std::path::{Path, PathBuf};

/// Who made a place. What somebody else made may lie anywhere, is used where it is, and is never moved or deleted when
/// it lies outside of our directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Us,
    Others,
}

/// How far a place has come, as its record says. What says so on the disk can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// What a killed creation left of it is nobody's work.
    InTheMaking,
    /// Whatever files are there are somebody's work.
    HandedOut,
}

/// A place that is wanted.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    pub path: PathBuf,
    /// Others: it is there already.
    pub maker: Maker,
    /// Of one that is there already and was not ours.
    pub uncommitted: Uncommitted,
    pub branch: BranchName,
    pub start: WorktreeStart,
    pub furnishing: Furnishing,
}

/// What a new place gets beside its checkout.
#[derive(Clone, Debug, Default)]
pub struct Furnishing {
    /// Where the operator keeps files for the repository; absent: nothing is copied.
    pub copy_from: Option<PathBuf>,
    /// What of it is wanted, besides what the checkout itself asks for.
    pub copy: Vec<CopyPattern>,
    pub submodules: SubmodulePolicy,
    /// Whether files that Git LFS keeps are downloaded.
    pub lfs: bool,
    /// For what is fetched from the remote's own host.
    pub credential: Option<Credential>,
    /// Uncommitted work of an earlier worktree that is to be in it.
    pub keepsake: Option<CommitSha>,
}

/// A place that is to go. It was decided that nothing is lost by that; what has changed since is found by the last
/// look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveRequest {
    pub environment: EnvironmentId,
    pub path: PathBuf,
    pub maker: Maker,
    /// The branch the place must be on.
    pub branch: BranchName,
    /// Delete the branch if it stands exactly here; `None` keeps it.
    pub delete_branch_at: Option<CommitSha>,
}

/// The last look at the files of a removed place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastLook {
    pub environment: EnvironmentId,
    /// Where the place was.
    pub path: PathBuf,
    /// The commit it had checked out.
    pub head: CommitSha,
    /// The ref under which whatever is found is kept.
    pub keep_under: String,
}

/// What a removal did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub branch_deleted: bool,
    /// Files and registration are where they were: the place was only let go of.
    pub released: bool,
}

/// Why a place could not be made or removed. Unless the sentence says otherwise, everything is where it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsolationError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(
        "{} is not the directory in which the worktrees are (is its file system mounted?). Nothing was changed. Bring it \
         back; if it is lost for good, delete {} to begin anew", base.display(), memory.display()
    )]
    OutOfSight { base: PathBuf, memory: PathBuf },
    /// As when all but the hidden files of it was copied here.
    #[error(
        "{} lacks the mark (.treewarden) by which the directory of the worktrees is known, and things are in it. Nothing was \
         changed. Where these are all of the worktrees, delete {}: the next start marks the directory anew, and leaves \
         what is in it as it is", base.display(), memory.display()
    )]
    Unmarked { base: PathBuf, memory: PathBuf },
    #[error(
        "There are worktrees in {}, and {} is to have them now, which is new, so nothing was begun. Move all that is in \
         the first into the second, or set WORKTREE_BASE (or the home) back", before.display(), base.display()
    )]
    LeftBehind { before: PathBuf, base: PathBuf },
    /// Another home's, or another machine's: a path alone proves nothing.
    #[error(
        "The database knows of worktrees that are not in this {}, such as {}, so nothing was begun, and none of them is taken for \
         gone. Start with the home and the WORKTREE_BASE that have them, or with a database of its own; if they are lost for good, {}",
        base.display(), place.display(), given_up(base, place, mark)
    )]
    OtherDisk { base: PathBuf, place: PathBuf, mark: String },
    #[error(
        "Files of removed worktrees that were not looked at for the last time are in {}, and {} is the trash now, so \
         nothing was begun. Move all that is in the first into the second, or set WORKTREE_BASE (or the home) back", other.display(), trash.display()
    )]
    TrashElsewhere { other: PathBuf, trash: PathBuf },
    /// As in a person's own directory, which has the usual home of the service in it.
    #[error(
        "{} cannot be the directory of the worktrees: .treewarden in it, where their mark belongs, is a directory. Nothing was \
         changed. WORKTREE_BASE has to name a directory of its own", .0.display()
    )]
    MarkTaken(PathBuf),
    #[error("{} is not below the directory for worktrees", .0.display())]
    Outside(PathBuf),
    /// The reason names no path: it is told elsewhere.
    #[error("it lies outside of my directory, and {0}")]
    NotAdmitted(&'static str),
    #[error("the worktree is not on the branch {0}")]
    OtherBranch(BranchName),
    #[error("{} is not a worktree of this repository", .0.display())]
    Foreign(PathBuf),
    #[error("somebody made a repository of its own in {}: its .git is a directory now", .0.display())]
    OwnRepository(PathBuf),
    #[error("the submodule {0} holds work of its own, written since it was decided")]
    SubmoduleWork(String),
    #[error("the worktree is locked by somebody else: {0}")]
    Locked(String),
    #[error("process {0} is still at work in the worktree")]
    InUse(u32),
    /// The way out is to change the owner, not force.
    #[error("{} cannot be deleted: it belongs to user {owner} (`chown -hR` gives it back to the user of the service)", .path.display())]
    NotDeletable { path: PathBuf, owner: u32 },
    #[error("a file system is mounted in it, at {}", .0.display())]
    MountInside(PathBuf),
    /// Whoever goes there works in it under another name.
    #[error("it, or a part of it, is mounted at {}", .0.display())]
    MountedAt(PathBuf),
    /// Trying again changes nothing.
    #[error("its uncommitted work cannot be kept: {0}")]
    NotKeepable(String),
    #[error("the worktree could not be examined: {0}")]
    Unknown(String),
    /// The one failure that leaves the files elsewhere.
    #[error(
        "the removal has stopped half-way: {why}. Nothing is lost: the files are in {}, and it is gone on with every minute",
        .place.display()
    )]
    HalfWay { place: PathBuf, why: String },
    /// Why a directory stays that looks like one that a tool fills again.
    #[error("{0}")]
    NoCache(String),
    #[error(
        "it is in the trash, at {}, and stays there: {why}. Nothing is lost, and each cleanup tries again. By hand: move it back, or delete it",
        .place.display()
    )]
    CacheHalfWay { place: PathBuf, why: String },
    #[error("{what} {}: {why}", .path.display())]
    Files { what: &'static str, path: PathBuf, why: String },
}

/// What lets a start go on without the worktrees of a database that it has no disk for. In another directory than their
/// rows say nobody would ever find that they are gone.
fn given_up(base: &Path, place: &Path, mark: &str) -> String {
    match place.starts_with(base) {
        true => format!(
            "write their mark, {mark}, into {}, and delete worktrees.mark in the home",
            base.join(".treewarden").display()
        ),
        false => "start with a WORKTREE_BASE of the path that they had, empty, and it says how".to_owned(),
    }
}

impl IsolationError {
    fn files(what: &'static str, path: &Path, error: &std::io::Error) -> Self {
        IsolationError::Files { what, path: path.to_owned(), why: error.to_string() }
    }
}

/// Makes and removes isolated places of one kind.
#[async_trait::async_trait]
pub trait Provider: Send + Sync {
    /// What environments of this kind are marked with.
    fn name(&self) -> &'static str;

    /// Makes the place; one that an earlier try made, or began to make, for the same request will do. Answers with what
    /// there is to tell about what it got beside its checkout.
    async fn create(&self, repository: &Repository, request: &CreateRequest) -> Result<Furnished, IsolationError>;

    /// Takes away what a creation that was cut short left of a place that was never handed out, and the place's
    /// registration, so that nothing is in the way of the next. Files that may be somebody's stay.
    async fn clear(&self, repository: &Repository, path: &Path) -> Result<(), IsolationError>;

    /// Whether a place lies where removing it means to let go of it.
    fn is_outside(&self, path: &Path) -> bool;

    /// A process that works in a place.
    async fn user_of(&self, path: &Path) -> Probe<Option<u32>>;

    /// What deleting the files of a place that may be removed frees, in bytes, or what is in the way of it.
    async fn survey(&self, path: &Path) -> Result<u64, IsolationError>;

    /// Takes the place away, or lets go of it; also goes on with a removal that was interrupted. Its files are not
    /// looked at, and stay until they were ([`Provider::look_again`], [`Provider::release`]).
    async fn remove(&self, repository: &Repository, request: &RemoveRequest) -> Result<Removed, IsolationError>;

    /// Whether [`Provider::remove`] would begin once some processes have ended, as far as a look can tell. Nothing is
    /// changed.
    async fn would_remove(
        &self,
        repository: &Repository,
        request: &RemoveRequest,
        ending: &[u32],
    ) -> Result<(), IsolationError>;

    /// Whose files are in the trash without having been released.
    fn unlooked(&self) -> Result<Vec<EnvironmentId>, IsolationError>;

    /// Looks at the files of a removed place for the last time, and keeps everything there that the commit it had
    /// checked out does not hold. `None`: there is nothing. Repeatable, with the same answer.
    async fn look_again(&self, repository: &Repository, look: &LastLook) -> Result<Option<CommitSha>, IsolationError>;

    /// Lets the files of a removed place be deleted, which were looked at.
    async fn release(&self, repository: &Repository, environment: EnvironmentId) -> Result<(), IsolationError>;

    /// Forgets what is left of places whose files were released, or are gone; for what a crash left.
    async fn forget_released(&self, repository: &Repository) -> Result<(), IsolationError>;

    /// What tools make again of what lies in a place of ours, and could be taken away at this moment.
    async fn reclaimable(&self, repository: &Repository, path: &Path) -> Result<Reclaimed, IsolationError>;

    /// Takes such directories out of a place that stays; also goes on where a kill came between. What is not what it
    /// was stays. What is gone is deleted with the next [`Provider::empty_trash`], after it was written down.
    async fn reclaim(&self, repository: &Repository, request: &ReclaimRequest) -> Result<Reclaimed, IsolationError>;

    /// Caches in the trash that may not be deleted, and whose they are.
    fn caches_in_trash(&self) -> Result<Vec<(EnvironmentId, PathBuf)>, IsolationError>;

    /// Whether files of this environment wait for a removal to be finished, or for the last look.
    fn removal_begun(&self, environment: EnvironmentId) -> bool;

    /// Whether the place is there and whole.
    async fn health(&self, repository: &Repository, path: &Path, maker: Maker, stage: Stage) -> Probe<Validity>;

    /// Mends a broken place without touching its files; false when nothing is broken, or cannot be mended.
    async fn repair(&self, repository: &Repository, path: &Path, branch: &BranchName) -> Result<bool, IsolationError>;

    /// Whether the places, or the repositories, are elsewhere than when the service ran last, and not all has followed.
    fn has_moved(&self) -> bool;

    /// Where a place is now that was elsewhere before.
    fn moved(&self, path: &Path) -> Option<PathBuf>;

    /// Brings the places of a repository back in touch with it after a move.
    async fn tie_again(&self, repository: &Repository) -> Result<Ties, IsolationError>;

    /// Everything has followed the move.
    fn settle(&self) -> Result<(), IsolationError>;

    /// All places of this repository, whoever made them.
    async fn list(&self, repository: &Repository) -> Result<Vec<WorktreeEntry>, IsolationError>;

    /// Deletes the files of all finished removals. Removals do so themselves, in the background; this is for what a
    /// crash left.
    async fn empty_trash(&self) -> Result<(), IsolationError>;
}
