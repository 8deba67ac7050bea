//! Which environment a message gets: the conversation's, the same work's, linked work's, or a new one.

mod facts;

pub use facts::*;

use super::branches::branch_name;
use crate::model::*;
use std::path::PathBuf;

/// The choice, and which rows turned out to be stale on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Live rows whose worktree is gone: to be marked destroyed, and the person told.
    pub forget: Vec<EnvironmentId>,
    pub choice: Choice,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    Use {
        environment: EnvironmentId,
        found: Found,
    },
    Create(Place),
    /// This linked environment, which holds nothing of its own, is taken away; then it is decided anew, and the pull
    /// request's own is made, most likely as this place.
    MakeWay {
        environment: EnvironmentId,
        place: Place,
    },
    /// The place is there already: taken under management instead of making a second one.
    Adopt {
        place: Place,
        path: PathBuf,
        from: AdoptedFrom,
        /// It holds something uncommitted, which goes along with the run's commit.
        unclean: bool,
    },
    Block(Block),
}

/// How an existing environment was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Conversation,
    SameWork,
    Linked(Work),
    /// Linked work whose branch lacks the pull request's head; the settings ask to share it all the same.
    LinkedApart(Work),
}

/// A new environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub work: Work,
    pub branch: BranchName,
    pub base: BranchName,
    pub origin: Origin,
    pub links: Vec<Work>,
    /// Linked work that has an environment which could not be shared, and why.
    pub not_shared: Option<(Work, Apart)>,
    /// The branch that this work had before, which is merged.
    pub instead_of: Option<BranchName>,
}

/// Why linked work's environment is not shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apart {
    /// One of the two is a fork's pull request.
    Fork,
    /// It lacks the pull request's head.
    LacksHead,
    /// It lacks what is kept on the issue's own branch.
    LacksKept(BranchName),
    /// It could not be examined.
    Doubt,
    /// The settings keep threads apart.
    Settings,
}

/// What a new worktree starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The tip of the base branch on the remote.
    Base,
    /// The pull request's own head branch on the remote; results are pushed there.
    PullHead,
    /// The last commit of a pull request whose branch `head` is not to be worked on; results go to a branch of their own.
    LostHead { head: BranchName, sha: CommitSha, lost: Lost },
    /// `refs/pull/<n>/head`, pinned to this commit; results cannot be pushed.
    PinnedHead { number: ThreadNumber, sha: CommitSha },
}

/// Why a pull request's own branch is not worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It was deleted.
    Gone,
    /// It is the repository's default branch, to which nothing is pushed past a review.
    Default,
    /// The settings make it the base of new work, which is the same to those who review.
    Base,
    /// Its name would end the code span it is shown in.
    Unshowable,
    /// Its name is one that git takes for something else.
    Refused,
}

/// Why nothing may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    EmptyRepository,
    /// The repository has branches, but not the one that its host calls the default; `None`: the host names none, as where
    /// no branch is checked out on this machine.
    NoDefaultBranch(Option<BranchName>),
    /// The base that the repository's settings name is not on the remote.
    NoSuchBase(BranchName),
    /// A worktree is recorded but could not be examined; making another could split the work.
    CannotVerify {
        environment: EnvironmentId,
        why: String,
    },
    /// The files are there, but git no longer knows the worktree, and it could not be mended.
    Broken {
        environment: EnvironmentId,
    },
    /// Somebody made a repository of its own in this worktree.
    OwnRepository {
        environment: EnvironmentId,
    },
    /// Something that is not ours stands where this worktree belongs.
    ForeignPath {
        environment: EnvironmentId,
    },
    /// The base that was asked for, or that work began on, is not on the remote.
    BaseMissing(BranchName),
    /// The base branch's name would end the code span it is shown in.
    UnshowableBase,
    /// Work is branched off it and goes there through a review only.
    ProtectedBranch(BranchName),
    /// It holds the commits of a fork's pull request.
    ForkBranch(BranchName),
    /// A branch name from outside that we refuse.
    BadBranch(String),
    /// A worktree that we did not make stands where this branch's would, and is on something else.
    PlaceTaken {
        branch: BranchName,
        /// Absent: nothing that could be named.
        on: Option<BranchName>,
    },
    /// A worktree that is not to be touched has the branch, and git has a branch in one worktree only.
    CheckedOut {
        branch: BranchName,
        why: Unfit,
    },
}

