//! Ties worktrees to their repository again after the directory of repositories, or that of the worktrees, was moved: both
//! ends of a tie are absolute paths. Only what still names the other end by its former place is changed, and before anything
//! could take it for gone.

use super::blocking;
use super::error::GitError;
use super::registry::{self, AdminEntry};
use super::repository::Repository;
use super::worktree::rewrite;
use std::{
    io,
    path::{Path, PathBuf},
};

/// `<owner>/<name>.git/worktrees/<entry>`
const SAME_WHEREVER: usize = 4;

impl Repository {
    /// Worktrees that were below `from` are below `to` now. Answers with how many were tied again; doing it twice does no
    /// harm.
    pub async fn tie_again(&self, from: &Path, to: &Path) -> Result<usize, GitError> {
        let _turn = self.turn().await;
        let (repository, from, to) = (self.directory().to_owned(), from.to_owned(), to.to_owned());
        blocking(move || {
            let mut tied = 0;
            for entry in registry::entries(&repository.join("worktrees"))? {
                tied += usize::from(tie_again(&entry, &from, &to)?);
            }
            Ok(tied)
        })
        .await
    }
}

fn tie_again(entry: &AdminEntry, from: &Path, to: &Path) -> Result<bool, GitError> {
    let Some(registered) = entry.git_file() else { return Ok(false) };
    let link = registered.strip_prefix(from).map_or(registered.clone(), |rest| to.join(rest));
    let Some(place) = link.parent().filter(|place| place.is_dir()) else { return Ok(false) };
    let link_is_right = match registry::linked_from(place) {
        Some(named) if named == entry.directory => true,
        // A copy of the home is tied to itself, and leaves the worktrees of the home that it was copied from alone.
        Some(named) if is_same_entry(&named, &entry.directory) && (place.starts_with(to) || !named.exists()) => false,
        Some(_) => return Ok(false),
        // Without one it is mended later; what else stands there is somebody's.
        None => match link.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(_) | Ok(_) => return Ok(false),
        },
    };
    if !link_is_right {
        rewrite(&link, &format!("gitdir: {}\n", entry.directory.display()), |_| Ok(()))?;
    }
    if link != registered {
        rewrite(&entry.directory.join("gitdir"), &format!("{}\n", link.display()), |_| Ok(()))?;
    }
    Ok(!link_is_right || link != registered)
}

fn is_same_entry(named: &Path, entry: &Path) -> bool {
    let parts: Vec<_> = entry.components().rev().take(SAME_WHEREVER).collect();
    named.ends_with(parts.into_iter().rev().collect::<PathBuf>())
}
