//! One worktree, always addressed by its admin entry and its files, never by what a `.git` file in it says: that file,
//! like everything in the directory, may have been replaced by an agent.

mod caches;
mod commit;
mod contents;
mod entry;
mod hazards;
mod index;
mod keepsake;
mod reclaim;
mod repair;
mod status;
mod withheld;

pub(super) use caches::is_cache_inside;
pub(super) use commit::is_there;
pub use commit::{CommitRequest, Ident};
pub(super) use contents::{
    submodule_holds_only, submodule_repository_has_commits, submodule_repository_in_use, submodules_inside,
};
pub(super) use entry::{LOGS, odd_logs, put_right, put_ties_right, take_out, tie_to_repository};
pub(super) use index::blob_of;
pub use keepsake::Ignored;
pub(super) use repair::rewrite;
pub use status::Status;
pub(super) use status::{path_of, quiet};

use super::command::Call;
use super::copies::{List, Manifest};
use super::error::GitError;
use super::history::sha;
use super::pipes::Workplace;
use super::registry::{self, AdminEntry};
use super::repository::Repository;
use super::{blocking, broken_refs, canonical, own_files, refuse_large, removed, small_file};
use crate::model::{BranchName, CommitSha, Probe, Validity};
use git2::{ErrorCode, ReferenceType, RepositoryOpenFlags};
use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

/// A handle on one worktree of a canonical repository. Making one looks at nothing.
#[derive(Clone)]
pub struct Worktree {
    repository: Repository,
    /// The path it is registered under.
    path: PathBuf,
    /// Where its files are; another place only while it is being removed.
    files: PathBuf,
    /// Its entry and its list, where it is out of the registry.
    apart: Option<(PathBuf, List)>,
}

/// What a worktree has checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Absent when detached, or on a branch whose name we would not use.
    pub branch: Option<BranchName>,
    /// Absent when the branch has no commit yet.
    pub sha: Option<CommitSha>,
}

impl Worktree {
    pub(super) fn new(repository: Repository, path: PathBuf) -> Self {
        Self { repository, files: path.clone(), path, apart: None }
    }

    /// The same worktree with its files at another place, and its entry out of the registry.
    pub(super) fn apart(self, files: PathBuf, entry: PathBuf, list: List) -> Self {
        Self { files, apart: Some((entry, list)), ..self }
    }

    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Where its files are.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// Where it is written down what was copied into it.
    pub(super) fn list(&self) -> List {
        match &self.apart {
            Some((_, list)) => list.clone(),
            None => List::of(self.repository.directory(), &self.path),
        }
    }

    /// The same for all worktrees that its branch ever had; absent where it is on none.
    pub(super) async fn list_of_branch(&self) -> Result<Option<List>, GitError> {
        let branch = self.head().await?.branch;
        Ok(branch.map(|branch| List::of_branch(self.repository.directory(), &branch)))
    }

    /// By their paths, all copies that may be here, or in commits of its branch.
    pub(super) async fn copies_of_branch(&self) -> Result<Manifest, GitError> {
        let (own, of_branch) = (self.list(), self.list_of_branch().await?);
        blocking(move || {
            let more = of_branch.map(|list| list.load()).transpose()?;
            Ok(own.load()?.with(more.unwrap_or_default()))
        })
        .await
    }

    /// A failure here, in words for people elsewhere: without where things are on this machine.
    pub fn told_outside(&self, error: &GitError) -> String {
        error.told_outside(&self.files)
    }

    /// Whether directory and registration exist and belong together and to this repository. Starts no process.
    pub async fn validity(&self) -> Probe<Validity> {
        self.known_validity().await.into()
    }

    async fn known_validity(&self) -> Result<Validity, GitError> {
        let (repository, path) = (self.repository.directory().to_owned(), self.path.clone());
        blocking(move || validity(&repository, &path)).await
    }

    /// Whether a lock that is not ours is on it, with its reason. Starts no process.
    pub async fn foreign_lock(&self) -> Probe<Option<String>> {
        let entry = self.entry().await.and_then(|entry| entry.lock());
        Probe::from(entry).map(|lock| lock.filter(|reason| reason != registry::LOCK_REASON))
    }

    /// Whether this looks like what a killed creation of ours left. Nobody has worked in that, unless it was handed out, which
    /// whoever keeps the records knows: what says so here can be taken away. Starts no process.
    pub async fn is_half_made(&self) -> Result<bool, GitError> {
        let (repository, path) = (self.repository.directory().to_owned(), self.path.clone());
        blocking(move || match registry::find(&repository, &path)? {
            Some(entry) => Ok(!is_own_repository(&path)? && entry.is_half_made()?),
            None => Ok(false),
        })
        .await
    }

    /// Whether anything is registered under its path. Starts no process.
    pub async fn is_registered(&self) -> Result<bool, GitError> {
        let (repository, path) = (self.repository.directory().to_owned(), self.path.clone());
        blocking(move || Ok(registry::find(&repository, &path)?.is_some())).await
    }

    /// The branch and commit it is on. Starts no process.
    pub async fn head(&self) -> Result<Head, GitError> {
        let (entry, common) = (self.entry().await?, self.repository.directory().to_owned());
        let (place, workplace) = (entry.directory.clone(), Workplace { repository: Some(common.clone()), files: None });
        let question = move || broken_refs::mending(&common, || head_of(&entry));
        self.repository.within_limit(&place, workplace, question).await
    }

