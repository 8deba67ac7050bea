//! Moving and deleting refs, always by compare-and-swap: a ref that somebody else moved stays as it is.

use super::error::GitError;
use super::history::sha;
use super::own_files::REFS;
use super::repository::Repository;
use super::{blocking, broken_refs, case};
use crate::model::{BranchName, CommitSha, Timestamp};
use git2::{ErrorCode, Oid, Reference, Repository as Objects, Revwalk};
use std::path::Path;

/// What stands for "this ref must not exist".
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// What a ref of ours holds is taken away elsewhere afterwards: it has to be on the disk by then.
const OURS: &str = "refs/treewarden/";
pub(super) const LASTING: &str = "core.fsync=all";

/// Full names and commits of the branches that the last fetch brought. One that is another name of a ref, or has a name that
/// git does not read, came with no fetch, and no fetch takes it away.
pub(super) fn fetched_tips(
    repository: &Objects,
) -> Result<impl Iterator<Item = Result<(String, Oid), GitError>>, GitError> {
    let all = repository.references_glob("refs/remotes/origin/*")?;
    Ok(all.filter_map(|reference| match reference {
        Ok(reference) => {
            let name = reference.name().ok().filter(|name| Reference::is_valid_name(name))?;
            Some(Ok((name.to_owned(), reference.target()?)))
        }
        Err(error) => Some(Err(error.into())),
    }))
}

/// Leaves what the remote has out of a walk.
pub(super) fn hide_fetched(repository: &Objects, walk: &mut Revwalk<'_>) -> Result<(), GitError> {
    for fetched in fetched_tips(repository)? {
        let (_, tip) = fetched?;
        // One that is not here hides nothing.
        if repository.find_commit(tip).is_ok() {
            walk.hide(tip)?;
        }
    }
    Ok(())
}

impl Repository {
    /// Points a full ref at `new` if it stands at `old` (`None`: does not exist). True also when it is at `new` already.
    pub async fn set_ref(&self, full_ref: &str, new: &CommitSha, old: Option<&CommitSha>) -> Result<bool, GitError> {
        let _turn = self.turn().await;
        self.set_ref_in_turn(full_ref, new, old).await
    }

