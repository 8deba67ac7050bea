//! Moments of what is done again and again: never for several servers at the same second, and rarer and rarer for what fails
//! each time.

use crate::model::Timestamp;
use std::time::Duration;

/// How far a pause may be off, in thousandths of it.
const OFF_BY: u64 = 100;

/// The `turn`-th pause of what `who` does about every `period`: up to a tenth longer or shorter, not the same for everybody, nor
/// each time, and the same whenever it is asked.
pub fn spread(period: Duration, who: &str, turn: u64) -> Duration {
    // FNV-1a, and a last stir, for which its low bits are too regular.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = who.bytes().chain(turn.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, mix);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 32;
    let thousandths = 1000 - OFF_BY + hash % (2 * OFF_BY + 1);
    period.mul_f64(thousandths as f64 / 1000.0)
}

/// Before when what failed `failures` times in a row is left alone by what comes by about every `period`: not at all after the
/// first time, then for two, four, eight periods, and for `longest` at most. Half a period early, since passes come by early, too.
pub fn again_after(failures: u32, period: Duration, longest: Duration, now: Timestamp) -> Timestamp {
    let pause = period.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let pause = pause.min(longest.max(period));
    now.plus(pause.saturating_sub(period / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const HOURS: Duration = Duration::from_secs(6 * 3600);
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

    #[test]
    fn pauses_are_spread_over_a_tenth_to_both_sides() {
        let pauses: Vec<_> = (0..1000).map(|turn| spread(HOURS, "node", turn)).collect();
        assert!(pauses.iter().all(|pause| (HOURS.mul_f64(0.9)..=HOURS.mul_f64(1.1)).contains(pause)));
        let early = pauses.iter().filter(|pause| **pause < HOURS).count();
        assert!((400..600).contains(&early), "{early}");
        let servers: BTreeSet<_> = (0..100).map(|server| spread(HOURS, &format!("node {server}"), 0)).collect();
        assert!(servers.len() > 60, "{}", servers.len());
        assert_eq!(spread(HOURS, "node", 7), pauses[7]);
    }

    #[test]
    fn what_fails_each_time_is_left_alone_for_longer_and_longer() {
        let now = Timestamp::from_unix(1_800_000_000);
        // Passes it sits out, when they come by early.
        let sits_out = |failures| {
            let again = again_after(failures, HOURS, WEEK, now);
            (1..).take_while(|pass| now.plus(HOURS.mul_f64(0.9) * *pass) < again).count()
        };
        assert_eq!([1, 2, 3, 4].map(sits_out), [0, 1, 3, 8]);
        assert!(again_after(u32::MAX, HOURS, WEEK, now) <= now.plus(WEEK));
        let rare = Duration::from_secs(8760 * 3600);
        assert!(again_after(9, rare, WEEK, now) < now.plus(rare));
    }
}
