//! For machines that watch: alive, ready, metrics.

use super::WebState;
use crate::model::{EnvironmentState, Timestamp};
use crate::orchestrator::Clock;
use crate::telemetry::metric;
use axum::{
    Extension, Json,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::json;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{sync::Mutex, time::timeout};

/// A check that takes longer than this has failed.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// An answer that cost a process is given again for this long.
const REMEMBERED: Duration = Duration::from_secs(1);

/// A check whose answer is good for a moment. Anybody may ask, so however many do, it is made once in [`REMEMBERED`] at most.
#[derive(Clone, Default)]
pub struct Check {
    last: Arc<Mutex<Option<(Timestamp, bool)>>>,
}

impl Check {
    async fn ask(&self, clock: &Clock, check: impl Future<Output = bool> + Send + 'static) -> bool {
        // Others wait here while it is made, and then have its answer.
        let mut last = self.last.clone().lock_owned().await;
        let now = clock();
        if let Some((at, answer)) = *last
            && at <= now
            && now.since(at) < REMEMBERED
        {
            return answer;
        }
        let clock = clock.clone();
        // Its own task: who asked may be gone before the answer is there, which is no reason to begin again.
        let making = tokio::spawn(async move {
            let answer = timeout(PATIENCE, check).await.unwrap_or(false);
            *last = Some((clock(), answer));
            answer
        });
        making.await.unwrap_or(false)
    }
}

/// The process answers.
pub async fn alive() -> &'static str {
    "ok\n"
}

/// The database answers, deliveries can be stored, git runs, the workers get through and may begin what comes, and the process is
/// not about to stop.
pub async fn ready(State(state): State<WebState>, Extension(git): Extension<Check>) -> Response {
    let orchestrator = state.inner.orchestrator.clone();
    let words = |fine: bool| if fine { "ok" } else { "failing" };
    let (database, inbox, git) = tokio::join!(
        timeout(PATIENCE, state.inner.store.ping()),
        timeout(PATIENCE, state.inner.orchestrator.inbox().takes_deliveries(state.now())),
        git.ask(&state.inner.clock, async move { orchestrator.git_answers().await }),
    );
    let (database, inbox) = (matches!(database, Ok(Ok(_))), inbox.unwrap_or(false));
    let workers =
        state.inner.workers_healthy.load(Ordering::Relaxed) && state.inner.orchestrator.may_claim(PATIENCE).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, AtomicUsize};

    /// A clock that stands until it is set, and a check that counts how often it is made.
    #[derive(Clone, Default)]
    struct Setting {
        seconds: Arc<AtomicI64>,
        made: Arc<AtomicUsize>,
        check: Check,
    }

    impl Setting {
        async fn ask(&self, at: i64, answer: bool) -> bool {
            self.seconds.store(at, Ordering::Relaxed);
            let (seconds, made) = (self.seconds.clone(), self.made.clone());
            let clock: Clock = Arc::new(move || Timestamp::from_unix(seconds.load(Ordering::Relaxed)));
            let check = async move {
                made.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                answer
            };
            self.check.ask(&clock, check).await
        }

        fn made(&self) -> usize {
            self.made.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn an_answer_is_given_again_until_it_is_a_second_old() {
        let setting = Setting::default();
        for (at, fine, told, made) in [
            (100, true, true, 1),
            (100, false, true, 1),
            (101, false, false, 2),
            (101, true, false, 2),
            (102, true, true, 3),
            // The clock was put back.
            (50, false, false, 4),
        ] {
            assert_eq!((setting.ask(at, fine).await, setting.made()), (told, made), "{at}");
        }
    }

    #[tokio::test]
    async fn who_asks_at_the_same_time_shares_one_answer() {
        let setting = Setting::default();
        let asking = (0..50).map(|_| setting.ask(100, true));
        assert!(futures::future::join_all(asking).await.into_iter().all(|fine| fine));
        assert_eq!(setting.made(), 1);
    }

    #[tokio::test]
    async fn who_leaves_before_the_answer_does_not_make_the_next_one_begin_again() {
        let setting = Setting::default();
        {
            let mut leaves = std::pin::pin!(setting.ask(100, true));
            assert!(futures::poll!(leaves.as_mut()).is_pending());
        }
        assert!(setting.ask(100, false).await, "the answer of the first one");
        assert_eq!(setting.made(), 1);
    }
}
