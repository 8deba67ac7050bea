//! The registry of worktrees: adding one, and taking exactly one out again. Never a prune over all of them: a directory
//! that is merely out of sight for a moment must not lose its registration.

use super::copies::List;
use super::error::GitError;
use super::furnished::FURNISHED;
use super::own_files::{look, set_aside};
use super::pin::commits_of;
use super::repository::Repository;
use super::worktree::put_right;
use super::{blocking, canonical, place_of, small_file, write_whole};
use crate::model::{BranchName, CommitSha, Furnished, Probe, WorktreeStart};
use git2::Reference;
use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// The reason of our own locks. Worktrees have one from birth to removal, so that no prune drops them; a lock with any
/// other reason is somebody else's.
pub const LOCK_REASON: &str = "treewarden";

/// What becomes of somebody else's worktree that holds something uncommitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncommitted {
    /// It is not made ours.
    Refuse,
    /// It is made ours as it is.
    Keep,
}

/// Written into the admin entry when a checkout of ours is complete (gitrepository-layout(5) reserves no such name).
pub(super) const COMPLETE: &str = "treewarden-complete";

/// What git writes into a new entry before anything else (builtin/worktree.c).
const FIRST: [&str; 6] = ["locked", "gitdir", "commondir", "HEAD", "HEAD.lock", "refs"];

/// One `worktrees/<id>` directory of the canonical repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AdminEntry {
    pub directory: PathBuf,
}

