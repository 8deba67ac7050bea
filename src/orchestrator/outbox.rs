//! Sending what the outbox wants to be true, in order: one row at a time for each installation, and beside it one that tells
//! somebody that they were heard.

use super::{
    Orchestrator, StepError,
    lease::{Here, holding},
    retry::{self, outlasting},
};
use crate::model::*;
use crate::platform::SendError;
use crate::reply::status::{self, run_of_pull};
use crate::store::{OutgoingEnd, Sender};
use crate::telemetry::{field::EFFECT, metric};
use futures::FutureExt;
use std::{panic::AssertUnwindSafe, time::Duration};
use tokio::time::Instant;

/// What became of a row that somebody waited for.
pub(super) enum Sent {
    /// With the id of what stands for it.
    Yes(Option<i64>),
    /// With why it is not sent. It will be, as soon as GitHub takes it.
    NotYet(String),
    /// With why it never will be.
    Never(String),
}

impl Orchestrator {
    /// Claims and sends the next row of a lane that is due; false when there is none.
    pub(super) async fn outbox_step(&self, lane: Lane) -> Result<bool, StepError> {
        let Some(row) = self.claim_next_outgoing(lane).await? else { return Ok(false) };
        tracing::info!(target: EFFECT, { outbox.key = %row.key, outbox.attempts = row.attempts }, "send");
        let sent = match self.store().load_codebase(row.codebase).await? {
            Some(codebase) => {
                let send = AssertUnwindSafe(self.send_in_time(&codebase, &row)).catch_unwind();
                let until = || self.now().plus(self.settings().lease);
                let sent = holding!(self, send, self.store().renew_outgoing(&row, self.node(), until()));
                let sent = sent.unwrap_or_else(|_| Err(SendError::Permanent(StepError::Panicked.to_string())));
                if let Err(error) = self.keep_the_pace(&codebase, &row, &sent).await {
                    tracing::error!(codebase.name = %codebase.name, %error, "a pause of sending was not written");
                }
                sent
            }
            None => Err(SendError::Permanent("its repository is no longer known".to_owned())),
        };
        tracing::debug!(target: EFFECT, { outbox.key = %row.key, outbox.sent = sent.is_ok() }, "answered");
        let now = self.now();
        let (end, result) = match sent {
            Ok(remote_id) => (OutgoingEnd::Sent { remote_id }, "sent"),
            Err(SendError::Permanent(why)) => (OutgoingEnd::Failed(why), "failed"),
            Err(SendError::Retry { after, why }) => match retry::outgoing_again(&row, after, now) {
                Some(at) => (OutgoingEnd::Retry { error: why, at }, "retried"),
                None => (OutgoingEnd::Failed(why), "failed"),
            },
            Err(SendError::Limited { after, why }) => match retry::outgoing_again(&row, Some(after), now) {
                Some(at) => (OutgoingEnd::Retry { error: why, at }, "retried"),
                None => (OutgoingEnd::Failed(why), "failed"),
            },
        };
        if let OutgoingEnd::Failed(why) | OutgoingEnd::Retry { error: why, .. } = &end {
            tracing::warn!(outbox.key = %row.key, error = %why, result, "not sent");
        }
        metrics::counter!(metric::OUTBOX_SENT, "result" => result).increment(1);
        outlasting!(self.store().finish_outgoing(&row, self.node(), end.clone(), now))?;
        tracing::debug!(target: EFFECT, { outbox.key = %row.key }, "outcome of sending written");
        // The run may have ended before.
        if let Some(run) = run_of_pull(&row.key)
            && let Err(error) = self.late_pull_request(run).await
        {
            tracing::error!(run.id = %run, %error, "the run was not brought up to date with its pull request");
        }
        self.inner.wake.sent.notify_waiters();
        Ok(true)
    }

