//! Ties worktrees to their repository again after the directory of repositories, or that of the worktrees, was moved: both
//! ends of a tie are absolute paths. Only what still names the other end by its former place is changed, and before anything
//! could take it for gone.

use super::error::GitError;
use super::registry::{self, AdminEntry};
use super::repository::Repository;
use super::worktree::rewrite;
use super::{blocking, canonical, small_file};
use std::{
    io,
    path::{Path, PathBuf},
};

/// `<owner>/<name>.git/worktrees/<entry>`
const SAME_WHEREVER: usize = 4;

/// What became of the ties of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    pub made: usize,
    /// Could not be made now; the log says why.
    pub failed: usize,
}

impl Repository {
    /// Worktrees that were below one of `from` are below `to` now. One that cannot be tied keeps no other from it; doing it
    /// twice does no harm.
    pub async fn tie_again(&self, from: &[PathBuf], to: &Path) -> Result<Ties, GitError> {
        let _turn = self.turn().await;
        let (repository, from, to) = (self.directory().to_owned(), from.to_owned(), to.to_owned());
        blocking(move || {
            let mut ties = Ties::default();
            for entry in registry::entries(&repository.join("worktrees"))? {
                match tie_again(&entry, &from, &to) {
                    Ok(made) => ties.made += usize::from(made),
                    Err(error) => {
                        ties.failed += 1;
                        tracing::error!(git.directory = %entry.directory.display(), %error, "a worktree was not tied again");
                    }
                }
            }
            Ok(ties)
        })
        .await
    }
}

fn tie_again(entry: &AdminEntry, from: &[PathBuf], to: &Path) -> Result<bool, GitError> {
    let Some(registered) = entry.git_file() else { return Ok(false) };
    let rest = from.iter().find_map(|from| registered.strip_prefix(from).ok());
    let link = rest.map_or_else(|| registered.clone(), |rest| to.join(rest));
    let Some(place) = link.parent() else { return Ok(false) };
    if !place.is_dir() {
        // Its files may wait in the trash; it is taken out of the registry by the place that its row has now.
        let gone = registered.parent().is_none_or(|place| !place.exists());
        let follows = link != registered && gone;
        if follows {
            rewrite(&entry.directory.join("gitdir"), &format!("{}\n", link.display()), |_| Ok(()))?;
        }
        return Ok(follows);
    }
    let own = canonical(&entry.directory);
    let link_is_right = match registry::linked_from(place) {
        // Behind a link that was left at the former place it resolves, until that link goes.
        Some(named) if named == own => is_spelled(&link, &own),
        // A copy of the home is tied to itself, and leaves the worktrees of the home that it was copied from alone.
        Some(named) if is_same_entry(&named, &own) && (place.starts_with(to) || !named.exists()) => false,
        Some(_) => return Ok(false),
        // Without one it is mended later; what else stands there is somebody's.
        None => match link.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(_) | Ok(_) => return Ok(false),
        },
    };
    if !link_is_right {
        rewrite(&link, &format!("gitdir: {}\n", own.display()), |_| Ok(()))?;
    }
    if link != registered {
        rewrite(&entry.directory.join("gitdir"), &format!("{}\n", link.display()), |_| Ok(()))?;
    }
    Ok(!link_is_right || link != registered)
}

/// Whether a `.git` file names the entry without a detour, or relative to itself.
fn is_spelled(link: &Path, entry: &Path) -> bool {
    let text = small_file(link).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let named = Path::new(text.strip_prefix("gitdir: ").unwrap_or_default().trim_end_matches('\n'));
    named == entry || named.is_relative()
}

fn is_same_entry(named: &Path, entry: &Path) -> bool {
    let parts: Vec<_> = entry.components().rev().take(SAME_WHEREVER).collect();
    named.ends_with(parts.into_iter().rev().collect::<PathBuf>())
}
