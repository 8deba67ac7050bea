//! Entries of removed worktrees: out of the registry, so that git knows of no worktree any more, and kept until
//! somebody has looked at the files for the last time. By such an entry, git can still be asked about files that lie in
//! a trash.
//!
//! Taking one out is two renames, which cost no space on the disk and no time that grows with the worktree.

use super::copies::List;
use super::error::GitError;
use super::own_files::{gone, look};
use super::registry::{self, AdminEntry, LOCK_REASON, find};
use super::repository::Repository;
use super::worktree::{Worktree, put_right, tie_to_repository};
use super::{blocking, write_whole};
use crate::model::CommitSha;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where they are in the repository: as deep as those of the registry, whose way to the repository is relative.
pub(super) const REMOVED: &str = "treewarden-removed";

/// The end of the name of one that is being deleted.
const DONE: &str = "done";

/// One that must be there.
pub(super) fn entry_at(directory: PathBuf) -> Result<AdminEntry, GitError> {
    match look(&directory)?.is_some_and(|meta| meta.is_dir()) {
        true => Ok(AdminEntry { directory }),
        false => Err(GitError::NotFound(format!("what git knew of a removed worktree, {}", directory.display()))),
    }
}

impl Repository {
    /// Takes the entry for `path`, whose directory must be gone, out of the registry, and keeps it as `name`: just this
    /// one, and only when the lock on it is ours. Nothing registered is fine; afterwards git's own list is asked. What
    /// only the entry held gets refs.
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

    /// The worktree that was registered for `path` and whose entry is kept as `name`, with its files at another place
    /// and its HEAD at the commit that it had: its branch may be gone, or another worktree's.
    pub async fn removed_worktree(
        &self,
        path: &Path,
        name: &str,
        files: &Path,
        head: &CommitSha,
    ) -> Result<Worktree, GitError> {
        let (apart, text) = (self.apart(name), format!("{head}\n"));
        let entry = apart.clone();
        let has_index = blocking(move || {
            let entry = entry_at(entry)?;
            put_right(&entry)?;
            // Where it lies, there is only one way.
            if !entry.has("commondir") {
                tie_to_repository(&entry)?;
            }
            match entry.head_line()?.as_deref() == Some(text.trim_end()) {
                true => Ok(()),
                false => write_whole(&entry.directory.join("HEAD"), text.as_bytes()),
            }?;
            Ok(look(&entry.directory.join("index"))?.is_some())
        })
        .await?;
        let worktree = self.worktree(path).apart(files.to_owned(), apart, List::of_removed(self.directory(), name));
        if !has_index {
            worktree.make_index(&worktree.entry().await?).await?;
        }
        Ok(worktree)
    }

    /// Whether an entry is kept as `name`.
    pub fn is_apart(&self, name: &str) -> Result<bool, GitError> {
        Ok(look(&self.apart(name))?.is_some())
    }

    /// Deletes what git knew of a removed worktree, all of which was looked at.
    pub async fn forget_removed(&self, name: &str) -> Result<(), GitError> {
        let _turn = self.turn().await;
        self.forget_in_turn(self.apart(name)).await?;
        self.forget_paths().await;
        Ok(())
    }

    /// The same of all whose files do not `wait` any more. Nobody may have looked at repositories of submodules in
    /// them: these are put aside.
    pub async fn forget_all_removed(&self, wait: impl Fn(&str) -> bool + Send + 'static) -> Result<(), GitError> {
        let _turn = self.turn().await;
        let removed = self.directory().join(REMOVED);
        let gone = blocking(move || {
            let mut gone = registry::entries(&removed)?;
            // After they were listed: files are in the trash before their entry is here.
            gone.retain(|entry| !wait(&entry.directory.file_stem().unwrap_or_default().to_string_lossy()));
            Ok(gone)
        })
        .await?;
        if gone.is_empty() {
            return Ok(());
        }
        let mut failed = None;
        for entry in gone {
            // One that stays keeps no other.
            if let Err(error) = self.forget_or_set_aside(entry).await {
                failed = Some(error);
            }
        }
        self.forget_paths().await;
        failed.map_or(Ok(()), Err)
    }

    async fn forget_or_set_aside(&self, entry: AdminEntry) -> Result<(), GitError> {
        match entry.directory.extension() != Some(DONE.as_ref()) && entry.has_submodules()? {
            true => self.set_entry_aside(&entry).await,
            false => self.forget_in_turn(entry.directory).await,
        }
    }

    async fn forget_in_turn(&self, apart: PathBuf) -> Result<(), GitError> {
        let name = apart.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let list = List::of_removed(self.directory(), &name);
        blocking(move || {
            // A kill in the middle leaves what nobody takes for a whole one.
            let done = apart.with_extension(DONE);
            gone(fs::rename(&apart, &done), "moving", &apart)?;
            list.forget()?;
            gone(fs::remove_dir_all(&done), "removing", &done)
        })
        .await
    }

    async fn forget_paths(&self) {
        if let Err(error) = self.write_excludes_in_turn().await {
            tracing::warn!(error = %error, "paths of files copied into worktrees not written; the next change does so");
        }
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
