//! What commits that were made here bring in at places that Git LFS is to keep: pointers, or what should have been pointers.

use super::error::GitError;
use super::history::oid;
use super::lfs::{POINTER, POINTER_BYTES};
use super::worktree::{COMMITS_AT_ONCE, Worktree, path_of, trees};
use git2::{Delta, FileMode, ObjectType, Oid, Repository as Objects, Tree, TreeWalkMode, TreeWalkResult};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::PathBuf,
};

/// By the newest attributes.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// Objects that pointers name, by their SHA-256, each with a file that needs it.
    pub objects: BTreeMap<String, PathBuf>,
    /// Files that are no pointers.
    pub blobs: BTreeSet<PathBuf>,
}

impl Worktree {
    /// Files that LFS is to keep and that commits made here hold as they are: pushed, they would be in the history for good.
    /// What the remote has already is no news.
    pub async fn blobs_for_lfs_in_commits(&self) -> Result<Vec<PathBuf>, GitError> {
        Ok(self.brought_for_lfs().await?.blobs.into_iter().collect())
    }

    pub(super) async fn brought_for_lfs(&self) -> Result<Brought, GitError> {
        let head = match self.head().await?.sha {
            Some(head) if self.repository().needs(&head).await?.lfs => oid(&head)?,
            Some(_) | None => return Ok(Brought::default()),
        };
        let mut all = Brought::default();
        for commits in self.made_here(head).await?.chunks(COMMITS_AT_ONCE) {
            let commits = commits.to_vec();
            let mut new = self.repository().read(move |objects| new_files(objects, &commits)).await?;
            let paths: BTreeSet<PathBuf> =
                new.iter().flat_map(|(_, files)| files).map(|(path, _)| path.clone()).collect();
            let kept = self.kept_by_lfs_in_index(&Vec::from_iter(paths)).await?;
            let kept: HashSet<PathBuf> = kept.into_iter().collect();
            for (_, files) in &mut new {
                files.retain(|(path, _)| kept.contains(path));
            }
            let brought = self.repository().read(move |objects| brought(objects, &new)).await?;
            all.objects.extend(brought.objects);
            all.blobs.extend(brought.blobs);
        }
        Ok(all)
    }
}

type File = (PathBuf, Oid);

/// The plain files of each commit that none of its parents has as they are.
fn new_files(objects: &Objects, commits: &[Oid]) -> Result<Vec<(Oid, Vec<File>)>, GitError> {
    let files = |commit: Oid| {
        let (tree, before) = trees(objects, commit)?;
        let was_there =
            |(path, blob): &File| before.iter().any(|tree| tree.get_path(path).is_ok_and(|entry| entry.id() == *blob));
        let diff = objects.diff_tree_to_tree(before.first(), Some(&tree), None)?;
        let new = diff.deltas().filter(|delta| delta.status() != Delta::Deleted).map(|delta| delta.new_file());
        let new = new.filter(|file| matches!(file.mode(), FileMode::Blob | FileMode::BlobExecutable));
        let new = new.filter_map(|file| Some((path_of(file.path_bytes()?), file.id())));
        Ok((commit, new.filter(|file| !was_there(file)).collect()))
    };
    commits.iter().copied().map(files).collect()
}

/// Of files that LFS is to keep.
fn brought(objects: &Objects, new: &[(Oid, Vec<File>)]) -> Result<Brought, GitError> {
    let mut brought = Brought::default();
    for (commit, files) in new {
        let mut others = Vec::new();
        for (path, blob) in files {
            match kind_of(objects, *blob)? {
                Kind::Pointer(object) => drop(brought.objects.insert(object, path.clone())),
                Kind::Nothing => {}
                Kind::Other => others.push((path, blob)),
            }
        }
        if !others.is_empty() {
            // One that merely moved is there already.
            let before = blobs_in(&trees(objects, *commit)?.1)?;
            let others = others.into_iter().filter(|(_, blob)| !before.contains(blob));
            brought.blobs.extend(others.map(|(path, _)| path.clone()));
        }
    }
    Ok(brought)
}

fn blobs_in(trees: &[Tree<'_>]) -> Result<HashSet<Oid>, GitError> {
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

enum Kind {
    /// With the object it names.
    Pointer(String),
    /// An empty file is its own pointer, as the specification of Git LFS has it.
    Nothing,
    Other,
}

fn kind_of(objects: &Objects, blob: Oid) -> Result<Kind, GitError> {
    match objects.odb()?.read_header(blob)?.0 as u64 {
        0 => Ok(Kind::Nothing),
        1..=POINTER_BYTES => Ok(object_of(objects.find_blob(blob)?.content()).map_or(Kind::Other, Kind::Pointer)),
        _ => Ok(Kind::Other),
    }
}

/// Of the line `oid sha256:<64 digits>`.
fn object_of(pointer: &[u8]) -> Option<String> {
    let text = str::from_utf8(pointer).ok().filter(|text| text.as_bytes().starts_with(POINTER))?;
    let id = text.lines().find_map(|line| line.strip_prefix("oid sha256:"))?;
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_names_its_object_and_a_text_names_none() {
        let id = "1a".repeat(32);
        let pointer = |id: &str| format!("version https://git-lfs.github.com/spec/v1\noid sha256:{id}\nsize 9\n");
        assert_eq!(object_of(pointer(&id).as_bytes()), Some(id.clone()));
        for text in [pointer("1a"), pointer(&"x".repeat(64)), pointer(&id).replace("version", "Version"), String::new()]
        {
            assert_eq!(object_of(text.as_bytes()), None, "{text}");
        }
    }
}
