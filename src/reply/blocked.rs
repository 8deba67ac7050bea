//! Why nothing may run: what is in the way, what is safe, and what to do.

use super::agent_text;
use crate::decide::resolve::{Block, Unfit};
use crate::model::*;

/// How much is shown of words of git or of whoever locked something.
const SAID: usize = 1_000;

/// Why a worktree may not be taken over, as the end of a sentence.
fn unfit(why: &Unfit) -> String {
    match why {
        Unfit::Gone => "its files are gone, and only git still lists it".to_owned(),
        Unfit::NotWhole => "what is at its place is not that worktree any more, or git does not know it".to_owned(),
        Unfit::Locked(reason) if reason.is_empty() => "somebody locked it".to_owned(),
        Unfit::Locked(reason) => format!("somebody locked it ({})", agent_text::said(reason, SAID)),
        Unfit::Unclean => "it holds something uncommitted".to_owned(),
        Unfit::Unfinished => "a merge or the like is under way in it".to_owned(),
        Unfit::Doubt(cause) => agent_text::said(cause, SAID),
    }
}

/// What a person does about it.
fn way_out(why: &Unfit) -> &'static str {
    match why {
        Unfit::Gone => "Bring it back, or take it out with `git worktree remove`",
        Unfit::NotWhole | Unfit::Doubt(_) => "Mend that, or take it out with `git worktree remove`",
        Unfit::Locked(_) => "Unlock it or take it away",
        Unfit::Unclean => "Commit what it holds or take it away",
        Unfit::Unfinished => "Bring that to its end or take it away",
    }
}

pub fn blocked(block: &Block) -> String {
    match block {
        Block::EmptyRepository => {
            "The repository has no commits yet, so there is nothing to branch from. Nothing was created. \
             Make a first commit (on GitHub: push one), then mention me again."
                .to_owned()
        }
        Block::NoDefaultBranch(Some(default)) => format!(
            "The repository has branches, but not `{default}`, its default one. Nothing was created. Push it, or choose \
             another default branch: on GitHub in the repository's settings, on this machine by checking one out there; then \
             mention me again."
        ),
        Block::NoDefaultBranch(None) => {
            "The repository has branches, but none is checked out in it, so that nothing says which one to start from. Nothing \
             was created. Check one out there, then mention me again."
                .to_owned()
        }
        Block::NoSuchBase(base) => format!(
            "The base branch `{base}`, which `{REPO_SETTINGS_FILE}` names, does not exist on the remote. Nothing was \
             created. Push it, or name another one there on the default branch; then mention me again."
        ),
        Block::CannotVerify { why, .. } => format!(
            "The worktree of this work could not be examined ({}). Nothing was run or changed. \
             Mention me again when the cause is gone.",
            agent_text::said(why, SAID)
        ),
        Block::Broken { .. } => {
            "The files of this worktree are all there, but git no longer knows it, and that could not be mended. \
             Nothing was run or changed. Whoever runs this service sees its place in the panel; mention me again when \
             `git status` works there."
                .to_owned()
        }
        Block::OwnRepository { .. } => {
            "Somebody made a repository of its own in this worktree: its `.git` is a directory now, as after `git init`. \
             Nothing was run or changed, and all files are where they were. Whoever runs this service looks whether that \
             repository holds commits worth keeping, and moves its `.git` out of the worktree; then mention me again, and \
             I link the files to their branch anew."
                .to_owned()
        }
        Block::ForeignPath { .. } => {
            "Something that Treewarden did not make stands where this worktree belongs. Nothing was run or changed. \
             Move it away, then mention me again."
                .to_owned()
        }
        Block::BaseMissing(base) => format!(
            "The base branch `{base}` does not exist on the remote. Nothing was created. Name one that is there, or push this one, \
             then mention me again."
        ),
        Block::UnshowableBase => {
            "The base branch has a back-tick or a character that turns text around in its name, which no comment can show \
             safely. Nothing was created. Name another base branch, or rename this one, then mention me again."
                .to_owned()
        }
        Block::ProtectedBranch(branch) => format!(
            "`{branch}` is a base that work branches off, and I never push to one. Nothing was created. Name another branch."
        ),
        Block::CheckedOut { branch, why } => format!(
            "The branch `{branch}` is in use in a worktree that I did not make and may not take over: {} \
             (`/worktree orphans` lists it). Nothing was created or changed there. {}, then mention me again.",
            unfit(why),
            way_out(why)
        ),
        Block::PlaceTaken { branch, on } => {
            let on = on.as_ref().filter(|on| on.is_showable()).map(|on| format!(", but on `{on}`")).unwrap_or_default();
            format!(
                "A worktree that I did not make stands where that of `{branch}` belongs, and is not on this branch{on} \
                 (`/worktree orphans` lists it). Nothing was created or changed there. Move it elsewhere with \
                 `git worktree move`, or switch it to `{branch}` for me to take it over; then mention me again."
            )
        }
        Block::ForkBranch(branch) => format!(
            "`{branch}` is kept here from the pull request of a fork: it may hold what nobody here has reviewed, and I push \
             no such commits. Nothing was created. Name another branch."
        ),
        Block::BadBranch(why) => format!("The branch cannot be used: {why}. Nothing was created. Name another branch."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_mention_nobody() {
        let why = Unfit::Locked("for @ann, fixes #1".to_owned());
        let told = blocked(&Block::CheckedOut { branch: BranchName::new("issue-1").unwrap(), why });
        assert!(told.contains("(for @\u{200b}ann, f\u{200b}ixes #1)"), "{told}");
    }
}
