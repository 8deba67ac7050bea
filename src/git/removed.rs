//! Entries of removed worktrees: out of the registry, so that git knows of no worktree any more, and kept until somebody has
//! looked at the files for the last time. By such an entry, git can still be asked about files that lie in a trash.
//!
//! Taking one out is two renames, which cost no space on the disk and no time that grows with the worktree.

use super::copies::List;
use super::error::GitError;
use super::own_files::{gone, look};
use super::registry::{AdminEntry, LOCK_REASON, find};
use super::repository::Repository;
use super::worktree::{Worktree, put_right};
use super::{blocking, write_whole};
use crate::model::CommitSha;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where they are in the repository: as deep as those of the registry, whose way to the repository is relative.
pub(super) const REMOVED: &str = "treewarden-removed";

/// The end of the name of one that nobody needs any more.
const DONE: &str = "done";

/// One that must be there.
pub(super) fn entry_at(directory: PathBuf) -> Result<AdminEntry, GitError> {
    match look(&directory)?.is_some_and(|meta| meta.is_dir()) {
        true => Ok(AdminEntry { directory }),
        false => Err(GitError::NotFound(format!("what git knew of a removed worktree, {}", directory.display()))),
    }
}

impl Repository {
    /// Takes the entry for `path`, whose directory must be gone, out of the registry, and keeps it as `name`: just this one,
    /// and only when the lock on it is ours. Nothing registered is fine; afterwards git's own list is asked. What only the
    /// entry held gets refs.
    pub async fn set_apart(&self, path: &Path, name: &str) -> Result<(), GitError> {
        let (repository, path, name) = (self.clone(), path.to_owned(), name.to_owned());
        self.to_the_end(async move { repository.take_apart(&path, &name).await }).await
    }

    async fn take_apart(&self, path: &Path, name: &str) -> Result<(), GitError> {
        let _turn = self.turn().await;
        // Above all, nothing is moved through a link.
        self.restore_own_files().await?;
        let apart = self.apart(name);
        if let Some(entry) = find(self.directory(), path)? {
            if fs::symlink_metadata(path).is_ok() {
                return Err(GitError::PathExists(path.to_owned()));
            }
            if entry.is_half_made()? {
                self.set_entry_aside(&entry).await?;
                return List::of(self.directory(), path).forget();
            }
            put_right(&entry)?;
            self.pin_in_turn(&entry).await?;
            match entry.lock()? {
                Some(reason) if reason != LOCK_REASON => {
                    return Err(GitError::refused(format!("the worktree is locked by somebody else: {reason}")));
                }
                Some(_) | None => {}
            }
            let (from, to) = (entry.directory, apart.clone());
            blocking(move || moved(&from, &to)).await?;
        }
        if look(&apart)?.is_some() {
            List::of(self.directory(), path).move_to(&List::of_removed(self.directory(), name))?;
        }
        match self.worktrees_in_turn().await?.iter().any(|entry| entry.is_at(path)) {
            false => Ok(()),
            true => Err(GitError::refused(format!("git still lists {} after its removal", path.display()))),
        }
    }

    /// The worktree that was registered for `path` and whose entry is kept as `name`, with its files at another place and its
    /// HEAD at the commit that it had: its branch may be gone, or another worktree's.
    pub async fn removed_worktree(
        &self,
        path: &Path,
        name: &str,
        files: &Path,
        head: &CommitSha,
    ) -> Result<Worktree, GitError> {
        let (apart, text) = (self.apart(name), format!("{head}\n"));
        let entry = apart.clone();
        blocking(move || {
            let entry = entry_at(entry)?;
            match entry.head_line()?.as_deref() == Some(text.trim_end()) {
                true => Ok(()),
                false => write_whole(&entry.directory.join("HEAD"), text.as_bytes()),
            }
        })
        .await?;
        Ok(self.worktree(path).apart(files.to_owned(), apart, List::of_removed(self.directory(), name)))
    }

    /// Whether all of a removed worktree was looked at: what is left of it is of no use to anybody.
    pub fn is_looked_through(&self, name: &str) -> Result<bool, GitError> {
        Ok(look(&self.apart(name).with_extension(DONE))?.is_some())
    }

    /// Says so, for good.
    pub fn looked_through(&self, name: &str) -> Result<(), GitError> {
        let apart = self.apart(name);
        gone(fs::rename(&apart, apart.with_extension(DONE)), "moving", &apart)
    }

    /// Whether an entry is kept as `name`.
    pub fn is_apart(&self, name: &str) -> Result<bool, GitError> {
        Ok(look(&self.apart(name))?.is_some())
    }

    /// Deletes what git knew of removed worktrees that were looked through.
    pub async fn forget_looked_through(&self) -> Result<(), GitError> {
        let _turn = self.turn().await;
        let (repository, removed) = (self.directory().to_owned(), self.directory().join(REMOVED));
        let any = blocking(move || {
            let entries = match fs::read_dir(&removed) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                entries => entries.map_err(|error| GitError::file("reading", &removed, &error))?,
            };
            let done =
                entries.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some(DONE.as_ref()));
            let mut any = false;
            for path in done {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                List::of_removed(&repository, &name).forget()?;
                gone(fs::remove_dir_all(&path), "removing", &path)?;
                any = true;
            }
            Ok(any)
        })
        .await?;
        if any && let Err(error) = self.write_excludes_in_turn().await {
            tracing::warn!(error = %error, "paths of files copied into worktrees not written; the next change does so");
        }
        Ok(())
    }

    fn apart(&self, name: &str) -> PathBuf {
        self.directory().join(REMOVED).join(name)
    }
}

fn moved(from: &Path, to: &Path) -> Result<(), GitError> {
    let failed = |error: io::Error| GitError::file("moving", from, &error);
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    fs::rename(from, to).map_err(failed)
}
