//! Repositories inside a worktree: submodules with work of their own, and whole repositories that merely lie there.
//!
//! They are examined with libgit2, which starts nothing: their configuration is in the agent's hands, and git would
//! obey it. It is given a time limit ([`Worktree::look_inside`]), and let into nothing that it would not come back
//! from. What libgit2 is known to miss (repositories inside) is looked for by a walk of our own.

use super::Worktree;
use super::caches::cache_of;
use super::index::IndexEntry;
use crate::git::LooksBare;
use crate::git::limited::refuse_unfit;
use crate::git::pipes::Workplace;
use crate::git::registry::linked_from;
use crate::git::{GitError, blocking, canonical};
use crate::model::Probe;
use git2::{IndexEntryExtendedFlag, IndexEntryFlag, RepositoryOpenFlags, StatusOptions};
use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Component, Path, PathBuf},
};

/// What a worktree holds that `git status` does not tell, as the questions of these names answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    pub hidden_changes: bool,
    pub submodule_work: Vec<String>,
    pub nested_repositories: Vec<String>,
}

impl Worktree {
    /// Submodules that hold something found nowhere else: changes, untracked or ignored files, commits on no remote.
    pub async fn submodule_work(&self) -> Probe<Vec<String>> {
        let answer = async { self.submodule_work_by(&self.index().await?).await };
        answer.await.into()
    }

    async fn submodule_work_by(&self, index: &[IndexEntry]) -> Result<Vec<String>, GitError> {
        let (modules, ties) = (self.entry().await?.directory.join("modules"), self.ties());
        let mut work = Vec::new();
        for IndexEntry { path, id, .. } in index.iter().filter(|entry| entry.is_submodule()) {
            let place = self.files.join(path);
            let (submodule, ties, id) = (place.clone(), ties.clone(), *id);
            let question = move || Ok(submodule_has_work(&submodule, &ties)? || ties.is_elsewhere(&submodule, id)?);
            if self.look_inside(&place, question).await? {
                work.push(path.display().to_string());
            }
        }
        // Also those whose directory was taken away: their commits are still in the admin entry.
        let all = modules.clone();
        for git_dir in blocking(move || repositories_below(&all)).await? {
            let name = git_dir.strip_prefix(&modules).unwrap_or(&git_dir).display().to_string();
            let place = git_dir.clone();
            if !work.contains(&name) && self.look_inside(&git_dir, move || has_own_commits(&open_bare(&place)?)).await?
            {
                work.push(name);
            }
        }
        Ok(work)
    }

    /// Directories below that are repositories or worktrees of their own, submodules, and what is committed, apart.
    /// Relative paths.
    pub async fn nested_repositories(&self) -> Probe<Vec<String>> {
        let answer = async { self.nested_by(&self.index().await?).await };
        answer.await.into()
    }

    async fn nested_by(&self, index: &[IndexEntry]) -> Result<Vec<String>, GitError> {
        let paths = |are_submodules| {
            let entries = index.iter().filter(move |entry| entry.is_submodule() == are_submodules);
            entries.map(|entry| entry.path.clone())
        };
        let (submodules, tracked_heads) =
            (paths(true).collect(), paths(false).filter(|path| path.ends_with("HEAD")).collect());
        let (files, ties) = (self.files.clone(), self.ties());
        self.look_inside(&self.files.join(".git"), move || {
            let submodules = with_those_inside(&files, submodules, &ties)?;
            nested(&files, &Known { submodules, tracked_heads })
        })
        .await
    }

    /// The answers to all questions that begin with the index.
    pub async fn inside(&self) -> Probe<Inside> {
        let answer = async {
            let index = self.index().await?;
            Ok::<_, GitError>(Inside {
                hidden_changes: !self.hidden_by(&index).await?.is_empty(),
                submodule_work: self.submodule_work_by(&index).await?,
                nested_repositories: self.nested_by(&index).await?,
            })
        };
        answer.await.into()
    }

