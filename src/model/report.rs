//! What the lines of a report come to.

use super::{CleanupReport, ReportResult};
use std::time::Duration;

/// How many environments went, stayed, or could not be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub removed: u64,
    pub kept: u64,
    pub failed: u64,
    /// Of those whose size is known.
    pub bytes_freed: u64,
    /// Of caches, out of worktrees that stay.
    pub bytes_reclaimed: u64,
}

impl Sums {
    pub fn all(&self) -> u64 {
        self.removed + self.kept + self.failed
    }
}

impl CleanupReport {
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for line in &self.lines {
            match line.result {
                ReportResult::Removed(_) => sums.removed += 1,
                ReportResult::Kept(_) => sums.kept += 1,
                ReportResult::Failed(_) => sums.failed += 1,
            }
            sums.bytes_reclaimed = sums.bytes_reclaimed.saturating_add(line.bytes_reclaimed);
            sums.bytes_freed = sums.bytes_freed.saturating_add(line.bytes_freed.unwrap_or(0));
        }
        sums
    }

    /// Nothing, where the clock was set back meanwhile.
    pub fn took(&self) -> Duration {
        self.ended_at.since(self.started_at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    /// As versions before this wrote them.
    #[test]
    fn lines_without_a_size_are_read_and_count() {
        let stored = r#"[
            {"environment": "00000000-0000-0000-0000-000000000000", "branch": "a", "result": {"removed": "merged"}},
            {"environment": "00000000-0000-0000-0000-000000000000", "branch": "b", "result": {"removed": "merged"}, "bytes_freed": 7},
            {"environment": "00000000-0000-0000-0000-000000000000", "branch": "c", "result": {"kept": ["pinned"]}},
            {"environment": "00000000-0000-0000-0000-000000000000", "branch": "d", "result": {"failed": "no"}}
        ]"#;
        let report = CleanupReport {
            id: ReportId(uuid::Uuid::nil()),
            trigger: Trigger::Schedule,
            dry_run: false,
            lines: serde_json::from_str(stored).unwrap(),
            started_at: Timestamp::from_unix(10),
            ended_at: Timestamp::from_unix(13),
        };
        assert_eq!(report.sums(), Sums { removed: 2, kept: 1, failed: 1, bytes_freed: 7, bytes_reclaimed: 0 });
        assert_eq!((report.sums().all(), report.took().as_secs()), (4, 3));
    }
}
