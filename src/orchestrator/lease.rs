//! One owner at a time for an environment within this process: whoever binds a run to it or removes it holds this.
//! Across processes the database decides (partial unique indexes, versions).

use crate::model::EnvironmentId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

#[derive(Default)]
pub(super) struct Leases {
    held: Mutex<HashMap<EnvironmentId, Arc<AsyncMutex<()>>>>,
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
