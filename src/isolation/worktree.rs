//! Isolation by git worktrees: each place is a linked worktree on a branch of its own.
//!
//! Removal goes: rename into the trash, take the registration out, delete the branch. None of that looks at the files, which
//! takes the longest by far: whoever asks has done so, and does so again when the removal is over
//! ([`Provider::look_again`]). What was written in between is kept then; only what was looked at from the trash, where
//! nobody reaches it by its old path, is released and deleted. Until the registration is out, every failure puts the files
//! back; from then on every step is repeated until it is done.
//!
//! What somebody else made outside of our directory is only locked while it is used, and unlocked afterwards.

use super::furnish::furnish;
use super::mark::{self, Mark};
use super::mounts;
use super::reclaim::{ReclaimRequest, Reclaimed};
use super::trash::Trash;
use super::turns::Turns;
use super::usage::{self, Usage};
use super::way;
use super::{
    CreateRequest, IsolationError, LastLook, Maker, Provider, RemoveRequest, Removed, Stage, in_use, outside, place,
};
use crate::git::{Repository, Ties, Worktree, WorktreeEntry};
use crate::model::*;
use crate::telemetry::field::EFFECT;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Mutex, time::Instant};

/// Where the trash is when the intended place is on another file system: a rename must be enough.
const TRASH_BESIDE: &str = ".trash";
pub(super) const BEGUN: &str = "an operation of git's has begun there since it was decided";
/// Why files cannot go back.
const TAKEN: &str = "there is something at its old path again";

/// How long a creation waits for a git that outlived the service that started it, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Beside the trash: where the worktrees were, and their mark.
const MEMORY: &str = "worktrees.mark";

/// Where a place is.
enum Site {
    Inside(PathBuf),
    Outside(PathBuf),
}

/// Makes worktrees below one directory. A cheap handle.
#[derive(Clone)]
pub struct WorktreeProvider {
    pub(super) base: PathBuf,
    home: PathBuf,
    pub(super) mark: Mark,
    pub(super) trash: Trash,
    /// One deletion at a time: it costs the disk, nobody waits for it.
    emptying: Arc<Mutex<()>>,
    turns: Turns,
}

impl WorktreeProvider {
    /// The directory that worktrees would be left behind in, if [`WorktreeProvider::new`] began at `base` now: it had them
    /// when the service ran last, and `base` is a new one.
    pub fn left_behind(base: &Path, trash: &Path) -> Result<Option<PathBuf>, IsolationError> {
        let memory = trash.with_file_name(MEMORY);
        mark::left_behind(base, &memory).map_err(|error| IsolationError::files("reading", &memory, &error))
    }

    /// Whether [`WorktreeProvider::new`] would recognise `base`, which need not be there; writes nothing.
    pub fn look(base: &Path, trash: &Path) -> Result<(), IsolationError> {
        Mark::look(base, &trash.with_file_name(MEMORY))
    }

    /// The mark of a directory that worktrees are in.
    pub fn mark_in(base: &Path) -> Option<String> {
        mark::present(base).ok().flatten()
    }

    /// The mark of [`WorktreeProvider::base`].
    pub fn mark(&self) -> &str {
        self.mark.id()
    }

    /// Makes both directories; `trash` lies in the home. It is moved below `base` when it is on another file system.
    pub fn new(base: &Path, trash: &Path) -> Result<Self, IsolationError> {
        let base = made(base)?;
        let in_home = made(trash)?;
        let mut trash = in_home.clone();
        let memory = trash.with_file_name(MEMORY);
        let home = trash.parent().unwrap_or(&trash).to_owned();
        if !rename_works(&base, &trash)? {
            trash = made(&base.join(TRASH_BESIDE))?;
        }
        let trash = Trash::new(trash);
        // Before the mark forgets it: one that is only configured anew has no way from the former.
        let left =
            mark::left_behind(&base, &memory).map_err(|error| IsolationError::files("reading", &memory, &error))?;
        trash.refuse_others(left.iter().map(|left| left.join(TRASH_BESIDE)))?;
        let mark = Mark::of(&base, &memory)?;
        let others = mark.moved_from.iter().chain([&base]).map(|base| base.join(TRASH_BESIDE));
        trash.refuse_others(others.chain([in_home]))?;
        Ok(Self { base, home, mark, trash, emptying: Arc::default(), turns: Turns::default() })
    }

    /// Where worktrees are made, with links resolved: the spelling that git uses, too.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Where a place really is; an error when it would be elsewhere, or when the base is out of sight.
    fn place(&self, path: &Path) -> Result<PathBuf, IsolationError> {
        self.mark.check(&self.base)?;
        place::below(&self.base, path)
    }

