//! What is said about the code of forks: approved or not, and why an agent was not started.

use crate::decide::approve::{Grant, Hold};
use crate::model::*;

/// `/approve`.
pub fn answer(grant: &Grant, named: &CommitSha, slug: &str) -> String {
    match grant {
        Grant::Approved => format!(
            "Approved: I work on this pull request at exactly the commit `{named}`, and what it holds may run on the server. \
             The next push ends that. Mention me with what to do."
        ),
        Grant::NotAFork => {
            "Only the pull request of a fork needs an approval, and this thread is none. Nothing was changed; mention me \
             with what to do."
                .to_owned()
        }
        Grant::OtherHead(head) => format!(
            "`{named}` is not the head of this pull request: that is `{head}` now. Nothing was approved. Read the changes up \
             to that commit; if they may run here, write `@{slug} /approve {head}`."
        ),
    }
}

/// Why an agent was not started. `elsewhere`: the worktree belongs to the pull request of another thread.
pub fn held(hold: &Hold, elsewhere: Option<ThreadNumber>, slug: &str) -> String {
    let whose = match elsewhere {
        Some(number) => format!("The worktree is that of pull request #{number}, which"),
        None => "This pull request".to_owned(),
    };
    let there = elsewhere.map(|number| format!(" in #{number}")).unwrap_or_default();
    let approve = |head: &CommitSha| {
        format!(
            "Its files could make an agent run on the server whatever a stranger wrote, so nothing was run; what was done \
             before is kept.\n\nRead the changes. If they may run here, somebody with write permission writes \
             `@{slug} /approve {head}`{there}; then mention me again. The next push ends the approval."
        )
    };
    match hold {
        Hold::NotApproved { head } => {
            format!("{whose} comes from a fork, and nobody has approved its head, `{head}`. {}", approve(head))
        }
        Hold::Ended { head, approved } => format!(
            "{whose} comes from a fork, and somebody has pushed to it since `{}` was approved: its head is `{head}`. {}",
            approved.short(),
            approve(head)
        ),
        Hold::Elsewhere { head, at } => {
            let at = at.as_ref().map_or("at no commit".to_owned(), |at| format!("at `{}`", at.short()));
            format!(
                "{whose} comes from a fork, and its worktree could not be brought to the approved commit `{}`: it is {at}. \
                 Nothing was run, and all that is in the worktree is kept.\n\nWhoever runs this service sees its place in the \
                 panel. When it is on its branch and nothing in it is uncommitted, mention me again{there}.",
                head.short()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(digit: char) -> CommitSha {
        CommitSha::new(&digit.to_string().repeat(40)).unwrap()
    }

    #[test]
    fn people_are_told_what_to_approve_and_where() {
        let (head, elsewhere) = (sha('a'), Some(ThreadNumber(7)));
        insta::assert_snapshot!(held(&Hold::NotApproved { head: head.clone() }, None, "bot"), @r"
        This pull request comes from a fork, and nobody has approved its head, `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`. Its files could make an agent run on the server whatever a stranger wrote, so nothing was run; what was done before is kept.

        Read the changes. If they may run here, somebody with write permission writes `@bot /approve aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`; then mention me again. The next push ends the approval.
        ");
        insta::assert_snapshot!(held(&Hold::Ended { head: head.clone(), approved: sha('b') }, elsewhere, "bot"), @r"
        The worktree is that of pull request #7, which comes from a fork, and somebody has pushed to it since `bbbbbbb` was approved: its head is `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`. Its files could make an agent run on the server whatever a stranger wrote, so nothing was run; what was done before is kept.

        Read the changes. If they may run here, somebody with write permission writes `@bot /approve aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` in #7; then mention me again. The next push ends the approval.
        ");
        insta::assert_snapshot!(held(&Hold::Elsewhere { head, at: Some(sha('c')) }, None, "bot"), @r"
        This pull request comes from a fork, and its worktree could not be brought to the approved commit `aaaaaaa`: it is at `ccccccc`. Nothing was run, and all that is in the worktree is kept.

        Whoever runs this service sees its place in the panel. When it is on its branch and nothing in it is uncommitted, mention me again.
        ");
    }

    #[test]
    fn another_commit_is_answered_with_the_present_one() {
        insta::assert_snapshot!(answer(&Grant::OtherHead(sha('a')), &sha('b'), "bot"), @"`bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb` is not the head of this pull request: that is `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` now. Nothing was approved. Read the changes up to that commit; if they may run here, write `@bot /approve aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`.");
    }
}
