//! The first lines of a run: how its worktree was found or made, and what there is to know about it.

use super::{cleanup::called, count};
use crate::decide::resolve::{Apart, Lost};
use crate::model::*;

/// How an environment was found or made: the first line of the status comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening<'a> {
    Created {
        branch: &'a BranchName,
    },
    /// The branch existed before; `ahead` of the base.
    Continuing {
        branch: &'a BranchName,
        ahead: u64,
    },
    ReviewingFork {
        sha: &'a CommitSha,
        branch: &'a BranchName,
    },
    Reusing {
        work: &'a Work,
    },
    Same {
        branch: &'a BranchName,
    },
}

pub fn opening(opening: &Opening) -> String {
    match opening {
        Opening::Created { branch } | Opening::Same { branch } => format!("Working in isolated branch `{branch}`"),
        Opening::Continuing { branch, ahead } => {
            format!("Continuing on existing branch `{branch}`, {} ahead", count(*ahead, "commit"))
        }
        Opening::ReviewingFork { sha, branch } => {
            format!("Reviewing PR at commit `{}` (branch: `{branch}`)", sha.short())
        }
        Opening::Reusing { work } => format!("Reusing worktree from {}", called(work)),
    }
}

/// Told when a row pointed to a worktree that is gone. Where the work goes on instead is told apart.
pub fn stale_reference(branch: &BranchName) -> String {
    format!(
        "Detected a stale worktree reference: the worktree of `{branch}` is no longer on disk. Commits of that branch are \
         safe; uncommitted files of the missing directory are not recoverable."
    )
}

/// Told when the files of a worktree are not of its branch when a run begins: somebody checked something else out.
pub fn head_elsewhere(branch: &BranchName, head: Option<&BranchName>) -> String {
    let at = head.map_or("detached".to_owned(), |head| format!("on `{}`", head.as_str().replace('`', "'")));
    format!(
        "HEAD of the worktree was {at} before this message, not on `{branch}`: what is done there is pushed only once it is on \
         `{branch}`."
    )
}

/// Told when a worktree that was there already became an environment.
pub fn adopted(branch: &BranchName) -> String {
    format!("Took over the worktree of `{branch}` that was there already; what it holds is part of this work now.")
}

/// Told when the place where an imported thread worked before became its environment with what was left there.
pub fn adopted_unclean(branch: &BranchName) -> String {
    format!(
        "Took over the worktree of `{branch}` in which this thread worked before it was imported. Something in it was not \
         committed yet: that is part of this work now, and goes along with the next commit."
    )
}

/// Told when the place where an imported thread worked before could not become its environment.
pub fn place_of_old_left() -> String {
    "The worktree in which this thread worked before it was imported is still there, but could not be taken over: it is on \
     another branch than this work needs, is locked, has a merge or the like under way, or could not be looked at. It was \
     left as it is."
        .to_owned()
}

/// Told when linked work has an environment of its own that could not be shared.
pub fn not_shared(work: &Work, why: &Apart) -> String {
    let why = match why {
        Apart::LacksKept(branch) => {
            return format!(
                "Not sharing the worktree of {work}: it does not contain what is kept on `{branch}`, so both stay apart."
            );
        }
        Apart::Fork => {
            "a fork's pull request is worked on in a worktree of its own, in which nothing else is worked on"
        }
        Apart::LacksHead => "it does not contain this pull request's head, so both stay apart",
        Apart::Doubt => "it is not whole, or could not be looked at just now, so both stay apart",
        Apart::Settings => "the repository's settings keep threads apart (`share_linked: never`)",
    };
    format!("Not sharing the worktree of {work}: {why}.")
}

/// Told with a worktree of its own that may have been shared.
pub fn links_unknown() -> String {
    "GitHub could not say just now which issues and pull requests this thread is linked with, so it gets a worktree of its \
     own. Where there is another one to go on in, `/worktree link` does that."
        .to_owned()
}

