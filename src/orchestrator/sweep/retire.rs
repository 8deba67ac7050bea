//! What is asked for after a merge begins at the base: a worktree whose branch is merged goes before the next run, as any does
//! (proof, journal, trash, receipt), and the run gets one on a new branch.

use super::super::{Orchestrator, StepError, gather::View};
use super::{Cause, Swept};
use crate::decide::cleanup::{Because, Occasion, RemovalFacts, Verdict, verdict};
use crate::git::Repository;
use crate::model::*;

/// What became of an environment that a run was about to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::orchestrator) enum Retired {
    /// There is work on it that is not merged, or none at all.
    InUse,
    Gone,
    /// Merged, but something keeps it.
    Stays,
}

impl Orchestrator {
    /// The canonical repository has just been fetched. Only what was pushed can have been merged by people.
    pub(in crate::orchestrator) async fn retire(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        conversation: &Conversation,
        environment: &Environment,
    ) -> Result<Retired, StepError> {
        let metadata = &environment.metadata;
        let is_ours = environment.state == EnvironmentState::Active && metadata.fork_head.is_none();
        let Some(base) = environment.base.as_ref().filter(|_| is_ours && metadata.agreed.is_some()) else {
            return Ok(Retired::InUse);
        };
        let Some(base_tip) = repository.tip(&base.remote_ref()).await? else { return Ok(Retired::InUse) };
        if !self.is_merged(codebase, repository, &environment.branch, base, &base_tip).await? {
            return Ok(Retired::InUse);
        }
        let _lease = self.inner.leases.take(environment.id).await;
        let Some(environment) = self.store().load_environment(environment.id).await? else { return Ok(Retired::Gone) };
        let users = self.store().conversations_of(environment.id).await?;
        if users.iter().any(|user| user.id != conversation.id && user.state == ThreadState::Open) {
            return Ok(Retired::Stays);
        }
        let view = View::Fetched(Probe::Known(()));
        let facts = self.removal_facts(codebase, repository, &environment, Occasion::MakesWay, &view).await?;
        // What this conversation asks for, now or next, gets the new one, and no other one is open.
        let busy = self.store().environment_is_busy_with_others(environment.id, conversation.id).await?;
        let removal = match verdict(&RemovalFacts { busy, open_conversations: Vec::new(), ..facts }) {
            Verdict::Remove(removal) if matches!(removal.because, Because::Merged(_)) => removal,
            Verdict::Remove(_) | Verdict::Keep(_) | Verdict::Ghost => return Ok(Retired::Stays),
        };
        let (occasion, trigger) = (Occasion::MakesWay, Trigger::MadeWay);
        let cause = Cause { occasion, trigger, actor: "treewarden", tell: None, asked: None, only: None };
        let environment = self.journal(environment, &removal, &cause, None).await?;
        Ok(match self.finish_removal(codebase, repository, environment, cause.actor).await? {
            Swept::Removed(_) | Swept::Gone => Retired::Gone,
            Swept::Kept(_) => Retired::Stays,
        })
    }
}
