//! What of a fork's pull request may be run: the one commit that a person with write permission named, as long as it is the
//! head.

use crate::model::*;

/// What `/approve` leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    Approved,
    /// The thread is no pull request, or one whose branch is in the repository itself.
    NotAFork,
    /// Somebody pushed, or the commit was never the head. This is it now.
    OtherHead(CommitSha),
}

/// `fork_head`: where the pull request stands at this moment, when it is a fork's. Whoever approves has seen what they name,
/// so nothing but the head itself counts.
pub fn grant(named: &CommitSha, fork_head: Option<&CommitSha>) -> Grant {
    match fork_head {
        None => Grant::NotAFork,
        Some(head) if head == named => Grant::Approved,
        Some(head) => Grant::OtherHead(head.clone()),
    }
}

/// What is known when a run could meet a fork's code.
#[derive(Clone, Debug)]
pub struct ForkFacts {
    /// Where the pull request stands at this moment.
    pub head: CommitSha,
    /// The latest approval in its thread.
    pub approval: Option<Approval>,
    /// Absent before there is one, and when the run works in a worktree that has nothing of the pull request.
    pub worktree: Option<ForkWorktree>,
}

/// Where a fork's worktree stands.
#[derive(Clone, Debug)]
pub struct ForkWorktree {
    /// Absent when it has no commit.
    pub at: Option<CommitSha>,
    /// The last commit of the fork's that it was put at.
    pub put_at: Option<CommitSha>,
    /// `at` holds the pull request's head.
    pub holds_head: bool,
}

/// Why an agent is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    NotApproved {
        head: CommitSha,
    },
    /// Somebody pushed since.
    Ended {
        head: CommitSha,
        approved: CommitSha,
    },
    /// The worktree has something else of the fork's than what is approved.
    Elsewhere {
        head: CommitSha,
        at: Option<CommitSha>,
    },
}

/// `None`: the agent may start.
pub fn hold(facts: ForkFacts) -> Option<Hold> {
    let ForkFacts { head, approval, worktree } = facts;
    match approval {
        None => return Some(Hold::NotApproved { head }),
        Some(Approval { head: approved, ended_at, .. }) if ended_at.is_some() || approved != head => {
            return Some(Hold::Ended { head, approved });
        }
        Some(_) => {}
    }
    let ForkWorktree { at, put_at, holds_head } = worktree?;
    // What lies on top of the commit it was put at was made here, by agents that were let to.
    let fits = at.as_ref() == Some(&head) || (put_at.as_ref() == Some(&head) && holds_head);
    (!fits).then_some(Hold::Elsewhere { head, at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn sha(digit: char) -> CommitSha {
        CommitSha::new(&digit.to_string().repeat(40)).unwrap()
    }

    fn approval(digit: char, ended: bool) -> Approval {
        Approval {
            conversation: ConversationId(Uuid::nil()),
            head: sha(digit),
            approver: UserId(1),
            login: "ann".to_owned(),
            approved_at: Timestamp::from_unix(1),
            ended_at: ended.then(|| Timestamp::from_unix(2)),
        }
    }

    fn facts(approval: Option<Approval>, worktree: Option<ForkWorktree>) -> ForkFacts {
        ForkFacts { head: sha('a'), approval, worktree }
    }

    fn worktree(at: char, put_at: Option<char>, holds_head: bool) -> Option<ForkWorktree> {
        Some(ForkWorktree { at: Some(sha(at)), put_at: put_at.map(sha), holds_head })
    }

    #[test]
    fn only_the_head_of_a_fork_is_approved() {
        assert_eq!(grant(&sha('a'), Some(&sha('a'))), Grant::Approved);
        assert_eq!(grant(&sha('b'), Some(&sha('a'))), Grant::OtherHead(sha('a')));
        assert_eq!(grant(&sha('a'), None), Grant::NotAFork);
    }

    #[test]
    fn the_very_commit_must_be_approved() {
        assert_eq!(hold(facts(None, None)), Some(Hold::NotApproved { head: sha('a') }));
        assert_eq!(hold(facts(Some(approval('a', false)), None)), None);
        let ended = |approved| Some(Hold::Ended { head: sha('a'), approved: sha(approved) });
        assert_eq!(hold(facts(Some(approval('b', false)), None)), ended('b'));
        assert_eq!(hold(facts(Some(approval('a', true)), None)), ended('a'), "pushed away and back");
    }

    #[test]
    fn the_worktree_must_have_that_commit_and_nothing_else_of_the_forks() {
        let at = |worktree| hold(facts(Some(approval('a', false)), worktree));
        assert_eq!(at(worktree('a', None, true)), None);
        assert_eq!(at(worktree('f', Some('a'), true)), None, "commits of ours on top");
        let elsewhere = |at| Some(Hold::Elsewhere { head: sha('a'), at: Some(sha(at)) });
        assert_eq!(at(worktree('f', Some('a'), false)), elsewhere('f'), "the agent left it");
        assert_eq!(at(worktree('b', Some('b'), true)), elsewhere('b'), "later commits of the fork's");
        assert_eq!(at(worktree('f', None, true)), elsewhere('f'), "nobody knows whose");
        let empty = Some(ForkWorktree { at: None, put_at: Some(sha('a')), holds_head: false });
        assert_eq!(at(empty), Some(Hold::Elsewhere { head: sha('a'), at: None }));
    }

    proptest! {
        /// Whatever else is so: without an approval of this commit that lasts, nothing starts.
        #[test]
        fn nothing_starts_without_an_approval(
            approved in prop::option::of(prop::char::range('a', 'c')),
            ended in any::<bool>(),
            at in prop::option::of(prop::char::range('a', 'c')),
            put_at in prop::option::of(prop::char::range('a', 'c')),
            holds_head in any::<bool>(),
        ) {
            let worktree = at.map(|at| ForkWorktree { at: Some(sha(at)), put_at: put_at.map(sha), holds_head });
            let starts = hold(facts(approved.map(|digit| approval(digit, ended)), worktree)).is_none();
            prop_assert!(!starts || (approved == Some('a') && !ended));
        }
    }
}
