//! What is asked for after a merge begins at the base: a worktree whose branch is merged goes before the next run, as any does
//! (proof, journal, trash, receipt), and the run gets one on a new branch.

use super::super::{Orchestrator, StepError, scan::View};
use super::{Cause, Swept};
use crate::decide::cleanup::Occasion;
use crate::decide::retire::{RetireFacts, may_be_over, retire};
use crate::git::Repository;
use crate::model::*;

/// What became of an environment that a run was about to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::orchestrator) enum Retired {
    /// There is work on it that is not merged, or none at all.
    InUse,
    /// The receipt says for which request: see [`Orchestrator::retired_for`].
    Gone,
    /// Merged, but something keeps it.
    Stays,
}

impl Orchestrator {
    /// The canonical repository has just been fetched.
    pub(in crate::orchestrator) async fn retire(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        conversation: &Conversation,
        environment: &Environment,
        delivery: InboxId,
    ) -> Result<Retired, StepError> {
        let Some(base) = environment.base.as_ref().filter(|_| may_be_over(environment)) else {
            return Ok(Retired::InUse);
        };
        let Some(base_tip) = repository.tip(&base.remote_ref()).await? else { return Ok(Retired::InUse) };
        let (id, branch) = (environment.id, &environment.branch);
        match self.is_merged(codebase, repository, Some(id), branch, base, &base_tip).await {
            Ok(true) => {}
            Ok(false) => return Ok(Retired::InUse),
            // Nothing makes way for what nobody knows, and work goes on meanwhile.
            Err(StepError::Github(error)) => {
                tracing::warn!(
                    environment.id = %id, codebase.name = %codebase.name, %error,
                    "whether its branch is merged could not be asked; the work goes on in it"
                );
                return Ok(Retired::InUse);
            }
            Err(error) => return Err(error),
        }
        let _lease = self.inner.leases.take(environment.id).await;
        let Some(environment) = self.store().load_environment(environment.id).await? else {
            return Ok(Retired::Gone);
        };
        let users = self.store().conversations_of(environment.id).await?;
        let view = View::Fetched(Probe::Known(()));
        let facts = RetireFacts {
            removal: self.removal_facts(codebase, repository, &environment, Occasion::MakesWay, &view).await?,
            shared: users.iter().any(|user| user.id != conversation.id && user.state == ThreadState::Open),
            awaited: self.store().environment_is_busy(environment.id, Some(conversation.id)).await?,
        };
        let Some(removal) = retire(&facts) else { return Ok(Retired::Stays) };
        let (occasion, trigger) = (Occasion::MakesWay, Trigger::MadeWay);
        let asked_in = Some(delivery);
        let cause = Cause { occasion, trigger, actor: "treewarden", tell: None, asked_in, answered: None, only: None };
        let ready = match Box::pin(self.make_ready(repository, &environment, &removal)).await? {
            Ok(ready) => ready,
            Err(reason) => return self.keep(environment, vec![reason], Vec::new()).await.map(|_| Retired::Stays),
        };
        let environment = self.journal(environment, &removal, ready, &cause, None).await?;
        Ok(match Box::pin(self.finish_removal(codebase, repository, environment, cause.actor)).await? {
            Swept::Removed(_) | Swept::Gone => Retired::Gone,
            Swept::Kept(_) => Retired::Stays,
        })
    }

    /// What went for the request in `delivery`, before or after a restart.
    pub(in crate::orchestrator) async fn retired_for(
        &self,
        delivery: InboxId,
    ) -> Result<Vec<ReceiptDetails>, StepError> {
        let went = self.store().receipts_for(delivery).await?.into_iter();
        Ok(went.filter(|receipt| receipt.trigger == Trigger::MadeWay).map(|receipt| receipt.details).collect())
    }
}
