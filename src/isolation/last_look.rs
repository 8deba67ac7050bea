//! The last look at files that lie in the trash, and what follows it. That they may go is recorded there alone, in the
//! home: what the repository says of it is in the hands of whoever works there.

use super::worktree::{BEGUN, WorktreeProvider, certain, exists};
use super::{IsolationError, LastLook, MOST_IGNORED, mounts};
use crate::git::{GitError, Repository, Worktree};
use crate::model::*;
use crate::telemetry::field::EFFECT;
use std::path::Path;

impl WorktreeProvider {
    pub(super) async fn look_again_now(
        &self,
        repository: &Repository,
        look: &LastLook,
    ) -> Result<Option<CommitSha>, IsolationError> {
        let (place, name) = (self.trash.place(look.environment), look.environment.to_string());
        if !exists(&place)? {
            return Ok(None);
        }
        let worktree = repository.removed_worktree(&look.path, &name, &place, &look.head).await?;
        let kept = self.keep_what_is_there(&worktree, &place, &look.keep_under).await?;
        tracing::debug!(target: EFFECT, { environment.id = %look.environment }, "files looked at in the trash");
        Ok(kept)
    }

    /// What is there stays as it is.
    async fn keep_what_is_there(
        &self,
        worktree: &Worktree,
        place: &Path,
        name: &str,
    ) -> Result<Option<CommitSha>, IsolationError> {
        // Whoever is still in there writes on.
        self.unused(place).await?;
        mounts::refuse(place)?;
        if certain(worktree.operation_in_progress().await)?.is_some() {
            return Err(IsolationError::NotKeepable(BEGUN.to_owned()));
        }
        if let Some(path) = certain(worktree.nested_repositories().await)?.first() {
            return Err(IsolationError::NotKeepable(format!("a repository lies in {path}")));
        }
        if let Some(path) = certain(worktree.submodule_work().await)?.first() {
            return Err(IsolationError::NotKeepable(format!("the submodule {path} holds work of its own")));
        }
        worktree.keep(name, MOST_IGNORED).await.map_err(|error| match error {
            GitError::NotKeepable(_) => IsolationError::NotKeepable(worktree.told_outside(&error)),
            error => error.into(),
        })
    }

    pub(super) async fn release_now(
        &self,
        repository: &Repository,
        environment: EnvironmentId,
    ) -> Result<(), IsolationError> {
        let place = self.trash.place(environment);
        self.trash.release(environment).map_err(|error| IsolationError::files("moving", &place, &error))?;
        tracing::debug!(target: EFFECT, { environment.id = %environment }, "trash released");
        self.empty_in_background();
        repository.forget_removed(&environment.to_string()).await?;
        self.forget_released_now(repository).await
    }

    /// What git knew of files that are not in the trash any more.
    pub(super) async fn forget_released_now(&self, repository: &Repository) -> Result<(), IsolationError> {
        // One that is out of sight is not gone.
        self.mark.check(&self.base)?;
        let trash = self.trash.clone();
        Ok(repository.forget_all_removed(move |name| trash.has(name)).await?)
    }
}
