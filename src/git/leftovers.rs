//! What a killed git leaves behind: lock files, and half-written entries in the registry of worktrees. Git never removes
//! them by itself. A lock makes every later change of the same ref or index fail; a half-written entry makes every
//! `git worktree` command in the repository fail. So does the entry of a worktree that lost its way to the repository: it is
//! given that again, and never removed.
//!
//! Git holds such things for moments. One that is in our way while it is our turn, has been there for long, and that no
//! living process may hold, belongs to nobody any more.

mod holder;

use super::error::GitError;
use super::lock::is_lock;
use super::own_files::{gone, look, set_aside};
use super::registry::AdminEntry;
use super::repository::Repository;
use super::worktree::{Worktree, tie_to_repository};
use super::{blocking, place_of};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// Held from the look at a leftover's age to its removal: what stands at its place once another thread has removed it is
/// somebody's.
static REMOVING: Mutex<()> = Mutex::new(());

/// What `packed-refs` is to be, while git writes it under that one's lock; where it stands, nobody writes it any more.
const PACKED_ANEW: &str = "packed-refs.new";

const STALE: Duration = Duration::from_secs(10);
/// How long a process that may hold a leftover is waited for, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

impl Repository {
    /// After a change failed during our turn: when leftovers were in the way, waits until they are stale, removes them,
    /// and answers that another try is worth it. `admin`: the entry of the one worktree that was changed. What a living
    /// process may hold is waited for, and never removed.
    pub(super) async fn clear_leftovers(&self, admin: Option<&Path>, failure: &GitError) -> Result<bool, GitError> {
        let GitError::Failed { stderr, .. } = failure else { return Ok(false) };
        // Names of files, which git does not translate.
        if !stderr.contains(".lock") && !stderr.contains("/worktrees/") && !stderr.contains(PACKED_ANEW) {
            return Ok(false);
        }
        let (repository, admin) = (self.directory().to_owned(), admin.map(Path::to_owned));
        let scene = Scene { repository, admin, complaint: stderr.clone() };
        let ages = scene.leftovers()?.into_iter().map(|leftover| STALE.saturating_sub(leftover.age));
        let Some(wait) = ages.max() else { return Ok(false) };
        tokio::time::sleep(wait).await;
        scene.released().await?;
        blocking(move || scene.clear()).await
    }
}

impl Worktree {
    /// Before somebody works here: takes out the locks that a killed git left in this worktree's own directory of the
    /// repository, and waits until one that is young is old enough. What a living process may hold stays.
    pub async fn clear_locks(&self) -> Result<(), GitError> {
        let (repository, directory) = (self.repository().directory().to_owned(), self.entry().await?.directory);
        let found = blocking(move || {
            let mut found = Vec::new();
            locks(&directory, false, &mut found)?;
            Ok(found)
        });
        let found = found.await?;
        let Some(wait) = found.iter().map(|leftover| STALE.saturating_sub(leftover.age)).max() else { return Ok(()) };
        tokio::time::sleep(wait).await;
        blocking(move || found.iter().try_for_each(|leftover| clear_lock(&repository, &leftover.path).map(drop))).await
    }

    /// Before the worktree is taken away: an error names the process that may hold one of those locks. What a killed git left
    /// of one goes with all else; one that is young is waited for until it is known for that. What processes hold that are about
    /// to end (`ending`) does not count. Nothing is changed.
    pub async fn refuse_held_locks(&self, ending: &[u32]) -> Result<(), GitError> {
        let (files, directory) = (self.files().to_owned(), self.entry().await?.directory);
        let deadline = Instant::now() + STALE;
        loop {
            let (places, ending) = ([files.clone(), directory.clone()], ending.to_owned());
            let (young, holder) = blocking(move || lock_in_use(&places, &ending)).await?;
            match holder {
                Some((path, process)) => return Err(GitError::Held { path, process }),
                None if young && Instant::now() < deadline => tokio::time::sleep(PAUSE).await,
                None => return Ok(()),
            }
        }
    }
}

/// Whether one of a worktree's own locks is young, and who may hold one: whoever has it open, or a git at work there. `places`:
/// its files and its admin entry.
fn lock_in_use(places: &[PathBuf; 2], ending: &[u32]) -> Result<(bool, Option<(PathBuf, u32)>), GitError> {
    let mut found = Vec::new();
    locks(&places[1], false, &mut found)?;
    let young = found.iter().any(|leftover| leftover.age < STALE);
    let paths: Vec<PathBuf> = found.into_iter().map(|leftover| leftover.path).collect();
    // Looking through all processes is for the rare case that there is something to hold.
    Ok((young, if paths.is_empty() { None } else { holder::find(&paths, places, ending) }))
}

#[derive(Clone)]
struct Scene {
    repository: PathBuf,
    admin: Option<PathBuf>,
    /// What git said, which names what is in the way.
    complaint: String,
}

