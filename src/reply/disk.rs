//! What people are told about the disk: how much is used, by what, what was reclaimed, and why nothing more is made.

use super::{agent_text, bytes, cleanup, count};
use crate::decide::cleanup::Keep;
use crate::decide::disk::{Spare, Standing};
use crate::model::*;
use std::path::Path;

/// Worktrees that are named; the others are a sum.
const NAMED: usize = 5;
/// Directories that are named.
const DIRECTORIES: usize = 8;
/// Of their names.
const SAID: usize = 600;

/// `1.2 GB`, `at least 1.2 GB`.
pub fn size(used: &DiskUse) -> String {
    at_least(used.bytes, used.whole)
}

fn at_least(count: u64, whole: bool) -> String {
    match whole {
        true => bytes(count),
        false => format!("at least {}", bytes(count)),
    }
}

/// `2026-11-30 09:12 UTC`.
pub fn as_of(at: Timestamp) -> String {
    at.datetime().format("%Y-%m-%d %H:%M UTC").to_string()
}

/// What one worktree takes.
pub fn of_worktree(used: &DiskUse) -> String {
    format!("{} on disk as of {}", size(used), as_of(used.at))
}

/// What a repository takes, in a line; `None` while nothing is known. `passed`: when the cleanup ended that its mark began.
pub fn of_repository(shares: &DiskShares, standing: Standing, passed: Option<Timestamp>) -> Option<String> {
    let at = shares.as_of()?;
    let all = at_least(shares.bytes(), shares.is_whole());
    let shared = shares.repository.map(|used| format!(", and {} that all of them share", bytes(used.bytes)));
    Some(format!(
        "{all} of disk as of {}: {} in {}{}{}",
        as_of(at),
        bytes(shares.bytes_of_worktrees()),
        count(shares.worktrees.len() as u64, "worktree"),
        shared.unwrap_or_default(),
        over(standing, passed)
    ))
}

/// The end of such a line.
fn over(standing: Standing, passed: Option<Timestamp>) -> String {
    match (standing, passed) {
        (Standing::Within, _) => String::new(),
        (Standing::OverSoft(mark), None) => {
            format!("; ⚠️ more than the soft mark of {}: a cleanup of it begins by itself", bytes(mark))
        }
        (Standing::OverSoft(mark), Some(at)) => format!(
            "; ⚠️ more than the soft mark of {}, also after the cleanup of {}: the panel's page Cleanup says why each worktree \
             stays; close threads, remove worktrees, or raise `DISK_SOFT_MARK`",
            bytes(mark),
            as_of(at)
        ),
        (Standing::OverHard(mark), _) => {
            format!("; ⚠️ more than the hard mark of {}: no worktree is made until there is room", bytes(mark))
        }
    }
}

/// The same in the report of a pass, at the worktree that takes most, if any was measured.
pub fn noted(shares: &DiskShares, standing: Standing) -> Option<String> {
    let (word, mark) = match standing {
        Standing::Within => return None,
        Standing::OverSoft(mark) => ("soft", mark),
        Standing::OverHard(mark) => ("hard", mark),
    };
    let most = shares.largest().map(|(.., most)| format!("; this worktree takes most of that, {}", size(&most)));
    Some(format!(
        "its repository takes {} of disk, more than the {word} mark of {}{}",
        at_least(shares.bytes(), shares.is_whole()),
        bytes(mark),
        most.unwrap_or_default()
    ))
}

/// Why no worktree is made over the hard mark.
pub fn over_hard_mark(codebase: &RepoName, shares: &DiskShares, mark: u64) -> String {
    let mut known: Vec<(&str, DiskUse)> =
        shares.worktrees.iter().filter_map(|(_, name, used)| Some((name.as_str(), (*used)?))).collect();
    known.sort_by_key(|(_, used)| std::cmp::Reverse(used.bytes));
    let (named, rest) = known.split_at(known.len().min(NAMED));
    let mut rows: Vec<String> = named.iter().map(|(name, used)| format!("• {} in **{name}**", size(used))).collect();
    if !rest.is_empty() {
        let sum = rest.iter().map(|(_, used)| used.bytes).sum();
        rows.push(format!("• {} in {}", bytes(sum), count(rest.len() as u64, "other worktree")));
    }
    rows.extend(
        shares.repository.map(|used| format!("• {} in what all of them share, the history above all", size(&used))),
    );
    let unknown = shares.worktrees.len() - known.len();
    if unknown > 0 {
        rows.push(format!("• not measured, and counted as nothing: {}", count(unknown as u64, "worktree")));
    }
    let at = shares.as_of().map(as_of).unwrap_or_default();
    let text = format!(
        "**{}** takes {} of this server's disk, more than the {} that it may (hard mark reached).\n\n\
         📊 On disk, as of {at}:\n{}\n\n\
         Options:\n\
         • `/worktree cleanup merged` - Remove merged worktrees\n\
         • `/worktree cleanup stale` - Remove stale worktrees\n\
         • `/worktree list` - See all worktrees, with what they take\n\
         • `/worktree remove <name>` - Remove specific worktree\n\n\
         Nothing was created, and the worktrees that are there go on. It is being measured anew: mention me again in some minutes \
         when there is room. Whoever runs this service can also raise `DISK_HARD_MARK`.",
        codebase.name(),
        at_least(shares.bytes(), shares.is_whole()),
        bytes(mark),
        rows.join("\n"),
    );
    agent_text::foreign(&text, agent_text::MAX_ANSWER_CHARS)
}

