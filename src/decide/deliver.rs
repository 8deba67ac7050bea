//! Whether a branch with new work is pushed, and whether a pull request is opened for it.

use crate::model::*;
use std::path::PathBuf;

/// What a push depends on.
#[derive(Clone, Debug)]
pub struct PushFacts {
    /// The branch holds the commits of a fork's pull request.
    pub from_fork: bool,
    /// It may have become the default branch since work on it began.
    pub is_default: bool,
    /// The repository's settings make it the base of new work.
    pub is_base: bool,
    pub tip: CommitSha,
    /// The branch on the remote now.
    pub there: Option<CommitSha>,
    /// The branch was on the remote when the agent began.
    pub was_there: bool,
    /// Where the branch and its remote were last seen to agree.
    pub agreed: Option<CommitSha>,
    /// The push would bring back commits that people took off the branch.
    pub taken_back: bool,
    /// The base, and how many commits that people took off that one the push would publish again.
    pub off_base: Option<(BranchName, u64)>,
    /// Files that only this server has and that stand in commits.
    pub copies: Vec<PathBuf>,
    /// Files that Git LFS is to keep and that stand in commits as they are.
    pub blobs: Vec<PathBuf>,
    /// Somebody asked to stop.
    pub stop: bool,
    /// Of the codebase, as it is now.
    pub mode: CodebaseMode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    Go,
    /// People deleted the branch with all that is on it, before the agent began.
    NothingNew,
    Withheld(Withheld),
}

/// Why a branch stays here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    Fork,
    Default,
    Base,
    Stopped,
    /// The codebase was staged, or switched off, while the agent worked.
    NotOn(CodebaseMode),
    /// Somebody deleted it on the remote while the agent worked.
    Deleted,
    TakenBack,
    /// Somebody rewrote the base, and the branch began on what is not in it any more.
    OffBase {
        base: BranchName,
        commits: u64,
    },
    Copies(Vec<PathBuf>),
    Blobs(Vec<PathBuf>),
}

/// What a try before a restart pushed cannot be stopped any more; it is only looked at once more.
pub fn push(facts: PushFacts) -> Push {
    let pushed_before = facts.there.as_ref() == Some(&facts.tip);
    let deleted_as_it_is = facts.there.is_none() && !facts.was_there && facts.agreed.as_ref() == Some(&facts.tip);
    let withheld = match facts {
        PushFacts { from_fork: true, .. } => Withheld::Fork,
        PushFacts { is_default: true, .. } => Withheld::Default,
        PushFacts { is_base: true, .. } => Withheld::Base,
        PushFacts { .. } if deleted_as_it_is => return Push::NothingNew,
        PushFacts { stop: true, .. } if !pushed_before => Withheld::Stopped,
        PushFacts { mode: mode @ (CodebaseMode::Staged | CodebaseMode::Off), .. } if !pushed_before => {
            Withheld::NotOn(mode)
        }
        PushFacts { was_there: true, there: None, .. } => Withheld::Deleted,
        PushFacts { taken_back: true, .. } => Withheld::TakenBack,
        PushFacts { off_base: Some((base, commits)), .. } => Withheld::OffBase { base, commits },
        PushFacts { copies, .. } if !copies.is_empty() => Withheld::Copies(copies),
        PushFacts { blobs, .. } if !blobs.is_empty() => Withheld::Blobs(blobs),
        PushFacts { .. } => return Push::Go,
    };
    Push::Withheld(withheld)
}

/// A pull request that has, or had, the branch as its head.
#[derive(Clone, Debug)]
pub struct PullState {
    pub number: ThreadNumber,
    pub state: ThreadState,
    pub merged_at: Option<Timestamp>,
    /// Of a merged one, too.
    pub closed_at: Option<Timestamp>,
    pub head: CommitSha,
}

/// What to do about the pull request of a pushed branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// It is open, or was merged with all of the work.
    HasIt(ThreadNumber),
    /// It was merged while the agent worked: people decide what becomes of the rest.
    MergedMeanwhile(ThreadNumber),
    /// Somebody closed it while the agent worked: it is theirs to open again.
    ClosedMeanwhile(ThreadNumber),
    ToBeMade,
}

