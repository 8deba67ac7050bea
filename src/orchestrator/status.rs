//! Publishing what tells of a run, its status comment and its check runs: the rows in the outbox always hold the newest
//! wanted texts.

use super::{Orchestrator, StepError};
use crate::model::*;
use crate::reply::{
    self, check,
    status::{self, StatusView},
};
use crate::store::NewOutgoing;
use crate::telemetry::field::EFFECT;
use std::collections::HashMap;

impl Orchestrator {
    /// Asks for the status comment, and the check runs beside it, to say what `run` says now.
    pub(super) async fn publish(&self, run: &Run, step: Option<&str>) -> Result<(), StepError> {
        if run.state == RunState::Queued {
            // Asked and written down in one go, like every renewal: an older place never replaces a newer one.
            let mut told = self.inner.places_told.lock().await;
            let place = told_as(self.store().queue_place(run.id).await?);
            self.publish_place(run, place).await?;
            told.insert(run.id, place);
            return Ok(());
        }
        for new in self.told_of(run, step, None).await?.into_iter().filter(|new| !status::goes_on(&new.key)) {
            self.ask_to_send(new).await?;
        }
        Ok(())
    }

    /// Asks for the status comment to say how many runs go before one that waits.
    async fn publish_place(&self, run: &Run, place: u32) -> Result<(), StepError> {
        for new in self.told_of(run, None, Some(place)).await?.into_iter().filter(|new| !status::goes_on(&new.key)) {
            tracing::debug!(target: EFFECT, { outbox.key = %new.key }, "write down what is to be said");
            if self.store().enqueue_while_queued(run.id, &new, self.now()).await? {
                self.inner.wake.outgoing.notify_one();
            }
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

    /// What tells people of a run: its status comment, those in which its answer goes on and, where it is at work on a pull
    /// request or was, its check runs. Nothing when its thread is no longer known.
    pub(super) async fn told_of(
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
        let run = &Run { answer, ..run.clone() };
        let view = StatusView {
            run,
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
        };
        let turn = if run.state.is_final() { Turn::Result } else { Turn::Progress };
        let not_before = self.now();
        let comments = status::comments(&view).into_iter().map(|(key, body)| NewOutgoing {
            outgoing: self.redacted(Outgoing::text(&conversation, body, reply::marker(&key))),
            key,
            codebase: run.codebase,
            conversation: Some(run.conversation),
            turn,
            not_before,
        });
        let mut told: Vec<_> = comments.collect();
        // A check run tells of no steps.
        if step.is_none() {
            told.extend(self.check_runs(&view));
        }
        Ok(told)
    }

    /// On the commit that a run was asked on, and, once it is over, on the one that it pushed: people look there by then. None
    /// before its agent begins. They are no part of the conversation, whose comments do not wait for them.
    fn check_runs(&self, view: &StatusView<'_>) -> Vec<NewOutgoing> {
        let run = view.run;
        let Some(asked_on) = &run.outcome.pull_head else { return Vec::new() };
        if matches!(run.state, RunState::Queued | RunState::Preparing) {
            return Vec::new();
        }
        let pushed = run.outcome.pushed.as_ref().filter(|pushed| run.state.is_final() && *pushed != asked_on);
        let on_pushed = pushed.map(|pushed| (check::key_of_pushed(run.id, pushed), pushed));
        let wanted = [(check::key(run.id), asked_on)].into_iter().chain(on_pushed);
        let slug = &self.identity().slug;
        let new = |(key, head): (String, &CommitSha)| {
            let outgoing = self.redacted(Outgoing::CheckRun(check::render(view, slug, head.clone())));
            let turn = Turn::from(&outgoing);
            NewOutgoing { key, codebase: run.codebase, conversation: None, outgoing, turn, not_before: self.now() }
        };
        wanted.map(new).collect()
    }
}

/// Places far behind are told alike.
fn told_as(place: u32) -> u32 {
    status::MOST_AHEAD.saturating_add(1).min(place)
}
