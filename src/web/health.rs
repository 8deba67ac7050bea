//! For machines that watch: alive, ready, metrics.

use super::WebState;
use crate::model::EnvironmentState;
use crate::telemetry::metric;
use axum::{
    Json,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::json;
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::timeout;

/// A check that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process answers.
pub async fn alive() -> &'static str {
    "ok\n"
}

/// The database answers, deliveries can be stored, git runs, the workers get through, and the process is not about to stop.
pub async fn ready(State(state): State<WebState>) -> Response {
    let words = |fine: bool| if fine { "ok" } else { "failing" };
    let (database, inbox, git) = tokio::join!(
        timeout(PATIENCE, state.inner.store.ping()),
        timeout(PATIENCE, state.inner.inbox.takes_deliveries(state.now())),
        timeout(PATIENCE, state.inner.orchestrator.git_answers()),
    );
    let (database, inbox, git) = (matches!(database, Ok(Ok(_))), inbox.unwrap_or(false), git.unwrap_or(false));
    let workers = state.inner.workers_healthy.load(Ordering::Relaxed);
    let stopping = state.inner.stopping.load(Ordering::Relaxed);
    let status = match database && inbox && git && workers && !stopping {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let body = json!({
        "database": words(database), "inbox": words(inbox), "git": words(git), "workers": words(workers),
        "stopping": stopping,
    });
    (status, Json(body)).into_response()
}

/// Prometheus text; gauges are read from the database at this moment.
pub async fn metrics(State(state): State<WebState>) -> Response {
    if let Ok(waiting) = state.inner.store.unfinished().await {
        for (queue, depth) in [("inbox", waiting.deliveries), ("runs", waiting.runs), ("outbox", waiting.outgoing)] {
            metrics::gauge!(metric::QUEUE_DEPTH, "queue" => queue).set(depth as f64);
        }
    }
    if let Ok(counts) = state.inner.store.environment_counts().await {
        // A state that nothing is in any more is told as well: a gauge stays at what it was told last.
        for &kind in EnvironmentState::ALL.iter().filter(|kind| **kind != EnvironmentState::Destroyed) {
            let count = counts.iter().find(|(state, _)| *state == kind).map_or(0, |(_, count)| *count);
            metrics::gauge!(metric::ENVIRONMENTS, "state" => kind.as_str()).set(count as f64);
        }
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], (state.inner.metrics)()).into_response()
}
