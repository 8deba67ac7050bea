//! Environments that fail in one pass after the other are looked at less and less often, so that they cost the others nothing;
//! and one that does not come to an end holds up no pass. A person's own command, or button, asks at once. This is forgotten
//! with the process: the first pass after a start tries everything.

use super::{
    Orchestrator, Settings,
    scan::View,
    sweep::{Asked, Pass},
    workers::unwinding,
};
use crate::decide::cleanup::{Class, Keep, RemovalFacts};
use crate::decide::schedule::again_after;
use crate::model::*;
use crate::reply::cleanup;
use crate::store::StoreError;
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio_util::task::TaskTracker;

/// How long a pass waits for one environment. Git's own limits end what it is at some time later.
const PATIENCE: Duration = Duration::from_secs(600);

/// Longest pause of one that fails in each pass.
const LONGEST: Duration = Duration::from_secs(2 * 24 * 3600);
/// The same of what has stopped half-way: nobody's command tries that.
const STUCK: Duration = Duration::from_secs(3600);

/// Waits for a piece of work no longer than that. It goes on, and a service that stops waits for it.
async fn within<T: Send + 'static>(
    work: &TaskTracker,
    patience: Duration,
    piece: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    match tokio::time::timeout(patience, work.spawn(piece)).await {
        Ok(Ok(done)) => Some(done),
        Ok(Err(_)) | Err(_) => None,
    }
}

/// A pass that goes on after whoever asked for it has gone on.
struct OwnedPass {
    trigger: Trigger,
    dry_run: bool,
    actor: String,
    codebase: Option<CodebaseId>,
    only: Option<Class>,
    asked: Option<(Delivery, ConversationId)>,
}

impl OwnedPass {
    fn of(pass: &Pass<'_>) -> Self {
        let Pass { trigger, dry_run, actor, codebase, only, stop: _, asked } = *pass;
        let asked = asked.map(|Asked { delivery, thread }| (delivery.clone(), thread));
        Self { trigger, dry_run, actor: actor.to_owned(), codebase, only, asked }
    }

    fn borrowed(&self) -> Pass<'_> {
        let asked = self.asked.as_ref().map(|(delivery, thread)| Asked { delivery, thread: *thread });
        let Self { trigger, dry_run, codebase, only, .. } = *self;
        Pass { trigger, dry_run, actor: &self.actor, codebase, only, stop: None, asked }
    }
}

