//! One change at a time for each place, in order of arrival.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<PathBuf, Weak<AsyncMutex<()>>>>>);

impl Turns {
    /// Waits until nobody else changes the place; it is this caller's until the guard is dropped.
    pub async fn take(&self, place: &Path) -> OwnedMutexGuard<()> {
        self.of(place).lock_owned().await
    }

    fn of(&self, place: &Path) -> Arc<AsyncMutex<()>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, turn| turn.strong_count() > 0);
        let turn = known.get(place).and_then(Weak::upgrade).unwrap_or_default();
        known.insert(place.to_owned(), Arc::downgrade(&turn));
        turn
    }
}
