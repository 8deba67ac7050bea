//! After a start: everything a crash left in the middle is finished, undone or told. Nothing is ever guessed; what cannot
//! be examined is left as it is and shown.

use super::create::Creation;
use super::mend::maker;
use super::prepare::Notes;
use super::{Orchestrator, StepError};
use crate::agent::process;
use crate::decide::reconcile::{Repair, repair};
use crate::git::Repository;
use crate::isolation::Maker;
use crate::model::*;
use crate::reply::run_end;
use crate::store::{LeftBehind, RunFilter};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Those that a crash may have left without a word are among the last.
const RUNS: u32 = 200;
const TELL_FOR: Duration = Duration::from_secs(86_400);

/// How long a repair may take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// The start waits for it. What takes longer is left to [`Orchestrator::reconcile`], soon after.
    Quick,
    Ample,
}

impl Orchestrator {
    /// Runs once, before the loops start. This process holds the home's lock, so every claim of this node is a dead one.
    pub async fn recover(&self) -> Result<(), StepError> {
        self.follow_move().await?;
        let now = self.now();
        let node = self.node();
        self.begin_watch(now).await?;
        self.store().release_deliveries_of(node, now).await?;
        self.store().release_outgoing_of(node, now).await?;
        self.recover_runs(self.store().release_runs_of(node, now).await?).await;
        for environment in self.store().live_environments(None).await? {
            self.hide_if_outside(&environment.path);
            if let Err(error) = self.recover_environment(environment.clone(), Patience::Quick).await {
                tracing::error!(environment.id = %environment.id, error = %error, "environment not reconciled; it is kept");
            }
            if environment.metadata.reclaiming.is_some()
                && let Some(codebase) = self.store().load_codebase(environment.codebase).await?
                && let Err(error) = self.finish_reclaim(&codebase, &self.repository(&codebase), environment.id).await
            {
                tracing::error!(environment.id = %environment.id, %error, "caches stay half-way to the trash; the next pass tries again");
            }
        }
        if let Err(error) = self.forget_the_rest().await {
            tracing::error!(%error, "agents go on remembering threads without a worktree; the next start tries again");
        }
        if let Err(error) = self.tell_stopped().await {
            tracing::error!(%error, "runs that were stopped before they began may still seem to wait; the next start tells");
        }
        if let Err(error) = self.late_pull_requests().await {
            tracing::error!(%error, "pull requests that opened late are not told of; the next start does");
        }
        self.empty_trash().await;
        Ok(())
    }

    /// Waits for what goes on by itself; nothing more may begin.
    pub async fn rest(&self) {
        self.inner.stopping.cancel();
        self.inner.work.close();
        self.inner.work.wait().await;
    }

    /// Deletes the files of removals that are done, as far as nobody has yet.
    pub async fn empty_trash(&self) {
        if let Err(error) = self.parts().provider.empty_trash().await {
            tracing::error!(%error, "trash not emptied; what it holds was released before, and it is tried again");
        }
    }

    /// Their end was written before their comment was; one that says so already is not sent again.
    async fn tell_stopped(&self) -> Result<(), StepError> {
        for run in self.store().list_runs(RunFilter::All, RUNS, 0).await? {
            let is_new = run.ended_at.is_some_and(|ended| self.now().since(ended) < TELL_FOR);
            if run.state == RunState::Cancelled && run.started_at.is_none() && is_new {
                self.publish(&run, None).await?;
            }
        }
        Ok(())
    }

    /// Closed threads that a crash kept from letting go of their environments. It asks GitHub and git a lot, so that the
    /// loops do not wait for it.
    pub(super) async fn look_after_closed_threads(&self, stop: &CancellationToken) -> Result<(), StepError> {
        for conversation in self.store().closed_conversations_with_environment().await? {
            if stop.is_cancelled() {
                break;
            }
            if let Err(error) = self.close_conversation(conversation.id).await {
                tracing::error!(conversation.id = %conversation.id, error = %error, "closed thread not looked after");
            }
        }
        Ok(())
    }

    /// Environments that were left in the middle of being made or removed, by a failure after the first step was written
    /// down: finished or undone, unless somebody is at it. A run that wants one of them meanwhile waits for the lease.
    pub(super) async fn reconcile(&self, stop: &CancellationToken) -> Result<(), StepError> {
        for environment in self.store().live_environments(None).await? {
            if stop.is_cancelled() {
                break;
            }
            if environment.state == EnvironmentState::Active || self.is_put_off(environment.id) {
                continue;
            }
            let _lease = self.inner.leases.take(environment.id).await;
            let Some(environment) = self.store().load_environment(environment.id).await? else { continue };
            if let Err(error) = self.recover_environment(environment.clone(), Patience::Ample).await {
                tracing::error!(environment.id = %environment.id, %error, "environment not reconciled; it is kept");
            }
            if let Err(error) = self.note_reconciled(environment.id).await {
                tracing::error!(environment.id = %environment.id, %error, "not noted how its reconciliation went");
            }
        }
        self.look_through_trash(stop).await
    }

