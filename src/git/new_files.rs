//! The commits that were made here, and the files that they bring in.

use super::error::GitError;
use super::refs::hide_fetched;
use super::worktree::{Worktree, path_of};
use git2::{Delta, FileMode, ObjectType, Oid, Repository as Objects, Tree, TreeWalkMode, TreeWalkResult};
use std::{collections::HashSet, path::PathBuf};

/// What is looked at in one go.
pub(super) const COMMITS_AT_ONCE: usize = 100;

/// A file, a link or a submodule that none of a commit's parents has at that path as it is.
pub(super) struct NewFile {
    pub commit: Oid,
    pub path: PathBuf,
    pub mode: FileMode,
    pub blob: Oid,
}

impl Worktree {
    /// The commits that `head` has and the remote has not.
    pub(super) async fn made_here(&self, head: Oid) -> Result<Vec<Oid>, GitError> {
        let commits = self.repository().read(move |objects| {
            let mut walk = objects.revwalk()?;
            walk.push(head)?;
            hide_fetched(objects, &mut walk)?;
            Ok(walk.collect::<Result<Vec<Oid>, _>>()?)
        });
        commits.await
    }
}

/// Those of a commit follow one another.
pub(super) fn new_files(objects: &Objects, commits: &[Oid]) -> Result<Vec<NewFile>, GitError> {
    let mut all = Vec::new();
    for &commit in commits {
        let (tree, before) = (objects.find_commit(commit)?.tree()?, parents_of(objects, commit)?);
        let was_there =
            |new: &NewFile| before.iter().any(|tree| tree.get_path(&new.path).is_ok_and(|old| old.id() == new.blob));
        let diff = objects.diff_tree_to_tree(before.first(), Some(&tree), None)?;
        let new = diff.deltas().filter(|delta| delta.status() != Delta::Deleted).filter_map(|delta| {
            let file = delta.new_file();
            Some(NewFile { commit, path: path_of(file.path_bytes()?), mode: file.mode(), blob: file.id() })
        });
        all.extend(new.filter(|new| !was_there(new)));
    }
    Ok(all)
}

/// The trees of a commit's parents.
pub(super) fn parents_of(objects: &Objects, commit: Oid) -> Result<Vec<Tree<'_>>, GitError> {
    objects.find_commit(commit)?.parents().map(|parent| Ok(parent.tree()?)).collect()
}

/// What is anywhere in the trees.
pub(super) fn blobs_in(trees: &[Tree<'_>]) -> Result<HashSet<Oid>, GitError> {
    let (mut blobs, mut seen) = (HashSet::new(), HashSet::new());
    for tree in trees {
        tree.walk(TreeWalkMode::PreOrder, |_, entry| match entry.kind() {
            // Few objects can name a directory any number of times.
            Some(ObjectType::Tree) if !seen.insert(entry.id()) => TreeWalkResult::Skip,
            _ => {
                blobs.insert(entry.id());
                TreeWalkResult::Ok
            }
        })?;
    }
    Ok(blobs)
}
