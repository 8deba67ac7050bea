//! Why work that is done was not pushed, or has no pull request: what failed, that it is kept, and what to do.

use super::{agent_text, count, furnished, staged};
use crate::decide::deliver::Withheld;
use crate::model::*;

/// How much is shown of a text from a remote, where a sentence of ours goes on behind it.
const SAID: usize = 1_000;

pub fn branch_drift(recorded: &BranchName, actual: Option<&BranchName>) -> String {
    match actual.map(|actual| actual.as_str().replace('`', "'")) {
        Some(actual) => format!(
            "not pushed: HEAD of the worktree is on `{actual}`, not on `{recorded}`; the work is kept there; mention me and \
             ask to bring it back to `{recorded}`"
        ),
        None => format!(
            "not pushed: HEAD of the worktree is detached from `{recorded}`; the work is kept in the worktree; mention me \
             and ask to bring it back to `{recorded}`"
        ),
    }
}

/// A merge, a rebase or conflicts that the agent left; `what` says which.
pub fn unfinished(what: &str) -> String {
    format!(
        "not committed and not pushed: {}; everything is kept in the worktree as it is. Mention me and ask to finish that, or to \
         abort it: then the rest is delivered",
        agent_text::quoted(what)
    )
}

/// Something else stands where the worktree was.
pub fn place_taken() -> String {
    "not pushed: during the run something else took the worktree's place, or its tie to the repository was cut; nothing was \
     committed, and all files are as they were left. Whoever runs this service sees the place in the panel; once the worktree \
     is back there, mention me again"
        .to_owned()
}

pub fn base_gone() -> String {
    "not pushed: the base branch is gone from the remote; the work is kept on its branch, and the next mention goes on against \
     the default branch"
        .to_owned()
}

/// Why a branch with new work stays here.
pub fn withheld(why: &Withheld, branch: &BranchName) -> String {
    match why {
        Withheld::Fork => {
            format!(
                "not pushed: the pull request comes from a fork, where I may not push; the work is kept on `{branch}`. To have \
                 it on a branch of this repository, whoever runs this service pushes it from the worktree; the panel has its \
                 place"
            )
        }
        Withheld::NotOn(mode) => {
            format!(
                "not pushed: this repository is {} by now; the work is kept on `{branch}` here. Once it is switched on again, \
                 mention me: what is there is pushed with the next run",
                staged::in_words(*mode)
            )
        }
        Withheld::Default => {
            format!(
                "not pushed: `{branch}` is the default branch, which I never push to; the work is kept on it here. Whoever runs \
                 this service can push it from the worktree; ask for further work in an issue, which gets a branch of its own"
            )
        }
        Withheld::Base => format!(
            "not pushed: `{branch}` is the base of all new work, which I never push to; the work is kept on it here. Whoever \
             runs this service can push it from the worktree; ask for further work in an issue, which gets a branch of its own"
        ),
        Withheld::Stopped => {
            format!(
                "not pushed: stopped on request; the work is committed and kept on `{branch}`; mention me again to have it pushed"
            )
        }
        Withheld::Deleted => format!(
            "not pushed: `{branch}` was deleted on the remote while the agent worked; the work is kept on it here, and the \
             next request pushes it again, on GitHub with a pull request of its own"
        ),
        Withheld::TakenBack => taken_back(branch),
        Withheld::OffBase { base, commits } => format!(
            "not pushed: `{base}` was rewritten, and `{branch}` still has {} that {} taken off it, which would be published \
             again; {}. Ask me to rebase it onto `origin/{base}` without {}; or whoever wants {} there pushes it from the worktree",
            count(*commits, "commit"),
            if *commits == 1 { "was" } else { "were" },
            kept(branch),
            if *commits == 1 { "it" } else { "them" },
            if *commits == 1 { "it" } else { "them" },
        ),
        Withheld::Copies(paths) => furnished::copies_committed(branch, paths),
        Withheld::Blobs(paths) => furnished::blobs_committed(branch, paths),
    }
}

pub fn merged_meanwhile(number: ThreadNumber, branch: &BranchName) -> String {
    format!(
        "#{number} was merged while the agent worked, so no other pull request was opened: `{branch}` has commits that the \
         merge did not take; mention me again to have one opened for them"
    )
}

pub fn closed_meanwhile(number: ThreadNumber, branch: &BranchName) -> String {
    format!(
        "#{number} was closed while the agent worked, so no other pull request was opened: `{branch}` has the work. Reopen \
         #{number}, or mention me again to have another one opened"
    )
}

