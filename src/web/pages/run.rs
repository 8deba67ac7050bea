//! `/runs/{id}`: what the agent was asked, what it said and did, and what the service verified.

use super::rows::{Catalog, RunRow};
use super::{Frame, LiveQuery, render};
use crate::model::*;
use crate::web::view::{Prose, plain_log, web_address};
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
    log: Option<Log>,
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
    let path = state.inner.orchestrator.log_path(run.id);
    let log = tokio::task::spawn_blocking(move || read_end(&path)).await?;
    let mut frame = Frame::load(&state, &session, "/runs").await?;
    frame.follow(row.live, live);
    let (github, outcome) = (catalog.links(run.codebase), run.outcome);
    let thread = |number| github.as_ref().map(|links| links.thread(ThreadKind::PullRequest, number));
    let commit = |sha: &CommitSha| github.as_ref().map(|links| links.commit(sha));
    Ok(render(&Page {
        frame,
        request: run.request.text,
        request_url: web_address(&run.request.url),
        opening: run.opening.as_deref().map(Prose::from),
        reason: run.reason.as_deref().map(Prose::from),
        answer: run.answer.filter(|answer| !answer.trim().is_empty()),
        environment: environment.map(|environment| (environment.id, environment.branch.to_string())),
        stopping: run.cancel_requested && row.live,
        pushed: outcome.pushed.as_ref().map(|sha| (sha.short().to_owned(), commit(sha))),
        pull_request: outcome.pull_request.map(|number| (number, thread(number))),
        not_pushed: outcome.not_pushed_because.as_deref().map(Prose::from),
        files: outcome.files_changed,
        log,
        row,
    }))
}

async fn load(state: &WebState, id: &str) -> Result<Run, WebError> {
    let id = id.parse().map_err(|_| WebError::NotFound)?;
    state.inner.store.load_run(id).await?.ok_or(WebError::NotFound)
}

/// The end of a log; absent while there is none.
fn read_end(path: &FilePath) -> Option<Log> {
    let mut file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    let start = size.saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes).ok()?;
    let text = plain_log(&String::from_utf8_lossy(&bytes));
    (!text.is_empty()).then_some(Log { text, cut: start > 0 })
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