/// `tip`: where the branch is on the remote; `began`: when the run did.
pub fn proposal(pulls: &[PullState], tip: Option<&CommitSha>, began: Option<Timestamp>) -> Proposal {
    let took_all = |pull: &&PullState| pull.state == ThreadState::Merged && Some(&pull.head) == tip;
    let open = pulls.iter().find(|pull| pull.state == ThreadState::Open);
    if let Some(pull) = open.or_else(|| pulls.iter().find(took_all)) {
        return Proposal::HasIt(pull.number);
    }
    // GitHub tells whole seconds. In the one in which the run began, what was merged counts as merged meanwhile, since it would
    // be proposed once more, and what was closed as closed before: whoever asks after that wants another one.
    let seconds_since = |at: Option<Timestamp>| Some(at?.unix() - began?.unix());
    if let Some(merged) = pulls.iter().find(|pull| seconds_since(pull.merged_at).is_some_and(|seconds| seconds >= 0)) {
        return Proposal::MergedMeanwhile(merged.number);
    }
    let is_closed = |pull: &&PullState| {
        pull.state == ThreadState::Closed && seconds_since(pull.closed_at).is_some_and(|seconds| seconds > 0)
    };
    match pulls.iter().find(is_closed) {
        Some(closed) => Proposal::ClosedMeanwhile(closed.number),
        None => Proposal::ToBeMade,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(digit: char) -> CommitSha {
        CommitSha::new(&digit.to_string().repeat(40)).unwrap()
    }

    fn facts() -> PushFacts {
        PushFacts {
            from_fork: false,
            is_default: false,
            is_base: false,
            tip: sha('b'),
            there: Some(sha('a')),
            was_there: true,
            agreed: Some(sha('a')),
            taken_back: false,
            off_base: None,
            copies: Vec::new(),
            blobs: Vec::new(),
            stop: false,
            mode: CodebaseMode::On,
        }
    }

    #[test]
    fn each_reason_holds_the_branch_back() {
        assert_eq!(push(facts()), Push::Go);
        assert_eq!(push(PushFacts { there: None, was_there: false, ..facts() }), Push::Go);
        let copies = vec![PathBuf::from(".env")];
        let (blobs, base) = (vec![PathBuf::from("a.bin")], BranchName::new("main").unwrap());
        for (facts, why) in [
            (PushFacts { from_fork: true, ..facts() }, Withheld::Fork),
            (PushFacts { is_default: true, ..facts() }, Withheld::Default),
            (PushFacts { is_base: true, ..facts() }, Withheld::Base),
            (PushFacts { stop: true, ..facts() }, Withheld::Stopped),
            (PushFacts { mode: CodebaseMode::Staged, ..facts() }, Withheld::NotOn(CodebaseMode::Staged)),
            (PushFacts { there: None, ..facts() }, Withheld::Deleted),
            (PushFacts { taken_back: true, ..facts() }, Withheld::TakenBack),
            (PushFacts { off_base: Some((base.clone(), 2)), ..facts() }, Withheld::OffBase { base, commits: 2 }),
            (PushFacts { copies: copies.clone(), ..facts() }, Withheld::Copies(copies)),
            (PushFacts { blobs: blobs.clone(), ..facts() }, Withheld::Blobs(blobs)),
        ] {
            assert_eq!(push(facts), Push::Withheld(why));
        }
    }

    #[test]
    fn what_people_deleted_is_pushed_anew_only_with_something_on_top() {
        let deleted = PushFacts { there: None, was_there: false, ..facts() };
        assert_eq!(push(PushFacts { agreed: Some(sha('b')), ..deleted.clone() }), Push::NothingNew);
        assert_eq!(push(deleted.clone()), Push::Go);
        assert_eq!(push(PushFacts { agreed: None, ..deleted }), Push::Go);
        let there = PushFacts { agreed: Some(sha('b')), there: Some(sha('b')), ..facts() };
        assert_eq!(push(there), Push::Go);
    }

    #[test]
    fn what_was_pushed_before_a_restart_is_not_stopped() {
        let pushed = PushFacts { there: Some(sha('b')), ..facts() };
        assert_eq!(push(PushFacts { stop: true, ..pushed.clone() }), Push::Go);
        assert_eq!(push(PushFacts { mode: CodebaseMode::Off, ..pushed }), Push::Go);
    }

    #[test]
    fn what_people_did_with_a_pull_request_during_the_run_is_left_to_them() {
        let at = |unix| Some(Timestamp::from_unix(unix));
        let pull = |number, state, at: Option<Timestamp>| PullState {
            number: ThreadNumber(number),
            state,
            merged_at: at.filter(|_| state == ThreadState::Merged),
            closed_at: at,
            head: sha('a'),
        };
        let proposal = |pulls: &[PullState], began| proposal(pulls, Some(&sha('b')), began);
        let merged = |unix| pull(1, ThreadState::Merged, at(unix));
        assert_eq!(proposal(&[], at(5)), Proposal::ToBeMade);
        assert_eq!(proposal(&[merged(4)], at(5)), Proposal::ToBeMade);
        assert_eq!(proposal(&[merged(6)], at(5)), Proposal::MergedMeanwhile(ThreadNumber(1)));
        assert_eq!(proposal(&[merged(6)], None), Proposal::ToBeMade);
        assert_eq!(proposal(&[pull(1, ThreadState::Closed, None)], at(5)), Proposal::ToBeMade);
        for before in [4, 5] {
            let closed = pull(1, ThreadState::Closed, at(before));
            assert_eq!(proposal(&[closed], at(5)), Proposal::ToBeMade, "asked for again");
        }
        assert_eq!(proposal(&[pull(1, ThreadState::Closed, at(6))], at(5)), Proposal::ClosedMeanwhile(ThreadNumber(1)));
        let open = pull(2, ThreadState::Open, None);
        assert_eq!(proposal(&[merged(6), open], at(5)), Proposal::HasIt(ThreadNumber(2)));
        assert_eq!(
            super::proposal(&[merged(6)], Some(&sha('a')), at(5)),
            Proposal::HasIt(ThreadNumber(1)),
            "with all of it"
        );
    }
}
