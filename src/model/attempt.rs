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
    /// By GitHub's clock. What set out before this moment is settled, or not ours to fetch.
    pub since: Timestamp,
    /// By GUID: what could not be fetched and set out at `since` or later. (Earlier versions had it sent again instead.)
    #[serde(rename = "asked")]
    pub tried: BTreeMap<String, Tried>,
}

/// How often it was tried in vain to fetch a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    pub times: u32,
    pub last: Timestamp,
    /// It is not tried any more, and that was told.
    pub given_up: bool,
}

impl MissedWatch {
    /// Nothing that set out before `since` is ever fetched.
    pub fn from(since: Timestamp) -> Self {
        Self { since, tried: BTreeMap::new() }
    }

    /// Counts that it was tried in vain.
    pub fn count(&mut self, guid: &str, now: Timestamp) {
        let tried = self.entry(guid, now);
        tried.times += 1;
        tried.last = now;
    }

    /// It is never tried again.
    pub fn give_up(&mut self, guid: &str, now: Timestamp) {
        self.entry(guid, now).given_up = true;
    }

    fn entry(&mut self, guid: &str, now: Timestamp) -> &mut Tried {
        self.tried.entry(guid.to_owned()).or_insert(Tried { times: 0, last: now, given_up: false })
    }
}
