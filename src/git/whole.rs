//! Repositories that are not as they are made here: with refs that libgit2 cannot read, with history that is cut off, with
//! objects left at a remote. An operator may have put one in place, and any `git fetch` with `--depth` or `--filter` in a
//! worktree turns the repository behind it into one. The next fetch makes it whole again as far as the remote can.

use super::broken_refs::id_at_start;
use super::command::Place;
use super::error::GitError;
use super::lock::Lock;
use super::loose_objects;
use super::repository::Repository;
use super::{Stamp, blocking, plain_file};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::PoisonError,
};

/// How a pack is marked whose objects may name others that were never sent.
const PROMISOR: &str = "promisor";

/// Has the commits at which history ends here although they have parents, one a line.
const SHALLOW: &str = "shallow";

/// Longer than any such list of a repository that we would work with.
const MOST_ENDS: u64 = 16 * 1024 * 1024;

impl Repository {
    /// Takes lines that git cannot read out of the list of commits at which history ends, and all of it when history goes on
    /// here: git believes the list, so that one line of an agent's would cut off everybody's history, and no fetch would ever
    /// mend that when the remote has no such commit. Without a list, or with the one that was found right since the last
    /// fetch, it costs a look for the file.
    pub(super) async fn forget_false_ends(&self) -> Result<(), GitError> {
        if self.looks_only() {
            return Ok(());
        }
        let path = self.directory().join(SHALLOW);
        // Before it is read: what is written meanwhile is another one.
        let list = Stamp::of(&path);
        if list.is_some() && *self.shared.right_ends.lock().unwrap_or_else(PoisonError::into_inner) == list {
            return Ok(());
        }
        let list_of_ends = path.clone();
        let Some(told) = blocking(move || read_ends(&list_of_ends)).await? else { return Ok(()) };
        // The program that is asked below goes by the other files.
        self.restore_own_files().await?;
        let read = |line| id_at_start(line).filter(|(_, rest)| rest.is_empty()).map(|(end, _)| format!("{end}\n"));
        let lines: Vec<_> = told.lines().map(read).collect();
        let ends: String = lines.iter().flatten().map(String::as_str).collect();
        let right = match self.goes_on_behind(&ends).await {
            true => None,
            false if lines.iter().any(Option::is_none) => Some(ends),
            false => {
                *self.shared.right_ends.lock().unwrap_or_else(PoisonError::into_inner) = list;
                return Ok(());
            }
        };
        blocking(move || put_ends(&path, &told, right.as_deref())).await
    }

    /// The same after a fetch, which may have brought what lies behind.
    pub(super) async fn forget_false_ends_anew(&self) -> Result<(), GitError> {
        *self.shared.right_ends.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.forget_false_ends().await
    }

    /// Whether all commits are here that these lead to, by their own word.
    async fn goes_on_behind(&self, ends: &str) -> bool {
        let place = Place::Bare(self.directory().to_owned());
        let call = self.git.program().call(&place, "rev-list").slow().env("GIT_SHALLOW_FILE", "");
        let call = call.args(["--quiet", "--ignore-missing", "--stdin"]).input(ends.as_bytes().to_vec());
        ends.is_empty() || call.ok().await.is_ok()
    }

    /// Whether everything the refs lead to is here.
    pub fn is_whole(&self) -> Result<bool, GitError> {
        Ok(!self.is_cut_off()? && self.promised()?.is_empty() && !loose_objects::are_lacking(self.directory()))
    }

    /// After everything was asked for: history that still ends before its beginning does so on the remote. "Not an
    /// ancestor" and "not merged" would mean nothing then.
    pub(super) fn refuse_cut_off_remote(&self) -> Result<(), GitError> {
        match self.is_cut_off()? {
            false => Ok(()),
            true => Err(GitError::refused(
                "the remote's history is cut off (it is a shallow clone itself), so that nobody could tell what is merged; \
                 `git fetch --unshallow` in the remote's own repository mends that",
            )),
        }
    }

    fn is_cut_off(&self) -> Result<bool, GitError> {
        let path = self.directory().join(SHALLOW);
        match fs::metadata(&path) {
            Ok(meta) => Ok(meta.len() > 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(GitError::file("looking at", &path, &error)),
        }
    }

    /// What a fetch of all branches must ask for, besides what is new.
    pub(super) fn missing_parts(&self, promised: &[PathBuf]) -> Result<Vec<&'static str>, GitError> {
        let mut options = Vec::new();
        if self.is_cut_off()? {
            options.push("--unshallow");
        }
        if !promised.is_empty() {
            options.push("--refetch");
        }
        Ok(options)
    }

    /// The marks of packs whose objects may lead to some that are not here.
    pub(super) fn promised(&self) -> Result<Vec<PathBuf>, GitError> {
        let packs = self.directory().join("objects/pack");
        let entries = match fs::read_dir(&packs) {
            Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let mut entries = entries.map_err(|error| GitError::file("reading", &packs, &error))?;
        entries.retain(|path| path.extension() == Some(PROMISOR.as_ref()));
        Ok(entries)
    }

    /// After everything was fetched again.
    pub(super) fn forget_promises(&self, promised: &[PathBuf]) -> Result<(), GitError> {
        for mark in promised {
            match fs::remove_file(mark) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(GitError::file("removing", mark, &error)),
            }
        }
        Ok(())
    }
}

/// What is no plain file, or far too long, says nothing.
fn read_ends(path: &Path) -> Result<Option<String>, GitError> {
    let told = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => plain_file(path, MOST_ENDS),
        Ok(_) => return Ok(Some(String::new())),
        Err(error) => Err(error),
    };
    match told {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(String::new())),
        Err(error) => Err(GitError::file("reading", path, &error)),
    }
}

/// Under git's own lock, and only if the list is still what it was.
fn put_ends(path: &Path, told: &str, ends: Option<&str>) -> Result<(), GitError> {
    let Some(mut lock) = Lock::take(path.parent().unwrap_or(path), path)? else { return Ok(()) };
    if read_ends(path)?.as_deref() != Some(told) {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), "commits at which history does not end, or no commits at all: taken out");
    if let Some(ends) = ends {
        lock.write(ends.as_bytes())?;
        return lock.commit();
    }
    let taken = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) | Err(_) => fs::remove_file(path),
    };
    taken.map_err(|error| GitError::file("removing", path, &error))
}

/// Refuses refs that libgit2 cannot read, before a configuration file that does not name their format makes git itself
/// take them for gone. Told by their files: the configuration may have been changed.
pub(super) fn refuse_other_refs(repository: &Path) -> Result<(), GitError> {
    // Where others have the directory of branches there is a file, so that an old git stops.
    if repository.join("refs/heads").is_file() && repository.join("reftable/tables.list").is_file() {
        return Err(GitError::refused(format!(
            "the repository {} keeps its refs in git's `reftable` format, which this version cannot read. Nothing was \
             changed in it. `git refs migrate --ref-format=files` there mends that (git 2.46 or newer; worktrees have to be \
             taken out first), or move the repository away, and it is cloned anew",
            repository.display()
        )));
    }
    Ok(())
}
