//! How much time really passed: the wall clock can be set, and then all files seem older than they are.

use std::time::{Duration, Instant, SystemTime};

/// The clocks are read one after the other, and the wall clock is kept right in small steps.
const SLACK: Duration = Duration::from_secs(2);

/// The two clocks of the machine, as they stood together once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steady {
    wall: SystemTime,
    steady: Instant,
}

impl Steady {
    pub fn begin() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }

    /// By how much the wall clock has gone ahead since. A machine that slept counts as such: nobody worked meanwhile.
    pub fn jumped(&self) -> Duration {
        self.jumped_at(SystemTime::now(), Instant::now())
    }

    fn jumped_at(&self, wall: SystemTime, steady: Instant) -> Duration {
        let passed = wall.duration_since(self.wall).unwrap_or_default();
        let jumped = passed.saturating_sub(steady.duration_since(self.steady));
        if jumped < SLACK { Duration::ZERO } else { jumped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_wall_clock_is_ahead_counts() {
        let (begin, hour) = (Steady::begin(), Duration::from_secs(3600));
        let after = |wall: SystemTime, real: Duration| begin.jumped_at(wall, begin.steady + real);
        assert_eq!(after(begin.wall + hour, hour), Duration::ZERO);
        assert_eq!(after(begin.wall + hour, Duration::ZERO), hour);
        assert_eq!(after(begin.wall - hour, hour), Duration::ZERO, "set back, it makes nothing older");
        assert_eq!(after(begin.wall + Duration::from_secs(1), Duration::ZERO), Duration::ZERO);
    }
}
