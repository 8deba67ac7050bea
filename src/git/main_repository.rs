//! Finding the repository that a path on this machine belongs to.

use super::error::GitError;
use super::remote_url::RemoteUrl;
use super::{Git, blocking, small_file};
use git2::{ErrorCode, Repository, RepositoryOpenFlags};
use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

impl Git {
    /// The repository whose files are at `path`, or around it: of a linked worktree the one it is linked to. Answers with the
    /// directory of its main worktree, or with its own when it is bare; no link is on the way. Nothing of it is run.
    pub async fn main_repository(&self, path: &Path) -> Result<PathBuf, GitError> {
        let path = path.to_owned();
        blocking(move || {
            let none: [&Path; 0] = [];
            let common = match Repository::open_ext(&path, RepositoryOpenFlags::CROSS_FS, none) {
                Ok(repository) => repository.commondir().to_owned(),
                Err(error) => match error.code() {
                    ErrorCode::NotFound if !path.exists() => return Err(GitError::refused("nothing is there")),
                    ErrorCode::NotFound => {
                        return Err(GitError::refused("neither it nor a directory around it is one"));
                    }
                    ErrorCode::Owner => return Err(of_another_user()),
                    _ => with_reftables(&path).ok_or(error)?,
                },
            };
            let owner = |path: &Path| path.metadata().map(|meta| meta.uid());
            let seen = owner(&common).and_then(|uid| Ok((uid, common.canonicalize()?)));
            let (uid, common) = seen.map_err(|error| GitError::file("looking at", &common, &error))?;
            if uid != rustix::process::geteuid().as_raw() {
                return Err(of_another_user());
            }
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

/// No setting of ours changes that: what such a repository has configured could be run.
fn of_another_user() -> GitError {
    GitError::refused(
        "it belongs to another user of this machine, and git works in none of those; clone it as the user of the service, and \
         name that clone",
    )
}

/// The directory of a repository whose refs libgit2 cannot read, as the git program can: it fetches from there and pushes there.
fn with_reftables(path: &Path) -> Option<PathBuf> {
    let no_end: [&Path; 0] = [];
    let own = Repository::discover_path(path, no_end).ok()?;
    let linked = small_file(&own.join("commondir")).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let common = linked.map_or_else(|| own.clone(), |linked| own.join(linked.trim_end()));
    common.join("reftable").is_dir().then_some(common)
}
