//! Attempts of GitHub to hand over a delivery, and what is remembered of those that did not arrive.

use super::{AttemptId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One attempt, as GitHub lists it. All attempts of one delivery have its GUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAttempt {
    pub id: AttemptId,
    pub guid: String,
    /// By GitHub's clock.
    pub at: Timestamp,
    /// HTTP status it was answered with; 0 when there was no answer, or none yet.
    pub status: u16,
    /// Somebody asked for it: it is not the first one.
    pub redelivery: bool,
}

/// What is remembered between two looks for missed deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedWatch {
    /// What set out before this moment is settled, or not ours to ask for.
    pub since: Timestamp,
    /// By GUID: what was asked for and set out at `since` or later.
    pub asked: BTreeMap<String, AskedAgain>,
}

/// How often a delivery was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedAgain {
    pub times: u32,
    pub last: Timestamp,
    /// It is not asked for any more, and that was told.
    pub given_up: bool,
}

impl MissedWatch {
    /// Nothing that set out before `since` is ever asked for.
    pub fn from(since: Timestamp) -> Self {
        Self { since, asked: BTreeMap::new() }
    }

    /// Counts that it was asked for.
    pub fn count(&mut self, guid: &str, now: Timestamp) {
        let fresh = AskedAgain { times: 0, last: now, given_up: false };
        let asked = self.asked.entry(guid.to_owned()).or_insert(fresh);
        asked.times += 1;
        asked.last = now;
    }
}