    /// Reads what lies at a place in it, or in its entry: any file there may be an agent's. What does not end is in the
    /// way of looks at the same place only.
    pub(in crate::git) async fn look_inside<T: Send + 'static>(
        &self,
        place: &Path,
        question: impl FnOnce() -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let repository = self.repository.directory().to_owned();
        let workplace = Workplace { repository: Some(repository), files: Some(self.files.clone()) };
        self.repository.within_limit(place, workplace, question).await
    }

    /// Submodules name their repositories by where the entry was; in one that was taken out they are where it is now.
    fn ties(&self) -> Ties {
        match &self.apart {
            Some((entry, _)) => Ties::Moved(entry.join("modules")),
            None => Ties::Whole,
        }
    }

    pub(in crate::git) async fn submodule_paths(&self) -> Result<Vec<PathBuf>, GitError> {
        let entries = self.index().await?;
        Ok(entries.into_iter().filter(|entry| entry.is_submodule()).map(|entry| entry.path).collect())
    }
}

/// How the checkouts of submodules find their repositories.
#[derive(Clone, Debug)]
enum Ties {
    Whole,
    /// They name a place from which all of them were moved here.
    Moved(PathBuf),
}

impl Ties {
    /// The repository of the submodule checked out at a path, with its files there.
    fn open(&self, path: &Path) -> Result<git2::Repository, GitError> {
        let repository = match self {
            Ties::Moved(modules) if fs::symlink_metadata(path.join(".git")).is_ok_and(|link| link.is_file()) => {
                let own = linked_from(path).and_then(|named| below_modules(&named));
                let own = own.ok_or_else(|| GitError::Unreadable(format!("{} names no repository", path.display())))?;
                open_bare(&modules.join(own))?
            }
            Ties::Moved(_) | Ties::Whole => open(path)?,
        };
        // Not where its configuration may say it is.
        repository.set_workdir(path, false)?;
        Ok(repository)
    }

    /// Whether a submodule stands at another commit than is recorded. Where git and libgit2 find its repository, they
    /// say so themselves.
    fn is_elsewhere(&self, path: &Path, recorded: git2::Oid) -> Result<bool, GitError> {
        let is_there = || fs::symlink_metadata(path.join(".git")).is_ok();
        Ok(match self {
            Ties::Moved(_) if is_there() => self.open(path)?.head()?.peel_to_commit()?.id() != recorded,
            Ties::Moved(_) | Ties::Whole => false,
        })
    }
}

/// What follows `worktrees/<id>/modules` in the path of a submodule's repository.
fn below_modules(path: &Path) -> Option<PathBuf> {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str()).collect();
    let at = parts.windows(3).position(|three| three[0] == "worktrees" && three[2] == "modules")?;
    let below: PathBuf = parts[at + 3..].iter().collect();
    (!below.as_os_str().is_empty() && below.components().all(|part| matches!(part, Component::Normal(_))))
        .then_some(below)
}

