//! The last look at the files of a removed environment, from the trash. A removal does not wait for it. What was written between
//! the decision and the removal is kept like any uncommitted work, and the thread hears of it; then the files may be
//! deleted. Where the look fails, they stay, the receipt says why, and it is looked again every minute.

use super::super::{Orchestrator, StepError};
use super::finish::trash_ref;
use crate::decide::late::{Found, amended};
use crate::git::Repository;
use crate::isolation::LastLook;
use crate::model::*;
use crate::reply::{self, cleanup};
use crate::store::NewOutgoing;
use crate::telemetry::field::EFFECT;
use tokio_util::sync::CancellationToken;

impl Orchestrator {
    pub(super) fn look_again_soon(&self, id: EnvironmentId) {
        let this = self.clone();
        self.inner.work.spawn(async move { this.look_again_or_later(id).await });
    }

    /// At all files that wait for it.
    pub async fn look_through_trash(&self, stop: &CancellationToken) -> Result<(), StepError> {
        for id in self.parts().provider.unlooked()? {
            if stop.is_cancelled() {
                return Ok(());
            }
            self.look_again_or_later(id).await;
        }
        for codebase in self.store().list_codebases().await? {
            self.repository(&codebase).forget_looked_through().await?;
        }
        Ok(())
    }

    /// For whoever needs to know all that was kept of it.
    pub(in crate::orchestrator) async fn look_again_or_later(&self, id: EnvironmentId) {
        if let Err(error) = self.look_again(id).await {
            tracing::warn!(environment.id = %id, %error, "removed files not looked at; they stay in the trash, and it is tried again");
        }
    }

    async fn look_again(&self, id: EnvironmentId) -> Result<(), StepError> {
        let provider = &self.parts().provider;
        if !provider.removal_begun(id) {
            return Ok(());
        }
        // Nobody brings it back meanwhile, or is still removing it.
        let _lease = self.inner.leases.take(id).await;
        let Some(environment) = self.store().load_environment(id).await? else { return Ok(()) };
        let Some(codebase) = self.store().load_codebase(environment.codebase).await? else { return Ok(()) };
        let Some(receipt) = self.store().receipt_of(id).await? else { return Ok(()) };
        let (EnvironmentState::Destroyed, Some(head)) = (environment.state, receipt.details.tip.clone()) else {
            return Ok(());
        };
        let repository = self.repository(&codebase);
        let path = environment.path.clone();
        let look = LastLook { environment: id, path, head, keep_under: trash_ref(id) };
        let found = match provider.look_again(&repository, &look).await {
            Ok(kept) => Found::Looked(kept),
            Err(error) => Found::HeldUp(error.to_string()),
        };
        let may_go = matches!(found, Found::Looked(_));
        let until = self.now().plus(self.settings().trash_for);
        if let Some(details) = amended(&receipt.details, found, trash_ref(id), until) {
            self.amend(&environment, &receipt, details).await?;
        }
        match may_go {
            true => self.release(&repository, id).await,
            false => Ok(()),
        }
    }

    async fn release(&self, repository: &Repository, id: EnvironmentId) -> Result<(), StepError> {
        Ok(self.parts().provider.release(repository, id).await?)
    }

    async fn amend(
        &self,
        environment: &Environment,
        receipt: &Receipt,
        details: ReceiptDetails,
    ) -> Result<(), StepError> {
        if let Some(why) = &details.held_up {
            tracing::warn!(environment.id = %environment.id, error = %why, "removed files stay in the trash");
        }
        let outgoing = match details.keepsake == receipt.details.keepsake {
            true => None,
            false => self.late_comment(environment, &details).await?,
        };
        self.store().amend_receipt(receipt, &details, outgoing, self.now()).await?;
        tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "receipt amended");
        self.inner.wake.outgoing.notify_one();
        Ok(())
    }

    async fn late_comment(
        &self,
        environment: &Environment,
        details: &ReceiptDetails,
    ) -> Result<Option<NewOutgoing>, StepError> {
        let told = match details.told {
            Some(conversation) => self.store().load_conversation(conversation).await?,
            None => self.thread_of_work(environment.codebase, &environment.work).await?,
        };
        let Some(conversation) = told else { return Ok(None) };
        let key = format!("late/{}", environment.id);
        let body = cleanup::late(&environment.work, details, &key);
        let outgoing = Outgoing::text(&conversation, body, reply::marker(&key));
        Ok(Some(NewOutgoing {
            key,
            codebase: environment.codebase,
            conversation: Some(conversation.id),
            turn: Turn::from(&outgoing),
            outgoing: self.redacted(outgoing),
            not_before: self.now(),
        }))
    }
}
