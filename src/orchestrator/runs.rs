//! A run, from the queue to its end: prepare, let the agent work, deliver, and say what became of it.
//!
//! The state in the database is written before each stage begins, so that a restart knows where it was: preparing and
//! delivering are repeated, a run whose agent was at work is marked interrupted.

use super::retry::outlasting;
use super::{Orchestrator, StepError, deliver::Delivered, lease::Here, prepare::Prepared, retry, workers::unwinding};
use crate::agent::{AgentEvent, Limits, Outcome, TurnEnd, TurnSpec, name_env, prompt, work_env};
use crate::git::{Repository, Restored};
use crate::model::*;
use crate::reply::{not_begun, run_end};
use crate::telemetry::{field::EFFECT, metric};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long an agent's start waits for the comment that says that it is at work.
const COMMENT_WAIT: Duration = Duration::from_secs(10);

/// How a run ended, before it is written down.
struct Ended {
    state: RunState,
    reason: Option<String>,
}

impl Ended {
    fn failed(reason: impl Into<String>) -> Self {
        Self { state: RunState::Failed, reason: Some(reason.into()) }
    }
}

impl Orchestrator {
    /// Claims the next run that may start; `None` when there is none.
    pub(super) async fn claim_next_run(&self) -> Result<Option<Here<Run>>, StepError> {
        let settings = self.settings();
        let Some(_claiming) = self.claiming().await else { return Ok(None) };
        let run = self.store().claim_run(self.node(), self.now(), settings.lease, settings.run_limit).await?;
        Ok(run.map(|run| self.inner.runs_at_work.enter(run)))
    }

    /// Carries a claimed run to its end. Dropping this future leaves the run to the next start.
    pub(super) async fn drive(&self, here: Here<Run>) {
        let (id, mut run) = (here.id, Run::clone(&here));
        let cancel = CancellationToken::new();
        let heart = self.heartbeat(run.clone(), cancel.clone());
        // With its end the lease ends as well, which no beat is to take for a loss.
        let outcome = tokio::select! {
            biased;
            outcome = Box::pin(self.to_its_end(&mut run, &cancel)) => outcome,
            () = heart => Err(StepError::LeaseLost),
        };
        match outcome {
            Ok(()) if run.state.is_final() => self.look_after(&run).await,
            Ok(()) => {
                self.show(&run, None).await;
            }
            Err(StepError::LeaseLost) => match self.store().load_run(id).await {
                // A beat saw the end before this did.
                Ok(Some(run)) if run.state.is_final() => self.look_after(&run).await,
                Ok(_) | Err(_) => tracing::warn!(run.id = %id, "lease lost; another worker goes on"),
            },
            Err(error) => {
                tracing::error!(run.id = %id, %error, "the end of the run could not be written; a later start repeats it");
            }
        }
    }

    /// Until its end is written down, or that it waits in the queue again.
    async fn to_its_end(&self, run: &mut Run, cancel: &CancellationToken) -> Result<(), StepError> {
        // Asked before this process had it.
        if run.cancel_requested {
            cancel.cancel();
        }
        let ended = match unwinding(Box::pin(self.stages(run, cancel))).await {
            Ok(ended) => ended,
            Err(StepError::LeaseLost) => return Err(StepError::LeaseLost),
            Err(StepError::Occupied(environment)) => {
                outlasting!(self.store().requeue_run(run, self.node(), environment))?;
                run.state = RunState::Queued;
                run.started_at = None;
                return Ok(());
            }
            Err(error) => {
                let agent_began = run.process.is_some() || run.state == RunState::Delivering;
                let words = if agent_began { run_end::broken_off } else { not_begun::not_begun };
                Ended::failed(error.worded(words).to_string())
            }
        };
        self.finish(run, ended).await
    }

