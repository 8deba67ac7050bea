//! One file of a commit, read from the object store: no worktree is looked at, nothing is checked out.

use super::error::GitError;
use super::mode;
use super::repository::Repository;
use crate::model::BlobId;
use git2::{ErrorCode, ObjectType};
use std::path::Path;

/// A file as a commit has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileAt {
    /// Changes whenever the content does.
    pub id: BlobId,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Bytes(Vec<u8>),
    /// More than was asked for; its size in bytes. It was not read.
    TooLarge(u64),
    /// A directory, a link or a submodule has this name.
    NoFile,
}

impl Repository {
    /// The file at `path` in the commit that a full ref stands for, at most `max_bytes` of it. `None` when there is no such
    /// ref or nothing of that name.
    pub async fn file_at(&self, full_ref: &str, path: &str, max_bytes: usize) -> Result<Option<FileAt>, GitError> {
        let (name, path) = (full_ref.to_owned(), path.to_owned());
        self.read(move |repository| {
            let tree = match repository.find_reference(&name) {
                Ok(reference) => reference.peel_to_commit()?.tree()?,
                Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let entry = match tree.get_path(Path::new(&path)) {
                Ok(entry) => entry,
                Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let id = BlobId::new(&entry.id().to_string()).map_err(|error| GitError::Unreadable(error.to_string()))?;
            let content = match entry.kind() {
                Some(ObjectType::Blob) if u32::try_from(entry.filemode()) != Ok(mode::LINK) => {
                    read(repository, entry.id(), max_bytes)?
                }
                _ => Content::NoFile,
            };
            Ok(Some(FileAt { id, content }))
        })
        .await
    }
}

/// The size is looked up first: a huge file costs nothing.
fn read(repository: &git2::Repository, id: git2::Oid, max_bytes: usize) -> Result<Content, GitError> {
    let (size, _) = repository.odb()?.read_header(id)?;
    if size > max_bytes {
        return Ok(Content::TooLarge(size as u64));
    }
    Ok(Content::Bytes(repository.find_blob(id)?.content().to_vec()))
}
