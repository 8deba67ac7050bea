//! Why a run could not begin, where no decision about its worktree says so ([`super::blocked`]).

use super::{FOREIGN, agent_text, days};
use crate::model::*;
use std::{path::Path, time::Duration};

/// A run that could not begin, for a reason nobody worded.
pub fn not_begun(why: &str) -> String {
    format!(
        "The work could not begin: {}.\n\nNothing was run, and what was done before is kept. Mention me again when the \
         cause is gone.",
        agent_text::quoted(why)
    )
}

/// The world changed under every decision; nothing was done.
pub fn kept_moving() -> String {
    "The worktree of this work changed while it was being prepared. Nothing was run; mention me again.".to_owned()
}

/// A mention of work whose worktree is half removed.
pub fn removal_stuck(why: &str) -> String {
    let why = agent_text::said(why, FOREIGN);
    format!(
        "The worktree of this work is being removed, and that does not come to its end: {why}. Nothing was run. It is tried \
         again by itself; mention me again when the cause is gone."
    )
}

pub fn no_agent() -> String {
    "No agent is configured, so nothing was run. Whoever runs this service sets `TREEWARDEN_AGENT_COMMAND` \
     (see `treewarden doctor`)."
        .to_owned()
}

/// Work on a repository on GitHub, where no App is connected.
pub fn no_app() -> String {
    "This repository is on GitHub, and no GitHub App is configured here. Nothing was run; work done before is kept. Whoever \
     runs this service sets the App up, then ask again."
        .to_owned()
}

/// A repository on this machine that was moved or deleted.
pub fn repository_not_here(path: &Path) -> String {
    format!(
        "There is no repository at {} any more. Nothing was run or changed, and work done before is kept. Put it back, or \
         name where it is now.",
        path.display()
    )
}

pub fn thread_unknown() -> String {
    "The thread or repository of this run is no longer known. Nothing was run; work done before is kept. Ask again in a new \
     thread."
        .to_owned()
}

pub fn archived(repository: &RepoName) -> String {
    format!(
        "**{repository}** is archived, so nothing can be pushed to it; what was done is kept. Unarchive it on \
         GitHub, then mention me again."
    )
}

pub fn branch_taken(branch: &BranchName, work: &Work) -> String {
    format!(
        "The branch `{branch}` is in use by the worktree of {work}. Nothing was created. \
         Go on in that thread, or link this one to its worktree with `/worktree link {work}`."
    )
}

/// Work of this name is on another branch.
pub fn name_taken(work: &Work, branch: &BranchName) -> String {
    format!(
        "There is a worktree called {work} already, on `{branch}`. Nothing was created. Link this thread to that one, or \
         choose another name."
    )
}

/// Git keeps `a` and `a/b` in the same place; some disks keep `a` and `A` there.
pub fn branch_beside(branch: &BranchName, other: &str) -> String {
    let why = match branch.is_above(other) || branch.above().any(|above| above == other) {
        true => "",
        false => " (on this server's disk, names that differ in capital letters only are one)",
    };
    let other = other.replace('`', "'");
    format!(
        "git cannot have `{branch}` beside `{other}`, which exists{why}; rename or delete that one, then mention me again"
    )
}

/// The limit message; `live` and the census are of live environments.
pub fn limit_reached(codebase: &RepoName, live: u32, census: &Census, stale_after: Duration) -> String {
    let Census { merged, stale, active } = census;
    let stale_days = days(stale_after);
    format!(
        "You have {live} active worktrees for **{}** (limit reached).\n\n\
         📊 Worktree status:\n\
         • {merged} merged (can auto-remove)\n\
         • {stale} stale (no activity in {stale_days}+ days)\n\
         • {active} active\n\n\
         Options:\n\
         • `/worktree cleanup merged` - Remove merged worktrees ({merged})\n\
         • `/worktree cleanup stale` - Remove stale worktrees ({stale})\n\
         • `/worktree list` - See all worktrees\n\
         • `/worktree remove <name>` - Remove specific worktree\n\n\
         Nothing was created. Mention me again when there is room.",
        codebase.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BR-078
    #[test]
    fn a_branch_that_is_another_only_in_its_case_is_told_to_be_one_on_this_disk() {
        let beside = |branch: &str, other: &str| branch_beside(&BranchName::new(branch).unwrap(), other);
        assert_eq!(
            beside("fix/a", "Fix/A"),
            "git cannot have `fix/a` beside `Fix/A`, which exists (on this server's disk, names that differ in capital \
             letters only are one); rename or delete that one, then mention me again"
        );
        for (branch, other) in [("fix", "fix/a"), ("fix/a", "fix")] {
            let told = beside(branch, other);
            assert!(
                told.starts_with(&format!("git cannot have `{branch}` beside `{other}`, which exists; rename")),
                "{told}"
            );
        }
    }

    #[test]
    fn at_the_limit_there_are_ways_out() {
        let name: RepoName = "acme/myproject".parse().unwrap();
        let census = Census { merged: 3, stale: 2, active: 20 };
        insta::assert_snapshot!(limit_reached(&name, 25, &census, Duration::from_secs(14 * 86_400)), @"
        You have 25 active worktrees for **myproject** (limit reached).

        📊 Worktree status:
        • 3 merged (can auto-remove)
        • 2 stale (no activity in 14+ days)
        • 20 active

        Options:
        • `/worktree cleanup merged` - Remove merged worktrees (3)
        • `/worktree cleanup stale` - Remove stale worktrees (2)
        • `/worktree list` - See all worktrees
        • `/worktree remove <name>` - Remove specific worktree

        Nothing was created. Mention me again when there is room.
        ");
    }
}