/// A push that the remote refused, in its own words.
pub fn push_rejected(branch: &BranchName, why: &str) -> String {
    // The remote's remarks, which a hook there words.
    let why: String = agent_text::quoted(why).chars().take(SAID).collect();
    format!("not pushed: {why}; {}; mention me again when the cause is gone", kept(branch))
}

/// The branch here is the base, or behind it, and the remote's is not.
pub fn dropped_here(branch: &BranchName, commits: u64) -> String {
    format!(
        "not pushed: `{branch}` on the remote still has {} that {} dropped here, and I take nothing off it by force. Ask me to \
         revert them, or delete the branch there; otherwise the next mention goes on with them",
        count(commits, "commit"),
        if commits == 1 { "was" } else { "were" }
    )
}

pub fn newer_on_the_remote(branch: &BranchName) -> String {
    format!(
        "not pushed: the branch on the remote has commits that are not here; {}; mention me again and ask to merge them",
        kept(branch)
    )
}

pub fn protected(branch: &BranchName) -> String {
    format!(
        "not pushed: the branch is protected; {}. Allow this App to push to it in the repository's settings, then mention me \
         again; or whoever runs this service pushes it from the worktree",
        kept(branch)
    )
}

pub fn workflows_changed(branch: &BranchName) -> String {
    format!(
        "not pushed: it changes workflow files, which this App may not; {}. Whoever runs this service looks at them and pushes \
         the branch from the worktree",
        kept(branch)
    )
}

fn kept(branch: &BranchName) -> String {
    format!("nothing was overwritten, the work is kept on `{branch}`")
}

/// In the repository on this machine that it would go to.
pub fn checked_out(branch: &BranchName) -> String {
    format!(
        "not pushed: the branch is checked out in the repository it would go to; nothing was overwritten, the work is kept on \
         `{branch}`. Switch to another branch there, then mention me again"
    )
}

pub fn name_of(branch: &BranchName, other: &str) -> String {
    format!(
        "not pushed: in the repository it would go to, `{branch}` is only another name of `{}`, which nobody asked to change; the \
         work is kept on `{branch}` here. Delete that name there (`git symbolic-ref --delete refs/heads/{branch}`), then mention \
         me again",
        other.replace('`', "'")
    )
}

pub fn gone_after_the_push(branch: &BranchName) -> String {
    format!(
        "the remote took the commits, but has no branch `{branch}` afterwards; the work is kept on it here, and the next \
         mention pushes it again"
    )
}

pub fn no_pull_request_yet(why: &str) -> String {
    format!(
        "the branch is pushed, but its pull request is not open yet ({}); it is opened as soon as GitHub takes it",
        agent_text::quoted(why)
    )
}

pub fn pull_request_refused(why: &str) -> String {
    format!(
        "the branch is pushed, but GitHub refused its pull request ({why}); mention me again when the cause is gone, or \
         open it yourself"
    )
}

pub fn stopped_before_pull_request() -> String {
    "the branch is pushed; no pull request was opened, since somebody asked to stop; mention me again to have one, or open it \
     yourself"
        .to_owned()
}

/// Commits are gone from the remote, and work that is only here rests on them.
fn taken_back(branch: &BranchName) -> String {
    format!(
        "not pushed: somebody took commits off `{branch}` on the remote, and work that is only here rests on them; a push would \
         bring them back; {}. Whoever runs this service pushes the branch from the worktree to have them back, or rebases it \
         there onto what the remote has, to do without them",
        kept(branch)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_stays_here_says_that_it_is_kept_and_what_to_do() {
        let branch = BranchName::new("issue-1").unwrap();
        let withheld_for = [
            Withheld::Fork,
            Withheld::Default,
            Withheld::Base,
            Withheld::Stopped,
            Withheld::Deleted,
            Withheld::TakenBack,
            Withheld::Copies(vec![".env".into()]),
            Withheld::Blobs(vec!["a.bin".into()]),
        ];
        let refused = [
            push_rejected(&branch, "GH013"),
            newer_on_the_remote(&branch),
            protected(&branch),
            workflows_changed(&branch),
            checked_out(&branch),
            stopped_before_pull_request(),
            furnished::without_objects(&branch, &["a.bin".into()]),
        ];
        for told in withheld_for.iter().map(|why| withheld(why, &branch)).chain(refused) {
            let next = ["mention me", "pushes the branch", "pushes it", "push it", "the next request", "Ask for"];
            assert!(next.iter().any(|step| told.contains(step)), "{told}");
            let kept = ["kept on", "is pushed", "nothing of it left the server"];
            assert!(kept.iter().any(|what| told.contains(what)), "{told}");
        }
    }
}