/// Told when linked work's environment made way for this one.
pub fn made_way(work: &Work, branch: &BranchName) -> String {
    format!(
        "The worktree of {} held nothing of its own, so both threads work on `{branch}` from here on.",
        called(work)
    )
}

/// Told when linked work's environment is shared although it lacks the pull request's head.
pub fn shared_apart(branch: &BranchName) -> String {
    format!(
        "`{branch}` does not contain this pull request's head, and is shared because the repository's settings say so \
         (`share_linked: always`)."
    )
}

/// Told when a new branch takes the place of a merged one.
pub fn merged_before(merged: &BranchName, branch: &BranchName) -> String {
    format!("`{merged}` was merged already, so this begins at the newest base, on a branch of its own: `{branch}`.")
}

/// Told when a merged branch's worktree went before a run.
pub fn retired(ReceiptDetails { branch, released, .. }: &ReceiptDetails) -> String {
    match released {
        true => format!(
            "All that was on `{branch}` is merged, so I let go of its worktree, which stays where somebody else made it."
        ),
        false => format!("All that was on `{branch}` is merged, so its worktree was removed."),
    }
}

/// Told when a merged branch's worktree could not be left for a new one.
pub fn merged_but_kept(branch: &BranchName) -> String {
    format!(
        "`{branch}` was merged already, but its worktree holds something more, or another open thread uses it, so the work \
         goes on there: a new pull request may show merged commits once more. `/worktree remove` says what keeps it."
    )
}

/// Told in the thread of a pull request that is merged.
pub fn pull_merged(number: ThreadNumber) -> String {
    format!(
        "#{number} is merged already. The work goes on at its branch, and gets a pull request of its own, which may show \
         merged commits once more. To begin at the newest base, ask in an issue."
    )
}

/// Told in the thread of a pull request that is closed.
pub fn pull_closed(number: ThreadNumber) -> String {
    format!("#{number} is closed, and I do not open it again: to have the work in it, reopen it.")
}

/// Told when a pull request's own branch is not worked on.
pub fn lost_head(lost: Lost, head: &BranchName, branch: &BranchName) -> String {
    let why = match lost {
        Lost::Gone => format!("The head branch `{head}` is gone"),
        Lost::Unshowable => {
            "The head branch has a back-tick or a character that turns text around in its name, which no comment can show \
             safely"
                .to_owned()
        },
        Lost::Refused => "The head branch has a name that git takes for something else".to_owned(),
        Lost::Default => format!("The head `{head}` is the default branch, which I never push to"),
        Lost::Base => format!("The head `{head}` is the base of all new work, which I never push to"),
    };
    format!(
        "{why}, so the work starts at its last commit; the result goes to `{branch}` and a pull request of its own."
    )
}

pub fn made_room(merged: usize) -> String {
    format!("Cleaned up {} to make room.", count(merged as u64, "merged worktree"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_exact() {
        let branch = BranchName::new("issue-42").unwrap();
        let feature = BranchName::new("feature/x").unwrap();
        let sha = CommitSha::new(&format!("abc1234{}", "0".repeat(33))).unwrap();
        let issue = Work { kind: WorkKind::Issue, id: "42".into() };
        assert_eq!(opening(&Opening::Created { branch: &branch }), "Working in isolated branch `issue-42`");
        assert_eq!(
            opening(&Opening::ReviewingFork { sha: &sha, branch: &feature }),
            "Reviewing PR at commit `abc1234` (branch: `feature/x`)"
        );
        assert_eq!(opening(&Opening::Reusing { work: &issue }), "Reusing worktree from issue #42");
        assert_eq!(
            opening(&Opening::Continuing { branch: &branch, ahead: 3 }),
            "Continuing on existing branch `issue-42`, 3 commits ahead"
        );
        assert_eq!(
            made_way(&issue, &feature),
            "The worktree of issue #42 held nothing of its own, so both threads work on `feature/x` from here on."
        );
    }
}
