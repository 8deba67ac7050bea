//! The loops that keep everything moving. Each looks for work, and sleeps until its bell rings or a second passes.

use super::{Orchestrator, StepError, sweep::Pass};
use crate::decide::missed::{rest_after, rest_after_failure};
use crate::decide::schedule::spread;
use crate::model::{Lane, Trigger};
use futures::FutureExt;
use std::{
    iter,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Longest sleep of a loop: rows that wait for a moment in time ring no bell.
const NAP: Duration = Duration::from_secs(1);
/// Pause of a loop whose step failed (database away).
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// How long senders may go on with what is due, once everything else has stopped.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Senders in each lane, of all installations together: requests that hang, of one or two of them, hold up nobody else.
const SENDERS: [(Lane, usize); 2] = [(Lane::Content, 4), (Lane::Heard, 2)];
/// Pause between two looks at what of the repositories is to be packed, and before the first: a start has better things to do.
const UPKEEP: Duration = Duration::from_secs(1200);

/// Pause between two looks at what the App reaches; a start looks by itself.
const ACCESS: Duration = Duration::from_secs(3600);

/// The running loops.
pub struct Workers {
    orchestrator: Orchestrator,
    stop_claiming: CancellationToken,
    stop_sending: CancellationToken,
    loops: TaskTracker,
    senders: TaskTracker,
    healthy: Arc<AtomicBool>,
    /// Loops whose last step failed.
    failing: Arc<AtomicUsize>,
}

impl Workers {
    /// Starts all loops. [`Orchestrator::recover`] has run. `healthy` tells whether the loops get through to the database.
    pub fn start(orchestrator: &Orchestrator, healthy: Arc<AtomicBool>) -> Self {
        let workers = Self {
            orchestrator: orchestrator.clone(),
            stop_claiming: orchestrator.inner.stopping.clone(),
            stop_sending: CancellationToken::new(),
            loops: TaskTracker::new(),
            senders: TaskTracker::new(),
            healthy,
            failing: Arc::default(),
        };
        workers.start_claiming(
            |o| &o.inner.wake.deliveries,
            |o| async move { o.claim_next_deliveries().await },
            |o, (delivery, place)| async move { o.take_in(delivery, place).await },
        );
        workers.start_claiming(
            |o| &o.inner.wake.stops,
            |o| async move { o.claim_next_stop().await },
            |o, (delivery, place)| async move { o.take_in(delivery, place).await },
        );
        workers.start_claiming(
            |o| &o.inner.wake.runs,
            |o| async move { o.claim_next_run().await },
            |o, run| async move { o.drive(run).await },
        );
        let (senders, stop) = (&workers.senders, &workers.stop_sending);
        for lane in SENDERS.into_iter().flat_map(|(lane, number)| iter::repeat_n(lane, number)) {
            let step = move |o: Orchestrator| async move { o.outbox_step(lane).await };
            workers.keep_stepping(senders, stop, true, move |o| o.inner.wake.sender(lane), step);
        }
        workers.start_timers(orchestrator);
        workers.start_looking_for_missed(orchestrator);
        workers
    }

    /// Stops claiming, lets what was claimed finish within `limit`, and sends what they still had to say. True when everything
    /// came to its end; what did not is picked up by the next start.
    pub async fn shut_down(self, limit: Duration) -> bool {
        self.stop_claiming.cancel();
        self.orchestrator.inner.lanes.close();
        self.loops.close();
        let work = &self.orchestrator.inner.work;
        work.close();
        let finished = tokio::time::timeout(limit, async {
            self.loops.wait().await;
            work.wait().await;
        });
        let all = finished.await.is_ok();
        // Each sender ends when it finds nothing more that is due.
        self.stop_sending.cancel();
        self.senders.close();
        let sent = tokio::time::timeout(LAST_WORDS, self.senders.wait()).await.is_ok();
        all && sent
    }

    /// A loop that claims work and leaves each piece to a task of its own.
    fn start_claiming<T, I, C, W>(
        &self,
        bell: impl for<'a> Fn(&'a Orchestrator) -> &'a Notify + Send + 'static,
        claim: impl Fn(Orchestrator) -> C + Send + 'static,
        work_on: impl Fn(Orchestrator, T) -> W + Copy + Send + 'static,
    ) where
        I: IntoIterator<Item = T, IntoIter: Send> + Send,
        C: Future<Output = Result<I, StepError>> + Send,
        W: Future<Output = ()> + Send + 'static,
    {
        let work = self.orchestrator.inner.work.clone();
        self.keep_stepping(&self.loops, &self.stop_claiming, false, bell, move |orchestrator| {
            let (claimed, work) = (claim(orchestrator.clone()), work.clone());
            async move {
                let mut any = false;
                for claimed in claimed.await? {
                    any = true;
                    work.spawn(work_on(orchestrator.clone(), claimed));
                }
                Ok(any)
            }
        });
    }

    /// `drain`: after the stop, what is due is still done.
    fn keep_stepping<S, F>(
        &self,
        tracker: &TaskTracker,
        stop: &CancellationToken,
        drain: bool,
        bell: impl for<'a> Fn(&'a Orchestrator) -> &'a Notify + Send + 'static,
        step: S,
    ) where
        S: Fn(Orchestrator) -> F + Send + 'static,
        F: Future<Output = Result<bool, StepError>> + Send,
    {
        let mut pulse = Pulse { failed: false, failing: self.failing.clone(), healthy: self.healthy.clone() };
        let (stop, orchestrator) = (stop.clone(), self.orchestrator.clone());
        tracker.spawn(async move {
            loop {
                if stop.is_cancelled() && !drain {
                    break;
                }
                let outcome = unwinding(step(orchestrator.clone())).await;
                pulse.feel(&outcome);
                let pause = match outcome {
                    Ok(true) => continue,
                    Ok(false) | Err(_) if stop.is_cancelled() => break,
                    Ok(false) => NAP,
                    Err(error) => {
                        tracing::error!(error = %error, "a worker's step failed; it is repeated");
                        AFTER_FAILURE
                    }
                };
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = bell(&orchestrator).notified() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
        });
    }

    /// What is due by the clock. Each has a task of its own, so that none waits for another one's slow work, and leaves off
    /// before its next piece of work when the service stops.
    fn start_timers(&self, orchestrator: &Orchestrator) {
        let settings = orchestrator.settings();
        let (lease, sweep) = (settings.lease, settings.sweep_interval);
        let now = Duration::ZERO;
        self.every(now, settings.pacing.status, |o, _| async move { o.renew_places().await });
        self.every(now, lease, |o, _| async move { o.recover_expired().await });
        self.every(now, lease, |o, stop| async move { o.reconcile(&stop).await });
        self.every(ACCESS, ACCESS, |o, _| async move { o.look_at_access().await });
        self.every(UPKEEP, UPKEEP, |o, stop| async move { o.maintain(&stop).await });
        let closed = Arc::new(AtomicBool::new(false));
        self.every(now, sweep, move |o, stop| {
            let closed = closed.clone();
            async move {
                if !closed.swap(true, Ordering::Relaxed)
                    && let Err(error) = unwinding(o.look_after_closed_threads(&stop)).await
                {
                    tracing::error!(%error, "closed threads were not looked after; the pass does");
                }
                let schedule = Pass { stop: Some(&stop), ..Pass::everywhere(Trigger::Schedule, false, "schedule") };
                let passed = o.pass(&schedule).await.map(drop);
                o.forget_outlived(&stop).await?;
                passed
            }
        });
    }

    /// After `first`, and then again after each `period`, a little sooner or later, so that servers that started together do not
    /// go on together. Until the service stops.
    fn every<F>(
        &self,
        first: Duration,
        period: Duration,
        step: impl Fn(Orchestrator, CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), StepError>> + Send,
    {
        let (this, stop) = (self.orchestrator.clone(), self.stop_claiming.clone());
        self.loops.spawn(async move {
            let pauses = (0..).map(|turn| spread(period, this.node(), turn));
            let mut next = Instant::now();
            for pause in iter::once(first).chain(pauses) {
                // From one beginning to the next; what took longer than that is begun anew at once, and once.
                next = (next + pause).max(Instant::now());
                if stop.run_until_cancelled(tokio::time::sleep_until(next)).await.is_none() {
                    break;
                }
                // Else another service has the database, or may soon.
                if !this.may_claim(period).await {
                    continue;
                }
                if let Err(error) = unwinding(step(this.clone(), stop.clone())).await {
                    tracing::error!(%error, "a timed step failed; it is repeated");
                }
            }
        });
    }

    /// Deliveries that never came in. Nothing waits for it; dropping it in the middle does no harm.
    fn start_looking_for_missed(&self, orchestrator: &Orchestrator) {
        let (this, stop) = (orchestrator.clone(), self.stop_claiming.clone());
        self.loops.spawn(async move {
            // A GitHub that is down for hours is told once.
            let mut failing = false;
            let looking = async {
                loop {
                    let looked = unwinding(this.look_for_missed(this.now())).await;
                    let are_sent = !this.fetches_deliveries();
                    let rest = match &looked {
                        Ok(looked) => rest_after(looked.more, looked.pages, are_sent),
                        Err(error) => rest_after_failure(error.wait_asked_for(), failing, are_sent),
                    };
                    match looked {
                        Ok(_) => failing = false,
                        Err(error) if failing => tracing::debug!(%error, "missed deliveries still not looked for"),
                        Err(error) => {
                            failing = true;
                            tracing::warn!(%error, "missed deliveries could not be looked for; it is tried again and again");
                        }
                    }
                    // An App that is connected meanwhile does not wait for that.
                    let _ = tokio::time::timeout(rest, this.inner.wake.connected.notified()).await;
                }
            };
            stop.run_until_cancelled(looking).await
        });
    }
}

/// What a loop adds to whether all of them get through.
struct Pulse {
    /// Its last step.
    failed: bool,
    failing: Arc<AtomicUsize>,
    healthy: Arc<AtomicBool>,
}

impl Pulse {
    /// After each step, also one that is followed by the next without a pause.
    fn feel(&mut self, outcome: &Result<bool, StepError>) {
        let failed = outcome.is_err();
        match (self.failed, failed) {
            (false, true) => self.failing.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.failing.fetch_sub(1, Ordering::Relaxed),
            (true, true) | (false, false) => 0,
        };
        self.failed = failed;
        self.healthy.store(self.failing.load(Ordering::Relaxed) == 0, Ordering::Relaxed);
    }
}

/// A step that panics is a step that failed: the loop it belongs to goes on.
pub(super) async fn unwinding<T>(step: impl Future<Output = Result<T, StepError>>) -> Result<T, StepError> {
    AssertUnwindSafe(step).catch_unwind().await.unwrap_or(Err(StepError::Panicked))
}

impl Orchestrator {
    /// Runs, deliveries and what was being sent whose lease ran out, whoever had them. What this process is at it keeps,
    /// however long the database was away or the machine slept.
    pub async fn recover_expired(&self) -> Result<(), StepError> {
        let (store, node, lease) = (self.store(), self.node(), self.settings().lease);
        // Most of the time nothing is to be taken back, and nobody has to wait for what is renewed.
        if !store.lease_has_ended(self.now()).await? {
            return Ok(());
        }
        let nobody_claims = self.inner.claiming.write().await;
        if !*nobody_claims {
            return Ok(());
        }
        for run in self.inner.runs_at_work.all() {
            store.heartbeat_run(&run, node, self.now().plus(lease)).await?;
        }
        for delivery in self.inner.deliveries_at_work.all() {
            store.renew_delivery(&delivery, self.now().plus(lease)).await?;
        }
        for row in self.inner.outgoing_at_work.all() {
            store.renew_outgoing(&row, node, self.now().plus(lease)).await?;
        }
        store.release_expired_deliveries(self.now()).await?;
        store.release_expired_outgoing(self.now()).await?;
        let left = store.take_over_expired_runs(node, self.now()).await?;
        drop(nobody_claims);
        self.recover_runs(left).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_has_work_again_is_well_again() {
        let (failing, healthy) = (Arc::<AtomicUsize>::default(), Arc::new(AtomicBool::new(true)));
        let pulse = || Pulse { failed: false, failing: failing.clone(), healthy: healthy.clone() };
        let (mut one, mut other) = (pulse(), pulse());
        one.feel(&Err(StepError::Panicked));
        other.feel(&Err(StepError::Panicked));
        one.feel(&Ok(true));
        assert!(!healthy.load(Ordering::Relaxed), "the other one still fails");
        other.feel(&Ok(true));
        assert!(healthy.load(Ordering::Relaxed));
    }
}
