//! How a worktree's branch follows its remote, or a fork's head that was approved, before an agent works on it.

use crate::model::CommitSha;

/// Where the branch stands beside its remote. Both have a commit.
#[derive(Clone, Copy, Debug)]
pub struct FollowFacts {
    /// The remote is where the branch is, or behind it.
    pub remote_is_in: bool,
    /// The branch has no commit that the remote lacks.
    pub is_in_remote: bool,
    /// The branch is exactly where the remote was last seen: nothing on it was made here and never pushed.
    pub is_where_seen: bool,
    /// The remote was seen at a commit that is not part of it any more: somebody rewrote it, or took it back.
    pub dropped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// There is nothing to take in.
    Stay,
    FastForward,
    /// Somebody rewrote the branch (a forced push), and everything it had here came from the remote.
    Move,
    /// Somebody took commits back on the remote that are below work which is only here: people decide.
    TakenBack,
    /// Both have commits the other lacks: people decide.
    Diverged,
    /// Commits that were made here go out of the way, and are kept.
    SetAside,
}

/// Whether people deleted the branch on the remote: it was seen there, and is not there now.
pub fn was_deleted(agreed: Option<&CommitSha>, remote: Option<&CommitSha>) -> bool {
    agreed.is_some() && remote.is_none()
}

/// What is only here is never left behind.
pub fn follow(facts: FollowFacts) -> Follow {
    match facts {
        FollowFacts { dropped: true, is_where_seen: true, .. } => Follow::Move,
        FollowFacts { dropped: true, remote_is_in: true, .. } => Follow::TakenBack,
        FollowFacts { remote_is_in: true, .. } => Follow::Stay,
        FollowFacts { is_in_remote: true, .. } => Follow::FastForward,
        FollowFacts { .. } => Follow::Diverged,
    }
}

/// Where the branch of a fork's worktree stands beside the pull request's head, which is another commit.
#[derive(Clone, Copy, Debug)]
pub struct ForkFollowFacts {
    /// The head is the commit of the fork's that the branch was put at last, and part of the branch.
    pub is_on_top: bool,
    /// The branch has no commit that the head lacks.
    pub is_in_head: bool,
    /// The branch is exactly where it was put: nothing on it was made here.
    pub is_where_put: bool,
}

/// A person approved the head and nothing else of the fork's. What was made here on another commit can go nowhere, and an
/// agent that works there would run what is not approved any more.
pub fn follow_fork(facts: ForkFollowFacts) -> Follow {
    match facts {
        ForkFollowFacts { is_on_top: true, .. } => Follow::Stay,
        ForkFollowFacts { is_in_head: true, .. } => Follow::FastForward,
        ForkFollowFacts { is_where_put: true, .. } => Follow::Move,
        ForkFollowFacts { .. } => Follow::SetAside,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forks_worktree_goes_to_the_head_and_only_work_on_top_of_it_stays() {
        let apart = ForkFollowFacts { is_on_top: false, is_in_head: false, is_where_put: false };
        assert_eq!(follow_fork(apart), Follow::SetAside);
        assert_eq!(follow_fork(ForkFollowFacts { is_on_top: true, ..apart }), Follow::Stay);
        assert_eq!(follow_fork(ForkFollowFacts { is_in_head: true, is_where_put: true, ..apart }), Follow::FastForward);
        assert_eq!(follow_fork(ForkFollowFacts { is_where_put: true, ..apart }), Follow::Move);
    }

    #[test]
    fn work_that_is_only_here_stays() {
        let apart = FollowFacts { remote_is_in: false, is_in_remote: false, is_where_seen: false, dropped: false };
        assert_eq!(follow(apart), Follow::Diverged);
        assert_eq!(follow(FollowFacts { dropped: true, ..apart }), Follow::Diverged);
        assert_eq!(follow(FollowFacts { is_in_remote: true, ..apart }), Follow::FastForward);
        let ahead = FollowFacts { remote_is_in: true, ..apart };
        assert_eq!(follow(ahead), Follow::Stay);
        assert_eq!(follow(FollowFacts { dropped: true, ..ahead }), Follow::TakenBack);
        for remote_is_in in [true, false] {
            let seen = FollowFacts { remote_is_in, is_where_seen: true, dropped: true, ..apart };
            assert_eq!(follow(seen), Follow::Move);
        }
    }
}
