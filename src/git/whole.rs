//! Repositories that are not as they are made here: with refs that libgit2 cannot read, with history that is cut off, with
//! objects left at a remote. An operator may have put one in place, and any `git fetch` with `--depth` or `--filter` in a
//! worktree turns the repository behind it into one. The next fetch makes it whole again as far as the remote can.

use super::error::GitError;
use super::repository::Repository;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// How a pack is marked whose objects may name others that were never sent.
const PROMISOR: &str = "promisor";

impl Repository {
    /// Whether everything the refs lead to is here.
    pub fn is_whole(&self) -> Result<bool, GitError> {
        Ok(!self.is_cut_off()? && self.promised()?.is_empty())
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
        let path = self.directory().join("shallow");
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
