//! Counts of environments by class, remembered for a moment: making one looks at every worktree of a codebase.

use crate::model::*;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Counted again after this.
const AGE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Censuses {
    known: Mutex<HashMap<CodebaseId, (Census, Timestamp)>>,
}

impl Censuses {
    /// Only while there are still as many.
    pub fn fresh(&self, codebase: CodebaseId, live: usize, now: Timestamp) -> Option<Census> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (census, at) = known.get(&codebase)?;
        (census.all() == live && now.since(*at) < AGE).then_some(*census)
    }

    pub fn remember(&self, codebase: CodebaseId, census: Census, now: Timestamp) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(codebase, (census, now));
    }
}
