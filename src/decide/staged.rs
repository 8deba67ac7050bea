//! What would be done for a request in a staged codebase, by names and rows alone: nobody is asked, and nothing is looked at.

use crate::model::*;

/// What is known of a thread whose request is not carried out.
#[derive(Clone, Debug)]
pub struct StagedFacts {
    pub thread: ThreadId,
    /// The live environment that the thread goes on in, else that of its work.
    pub there: Option<Environment>,
    pub default_branch: Option<BranchName>,
    /// As far as the repository's settings were read before.
    pub settings: RepoSettings,
    /// One on this machine has none.
    pub has_pull_requests: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    pub place: Place,
    pub then: Then,
}

/// Where the agent would work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    There {
        work: Work,
        branch: BranchName,
    },
    /// On the own branch of a pull request, or on a review's where that is in a fork.
    PullRequest(ThreadNumber),
    New {
        work: Work,
        /// Absent where the repository's prefix makes no name of it.
        branch: Option<BranchName>,
        base: Option<BranchName>,
    },
}

/// What would become of the agent's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// A fork's commits go nowhere.
    Stays,
    Pushed,
    Proposed {
        into: Option<BranchName>,
        draft: bool,
    },
}

pub fn foresee(facts: &StagedFacts) -> Foreseen {
    let base = facts.settings.base.clone().or_else(|| facts.default_branch.clone());
    let (place, base) = match (&facts.there, facts.thread.pull_request()) {
        (Some(there), _) => {
            let place = Place::There { work: there.work.clone(), branch: there.branch.clone() };
            (place, there.base.clone().or(base))
        }
        (None, Some(number)) => (Place::PullRequest(number), base),
        (None, None) => {
            let work = Work::of_thread(&facts.thread);
            let branch = facts.settings.branch(&work.branch()).ok();
            (Place::New { work, branch, base: base.clone() }, base)
        }
    };
    Foreseen { place, then: then(facts, base) }
}

fn then(facts: &StagedFacts, into: Option<BranchName>) -> Then {
    let there = facts.there.as_ref();
    if there.is_some_and(|there| there.metadata.fork_head.is_some()) {
        return Then::Stays;
    }
    let has_one =
        facts.thread.pull_request().is_some() || there.is_some_and(|there| there.work.kind == WorkKind::PullRequest);
    match facts.settings.pull_request {
        _ if has_one || !facts.has_pull_requests => Then::Pushed,
        PullRequestMode::Draft => Then::Proposed { into, draft: true },
        PullRequestMode::Open => Then::Proposed { into, draft: false },
        PullRequestMode::Link | PullRequestMode::Never => Then::Pushed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cleanup::tests::facts as removal_facts;
    use super::*;

    fn branch(name: &str) -> BranchName {
        BranchName::new(name).unwrap()
    }

    fn facts(kind: ThreadKind) -> StagedFacts {
        StagedFacts {
            thread: ThreadId::Numbered { kind, number: ThreadNumber(7) },
            there: None,
            default_branch: Some(branch("main")),
            settings: RepoSettings::default(),
            has_pull_requests: true,
        }
    }

    #[test]
    fn new_work_gets_its_branch_from_the_base_and_a_pull_request() {
        let mut facts = facts(ThreadKind::Issue);
        let Foreseen { place, then } = foresee(&facts);
        let work = Work::of_thread(&facts.thread);
        let place_on = |name: &str, base: &str| Place::New {
            work: work.clone(),
            branch: Some(branch(name)),
            base: Some(branch(base)),
        };
        assert_eq!(place, place_on("issue-7", "main"));
        assert_eq!(then, Then::Proposed { into: Some(branch("main")), draft: true });
        facts.settings.base = Some(branch("next"));
        facts.settings.pull_request = PullRequestMode::Never;
        assert_eq!(foresee(&facts), Foreseen { place: place_on("issue-7", "next"), then: Then::Pushed });
        facts.settings.pull_request = PullRequestMode::Open;
        assert_eq!(foresee(&facts).then, Then::Proposed { into: Some(branch("next")), draft: false });
        facts.has_pull_requests = false;
        assert_eq!(foresee(&facts).then, Then::Pushed);
    }

    #[test]
    fn what_is_there_is_gone_on_with() {
        let there = removal_facts().environment;
        let place = Place::There { work: there.work.clone(), branch: there.branch.clone() };
        let facts = StagedFacts { there: Some(there.clone()), ..facts(ThreadKind::Issue) };
        assert_eq!(foresee(&facts).place, place);
        let mut of_fork = there;
        of_fork.metadata.fork_head = Some(CommitSha::new(&"a".repeat(40)).unwrap());
        assert_eq!(foresee(&StagedFacts { there: Some(of_fork), ..facts }).then, Then::Stays);
    }

    #[test]
    fn a_pull_request_is_worked_on_as_it_is() {
        let foreseen = foresee(&facts(ThreadKind::PullRequest));
        assert_eq!(foreseen, Foreseen { place: Place::PullRequest(ThreadNumber(7)), then: Then::Pushed });
    }
}
