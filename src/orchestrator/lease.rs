//! One owner at a time for an environment within this process: whoever binds a run to it or removes it holds this.
//! Across processes the database decides (partial unique indexes, versions). Beside it, the runs this process drives.

use crate::model::*;
use std::{
    collections::HashMap,
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

/// The runs this process drives at this moment. While the database was away their leases may have ended; that is no
/// reason to take them from this process, which is alive.
#[derive(Clone, Default)]
pub(super) struct AtWork {
    runs: Arc<Mutex<HashMap<RunId, Run>>>,
}

/// Driven until dropped.
pub(super) struct Here {
    at_work: AtWork,
    run: RunId,
}

impl AtWork {
    pub fn enter(&self, run: &Run) -> Here {
        self.locked().insert(run.id, run.clone());
        Here { at_work: self.clone(), run: run.id }
    }

    /// As they were claimed.
    pub fn runs(&self) -> Vec<Run> {
        self.locked().values().cloned().collect()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<RunId, Run>> {
        self.runs.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.at_work.locked().remove(&self.run);
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
