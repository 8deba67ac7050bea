//! One owner at a time for an environment within this process: whoever binds a run to it or removes it holds this.
//! Across processes the database decides (partial unique indexes, versions). Beside it, what this process drives.

use crate::model::*;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use uuid::Uuid;

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

/// What this process drives at this moment: runs, or deliveries. While the database was away their leases may have ended; that
/// is no reason to take them from this process, which is alive.
pub(super) struct AtWork<T>(Arc<Mutex<HashMap<Uuid, T>>>);

/// Driven until dropped.
pub(super) struct Here<T> {
    at_work: AtWork<T>,
    id: Uuid,
}

impl<T> AtWork<T> {
    pub fn enter(&self, id: Uuid, driven: T) -> Here<T> {
        self.locked().insert(id, driven);
        Here { at_work: Self(self.0.clone()), id }
    }

    /// As they were claimed.
    pub fn all(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.locked().values().cloned().collect()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Uuid, T>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> Default for AtWork<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        self.at_work.locked().remove(&self.id);
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