    /// A branch, here or on the remote as last fetched, beside which this one cannot exist: git keeps `a` and `a/b` in the
    /// same place, and some disks `a` and `A`.
    pub async fn branch_in_the_way(&self, branch: &BranchName) -> Result<Option<String>, GitError> {
        let branch = branch.clone();
        let folds_case = self.git.inner.folds_case;
        self.read(move |repository| {
            for prefix in ["refs/heads/", "refs/remotes/origin/"] {
                if folds_case {
                    // By the names as they are kept: asked for one, such a disk answers with the other.
                    for name in repository.references_glob(&format!("{prefix}*"))?.names() {
                        let name = name?;
                        let name = name.strip_prefix(prefix).unwrap_or(name);
                        if case::collide(branch.as_str(), name) {
                            return Ok(Some(name.to_owned()));
                        }
                    }
                    continue;
                }
                for parent in branch.above() {
                    match repository.find_reference(&format!("{prefix}{parent}")) {
                        Ok(_) => return Ok(Some(parent.to_owned())),
                        Err(error) if error.code() == ErrorCode::NotFound => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                let mut below = repository.references_glob(&format!("{prefix}{branch}/*"))?;
                if let Some(child) = below.names().next() {
                    return Ok(Some(child?.split_at(prefix.len()).1.to_owned()));
                }
            }
            Ok(None)
        })
        .await
    }

    /// Whether the last fetch brought any branch.
    pub async fn has_remote_branches(&self) -> Result<bool, GitError> {
        self.read(|repository| Ok(fetched_tips(repository)?.next().transpose()?.is_some())).await
    }

    /// Full names and commits of the branches that the last fetch brought.
    pub(super) async fn remote_branches(&self) -> Result<Vec<(String, CommitSha)>, GitError> {
        self.read(|repository| {
            fetched_tips(repository)?.map(|found| found.and_then(|(name, tip)| Ok((name, sha(tip)?)))).collect()
        })
        .await
    }

    /// Deletes a branch if it stands at `expected` and no worktree has it checked out. True when it is gone, now or
    /// before; false when it stays.
    pub async fn delete_branch(&self, branch: &BranchName, expected: &CommitSha) -> Result<bool, GitError> {
        let _turn = self.turn().await;
        let full = branch.full_ref();
        match self.tip(&full).await? {
            None => return Ok(true),
            Some(tip) if tip != *expected => return Ok(false),
            Some(_) => {}
        }
        if self.worktrees_in_turn().await?.iter().any(|entry| entry.branch.as_ref() == Some(branch)) {
            return Ok(false);
        }
        self.delete_ref_in_turn(&full, expected).await
    }

    /// Deletes a ref of ours if it stands at `expected`. True when it is gone, now or before.
    pub async fn delete_own_ref(&self, full_ref: &str, expected: &CommitSha) -> Result<bool, GitError> {
        if !full_ref.starts_with(OURS) {
            return Err(GitError::refused(format!("{full_ref} is none of ours")));
        }
        let _turn = self.turn().await;
        self.delete_ref_in_turn(full_ref, expected).await
    }

    /// Full names and commits of the refs below a prefix (`refs/…/`), with the moment their commit was made.
    pub async fn refs_below(&self, prefix: &str) -> Result<Vec<(String, CommitSha, Timestamp)>, GitError> {
        let prefix = prefix.to_owned();
        self.read(move |repository| {
            let mut found = Vec::new();
            for reference in repository.references_glob(&format!("{prefix}*"))? {
                let reference = reference?;
                if let (Ok(name), Ok(commit)) = (reference.name(), reference.peel_to_commit()) {
                    let made = Timestamp::from_unix(commit.time().seconds());
                    found.push((name.to_owned(), sha(commit.id())?, made));
                }
            }
            Ok(found)
        })
        .await
    }

    pub(super) async fn set_ref_in_turn(
        &self,
        full_ref: &str,
        new: &CommitSha,
        old: Option<&CommitSha>,
    ) -> Result<bool, GitError> {
        let old_value = old.map_or(NOTHING, CommitSha::as_str);
        let change = ["--no-deref", "--end-of-options", full_ref, new.as_str(), old_value];
        let settings: &[&str] = if full_ref.starts_with(OURS) { &[LASTING] } else { &[] };
        match self.update_ref(full_ref, settings, &change).await {
            Ok(()) => Ok(true),
            Err(error) => self.settled(full_ref, Some(new), old, error).await,
        }
    }

    pub(super) async fn delete_ref_in_turn(&self, full_ref: &str, expected: &CommitSha) -> Result<bool, GitError> {
        let change = ["--no-deref", "-d", "--end-of-options", full_ref, expected.as_str()];
        match self.update_ref(full_ref, &[], &change).await {
            Ok(()) => Ok(true),
            Err(error) => self.settled(full_ref, None, Some(expected), error).await,
        }
    }

    /// Takes out of all refs what a fetch would write through, or stop at: links, and other names of refs.
    pub async fn restore_refs(&self) -> Result<(), GitError> {
        self.restore_what(broken_refs::mend_names).await
    }

    /// The same of what is on the way to one that is to be written.
    pub(super) async fn restore_way(&self, full_ref: &str) -> Result<(), GitError> {
        let full_ref = full_ref.to_owned();
        self.restore_what(move |repository| broken_refs::mend_way(repository, &full_ref)).await
    }

    async fn restore_what(
        &self,
        mend: impl FnOnce(&Path) -> Result<bool, GitError> + Send + 'static,
    ) -> Result<(), GitError> {
        let shared = self.shared.clone();
        if blocking(move || mend(&shared.directory)).await? {
            self.shared.was_restored(REFS[0]);
        }
        Ok(())
    }

    async fn update_ref(&self, full_ref: &str, settings: &[&str], change: &[&str]) -> Result<(), GitError> {
        const UPDATE: &str = "update-ref";
        self.restore_way(full_ref).await?;
        match self.bare_call_with(settings, UPDATE).await?.args(change).ok().await {
            Err(error) if self.clear_leftovers(None, &error).await? => {
                self.bare_call_with(settings, UPDATE).await?.args(change).ok().await.map(drop)
            }
            result => result.map(drop),
        }
    }

    /// After a refusal the ref itself says whether it had moved; otherwise the refusal is an error.
    async fn settled(
        &self,
        full_ref: &str,
        wanted: Option<&CommitSha>,
        old: Option<&CommitSha>,
        failure: GitError,
    ) -> Result<bool, GitError> {
        let tip = self.tip(full_ref).await?;
        match tip.as_ref() {
            tip if tip == wanted => Ok(true),
            tip if tip != old => Ok(false),
            _ => Err(failure),
        }
    }
}
