//! Deliveries that GitHub could not hand over (the service was down, the proxy failed, the disk was full): GitHub does not
//! repeat them by itself, so it is asked to.
//!
//! Nothing here touches the inbox: what is asked for comes in by the door, signed, and is recognised by its GUID. So a crash
//! at any point only means that something is asked for twice.

use super::{Orchestrator, StepError};
use crate::decide::missed::{MissedFacts, Wanted, is_of_use, look_back, missed, news_from, unanswered};
use crate::github::{Github, GithubError};
use crate::model::*;
use crate::telemetry::metric;
use std::collections::BTreeSet;

impl Orchestrator {
    /// The first start of this App here: nothing from before is ever asked for.
    pub(super) async fn begin_watch(&self, now: Timestamp) -> Result<(), StepError> {
        if self.github().is_none() {
            return Ok(());
        }
        Ok(self.watch_from(self.identity().app_id, now, now).await?)
    }

    /// Asks GitHub once more for what did not arrive.
    pub async fn look_for_missed(&self, now: Timestamp) -> Result<(), StepError> {
        let Some(github) = self.github() else { return Ok(()) };
        let mut log = self.inner.missed.lock().await;
        let app = self.identity().app_id;
        let Some(before) = self.store().load_missed_watch(app).await? else { return self.begin_watch(now).await };
        let since = look_back(&before, now);
        let new_since = news_from(since, log.newest());
        github.read_attempts(&mut log, since, new_since).await?;
        if !log.is_complete() {
            tracing::info!(
                "GitHub lists more deliveries than one look takes; the next one goes on with the older ones"
            );
        }
        let newest = log.newest();
        log.retain(|attempt| is_of_use(attempt, since, newest));
        let attempts = log.attempts();
        let mut stored = BTreeSet::new();
        for guid in unanswered(&attempts) {
            if self.store().knows_delivery(guid).await? {
                stored.insert(guid.to_owned());
            }
        }
        let (watch, all_known) = (&before, log.is_complete());
        let plan = missed(&MissedFacts { now, watch, attempts: &attempts, all_known, stored: &stored });
        let mut watch = plan.watch;
        let asking = ask_again(github, &plan.ask, &mut watch, now).await;
        if watch != before {
            self.store().save_missed_watch(app, &watch, now).await?;
        }
        metrics::counter!(metric::MISSED, "result" => "arrived").increment(plan.arrived);
        if plan.arrived > 0 {
            tracing::info!(missed.arrived = plan.arrived, "missed deliveries arrived");
        }
        for guid in &plan.given_up {
            metrics::counter!(metric::MISSED, "result" => "given_up").increment(1);
            tracing::error!(delivery.guid = guid, "a delivery never arrived, and is not asked for any more");
        }
        Ok(asking?)
    }
}

/// Until GitHub has enough of it; the rest comes with the next look. What was asked for is counted in `watch`.
async fn ask_again(
    github: &Github,
    wanted: &[Wanted],
    watch: &mut MissedWatch,
    now: Timestamp,
) -> Result<(), GithubError> {
    let mut asked = 0;
    let mut outcome = Ok(());
    for Wanted { guid, attempt } in wanted {
        match github.redeliver(*attempt).await {
            Ok(()) => asked += 1,
            // It may have been asked for.
            Err(GithubError::OutcomeUnknown) => {
                watch.count(guid, now);
                outcome = Err(GithubError::OutcomeUnknown);
                break;
            }
            Err(error) if error.is_transient() || error == GithubError::Unauthorized => {
                outcome = Err(error);
                break;
            }
            // This one only: GitHub may not have it any more.
            Err(error) => tracing::debug!(delivery.guid = guid, %error, "GitHub does not send a delivery again"),
        }
        watch.count(guid, now);
    }
    if asked > 0 {
        metrics::counter!(metric::MISSED, "result" => "asked").increment(asked);
        tracing::info!(missed.asked = asked, "asked GitHub again for deliveries that did not arrive");
    }
    outcome
}
