//! What commits that were made here bring in at places that Git LFS is to keep: pointers, or what should have been pointers.

use super::error::GitError;
use super::history::oid;
use super::lfs::{POINTER, POINTER_BYTES};
use super::new_files::{COMMITS_AT_ONCE, NewFile, blobs_in, new_files, parents_of};
use super::worktree::Worktree;
use git2::{FileMode, Oid, Repository as Objects};
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
            new.retain(|new| matches!(new.mode, FileMode::Blob | FileMode::BlobExecutable));
            let paths: BTreeSet<PathBuf> = new.iter().map(|new| new.path.clone()).collect();
            let kept = self.kept_by_lfs_in_index(&Vec::from_iter(paths)).await?;
            let kept: HashSet<PathBuf> = kept.into_iter().collect();
            new.retain(|new| kept.contains(&new.path));
            let brought = self.repository().read(move |objects| brought(objects, &new)).await?;
            all.objects.extend(brought.objects);
            all.blobs.extend(brought.blobs);
        }
        Ok(all)
    }
}

/// Of files that LFS is to keep.
fn brought(objects: &Objects, new: &[NewFile]) -> Result<Brought, GitError> {
    let mut brought = Brought::default();
    for of_commit in new.chunk_by(|one, next| one.commit == next.commit) {
        let mut others = Vec::new();
        for new in of_commit {
            match kind_of(objects, new.blob)? {
                Kind::Pointer(object) => drop(brought.objects.insert(object, new.path.clone())),
                Kind::Nothing => {}
                Kind::Other => others.push(new),
            }
        }
        if !others.is_empty() {
            // One that merely moved is there already.
            let before = blobs_in(&parents_of(objects, of_commit[0].commit)?)?;
            let others = others.into_iter().filter(|other| !before.contains(&other.blob));
            brought.blobs.extend(others.map(|other| other.path.clone()));
        }
    }
    Ok(brought)
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
