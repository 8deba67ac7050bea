//! The last look at the files of a removed environment, from the trash. A removal does not wait for it. What was
//! written between the decision and the removal is kept like any uncommitted work, and the thread hears of it; then the
//! files may be deleted. Where the look fails, they stay, the receipt says why, and it is looked again every minute;
//! what only a person can change is told in the thread, and looked at every hour.

use super::super::{Orchestrator, StepError};
use super::finish::trash_ref;
use crate::decide::late::{Found, amended};
use crate::isolation::{IsolationError, LastLook};
use crate::model::*;
use crate::reply::cleanup;
use crate::store::NewOutgoing;
use crate::telemetry::field::EFFECT;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Looks at a time that nobody waits for: each reads a whole worktree.
const AT_ONCE: usize = 2;

/// How long one is put off that trying again does not change.
const LATER: Duration = Duration::from_secs(3600);

/// What all last looks have in common.
pub(in crate::orchestrator) struct LastLooks {
    at_once: Semaphore,
    /// When those were tried that are put off.
    tried: Mutex<HashMap<EnvironmentId, Timestamp>>,
}

impl Default for LastLooks {
    fn default() -> Self {
        Self { at_once: Semaphore::new(AT_ONCE), tried: Mutex::default() }
    }
}

impl LastLooks {
    fn is_put_off(&self, id: EnvironmentId, now: Timestamp) -> bool {
        let tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.get(&id).is_some_and(|at| (*at..at.plus(LATER)).contains(&now))
    }

    fn put_off(&self, id: EnvironmentId, tried_at: Option<Timestamp>) {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        match tried_at {
            Some(at) => drop(tried.insert(id, at)),
            None => drop(tried.remove(&id)),
        }
    }
}

impl Orchestrator {
    pub(super) fn look_again_soon(&self, id: EnvironmentId) {
        let this = self.clone();
        self.inner.work.spawn(async move {
            // It is never closed.
            let _one_of_few = this.inner.last_looks.at_once.acquire().await;
            // A service that stops waits for those that have begun; the next start looks at the others.
            if !this.inner.work.is_closed() {
                this.look_again_or_later(id).await;
            }
        });
    }

    /// At all files that wait for it.
    pub async fn look_through_trash(&self, stop: &CancellationToken) -> Result<(), StepError> {
        for id in self.parts().provider.unlooked()? {
            if stop.is_cancelled() {
                return Ok(());
            }
            if !self.inner.last_looks.is_put_off(id, self.now()) {
                self.look_again_or_later(id).await;
            }
        }
        for codebase in self.store().list_codebases().await? {
            if let Err(error) = self.parts().provider.forget_released(&self.repository(&codebase)).await {
                tracing::warn!(codebase.name = %codebase.name, %error, "what is left of removed worktrees stays, and it is tried again");
            }
        }
        Ok(())
    }

    /// For whoever needs to know all that was kept of it.
    pub(in crate::orchestrator) async fn look_again_or_later(&self, id: EnvironmentId) {
        match self.look_again(id).await {
            Ok(may_help) => self.inner.last_looks.put_off(id, (!may_help).then(|| self.now())),
            Err(error) => {
                tracing::warn!(environment.id = %id, %error, "removed files not looked at; they stay in the trash, and it is tried again");
            }
        }
    }

    /// False: trying again soon is of no use.
    async fn look_again(&self, id: EnvironmentId) -> Result<bool, StepError> {
        let provider = &self.parts().provider;
        if !provider.removal_begun(id) {
            return Ok(true);
        }
        // Nobody brings it back meanwhile, or is still removing it.
        let _lease = self.inner.leases.take(id).await;
        let nobodys = |why| {
            tracing::warn!(environment.id = %id, error = why, "files in the trash are not looked at, and stay");
            Ok(false)
        };
        let Some(environment) = self.store().load_environment(id).await? else {
            return nobodys("no environment has them");
        };
        match environment.state {
            EnvironmentState::Destroyed => {}
            // Whoever goes on with it says what is in the way.
            EnvironmentState::Removing => return Ok(true),
            EnvironmentState::Creating | EnvironmentState::Active => return nobodys("their environment is there"),
        }
        let Some(codebase) = self.store().load_codebase(environment.codebase).await? else {
            return nobodys("their repository is not known any more");
        };
        let Some(receipt) = self.store().receipt_of(id).await? else { return nobodys("no receipt knows of them") };
        let Some(head) = receipt.details.tip.clone() else { return nobodys("their receipt names no commit") };
        let repository = self.repository(&codebase);
        let path = environment.path.clone();
        let look = LastLook { environment: id, path, head, keep_under: trash_ref(id) };
        let looked = provider.look_again(&repository, &look).await;
        let for_people = matches!(looked, Err(IsolationError::NotKeepable(_)));
        let found = match looked {
            Ok(kept) => Found::Looked(kept),
            Err(error) => Found::HeldUp(error.to_string()),
        };
        let may_go = matches!(found, Found::Looked(_));
        let until = self.now().plus(self.settings().trash_for);
        if let Some(details) = amended(&receipt.details, found, trash_ref(id), until) {
            self.amend(&environment, &receipt, details, for_people).await?;
        }
        if may_go {
            provider.release(&repository, id).await?;
        }
        Ok(!for_people)
    }

    async fn amend(
        &self,
        environment: &Environment,
        receipt: &Receipt,
        details: ReceiptDetails,
        for_people: bool,
    ) -> Result<(), StepError> {
        if let Some(why) = &details.held_up {
            tracing::warn!(environment.id = %environment.id, error = %why, "removed files stay in the trash");
        }
        let late = details.keepsake != receipt.details.keepsake;
        let outgoing = match late || for_people {
            true => self.comment_on_files(environment, &details, late).await?,
            false => None,
        };
        self.store().amend_receipt(receipt, &details, outgoing, self.now()).await?;
        tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "receipt amended");
        self.inner.wake.outgoing.notify_one();
        Ok(())
    }

    /// What was kept of them, or else what holds them up.
    async fn comment_on_files(
        &self,
        environment: &Environment,
        details: &ReceiptDetails,
        late: bool,
    ) -> Result<Option<NewOutgoing>, StepError> {
        let told = match details.told {
            Some(conversation) => self.store().load_conversation(conversation).await?,
            None => self.thread_of_work(environment.codebase, &environment.work).await?,
        };
        let Some(conversation) = told else { return Ok(None) };
        let (key, body) = match late {
            true => {
                let key = format!("late/{}", environment.id);
                let body = cleanup::late(&environment.work, details, &key);
                (key, body)
            }
            false => {
                let key = format!("held/{}", environment.id);
                let body = cleanup::held_up(environment.id, details, &key);
                (key, body)
            }
        };
        Ok(Some(self.comment_about(environment, &conversation, key, body)))
    }
}
