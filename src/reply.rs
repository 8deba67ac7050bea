//! Every sentence a person reads on a platform. Pure text from plain data: no I/O, no clock, no decisions.
//!
//! Each message says what happened, what is safe, and what to do next. Text that came from the agent passes through
//! [`agent_text`] before it is shown.

pub mod access;
pub mod agent_text;
pub mod approval;
pub mod blocked;
pub mod check;
pub mod cleanup;
pub mod commands;
pub mod delivery;
pub mod disk;
pub mod doctor;
pub mod furnished;
pub mod import;
pub mod not_begun;
pub mod not_taken_up;
pub mod opening;
pub mod orphans;
pub mod places;
pub mod remote;
pub mod repo_settings;
pub mod report;
pub mod run_end;
pub mod set_up;
pub mod shell;
pub mod staged;
pub mod status;
pub mod undelivered;
pub mod upkeep;

use std::time::Duration;

/// The hidden line by which the service recognises a comment of its own. `key` is the outbox key.
pub fn marker(key: &str) -> String {
    format!("<!-- {MARKER_PREFIX}{key} -->")
}

/// Whether a text carries a marker of this service, whoever wrote it.
pub fn carries_marker(text: &str) -> bool {
    text.contains(&format!("<!-- {MARKER_PREFIX}"))
}

const MARKER_PREFIX: &str = "treewarden:";

/// How much is shown of a text from git, GitHub or an agent.
const FOREIGN: usize = 4_000;

/// Whole days, as settings count them.
pub fn days(duration: Duration) -> u64 {
    duration.as_secs() / 86_400
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

/// `1 file`, `2 files`.
pub fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!((bytes(12).as_str(), bytes(3_400_000).as_str()), ("12 B", "3.4 MB"));
    }
}
