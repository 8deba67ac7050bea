//! SIGHUP: the terminal the service was started from has gone.

use std::{fs, future::pending, io};
use tokio::signal::unix::{SignalKind, signal};

/// The bit of SIGHUP, which is signal 1, in a set of signals.
const HANGUP: u64 = 1;

/// Returns at SIGHUP; never where whoever started this wants it to outlive the terminal, as `nohup` does.
pub async fn hung_up() -> io::Result<()> {
    let ignored = fs::read_to_string("/proc/self/status").is_ok_and(|status| is_ignored(&status));
    if ignored {
        return pending().await;
    }
    signal(SignalKind::hangup())?.recv().await;
    Ok(())
}

/// Source: proc_pid_status(5), `SigIgn`.
fn is_ignored(status: &str) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & HANGUP != 0)
}

#[cfg(test)]
mod tests {
    use super::is_ignored;

    #[test]
    fn only_the_bit_of_the_hangup_counts() {
        let status = |set: &str| format!("SigBlk:\t0000000000000001\nSigIgn:\t{set}\nSigCgt:\t0000000000000001\n");
        assert!(is_ignored(&status("0000000000000001")) && is_ignored(&status("0000000000001003")));
        assert!(!is_ignored(&status("0000000000001002")) && !is_ignored(&status("nonsense")) && !is_ignored(""));
    }
}
