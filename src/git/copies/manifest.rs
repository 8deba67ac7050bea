//! The list of what was copied into one worktree. It lies in the admin entry, where an agent can write: what stands in it
//! is believed only as far as it could be true.

use crate::git::error::GitError;
use crate::git::registry::{self, AdminEntry};
use crate::git::worktree::is_cache;
use crate::git::{plain_file, write_whole};
use git2::{ObjectType, Oid};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::{Component, Path},
};

/// In the admin entry: what was copied, as JSON. Paths to blob ids; no id yet while the copying is under way.
const MANIFEST: &str = "treewarden-copies";

/// More than a manifest, or the exclude file of a repository, ever has.
pub(super) const MOST_LISTED: u64 = 64 * 1024 * 1024;

/// What was copied into one worktree.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Manifest(pub(super) BTreeMap<String, Option<String>>);

impl Manifest {
    /// What is written down in an admin entry; nothing there is an empty one. An agent may have written to it: what we
    /// would never have copied counts for nothing.
    pub fn load(entry: &AdminEntry) -> Result<Self, GitError> {
        let path = entry.directory.join(MANIFEST);
        let bytes = match plain_file(&path, MOST_LISTED) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(GitError::file("reading", &path, &error)),
        };
        let mut manifest: Self = serde_json::from_slice(&bytes)
            .map_err(|error| GitError::Unreadable(format!("{}: {error}", path.display())))?;
        manifest.0.retain(|path, _| nameable(Path::new(path)).is_some());
        Ok(manifest)
    }

    pub(super) fn save(&self, entry: &AdminEntry) -> Result<(), GitError> {
        let bytes = serde_json::to_vec(self).map_err(|error| GitError::Unreadable(error.to_string()))?;
        write_whole(&entry.directory.join(MANIFEST), &bytes)
    }

    /// Nothing is written down any more.
    pub(super) fn forget(entry: &AdminEntry) -> Result<(), GitError> {
        let path = entry.directory.join(MANIFEST);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GitError::file("removing", &path, &error)),
            _ => Ok(()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The blobs that the copies would become, as they were when they were made.
    pub fn contents(&self) -> HashSet<Oid> {
        self.0.values().flatten().filter_map(|id| Oid::from_str(id).ok()).collect()
    }

    pub fn has(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| self.0.contains_key(path))
    }

    /// Whether a listed path, below `files`, is a copy that nobody changed, or a directory that holds nothing else.
    pub fn accounts_for(&self, files: &Path, path: &Path) -> bool {
        if !path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return self.is_unchanged(files, path);
        }
        // A directory without any copy is not even looked into.
        self.0.keys().any(|copy| Path::new(copy).starts_with(path)) && self.accounts_for_all(files, path)
    }

    fn accounts_for_all(&self, files: &Path, directory: &Path) -> bool {
        let Ok(entries) = fs::read_dir(files.join(directory)) else { return false };
        entries.into_iter().all(|entry| {
            let Ok(entry) = entry else { return false };
            let path = directory.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => is_cache(&path.join("")) || self.accounts_for_all(files, &path),
                Ok(_) => self.is_unchanged(files, &path),
                Err(_) => false,
            }
        })
    }

    pub(super) fn is_unchanged(&self, files: &Path, path: &Path) -> bool {
        let noted = path.to_str().and_then(|path| self.0.get(path)).and_then(Option::as_ref);
        noted.is_some_and(|noted| id_of(&files.join(path)).is_ok_and(|id| id == *noted))
    }
}

/// What was copied into the other worktrees of a repository, as far as that can be read.
pub(super) fn other_manifests(repository: &Path, own: &AdminEntry) -> Result<Vec<Manifest>, GitError> {
    let entries = registry::entries(&repository.join("worktrees"))?;
    let others = entries.into_iter().filter(|entry| entry.directory != own.directory);
    Ok(others.filter_map(|entry| Manifest::load(&entry).ok()).collect())
}

/// The name of a path that may be copied: text on one line, outside of anything of git's.
pub(super) fn nameable(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let plain = |part: Component| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        _ => false,
    };
    let fine = !text.ends_with('/') && !text.chars().any(char::is_control) && path.components().all(plain);
    fine.then(|| text.to_owned())
}

/// The id git gives to the content of a file, or to where a link leads.
pub(super) fn id_of(path: &Path) -> io::Result<String> {
    let meta = fs::symlink_metadata(path)?;
    let id = match meta.is_symlink() {
        true => Oid::hash_object(ObjectType::Blob, fs::read_link(path)?.as_os_str().as_encoded_bytes()),
        false if meta.is_file() => Oid::hash_file(ObjectType::Blob, path),
        false => return Err(io::ErrorKind::InvalidInput.into()),
    };
    id.map(|id| id.to_string()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_gits_own_are_never_copied() {
        for bad in [".git/config", "a/.GIT/x", "a\nb", "sub/", "../x", "/x"] {
            assert_eq!(nameable(Path::new(bad)), None, "{bad:?}");
        }
        assert!(nameable(Path::new("a/.gitx b")).is_some());
    }
}
