//! Everything the service does with git: canonical repositories and the worktrees linked to them.
//!
//! The git program writes, libgit2 reads refs and history in process (it runs nothing). Processes are started in
//! [`command`] only, with an environment of our own, so that nothing a repository or an agent can write is executed.
//! No policy lives here: a method answers a question or carries out one change that refuses rather than loses.
//!
//! Changes to one canonical repository go through one queue, whoever holds a handle; fetches that wait are merged.
//! Answers that a removal rests on are [`crate::model::Probe`]s: git failing, or warning, is a doubt and never a "no".

mod addresses;
mod askpass;
mod bare;
mod broken_refs;
mod case;
mod command;
mod config;
mod copies;
mod error;
mod fetch;
mod file;
mod furnished;
mod history;
mod leftovers;
mod lfs;
mod lfs_commits;
mod limited;
mod list;
mod lock;
mod loose_objects;
mod main_repository;
mod maintenance;
mod merge;
mod mode;
mod moved;
mod needs;
mod new_files;
mod outside;
mod own_files;
mod packs;
mod pin;
mod pipes;
mod place;
mod push;
mod refs;
mod registry;
mod remote_url;
mod removed;
mod repository;
mod scratch;
mod standing;
mod stash;
mod strays;
mod submodules;
mod whole;
mod worktree;

pub use crate::model::Credential;
pub use bare::LooksBare;
pub use command::PATH as SEARCHED;
pub use config::address_of;
pub use error::GitError;
pub use fetch::FetchRequest;
pub use file::{Content, FileAt};
pub use history::{CommitInfo, DiffStat};
pub use list::WorktreeEntry;
pub use moved::Ties;
pub use outside::Outside;
pub use push::{PushOutcome, Rejection};
pub use registry::{LOCK_REASON, Uncommitted};
pub use repository::{Repository, Restored};
pub use standing::{Ends, Merging, Standing};
pub use strays::Traces;
pub use worktree::{CommitRequest, Head, Ident, Ignored, Status, Worktree};

use crate::plain_file::{self, Links};
use command::{Place, Program};
use remote_url::RemoteUrl;
use repository::Shared;
use secrecy::SecretString;
use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

/// The oldest git whose `merge-tree --write-tree` and `worktree add --lock --reason` do what is relied on.
pub const OLDEST: (u32, u32) = (2, 39);

/// Counting the commits of the largest histories takes seconds.
const READ_LIMIT: Duration = Duration::from_secs(60);

/// Longer than nearly all that is asked.
const PIPE_PAUSE: Duration = Duration::from_secs(5);

/// Longest of git's own one-line files.
const SMALL: u64 = 4096;

/// More than any file that git or libgit2 reads as a whole: an index of some five million files.
const LARGEST: u64 = 512 * 1024 * 1024;

/// How git is run.
#[derive(Clone, Debug)]
pub struct GitSettings {
    /// A path, or a name looked up in the usual places.
    pub program: PathBuf,
    /// Git LFS, likewise; where it is missing, its files stay pointers.
    pub lfs: PathBuf,
    /// A directory of the service's own for the askpass script, the empty configuration and scratch files.
    pub state: PathBuf,
    /// Local paths are allowed as remotes (tests, mirrors on the same disk).
    pub local_remotes: bool,
    /// Nothing in a repository is changed, not even to put it right. What git cannot be let into as it is, is an error.
    pub looks_only: bool,
    /// The environment's variables about proxies. Nothing else of it reaches git.
    pub proxy: Vec<(String, SecretString)>,
    /// How long one question to a repository may take that is answered in this process.
    pub read_limit: Duration,
    /// How long something may take before it is looked for pipes at which it waits.
    pub pipe_pause: Duration,
    /// Whether names that differ in case only are one on the disk; `None`: the disk is asked.
    pub folds_case: Option<bool>,
}

impl GitSettings {
    pub fn new(program: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            lfs: "git-lfs".into(),
            state: state.into(),
            local_remotes: false,
            looks_only: false,
            proxy: Vec::new(),
            read_limit: READ_LIMIT,
            pipe_pause: PIPE_PAUSE,
            folds_case: None,
        }
    }
}

/// The git program and what is known about repositories in this process. A cheap handle; all clones are one.
#[derive(Clone)]
pub struct Git {
    inner: Arc<Inner>,
}

struct Inner {
    program: Program,
    read_limit: Duration,
    local_remotes: bool,
    looks_only: bool,
    /// The disk takes names that differ in case only for one. It is that of the repositories, too.
    folds_case: bool,
    /// By canonical path, so that two spellings of one place share one queue.
    repositories: Mutex<HashMap<PathBuf, Weak<Shared>>>,
}