    /// The same for a place that somebody else may have made outside of our directory.
    fn site(&self, repository: &Repository, path: &Path, maker: Maker) -> Result<Site, IsolationError> {
        match (self.place(path), maker) {
            (Err(IsolationError::Outside(_)), Maker::Others) => {
                let (home, base) = (self.home.as_path(), self.base.as_path());
                outside::admit(path, &outside::Ours { home, base, repository: repository.directory() })?;
                Ok(Site::Outside(path.to_owned()))
            }
            (place, Maker::Us | Maker::Others) => place.map(Site::Inside),
        }
    }

    /// Everything that speaks against moving the files, before they are touched. Some processes will have ended by then.
    async fn examine(
        &self,
        worktree: &Worktree,
        path: &Path,
        request: &RemoveRequest,
        ending: &[u32],
    ) -> Result<(), IsolationError> {
        match worktree.validity().await {
            Probe::Known(Validity::Valid) => {}
            Probe::Known(Validity::Missing | Validity::Broken | Validity::Foreign) => {
                return Err(IsolationError::Foreign(path.to_owned()));
            }
            Probe::Known(Validity::OwnRepository) => return Err(IsolationError::OwnRepository(path.to_owned())),
            Probe::Unknown(why) => return Err(IsolationError::Unknown(why)),
        }
        match worktree.foreign_lock().await {
            Probe::Known(None) => {}
            Probe::Known(Some(reason)) => return Err(IsolationError::Locked(reason)),
            Probe::Unknown(why) => return Err(IsolationError::Unknown(why)),
        }
        self.unused_but_by(path, ending).await?;
        worktree.refuse_held_locks(ending).await?;
        mounts::refuse(path)?;
        if certain(worktree.operation_in_progress().await)?.is_some() {
            return Err(IsolationError::Unknown(BEGUN.to_owned()));
        }
        if let Some(path) = certain(worktree.submodule_work().await)?.into_iter().next() {
            return Err(IsolationError::SubmoduleWork(path));
        }
        on_branch(worktree, &request.branch).await
    }

    pub(super) async fn unused(&self, directory: &Path) -> Result<(), IsolationError> {
        self.unused_but_by(directory, &[]).await
    }

    async fn unused_but_by(&self, directory: &Path, processes: &[u32]) -> Result<(), IsolationError> {
        let (directory, processes) = (directory.to_owned(), processes.to_owned());
        match blocking(move || Ok(in_use::user_of(&directory, &processes))).await? {
            Some(process) => Err(IsolationError::InUse(process)),
            None => Ok(()),
        }
    }

