//! Points in time, always UTC, cut to microseconds (what both databases keep). Never read from a clock here: callers
//! pass them in.

use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// A moment in UTC with microsecond precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(DateTime<Utc>);

impl Timestamp {
    pub fn new(moment: DateTime<Utc>) -> Self {
        Self(moment.trunc_subsecs(6))
    }

    /// Seconds since 1970; out-of-range values become 1970.
    pub fn from_unix(seconds: i64) -> Self {
        Self(DateTime::from_timestamp(seconds, 0).unwrap_or_default())
    }

    /// The day, in UTC: `2026-11-29`.
    pub fn date(self) -> String {
        self.0.format("%Y-%m-%d").to_string()
    }

    pub fn datetime(self) -> DateTime<Utc> {
        self.0
    }

    pub fn unix(self) -> i64 {
        self.0.timestamp()
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        (self.0 - earlier.0).to_std().unwrap_or_default()
    }

    pub fn plus(self, duration: Duration) -> Self {
        let duration = chrono::TimeDelta::from_std(duration).unwrap_or(chrono::TimeDelta::MAX);
        Self(self.0.checked_add_signed(duration).unwrap_or(DateTime::<Utc>::MAX_UTC))
    }

    pub fn minus(self, duration: Duration) -> Self {
        let duration = chrono::TimeDelta::from_std(duration).unwrap_or(chrono::TimeDelta::MAX);
        Self(self.0.checked_sub_signed(duration).unwrap_or(DateTime::<Utc>::MIN_UTC))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with a `Z`, to the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_moment_is_beyond_reckoning() {
        for moment in [i64::MIN, -1, 0, 8_200_000_000_000, i64::MAX].map(Timestamp::from_unix) {
            assert!(moment.plus(Duration::MAX) >= moment && moment.minus(Duration::MAX) <= moment);
        }
    }
}
