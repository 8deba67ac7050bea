//! How fast is written in all (comments, edits, reactions, check runs, pull requests): as GitHub allows, for each installation by itself.
//!
//! GitHub counts five points for a write and one for a question, and takes 900 of them in a minute. Source: "Rate limits for
//! the REST API". New content is spaced besides, see [`Pacing`](crate::model::Pacing).

use crate::model::InstallationId;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Writes that may come at once after a rest. With one a second after them that is 120 in a minute, 600 of the points.
const AT_ONCE: u32 = 60;

#[derive(Default)]
pub(super) struct Pace {
    /// When all writes so far would be over if each took its gap.
    spent_until: Mutex<HashMap<InstallationId, Instant>>,
}

impl Pace {
    /// Counts a write. Answers with when it may be made; after those that may come at once there is one in each `gap`.
    pub fn spend(&self, installation: InstallationId, gap: Duration, now: Instant) -> Instant {
        let mut spent = self.spent_until.lock().unwrap_or_else(PoisonError::into_inner);
        spent.retain(|_, until| *until > now);
        let until = spent.entry(installation).or_insert(now);
        *until += gap;
        until.checked_sub(gap * AT_ONCE).map_or(now, |due| due.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_secs(1);

    #[test]
    fn a_minute_takes_most_of_what_github_allows_and_leaves_a_third_for_questions() {
        let (pace, installation) = (Pace::default(), InstallationId(7));
        let start = Instant::now();
        let (mut now, mut written) = (start, 0);
        while now < start + Duration::from_secs(60) {
            now = pace.spend(installation, GAP, now);
            written += 1;
        }
        assert!((115..=121).contains(&written), "{written} in a minute");
        assert_eq!(pace.spend(InstallationId(8), GAP, now), now, "another one has its own");
        let rested = now + GAP * AT_ONCE * 2;
        for _ in 0..AT_ONCE {
            assert_eq!(pace.spend(installation, GAP, rested), rested);
        }
        assert_eq!(pace.spend(installation, GAP, rested), rested + GAP);
    }
}
