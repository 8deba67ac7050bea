//! How a worktree's branch follows its remote, before an agent works on it.

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

#[cfg(test)]
mod tests {
    use super::*;

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
