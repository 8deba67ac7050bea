//! What a pass came to, in numbers.

use super::{bytes, count, status::in_words};
use crate::model::*;

/// `2 removed, 9 kept, in 3 s; 140.0 MB freed, 4.0 MB of caches reclaimed`.
pub fn outcome(report: &CleanupReport) -> String {
    let sums = report.sums();
    let (removed, kept, failed) = match report.dry_run {
        true => ("would go", "would be kept", "could not be looked at"),
        false => ("removed", "kept", "failed"),
    };
    let failed = if sums.failed > 0 { format!(", {} {failed}", sums.failed) } else { String::new() };
    let took = in_words(report.took());
    let reclaimed = if report.dry_run { "of caches would be reclaimed" } else { "of caches reclaimed" };
    let room = [(sums.bytes_freed, "freed"), (sums.bytes_reclaimed, reclaimed)];
    let room = room.into_iter().filter(|(number, _)| *number > 0);
    let room: Vec<String> = room.map(|(number, what)| format!("{} {what}", bytes(number))).collect();
    let end = if room.is_empty() { String::new() } else { format!("; {}", room.join(", ")) };
    format!("{} {removed}, {} {kept}{failed}, in {took}{end}", sums.removed, sums.kept)
}

/// The last line of a report on a terminal.
pub fn sum(report: &CleanupReport) -> String {
    let all = report.sums().all();
    let were = if all == 1 { "was" } else { "were" };
    let unchanged = if report.dry_run { " Nothing was changed." } else { "" };
    match all {
        0 => format!("{} {were} looked at.", count(all, "worktree")),
        _ => format!("{} {were} looked at: {}.{unchanged}", count(all, "worktree"), outcome(report)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_ends_with_its_numbers() {
        let line = |result, bytes_freed| ReportLine {
            environment: Some(EnvironmentId(uuid::Uuid::nil())),
            repository: None,
            branch: "issue-1".to_owned(),
            result,
            bytes_freed,
            bytes_reclaimed: 0,
            notes: Vec::new(),
        };
        let report = CleanupReport {
            id: ReportId(uuid::Uuid::nil()),
            trigger: Trigger::Cli,
            dry_run: false,
            lines: vec![
                line(ReportResult::Removed("merged".into()), Some(1_200_000)),
                line(ReportResult::Removed("it was gone".into()), None),
                line(ReportResult::Kept(vec!["it is pinned".into()]), None),
                line(ReportResult::Failed("the database is busy".into()), None),
            ],
            started_at: Timestamp::from_unix(0),
            ended_at: Timestamp::from_unix(65),
        };
        insta::assert_snapshot!(sum(&report), @"4 worktrees were looked at: 2 removed, 1 kept, 1 failed, in 1 min 5 s; 1.2 MB freed.");
        let mut dry = CleanupReport { dry_run: true, ..report.clone() };
        dry.lines[0].bytes_freed = None;
        insta::assert_snapshot!(sum(&dry), @"4 worktrees were looked at: 2 would go, 1 would be kept, 1 could not be looked at, in 1 min 5 s. Nothing was changed.");
        let mut reclaimed = report.clone();
        reclaimed.lines[2].bytes_reclaimed = 4_000_000;
        insta::assert_snapshot!(sum(&reclaimed), @"4 worktrees were looked at: 2 removed, 1 kept, 1 failed, in 1 min 5 s; 1.2 MB freed, 4.0 MB of caches reclaimed.");
        let one = CleanupReport { lines: report.lines[2..3].to_vec(), ..report.clone() };
        insta::assert_snapshot!(sum(&one), @"1 worktree was looked at: 0 removed, 1 kept, in 1 min 5 s.");
        assert_eq!(sum(&CleanupReport { lines: Vec::new(), ..report }), "0 worktrees were looked at.");
    }
}
