//! What happens to a thread that the bot has to do with, other than that somebody asks: it is closed, opened again, moved,
//! its head moves, or a comment of it goes.

use super::{
    Orchestrator, StepError,
    intake::{Handled, done, ignored},
    lanes::Place,
    retry,
};
use crate::decide::cleanup::Keep;
use crate::github::PullRequest;
use crate::model::*;
use crate::reply::{cleanup, count, run_end};
use crate::store::NewRun;
use crate::telemetry::field::EFFECT;

/// Why nothing follows from what happens in most threads.
const UNKNOWN_THREAD: &str = "the bot has nothing to do with this thread";

impl Orchestrator {
    pub(super) async fn closed(
        &self,
        thread: &ThreadRef,
        merged_head: Option<CommitSha>,
        by: &Person,
        place: &mut Place,
    ) -> Result<Handled, StepError> {
        let state = if merged_head.is_some() { ThreadState::Merged } else { ThreadState::Closed };
        let Some((codebase, conversation)) = self.known_thread(thread).await? else { return ignored(UNKNOWN_THREAD) };
        if self.is_open(&codebase, thread).await? == Some(true) {
            return ignored("the thread has been opened again since");
        }
        self.store().set_conversation_state(conversation.id, state, merged_head, self.now()).await?;
        tracing::debug!(target: EFFECT, { conversation.id = %conversation.id }, "thread closed");
        self.audit(&by.login, "thread.closed", &subject(thread), state.as_str()).await;
        place.step_aside().await?;
        done(self.close_conversation(conversation.id).await?)
    }

    /// A thread may have been closed before its mention arrived here: that event was passed over, and comes no more.
    pub(super) async fn seen_as(
        &self,
        conversation: &Conversation,
        state: ThreadState,
        pull: Option<&PullRequest>,
    ) -> Result<(), StepError> {
        if conversation.state != ThreadState::Open || state == ThreadState::Open {
            return Ok(());
        }
        let (state, merged_head) = match pull.filter(|pull| pull.state == ThreadState::Merged) {
            Some(pull) => (pull.state, Some(pull.head_sha.clone())),
            None => (state, None),
        };
        if self.store().close_open_conversation(conversation.id, state, merged_head, self.now()).await? {
            tracing::debug!(target: EFFECT, { conversation.id = %conversation.id }, "thread closed");
            let (subject, actor) = (&conversation.thread, "treewarden");
            self.audit_within(conversation.codebase, subject, actor, "thread.closed", state.as_str()).await;
        }
        Ok(())
    }

    pub(super) async fn reopened(&self, thread: &ThreadRef, by: &Person) -> Result<Handled, StepError> {
        let Some((codebase, conversation)) = self.known_thread(thread).await? else { return ignored(UNKNOWN_THREAD) };
        if self.is_open(&codebase, thread).await? == Some(false) {
            return ignored("the thread has been closed again since");
        }
        self.store().set_conversation_state(conversation.id, ThreadState::Open, None, self.now()).await?;
        self.audit(&by.login, "thread.reopened", &subject(thread), "").await;
        done("the thread is open again")
    }

    /// What GitHub says of a thread now: an event may come late, after the one that undid it. `None`: it does not know the
    /// thread any more.
    async fn is_open(&self, codebase: &Codebase, thread: &ThreadRef) -> Result<Option<bool>, StepError> {
        let Some(github) = self.on_github(codebase)? else { return Ok(None) };
        let asked = async || Ok(github.client.issue(github.id, github.name, thread.number).await?);
        match retry::patiently(asked).await {
            Ok(now) => Ok(Some(now.state == ThreadState::Open)),
            Err(StepError::Github(error)) if error.is_refusal() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn head_moved(
        &self,
        thread: &ThreadRef,
        before: Option<CommitSha>,
        head: &CommitSha,
        by: &Person,
    ) -> Result<Handled, StepError> {
        let Some((_, conversation)) = self.known_thread(thread).await? else { return ignored(UNKNOWN_THREAD) };
        let ended = match &before {
            Some(before) => self.end_approval(&conversation, before, head, &by.login).await?,
            None => false,
        };
        match ended {
            true => done("the approval of the commit before ended"),
            false => done("the next message on this pull request takes the new commits in"),
        }
    }

    /// Its work stays where it is, and is marked; where the issue is now, it begins anew when somebody asks.
    pub(super) async fn transferred(
        &self,
        thread: &ThreadRef,
        to: Option<String>,
        by: &Person,
        place: &mut Place,
    ) -> Result<Handled, StepError> {
        let Some((codebase, conversation)) = self.known_thread(thread).await? else { return ignored(UNKNOWN_THREAD) };
        place.step_aside().await?;
        let to = to.unwrap_or_else(|| "another repository".to_owned());
        self.audit(&by.login, "thread.transferred", &subject(thread), &to).await;
        let note = format!("transferred to {to}");
        // Whatever the thread points to: one that it shares belongs to others as well.
        let work = Work::of_thread(&conversation.thread);
        let Some(own) = self.store().find_live_environment(codebase.id, &work).await? else { return done(note) };
        let _lease = self.inner.leases.take(own.id).await;
        let Some(mut environment) = self.store().load_environment(own.id).await? else { return done(note) };
        if environment.state != EnvironmentState::Active || environment.metadata.transferred_to.is_some() {
            return done(note);
        }
        environment.metadata.kept_because.push(cleanup::sentence(&Keep::Transferred));
        environment.metadata.transferred_to = Some(to);
        self.store().update_environment(&environment).await?;
        done(format!("{note}; the worktree of `{}` stays here", environment.branch))
    }

    /// What the comment asked for and has not begun is over, unless the rest of its review asks for it still.
    pub(super) async fn deleted(
        &self,
        delivery: &Delivery,
        thread: &ThreadRef,
        source: &MessageSource,
    ) -> Result<Handled, StepError> {
        let Some((codebase, conversation)) = self.known_thread(thread).await? else { return ignored(UNKNOWN_THREAD) };
        let asked = self.store().runs_of_message(conversation.id, source).await?;
        for run in asked.iter().filter(|run| run.state == RunState::Queued) {
            let next = self.next_of_review(&codebase, thread.number, run).await?.map(|(text, source)| NewRun {
                codebase: codebase.id,
                conversation: conversation.id,
                delivery: delivery.id,
                request: RunRequest { text: self.redact(&text), source, ..run.request.clone() },
            });
            let because = run_end::stopped_before_work();
            self.store().replace_queued_run(run.id, &because, next.as_ref(), self.now()).await?;
        }
        // What an earlier try of this delivery changed is told here as well.
        let mut cancelled = self.store().runs_of_message(conversation.id, source).await?;
        cancelled.retain(|run| run.state == RunState::Cancelled);
        let next = self.store().find_run_of_delivery(delivery.id).await?;
        for run in cancelled.iter().chain(&next) {
            self.publish(run, None).await?;
        }
        let number = cancelled.len() as u64;
        match next {
            Some(_) => self.inner.wake.runs.notify_one(),
            None => {
                if let Some(run) = cancelled.pop() {
                    self.look_after_thread_soon(run);
                }
            }
        }
        done(format!("{} of this comment cancelled", count(number, "run")))
    }
}

fn subject(thread: &ThreadRef) -> String {
    format!("{}#{}", thread.repository.name, thread.number)
}