/// First hit wins: conversation, same work, the conversation's place of old, safe linked work, a worktree that is there,
/// creation, for which linked work's environment may make way. The place of old cannot come before the same work, which has
/// one live environment at most: where that serves or is in doubt, the place of old stays as it is.
pub fn resolve(facts: &ResolveFacts) -> Resolution {
    let mut forget = Vec::new();
    let own = [(&facts.current, Found::Conversation), (&facts.same_work, Found::SameWork)];
    for (candidate, found) in own {
        let Some(candidate) = candidate else { continue };
        match examine(candidate, &mut forget) {
            Seen::Usable => return Resolution { forget, choice: use_it(candidate, found) },
            Seen::Stale => {}
            Seen::Doubtful(block) => return Resolution { forget, choice: Choice::Block(block) },
        }
    }

    if let Some(choice) = of_old(facts) {
        return Resolution { forget, choice };
    }

    let (mut not_shared, mut way) = (None, None);
    for linked in &facts.linked {
        let why = match (examine(&linked.candidate, &mut forget), sharing(linked, facts)) {
            (Seen::Stale, _) => continue,
            (Seen::Doubtful(_), Err(why @ (Apart::Fork | Apart::Settings | Apart::LacksKept(_)))) => why,
            // Whole, it might have made way.
            (Seen::Doubtful(_), Ok(_) | Err(Apart::LacksHead | Apart::Doubt)) => Apart::Doubt,
            (Seen::Usable, shared) => {
                let makes_way = makes_way(linked, facts);
                if makes_way {
                    way.get_or_insert(linked.candidate.environment.id);
                }
                match shared {
                    // In its place there will be one that has the pull request's head.
                    Ok(Found::LinkedApart(_)) if makes_way => Apart::LacksHead,
                    Ok(found) => return Resolution { forget, choice: use_it(&linked.candidate, found) },
                    Err(why) => why,
                }
            }
        };
        not_shared.get_or_insert_with(|| (linked.candidate.environment.work.clone(), why));
    }
    let choice = match (create(facts, not_shared), way) {
        (Choice::Create(place), Some(environment)) => Choice::MakeWay { environment, place },
        (choice, _) => choice,
    };
    Resolution { forget, choice }
}

/// A branch that a person names, and what is known about it.
#[derive(Clone, Debug)]
pub struct NamedFacts {
    pub work: Work,
    pub branch: BranchName,
    /// The base they named.
    pub base: Option<BranchName>,
    pub settings_base: Option<BranchName>,
    pub default_branch: Option<BranchName>,
    pub remote: Remote,
    /// Which of the first two exist on the remote.
    pub on_remote: Vec<BranchName>,
    pub strays: Vec<Stray>,
}

/// A new environment on a branch that a person names, for whichever thread asked. Nothing is pushed to a base.
/// Answers with the place, and with the worktree that has the branch, if there is one and it may be taken over.
pub fn on_named_branch(facts: NamedFacts) -> Result<(Place, Option<(PathBuf, AdoptedFrom)>), Block> {
    let NamedFacts { work, branch, base, settings_base, default_branch, remote, on_remote, strays } = facts;
    let protected = [&default_branch, &settings_base].into_iter().flatten().any(|protected| *protected == branch);
    let base = match (base, settings_base) {
        (Some(named), _) if !on_remote.contains(&named) => return Err(Block::BaseMissing(named)),
        (None, Some(configured)) if !on_remote.contains(&configured) => return Err(Block::NoSuchBase(configured)),
        (Some(base), _) | (None, Some(base)) => base,
        (None, None) => remote.base(default_branch.as_ref())?.clone(),
    };
    if protected || base == branch {
        return Err(Block::ProtectedBranch(branch));
    }
    if !base.is_showable() {
        return Err(Block::UnshowableBase);
    }
    if !branch.is_showable() {
        return Err(Block::BadBranch(
            "it has a back-tick or a character that turns text around in its name, which no comment can show safely"
                .to_owned(),
        ));
    }
    let there = there(&strays, &branch)?;
    let (origin, links) = (Origin::Base, Vec::new());
    Ok((Place { work, branch, base, origin, links, not_shared: None, instead_of: None }, there))
}

enum Seen {
    Usable,
    Stale,
    Doubtful(Block),
}

fn examine(candidate: &Candidate, forget: &mut Vec<EnvironmentId>) -> Seen {
    let environment = &candidate.environment;
    // A row still being created has no worktree yet; using it means finishing its creation.
    match environment.state {
        EnvironmentState::Creating => return Seen::Usable,
        EnvironmentState::Removing | EnvironmentState::Destroyed => return Seen::Stale,
        EnvironmentState::Active => {}
    }
    match &candidate.validity {
        Probe::Known(Validity::Valid) => Seen::Usable,
        Probe::Known(Validity::Missing) => {
            if !forget.contains(&environment.id) {
                forget.push(environment.id);
            }
            Seen::Stale
        }
        Probe::Known(Validity::Broken) => Seen::Doubtful(Block::Broken { environment: environment.id }),
        Probe::Known(Validity::OwnRepository) => Seen::Doubtful(Block::OwnRepository { environment: environment.id }),
        Probe::Known(Validity::Foreign) => Seen::Doubtful(Block::ForeignPath { environment: environment.id }),
        Probe::Unknown(why) => Seen::Doubtful(Block::CannotVerify { environment: environment.id, why: why.clone() }),
    }
}

