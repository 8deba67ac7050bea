//! `/runs/{id}`: what the agent was asked, what it said and did, and what the service verified.

use super::rows::{Catalog, RunRow};
use super::{Frame, LiveQuery, render};
use crate::model::*;
use crate::reply::{days, status};
use crate::web::view::{Prose, web_address};
use crate::web::{WebState, error::WebError, guard::Actor, verbs};
use askama::Template;
use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path as FilePath,
};
use tower_sessions::Session;

/// A page shows at most this much of a log, its end.
const LOG_BYTES: u64 = 64 * 1024;

struct Log {
    text: String,
    /// Something stands before it.
    cut: bool,
}

/// The comment or pull request of a run that could not be written.
struct Unsent {
    what: &'static str,
    /// It is tried again.
    waits: bool,
    why: Prose,
}

#[derive(Template)]
#[template(path = "run.html")]
struct Page {
    frame: Frame,
    row: RunRow,
    request: String,
    request_url: Option<String>,
    opening: Option<Prose>,
    reason: Option<Prose>,
    answer: Option<String>,
    environment: Option<(EnvironmentId, String)>,
    stopping: bool,
    /// Short and full commit id, and its page.
    pushed: Option<(String, Option<String>)>,
    pull_request: Option<(ThreadNumber, Option<String>)>,
    not_pushed: Option<Prose>,
    files: Option<u64>,
    put_back: Option<Prose>,
    /// What GitHub does not show, and why.
    unsent: Vec<Unsent>,
    log: Option<Log>,
    /// For how many days logs are kept, where it is gone for its age.
    log_kept_for: Option<u64>,
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Path(id): Path<String>,
    Query(live): Query<LiveQuery>,
) -> Result<Response, WebError> {
    let run = load(&state, &id).await?;
    let catalog = Catalog::load(&state).await?;
    let row = RunRow::load(&catalog, &run).await?;
    let environment = match run.environment {
        Some(id) => state.inner.store.load_environment(id).await?,
        None => None,
    };
    let (reader, id) = (state.clone(), run.id);
    let log = tokio::task::spawn_blocking(move || {
        let (text, cut) = read_end(&reader.inner.orchestrator.log_path(id))?;
        // What control sequences split was no secret to whoever wrote the log, and is one without them.
        Some(Log { text: reader.shown(&text), cut })
    });
    let log = log.await?;
    let kept_for = state.inner.orchestrator.retain_for();
    let is_old = run.ended_at.is_some_and(|ended| state.now().since(ended) >= kept_for);
    let log_kept_for = (log.is_none() && is_old).then(|| days(kept_for));
    let unsent = unsent(&state, run.id).await?;
    let mut frame = Frame::load(&state, &session, "/runs").await?;
    frame.follow(row.live, live);
    let (github, outcome) = (catalog.links(run.codebase), run.outcome);
    let thread = |number| github.as_ref().map(|links| links.thread(ThreadKind::PullRequest, number));
    let commit = |sha: &CommitSha| github.as_ref().map(|links| links.commit(sha));
    Ok(render(&Page {
        frame,
        request: state.shown(&run.request.text),
        request_url: web_address(&run.request.url),
        opening: run.opening.as_deref().map(|text| state.prose(text)),
        reason: run.reason.as_deref().map(|text| state.prose(text)),
        answer: run.answer.filter(|answer| !answer.trim().is_empty()).map(|answer| state.shown(&answer)),
        environment: environment.map(|environment| (environment.id, state.shown(environment.branch.as_str()))),
        stopping: run.cancel_requested && row.live,
        pushed: outcome.pushed.as_ref().map(|sha| (sha.short().to_owned(), commit(sha))),
        pull_request: outcome.pull_request.map(|number| (number, thread(number))),
        not_pushed: outcome.not_pushed_because.as_deref().map(|text| state.prose(text)),
        files: outcome.files_changed,
        put_back: status::put_back(&outcome).map(|text| state.prose(&text)),
        unsent,
        log,
        log_kept_for,
        row,
    }))
}

async fn load(state: &WebState, id: &str) -> Result<Run, WebError> {
    let id = id.parse().map_err(|_| WebError::NotFound)?;
    state.inner.store.load_run(id).await?.ok_or(WebError::NotFound)
}

/// The run's own comments and its pull request, as far as GitHub did not take them.
async fn unsent(state: &WebState, run: RunId) -> Result<Vec<Unsent>, WebError> {
    let mut unsent = Vec::new();
    let comments = status::keys(run).map(|key| ("comment", key));
    for (what, key) in comments.chain([("pull request", status::pull_key(run))]) {
        let row = match state.inner.store.load_outgoing_by_key(&key).await {
            Err(error) if error.is_corrupt() => None,
            row => row?,
        };
        let Some((row_state, Some(why))) = row.map(|row| (row.state, row.last_error)) else { continue };
        let waits = match row_state {
            OutboxState::Pending | OutboxState::Sending => true,
            OutboxState::Failed => false,
            OutboxState::Sent => continue,
        };
        unsent.push(Unsent { what, waits, why: state.sentence(&why) });
    }
    Ok(unsent)
}

/// The end of a log, and whether something stands before it; absent while there is none.
fn read_end(path: &FilePath) -> Option<(String, bool)> {
    let mut file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    let start = size.saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes).ok()?;
    // Half a line may be half a secret.
    let from = match start {
        0 => 0,
        _ => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1),
    };
    let text = terminal_text(&String::from_utf8_lossy(&bytes[from..]));
    (!text.is_empty()).then_some((text, start > 0))
}

pub async fn stop(
    State(state): State<WebState>,
    session: Session,
    actor: Actor,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    let run = load(&state, &id).await?;
    let page = format!("/runs/{}", run.id);
    verbs::stop(&state, run.id, actor).await?.on(&session, &page).await
}