/// A name that a tool, or anybody, gave to a directory.
fn plain(path: &str) -> String {
    path.chars().filter(|c| *c != '`' && !c.is_control() && !reorders(*c)).collect()
}

fn names(directories: &[CacheDirectory]) -> String {
    let shown = directories.iter().take(DIRECTORIES).map(|cache| format!("`{}`", plain(&cache.path)));
    let mut names = shown.collect::<Vec<_>>().join(", ");
    if directories.len() > DIRECTORIES {
        names.push_str(&format!(" and {} more", directories.len() - DIRECTORIES));
    }
    agent_text::line(&names, SAID)
}

/// What was taken out of a worktree, or would be.
pub fn reclaimed(directories: &[CacheDirectory], dry_run: bool) -> String {
    let freed = directories.iter().map(|cache| cache.frees).sum();
    let verb = if dry_run { "would reclaim" } else { "reclaimed" };
    format!("{verb} {} of what tools make again: {}", bytes(freed), names(directories))
}

/// Why single ones stay.
pub fn stay(directories: &[(String, String)]) -> Vec<String> {
    let named = directories.iter().take(DIRECTORIES);
    let mut notes: Vec<_> =
        named.map(|(path, why)| agent_text::line(&format!("`{}` stays: {why}", plain(path)), SAID)).collect();
    if directories.len() > DIRECTORIES {
        notes.push(format!("and {} more stay", directories.len() - DIRECTORIES));
    }
    notes
}

/// What lies in the trash, and nothing goes on with.
pub fn left_in_trash(place: &Path) -> String {
    format!(
        "a directory that was taken out of its worktree is left over in the trash, at {}. Nothing is lost: move it back, or delete it",
        place.display()
    )
}

/// Why a worktree stays of which a cache could not be brought to its end.
pub fn half_way_out(why: &str) -> String {
    format!("one of its caches is half-way out: {why}")
}

