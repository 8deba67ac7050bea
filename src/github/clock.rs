//! GitHub's clock, as its answers tell it. What the App signs is good for minutes only, by that clock: where this machine's is
//! wrong by more, each request would be refused until a person mends it.

use crate::model::Timestamp;
use reqwest::header::HeaderMap;
use std::sync::atomic::{AtomicI64, Ordering};

/// In seconds: so long an answer may be on its way, and GitHub's servers may differ among each other.
const SLACK: i64 = 30;

/// How far GitHub's clock is ahead of this machine's, in seconds.
#[derive(Default)]
pub(super) struct Clock(AtomicI64);

impl Clock {
    /// Its time now, in seconds since 1970.
    pub fn now(&self) -> i64 {
        self.translate(Timestamp::new(chrono::Utc::now())).unix()
    }

    /// A moment of this machine's clock, as GitHub's had it.
    pub fn translate(&self, ours: Timestamp) -> Timestamp {
        match self.0.load(Ordering::Relaxed) {
            0 => ours,
            ahead => Timestamp::from_unix(ours.unix().saturating_add(ahead)),
        }
    }

    /// Takes the time from an answer that has just come. True when GitHub's is another than was thought.
    pub fn learn(&self, told: Option<i64>) -> bool {
        let Some(told) = told else { return false };
        let ahead = told - chrono::Utc::now().timestamp();
        if (ahead - self.0.load(Ordering::Relaxed)).abs() <= SLACK {
            return false;
        }
        let ahead = if ahead.abs() <= SLACK { 0 } else { ahead };
        self.0.store(ahead, Ordering::Relaxed);
        tracing::warn!(
            github.ahead = ahead,
            "this machine's clock and GitHub's differ by more, or by less, than before; GitHub is asked by its own"
        );
        true
    }
}

/// When an answer was given, in seconds since 1970. One out of a cache does not say.
pub(super) fn date(headers: &HeaderMap) -> Option<i64> {
    let text = headers.get("date").filter(|_| !headers.contains_key("age"))?.to_str().ok()?;
    chrono::DateTime::parse_from_rfc2822(text.trim()).ok().map(|date| date.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_takes_on_its_way_is_no_difference() {
        let ours = Timestamp::from_unix(chrono::Utc::now().timestamp());
        for (told, expected) in [(0, 0), (20, 0), (-20, 0), (600, 600), (-600, -600)] {
            let clock = Clock::default();
            let is_new = clock.learn(Some(ours.unix() + told));
            let ahead = clock.translate(ours).unix() - ours.unix();
            assert_eq!(is_new, expected != 0, "{told}");
            // The seconds this test takes.
            assert!((ahead - expected).abs() <= 5, "{told}: {ahead}");
        }
    }

    #[test]
    fn a_clock_that_is_mended_is_believed_again() {
        let (clock, now) = (Clock::default(), chrono::Utc::now().timestamp());
        assert!(clock.learn(Some(now + 600)) && !clock.learn(Some(now + 605)) && !clock.learn(None));
        assert!(clock.learn(Some(now)));
        assert_eq!(clock.translate(Timestamp::from_unix(7)), Timestamp::from_unix(7));
    }

    #[test]
    fn only_a_fresh_answer_tells_the_time() {
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
        let sunday = ("date", "Sun, 01 Mar 2026 00:00:00 GMT");
        assert_eq!(date(&headers(&[sunday])), Some(1_772_323_200));
        assert_eq!(date(&headers(&[sunday, ("age", "9")])), None);
        assert_eq!((date(&headers(&[("date", "today")])), date(&headers(&[]))), (None, None));
    }
}
