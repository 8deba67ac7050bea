//! Agents of kind `command`: any program that reads a prompt on standard input and answers on standard output.
//!
//! Standard error is the log, except that a line `::status <text>` says what the agent is doing. The exit code decides
//! between done and failed.

use super::process::{Group, RUN_MARK, Start, Streams, end_strays};
use super::transcript::{Excerpt, Log, StatusLines, Stream, keep_prompt};
use super::{AgentError, AgentEvent, AgentRunner, Outcome, TurnEnd, TurnSpec};
use crate::model::RunId;
use crate::telemetry::Redactor;
use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};
use std::os::unix::{fs::DirBuilderExt, process::ExitStatusExt};
use std::{fs, io, process::ExitStatus, thread, time::Duration};
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long output may still come after the agent itself has ended; what it left running keeps the streams open.
const DRAIN: Duration = Duration::from_secs(2);
const CHUNK: usize = 64 * 1024;

/// The agent's `PATH` where the service has none.
pub const FALLBACK_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// For variables the service itself does not have.
const FALLBACK_ENV: [(&str, &str); 3] = [("PATH", FALLBACK_PATH), ("LANG", "C.UTF-8"), ("TERM", "dumb")];

/// Runs one configured command for every turn.
pub struct CommandRunner {
    argv: Vec<String>,
    env: Vec<(String, SecretString)>,
    redactor: Redactor,
}

/// Why the agent is not at work any more.
enum Ended {
    ByItself,
    Cancelled,
    TimedOut,
}

impl CommandRunner {
    /// `env` is what the agent gets of the service's environment: `PATH`, `LANG`, `TERM` and what the settings name.
    pub fn new(argv: Vec<String>, env: Vec<(String, SecretString)>, redactor: Redactor) -> Self {
        Self { argv, env, redactor }
    }

    /// The agent's whole environment. Later entries win: nothing can move its home or hide its run's mark.
    fn environment(&self, spec: &TurnSpec) -> Vec<(String, String)> {
        let fallback = FALLBACK_ENV.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let passed = self.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
        let own =
            [("HOME".to_owned(), spec.state_dir.display().to_string()), (RUN_MARK.to_owned(), spec.run.to_string())];
        let defaults = spec.defaults.iter().cloned();
        fallback.into_iter().chain(defaults).chain(passed).chain(spec.env.iter().cloned()).chain(own).collect()
    }

    fn start(&self, spec: &TurnSpec, prompt: fs::File) -> Result<(Group, Streams), AgentError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&spec.state_dir);
        made.map_err(|error| AgentError::NotPrepared { path: spec.state_dir.clone(), error })?;
        if !spec.cwd.is_dir() {
            return Err(AgentError::NoWorktree { path: spec.cwd.clone() });
        }
        let start = Start { argv: &self.argv, cwd: &spec.cwd, env: &self.environment(spec), input: prompt };
        Group::start(start).map_err(|error| {
            let program = self.argv.first().cloned().unwrap_or_default();
            match error.kind() {
                io::ErrorKind::NotFound => AgentError::NotFound { program },
                _ => AgentError::NotStarted { program, error },
            }
        })
    }
}

#[async_trait]
impl AgentRunner for CommandRunner {
    async fn run(
        &self,
        spec: TurnSpec,
        events: mpsc::Sender<AgentEvent>,
        cancel: CancellationToken,
    ) -> Result<TurnEnd, AgentError> {
        if cancel.is_cancelled() {
            return Ok(TurnEnd { outcome: Outcome::Cancelled, answer: String::new(), exit: None });
        }
        let not_prepared = |error| AgentError::NotPrepared { path: spec.log.clone(), error };
        let log = Log::open(&spec.log, spec.limits.output_bytes, &self.redactor).await.map_err(not_prepared)?;
        let prompt = keep_prompt(&spec.log, &spec.prompt, &self.redactor).await.map_err(not_prepared)?;
        let (group, streams) = self.start(&spec, prompt)?;
        let mut given_up = GivenUp { run: spec.run, is_over: false };
        // Nobody listening is no reason to stop.
        let _ = events.send(AgentEvent::Started(group.process())).await;

        let mut output = Output::new(log, self.redactor.clone(), events);
        let (drained, stop) = (CancellationToken::new(), CancellationToken::new());
        let (finished, ()) = tokio::join!(
            supervise(group, &spec, &cancel, &drained, &stop),
            output.read(streams.stdout, streams.stderr, &drained, &stop),
        );
        given_up.is_over = finished.is_ok();
        let (answer, last_error) = output.finish(&spec).await;
        let (ended, status) = finished.map_err(AgentError::Lost)?;
        let outcome = match ended {
            Ended::ByItself if status.success() => Outcome::Done,
            Ended::ByItself => Outcome::Failed(failure(status, &last_error)),
            Ended::Cancelled => Outcome::Cancelled,
            Ended::TimedOut => Outcome::TimedOut,
        };
        Ok(TurnEnd { outcome, answer, exit: status.code() })
    }
}

