//! A look from outside at a directory that may be anybody's checkout: which repository it belongs to and which branch it is
//! on, from git's own small files (gitrepository-layout(5)). Neither git nor libgit2 is let into it.

use super::registry::linked_from;
use super::{blocking, canonical, error::GitError, small_file};
use crate::model::BranchName;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Not even a file in a directory.
    Nothing,
    NoCheckout,
    Checkout {
        /// What `git rev-parse --git-common-dir` would say.
        common: PathBuf,
        /// Absent when detached, or on a branch whose name we would not use.
        branch: Option<BranchName>,
    },
}

impl Outside {
    pub async fn look_at(path: &Path) -> Result<Self, GitError> {
        let path = path.to_owned();
        blocking(move || look(&path)).await
    }
}

fn look(path: &Path) -> Result<Outside, GitError> {
    let failed = |error| GitError::file("looking at", path, &error);
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Outside::Nothing),
        Err(error) => return Err(failed(error)),
        Ok(meta) if !meta.is_dir() => return Ok(Outside::NoCheckout),
        Ok(_) => {}
    }
    if fs::read_dir(path).map_err(failed)?.next().is_none() {
        return Ok(Outside::Nothing);
    }
    let link = path.join(".git");
    let own = match fs::symlink_metadata(&link) {
        Ok(meta) if meta.is_dir() => Some(canonical(&link)),
        Ok(_) | Err(_) => linked_from(path),
    };
    let Some(own) = own.filter(|own| own.join("HEAD").exists()) else { return Ok(Outside::NoCheckout) };
    let line = |name: &str| small_file(&own.join(name)).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let common = line("commondir").map_or_else(|| own.clone(), |common| canonical(&own.join(common.trim_end())));
    let head = line("HEAD").unwrap_or_default();
    let branch = head.trim_end().strip_prefix("ref: refs/heads/").and_then(|name| BranchName::new(name).ok());
    Ok(Outside::Checkout { common, branch })
}
