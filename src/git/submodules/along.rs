//! Submodules after their worktree moved: another commit is recorded, and their checkouts are where they were.
//!
//! One that is left so would be taken for a change, and for the wish to go back. What stands exactly where it was recorded
//! and holds nothing of its own is made anew; in all others somebody is at work, and they stay as they are.

use super::{blocking, canonical, linked_from, take_back};
use crate::git::error::GitError;
use crate::git::history::oid;
use crate::git::registry::AdminEntry;
use crate::git::worktree::{Worktree, is_there, path_of, submodule_holds_only, submodule_repository_has_commits};
use crate::model::{CommitSha, Credential, SubmodulePolicy, Submodules};
use git2::{FileMode, Oid};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

/// A submodule that two commits record differently; absent where one of them has none.
struct Moved {
    path: PathBuf,
    before: Option<Oid>,
    now: Option<Oid>,
}

impl Worktree {
    /// Brings along what a move of the worktree from one commit to another left behind, and fills what is new. What could
    /// not be fetched is empty then, and told.
    pub async fn bring_submodules_along(
        &self,
        from: &CommitSha,
        to: &CommitSha,
        policy: &SubmodulePolicy,
        credential: Option<&Credential>,
        limit: Duration,
    ) -> Result<Submodules, GitError> {
        let mut told = Submodules::default();
        let moved = match policy {
            SubmodulePolicy::Leave => Vec::new(),
            SubmodulePolicy::All | SubmodulePolicy::AsIn(_) => self.moved_submodules(from, to).await?,
        };
        if moved.is_empty() {
            return Ok(told);
        }
        let end = Instant::now() + limit;
        let entry = self.entry().await?;
        let (own, files) = (entry.clone(), self.files().to_owned());
        let place = entry.directory.join("modules");
        let look = self.look_inside(&place, move || {
            let rooms = moved.into_iter().map(|moved| {
                let room = moved.room(&own, &files).inspect_err(|error| stays(&moved, error));
                (moved, room.unwrap_or(Room::Taken))
            });
            Ok(rooms.filter(|(_, room)| *room != Room::Taken).collect::<Vec<_>>())
        });
        let rooms = look.await?;
        // Not in the look: whoever gave up waiting for it must not lose something afterwards.
        let (own, files) = (entry.clone(), self.files().to_owned());
        let empty = blocking(move || {
            let free = rooms.into_iter().filter(|(moved, room)| {
                let cleared = if *room == Room::AsRecorded { moved.clear(&own, &files) } else { Ok(()) };
                cleared.inspect_err(|error| stays(moved, error)).is_ok()
            });
            Ok(free.filter(|(moved, _)| moved.now.is_some()).map(|(moved, _)| moved.path).collect())
        });
        let empty: Vec<PathBuf> = empty.await?;
        if empty.is_empty() {
            return Ok(told);
        }
        if !self.may_ask_addresses(policy).await? {
            told.other_addresses = true;
            return Ok(told);
        }
        self.repository().remote()?.admits(credential)?;
        told.failed = self.fill_each(&entry, empty, *policy == SubmodulePolicy::All, credential, end).await?;
        Ok(told)
    }

    async fn moved_submodules(&self, from: &CommitSha, to: &CommitSha) -> Result<Vec<Moved>, GitError> {
        let (from, to) = (oid(from)?, oid(to)?);
        self.repository()
            .read(move |objects| {
                let tree = |commit| objects.find_commit(commit)?.tree();
                let diff = objects.diff_tree_to_tree(Some(&tree(from)?), Some(&tree(to)?), None)?;
                let link = |file: git2::DiffFile<'_>| (file.mode() == FileMode::Commit).then(|| file.id());
                let moved = diff.deltas().filter_map(|delta| {
                    let (before, now) = (link(delta.old_file()), link(delta.new_file()));
                    let path = delta.new_file().path_bytes().or(delta.old_file().path_bytes()).map(path_of)?;
                    (before.is_some() || now.is_some()).then_some(Moved { path, before, now })
                });
                Ok(moved.collect())
            })
            .await
    }
}

fn stays(moved: &Moved, error: &GitError) {
    tracing::warn!(path = %moved.path.display(), error = %error, "a submodule stays where it was");
}

/// What stands at the place of a submodule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Free,
    /// Just what was recorded, which can be fetched again.
    AsRecorded,
    Taken,
}

impl Moved {
    fn room(&self, entry: &AdminEntry, files: &Path) -> Result<Room, GitError> {
        let place = files.join(&self.path);
        if !is_there(files, &self.path) {
            // Unless something else is where one of its directories should be.
            let mut parents = self.path.ancestors().skip(1);
            let is_free = parents.all(|parent| match fs::symlink_metadata(files.join(parent)) {
                Ok(meta) => meta.is_dir(),
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            });
            return Ok(if is_free { Room::Free } else { Room::Taken });
        }
        let is_directory = fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_dir());
        if is_directory && fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_none()) {
            return Ok(Room::Free);
        }
        let modules = canonical(&entry.directory.join("modules"));
        let own = linked_from(&place).filter(|own| own.starts_with(&modules));
        let (Some(before), Some(own)) = (self.before, own) else { return Ok(Room::Taken) };
        // Also those inside of it that are not checked out just now: their repositories go with it.
        match submodule_holds_only(&place, before)? && !submodule_repository_has_commits(&own)? {
            true => Ok(Room::AsRecorded),
            false => Ok(Room::Taken),
        }
    }

    fn clear(&self, entry: &AdminEntry, files: &Path) -> Result<(), GitError> {
        take_back(entry, files, &self.path)?;
        let place = files.join(&self.path);
        match self.now {
            Some(_) => Ok(()),
            None => fs::remove_dir(&place).map_err(|error| GitError::file("removing", &place, &error)),
        }
    }
}