    /// Carries a change of one place to its end, even when nobody waits for it any more, and never two at once.
    async fn to_the_end<T: Send + 'static>(
        &self,
        path: PathBuf,
        change: impl Future<Output = Result<T, IsolationError>> + Send + 'static,
    ) -> Result<T, IsolationError> {
        let turns = self.turns.clone();
        let change = async move {
            let _turn = turns.take(&path).await;
            change.await
        };
        joined(tokio::spawn(change).await)
    }

    async fn create_now(
        &self,
        repository: &Repository,
        path: &Path,
        request: &CreateRequest,
    ) -> Result<Furnished, IsolationError> {
        let worktree = repository.worktree(path);
        if request.maker == Maker::Us {
            self.clear_half_made(repository, &worktree, path).await?;
        }
        if worktree.is_registered().await? {
            if !exists(path)? {
                repository.unregister(path).await?;
            } else if worktree.validity().await == Probe::Known(Validity::Valid)
                && worktree.foreign_lock().await == Probe::Known(None)
                && worktree.head().await?.branch.as_ref() == Some(&request.branch)
            {
                return match request.maker {
                    Maker::Us => {
                        repository.claim_worktree(path, &request.branch, request.uncommitted).await?;
                        furnish(&worktree, &request.furnishing).await
                    }
                    Maker::Others => self.adopt(repository, path, request).await,
                };
            }
        }
        repository.add_worktree(path, &request.branch, &request.start).await?;
        furnish(&worktree, &request.furnishing).await
    }

    /// Takes a worktree that others made under management, as it is.
    async fn adopt(
        &self,
        repository: &Repository,
        path: &Path,
        request: &CreateRequest,
    ) -> Result<Furnished, IsolationError> {
        let worktree = repository.worktree(path);
        if certain(worktree.validity().await)? != Validity::Valid {
            return Err(IsolationError::NotAdmitted("it is no worktree of this repository any more"));
        }
        repository.claim_worktree(path, &request.branch, request.uncommitted).await?;
        // It gets nothing: what is in it is its maker's choice.
        Ok(worktree.furnished().await?.unwrap_or_default())
    }

    /// Takes away a killed checkout of ours: nobody has worked in it, and git cannot finish it. Of one that was killed
    /// while git took it back, a directory without files is left, with nothing registered.
    async fn clear_half_made(
        &self,
        repository: &Repository,
        worktree: &Worktree,
        path: &Path,
    ) -> Result<(), IsolationError> {
        let deadline = Instant::now() + PATIENCE;
        while exists(path)?
            && (worktree.is_half_made().await? || worktree.validity().await == Probe::Known(Validity::Missing))
        {
            // The git of a service that was killed may still be at it, and may even come to its end.
            match self.both_unused(path, repository.directory()).await {
                Err(IsolationError::InUse(_)) if Instant::now() < deadline => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error),
                Ok(()) => {
                    self.trash.discard(path).map_err(|error| IsolationError::files("moving", path, &error))?;
                    self.empty_in_background();
                }
            }
        }
        Ok(())
    }

    async fn both_unused(&self, one: &Path, other: &Path) -> Result<(), IsolationError> {
        self.unused(one).await?;
        self.unused(other).await
    }

    async fn remove_now(
        &self,
        repository: &Repository,
        path: &Path,
        request: &RemoveRequest,
    ) -> Result<Removed, IsolationError> {
        let place = self.trash.place(request.environment);
        if exists(path)? {
            if exists(&place)? {
                return Err(half_way(&place, TAKEN));
            }
            self.examine(&repository.worktree(path), path, request, &[]).await?;
            way::relocate(path, &place).map_err(|error| IsolationError::files("moving", path, &error))?;
            tracing::debug!(target: EFFECT, { environment.id = %request.environment }, "files in the trash");
        }
        let name = request.environment.to_string();
        if let Err(error) = repository.set_apart(path, &name).await {
            // Without a registration, files at the old path would be nobody's.
            if repository.is_apart(&name)? {
                return Err(half_way(&place, error));
            }
            return Err(match put_back(&place, path) {
                Ok(()) => error.into(),
                Err(why) => half_way(&place, format!("{error}, and they cannot go back: {why}")),
            });
        }
        tracing::debug!(target: EFFECT, { environment.id = %request.environment }, "registration out");
        if !exists(&place)? {
            // There are no files to look at.
            self.forget_released_now(repository).await?;
        }
        let branch_deleted = match &request.delete_branch_at {
            Some(expected) => match repository.delete_branch(&request.branch, expected).await {
                Ok(deleted) => deleted,
                Err(error) => {
                    tracing::warn!(environment.branch = %request.branch, error = %error, "branch not deleted; it is kept");
                    false
                }
            },
            None => false,
        };
        Ok(Removed { branch_deleted, released: false })
    }

    pub(super) fn empty_in_background(&self) {
        let provider = self.clone();
        tokio::spawn(async move {
            if let Err(error) = provider.empty_trash().await {
                tracing::warn!(error = %error, "trash not emptied; the next start tries again");
            }
        });
    }
}

