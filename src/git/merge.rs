//! The trial merge that proves squash merges: would merging this branch change the base at all?

use super::error::GitError;
use super::history::oid;
use super::repository::Repository;
use crate::model::CommitSha;
use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::Path};

impl Repository {
    /// Whether merging `tip` into `base` would leave `base`'s files as they are. A conflict means no, and so does a base
    /// that shares no commit with it (its history was replaced). Nothing is written to the repository: new objects go to a
    /// throw-away store.
    pub async fn merge_adds_nothing(&self, base: &CommitSha, tip: &CommitSha) -> Result<bool, GitError> {
        if !self.are_related(base, tip).await? {
            return Ok(false);
        }
        let id = oid(base)?;
        let tree = self.read(move |repository| Ok(repository.find_commit(id)?.tree_id().to_string())).await?;
        let scratch = self.scratch()?;
        let call = self.call("merge-tree").await?.env("GIT_OBJECT_DIRECTORY", scratch.path());
        let call = call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&self.directory().join("objects")));
        let call = call.args(["--write-tree", "--no-messages", "--name-only", "-z", "--end-of-options"]);
        let output = call.args([base.as_str(), tip.as_str()]).run().await?;
        match output.status {
            Some(0) => Ok(output.stdout.split(|byte| *byte == 0).next() == Some(tree.as_bytes())),
            Some(1) => Ok(false),
            _ => Err(output.failure()),
        }
    }
}

/// A path in a colon-separated list, in the quoted form git documents for names with odd characters.
fn quoted(path: &Path) -> OsString {
    let mut bytes = vec![b'"'];
    for byte in path.as_os_str().as_encoded_bytes() {
        if matches!(byte, b'"' | b'\\') {
            bytes.push(b'\\');
        }
        bytes.push(*byte);
    }
    bytes.push(b'"');
    OsString::from_vec(bytes)
}
