//! What is told about the branches on the git server, and how a worktree follows them.

use super::{agent_text, count};
use crate::model::*;
use std::time::Duration;

/// Told when work starts without asking the git server; `age`: of what is known of it.
pub fn offline(age: Option<Duration>) -> String {
    let age = age.map_or("nobody knows how long ago that was".to_owned(), |age| format!("{} ago", rough(age)));
    format!("The git server cannot be reached, so this goes on from what the last fetch brought ({age}).")
}

/// In the largest unit that it is at least two of.
fn rough(duration: Duration) -> String {
    let minutes = duration.as_secs() / 60;
    match minutes {
        0 => "less than a minute".to_owned(),
        1..120 => count(minutes, "minute"),
        120..2880 => count(minutes / 60, "hour"),
        _ => count(minutes / 1440, "day"),
    }
}

/// What was wrong with the git server's answer, as the end of a sentence.
pub fn not_named(branch: &BranchName) -> String {
    format!("its answer does not name the branch {branch}, which GitHub knows; nothing was taken for deleted")
}

/// Told when somebody rewrote the branch on the remote and the worktree moved along.
pub fn moved_along(branch: &BranchName, from: &CommitSha, to: &CommitSha) -> String {
    format!(
        "`{branch}` was rewritten on the remote (a forced push), so the worktree moved from `{}` to its new head `{}`. \
         The commit before is kept in the service's repository.",
        from.short(),
        to.short()
    )
}

/// Told when work on an earlier commit of a fork's pull request made room for the approved one.
pub fn set_aside(branch: &BranchName, from: &CommitSha, to: &CommitSha, keep: &str) -> String {
    format!(
        "`{branch}` moved from `{}` to the approved commit `{}`. What was made here on the commit before is not part of it \
         any more; it is kept in the service's repository, as `{keep}`.",
        from.short(),
        to.short()
    )
}

/// Told when the remote branch moved on in a way the worktree cannot follow.
pub fn cannot_follow(branch: &BranchName, why: &str) -> String {
    format!("`{branch}` on the remote has newer commits that were not taken in: {}.", agent_text::quoted(why))
}

/// The same for a pull request's head whose work goes to a branch of its own.
pub fn head_not_taken_in(why: &str) -> String {
    format!("The head of this pull request has newer commits that were not taken in: {}.", agent_text::quoted(why))
}

/// Told before a run on a branch that nobody has worked on.
pub fn base_rewritten(base: &BranchName, branch: &BranchName) -> String {
    format!(
        "`{base}` was rewritten on the remote, so `{branch}`, which had nothing of its own, begins at its new head."
    )
}

/// The same where something is in the way.
pub fn base_not_followed(base: &BranchName, branch: &BranchName, why: &str) -> String {
    format!(
        "`{base}` was rewritten on the remote, and `{branch}` still stands on what was taken off it: {}. Nothing of that is \
         pushed.",
        agent_text::quoted(why)
    )
}

/// Both sides have commits the other lacks.
pub fn diverged(local: u64, remote: u64) -> String {
    format!("the histories diverged ({local} local, {remote} remote)")
}

/// Told before a run on a branch that people deleted after it had been pushed.
pub fn deleted_on_the_remote(branch: &BranchName) -> String {
    format!(
        "`{branch}` was deleted on the remote. Its commits are still here; as soon as something new is on top of them, it is \
         pushed there anew."
    )
}

/// Told before a run, about commits that people took off a branch and work that rests on them.
pub fn not_moved_back(branch: &BranchName) -> String {
    format!(
        "Somebody took commits off `{branch}` on the remote, and work that is only here rests on them: nothing was moved, and \
         nothing is pushed until a person decides what of it is to stay."
    )
}

/// `exists`: the former base is still there.
pub fn other_base(before: &BranchName, base: &BranchName, exists: bool) -> String {
    match exists {
        true => {
            format!("The pull request goes into `{base}` now, no longer into `{before}`; work goes on against that.")
        }
        false => format!("The base branch `{before}` is gone from the remote, so work goes on against `{base}`."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_work_without_the_server_starts_from_has_an_age() {
        let minutes = |minutes: u64| offline(Some(Duration::from_secs(minutes * 60)));
        insta::assert_snapshot!(minutes(1439), @"The git server cannot be reached, so this goes on from what the last fetch brought (23 hours ago).");
        for (age, words) in
            [(0, "less than a minute ago"), (1, "1 minute ago"), (119, "119 minutes ago"), (2880, "2 days ago")]
        {
            assert!(minutes(age).contains(words), "{words}: {}", minutes(age));
        }
        assert!(offline(None).contains("nobody knows"));
    }
}
