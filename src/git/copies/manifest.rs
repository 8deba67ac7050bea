//! The lists of what was copied into the worktrees of a repository. They lie beside the repository, where only the service
//! writes: by them, files are taken for nobody's work, and are kept out of commits.

use crate::git::error::GitError;
use crate::git::own_files::gone;
use crate::git::worktree::{blob_of, is_cache_inside};
use crate::git::{plain_file, write_down};
use crate::model::BranchName;
use crate::plain_file::Links;
use git2::{ObjectType, Oid};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Component, Path, PathBuf},
};

/// More than a list, or the exclude file of a repository, ever has.
pub(super) const MOST_LISTED: u64 = 64 * 1024 * 1024;

/// The end of the name of what is no worktree's list. No directory of a worktree has a name with it.
const NO_WORKTREES: [&str; 3] = [".lock", OF_BRANCH, super::known::FILE];
const OF_BRANCH: &str = "~branch";

/// Where the lists of a repository are: in a directory of its name and `.copies`, one file for each worktree.
pub(super) fn lists_of(repository: &Path) -> PathBuf {
    let mut name = repository.file_name().map(OsString::from).unwrap_or_default();
    name.push(".copies");
    repository.with_file_name(name)
}

/// The list of the worktree at `path`, named by the end of that, `<owner>/<repository>/<directory>` for one of ours: its entry's
/// name is the agent's to change, and what is around may move.
#[derive(Clone, Debug)]
pub struct List(PathBuf);

impl List {
    pub fn of(repository: &Path, path: &Path) -> Self {
        let mut parts: Vec<&[u8]> = path.iter().rev().take(3).map(OsStr::as_encoded_bytes).collect();
        parts.reverse();
        Self(lists_of(repository).join(OsString::from_vec(parts.join(&b'@'))))
    }

    /// The same of a worktree that was removed under this name, as long as its files are there: patterns go on hiding them.
    pub fn of_removed(repository: &Path, name: &str) -> Self {
        Self(lists_of(repository).join(format!("{name}~removed")))
    }

    /// Moves what is written down; nothing is fine.
    pub fn move_to(&self, other: &Self) -> Result<(), GitError> {
        gone(fs::rename(&self.0, &other.0), "moving", &self.0)
    }

    /// The list of all that was ever copied into worktrees of a branch. It outlives them: what comes back from the trash, or is in
    /// commits, is a copy as it was.
    pub fn of_branch(repository: &Path, branch: &BranchName) -> Self {
        let name = hex::encode(Sha256::digest(branch.as_str()));
        Self(lists_of(repository).join(name + OF_BRANCH))
    }

    /// What is written down; without a list, nothing was copied.
    pub fn load(&self) -> Result<Manifest, GitError> {
        read(&self.0)
    }

    /// Further copies of the same branch.
    pub(super) fn add(&self, more: &Manifest) -> Result<(), GitError> {
        let mut all = self.load()?;
        all.0.extend(more.0.iter().map(|(path, content)| (path.clone(), content.clone())));
        self.save(&all)
    }

    /// It is on the disk before the worktree is handed out: a copy that is on no list would be committed.
    pub(super) fn save(&self, manifest: &Manifest) -> Result<(), GitError> {
        let bytes = serde_json::to_vec(manifest).map_err(|error| GitError::Unreadable(error.to_string()))?;
        write_beside(&self.0, &bytes)
    }

    /// Nothing is written down any more: for a worktree that is new, or gone.
    pub fn forget(&self) -> Result<(), GitError> {
        gone(fs::remove_file(&self.0), "removing", &self.0)
    }
}

/// What was copied into one worktree, by path; nothing yet while the copying is under way.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Manifest(pub(super) BTreeMap<String, Option<Content>>);

/// What a file holds, or where a link leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    /// The id of the blob that it would become.
    id: String,
    /// In bytes.
    length: u64,
}

impl Content {
    /// `None` where the length is not `wanted`: nothing is read then, as an agent can make a file as long as it likes.
    fn read(path: &Path, wanted: impl FnOnce(u64) -> bool) -> io::Result<Option<Self>> {
        if let Ok(target) = fs::read_link(path) {
            let target = target.as_os_str().as_encoded_bytes();
            let id = Oid::hash_object(ObjectType::Blob, target).map_err(io::Error::other)?;
            return Ok(Some(Self { id: id.to_string(), length: target.len() as u64 }));
        }
        let file = crate::plain_file::open(path, Links::Refuse)?;
        let length = file.metadata()?.len();
        match wanted(length) {
            true => Ok(Some(Self { id: blob_of(file, length)?.to_string(), length })),
            false => Ok(None),
        }
    }
}

impl Manifest {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn with(mut self, more: Manifest) -> Self {
        more.0.into_iter().for_each(|(path, content)| _ = self.0.entry(path).or_insert(content));
        self
    }

    pub fn has(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| self.0.contains_key(path))
    }

    /// Whether anything was copied to a place below a directory.
    pub fn has_below(&self, directory: &Path) -> bool {
        self.0.keys().any(|path| Path::new(path).starts_with(directory))
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
                Ok(kind) if kind.is_dir() => is_cache_inside(files, &path) || self.accounts_for_all(files, &path),
                Ok(_) => self.is_unchanged(files, &path),
                Err(_) => false,
            }
        })
    }

    fn is_unchanged(&self, files: &Path, path: &Path) -> bool {
        let noted = path.to_str().and_then(|path| self.0.get(path)).and_then(Option::as_ref);
        let now = |noted: &Content| Content::read(&files.join(path), |length| length == noted.length);
        noted.is_some_and(|noted| now(noted).is_ok_and(|now| now.as_ref() == Some(noted)))
    }
}

/// The paths on all lists of a repository, as far as those can be read.
pub(super) fn all_listed(repository: &Path) -> Result<BTreeSet<String>, GitError> {
    let lists = lists_of(repository);
    let files = match fs::read_dir(&lists) {
        Ok(files) => files.collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let mut listed = BTreeSet::new();
    for file in files.map_err(|error| GitError::file("reading", &lists, &error))? {
        // What a kill left of one in the making is nowhere, either.
        if NO_WORKTREES.into_iter().any(|end| file.file_name().as_encoded_bytes().ends_with(end.as_bytes())) {
            continue;
        }
        match read(&file.path()) {
            Ok(list) => listed.extend(list.0.into_keys()),
            // One worktree's trouble is none of the others'.
            Err(error) => {
                tracing::warn!(error = %error, "what was copied into a worktree cannot be read; it is left out")
            }
        }
    }
    Ok(listed)
}

/// Beside the repository, where there may be no list yet.
pub(super) fn write_beside(path: &Path, bytes: &[u8]) -> Result<(), GitError> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory).map_err(|error| GitError::file("making", directory, &error))?;
    write_down(path, bytes)
}

fn read(list: &Path) -> Result<Manifest, GitError> {
    match plain_file(list, MOST_LISTED) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map_err(|error| GitError::Unreadable(format!("{}: {error}", list.display())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Manifest::default()),
        Err(error) => Err(GitError::file("reading", list, &error)),
    }
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

pub(super) fn content_of(path: &Path) -> io::Result<Content> {
    Content::read(path, |_| true)?.ok_or_else(|| io::ErrorKind::InvalidInput.into())
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
