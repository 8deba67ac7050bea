//! What commits that were made here bring in at places that Git LFS is to keep: pointers, or what should have been pointers.

use super::error::GitError;
use super::history::oid;
use super::lfs::{POINTER, POINTER_BYTES};
use super::worktree::{Worktree, brought_by, has_blob};
use git2::{Oid, Repository as Objects};
use std::{
    collections::{BTreeMap, BTreeSet},
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
        let all = move |objects: &Objects| {
            let (mut all, mut walk) = (Vec::new(), objects.revwalk()?);
            walk.push(head)?;
            walk.hide_glob("refs/remotes/origin/*")?;
            for commit in walk {
                let commit = objects.find_commit(commit?)?;
                let brought = brought_by(objects, &commit)?;
                all.extend(brought.into_iter().map(|(path, blob)| (commit.id(), path, blob)));
            }
            Ok(all)
        };
        let mut all: Vec<(Oid, PathBuf, Oid)> = self.repository().read(all).await?;
        let paths: BTreeSet<_> = all.iter().map(|(_, path, _)| path.clone()).collect();
        let paths: Vec<_> = paths.into_iter().collect();
        let kept: BTreeSet<_> = self.kept_by_lfs(&paths).await?.into_iter().collect();
        all.retain(|(_, path, _)| kept.contains(path));
        self.repository()
            .read(move |objects| {
                let mut brought = Brought::default();
                for (commit, path, blob) in &all {
                    match kind_of(objects, *blob)? {
                        Kind::Pointer(object) => drop(brought.objects.insert(object, path.clone())),
                        Kind::Nothing => {}
                        Kind::Other => {
                            let parents = objects.find_commit(*commit)?;
                            let before =
                                parents.parents().map(|parent| parent.tree()).collect::<Result<Vec<_>, _>>()?;
                            if !has_blob(&before, *blob)? {
                                brought.blobs.insert(path.clone());
                            }
                        }
                    }
                }
                Ok(brought)
            })
            .await
    }
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
