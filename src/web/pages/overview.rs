//! `/`: what runs, what waits, what needs a person.

use super::rows::{Catalog, EnvironmentRow, RunRow};
use super::{Frame, LiveQuery, render};
use crate::model::*;
use crate::reply::{cleanup::settles_itself, status::in_words};
use crate::store::RunFilter;
use crate::web::view::{PAGE, Prose, When, ago};
use crate::web::{WebState, error::WebError};
use askama::Template;
use axum::{
    extract::{Query, State},
    response::Response,
};
use tower_sessions::Session;

/// How many rows of each kind the overview shows.
const ROWS: usize = 8;

/// A delivery that was given up.
struct FailedDelivery {
    event: String,
    why: Prose,
    when: When,
}

struct CodebaseRow {
    name: String,
    connected: bool,
    census: Census,
    limit: u32,
    /// What its settings file says, where it has one.
    settings: Option<SettingsView>,
}

struct SettingsView {
    /// Why the file is not followed.
    problem: Option<Prose>,
    /// What is in force, by key.
    in_force: Vec<(&'static str, String)>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    live: usize,
    at_work: i64,
    queued: i64,
    deliveries: i64,
    outgoing: i64,
    kept: Vec<EnvironmentRow>,
    /// How many there are, shown or not.
    kept_count: usize,
    failed: Vec<FailedDelivery>,
    codebases: Vec<CodebaseRow>,
    runs: Vec<RunRow>,
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Query(live): Query<LiveQuery>,
) -> Result<Response, WebError> {
    let (store, catalog) = (&state.inner.store, Catalog::load(&state).await?);
    let environments = store.live_environments(None).await?;
    let waiting = store.unfinished().await?;
    let queued = store.run_counts().await?.into_iter().filter(|(state, _)| *state == RunState::Queued);
    let queued = queued.map(|(_, count)| count).sum();
    let needing: Vec<&Environment> = environments.iter().filter(|environment| needs_person(environment)).collect();
    let mut kept = Vec::new();
    for environment in needing.iter().take(ROWS) {
        kept.push(EnvironmentRow::load(&catalog, environment).await?);
    }
    let runs = store.list_runs(RunFilter::default(), ROWS as u32, 0).await?;
    let mut frame = Frame::load(&state, &session, "/").await?;
    frame.follow(!waiting.is_empty(), live);
    Ok(render(&Page {
        frame,
        live: environments.len(),
        at_work: waiting.runs - queued,
        queued,
        deliveries: waiting.deliveries,
        outgoing: waiting.outgoing,
        kept,
        kept_count: needing.len(),
        failed: failed_deliveries(&state, catalog.now).await?,
        codebases: codebases(&state, &catalog).await?,
        runs: RunRow::load_all(&catalog, &runs).await?,
    }))
}

/// Some reason to keep it will not go away by itself.
fn needs_person(environment: &Environment) -> bool {
    environment.metadata.kept_because.iter().any(|why| !settles_itself(why))
}

/// Of the newest deliveries.
async fn failed_deliveries(state: &WebState, now: Timestamp) -> Result<Vec<FailedDelivery>, WebError> {
    let deliveries = state.inner.store.list_deliveries(PAGE, 0).await?.into_iter();
    let failed = deliveries.filter(|delivery| delivery.state == InboxState::Failed).map(|delivery| FailedDelivery {
        event: delivery.event,
        why: delivery.reason.as_deref().map(Prose::from).unwrap_or_default(),
        when: ago(delivery.received_at, now),
    });
    Ok(failed.take(ROWS).collect())
}

async fn codebases(state: &WebState, catalog: &Catalog<'_>) -> Result<Vec<CodebaseRow>, WebError> {
    let mut rows = Vec::new();
    for codebase in catalog.codebases() {
        let known = state.inner.store.load_repo_settings(codebase.id).await?.unwrap_or_default();
        rows.push(CodebaseRow {
            name: codebase.name.to_string(),
            connected: codebase.connected,
            // The same numbers as `/status` gives.
            census: state.inner.orchestrator.census(codebase).await?,
            limit: known.in_force.worktree_limit(state.inner.environment_limit),
            settings: known.file.is_some().then(|| SettingsView::new(state, codebase, known)),
        });
    }
    Ok(rows)
}

impl SettingsView {
    fn new(state: &WebState, codebase: &Codebase, known: KnownSettings) -> Self {
        let settings = known.in_force;
        let default = codebase.default_branch.as_ref().map(BranchName::to_string).unwrap_or_default();
        let problem = known.problem.map(|problem| Prose::from(problem.to_string().as_str()));
        let in_force = vec![
            ("base", settings.base.as_ref().map_or(default, BranchName::to_string)),
            ("branch_prefix", settings.branch_prefix.as_ref().map_or("none".to_owned(), BranchPrefix::to_string)),
            ("share_linked", settings.share_linked.to_string()),
            ("pull_request", settings.pull_request.to_string()),
            ("max_worktrees", settings.worktree_limit(state.inner.environment_limit).to_string()),
            ("run_time_limit", in_words(settings.time_limit(state.inner.run_time_limit))),
        ];
        Self { problem, in_force }
    }
}