fn use_it(candidate: &Candidate, found: Found) -> Choice {
    Choice::Use { environment: candidate.environment.id, found }
}

/// How linked work's environment may be used, or why not. By default sharing must not mix two lines of work: the pull
/// request's head has to be the environment's branch, or be contained in it. A fork's head is never shared, whatever its
/// branch is called and whatever the settings say: it is neither trusted nor pushed to.
fn sharing(linked: &LinkedCandidate, facts: &ResolveFacts) -> Result<Found, Apart> {
    let environment = &linked.candidate.environment;
    let pull = facts.pull.as_ref();
    if environment.metadata.fork_head.is_some() || pull.is_some_and(|pull| pull.fork) {
        return Err(Apart::Fork);
    }
    let has_it = |branch: &BranchName| environment.branch == *branch || linked.contains_head == Probe::Known(true);
    let one_line = match (pull, &facts.branches.last) {
        (Some(pull), _) => has_it(&pull.head),
        // An issue joins its pull request's environment, unless it goes on elsewhere.
        (None, Some(kept)) if facts.settings.share_linked == ShareLinked::Auto && !has_it(kept) => {
            return Err(match linked.contains_head {
                Probe::Known(_) => Apart::LacksKept(kept.clone()),
                Probe::Unknown(_) => Apart::Doubt,
            });
        }
        (None, _) => true,
    };
    let work = environment.work.clone();
    match facts.settings.share_linked {
        ShareLinked::Auto | ShareLinked::Always if one_line => Ok(Found::Linked(work)),
        ShareLinked::Always if linked.contains_head == Probe::Known(false) => Ok(Found::LinkedApart(work)),
        ShareLinked::Auto | ShareLinked::Always => Err(match linked.contains_head {
            Probe::Known(_) => Apart::LacksHead,
            Probe::Unknown(_) => Apart::Doubt,
        }),
        // Another worktree on the same branch cannot be, and refusing would leave the pull request to nobody.
        ShareLinked::Never => match beginning(facts) {
            Ok((wanted, _)) if wanted == environment.branch => Ok(Found::Linked(work)),
            Ok(_) | Err(_) => Err(Apart::Settings),
        },
    }
}

/// Whether linked work's environment may make way for the pull request's own, on its real head branch. One is enough.
fn makes_way(linked: &LinkedCandidate, facts: &ResolveFacts) -> bool {
    let wanted = match facts.settings.share_linked {
        ShareLinked::Auto | ShareLinked::Always => facts.made_way.is_none(),
        ShareLinked::Never => false,
    };
    wanted
        && linked.may_make_way
        && linked.candidate.is_valid()
        && linked.candidate.environment.state == EnvironmentState::Active
        && facts.pull.as_ref().is_some_and(|pull| !pull.fork)
        && matches!(beginning(facts), Ok((_, Origin::PullHead)))
}

/// The place of old, when it still serves: a pull request's must be on the branch its results go to. What is uncommitted in
/// it is this very thread's.
fn of_old(facts: &ResolveFacts) -> Option<Choice> {
    let stray = facts.legacy.as_ref()?;
    let unclean = match stray.unfit() {
        None => false,
        Some(Unfit::Unclean) => true,
        Some(Unfit::Gone | Unfit::NotWhole | Unfit::Locked(_) | Unfit::Unfinished | Unfit::Doubt(_)) => return None,
    };
    let place = place(facts, None).ok()?;
    let bases = [facts.default_branch.as_ref(), facts.settings.base.as_ref(), Some(&place.base)];
    let results_go_to = facts.pull.is_some().then_some(&place.branch);
    let branch = stray.branch.as_ref().filter(|branch| goes_on(branch, results_go_to, &bases))?;
    let place = Place { branch: branch.clone(), ..place };
    Some(Choice::Adopt { place, path: stray.path.clone(), from: AdoptedFrom::Legacy, unclean })
}

/// Whether work may go on on the branch it had of old: a pull request's on the one its results go to, other work on any that
/// is no base and does not hold a fork's commits.
pub fn goes_on(branch: &BranchName, results_go_to: Option<&BranchName>, bases: &[Option<&BranchName>]) -> bool {
    let is_its = match results_go_to {
        Some(wanted) => wanted == branch,
        None => !may_be_a_forks(branch),
    };
    branch.is_showable() && !bases.contains(&Some(branch)) && is_its
}

