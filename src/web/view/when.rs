//! Moments in words.

use crate::model::Timestamp;

/// A moment in words, with the exact time for hovering.
pub struct When {
    /// `5 min ago`.
    pub words: String,
    /// `2026-11-28 03:20:45 UTC`.
    pub exact: String,
    /// RFC 3339, for programs.
    pub machine: String,
}

/// `moment` as seen from `now`: `just now`, `5 min ago`, `3 h ago`, `12 days ago`.
pub fn ago(moment: Timestamp, now: Timestamp) -> When {
    let seconds = now.since(moment).as_secs();
    let words = match seconds {
        0..10 => "just now".to_owned(),
        10..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    };
    let exact = moment.datetime().format("%Y-%m-%d %H:%M:%S UTC").to_string();
    When { words, exact, machine: moment.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let words = |moment, now| ago(Timestamp::from_unix(moment), Timestamp::from_unix(now)).words;
        assert_eq!(words(0, 300), "5 min ago");
        assert_eq!(words(0, 172_800), "2 days ago");
        assert_eq!(words(10, 0), "just now");
        assert_eq!(ago(Timestamp::from_unix(0), Timestamp::from_unix(9)).exact, "1970-01-01 00:00:00 UTC");
    }
}
