//! The environment of an issue that holds nothing of its own makes way for that of the pull request which closes the issue:
//! both threads then work on the pull request's real head branch.
//!
//! The worktree is not switched in place. That would be a second way to change a worktree, its branch and its row, in five
//! steps that git and the database cannot take together, and it would leave a directory that is called after another branch,
//! with copies, submodules, large files and refs of the old one in it. Here the cleanup service takes the old one away as
//! it takes any (proof, journal, trash, receipt, and the branch only while it stands at the commit that was examined), and
//! the pull request gets its own as any does. Each half goes on after a kill at any of its steps. Between the two nothing is
//! lost, because there was nothing; the request that waits finds in the receipt what it began, and goes on to the creation.
//! Nor is the limit of environments passed at any moment.
//!
//! The new row is the pull request's, since its branch is, and there is one row for a piece of work. The issue finds it by its
//! thread, which is pointed to it, and by the closing reference, which needs no row at all.

use super::super::{Orchestrator, StepError, create, scan::View};
use super::Swept;
use crate::decide::cleanup::{Occasion, Removal};
use crate::decide::pristine::{PristineFacts, pristine};
use crate::decide::resolve::Place;
use crate::git::Repository;
use crate::model::*;
use crate::reply::cleanup;
use crate::telemetry::field::EFFECT;

impl Orchestrator {
    /// Whether an issue's environment may make way for one on `branch`. The canonical repository has just been fetched.
    pub(in crate::orchestrator) async fn may_make_way(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: &Environment,
        branch: &BranchName,
    ) -> Result<bool, StepError> {
        Ok(self.removal_for(codebase, repository, environment, branch).await?.is_some())
    }

    /// Takes an issue's environment away for `place`, asked for by `delivery`, if all is still as when it was decided. False: it
    /// stays.
    pub(in crate::orchestrator) async fn make_way(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        id: EnvironmentId,
        place: &Place,
        delivery: InboxId,
    ) -> Result<bool, StepError> {
        // From here until the row is journalled no run can bind itself to the environment.
        let _lease = self.inner.leases.take(id).await;
        let Some(mut environment) = self.store().load_environment(id).await? else { return Ok(false) };
        let removal = self.removal_for(codebase, repository, &environment, &place.branch).await?;
        let Some(removal) = removal else { return Ok(false) };
        let ready = match Box::pin(self.make_ready(repository, &environment, &removal)).await? {
            Ok(ready) => ready,
            Err(reason) => return self.keep(environment, vec![reason], Vec::new()).await.map(|_| false),
        };
        environment.state = EnvironmentState::Removing;
        environment.metadata.removal = Some(PendingRemoval {
            trigger: Trigger::MadeWay,
            tell: self.own_thread(&environment).await?,
            proof: cleanup::proof(&removal, &environment.branch),
            tip: removal.tip,
            delete_branch: removal.delete_branch,
            keep_work: removal.keep_work,
            kept: ready.kept,
            rescued: removal.rescued,
            bytes: ready.bytes,
            asked_in: Some(delivery),
            actor: Some("treewarden".to_owned()),
            successor: Some(place.work.clone()),
            stuck: None,
        });
        let environment = self.store().update_environment(&environment).await?;
        tracing::debug!(target: EFFECT, { environment.id = %id }, "making way journalled");
        Ok(match Box::pin(self.finish_removal(codebase, repository, environment, "treewarden")).await? {
            Swept::Removed(_) | Swept::Gone => true,
            Swept::Kept(_) => false,
        })
    }

    /// The work whose environment has made way for the request in `delivery`, before or after a restart.
    pub(in crate::orchestrator) async fn made_way(&self, delivery: InboxId) -> Result<Option<Work>, StepError> {
        for receipt in self.store().receipts_for(delivery).await? {
            if receipt.trigger == Trigger::MadeWay {
                let environment = self.store().load_environment(receipt.environment).await?;
                return Ok(environment.map(|environment| environment.work));
            }
        }
        Ok(None)
    }

    async fn removal_for(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: &Environment,
        branch: &BranchName,
    ) -> Result<Option<Removal>, StepError> {
        if !self.is_free(repository, environment, branch).await? {
            return Ok(None);
        }
        Ok(pristine(&Box::pin(self.pristine_facts(codebase, repository, environment)).await?))
    }

    /// Whether a new environment could have this branch: none has it, nothing is in its way, and no fork's commits are on it.
    async fn is_free(
        &self,
        repository: &Repository,
        environment: &Environment,
        branch: &BranchName,
    ) -> Result<bool, StepError> {
        let live = self.store().live_environments(Some(environment.codebase)).await?;
        Ok(live.iter().all(|other| other.branch != *branch)
            && repository.branch_in_the_way(branch).await?.is_none()
            && !create::is_a_forks(repository, branch).await?)
    }

    async fn pristine_facts(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: &Environment,
    ) -> Result<PristineFacts, StepError> {
        let view = View::Fetched(Probe::Known(()));
        let awaited = match environment.work.thread() {
            Some(number) => match self.store().find_conversation(environment.codebase, number).await? {
                Some(thread) => self.store().live_run_of(thread.id).await?.is_some(),
                None => false,
            },
            None => false,
        };
        let pushed = async {
            let Some(there) = repository.tip(&environment.branch.remote_ref()).await? else { return Ok(false) };
            match environment.base.as_ref().or(codebase.default_branch.as_ref()) {
                Some(base) => match repository.tip(&base.remote_ref()).await? {
                    Some(base) => Ok::<_, StepError>(!repository.is_ancestor(&there, &base).await?),
                    None => Ok(true),
                },
                None => Ok(true),
            }
        };
        Ok(PristineFacts {
            pushed: pushed.await.into(),
            awaited,
            removal: self.removal_facts(codebase, repository, environment, Occasion::MakesWay, &view).await?,
        })
    }
}