impl Git {
    /// Prepares the state directory; starts nothing.
    pub fn new(settings: GitSettings) -> Result<Self, GitError> {
        let files = askpass::prepare(&settings.state)?;
        scratch::clear_leftovers(&files.scratch, std::time::SystemTime::now());
        let folds_case = match settings.folds_case {
            Some(known) => known,
            None => case::is_folded(&files.scratch)?,
        };
        let program = Program {
            program: command::resolve(&settings.program),
            lfs: Some(command::resolve(&settings.lfs)).filter(|program| program.is_file()),
            files,
            proxy: settings.proxy,
            pipe_pause: settings.pipe_pause,
            transports: if settings.local_remotes { "https:http:file" } else { "https:http" },
        };
        let GitSettings { local_remotes, looks_only, read_limit, .. } = settings;
        let inner =
            Inner { program, read_limit, local_remotes, looks_only, folds_case, repositories: Mutex::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The program's version, as in `2.47.3`; an error when it is too old.
    pub async fn version(&self) -> Result<String, GitError> {
        let output = self.inner.program.call(&Place::Nowhere, "version").ok().await?;
        let text = String::from_utf8_lossy(&output);
        let version = text.split_whitespace().nth(2).unwrap_or_default().to_owned();
        let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(version),
            _ => {
                let (major, minor) = OLDEST;
                Err(GitError::refused(format!("git {major}.{minor} or newer is needed, this is {version:?}")))
            }
        }
    }

    /// A handle on the canonical repository at `directory`, which need not exist yet.
    pub fn repository(&self, directory: impl AsRef<Path>) -> Repository {
        self.handle(directory.as_ref(), None)
    }

    /// The same for a copy of the repository at `origin` on this machine: with that one git speaks, whatever a
    /// configuration says, and with no other.
    pub fn repository_of(&self, directory: impl AsRef<Path>, origin: &Path) -> Repository {
        self.handle(directory.as_ref(), RemoteUrl::local(&origin.to_string_lossy()).ok())
    }

    fn handle(&self, directory: &Path, origin: Option<RemoteUrl>) -> Repository {
        let directory = canonical(directory);
        let mut known = self.inner.repositories.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, shared| shared.strong_count() > 0);
        let shared = match known.get(&directory).and_then(Weak::upgrade) {
            Some(shared) => shared,
            None => {
                let shared = Arc::new(Shared::new(directory.clone(), origin));
                known.insert(directory, Arc::downgrade(&shared));
                shared
            }
        };
        Repository::new(self.clone(), shared)
    }

    fn program(&self) -> &Program {
        &self.inner.program
    }
}

/// The path with every link on the way resolved, as far as it exists.
fn canonical(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => canonical(parent).join(name),
        _ => path.to_owned(),
    }
}

/// The one spelling of a place whose last part may be missing, or be a link, which is not followed.
fn place_of(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => canonical(parent).join(name),
        _ => canonical(path),
    }
}

/// A file of git's own that has a line or two. Agents can write there: links, pipes and anything long are refused.
fn small_file(path: &Path) -> io::Result<Vec<u8>> {
    plain_file(path, SMALL)
}

/// A plain file that agents can replace by anything: links and pipes are refused, and more than `most` bytes.
fn plain_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    plain_file::read(path, Links::Refuse, most)
}

/// The same, still to be read, with its length.
fn open_plain(path: &Path, most: u64) -> io::Result<(fs::File, u64)> {
    let file = plain_file::open(path, Links::Refuse)?;
    match file.metadata()?.len() {
        length if length > most => Err(io::ErrorKind::InvalidData.into()),
        length => Ok((file, length)),
    }
}

/// Before something reads a file as a whole, or waits at it, that agents can replace by anything; links are followed. One
/// that is not there is fine.
fn refuse_large(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() && meta.len() > LARGEST => Err(io::ErrorKind::FileTooLarge.into()),
        // A socket cannot be opened, and so nobody waits at it.
        Ok(meta) if meta.is_file() || meta.is_dir() || meta.file_type().is_socket() => Ok(()),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes beside and renames: there is never half a file. Among refs, git takes what is called a lock for no ref.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), GitError> {
    put_whole(path, |new| fs::write(new, bytes))
}

/// The same, on the disk when it answers, with the directories it is in: its content before its name.
fn write_down(path: &Path, bytes: &[u8]) -> Result<(), GitError> {
    let on_disk = |written: &Path| fs::File::open(written).and_then(|file| file.sync_all());
    put_whole(path, |new| fs::write(new, bytes).and_then(|()| on_disk(new)))?;
    let above = path.ancestors().skip(1).take(2);
    above.into_iter().try_for_each(on_disk).map_err(|error| GitError::file("writing", path, &error))
}

fn put_whole(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), GitError> {
    let new = path.with_extension(format!("{}.lock", uuid::Uuid::now_v7()));
    write(&new).and_then(|()| fs::rename(&new, path)).map_err(|error| {
        let _ = fs::remove_file(&new);
        GitError::file("writing", path, &error)
    })
}

/// A file as it was when it was looked at. Whoever writes it changes this: nobody sets the time of a file's last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    /// Seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let meta = fs::symlink_metadata(path).ok()?;
        Some(Self { inode: meta.ino(), length: meta.len(), changed: (meta.ctime(), meta.ctime_nsec()) })
    }
}

/// Runs blocking work (libgit2, directory walks) off the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GitError> + Send + 'static,
) -> Result<T, GitError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(GitError::Unreadable(error.to_string())),
    }
}
