//! What a checkout of a commit takes that is not in it, found in the object store before there is a checkout.

use super::error::GitError;
use super::history::oid;
use super::repository::Repository;
use crate::model::{CheckoutNeeds, CommitSha};
use git2::{ObjectType, TreeWalkMode, TreeWalkResult};
use std::collections::HashSet;

/// What attributes say of a file that is kept by LFS.
const MARK: &[u8] = b"filter=lfs";

impl Repository {
    /// Looks at each directory of a commit once, wherever it stands, until nothing can be added: few objects can name a
    /// directory any number of times.
    pub async fn needs(&self, commit: &CommitSha) -> Result<CheckoutNeeds, GitError> {
        let id = oid(commit)?;
        self.read(move |repository| {
            let mut needs = CheckoutNeeds::NONE;
            let mut seen = HashSet::new();
            let walked = repository.find_commit(id)?.tree()?.walk(TreeWalkMode::PreOrder, |_, entry| {
                match entry.kind() {
                    Some(ObjectType::Tree) if !seen.insert(entry.id()) => return TreeWalkResult::Skip,
                    Some(ObjectType::Commit) => needs.submodules = true,
                    Some(ObjectType::Blob) if !needs.lfs && entry.name_bytes() == b".gitattributes" => {
                        let says = |blob: git2::Blob<'_>| blob.content().windows(MARK.len()).any(|part| part == MARK);
                        needs.lfs = repository.find_blob(entry.id()).is_ok_and(says);
                    }
                    _ => {}
                }
                if needs == CheckoutNeeds::ALL { TreeWalkResult::Abort } else { TreeWalkResult::Ok }
            });
            if needs != CheckoutNeeds::ALL {
                walked?;
            }
            Ok(needs)
        })
        .await
    }
}
