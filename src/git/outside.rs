//! A look from outside at a directory that may be anybody's checkout: which repository it belongs to and which branch it is
//! on, from git's own small files (gitrepository-layout(5)). Neither git nor libgit2 is let into it.

use super::registry::linked_from;
use super::{blocking, canonical, error::GitError, plain_file, small_file};
use crate::model::{BranchName, CommitSha};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The longest list of packed refs that is read, in bytes.
const MOST_PACKED: u64 = 64 << 20;

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Not even a file in a directory.
    Nothing,
    NoCheckout,
    /// To wherever: it is not followed.
    Link,
    Checkout {
        /// What `git rev-parse --git-common-dir` would say.
        common: PathBuf,
        /// Absent when detached, or on a branch whose name we would not use.
        branch: Option<BranchName>,
        /// The commit that the branch stands at; absent also where refs are kept in another way than as files.
        tip: Option<CommitSha>,
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
        Ok(meta) if meta.is_symlink() => return Ok(Outside::Link),
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
    let tip = branch.as_ref().and_then(|branch| tip(&common, &branch.full_ref()));
    Ok(Outside::Checkout { common, branch, tip })
}

/// A loose ref comes before a packed one.
fn tip(common: &Path, full_ref: &str) -> Option<CommitSha> {
    let commit = |text: &str| CommitSha::new(text.trim_end()).ok();
    if let Some(loose) = small_file(&common.join(full_ref)).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
        return commit(&loose);
    }
    let packed = plain_file(&common.join("packed-refs"), MOST_PACKED).ok()?;
    let packed = String::from_utf8_lossy(&packed);
    packed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(_, name)| *name == full_ref)
        .and_then(|(id, _)| commit(id))
}