#[async_trait::async_trait]
impl Provider for WorktreeProvider {
    fn name(&self) -> &'static str {
        "worktree"
    }

    async fn create(&self, repository: &Repository, request: &CreateRequest) -> Result<Furnished, IsolationError> {
        let (provider, repository, request) = (self.clone(), repository.clone(), request.clone());
        match self.site(&repository, &request.path, request.maker)? {
            Site::Inside(path) => {
                self.to_the_end(path.clone(), async move { provider.create_now(&repository, &path, &request).await })
                    .await
            }
            Site::Outside(path) => {
                self.to_the_end(path.clone(), async move { provider.adopt(&repository, &path, &request).await }).await
            }
        }
    }

    async fn clear(&self, repository: &Repository, path: &Path) -> Result<(), IsolationError> {
        let (provider, repository, path) = (self.clone(), repository.clone(), self.place(path)?);
        self.to_the_end(path.clone(), async move {
            provider.clear_half_made(&repository, &repository.worktree(&path), &path).await?;
            match exists(&path)? {
                true => Ok(()),
                false => Ok(repository.unregister(&path).await?),
            }
        })
        .await
    }

    fn is_outside(&self, path: &Path) -> bool {
        matches!(place::below(&self.base, path), Err(IsolationError::Outside(_)))
    }

    async fn user_of(&self, path: &Path) -> Probe<Option<u32>> {
        let path = path.to_owned();
        blocking(move || Ok(in_use::user_of(&path, &[]))).await.into()
    }

    async fn remove(&self, repository: &Repository, request: &RemoveRequest) -> Result<Removed, IsolationError> {
        if request.maker == Maker::Others && self.is_outside(&request.path) {
            repository.release_worktree(&request.path).await?;
            return Ok(Removed { released: true, ..Removed::default() });
        }
        let removed = async {
            let path = self.place(&request.path)?;
            let (provider, repository, request) = (self.clone(), repository.clone(), request.clone());
            self.to_the_end(path.clone(), async move { provider.remove_now(&repository, &path, &request).await }).await
        };
        removed.await.map_err(|error| match error {
            IsolationError::HalfWay { .. } => error,
            // Whatever the reason: with files in the trash there is only the way on.
            error if self.removal_begun(request.environment) => half_way(&self.trash.place(request.environment), error),
            error => error,
        })
    }

    async fn would_remove(
        &self,
        repository: &Repository,
        request: &RemoveRequest,
        ending: &[u32],
    ) -> Result<(), IsolationError> {
        if request.maker == Maker::Others && self.is_outside(&request.path) {
            return Ok(());
        }
        let (path, place) = (self.place(&request.path)?, self.trash.place(request.environment));
        match exists(&place)? {
            true => Err(half_way(&place, TAKEN)),
            false => self.examine(&repository.worktree(&path), &path, request, ending).await,
        }
    }

    async fn reclaimable(&self, repository: &Repository, path: &Path) -> Result<Reclaimed, IsolationError> {
        self.reclaimable_now(repository, &self.place(path)?).await
    }

    fn caches_in_trash(&self) -> Result<Vec<(EnvironmentId, PathBuf)>, IsolationError> {
        self.trash.caches().map_err(|error| IsolationError::files("looking at", self.trash.root(), &error))
    }

    async fn reclaim(&self, repository: &Repository, request: &ReclaimRequest) -> Result<Reclaimed, IsolationError> {
        let path = self.place(&request.path)?;
        let (provider, repository, request) = (self.clone(), repository.clone(), request.clone());
        self.to_the_end(path.clone(), async move { provider.reclaim_now(&repository, &path, &request).await }).await
    }

    fn removal_begun(&self, environment: EnvironmentId) -> bool {
        // What cannot be looked at may be there: going on with a removal says so, taking it back would forget the files.
        exists(&self.trash.place(environment)).unwrap_or(true)
    }

    async fn survey(&self, path: &Path) -> Result<u64, IsolationError> {
        let path = self.place(path)?;
        blocking(move || {
            mounts::refuse(&path)?;
            match usage::survey(&path) {
                Usage { obstacle: Some((path, owner)), .. } => Err(IsolationError::NotDeletable { path, owner }),
                Usage { unseen: Some(place), .. } => {
                    Err(IsolationError::Unknown(format!("{} could not be looked at", place.display())))
                }
                Usage { freed, .. } => Ok(freed),
            }
        })
        .await
    }

    fn unlooked(&self) -> Result<Vec<EnvironmentId>, IsolationError> {
        self.trash.waiting().map_err(|error| IsolationError::files("looking at", self.trash.root(), &error))
    }

    async fn look_again(&self, repository: &Repository, look: &LastLook) -> Result<Option<CommitSha>, IsolationError> {
        let (provider, repository, look) = (self.clone(), repository.clone(), look.clone());
        self.to_the_end(
            self.trash.place(look.environment),
            async move { provider.look_again_now(&repository, &look).await },
        )
        .await
    }

    async fn release(&self, repository: &Repository, environment: EnvironmentId) -> Result<(), IsolationError> {
        self.release_now(repository, environment).await
    }

    async fn forget_released(&self, repository: &Repository) -> Result<(), IsolationError> {
        self.forget_released_now(repository).await
    }

    async fn health(&self, repository: &Repository, path: &Path, maker: Maker, stage: Stage) -> Probe<Validity> {
        let path = match self.site(repository, path, maker) {
            Ok(Site::Inside(path) | Site::Outside(path)) => path,
            Err(error) => return Probe::Unknown(error.to_string()),
        };
        let worktree = repository.worktree(path);
        let seen = worktree.validity().await;
        match (&seen, stage) {
            (Probe::Known(Validity::Broken), Stage::InTheMaking) => match worktree.is_half_made().await {
                Ok(true) => Probe::Known(Validity::Missing),
                Ok(false) => seen,
                Err(error) => Probe::Unknown(error.to_string()),
            },
            (Probe::Known(_) | Probe::Unknown(_), Stage::InTheMaking | Stage::HandedOut) => seen,
        }
    }

    async fn repair(&self, repository: &Repository, path: &Path, branch: &BranchName) -> Result<bool, IsolationError> {
        match self.place(path) {
            Ok(path) => Ok(repository.worktree(path).repair(branch).await?),
            // Nothing of ours.
            Err(IsolationError::Outside(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn has_moved(&self) -> bool {
        !self.mark.moved_from.is_empty()
    }

    fn moved(&self, path: &Path) -> Option<PathBuf> {
        let rest = self.mark.moved_from.iter().find_map(|from| path.strip_prefix(from).ok())?;
        let now = self.base.join(rest);
        // One that stayed behind is left where it is.
        let stayed = now != path && exists(path).unwrap_or(true) && !exists(&now).unwrap_or(false);
        (now != path && !stayed).then_some(now)
    }

    async fn tie_again(&self, repository: &Repository) -> Result<Ties, IsolationError> {
        match self.has_moved() {
            true => Ok(repository.tie_again(&self.mark.moved_from, &self.base).await?),
            false => Ok(Ties::default()),
        }
    }

    fn settle(&self) -> Result<(), IsolationError> {
        self.mark.remember(&self.base, &[])
    }

    async fn list(&self, repository: &Repository) -> Result<Vec<WorktreeEntry>, IsolationError> {
        let entries = repository.worktrees().await?;
        Ok(entries.into_iter().filter(|entry| !entry.bare).collect())
    }

    async fn empty_trash(&self) -> Result<(), IsolationError> {
        let _one_at_a_time = self.emptying.lock().await;
        let trash = self.trash.clone();
        blocking(move || trash.empty().map_err(|error| IsolationError::files("emptying", trash.root(), &error))).await
    }
}

pub(super) fn certain<T>(probe: Probe<T>) -> Result<T, IsolationError> {
    match probe {
        Probe::Known(answer) => Ok(answer),
        Probe::Unknown(why) => Err(IsolationError::Unknown(why)),
    }
}

async fn on_branch(worktree: &Worktree, branch: &BranchName) -> Result<(), IsolationError> {
    match worktree.head().await?.branch.as_ref() == Some(branch) {
        true => Ok(()),
        false => Err(IsolationError::OtherBranch(branch.clone())),
    }
}

/// Undoes the rename into the trash, unless the old place has been taken.
fn put_back(place: &Path, path: &Path) -> Result<(), IsolationError> {
    if !exists(place)? {
        return Ok(());
    }
    if exists(path)? {
        return Err(IsolationError::Unknown(TAKEN.to_owned()));
    }
    way::relocate(place, path).map_err(|error| IsolationError::files("putting back", place, &error))
}

fn half_way(place: &Path, why: impl ToString) -> IsolationError {
    IsolationError::HalfWay { place: place.to_owned(), why: why.to_string() }
}

pub(super) fn exists(path: &Path) -> Result<bool, IsolationError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(IsolationError::files("looking at", path, &error)),
    }
}

fn made(path: &Path) -> Result<PathBuf, IsolationError> {
    fs::create_dir_all(path)
        .and_then(|()| path.canonicalize())
        .map_err(|error| IsolationError::files("making", path, &error))
}

/// Tried, not guessed: two mounts of one file system have the same device number, and no rename between them.
fn rename_works(base: &Path, trash: &Path) -> Result<bool, IsolationError> {
    let name = format!(".probe-{}", uuid::Uuid::now_v7());
    let (from, to) = (base.join(&name), trash.join(&name));
    fs::create_dir(&from).map_err(|error| IsolationError::files("making", &from, &error))?;
    let renamed = fs::rename(&from, &to);
    let _ = fs::remove_dir(if renamed.is_ok() { &to } else { &from });
    match renamed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => Ok(false),
        Err(error) => Err(IsolationError::files("moving", &from, &error)),
    }
}

/// Runs directory walks off the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IsolationError> + Send + 'static,
) -> Result<T, IsolationError> {
    joined(tokio::task::spawn_blocking(work).await)
}

fn joined<T>(result: Result<Result<T, IsolationError>, tokio::task::JoinError>) -> Result<T, IsolationError> {
    match result {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(IsolationError::Unknown(format!("the service is stopping ({error})"))),
    }
}