    async fn claim_next_outgoing(&self, lane: Lane) -> Result<Option<Here<OutboxRow>>, StepError> {
        let Some(_claiming) = self.claiming().await else { return Ok(None) };
        let settings = self.settings();
        let sender = Sender { owner: self.node(), lane, lease: settings.lease, apart: settings.pacing.status };
        let row = self.store().claim_outgoing(&sender, self.now()).await?;
        Ok(row.map(|row| self.inner.outgoing_at_work.enter(row)))
    }

    /// As soon as its installation may write again.
    async fn send_in_time(&self, codebase: &Codebase, row: &OutboxRow) -> Result<Option<i64>, SendError> {
        if let Some(installation) = codebase.installation() {
            let gap = self.settings().pacing.writes;
            tokio::time::sleep_until(self.inner.pace.spend(installation, gap, Instant::now())).await;
        }
        self.parts().platform.send(codebase, row).await
    }

    /// Writes down until when nothing more, or no new content, is to be sent for an installation, before the row is let go
    /// of: its installation's next one is due then.
    async fn keep_the_pace(
        &self,
        codebase: &Codebase,
        row: &OutboxRow,
        sent: &Result<Option<i64>, SendError>,
    ) -> Result<(), StepError> {
        let Some(installation) = codebase.installation() else { return Ok(()) };
        let now = self.now();
        if let Err(SendError::Limited { after, .. }) = sent {
            let until = now.plus(*after);
            tracing::warn!(installation.id = %installation, outbox.paused_until = %until, "GitHub asked to wait; nothing is sent before");
            outlasting!(self.store().pause_sending(installation, until, now))?;
        }
        let is_content = match row.outgoing {
            Outgoing::React { .. } | Outgoing::Message { .. } => false,
            Outgoing::Comment { .. } | Outgoing::PullRequest { .. } | Outgoing::CheckRun(_) => true,
        };
        // Unless what was there already was brought up to date.
        if is_content && sent.as_ref().ok() != Some(&row.remote_id) {
            let space = self.settings().pacing.content;
            outlasting!(self.store().pause_content(installation, now.plus(space), now))?;
            self.ring_senders_in(space);
        }
        Ok(())
    }

    fn ring_senders_in(&self, time: Duration) {
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            this.inner.wake.outgoing.notify_one();
        });
    }

    /// Waits until a run's status comment is there, but not longer than `most`, nor where it will not come in that time.
    pub(super) async fn wait_until_shown(&self, run: RunId, most: Duration) {
        let (key, begun, then) = (status::key(run), Instant::now(), self.now().plus(most));
        loop {
            let rung = self.inner.wake.sent.notified();
            // A database that is away says nothing of it.
            let may_come = self.store().may_be_sent_by(&key, then, self.now()).await.unwrap_or(true);
            if !may_come || begun.elapsed() >= most {
                return;
            }
            let _ = tokio::time::timeout(Duration::from_millis(500), rung).await;
        }
    }

    /// Waits until a row is sent or failed for good, but not longer than `most`.
    pub(super) async fn wait_until_sent(&self, key: &str, most: Duration) -> Result<Sent, StepError> {
        let deadline = Instant::now() + most;
        loop {
            let rung = self.inner.wake.sent.notified();
            let row = self.store().load_outgoing_by_key(key).await?;
            match row.map(|row| (row.state, row.remote_id, row.last_error)) {
                Some((OutboxState::Sent, remote_id, _)) => return Ok(Sent::Yes(remote_id)),
                Some((OutboxState::Failed, _, error)) => return Ok(Sent::Never(error.unwrap_or_default())),
                Some((OutboxState::Pending | OutboxState::Sending, _, error)) if Instant::now() >= deadline => {
                    return Ok(Sent::NotYet(error.unwrap_or_else(|| "GitHub did not take it in time".to_owned())));
                }
                Some((OutboxState::Pending | OutboxState::Sending, ..)) => {}
                None => return Ok(Sent::Never("it was withdrawn".to_owned())),
            }
            // The bell may have been rung before this wait began; a short limit covers that.
            let _ = tokio::time::timeout(Duration::from_millis(500), rung).await;
        }
    }
}