    /// Its admin entry, which must be this repository's own.
    pub(super) async fn entry(&self) -> Result<AdminEntry, GitError> {
        let (repository, path) = (self.repository.directory().to_owned(), self.path.clone());
        let apart = self.apart.clone();
        blocking(move || {
            let entry = match apart {
                Some((directory, _)) => removed::entry_at(directory)?,
                None => registry::entry_of(&repository, &path)?,
            };
            match belongs(&entry, &repository) {
                true => Ok(entry),
                false => Err(GitError::refused(format!("{} was turned to another repository", path.display()))),
            }
        })
        .await
    }

    /// A git call on its files.
    async fn call(&self, entry: &AdminEntry, name: &str) -> Result<Call<'_>, GitError> {
        if !self.files.is_dir() {
            return Err(GitError::NotFound(self.files.display().to_string()));
        }
        self.repository.call_in(&entry.directory, &self.files, name).await
    }

    /// The same with another index than the worktree's own, if given.
    pub(super) async fn indexed(
        &self,
        entry: &AdminEntry,
        name: &str,
        index: Option<&Path>,
    ) -> Result<Call<'_>, GitError> {
        let call = self.call(entry, name).await?;
        Ok(match index {
            Some(index) => call.env("GIT_INDEX_FILE", index),
            None => call,
        })
    }
}

fn head_of(entry: &AdminEntry) -> Result<Head, GitError> {
    for name in ["HEAD", "config.worktree"] {
        let path = entry.directory.join(name);
        refuse_large(&path).map_err(|error| GitError::file("reading", &path, &error))?;
    }
    let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::NO_DOTGIT;
    let repository = git2::Repository::open_ext(&entry.directory, flags, &[] as &[&OsStr])?;
    let head = repository.find_reference("HEAD")?;
    let target = head.symbolic_target()?;
    if let Some(name) = target
        && repository.find_reference(name).is_ok_and(|branch| branch.kind() == Some(ReferenceType::Symbolic))
    {
        return Err(GitError::Unreadable(format!("{name} is another name of a branch")));
    }
    let branch = target.and_then(|name| name.strip_prefix("refs/heads/"));
    let sha = match head.peel_to_commit() {
        Ok(commit) => Some(sha(commit.id())?),
        Err(error) if error.code() == ErrorCode::NotFound || error.code() == ErrorCode::UnbornBranch => {
            let target = head.resolve().ok().and_then(|reference| reference.target());
            if target.is_some_and(|target| target.is_zero()) {
                return Err(GitError::Unreadable(error.message().to_owned()));
            }
            None
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Head { branch: branch.and_then(|name| BranchName::new(name).ok()), sha })
}

/// The entry's `commondir` leads back to the repository it lies in.
fn belongs(entry: &AdminEntry, repository: &Path) -> bool {
    let common = small_file(&entry.directory.join("commondir")).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    common.is_some_and(|common| canonical(&entry.directory.join(common.trim_end())) == repository)
}

/// Only a directory without content is missing: one that holds files may hold work, whatever has become of the rest.
fn validity(repository: &Path, path: &Path) -> Result<Validity, GitError> {
    if !own_files::is_made(repository) {
        return Err(GitError::NotFound(format!("the repository {}", repository.display())));
    }
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Validity::Missing),
        Err(error) => return Err(GitError::file("looking at", path, &error)),
    };
    if !meta.is_dir() {
        return Ok(Validity::Foreign);
    }
    let linked = registry::linked_from(path);
    let Some(entry) = registry::find(repository, path)? else {
        let was_ours = linked.is_some_and(|linked| linked.parent() == Some(&repository.join("worktrees")));
        return Ok(match (holds_files(path)?, was_ours) {
            (false, _) => Validity::Missing,
            (true, true) => Validity::Broken,
            (true, false) => Validity::Foreign,
        });
    };
    if is_own_repository(path)? {
        return Ok(Validity::OwnRepository);
    }
    if entry.is_half_made()? {
        return Ok(if holds_files(path)? { Validity::Broken } else { Validity::Missing });
    }
    let unlinked = registry::is_cut(path)?;
    Ok(match linked.as_deref() == Some(entry.directory.as_path()) && belongs(&entry, repository) {
        true if entry.head_line()?.is_none() => Validity::Broken,
        true => Validity::Valid,
        // Somebody deleted the worktree, and made something of their own at its path.
        false if unlinked && !index::is_of(&entry.directory.join("index"), path) => Validity::Foreign,
        false if unlinked || linked.as_deref() == Some(entry.directory.as_path()) => Validity::Broken,
        false => Validity::Foreign,
    })
}

/// A directory where the link back to the repository belongs, or a way to one: whatever is in it, somebody made it.
fn is_own_repository(path: &Path) -> Result<bool, GitError> {
    let link = path.join(".git");
    match own_files::look(&link)? {
        Some(meta) => Ok(meta.is_dir() || (meta.is_symlink() && link.is_dir())),
        None => Ok(false),
    }
}

/// Anything but the link back to the repository.
fn holds_files(path: &Path) -> Result<bool, GitError> {
    if is_own_repository(path)? {
        return Ok(true);
    }
    let entries = fs::read_dir(path).map_err(|error| GitError::file("looking at", path, &error))?;
    for entry in entries {
        if entry.map_err(|error| GitError::file("looking at", path, &error))?.file_name() != ".git" {
            return Ok(true);
        }
    }
    Ok(false)
}
