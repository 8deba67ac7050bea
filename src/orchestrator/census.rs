//! Counts of environments by class, remembered for a moment: making one looks at every worktree of a codebase. A page
//! does not wait for that: it shows the last count, and has the next one made.

use super::Orchestrator;
use crate::model::*;
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Counted again after this.
const AGE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Censuses {
    known: Mutex<HashMap<CodebaseId, (Census, Timestamp)>>,
    counting: Mutex<HashSet<CodebaseId>>,
}

impl Orchestrator {
    /// The last count of a codebase that has `live` environments, and when it was made; absent while there is none of as
    /// many. An old one is made anew in the background, once however many ask.
    pub fn last_census(&self, codebase: &Codebase, live: usize) -> Option<(Census, Timestamp)> {
        let last = self.inner.censuses.last(codebase.id).filter(|(census, _)| census.all() == live);
        let old = last.is_none_or(|(_, at)| self.now().since(at) >= AGE);
        if old && self.inner.censuses.begin(codebase.id) {
            let (this, codebase) = (self.clone(), codebase.clone());
            tokio::spawn(async move {
                let _counting = Counting { censuses: &this.inner.censuses, codebase: codebase.id };
                if let Err(error) = this.census(&codebase).await {
                    tracing::warn!(codebase.name = %codebase.name, %error, "worktrees not counted");
                }
            });
        }
        last
    }
}

/// Whatever becomes of a count, the next one may begin.
struct Counting<'a> {
    censuses: &'a Censuses,
    codebase: CodebaseId,
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.censuses.counting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.codebase);
    }
}

impl Censuses {
    /// Only while there are still as many.
    pub fn fresh(&self, codebase: CodebaseId, live: usize, now: Timestamp) -> Option<Census> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (census, at) = known.get(&codebase)?;
        (census.all() == live && now.since(*at) < AGE).then_some(*census)
    }

    fn last(&self, codebase: CodebaseId) -> Option<(Census, Timestamp)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&codebase).copied()
    }

    /// False while one is being made.
    fn begin(&self, codebase: CodebaseId) -> bool {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner).insert(codebase)
    }

    pub fn remember(&self, codebase: CodebaseId, census: Census, now: Timestamp) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(codebase, (census, now));
    }
}