/// The same for one lock that is in the way of a change which is made without git, and without waiting. Answers whether it
/// is gone.
pub(super) fn clear_lock(repository: &Path, lock: &Path) -> Result<bool, GitError> {
    let _removing = REMOVING.lock().unwrap_or_else(PoisonError::into_inner);
    let meta = match fs::symlink_metadata(lock) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(GitError::file("looking at", lock, &error)),
    };
    let Leftover { path, age } = leftover(lock.to_owned(), &meta)?;
    let leftovers = [path];
    if age < STALE || holder::find(&leftovers, &grounds(repository)?, &[]).is_some() {
        return Ok(false);
    }
    // Somebody may have taken it anew since it was looked at.
    let is_same =
        |now: fs::Metadata| (now.ino(), now.ctime(), now.ctime_nsec()) == (meta.ino(), meta.ctime(), meta.ctime_nsec());
    if !fs::symlink_metadata(lock).is_ok_and(is_same) {
        return Ok(false);
    }
    clear(repository, lock)?;
    Ok(true)
}

struct Leftover {
    path: PathBuf,
    age: Duration,
}

impl Scene {
    /// Waits until no process may hold any of the leftovers.
    async fn released(&self) -> Result<(), GitError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let scene = self.clone();
            match blocking(move || scene.held()).await? {
                None => return Ok(()),
                Some(_) if Instant::now() < deadline => tokio::time::sleep(PAUSE).await,
                Some((path, process)) => return Err(GitError::Held { path, process }),
            }
        }
    }

    fn held(&self) -> Result<Option<(PathBuf, u32)>, GitError> {
        let mut leftovers: Vec<PathBuf> = self.leftovers()?.into_iter().map(|leftover| leftover.path).collect();
        leftovers.sort_by_key(|path| !self.complaint.contains(&*path.to_string_lossy()));
        Ok(holder::find(&leftovers, &grounds(&self.repository)?, &[]))
    }

    /// What appeared since nobody was seen to hold anything is young, and stays. Answers whether anything was removed, or
    /// has gone by itself.
    fn clear(&self) -> Result<bool, GitError> {
        let _removing = REMOVING.lock().unwrap_or_else(PoisonError::into_inner);
        for Leftover { path, age } in self.leftovers()? {
            if age < STALE {
                return Ok(false);
            }
            clear(&self.repository, &path)?;
        }
        Ok(true)
    }

    fn leftovers(&self) -> Result<Vec<Leftover>, GitError> {
        let mut found = Vec::new();
        locks(&self.repository, false, &mut found)?;
        let packed_anew = self.repository.join(PACKED_ANEW);
        if let Some(meta) = look(&packed_anew)? {
            found.push(leftover(packed_anew, &meta)?);
        }
        locks(&self.repository.join("refs"), true, &mut found)?;
        if let Some(admin) = &self.admin {
            locks(admin, false, &mut found)?;
        }
        for (path, meta) in entries(&self.repository.join("worktrees"))? {
            let entry = AdminEntry { directory: path };
            if meta.is_dir() && (entry.is_half_written()? || entry.is_cut_off()?) {
                found.push(leftover(entry.directory, &meta)?);
            }
        }
        Ok(found)
    }
}

/// The repository, and the directories of all its worktrees.
fn grounds(repository: &Path) -> Result<Vec<PathBuf>, GitError> {
    let entries = entries(&repository.join("worktrees"))?.into_iter();
    let files = entries.filter_map(|(directory, _)| AdminEntry { directory }.git_file());
    let worktrees = files.filter_map(|file| file.parent().map(place_of));
    Ok(worktrees.chain([repository.to_owned()]).collect())
}

fn clear(repository: &Path, path: &Path) -> Result<(), GitError> {
    if is_lock(path) {
        // Git never makes a directory there; whoever did may want what is in it. That of an index may be the only whole one.
        return match look(path)? {
            Some(meta) if meta.is_dir() || path.ends_with("index.lock") => {
                set_aside(repository, path.strip_prefix(repository).unwrap_or(path), &meta)
            }
            Some(_) => {
                tracing::warn!(path = %path.display(), "leftover of a killed git removed");
                gone(fs::remove_file(path), "removing", path)
            }
            None => Ok(()),
        };
    }
    let entry = AdminEntry { directory: path.to_owned() };
    if path.is_dir() && !entry.is_new()? {
        tracing::warn!(path = %path.display(), "registration of a worktree tied to its repository again");
        return tie_to_repository(&entry);
    }
    tracing::warn!(path = %path.display(), "leftover of a killed git removed");
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GitError::file("removing", path, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn locks(directory: &Path, deep: bool, found: &mut Vec<Leftover>) -> Result<(), GitError> {
    for (path, meta) in entries(directory)? {
        if is_lock(&path) {
            found.push(leftover(path, &meta)?);
        } else if meta.is_dir() && deep {
            locks(&path, true, found)?;
        }
    }
    Ok(())
}

/// What vanishes meanwhile was no leftover.
fn entries(directory: &Path) -> Result<Vec<(PathBuf, fs::Metadata)>, GitError> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(GitError::file("reading", directory, &error)),
    }
}

fn leftover(path: PathBuf, meta: &fs::Metadata) -> Result<Leftover, GitError> {
    let changed = meta.modified().map_err(|error| GitError::file("looking at", &path, &error))?;
    Ok(Leftover { path, age: SystemTime::now().duration_since(changed).unwrap_or_default() })
}