/// Those that failed the last time.
#[derive(Default)]
pub(super) struct Backoffs(Mutex<HashMap<EnvironmentId, Failing>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failing {
    times: u32,
    again: Timestamp,
    why: String,
}

impl Backoffs {
    /// It was tried by what comes by about every `period`, and is left alone for `longest` at most.
    pub fn failed(&self, id: EnvironmentId, why: String, period: Duration, longest: Duration, now: Timestamp) {
        let mut all = self.locked();
        let times = all.get(&id).map_or(0, |failing| failing.times).saturating_add(1);
        all.insert(id, Failing { times, again: again_after(times, period, longest, now), why });
    }

    pub fn went_well(&self, id: EnvironmentId) {
        self.locked().remove(&id);
    }

    /// What is said of one that is not looked at yet.
    pub fn put_off(&self, id: EnvironmentId, now: Timestamp) -> Option<String> {
        let failing = self.locked().get(&id).filter(|failing| now < failing.again)?.clone();
        Some(cleanup::put_off(&failing.why, failing.times, failing.again))
    }

    /// Forgets those that are no more.
    pub fn keep_only(&self, live: &HashSet<EnvironmentId>) {
        self.locked().retain(|id, _| live.contains(id));
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<EnvironmentId, Failing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why looking at it, or removing it, did not succeed, where that is its own fault. What is stuck half-way is not for passes to finish.
fn failure(reasons: &[Keep]) -> Option<String> {
    let failed = reasons.iter().find(|reason| matches!(reason, Keep::CannotVerify(_) | Keep::Obstructed(_)));
    failed.map(cleanup::sentence)
}

fn is_scheduled(pass: &Pass<'_>) -> bool {
    pass.trigger == Trigger::Schedule && !pass.dry_run
}

impl Orchestrator {
    /// Notes how it went with an environment in a pass, so that one that fails each time is left alone for a while.
    pub(super) fn note_in_pass(&self, environment: &Environment, pass: &Pass<'_>, view: &View, reasons: &[Keep]) {
        // What is wrong with the remote is wrong for all of them, and no fault of this one.
        let seen = matches!(view, View::Fetched(Probe::Known(())));
        if !seen || environment.state != EnvironmentState::Active {
            return;
        }
        match failure(reasons) {
            Some(why) if is_scheduled(pass) => self.note_failure(environment.id, why),
            Some(_) => {}
            None => self.inner.backoffs.went_well(environment.id),
        }
    }

    /// Whether what was left in the middle is left alone for now.
    pub(super) fn is_put_off(&self, environment: EnvironmentId) -> bool {
        self.inner.backoffs.put_off(environment, self.now()).is_some()
    }

    /// The same for one that was left in the middle of being made or removed: is it still, it is tried less and less often, but
    /// at least each hour.
    pub(super) async fn note_reconciled(&self, id: EnvironmentId) -> Result<(), StoreError> {
        let environment = self.store().load_environment(id).await?;
        let Some(Environment { state: EnvironmentState::Removing, metadata, .. }) = environment else {
            self.inner.backoffs.went_well(id);
            return Ok(());
        };
        let why = metadata.removal.and_then(|removal| removal.stuck).unwrap_or_else(cleanup::not_finished);
        let Settings { lease, sweep_interval, .. } = self.settings();
        self.inner.backoffs.failed(id, why, *lease, (*sweep_interval).min(STUCK), self.now());
        Ok(())
    }

    fn note_failure(&self, environment: EnvironmentId, why: String) {
        self.inner.backoffs.failed(environment, why, self.settings().sweep_interval, LONGEST, self.now());
    }

    /// Those that are looked at, and those that a scheduled pass leaves alone for now, with what is said of them.
    pub(super) fn apart_from_put_off(
        &self,
        environments: Vec<Environment>,
        pass: &Pass<'_>,
    ) -> (Vec<Environment>, Vec<(Environment, ReportResult)>) {
        let (mut looked_at, mut left_alone) = (Vec::new(), Vec::new());
        for environment in environments {
            let is_asked = is_scheduled(pass) && environment.state == EnvironmentState::Active;
            match is_asked.then(|| self.inner.backoffs.put_off(environment.id, self.now())).flatten() {
                Some(why) => left_alone.push((environment, ReportResult::Kept(vec![why]))),
                None => looked_at.push(environment),
            }
        }
        (looked_at, left_alone)
    }

    /// [`Orchestrator::pass_one`], but no longer than [`PATIENCE`]: what takes longer goes on by itself, under its lease.
    pub(super) async fn pass_one_patiently(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        facts: Result<RemovalFacts, StoreError>,
        pass: &Pass<'_>,
        view: &View,
    ) -> Option<(ReportResult, Option<u64>)> {
        let (this, codebase) = (self.clone(), codebase.clone());
        let (view, owned) = (view.clone(), OwnedPass::of(pass));
        let look = async move {
            let repository = this.repository(&codebase);
            unwinding(async { this.pass_one(&codebase, &repository, facts?, &owned.borrowed(), &view).await }).await
        };
        let failed = match within(&self.inner.work, PATIENCE, look).await {
            Some(Ok(result)) => return result,
            // One failing environment never stops the pass.
            Some(Err(error)) => error.to_string(),
            None => {
                tracing::error!(environment.id = %environment.id, "an environment is looked at for too long; the pass goes on");
                cleanup::endless(PATIENCE)
            }
        };
        if is_scheduled(pass) && environment.state == EnvironmentState::Active {
            self.note_failure(environment.id, failed.clone());
        }
        Some((ReportResult::Failed(failed), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOURS: Duration = Duration::from_secs(6 * 3600);

    fn at(hours: u64) -> Timestamp {
        Timestamp::from_unix(1_800_000_000).plus(Duration::from_secs(hours * 3600))
    }

    #[test]
    fn who_fails_again_waits_longer_and_starts_over_once_it_went_well() {
        let (all, id) = (Backoffs::default(), EnvironmentId(uuid::Uuid::nil()));
        let fails = |now| all.failed(id, "no".to_owned(), HOURS, LONGEST, now);
        assert_eq!(all.put_off(id, at(0)), None);
        fails(at(0));
        assert_eq!(all.put_off(id, at(6)), None, "the next pass tries");
        fails(at(6));
        let why = all.put_off(id, at(12)).unwrap();
        assert!(why.contains("2 times") && why.contains("no"), "{why}");
        assert_eq!(all.put_off(id, at(18)), None);
        all.went_well(id);
        fails(at(18));
        assert_eq!(all.put_off(id, at(24)), None);
        all.keep_only(&HashSet::new());
        assert!(all.locked().is_empty());
    }

    #[tokio::test]
    async fn what_does_not_end_is_not_waited_for_and_is_not_ended() {
        let work = TaskTracker::new();
        let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
        let (done, ended) = tokio::sync::oneshot::channel::<bool>();
        let piece = async move {
            let told = wait.await.is_ok();
            done.send(told)
        };
        assert!(within(&work, Duration::from_millis(10), piece).await.is_none());
        go_on.send(()).unwrap();
        assert!(ended.await.unwrap());
        work.close();
        work.wait().await;
        assert_eq!(within(&work, Duration::from_secs(60), async { 1 }).await, Some(1));
    }
}