/// The entries of a directory that may be missing.
fn entries(directory: &Path) -> Result<Vec<fs::DirEntry>, GitError> {
    let list = match fs::read_dir(directory) {
        Ok(list) => list.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    list.map_err(|error| GitError::file("reading", directory, &error))
}

fn is_directory(entry: &fs::DirEntry) -> Result<bool, GitError> {
    let kind = entry.file_type().map_err(|error| GitError::file("looking at", &entry.path(), &error))?;
    Ok(kind.is_dir())
}

/// Submodules together with the initialised ones inside them, by their own indexes. Relative paths.
fn with_those_inside(root: &Path, submodules: HashSet<PathBuf>, ties: &Ties) -> Result<HashSet<PathBuf>, GitError> {
    let mut pending: Vec<PathBuf> = submodules.into_iter().collect();
    let mut all = HashSet::new();
    while let Some(path) = pending.pop() {
        if root.join(&path).join(".git").exists() {
            pending.extend(inside(&ties.open(&root.join(&path))?)?.into_iter().map(|(inner, _)| path.join(inner)));
        }
        all.insert(path);
    }
    Ok(all)
}

/// The submodules that the repository checked out at a path names. Relative paths.
pub(in crate::git) fn submodules_inside(path: &Path) -> Result<Vec<PathBuf>, GitError> {
    Ok(inside(&open(path)?)?.into_iter().map(|(path, _)| path).collect())
}

/// Whether the submodule checked out at a path stands at this commit and holds no work.
pub(in crate::git) fn submodule_holds_only(path: &Path, commit: git2::Oid) -> Result<bool, GitError> {
    let head = open(path)?.head()?.peel_to_commit()?.id();
    Ok(head == commit && !submodule_has_work(path, &Ties::Whole)?)
}

/// Whether a repository of a submodule, or one that lies inside of it, has commits found nowhere else.
pub(in crate::git) fn submodule_repository_has_commits(git_dir: &Path) -> Result<bool, GitError> {
    for found in repositories_below(git_dir)? {
        if has_own_commits(&open_bare(&found)?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a checkout names a repository of a submodule, or one that lies inside of it, as its own.
pub(in crate::git) fn submodule_repository_in_use(git_dir: &Path) -> Result<bool, GitError> {
    for found in repositories_below(git_dir)? {
        // Where git wrote down where the checkout is.
        let files = open_bare(&found)?.config()?.get_path("core.worktree");
        if files.is_ok_and(|files| linked_from(&found.join(files)) == Some(canonical(&found))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The submodules that a submodule's index names, with the commits that it records.
fn inside(repository: &git2::Repository) -> Result<Vec<(PathBuf, git2::Oid)>, GitError> {
    let entries = repository.index()?;
    let submodules = entries.iter().filter(|entry| entry.mode == u32::from(git2::FileMode::Commit));
    let paths = submodules.map(|entry| (PathBuf::from(OsString::from_vec(entry.path)), entry.id));
    // An agent may have written the index: nothing in it leads up.
    let descends = |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    Ok(paths.filter(|(path, _)| descends(path) && !path.as_os_str().is_empty()).collect())
}

/// What of a worktree's files is no repository that somebody made there.
struct Known {
    submodules: HashSet<PathBuf>,
    /// Bare repositories that are committed, as for tests, have one.
    tracked_heads: HashSet<PathBuf>,
}

/// Walks all real directories; a link is never followed.
fn nested(root: &Path, known: &Known) -> Result<Vec<String>, GitError> {
    let mut found = Vec::new();
    let mut pending = vec![(PathBuf::new(), false)];
    while let Some((relative, is_in_submodule)) = pending.pop() {
        let is_root = relative.as_os_str().is_empty();
        let is_in_submodule = is_in_submodule || known.submodules.contains(&relative);
        let (mut looks_bare, mut is_bare) = (LooksBare::default(), false);
        for entry in entries(&root.join(&relative))? {
            let name = entry.file_name();
            is_bare = looks_bare.with(name.as_encoded_bytes());
            if name == ".git" {
                if !is_root && !known.submodules.contains(&relative) {
                    found.push(relative.display().to_string());
                }
            } else if is_directory(&entry)? {
                pending.push((relative.join(name), is_in_submodule));
            }
        }
        if is_bare && !is_root && !is_in_submodule && !known.tracked_heads.contains(&relative.join("HEAD")) {
            found.push(relative.display().to_string());
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Directories that are repositories by themselves (they have a HEAD), at any depth.
fn repositories_below(root: &Path) -> Result<Vec<PathBuf>, GitError> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        let entries = entries(&directory)?;
        let is_repository = entries.iter().any(|entry| entry.file_name() == "HEAD");
        for entry in &entries {
            // A repository's own directories are no place for others, except for submodules of the submodule.
            if is_directory(entry)? && (!is_repository || entry.file_name() == "modules") {
                pending.push(entry.path());
            }
        }
        if is_repository {
            found.push(directory);
        }
    }
    Ok(found)
}

pub(super) fn open(path: &Path) -> Result<git2::Repository, GitError> {
    refuse_unfit(path)?;
    Ok(git2::Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, &[] as &[&OsStr])?)
}

/// Whatever its configuration says of a directory of files, which may be gone.
fn open_bare(git_dir: &Path) -> Result<git2::Repository, GitError> {
    refuse_unfit(git_dir)?;
    let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::BARE;
    Ok(git2::Repository::open_ext(git_dir, flags, &[] as &[&OsStr])?)
}

fn submodule_has_work(path: &Path, ties: &Ties) -> Result<bool, GitError> {
    if fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir()) {
        // Somebody put something else in its place.
        return Ok(true);
    }
    let present = entries(path)?;
    if !present.iter().any(|entry| entry.file_name() == ".git") {
        // Not initialised; anything in it was put there by somebody.
        return Ok(!present.is_empty());
    }
    let repository = ties.open(path)?;
    if has_changes(&repository, ties)? || has_hidden_entries(&repository)? || has_own_commits(&repository)? {
        return Ok(true);
    }
    for (inner, recorded) in inside(&repository)? {
        // As deep as directories are; a link would lead to another's files.
        let place = path.join(inner);
        if fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_dir())
            && (submodule_has_work(&place, ties)? || ties.is_elsewhere(&place, recorded)?)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_changes(repository: &git2::Repository, ties: &Ties) -> Result<bool, GitError> {
    let mut options = StatusOptions::new();
    options.include_untracked(true).include_ignored(true).include_unreadable(true).update_index(false);
    // It would look for their repositories where they were.
    options.exclude_submodules(matches!(ties, Ties::Moved(_)));
    let statuses = repository.statuses(Some(&mut options))?;
    let index = repository.index()?;
    let files = repository.workdir().unwrap_or(repository.path()).to_owned();
    let is_cached =
        |path: &Path| cache_of(&files, path).is_some_and(|cache| index.find_prefix(cache.join("")).is_err());
    Ok(statuses.iter().any(|entry| {
        let path = PathBuf::from(OsString::from_vec(entry.path_bytes().to_vec()));
        !(entry.status() == git2::Status::IGNORED && is_cached(&path))
    }))
}

fn has_hidden_entries(repository: &git2::Repository) -> Result<bool, GitError> {
    let (valid, skip) = (IndexEntryFlag::VALID.bits(), IndexEntryExtendedFlag::SKIP_WORKTREE.bits());
    let index = repository.index()?;
    Ok(index.iter().any(|entry| entry.flags & valid != 0 || entry.flags_extended & skip != 0))
}

/// Commits that a ref or HEAD has, or once had, and that no remote-tracking ref has.
fn has_own_commits(repository: &git2::Repository) -> Result<bool, GitError> {
    let mut walk = repository.revwalk()?;
    for id in once_had(repository)? {
        // What git has thrown away by now is nobody's work.
        if repository.find_commit(id).is_ok() {
            walk.push(id)?;
        }
    }
    walk.push_glob("refs/*")?;
    match repository.head() {
        Ok(head) => walk.push(head.peel_to_commit()?.id())?,
        Err(error) if error.code() == git2::ErrorCode::UnbornBranch => {}
        Err(error) => return Err(error.into()),
    }
    walk.hide_glob("refs/remotes/*")?;
    Ok(walk.next().transpose()?.is_some())
}

/// Everything in the reflogs but those of remote-tracking refs: an amended or reset commit, a dropped stash.
fn once_had(repository: &git2::Repository) -> Result<HashSet<git2::Oid>, GitError> {
    let mut names = vec!["HEAD".to_owned()];
    for reference in repository.references()? {
        let reference = reference?;
        names.extend(reference.name().ok().filter(|name| !name.starts_with("refs/remotes/")).map(str::to_owned));
    }
    let mut ids = HashSet::new();
    for name in names {
        let log = repository.reflog(&name)?;
        ids.extend(log.iter().flat_map(|entry| [entry.id_old(), entry.id_new()]));
    }
    ids.remove(&git2::Oid::ZERO_SHA1);
    Ok(ids)
}
