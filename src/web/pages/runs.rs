//! `/runs` and `/runs/{id}`: what the agent was asked, what it did, what the service verified.

use super::{Frame, PAGE, PageQuery, Pager, answer, render};
use crate::model::*;
use crate::reply::status::in_words;
use crate::store::RunFilter;
use crate::web::{
    WebState,
    error::WebError,
    format::{When, ago, plain_log},
    guard,
};
use askama::Template;
use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use std::io::{Read, Seek, SeekFrom};
use tower_sessions::Session;

/// A page shows at most this much of a log, its end.
const LOG_BYTES: u64 = 64 * 1024;

/// One run in a list.
pub struct RunRow {
    pub id: RunId,
    pub codebase: String,
    pub thread: String,
    pub thread_url: String,
    pub requester: String,
    pub asked: String,
    pub state: &'static str,
    pub live: bool,
    pub when: When,
    pub took: Option<String>,
}

impl RunRow {
    pub async fn load(state: &WebState, run: Run) -> Result<Self, WebError> {
        let store = &state.inner.store;
        let codebase = store.load_codebase(run.codebase).await?.map(|c| c.name.to_string()).unwrap_or_default();
        let conversation = store.load_conversation(run.conversation).await?;
        let number = conversation.as_ref().map(|c| c.number.to_string()).unwrap_or_default();
        let kind = match conversation.map(|c| c.kind) {
            Some(ThreadKind::PullRequest) => "pull",
            Some(ThreadKind::Issue) | None => "issues",
        };
        let end = run.ended_at.unwrap_or_else(|| state.now());
        Ok(Self {
            id: run.id,
            thread_url: format!("{}/{codebase}/{kind}/{number}", state.inner.web_url),
            thread: format!("#{number}"),
            codebase,
            asked: run.request.text.chars().take(120).collect(),
            requester: run.request.requester.login,
            state: run.state.as_str(),
            live: !run.state.is_final(),
            when: ago(run.created_at, state.now()),
            took: run.started_at.map(|start| in_words(end.since(start))),
        })
    }
}

#[derive(Template)]
#[template(path = "runs.html")]
struct ListPage {
    frame: Frame,
    slug: String,
    rows: Vec<RunRow>,
    pager: Pager,
}

pub async fn list(
    State(state): State<WebState>,
    session: Session,
    Query(page): Query<PageQuery>,
) -> Result<Response, WebError> {
    let mut rows = Vec::new();
    for run in state.inner.store.list_runs(RunFilter::default(), PAGE + 1, page.offset()).await? {
        rows.push(RunRow::load(&state, run).await?);
    }
    let mut frame = Frame::load(&session, "runs").await?;
    frame.refresh = rows.iter().any(|row| row.live).then_some(5);
    let pager = page.cut(&mut rows);
    Ok(render(&ListPage { frame, slug: state.inner.slug.clone(), rows, pager }))
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    frame: Frame,
    row: RunRow,
    request: String,
    request_url: String,
    opening: Option<String>,
    reason: Option<String>,
    answer: Option<String>,
    environment: Option<EnvironmentId>,
    pushed: Option<String>,
    pull_request: Option<(String, ThreadNumber)>,
    not_pushed: Option<String>,
    files: Option<u64>,
    log: Option<String>,
    log_cut: bool,
}

async fn load(state: &WebState, id: &str) -> Result<Run, WebError> {
    let id = id.parse().map_err(|_| WebError::NotFound)?;
    state.inner.store.load_run(id).await?.ok_or(WebError::NotFound)
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    let run = load(&state, &id).await?;
    let mut frame = Frame::load(&session, "runs").await?;
    frame.refresh = (!run.state.is_final()).then_some(3);
    let row = RunRow::load(&state, run.clone()).await?;
    let path = state.inner.orchestrator.log_path(run.id);
    let tail = tokio::task::spawn_blocking(move || log_tail(&path)).await.map_err(anyhow::Error::from)?;
    let (log, log_cut) = tail.map_or((None, false), |(text, cut)| (Some(plain_log(&text)), cut));
    let pull_url = |number| format!("{}/{}/pull/{number}", state.inner.web_url, row.codebase);
    Ok(render(&RunPage {
        frame,
        request: run.request.text,
        request_url: run.request.url,
        opening: run.opening,
        reason: run.reason,
        answer: run.answer,
        environment: run.environment,
        pushed: run.outcome.pushed.map(String::from),
        pull_request: run.outcome.pull_request.map(|number| (pull_url(number), number)),
        not_pushed: run.outcome.not_pushed_because,
        files: run.outcome.files_changed,
        log,
        log_cut,
        row,
    }))
}

/// The end of a log, and whether something stands before it.
fn log_tail(path: &std::path::Path) -> Option<(String, bool)> {
    let mut file = std::fs::File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    let cut = size > LOG_BYTES;
    if cut {
        file.seek(SeekFrom::End(-(LOG_BYTES as i64))).ok()?;
    }
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes).ok()?;
    Some((String::from_utf8_lossy(&bytes).into_owned(), cut))
}

pub async fn stop(
    State(state): State<WebState>,
    session: Session,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    let run = load(&state, &id).await?;
    let actor = guard::actor(&session).await?;
    let message = match state.inner.orchestrator.stop_run(run.id, &actor).await? {
        true => "Stopping. Work done so far is kept in the worktree.",
        false => "This run was over already.",
    };
    answer(&session, &format!("/runs/{}", run.id), message.to_owned()).await
}
