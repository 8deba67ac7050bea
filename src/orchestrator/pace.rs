//! How fast content (comments, pull requests) is written: as GitHub allows, for each installation by itself.
//!
//! GitHub takes about 80 such requests in a minute and asks for a second between them. Source: "Rate limits for the REST
//! API" and "Best practices for using the REST API". A few at once are no harm, so that threads hear soon what they wait for.

use crate::model::{InstallationId, Timestamp};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Between two writes, when there are many.
const GAP: Duration = Duration::from_secs(1);
/// Writes that may come at once after a rest. With one a second after them that stays below 80 in a minute.
const AT_ONCE: u32 = 20;

#[derive(Default)]
pub(super) struct Pace {
    /// When all writes so far would be over if each took its gap.
    spent_until: Mutex<HashMap<InstallationId, Timestamp>>,
}

impl Pace {
    /// Counts a write. Answers with when the next one may come, when that is not now.
    pub fn spend(&self, installation: InstallationId, now: Timestamp) -> Option<Timestamp> {
        let mut spent = self.spent_until.lock().unwrap_or_else(PoisonError::into_inner);
        spent.retain(|_, until| *until > now);
        let until = spent.entry(installation).or_insert(now);
        // Further ahead it was counted by a clock that has been put back since.
        *until = (*until).min(now.plus(GAP * AT_ONCE)).plus(GAP);
        let next = until.minus(GAP * (AT_ONCE - 1));
        (next > now).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_eighty_come_in_a_minute() {
        let (pace, installation) = (Pace::default(), InstallationId(7));
        let start = Timestamp::from_unix(1_000);
        let (mut now, mut written) = (start, 0);
        while now.since(start) < Duration::from_secs(60) {
            written += 1;
            now = pace.spend(installation, now).unwrap_or(now);
        }
        assert!((70..=80).contains(&written), "{written} in a minute");
        assert_eq!(pace.spend(InstallationId(8), now), None, "another one has its own");
        let rested = now.plus(GAP * AT_ONCE);
        for _ in 1..AT_ONCE {
            assert_eq!(pace.spend(installation, rested), None);
        }
        assert!(pace.spend(installation, rested).is_some());
        let put_back = pace.spend(installation, start).unwrap();
        assert!(
            put_back <= start.plus(GAP * 2),
            "{put_back}: what was spent by a clock that was ahead holds nothing up"
        );
    }
}
