//! Plain data as people read it in pages.

use crate::model::Timestamp;

/// A moment in words, with the exact time for hovering.
pub struct When {
    pub words: String,
    pub exact: String,
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
    When { words, exact: moment.to_string() }
}

/// A value of a query string.
pub fn percent_encode(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    value.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// `12 B`, `3.4 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A log as text: terminal control sequences and other control characters taken out.
pub fn plain_log(log: &str) -> String {
    let mut out = String::with_capacity(log.len());
    let mut chars = log.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// After ESC: a control sequence ends with a byte from `@` to `~`, an operating system command with BEL or ESC `\`.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars>) {
    match chars.next() {
        Some('[') => {
            for c in chars.by_ref() {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
        Some(']') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_lose_their_control_sequences() {
        assert_eq!(plain_log("\u{1b}[31mred\u{1b}[0m\tx\r\n\u{1b}]0;title\u{7}y\u{8}"), "red\tx\ny");
        assert_eq!(plain_log("open \u{1b}["), "open ");
    }

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!((bytes(12).as_str(), bytes(3_400_000).as_str()), ("12 B", "3.4 MB"));
        let at = Timestamp::from_unix;
        assert_eq!(ago(at(0), at(300)).words, "5 min ago");
        assert_eq!(ago(at(10), at(0)).words, "just now");
    }
}