/// Waits for the agent's end or brings it about, lets the last output through, and leaves no process behind. Fires
/// `stop` when the streams are of no interest any more, whatever happens.
async fn supervise(
    mut group: Group,
    spec: &TurnSpec,
    cancel: &CancellationToken,
    drained: &CancellationToken,
    stop: &CancellationToken,
) -> io::Result<(Ended, ExitStatus)> {
    let _stop = stop.clone().drop_guard();
    let ended = tokio::select! {
        biased;
        ended = group.ended() => ended.map(|()| Ended::ByItself)?,
        () = cancel.cancelled() => Ended::Cancelled,
        () = tokio::time::sleep(spec.limits.wall) => Ended::TimedOut,
    };
    if !matches!(ended, Ended::ByItself) {
        group.end(spec.limits.grace).await?;
    }
    // Something it left running may hold the streams open for ever.
    let _ = timeout(DRAIN, drained.cancelled()).await;
    let status = group.finish().await?;
    end_strays_of(spec.run).await;
    let _ = timeout(DRAIN, drained.cancelled()).await;
    Ok((ended, status))
}

/// A turn that nobody waits for any more: dropping this ends what left the agent's group. On a thread of its own: looking
/// at all processes takes a while, and nobody is there to wait.
struct GivenUp {
    run: RunId,
    is_over: bool,
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let run = self.run;
        if let Err(error) = thread::Builder::new().spawn(move || end_strays(run)) {
            tracing::error!(run.id = %run, %error, "could not look for processes the agent left behind");
        }
    }
}

async fn end_strays_of(run: RunId) {
    match tokio::task::spawn_blocking(move || end_strays(run)).await {
        Ok(0) => {}
        Ok(count) => tracing::info!(run.id = %run, run.processes = count, "ended processes the agent had left behind"),
        Err(error) => tracing::error!(run.id = %run, %error, "could not look for processes the agent left behind"),
    }
}

/// What is made of the agent's output while it comes.
struct Output {
    log: Log,
    answer: Excerpt,
    errors: Excerpt,
    statuses: StatusLines,
    redactor: Redactor,
    events: mpsc::Sender<AgentEvent>,
}

impl Output {
    fn new(log: Log, redactor: Redactor, events: mpsc::Sender<AgentEvent>) -> Self {
        let (answer, errors) = (Excerpt::answer(), Excerpt::errors());
        Self { log, answer, errors, statuses: StatusLines::default(), redactor, events }
    }

    /// Reads until both streams have ended (and fires `drained`) or until `stop`.
    async fn read(
        &mut self,
        mut stdout: ChildStdout,
        mut stderr: ChildStderr,
        drained: &CancellationToken,
        stop: &CancellationToken,
    ) {
        let (mut out, mut err) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (mut out_open, mut err_open) = (true, true);
        while out_open || err_open {
            tokio::select! {
                () = stop.cancelled() => return,
                read = stdout.read(&mut out), if out_open => match read {
                    Ok(length @ 1..) => self.take_answer(&out[..length]).await,
                    Ok(0) | Err(_) => out_open = false,
                },
                read = stderr.read(&mut err), if err_open => match read {
                    Ok(length @ 1..) => self.take_errors(&err[..length]).await,
                    Ok(0) | Err(_) => err_open = false,
                },
            }
        }
        drained.cancel();
    }

    async fn take_answer(&mut self, chunk: &[u8]) {
        self.answer.push(chunk);
        self.log.push(Stream::Stdout, chunk).await;
    }

    async fn take_errors(&mut self, chunk: &[u8]) {
        self.errors.push(chunk);
        for status in self.statuses.push(chunk) {
            // A receiver that lags behind or is gone must not slow the agent down.
            let _ = self.events.try_send(AgentEvent::Status(self.redactor.redact(&status)));
        }
        self.log.push(Stream::Stderr, chunk).await;
    }

    /// The answer, and the last line of standard error that is not a status.
    async fn finish(self, spec: &TurnSpec) -> (String, String) {
        if let Some(error) = self.log.finish().await {
            tracing::warn!(run.id = %spec.run, %error, "the run's log is incomplete");
        }
        let errors = self.errors.into_text(&self.redactor);
        let line = errors.lines().rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("::status "));
        (self.answer.into_text(&self.redactor), line.unwrap_or_default().chars().take(300).collect())
    }
}

fn failure(status: ExitStatus, last_error: &str) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("the agent ended with exit code {code}"),
        (None, Some(signal)) => format!("the agent was ended by signal {signal}"),
        (None, None) => "the agent ended in an unknown way".to_owned(),
    };
    if last_error.is_empty() { how } else { format!("{how}: {last_error}") }
}
