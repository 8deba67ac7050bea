//! Deliveries that never came in (the service was down, the proxy failed or swallowed them, the disk was full, a backup was put
//! back): GitHub does not repeat them by itself, but still has them, so they are fetched.
//!
//! What is remembered moves on only after what was fetched is on disk, and the inbox recognises each delivery by its GUID. So a
//! crash at any point only means that something is fetched twice.
//!
//! Where GitHub cannot reach this machine at all, everything comes by this alone.

use super::{NotArrived, Orchestrator, StepError};
use crate::decide::missed::{MissedFacts, Wanted, is_lately, is_of_use, look_back, missed, news_from, room};
use crate::github::{AttemptLog, Fetched, Github, GithubError};
use crate::model::*;
use crate::telemetry::metric;
use std::collections::{BTreeMap, BTreeSet};

/// What a look came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// There is more to fetch than one look takes.
    pub more: bool,
    /// Requests that GitHub's list took.
    pub pages: usize,
}

/// What looks for missed deliveries leave for those after them.
#[derive(Default)]
pub(super) struct Watched {
    log: AttemptLog,
    /// GUIDs of the log that need not be looked up any more: the inbox has them.
    stored: BTreeSet<String>,
    /// Those that were given up, and when by GitHub's clock, where nobody but this would take them in once more.
    failed: BTreeMap<String, Timestamp>,
    /// Watched that fetched something lately, and how much.
    fetched: Vec<(Timestamp, usize)>,
}

/// Why a delivery is still not here.
enum Unfetched {
    /// GitHub has it no more, or nobody can read it.
    Useless(String),
    Failed(GithubError),
    /// That is not the delivery's fault.
    Hindered(StepError),
}

impl From<GithubError> for Unfetched {
    fn from(error: GithubError) -> Self {
        match error {
            GithubError::RateLimited { .. } | GithubError::Unauthorized => Unfetched::Hindered(error.into()),
            error => Unfetched::Failed(error),
        }
    }
}

impl Orchestrator {
    /// The first start of this App here: nothing from before is ever fetched.
    pub(super) async fn begin_watch(&self, now: Timestamp) -> Result<(), StepError> {
        let Some(github) = self.github() else { return Ok(()) };
        Ok(self.watch_from(self.identity().app_id, github.by_its_clock(now), now).await?)
    }

    /// Fetches what never came in; `now` by this machine's clock.
    pub async fn look_for_missed(&self, now: Timestamp) -> Result<Looked, StepError> {
        let Some(github) = self.github() else { return Ok(Looked::default()) };
        let mut seen = self.inner.missed.lock().await;
        let app = self.identity().app_id;
        let Some(before) = self.store().load_missed_watch(app).await? else {
            return self.begin_watch(now).await.map(|()| Looked::default());
        };
        let now = github.by_its_clock(now);
        self.read_attempts(github, &mut seen, look_back(&before, now)).await?;
        seen.fetched.retain(|(at, _)| is_lately(*at, now));
        let plan = missed(&MissedFacts {
            now,
            watch: &before,
            attempts: &seen.log.attempts(),
            all_known: seen.log.is_complete(),
            stored: &seen.stored,
            failed: &seen.failed,
            are_sent: !self.fetches_deliveries(),
            room: room(&seen.fetched, now),
        });
        let mut watch = plan.watch;
        let fetching = self.fetch_missed(github, &plan.fetch, &mut seen, &mut watch, now).await;
        if watch != before {
            self.store().save_missed_watch(app, &watch, now).await?;
        }
        for guid in &plan.given_up {
            given_up(guid, "GitHub does not hand it out");
        }
        fetching.map(|()| Looked { more: plan.more, pages: seen.log.pages() })
    }

    /// What GitHub lists since then, and what of it the inbox has.
    async fn read_attempts(&self, github: &Github, seen: &mut Watched, since: Timestamp) -> Result<(), StepError> {
        let Watched { log, stored, failed, .. } = seen;
        github.read_attempts(log, since, news_from(since, log.newest())).await?;
        if !log.is_complete() {
            tracing::info!(
                "GitHub lists more deliveries than one look takes; the next one goes on with the older ones"
            );
        }
        let attempts = log.attempts();
        let listed: BTreeSet<&str> = attempts.iter().map(|attempt| attempt.guid.as_str()).collect();
        stored.retain(|guid| listed.contains(guid.as_str()));
        for guid in listed {
            if !stored.contains(guid) && self.store().knows_delivery(guid).await? {
                stored.insert(guid.to_owned());
            }
        }
        failed.clear();
        for again in attempts.iter().filter(|attempt| attempt.redelivery && self.fetches_deliveries()) {
            let ended = self.store().delivery_given_up_at(&again.guid).await?;
            failed.extend(ended.map(|at| (again.guid.clone(), github.by_its_clock(at))));
        }
        let newest = log.newest();
        log.retain(|attempt| is_of_use(attempt, stored.contains(&attempt.guid), since, newest));
        Ok(())
    }

    /// Until GitHub has enough of it; the rest comes with the next look. What goes wrong is counted in `watch`.
    async fn fetch_missed(
        &self,
        github: &Github,
        wanted: &[Wanted],
        seen: &mut Watched,
        watch: &mut MissedWatch,
        now: Timestamp,
    ) -> Result<(), StepError> {
        let (mut asked, mut fetched) = (0, 0);
        let mut outcome = Ok(());
        for wanted in wanted {
            asked += 1;
            let guid = &wanted.guid;
            match self.fetch_one(github, wanted).await {
                Ok(()) => {
                    fetched += 1;
                    seen.stored.insert(guid.clone());
                }
                Err(Unfetched::Useless(why)) => {
                    watch.give_up(guid, now);
                    given_up(guid, &why);
                }
                Err(Unfetched::Failed(error)) => {
                    watch.count(guid, now);
                    tracing::debug!(delivery.guid = guid, %error, "a delivery could not be fetched");
                    // Else it is this one only: GitHub may not have it any more.
                    if error.is_transient() {
                        outcome = Err(error.into());
                        break;
                    }
                }
                Err(Unfetched::Hindered(error)) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        seen.fetched.extend((asked > 0).then_some((now, asked)));
        if fetched > 0 {
            metrics::counter!(metric::MISSED, "result" => "fetched").increment(fetched);
            match self.fetches_deliveries() {
                true => tracing::debug!(missed.fetched = fetched, "fetched deliveries"),
                false => tracing::info!(missed.fetched = fetched, "fetched deliveries that never came in"),
            }
        }
        outcome
    }

    async fn fetch_one(&self, github: &Github, wanted: &Wanted) -> Result<(), Unfetched> {
        let Fetched { guid, event, body } = github.fetch_delivery(wanted.attempt).await?;
        if guid != wanted.guid {
            return Err(GithubError::BadAnswer("another delivery than was asked for".to_owned()).into());
        }
        let body = body.ok_or_else(|| Unfetched::Useless("GitHub does not have what was in it".to_owned()))?;
        match self.arrive(guid, event, body).await {
            Ok(_) => Ok(()),
            Err(NotArrived::Unreadable(error)) => Err(Unfetched::Useless(error.to_string())),
            Err(NotArrived::NotStored(error)) => Err(Unfetched::Hindered(error.into())),
        }
    }
}

fn given_up(guid: &str, why: &str) {
    metrics::counter!(metric::MISSED, "result" => "given_up").increment(1);
    tracing::error!(delivery.guid = guid, reason = why, "a delivery never came in, and is not tried any more");
}