/// Why that stays which would go otherwise.
pub fn spared(why: &Spare) -> String {
    let why = match why {
        Spare::Busy => cleanup::sentence(&Keep::Busy),
        Spare::Pinned => cleanup::sentence(&Keep::Pinned),
        Spare::MadeByOthers => "somebody else made this worktree".to_owned(),
        Spare::Locked(reason) => cleanup::sentence(&Keep::LockedBySomeoneElse(reason.clone())),
        Spare::InUse(process) => format!("process {process} is at work in it"),
        Spare::CannotVerify(why) => cleanup::sentence(&Keep::CannotVerify(why.clone())),
    };
    format!("its caches stay: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn used(bytes: u64, whole: bool) -> Option<DiskUse> {
        Some(DiskUse { bytes, whole, at: Timestamp::from_unix(1_780_000_000) })
    }

    fn shares() -> DiskShares {
        let id = |number| EnvironmentId(uuid::Uuid::from_u128(number));
        let worktrees =
            [(1, 2, true), (2, 12, false), (3, 1, true), (4, 1, true), (5, 1, true), (6, 1, true), (7, 1, true)];
        let worktree = |(number, size, whole)| (id(number), format!("issue-{number}"), used(size * GB, whole));
        let mut worktrees: Vec<_> = worktrees.map(worktree).into();
        worktrees.push((id(8), "pr-8".to_owned(), None));
        DiskShares { repository: used(3 * GB, true), worktrees }
    }

    #[test]
    fn over_the_hard_mark_it_says_what_takes_how_much() {
        let name: RepoName = "acme/myproject".parse().unwrap();
        insta::assert_snapshot!(over_hard_mark(&name, &shares(), 20 * GB), @"
        **myproject** takes at least 22.0 GB of this server's disk, more than the 20.0 GB that it may (hard mark reached).

        📊 On disk, as of 2026-05-28 20:26 UTC:
        • at least 12.0 GB in **issue-2**
        • 2.0 GB in **issue-1**
        • 1.0 GB in **issue-3**
        • 1.0 GB in **issue-4**
        • 1.0 GB in **issue-5**
        • 2.0 GB in 2 other worktrees
        • 3.0 GB in what all of them share, the history above all
        • not measured, and counted as nothing: 1 worktree

        Options:
        • `/worktree cleanup merged` - Remove merged worktrees
        • `/worktree cleanup stale` - Remove stale worktrees
        • `/worktree list` - See all worktrees, with what they take
        • `/worktree remove <name>` - Remove specific worktree

        Nothing was created, and the worktrees that are there go on. It is being measured anew: mention me again in some minutes when there is room. Whoever runs this service can also raise `DISK_HARD_MARK`.
        ");
    }

    #[test]
    fn lines_say_how_much_and_what_follows() {
        insta::assert_snapshot!(of_repository(&shares(), Standing::OverSoft(18 * GB), None).unwrap(), @"at least 22.0 GB of disk as of 2026-05-28 20:26 UTC: 19.0 GB in 8 worktrees, and 3.0 GB that all of them share; ⚠️ more than the soft mark of 18.0 GB: a cleanup of it begins by itself");
        insta::assert_snapshot!(of_repository(&shares(), Standing::OverHard(20 * GB), None).unwrap(), @"at least 22.0 GB of disk as of 2026-05-28 20:26 UTC: 19.0 GB in 8 worktrees, and 3.0 GB that all of them share; ⚠️ more than the hard mark of 20.0 GB: no worktree is made until there is room");
        let passed = Some(Timestamp::from_unix(1_780_000_000));
        insta::assert_snapshot!(of_repository(&shares(), Standing::OverSoft(18 * GB), passed).unwrap(), @"at least 22.0 GB of disk as of 2026-05-28 20:26 UTC: 19.0 GB in 8 worktrees, and 3.0 GB that all of them share; ⚠️ more than the soft mark of 18.0 GB, also after the cleanup of 2026-05-28 20:26 UTC: the panel's page Cleanup says why each worktree stays; close threads, remove worktrees, or raise `DISK_SOFT_MARK`");
        let small = DiskShares { repository: used(3 * GB, true), worktrees: Vec::new() };
        insta::assert_snapshot!(of_repository(&small, Standing::Within, None).unwrap(), @"3.0 GB of disk as of 2026-05-28 20:26 UTC: 0 B in 0 worktrees, and 3.0 GB that all of them share");
        assert_eq!(of_repository(&DiskShares::default(), Standing::Within, None), None);
        insta::assert_snapshot!(noted(&shares(), Standing::OverSoft(18 * GB)).unwrap(), @"its repository takes at least 22.0 GB of disk, more than the soft mark of 18.0 GB; this worktree takes most of that, at least 12.0 GB");
        insta::assert_snapshot!(noted(&small, Standing::OverHard(GB)).unwrap(), @"its repository takes 3.0 GB of disk, more than the hard mark of 1.0 GB");
        assert_eq!(noted(&shares(), Standing::Within), None);
    }

    #[test]
    fn what_was_reclaimed_is_named() {
        let cache = |path: &str| CacheDirectory { path: path.to_owned(), frees: GB };
        insta::assert_snapshot!(reclaimed(&[cache("target"), cache("web/`node_modules")], false), @"reclaimed 2.0 GB of what tools make again: `target`, `web/node_modules`");
        let many: Vec<_> = (0..20).map(|number| cache(&format!("{number}/target"))).collect();
        insta::assert_snapshot!(reclaimed(&many, true), @"would reclaim 20.0 GB of what tools make again: `0/target`, `1/target`, `2/target`, `3/target`, `4/target`, `5/target`, `6/target`, `7/target` and 12 more");
        let stays = stay(&vec![("tar`get".to_owned(), "it is a repository".to_owned()); 10]);
        insta::assert_snapshot!(stays[0], @"`target` stays: it is a repository");
        assert_eq!((stays.len(), stays[8].as_str()), (9, "and 2 more stay"));
        insta::assert_snapshot!(spared(&Spare::InUse(7)), @"its caches stay: process 7 is at work in it");
        insta::assert_snapshot!(spared(&Spare::Pinned), @"its caches stay: it is pinned");
    }
}
