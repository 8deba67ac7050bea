//! From a journalled removal to its receipt. Every step can be repeated.

use super::super::{Orchestrator, StepError, mend::maker, proofs::RUNS};
use super::{Swept, told_under};
use crate::decide::cleanup::Keep;
use crate::git::{GitError, Repository, Worktree};
use crate::isolation::{IsolationError, RemoveRequest};
use crate::model::*;
use crate::reply::{self, cleanup, disk};
use crate::store::{NewOutgoing, RunFilter};
use crate::telemetry::{field::EFFECT, metric};

/// Where the last commit of a removed environment stays reachable.
fn archive_ref(environment: EnvironmentId) -> String {
    format!("refs/treewarden/archive/{environment}")
}

/// Where what was not committed in a removed environment is kept.
pub(in crate::orchestrator) fn trash_ref(environment: EnvironmentId) -> String {
    format!("{TRASH}{environment}")
}

/// All such refs.
pub(in crate::orchestrator) const TRASH: &str = "refs/treewarden/trash/";

/// What the provider is asked for.
pub(super) fn request(environment: &Environment, pending: &PendingRemoval) -> RemoveRequest {
    RemoveRequest {
        environment: environment.id,
        path: environment.path.clone(),
        maker: maker(environment),
        branch: environment.branch.clone(),
        delete_branch_at: pending.delete_branch.then(|| pending.tip.clone()),
    }
}

/// Why an environment stays whose uncommitted work was not kept.
pub(super) fn not_kept(worktree: &Worktree, error: &GitError) -> Keep {
    let why = worktree.told_outside(error);
    match error {
        GitError::NotKeepable(_) => Keep::TrashCannotHold(why),
        _ => Keep::CannotVerify(why),
    }
}

/// Why an environment stays that the provider did not take away, or would not.
pub(super) fn not_removed(error: IsolationError) -> Keep {
    match error {
        IsolationError::Locked(reason) => Keep::LockedBySomeoneElse(reason),
        IsolationError::Foreign(_) => Keep::ForeignPath,
        IsolationError::OwnRepository(_) => Keep::OwnRepository,
        IsolationError::SubmoduleWork(path) => Keep::SubmoduleWork(path),
        IsolationError::HalfWay { .. } => Keep::RemovalStuck(error.to_string()),
        IsolationError::InUse(_)
        | IsolationError::NotDeletable { .. }
        | IsolationError::MountInside(_)
        | IsolationError::MountedAt(_)
        | IsolationError::Git(GitError::Held { .. }) => Keep::Obstructed(error.to_string()),
        error => Keep::CannotVerify(error.to_string()),
    }
}