    async fn stages(&self, run: &mut Run, cancel: &CancellationToken) -> Result<Ended, StepError> {
        if run.state == RunState::Delivering {
            let prepared = retry::patiently(|| self.prepared_before(run)).await?;
            return self.deliver_and_end(run, &prepared, cancel).await;
        }
        tracing::debug!(target: EFFECT, { run.id = %run.id }, "run claimed");
        run.started_at.get_or_insert(self.now());
        self.save(run).await?;
        self.show(run, None).await;
        let stopped = || Ended { state: RunState::Cancelled, reason: Some(run_end::stopped_before_work()) };
        let mut prepared = match outlasting!(self.prepare(run, cancel)) {
            Err(StepError::Stopped) => return Ok(stopped()),
            prepared => prepared.map_err(|error| error.worded(not_begun::not_begun))?,
        };
        tell_untold(run, &prepared.environment);
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.wait_until_shown(run.id, COMMENT_WAIT) => {}
        }
        if cancel.is_cancelled() {
            return Ok(stopped());
        }
        let branch = &prepared.environment.branch;
        run.outcome.head_before = prepared.repository.tip(&branch.full_ref()).await?;
        run.outcome.remote_before = prepared.repository.tip(&branch.remote_ref()).await?;
        self.enter(run, RunState::Running).await?;
        self.forget_untold(&mut prepared.environment).await;
        let before = prepared.repository.restored();
        let end = self.work(run, &prepared, cancel).await?;
        set_right(run, &prepared.repository, &before).await;
        tracing::debug!(target: EFFECT, { run.id = %run.id }, "agent ended");
        run.process = None;
        run.answer = Some((self.parts().redact)(&end.answer));
        match end.outcome {
            Outcome::Done => {
                self.enter(run, RunState::Delivering).await?;
                self.deliver_and_end(run, &prepared, cancel).await
            }
            Outcome::Cancelled => Ok(Ended { state: RunState::Cancelled, reason: Some(run_end::stopped()) }),
            Outcome::TimedOut => {
                Ok(Ended { state: RunState::TimedOut, reason: Some(run_end::timed_out(self.limits(&prepared).wall)) })
            }
            Outcome::Failed(why) => Ok(Ended::failed(run_end::agent_failed(&(self.parts().redact)(&why)))),
        }
    }

    /// Once it is written down with the run. Told twice rather than never.
    async fn forget_untold(&self, environment: &mut Environment) {
        if std::mem::take(&mut environment.metadata.untold).is_empty() {
            return;
        }
        match self.store().update_environment(environment).await {
            Ok(written) => *environment = written,
            Err(error) => tracing::warn!(environment.id = %environment.id, %error, "what was told is told once more"),
        }
    }

    async fn deliver_and_end(
        &self,
        run: &mut Run,
        prepared: &Prepared,
        cancel: &CancellationToken,
    ) -> Result<Ended, StepError> {
        match outlasting!(self.deliver(run, prepared, cancel)) {
            Ok(Delivered::ToItsEnd) => Ok(Ended { state: RunState::Succeeded, reason: None }),
            Ok(Delivered::Stopped) => {
                Ok(Ended { state: RunState::Cancelled, reason: Some(run_end::stopped_delivering()) })
            }
            Err(error @ (StepError::LeaseLost | StepError::Occupied(_))) => Err(error),
            Err(_) if self.is_missing(prepared).await => Ok(Ended::failed(run_end::environment_lost())),
            Err(error) => {
                let why = match &error {
                    StepError::Github(refused) if refused.is_refusal() => {
                        Box::pin(self.refusal_explained(&prepared.codebase)).await
                    }
                    _ => None,
                };
                let why = why.unwrap_or_else(|| error.to_string());
                Ok(Ended::failed(run_end::not_delivered(&prepared.environment.branch, &why)))
            }
        }
    }

    async fn is_missing(&self, prepared: &Prepared) -> bool {
        self.validity(&prepared.repository, &prepared.environment).await == Probe::Known(Validity::Missing)
    }

    /// What a run that was interrupted while delivering needs to go on.
    async fn prepared_before(&self, run: &Run) -> Result<Prepared, StepError> {
        let (codebase, conversation) = self.thread_of(run).await?;
        let environment = match run.environment {
            Some(id) => self.store().load_environment(id).await?,
            None => None,
        };
        let environment = environment.ok_or_else(|| StepError::Refused(run_end::environment_lost()))?;
        let pull = self.pull_request_of(&codebase, &conversation).await?;
        let repository = self.repository(&codebase);
        let settings = self.repo_settings(&codebase, &repository, &conversation).await?;
        Ok(Prepared { codebase, conversation, repository, environment, pull, settings })
    }

    pub(super) async fn save(&self, run: &Run) -> Result<(), StepError> {
        match outlasting!(self.store().update_run(run, self.node()))? {
            true => Ok(()),
            false => Err(StepError::LeaseLost),
        }
    }

    /// Like [`publish`](Self::publish); progress that cannot be shown just now ends nothing. False: it was not.
    async fn show(&self, run: &Run, step: Option<&str>) -> bool {
        match self.publish(run, step).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(run.id = %run.id, %error, "progress not shown");
                false
            }
        }
    }

    async fn enter(&self, run: &mut Run, state: RunState) -> Result<(), StepError> {
        run.state = state;
        self.save(run).await?;
        tracing::info!(target: EFFECT, { run.id = %run.id, run.state = %state }, "run enters a stage");
        self.show(run, None).await;
        Ok(())
    }

    /// Lets the agent work in the worktree, writing down its process and its progress.
    async fn work(&self, run: &mut Run, prepared: &Prepared, cancel: &CancellationToken) -> Result<TurnEnd, StepError> {
        let Some(agent) = self.parts().agent.clone() else {
            return Err(StepError::Refused(not_begun::no_agent()));
        };
        let spec = self.turn(run, prepared).await?;
        self.demand_approval_of_worktree(prepared).await?;
        if let Err(error) = prepared.repository.worktree(&prepared.environment.path).clear_locks().await {
            tracing::warn!(run.id = %run.id, %error, "what a killed git left in the worktree was not cleared away");
        }
        let (sender, mut events) = mpsc::channel(64);
        let turn = agent.run(spec, sender, cancel.clone());
        tokio::pin!(turn);
        let mut step: Option<String> = None;
        let mut shown: Option<String> = None;
        let mut noted = true;
        let mut tick = tokio::time::interval(self.settings().pacing.status);
        tick.tick().await;
        loop {
            tokio::select! {
                end = &mut turn => return Ok(end?),
                Some(event) = events.recv() => match event {
                    AgentEvent::Started(process) => {
                        run.process = Some(process);
                        tracing::debug!(target: EFFECT, { run.id = %run.id }, "agent started");
                        noted = self.noted(run).await?;
                        tracing::debug!(target: EFFECT, { run.id = %run.id }, "agent written down");
                    }
                    AgentEvent::Status(text) => step = Some((self.parts().redact)(&text)),
                },
                _ = tick.tick() => {
                    if !noted {
                        noted = self.noted(run).await?;
                    }
                    if step != shown && self.show(run, step.as_deref()).await {
                        shown.clone_from(&step);
                    }
                },
            }
        }
    }

    /// Writes the agent's process down. False: the database is away, try again; that is no reason to end the agent.
    async fn noted(&self, run: &Run) -> Result<bool, StepError> {
        match self.store().update_run(run, self.node()).await {
            Ok(true) => Ok(true),
            Ok(false) => Err(StepError::LeaseLost),
            Err(error) if error.is_transient() => {
                tracing::warn!(run.id = %run.id, %error, "the agent's process is not written down yet");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn turn(&self, run: &Run, prepared: &Prepared) -> Result<TurnSpec, StepError> {
        let environment = &prepared.environment;
        let facts = self.prompt_facts(run, prepared).await?;
        let (repository, thread) = (&prepared.codebase.name, prepared.conversation.thread.number());
        let env = work_env(repository, thread, &environment.branch, environment.base.as_ref());
        let bot = self.ident(&self.identity().bot);
        Ok(TurnSpec {
            run: run.id,
            cwd: environment.path.clone(),
            state_dir: self.agent_home(run.conversation),
            prompt: prompt::render(&facts),
            defaults: name_env(&bot.name, &bot.email),
            env,
            limits: self.limits(prepared),
            log: self.log_path(run.id),
        })
    }

    /// What one turn may use here.
    fn limits(&self, prepared: &Prepared) -> Limits {
        let server = self.settings().agent_limits;
        Limits { wall: prepared.settings.time_limit(server.wall), ..server }
    }

    /// Where a run's output is kept.
    pub fn log_path(&self, run: RunId) -> std::path::PathBuf {
        self.settings().home.join("runs").join(format!("{run}.log"))
    }

    /// Renews the lease until it is lost; then returns. Brings requests to stop along.
    async fn heartbeat(&self, run: Run, cancel: CancellationToken) {
        let lease = self.settings().lease;
        let mut cancelled = self.inner.wake.cancelled.notified();
        loop {
            tokio::select! {
                () = cancelled => {}
                () = tokio::time::sleep(lease / 3) => {}
            }
            // Listened for before the row is asked: what is rung meanwhile is heard.
            cancelled = self.inner.wake.cancelled.notified();
            match self.store().heartbeat_run(&run, self.node(), self.now().plus(lease)).await {
                Ok(Some(true)) => cancel.cancel(),
                Ok(Some(false)) => {}
                Ok(None) => return,
                Err(error) => tracing::warn!(run.id = %run.id, error = %error, "heartbeat not written"),
            }
        }
    }

    /// Writes the end of a run and what is said of it last in one transaction.
    async fn finish(&self, run: &mut Run, ended: Ended) -> Result<(), StepError> {
        run.state = ended.state;
        run.reason = ended.reason.map(|reason| (self.parts().redact)(&reason));
        run.process = None;
        run.ended_at = Some(self.now());
        outlasting!(self.conclude(run))?;
        Ok(())
    }

    /// What comes after the end of a run, which then has no lease any more.
    async fn look_after(&self, run: &Run) {
        // Whatever became of its pull request since it was looked at last.
        if let Err(error) = self.late_pull_request(run.id).await {
            tracing::error!(run.id = %run.id, %error, "the run was not brought up to date with its pull request");
        }
        self.look_after_thread(run).await;
        if let Some(environment) = run.environment {
            self.measure_soon(run.codebase, Some(environment));
        }
    }

    /// The same of a run that never began, for whoever must not wait for git. What is cut short by the end of the service, the
    /// next start does.
    pub(super) fn look_after_thread_soon(&self, run: Run) {
        let this = self.clone();
        self.inner.work.spawn(async move { this.look_after_thread(&run).await });
    }

    /// A thread that is closed may have waited for the end of its run.
    async fn look_after_thread(&self, run: &Run) {
        if let Err(error) = self.after_run(run).await {
            tracing::error!(run.id = %run.id, %error, "the run's thread was not looked after; the next pass does");
        }
    }

    /// Writes a run's final state together with what tells of it.
    pub(super) async fn conclude(&self, run: &Run) -> Result<(), StepError> {
        let now = self.now();
        let told = self.told_of(run, None, None).await?;
        if !self.store().finish_run(run, self.node(), told, now).await? {
            return Err(StepError::LeaseLost);
        }
        metrics::counter!(metric::RUNS, "result" => run.state.as_str()).increment(1);
        if let Some(started) = run.started_at {
            let seconds = run.ended_at.unwrap_or(now).since(started).as_secs_f64();
            metrics::histogram!(metric::RUN_SECONDS).record(seconds);
        }
        tracing::info!(target: EFFECT, { run.id = %run.id, run.state = %run.state }, "run ended");
        self.inner.wake.outgoing.notify_one();
        self.inner.wake.runs.notify_one();
        Ok(())
    }

    /// A thread that was closed while the run was live, or waited, is looked at again.
    async fn after_run(&self, run: &Run) -> Result<(), StepError> {
        let environment = match run.environment {
            Some(environment) => {
                self.store().touch_environment(environment, self.now()).await?;
                Some(environment)
            }
            None => self.store().load_conversation(run.conversation).await?.and_then(|thread| thread.environment),
        };
        if let Some(environment) = environment {
            for conversation in self.store().conversations_of(environment).await? {
                if conversation.id != run.conversation && conversation.state != ThreadState::Open {
                    self.close_conversation(conversation.id).await?;
                }
            }
        }
        // It may have been given another worktree meanwhile, and leaves the one of the run behind.
        self.close_conversation(run.conversation).await.map(drop)
    }
}

/// What the agent changed of the repository that the service alone writes is put back, and named: it would have been used in
/// every other worktree.
async fn set_right(run: &mut Run, repository: &Repository, before: &Restored) {
    let set_right = async {
        repository.restore_config().await?;
        repository.restore_refs().await
    };
    if let Err(error) = set_right.await {
        tracing::warn!(run.id = %run.id, %error, "the repository could not be set right yet; whatever needs it next says why");
    }
    run.outcome.restored = repository.restored().since(before).into_iter().map(str::to_owned).collect();
}

/// What a creation that a restart finished had to tell, and nobody has heard yet.
fn tell_untold(run: &mut Run, environment: &Environment) {
    let told = run.opening.iter().chain(&environment.metadata.untold).cloned().collect::<Vec<_>>();
    run.opening = (!told.is_empty()).then(|| told.join("\n\n"));
}