    /// Runs whose owner is gone. Of those that cannot be read only what may still be at work for them is ended.
    pub(super) async fn recover_runs(&self, left: LeftBehind) {
        for id in left.unreadable {
            end_processes(id).await;
        }
        for run in left.runs {
            let id = run.id;
            if let Err(error) = self.recover_run(run).await {
                tracing::error!(run.id = %id, %error, "interrupted run not concluded; it is tried again when its lease ends");
            }
        }
    }

    /// A run whose lease ran out while its agent was at work: the agent is ended, the thread told. Runs in other stages are
    /// simply claimed again.
    async fn recover_run(&self, mut run: Run) -> Result<(), StepError> {
        if run.state != RunState::Running {
            return Ok(());
        }
        if let Some(agent) = run.process.take() {
            process::end_leftover(agent);
        }
        end_processes(run.id).await;
        (run.state, run.reason) = match run.cancel_requested {
            true => (RunState::Cancelled, Some(run_end::stopped())),
            false => (RunState::Interrupted, Some(run_end::interrupted())),
        };
        run.ended_at = Some(self.now());
        tracing::warn!(run.id = %run.id, run.state = %run.state, "run ended by a restart");
        self.conclude(&run).await
    }

    async fn recover_environment(&self, environment: Environment, patience: Patience) -> Result<(), StepError> {
        match environment.state {
            EnvironmentState::Creating | EnvironmentState::Removing => {}
            EnvironmentState::Active | EnvironmentState::Destroyed => return Ok(()),
        }
        let Some(codebase) = self.store().load_codebase(environment.codebase).await? else { return Ok(()) };
        let repository = self.repository(&codebase);
        let validity = self.validity(&repository, &environment).await;
        // To let go of a worktree is repeatable, and loses nothing.
        let begun = self.parts().provider.removal_begun(environment.id) || self.is_outside(&environment);
        let adopted_as_it_is = environment.metadata.adopted_from == Some(AdoptedFrom::Orphan);
        match repair(environment.state, &validity, self.will_be_continued(&environment).await?, begun) {
            Repair::Nothing => {}
            // Submodules and large files may take minutes; what is adopted as it is gets neither.
            Repair::Activate if patience == Patience::Quick && !adopted_as_it_is => {}
            Repair::Activate => {
                // What the worktree gets beside its checkout may be missing; what somebody else made is taken over by the
                // rules, or not at all.
                let before = self.store().load_repo_settings(codebase.id).await?;
                let settings = self.look_up_settings(&codebase, &repository, before.as_ref()).await?.in_force;
                let creation = Creation {
                    codebase: &codebase,
                    repository: &repository,
                    settings: &settings,
                    thread: None,
                    told_later: true,
                };
                let mut notes = Notes::default();
                self.finish_creation(&creation, environment, &mut notes).await?;
            }
            // The git that made it may have outlived the service, and is waited for.
            Repair::Discard if patience == Patience::Quick && self.is_registered(&repository, &environment).await? => {}
            Repair::Discard => self.discard(&repository, &environment).await?,
            Repair::FinishRemoval => {
                Box::pin(self.finish_removal(&codebase, &repository, environment, "recovery")).await?;
            }
            Repair::Reactivate => {
                let mut active = environment;
                active.state = EnvironmentState::Active;
                active.metadata.removal = None;
                active.metadata.kept_because.clear();
                active.metadata.next_steps.clear();
                self.store().update_environment(&active).await?;
            }
        }
        Ok(())
    }

    async fn is_registered(&self, repository: &Repository, environment: &Environment) -> Result<bool, StepError> {
        Ok(repository.worktree(&environment.path).is_registered().await?)
    }

    /// Closes the row of a creation that came to nothing, once nothing of it is in the way of the next one.
    pub(super) async fn discard(&self, repository: &Repository, environment: &Environment) -> Result<(), StepError> {
        if maker(environment) == Maker::Us {
            self.parts().provider.clear(repository, &environment.path).await?;
        }
        self.store().destroy_environment(environment, None, self.now()).await?;
        Ok(())
    }

    /// Whether an unfinished run goes on with this environment: one that is tied to it, or one of the thread it was made
    /// for. A crash may come between the journal row and the tie, and the run then finds the row by its work.
    async fn will_be_continued(&self, environment: &Environment) -> Result<bool, StepError> {
        if self.store().environment_is_busy(environment.id, None).await? {
            return Ok(true);
        }
        match self.thread_of_work(environment.codebase, &environment.work).await? {
            Some(thread) => Ok(self.store().live_run_of(thread.id).await?.is_some()),
            None => Ok(false),
        }
    }
}

/// What left its run's process group, or was started just before the crash, is known by the run's mark only.
async fn end_processes(id: RunId) {
    match tokio::task::spawn_blocking(move || process::end_strays(id)).await {
        Ok(0) => {}
        Ok(count) => tracing::info!(run.id = %id, run.processes = count, "ended processes of an interrupted run"),
        Err(error) => tracing::error!(run.id = %id, %error, "could not look for processes of an interrupted run"),
    }
}
