//! Work while the git server cannot be reached: from what the last fetch brought, where the settings allow it and
//! everything that is needed came with it.

use super::{Orchestrator, StepError, retry};
use crate::git::Repository;
use crate::github::PullRequest;
use crate::model::*;
use crate::reply::remote;

/// What work cannot begin without, besides the default branch and the base that the repository's settings name.
pub(super) struct Needed<'a> {
    pub pull: Option<&'a PullRequest>,
    /// The base that a person named.
    pub base: Option<&'a BranchName>,
}

impl Orchestrator {
    /// Brings the canonical repository up to date. Answers with what is to be told when that is done without.
    pub(super) async fn fetch_or_do_without(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        clone_url: &str,
        needed: &Needed<'_>,
    ) -> Result<Option<String>, StepError> {
        let number = needed.pull.map(|pull| pull.number);
        let error = match retry::patiently(|| self.fetch(codebase, repository, clone_url, number)).await {
            Ok(()) => return Ok(None),
            Err(error) => error,
        };
        if !self.settings().offline_create || !is_out_of_reach(&error) {
            return Err(error);
        }
        // A doubt about what is here is no reason to hide the first cause.
        if !self.is_all_here(codebase, repository, needed).await.unwrap_or(false) {
            return Err(error);
        }
        tracing::warn!(codebase.name = %codebase.name, %error, "not fetched; work starts from what is here");
        let age = repository.fetched_at().map(|at| self.now().since(at));
        Ok(Some(remote::offline(age)))
    }

    async fn is_all_here(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        needed: &Needed<'_>,
    ) -> Result<bool, StepError> {
        let Some(default) = &codebase.default_branch else { return Ok(false) };
        let mut bases = vec![default.clone()];
        bases.extend(needed.base.cloned());
        bases.extend(needed.pull.map(|pull| pull.base.clone()));
        for base in &bases {
            if repository.tip(&base.remote_ref()).await?.is_none() {
                return Ok(false);
            }
        }
        let before = self.store().load_repo_settings(codebase.id).await?;
        let settings = self.look_up_settings(codebase, repository, before.as_ref()).await?.in_force;
        if let Some(base) = &settings.base
            && repository.tip(&base.remote_ref()).await?.is_none()
        {
            return Ok(false);
        }
        let Some(pull) = needed.pull else { return Ok(true) };
        // What GitHub shows just now, and nothing older.
        let head = match pull.is_fork() {
            true => super::gather::pull_ref(pull.number),
            false => pull.head.remote_ref(),
        };
        Ok(repository.tip(&head).await?.as_ref() == Some(&pull.head_sha))
    }
}

/// Nobody answered, or only to say that the server is out of order. One that refuses, or knows no such repository, did.
fn is_out_of_reach(error: &StepError) -> bool {
    match error {
        StepError::Git(error) => error.is_out_of_reach(),
        // Fetching ends with none of the others.
        _ => false,
    }
}
