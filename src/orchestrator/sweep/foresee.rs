//! What a removal would do, by the facts and the verdict that it rests on. Nothing is changed by that, not even the reasons that
//! an environment is shown with.
//!
//! The answer is that of the removal itself. What only shows when it is done is left out: what it frees, the commit that holds what
//! goes to the trash, and what happens meanwhile.

use super::super::{Orchestrator, StepError};
use super::finish::{not_kept, not_removed, request};
use super::{Cause, Swept, before::Ready, pending};
use crate::decide::cleanup::{Keep, Occasion, Removal, RemovalFacts, Verdict, classify, verdict};
use crate::git::Repository;
use crate::isolation::{MOST_IGNORED, Removed};
use crate::model::*;
use crate::reply::cleanup;

impl Orchestrator {
    /// What [`Orchestrator::remove`] would answer; by `force`, [`Orchestrator::remove_by_force`].
    pub async fn foresee(
        &self,
        id: EnvironmentId,
        force: bool,
        trigger: Trigger,
        actor: &str,
    ) -> Result<Swept, StepError> {
        let Some(environment) = self.store().load_environment(id).await? else { return Ok(Swept::Gone) };
        let Some(codebase) = self.store().load_codebase(environment.codebase).await? else { return Ok(Swept::Gone) };
        let view = self.view_of(&codebase).await;
        let occasion = if force { Occasion::Forced } else { Occasion::Named };
        let cause = Cause { occasion, trigger, actor, tell: None, asked_in: None, answered: None, only: None };
        if environment.state == EnvironmentState::Destroyed {
            return Ok(Swept::Gone);
        }
        let repository = self.repository(&codebase);
        let facts = self.removal_facts(&codebase, &repository, &environment, occasion, &view).await?;
        Ok(self.foreseen(&repository, &facts, &cause).await)
    }

    /// The same by facts that are known.
    pub(super) async fn foreseen(&self, repository: &Repository, facts: &RemovalFacts, cause: &Cause<'_>) -> Swept {
        match verdict(facts) {
            Verdict::Ghost => Swept::Gone,
            Verdict::Keep(reasons) => Swept::Kept(reasons.into_iter().map(unmended).collect()),
            Verdict::Remove(_) if cause.only.is_some_and(|only| classify(facts) != only) => {
                Swept::Kept(vec![Keep::CannotVerify(cleanup::changed_meanwhile())])
            }
            Verdict::Remove(removal) => match self.done(repository, &facts.environment, &removal, cause).await {
                Ok(details) => Swept::Removed(Box::new(details)),
                Err(reason) => Swept::Kept(vec![reason]),
            },
        }
    }

    /// The receipt of a removal that nothing is found to speak against.
    async fn done(
        &self,
        repository: &Repository,
        environment: &Environment,
        removal: &Removal,
        cause: &Cause<'_>,
    ) -> Result<ReceiptDetails, Keep> {
        let released = self.is_outside(environment);
        let worktree = repository.worktree(&environment.path);
        self.survey(environment).await?;
        let kept = match (removal.keep_work || removal.rescued > 0) && !released {
            true => worktree.would_keep(MOST_IGNORED).await.map_err(|error| not_kept(&worktree, &error))?,
            false => false,
        };
        // Its own commit is not there yet.
        let ready = Ready { kept: kept.then(|| removal.tip.clone()), bytes: None };
        let pending = pending(environment, removal, ready, cause, None);
        // They are ended first.
        let ending = self.leftovers(environment).await.map_err(|error| Keep::CannotVerify(error.to_string()))?;
        let request = request(environment, &pending);
        let would_remove = self.parts().provider.would_remove(repository, &request, &ending).await;
        would_remove.map_err(not_removed)?;
        let removed = Removed { branch_deleted: pending.delete_branch && !released, released };
        let receipt = self.receipt(repository, environment, &pending, &removed).await;
        Ok(ReceiptDetails { keepsake: None, ..receipt })
    }
}

/// A removal mends a worktree that git no longer knows before it looks at it; whether that succeeds is not known before.
fn unmended(reason: Keep) -> Keep {
    match reason {
        Keep::Broken => Keep::CannotVerify(cleanup::would_be_mended()),
        reason => reason,
    }
}
