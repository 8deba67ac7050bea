//! How a worktree's branch follows its remote, before an agent works on it.

/// Where the branch stands beside its remote. Both have a commit.
#[derive(Clone, Copy, Debug)]
pub struct FollowFacts {
    /// The remote is where the branch is, or behind it.
    pub remote_is_in: bool,
    /// The branch has no commit that the remote lacks.
    pub is_in_remote: bool,
    /// The remote was seen at the very commit where the branch is: nothing on it was made here and never pushed.
    pub was_on_remote: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// There is nothing to take in.
    Stay,
    FastForward,
    /// Somebody rewrote the branch (a forced push), and everything it had here came from the remote.
    Move,
    /// Both have commits the other lacks: people decide.
    Diverged,
}

/// What is only here is never left behind.
pub fn follow(facts: FollowFacts) -> Follow {
    match facts {
        FollowFacts { remote_is_in: true, .. } => Follow::Stay,
        FollowFacts { is_in_remote: true, .. } => Follow::FastForward,
        FollowFacts { was_on_remote: true, .. } => Follow::Move,
        FollowFacts { was_on_remote: false, .. } => Follow::Diverged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_only_here_stays() {
        let apart = FollowFacts { remote_is_in: false, is_in_remote: false, was_on_remote: false };
        assert_eq!(follow(apart), Follow::Diverged);
        assert_eq!(follow(FollowFacts { was_on_remote: true, ..apart }), Follow::Move);
        assert_eq!(follow(FollowFacts { is_in_remote: true, ..apart }), Follow::FastForward);
        for was_on_remote in [true, false] {
            assert_eq!(follow(FollowFacts { remote_is_in: true, was_on_remote, ..apart }), Follow::Stay);
        }
    }
}
