//! Finding the repository that a path on this machine belongs to.

use super::error::GitError;
use super::remote_url::RemoteUrl;
use super::{Git, blocking};
use git2::{ErrorCode, Repository, RepositoryOpenFlags};
use std::path::{Path, PathBuf};

impl Git {
    /// The repository whose files are at `path`, or around it: of a linked worktree the one it is linked to. Answers with the
    /// directory of its main worktree, or with its own when it is bare; no link is on the way. Nothing of it is run.
    pub async fn main_repository(&self, path: &Path) -> Result<PathBuf, GitError> {
        let path = path.to_owned();
        blocking(move || {
            let none: [&Path; 0] = [];
            let opened = Repository::open_ext(&path, RepositoryOpenFlags::CROSS_FS, none);
            let repository = opened.map_err(|error| match error.code() {
                ErrorCode::NotFound => GitError::refused("neither it nor a directory around it is one"),
                // No setting of ours changes that: what such a repository has configured could be run.
                ErrorCode::Owner => GitError::refused(
                    "it belongs to another user of this machine, and git works in none of those; clone it as the user of the \
                     service, and name that clone",
                ),
                _ => error.into(),
            })?;
            let common = repository.commondir();
            let common = common.canonicalize().map_err(|error| GitError::file("looking at", common, &error))?;
            let text = common.to_str().ok_or_else(|| GitError::refused("its path is no text"))?;
            // What could not be spoken with later is told now.
            RemoteUrl::local(text)?;
            match (common.file_name().is_some_and(|name| name == ".git"), common.parent()) {
                (true, Some(files)) => Ok(files.to_owned()),
                _ => Ok(common),
            }
        })
        .await
    }
}
