//! `/`: what runs, what waits, what needs a person.

use super::{Frame, render, runs::RunRow};
use crate::model::*;
use crate::store::{RunFilter, Unfinished};
use crate::web::{WebState, error::WebError, pages::environments::EnvironmentRow};
use askama::Template;
use axum::{extract::State, response::Response};
use tower_sessions::Session;

/// How many rows of each kind the overview shows.
const ROWS: usize = 8;

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    slug: String,
    waiting: Unfinished,
    live: usize,
    codebases: Vec<CodebaseRow>,
    runs: Vec<RunRow>,
    kept: Vec<EnvironmentRow>,
}

struct CodebaseRow {
    name: String,
    connected: bool,
    live: usize,
    limit: u32,
}

pub async fn show(State(state): State<WebState>, session: Session) -> Result<Response, WebError> {
    let store = &state.inner.store;
    let environments = store.live_environments(None).await?;
    let codebases = store.list_codebases().await?;
    let mut frame = Frame::load(&session, "overview").await?;
    let waiting = store.unfinished().await?;
    frame.refresh = (!waiting.is_empty()).then_some(5);
    let mut runs = Vec::new();
    for run in store.list_runs(RunFilter::default(), ROWS as u32, 0).await? {
        runs.push(RunRow::load(&state, run).await?);
    }
    let mut kept = Vec::new();
    for environment in environments.iter().filter(|e| !e.metadata.kept_because.is_empty()).take(ROWS) {
        kept.push(EnvironmentRow::load(&state, environment.clone()).await?);
    }
    let live_in = |id: CodebaseId| environments.iter().filter(|environment| environment.codebase == id).count();
    let rows = codebases.iter().map(|codebase| CodebaseRow {
        name: codebase.name.to_string(),
        connected: codebase.connected,
        live: live_in(codebase.id),
        limit: state.inner.environment_limit,
    });
    let codebases = rows.collect();
    let slug = state.inner.slug.clone();
    Ok(render(&Page { frame, slug, waiting, live: environments.len(), codebases, runs, kept }))
}
