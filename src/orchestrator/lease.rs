//! One owner at a time for an environment within this process: whoever binds a run to it or removes it holds this.
//! Across processes the database decides (partial unique indexes, versions). Beside it, what this process drives.

use crate::model::*;
use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Does `work` and keeps the lease on its row meanwhile: a slow GitHub or a long fetch must not make somebody else begin
/// the same.
macro_rules! holding {
    ($this:expr, $work:expr, $renewed:expr) => {{
        let mut work = std::pin::pin!($work);
        loop {
            tokio::select! {
                outcome = &mut work => break outcome,
                () = tokio::time::sleep($this.settings().lease / 3) => {
                    if let Err(error) = $renewed.await {
                        tracing::warn!(%error, "a lease was not renewed");
                    }
                }
            }
        }
    }};
}
pub(super) use holding;

#[derive(Default)]
pub(super) struct Leases {
    held: Mutex<HashMap<EnvironmentId, Arc<AsyncMutex<()>>>>,
}

/// What this process drives at this moment: runs, deliveries, or what it sends. While the database was away, or the machine
/// slept, their leases may have ended; that is no reason to take them from this process, which is alive.
///
/// Leases that ended are taken back by [`Orchestrator::recover_expired`](super::Orchestrator::recover_expired) only, which
/// renews these first. A claim and its entry are made under the reading half of `claiming`, so that it sees either both or
/// neither.
pub(super) struct AtWork<T>(Arc<Mutex<Vec<Arc<T>>>>);

/// A claim, as it was made; driven until dropped.
pub(super) struct Here<T> {
    at_work: AtWork<T>,
    claim: Arc<T>,
}

impl<T> AtWork<T> {
    pub fn enter(&self, claim: T) -> Here<T> {
        let claim = Arc::new(claim);
        self.locked().push(claim.clone());
        Here { at_work: Self(self.0.clone()), claim }
    }

    pub fn all(&self) -> Vec<Arc<T>> {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Arc<T>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> Default for AtWork<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Deref for Here<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.claim
    }
}

/// Its own entry, and no other of the same row.
impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        self.at_work.locked().retain(|entry| !Arc::ptr_eq(entry, &self.claim));
    }
}

/// Held until dropped.
pub(super) struct Lease {
    _guard: OwnedMutexGuard<()>,
}

impl Leases {
    pub async fn take(&self, environment: EnvironmentId) -> Lease {
        let lock = {
            let mut held = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            held.retain(|id, lock| *id == environment || Arc::strong_count(lock) > 1);
            held.entry(environment).or_default().clone()
        };
        Lease { _guard: lock.lock_owned().await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_takes_no_other_entry_of_the_same_row_along() {
        let at_work = AtWork::default();
        let (first, second) = (at_work.enter("run 1"), at_work.enter("run 1"));
        drop(first);
        assert_eq!(at_work.all(), [Arc::new("run 1")]);
        drop(second);
        assert!(at_work.all().is_empty());
    }
}