/// So is a branch called that holds the head of a pull request, which may be a fork's: it must never be pushed here.
pub fn may_be_a_forks(branch: &BranchName) -> bool {
    let number = branch.as_str().strip_prefix("pr-").and_then(|rest| rest.strip_suffix("-review"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// A new one, unless a worktree that nobody manages has the branch.
fn create(facts: &ResolveFacts, not_shared: Option<(Work, Apart)>) -> Choice {
    let chosen = place(facts, not_shared).and_then(|place| {
        let there = there(&facts.strays, &place.branch)?;
        Ok(match there {
            None => Choice::Create(place),
            Some((path, from)) => Choice::Adopt { place, path, from, unclean: false },
        })
    });
    chosen.unwrap_or_else(Choice::Block)
}

/// The worktree that has the branch, and how it was found. Whatever else stands at the place of a new one is somebody's: it
/// is neither worked in nor moved.
fn there(strays: &[Stray], branch: &BranchName) -> Result<Option<(PathBuf, AdoptedFrom)>, Block> {
    if let Some(stray) = strays.iter().find(|stray| stray.is_on(branch)) {
        let from = if stray.at_place { AdoptedFrom::Path } else { AdoptedFrom::Branch };
        return match stray.unfit() {
            None => Ok(Some((stray.path.clone(), from))),
            Some(why) => Err(Block::CheckedOut { branch: branch.clone(), why }),
        };
    }
    match strays.iter().find(|stray| stray.at_place) {
        None => Ok(None),
        Some(stray) => Err(Block::PlaceTaken { branch: branch.clone(), on: stray.branch.clone() }),
    }
}

fn place(facts: &ResolveFacts, not_shared: Option<(Work, Apart)>) -> Result<Place, Block> {
    let (branch, origin) = beginning(facts)?;
    let (work, links) = (facts.work.clone(), facts.links.clone());
    let is_new = origin == Origin::Base && facts.branches.last.is_none();
    let instead_of = facts.branches.merged.clone().filter(|merged| is_new && *merged != branch);
    Ok(Place { work, branch, base: base(facts)?, origin, links, not_shared, instead_of })
}

/// The branch of a new environment, if one can be made: of the worktrees that nobody manages, the one that has it matters.
pub fn new_branch(facts: &ResolveFacts) -> Option<BranchName> {
    beginning(facts).ok().map(|(branch, _)| branch)
}

/// The branch of a new environment, and what it starts from.
fn beginning(facts: &ResolveFacts) -> Result<(BranchName, Origin), Block> {
    let named = |name: &str| facts.settings.branch(name).map_err(|error| Block::BadBranch(error.to_string()));
    let Some(pull) = &facts.pull else {
        let branch = match &facts.branches.last {
            Some(last) => last.clone(),
            None => named(&branch_name(&facts.work, facts.branches.taken.len()))?,
        };
        return Ok((branch, Origin::Base));
    };
    let sha = pull.head_sha.clone();
    let lost = |lost| Origin::LostHead { head: pull.head.clone(), sha: sha.clone(), lost };
    let origin = match pull {
        _ if pull.fork => Origin::PinnedHead { number: pull.number, sha },
        _ if pull.head_renamed => lost(Lost::Refused),
        _ if pull.head_gone => lost(Lost::Gone),
        _ if facts.default_branch.as_ref() == Some(&pull.head) => lost(Lost::Default),
        _ if facts.settings.base.as_ref() == Some(&pull.head) => lost(Lost::Base),
        _ if !pull.head.is_showable() => lost(Lost::Unshowable),
        _ => Origin::PullHead,
    };
    let branch = match origin {
        Origin::PullHead | Origin::Base => pull.head.clone(),
        Origin::PinnedHead { .. } | Origin::LostHead { .. } => {
            named(&Work { kind: WorkKind::Review, id: pull.number.to_string() }.branch())?
        }
    };
    Ok((branch, origin))
}

/// What a new environment's work is to be merged into.
fn base(facts: &ResolveFacts) -> Result<BranchName, Block> {
    let base = match (&facts.pull, &facts.settings.base) {
        (Some(pull), _) => &pull.base,
        (None, Some(named)) if !facts.named_base_exists => return Err(Block::NoSuchBase(named.clone())),
        (None, Some(named)) => named,
        (None, None) => facts.remote.base(facts.default_branch.as_ref())?,
    };
    if base.is_showable() { Ok(base.clone()) } else { Err(Block::UnshowableBase) }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