impl Orchestrator {
    /// Carries a journalled removal to its end; also called for removals that a crash left half-way.
    pub(in crate::orchestrator) async fn finish_removal(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: Environment,
        actor: &str,
    ) -> Result<Swept, StepError> {
        let Some(pending) = environment.metadata.removal.clone() else {
            return Ok(Swept::Kept(vec![Keep::InTransition]));
        };
        let (environment, half_way) = self.finish_reclaim_first(codebase, repository, environment).await?;
        if let Some(error) = half_way {
            return self.give_back(environment, Keep::Obstructed(disk::half_way_out(&error.to_string()))).await;
        }
        tracing::info!(target: EFFECT, { environment.id = %environment.id }, "remove worktree");
        // The commits stay reachable here whatever becomes of the branch: the receipt promises a way back.
        let archived = async {
            self.archive(repository, environment.id, &pending.tip).await?;
            self.keep_dropped(repository, &environment, &pending.tip).await
        };
        match archived.await {
            Ok(()) => {}
            // Its files have not been moved.
            Err(error @ (StepError::Git(_) | StepError::Refused(_)))
                if environment.path.try_exists().is_ok_and(|there| there) =>
            {
                return self.give_back(environment, Keep::Obstructed(error.to_string())).await;
            }
            Err(error) => return Err(error),
        }
        tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "last commit archived");
        let request = request(&environment, &pending);
        self.end_leftovers(&environment).await?;
        let removed = match self.parts().provider.remove(repository, &request).await {
            Ok(removed) => removed,
            Err(error @ IsolationError::HalfWay { .. }) => {
                return self.stuck(environment, pending, &error).await;
            }
            Err(error) => return self.give_back(environment, not_removed(error)).await,
        };
        if let Err(error) = repository.set_upstream(&environment.branch, false).await {
            tracing::warn!(environment.id = %environment.id, %error, "its branch goes on following its namesake");
        }
        let details = self.receipt(repository, &environment, &pending, &removed).await;
        let outgoing = match pending.tell {
            Some(conversation) => {
                self.removal_comment(&environment, conversation, pending.successor.as_ref(), &details).await?
            }
            None => None,
        };
        let receipt = Some((pending.trigger, details.clone()));
        tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "worktree removed");
        let users = self.store().conversations_of(environment.id).await?;
        self.store().destroy_environment_telling(&environment, receipt, outgoing, self.now()).await?;
        tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "receipt written");
        self.inner.wake.outgoing.notify_one();
        let subject = format!("{}#{}", codebase.name, environment.work);
        self.audit(actor, "environment.removed", &subject, &details.proof).await;
        metrics::counter!(metric::ENVIRONMENTS_REMOVED, "trigger" => pending.trigger.as_str()).increment(1);
        self.forget_all(users).await?;
        self.look_again_soon(environment.id);
        Ok(Swept::Removed(Box::new(details)))
    }

    /// The directory is where it was: the row goes back, with the reason shown.
    async fn give_back(&self, mut environment: Environment, reason: Keep) -> Result<Swept, StepError> {
        environment.state = EnvironmentState::Active;
        environment.metadata.removal = None;
        let environment = self.store().update_environment(&environment).await?;
        self.keep(environment, vec![reason], Vec::new()).await
    }

    /// The row stays as it is, for whoever goes on with it, and says what holds it up. Its thread hears when it is done.
    async fn stuck(
        &self,
        mut environment: Environment,
        pending: PendingRemoval,
        error: &IsolationError,
    ) -> Result<Swept, StepError> {
        let why = error.to_string();
        if pending.stuck.as_ref() != Some(&why) {
            tracing::error!(environment.id = %environment.id, %error, "removal stuck half-way");
            let tell = match pending.tell {
                Some(conversation) => Some(conversation),
                None => self.own_thread(&environment).await?,
            };
            environment.metadata.removal = Some(PendingRemoval { stuck: Some(why.clone()), tell, ..pending });
            environment.metadata.kept_because = vec![why.clone()];
            self.store().update_environment(&environment).await?;
        }
        Ok(Swept::Kept(vec![Keep::RemovalStuck(why)]))
    }

    /// Holds a commit fast under the environment's own ref; an earlier attempt may have left an older one there.
    async fn archive(&self, repository: &Repository, id: EnvironmentId, tip: &CommitSha) -> Result<(), StepError> {
        let name = archive_ref(id);
        let before = repository.tip(&name).await?;
        if before.as_ref() == Some(tip) || repository.set_ref(&name, tip, before.as_ref()).await? {
            return Ok(());
        }
        Err(StepError::Refused(format!("The last commit could not be kept under {name}; nothing was removed.")))
    }

    /// Commits that runs made here and that somebody took off the branch since: each stays under a ref of its run.
    async fn keep_dropped(
        &self,
        repository: &Repository,
        environment: &Environment,
        tip: &CommitSha,
    ) -> Result<(), StepError> {
        for run in self.store().list_runs(RunFilter::Environment(environment.id), RUNS, 0).await? {
            let Some(head) = run.outcome.head_after else { continue };
            match repository.is_ancestor(&head, tip).await {
                Ok(true) => {}
                Ok(false) => {
                    repository.set_ref(&format!("refs/treewarden/run/{}", run.id), &head, None).await?;
                }
                // One that is not there any more cannot be kept.
                Err(GitError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// What the thread is told about the removal.
    async fn removal_comment(
        &self,
        environment: &Environment,
        conversation: ConversationId,
        successor: Option<&Work>,
        details: &ReceiptDetails,
    ) -> Result<Option<NewOutgoing>, StepError> {
        let Some(conversation) = self.store().load_conversation(conversation).await? else { return Ok(None) };
        let key = told_under(environment.id, conversation.id);
        let body = match successor {
            Some(successor) => cleanup::made_way(&environment.work, successor, details, &key),
            None => cleanup::removed(&environment.work, details, &key),
        };
        Ok(Some(self.comment_about(environment, &conversation, key, body)))
    }

    pub(super) fn comment_about(
        &self,
        environment: &Environment,
        conversation: &Conversation,
        key: String,
        body: String,
    ) -> NewOutgoing {
        let outgoing = Outgoing::text(conversation, body, reply::marker(&key));
        NewOutgoing {
            key,
            codebase: environment.codebase,
            conversation: Some(conversation.id),
            turn: Turn::from(&outgoing),
            outgoing: self.redacted(outgoing),
            not_before: self.now(),
        }
    }
}