impl AdminEntry {
    /// The lock's reason, when there is a lock.
    pub fn lock(&self) -> Result<Option<String>, GitError> {
        let path = self.directory.join("locked");
        match small_file(&path) {
            Ok(reason) => Ok(Some(String::from_utf8_lossy(&reason).trim_end().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(GitError::file("reading", &path, &error)),
        }
    }

    /// A checkout that was begun by us and killed before its end: without an index and without our mark. A worktree that
    /// was handed out has the mark, unless somebody took it away.
    pub fn is_half_made(&self) -> Result<bool, GitError> {
        let missing = |name| Ok::<_, GitError>(look(&self.directory.join(name))?.is_none());
        Ok(missing("index")? && missing(COMPLETE)? && self.lock()?.as_deref() == Some(LOCK_REASON))
    }

    /// Whether git took out a part of what makes it one.
    fn is_torn(&self) -> Result<bool, GitError> {
        for name in ["gitdir", "HEAD", "commondir"] {
            if look(&self.directory.join(name))?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether it has nothing but what git writes first, and holds no commit. All others have had all of their ties once,
    /// whatever has become of them.
    pub fn is_new(&self) -> Result<bool, GitError> {
        let files = fs::read_dir(&self.directory).and_then(|files| files.collect::<io::Result<Vec<_>>>());
        let files = files.map_err(|error| GitError::file("reading", &self.directory, &error))?;
        let is_first = |file: fs::DirEntry| FIRST.iter().any(|name| file.file_name() == *name);
        Ok(files.into_iter().all(is_first) && commits_of(self)?.is_empty())
    }

    /// Says that it was handed out, for whoever knows it from elsewhere.
    pub fn hand_out(&self) -> Result<(), GitError> {
        let mark = self.directory.join(COMPLETE);
        match fs::OpenOptions::new().write(true).create_new(true).open(&mark) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(GitError::file("writing", &mark, &error)),
        }
    }

    /// Git itself cannot use it, and stumbles over it: a creation that was killed in its first moments.
    pub fn is_half_written(&self) -> Result<bool, GitError> {
        Ok(!["commondir", "gitdir", "HEAD"].into_iter().all(|name| self.has(name)) && self.is_new()?)
    }

    /// The same of one in which somebody worked: with the power, or by a hand, it lost its way to the repository.
    pub fn is_cut_off(&self) -> Result<bool, GitError> {
        Ok(!self.has("commondir") && !self.is_new()?)
    }

    pub fn has(&self, name: &str) -> bool {
        fs::metadata(self.directory.join(name)).is_ok_and(|meta| meta.len() > 0)
    }

    /// Whether there is anything where git keeps the repositories of its submodules, which go with it.
    pub fn has_submodules(&self) -> Result<bool, GitError> {
        let modules = self.directory.join("modules");
        match look(&modules)? {
            Some(meta) if meta.is_dir() => {
                let mut inside = fs::read_dir(&modules).map_err(|error| GitError::file("reading", &modules, &error))?;
                Ok(inside.next().is_some())
            }
            other => Ok(other.is_some()),
        }
    }

    /// What its HEAD says, on one line; git may write the name of a ref as a link. Absent: nothing that git takes for a
    /// HEAD, as a loss of power leaves it.
    pub fn head_line(&self) -> Result<Option<String>, GitError> {
        let path = self.directory.join("HEAD");
        let bytes = match fs::read_link(&path) {
            Ok(target) => [b"ref: ", target.as_os_str().as_bytes()].concat(),
            Err(_) => match small_file(&path) {
                Ok(bytes) => bytes,
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                    return Ok(None);
                }
                Err(error) => return Err(GitError::file("reading", &path, &error)),
            },
        };
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        let good = match line.strip_prefix("ref:").map(str::trim_start) {
            Some(name) => name.starts_with("refs/") && !name.contains('\0') && Reference::is_valid_name(name),
            None => CommitSha::new(&line).is_ok(),
        };
        Ok(good.then_some(line))
    }

    /// Where the worktree's `.git` file is, as registered.
    pub fn git_file(&self) -> Option<PathBuf> {
        let mut bytes = small_file(&self.directory.join("gitdir")).ok()?;
        while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            bytes.pop();
        }
        // Git may write it relative to the entry.
        Some(self.directory.join(OsString::from_vec(bytes)))
    }

    /// Whether this entry is registered for the worktree at `place` (see [`place_of`]).
    fn is_for(&self, place: &Path) -> bool {
        let registered = self.git_file().filter(|file| file.file_name() == Some(".git".as_ref()));
        registered.and_then(|file| file.parent().map(place_of)).as_deref() == Some(place)
    }
}

/// The entry for a worktree at `path`. Costs no process, and no search when the worktree's `.git` file and the entry
/// name each other.
pub(super) fn find(repository: &Path, path: &Path) -> Result<Option<AdminEntry>, GitError> {
    let registry = repository.join("worktrees");
    let place = place_of(path);
    if let Some(directory) = linked_from(path).filter(|directory| directory.parent() == Some(&registry)) {
        let entry = AdminEntry { directory };
        if entry.is_for(&place) {
            return Ok(Some(entry));
        }
    }
    search(&registry, &place)
}

/// The admin entry that a worktree's `.git` file names.
pub(super) fn linked_from(path: &Path) -> Option<PathBuf> {
    let file = path.join(".git");
    if !fs::symlink_metadata(&file).ok()?.is_file() {
        return None;
    }
    let mut bytes = small_file(&file).ok()?.strip_prefix(b"gitdir: ")?.to_vec();
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    Some(canonical(&path.join(OsString::from_vec(bytes))))
}

/// Whether nothing that leads anywhere stands at the place of a worktree's `.git` file: no file, one that says nothing, a
/// pipe, a link to none of somebody's directories.
pub(super) fn is_cut(path: &Path) -> Result<bool, GitError> {
    let file = path.join(".git");
    Ok(match look(&file)? {
        None => true,
        Some(meta) if meta.is_file() => match small_file(&file) {
            Ok(text) => !text.starts_with(b"gitdir: "),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => true,
            Err(error) => return Err(GitError::file("reading", &file, &error)),
        },
        Some(_) => !file.is_dir(),
    })
}

/// Looks through all entries; two for one place are a doubt.
fn search(registry: &Path, place: &Path) -> Result<Option<AdminEntry>, GitError> {
    let mut found = None;
    for entry in entries(registry)? {
        if entry.is_for(place) && found.replace(entry).is_some() {
            return Err(GitError::Unreadable(format!("{} is registered twice", place.display())));
        }
    }
    Ok(found)
}

/// Whether some worktree is on the branch.
pub(super) fn is_checked_out(repository: &Path, branch: &BranchName) -> Result<bool, GitError> {
    let line = head_on(branch);
    for entry in entries(&repository.join("worktrees"))? {
        if entry.head_line()?.is_some_and(|head| head == line) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What HEAD of a worktree on the branch says.
fn head_on(branch: &BranchName) -> String {
    format!("ref: {}", branch.full_ref())
}

/// What is no directory there is none: git passes over it, too.
pub(super) fn entries(registry: &Path) -> Result<Vec<AdminEntry>, GitError> {
    let entries = match fs::read_dir(registry) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| AdminEntry { directory: entry.path() })).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let mut entries: Vec<_> = entries.map_err(|error| GitError::file("reading", registry, &error))?;
    entries.retain(|entry| entry.directory.is_dir());
    Ok(entries)
}

impl Repository {
    /// Whether some worktree may be at `place` or on the branch, so that [`Repository::worktrees`] is worth its process. An
    /// entry whose HEAD says nothing is a yes.
    pub async fn may_have_worktree(&self, place: &Path, branch: Option<&BranchName>) -> Result<bool, GitError> {
        let (place, head) = (place_of(place), branch.map(head_on));
        let directory = self.directory().to_owned();
        blocking(move || {
            for entry in entries(&directory.join("worktrees"))? {
                let on_branch = match (entry.head_line()?, &head) {
                    (Some(line), Some(head)) => line == *head,
                    (Some(_), None) => false,
                    (None, _) => true,
                };
                if on_branch || entry.is_for(&place) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .await
    }

    /// Adds a worktree with a full checkout, locked, without an upstream (see [`Repository::set_upstream`]). An existing path
    /// with content is left alone; what a failed try made is undone.
    pub async fn add_worktree(&self, path: &Path, branch: &BranchName, start: &WorktreeStart) -> Result<(), GitError> {
        let (repository, path, branch, start) = (self.clone(), path.to_owned(), branch.clone(), start.clone());
        self.to_the_end(async move { repository.add(&path, &branch, &start).await }).await
    }

    async fn add(&self, path: &Path, branch: &BranchName, start: &WorktreeStart) -> Result<(), GitError> {
        let _turn = self.turn().await;
        refuse_content(path)?;
        let full = branch.full_ref();
        let present = self.tip(&full).await?;
        let new_at = match (start, present) {
            (WorktreeStart::NewBranch(sha), None) => Some(sha),
            (WorktreeStart::NewBranch(sha), Some(tip)) if *sha != tip => {
                return Err(GitError::refused(format!("the branch {branch} exists already, at another commit")));
            }
            (WorktreeStart::Existing, None) => return Err(GitError::NotFound(format!("the branch {branch}"))),
            (WorktreeStart::NewBranch(_) | WorktreeStart::Existing, Some(_)) => None,
        };
        let mut result = self.try_add(path, branch, new_at).await;
        // Other git processes that add or remove at this moment have half-written entries, which git stumbles over.
        if matches!(&result, Err(GitError::Failed { stderr, .. }) if stderr.contains("/worktrees/")) {
            result = self.try_add(path, branch, new_at).await;
        }
        match result {
            Err(error) if self.clear_leftovers(None, &error).await? => self.try_add(path, branch, new_at).await,
            result => result,
        }
    }

    async fn try_add(&self, path: &Path, branch: &BranchName, new_at: Option<&CommitSha>) -> Result<(), GitError> {
        self.restore_way(&branch.full_ref()).await?;
        let call = self.call("worktree add").await?.slow();
        let call = call.args(["--quiet", "--lock", "--reason", LOCK_REASON, "--no-guess-remote"]);
        let call = match new_at {
            Some(sha) => {
                let call = call.args(["--no-track", "-b", branch.as_str(), "--end-of-options"]);
                call.arg(path).arg(sha.as_str())
            }
            None => call.arg("--end-of-options").arg(path).arg(branch.as_str()),
        };
        let error = match call.ok().await {
            Ok(_) => {
                // An earlier one of that name may have got some.
                List::of(self.directory(), path).forget()?;
                return self.mark_complete(path).await;
            }
            Err(error) => error,
        };
        if let Some(sha) = new_at
            && self.tip(&branch.full_ref()).await?.is_some()
            && find(self.directory(), path)?.is_none()
            && !self.delete_ref_in_turn(&branch.full_ref(), sha).await?
        {
            tracing::warn!(environment.branch = %branch, "branch of a failed creation has moved and stays");
        }
        Err(error)
    }

    /// Makes a worktree on `branch` that somebody else added one of ours: locked for our reason, so that no prune drops it.
    /// One that is ours already stays as it is; another's lock, another branch, a merge or the like under way, or anything
    /// uncommitted that is not to be kept, is a refusal.
    pub async fn claim_worktree(
        &self,
        path: &Path,
        branch: &BranchName,
        uncommitted: Uncommitted,
    ) -> Result<(), GitError> {
        let (repository, path, branch) = (self.clone(), path.to_owned(), branch.clone());
        self.to_the_end(async move {
            let _turn = repository.turn().await;
            let entry = entry_of(repository.directory(), &path)?;
            match entry.lock()?.as_deref() {
                Some(LOCK_REASON) => Ok(()),
                Some(reason) => Err(GitError::refused(format!("the worktree is locked by somebody else: {reason}"))),
                None => {
                    let worktree = repository.worktree(&path);
                    let on_branch = worktree.head().await?.branch.as_ref() == Some(&branch);
                    let finished = worktree.operation_in_progress().await == Probe::Known(None);
                    let unused = match (worktree.status().await, uncommitted) {
                        (Probe::Known(status), Uncommitted::Refuse) => status.is_clean(),
                        (Probe::Known(status), Uncommitted::Keep) => status.conflicted == 0,
                        (Probe::Unknown(_), _) => false,
                    };
                    if !on_branch || !finished || !unused {
                        return Err(GitError::refused(format!("{} is in use by somebody", path.display())));
                    }
                    // It gets nothing more: what is in it is its maker's choice.
                    worktree.mark_furnished(&Furnished::default()).await?;
                    repository.mark_complete(&path).await?;
                    let call = repository.call("worktree lock").await?.args(["--reason", LOCK_REASON]);
                    call.arg("--end-of-options").arg(&path).ok().await.map(drop)
                }
            }
        })
        .await
    }

    /// Lets go of a worktree that somebody else made and [`Repository::claim_worktree`] made one of ours: our lock and our
    /// marks go, files and registration stay. Not registered, or not locked by us: nothing is done.
    pub async fn release_worktree(&self, path: &Path) -> Result<(), GitError> {
        let (repository, path) = (self.clone(), path.to_owned());
        self.to_the_end(async move {
            let _turn = repository.turn().await;
            let Some(entry) = find(repository.directory(), &path)? else { return Ok(()) };
            if entry.lock()?.as_deref() != Some(LOCK_REASON) {
                return Ok(());
            }
            for mark in [COMPLETE, FURNISHED].map(|name| entry.directory.join(name)) {
                match fs::remove_file(&mark) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(GitError::file("removing", &mark, &error)),
                }
            }
            repository.change_registry("worktree unlock", &path).await
        })
        .await
    }

    async fn mark_complete(&self, path: &Path) -> Result<(), GitError> {
        let (repository, path) = (self.directory().to_owned(), path.to_owned());
        blocking(move || {
            let entry = entry_of(&repository, &path)?;
            let mark = entry.directory.join(COMPLETE);
            write_whole(&mark, b"")
        })
        .await
    }

    /// Takes the entry for `path`, whose directory must be gone, out of the registry: just this one, and only when the
    /// lock on it is ours. Nothing registered is fine; afterwards git's own list is asked.
    pub async fn unregister(&self, path: &Path) -> Result<(), GitError> {
        let (repository, path) = (self.clone(), path.to_owned());
        self.to_the_end(async move { repository.take_out(&path).await }).await
    }

    async fn take_out(&self, path: &Path) -> Result<(), GitError> {
        let _turn = self.turn().await;
        let Some(entry) = find(self.directory(), path)? else { return Ok(()) };
        if fs::symlink_metadata(path).is_ok() {
            return Err(GitError::PathExists(path.to_owned()));
        }
        if entry.is_half_made()? {
            // Git may not even be able to read it.
            self.set_entry_aside(&entry).await?;
            return List::of(self.directory(), path).forget();
        }
        put_right(&entry)?;
        self.pin_in_turn(&entry).await?;
        match entry.lock()? {
            Some(reason) if reason != LOCK_REASON => {
                return Err(GitError::refused(format!("the worktree is locked by somebody else: {reason}")));
            }
            Some(_) => self.change_registry("worktree unlock", path).await?,
            None => {}
        }
        match entry.has_submodules()? {
            // Git asks what they hold only while their files are there, and deletes them.
            true => self.set_entry_aside(&entry).await?,
            false => self.let_git_remove(&entry, path).await?,
        }
        List::of(self.directory(), path).forget()?;
        if let Err(error) = self.write_excludes_in_turn().await {
            tracing::warn!(error = %error, "paths of files copied into worktrees not written; the next change does so");
        }
        match self.worktrees_in_turn().await?.iter().any(|entry| entry.is_at(path)) {
            false => Ok(()),
            true => Err(GitError::refused(format!("git still lists {} after its removal", path.display()))),
        }
    }

    async fn let_git_remove(&self, entry: &AdminEntry, path: &Path) -> Result<(), GitError> {
        // Without force: should a directory have appeared, git examines it and refuses.
        match self.change_registry("worktree remove", path).await {
            // Killed in the middle of it, git leaves what nobody can use again; what it held is pinned.
            Err(_) if entry.is_torn()? => self.set_entry_aside(entry).await,
            outcome => outcome,
        }
    }

    /// Takes one out of git's way, with all that it may hold.
    pub(super) async fn set_entry_aside(&self, entry: &AdminEntry) -> Result<(), GitError> {
        self.pin_in_turn(entry).await?;
        let (repository, directory) = (self.directory().to_owned(), entry.directory.clone());
        tracing::warn!(path = %directory.display(), "registration of a worktree set aside, with what it may hold");
        blocking(move || match look(&directory)? {
            Some(meta) => set_aside(&repository, directory.strip_prefix(&repository).unwrap_or(&directory), &meta),
            None => Ok(()),
        })
        .await
    }

    async fn change_registry(&self, command: &str, path: &Path) -> Result<(), GitError> {
        match self.try_change(command, path).await {
            Err(error) if self.clear_leftovers(None, &error).await? => self.try_change(command, path).await,
            result => result,
        }
    }

    async fn try_change(&self, command: &str, path: &Path) -> Result<(), GitError> {
        self.call(command).await?.arg("--end-of-options").arg(path).ok().await.map(drop)
    }
}

/// The entry for `path`, which must exist.
pub(super) fn entry_of(repository: &Path, path: &Path) -> Result<AdminEntry, GitError> {
    find(repository, path)?.ok_or_else(|| GitError::NotFound(format!("a worktree registered at {}", path.display())))
}

/// Git itself takes an empty directory; anything else at the path is somebody's.
fn refuse_content(path: &Path) -> Result<(), GitError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(GitError::file("looking at", path, &error)),
        Ok(meta) if meta.is_dir() => match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(GitError::PathExists(path.to_owned())),
            Err(error) => Err(GitError::file("looking at", path, &error)),
        },
        Ok(_) => Err(GitError::PathExists(path.to_owned())),
    }
}
