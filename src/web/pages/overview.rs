//! `/`: what runs, what waits, what needs a person.

use super::rows::{Catalog, EnvironmentRow, RunRow};
use super::{Frame, LiveQuery, render};
use crate::model::*;
use crate::reply::cleanup::settles_itself;
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
    live: u32,
    limit: u32,
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
        codebases: codebases(&state, &catalog, &environments),
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

fn codebases(state: &WebState, catalog: &Catalog, environments: &[Environment]) -> Vec<CodebaseRow> {
    let live_in = |id| environments.iter().filter(|environment| environment.codebase == id).count();
    let row = |codebase: &&Codebase| CodebaseRow {
        name: codebase.name.to_string(),
        connected: codebase.connected,
        live: live_in(codebase.id) as u32,
        limit: state.inner.environment_limit,
    };
    catalog.codebases().iter().map(row).collect()
}
