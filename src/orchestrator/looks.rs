//! What the files of worktrees held when they were looked at last. A pass that comes by itself looks again where something has
//! happened since, and a day later in any case; until then it names what was seen.

use crate::decide::cleanup::WorkInProgress;
use crate::model::*;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// People may have been there by hand.
const AGE: Duration = Duration::from_secs(86_400);
/// More than live environments there are; then all is forgotten.
const MOST: usize = 20_000;

#[derive(Default)]
pub(super) struct Looks(Mutex<HashMap<EnvironmentId, (Timestamp, WorkInProgress)>>);

impl Looks {
    /// What was seen, unless something has happened in it since.
    pub fn last(&self, environment: &Environment, now: Timestamp) -> Option<WorkInProgress> {
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, work) = looks.get(&environment.id)?;
        let is_new = *at > environment.last_activity_at && *at <= now && now.since(*at) < AGE;
        is_new.then(|| work.clone())
    }

    pub fn remember(&self, environment: EnvironmentId, at: Timestamp, work: WorkInProgress) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.len() > MOST {
            looks.clear();
        }
        looks.insert(environment, (at, work));
    }
}
