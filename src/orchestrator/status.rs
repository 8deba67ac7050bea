//! Publishing a run's status comment: the row in the outbox always holds the newest wanted text.

use super::{Orchestrator, StepError};
use crate::model::*;
use crate::reply::{
    self,
    status::{self, StatusView},
};
use crate::store::NewOutgoing;
use crate::telemetry::field::EFFECT;
use std::collections::HashMap;

impl Orchestrator {
    /// Asks for the status comment to say what `run` says now.
    pub(super) async fn publish(&self, run: &Run, step: Option<&str>) -> Result<(), StepError> {
        if run.state == RunState::Queued {
            // Asked and written down in one go, like every renewal: an older place never replaces a newer one.
            let mut told = self.inner.places_told.lock().await;
            let place = told_as(self.store().queue_place(run.id).await?);
            self.publish_place(run, place).await?;
            told.insert(run.id, place);
            return Ok(());
        }
        // What goes on in other comments was asked for with the end of the run.
        if let Some(new) = self.status_comments(run, step, None).await?.into_iter().next() {
            self.ask_to_send(new).await?;
        }
        Ok(())
    }

    /// Asks for the status comment to say how many runs go before one that waits.
    async fn publish_place(&self, run: &Run, place: u32) -> Result<(), StepError> {
        let Some(new) = self.status_comments(run, None, Some(place)).await?.into_iter().next() else { return Ok(()) };
        tracing::debug!(target: EFFECT, { outbox.key = %new.key }, "write down what is to be said");
        if self.store().enqueue_while_queued(run.id, &new, self.now()).await? {
            self.inner.wake.outgoing.notify_one();
        }
        Ok(())
    }

    /// Lets the comments of the runs in the queue say how many go before them now, as far as that is another number than
    /// they were last told.
    pub async fn renew_places(&self) -> Result<(), StepError> {
        let mut told = self.inner.places_told.lock().await;
        let mut now = HashMap::new();
        for (place, id) in (0..).zip(self.store().queue().await?) {
            let place = told_as(place);
            if told.get(&id) != Some(&place)
                && let Err(error) = self.renew_place(id, place).await
            {
                tracing::warn!(run.id = %id, %error, "its place in the queue is not renewed yet");
                continue;
            }
            now.insert(id, place);
        }
        *told = now;
        Ok(())
    }

    async fn renew_place(&self, id: RunId, place: u32) -> Result<(), StepError> {
        match self.store().load_run(id).await? {
            Some(run) if run.state == RunState::Queued => self.publish_place(&run, place).await,
            Some(_) | None => Ok(()),
        }
    }

    /// A run's page in the panel.
    pub(super) fn panel_url(&self, run: RunId) -> String {
        format!("{}/runs/{run}", self.settings().public_url)
    }

    /// The status comment for a run, and those in which its answer goes on; none when its thread is no longer known.
    pub(super) async fn status_comments(
        &self,
        run: &Run,
        step: Option<&str>,
        place: Option<u32>,
    ) -> Result<Vec<NewOutgoing>, StepError> {
        let codebase = self.store().load_codebase(run.codebase).await?;
        let conversation = self.store().load_conversation(run.conversation).await?;
        let (Some(codebase), Some(conversation)) = (codebase, conversation) else {
            return Ok(Vec::new());
        };
        let environment = match run.environment {
            Some(id) => self.store().load_environment(id).await?,
            None => None,
        };
        let settings = self.settings();
        let end = run.ended_at.unwrap_or_else(|| self.now());
        // Before the answer is parted: half a secret is none that anybody knows.
        let answer = run.answer.as_deref().map(|answer| self.cleaned(answer));
        let comments = status::comments(&StatusView {
            run: &Run { answer, ..run.clone() },
            repository: &codebase.name,
            web_url: match codebase.host {
                Host::Github { .. } => Some(&settings.web_url),
                Host::Local { .. } => None,
            },
            panel_url: self.panel_url(run.id),
            branch: environment.as_ref().map(|environment| &environment.branch),
            place,
            step,
            elapsed: run.started_at.map(|start| end.since(start)),
        });
        let turn = if run.state.is_final() { Turn::Result } else { Turn::Progress };
        let not_before = self.now();
        let rows = comments.into_iter().map(|(key, body)| NewOutgoing {
            outgoing: self.redacted(Outgoing::text(&conversation, body, reply::marker(&key))),
            key,
            codebase: run.codebase,
            conversation: Some(run.conversation),
            turn,
            not_before,
        });
        Ok(rows.collect())
    }
}

/// Places far behind are told alike.
fn told_as(place: u32) -> u32 {
    status::MOST_AHEAD.saturating_add(1).min(place)
}
