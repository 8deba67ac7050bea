//! What became of a branch's commits: whether they are in the base, and how that is known.

use super::{Orchestrator, StepError, retry, scan::View};
use crate::decide::branches::{Branches, NameFacts, branch_name};
use crate::decide::cleanup::{BranchFacts, Lineage, MergeProof, OwnWork, own_work};
use crate::decide::create::{BaseFacts, other_base};
use crate::git::{Ends, GitError, Merging, Repository, Standing};
use crate::github::{GithubError, MergedHead};
use crate::model::*;
use crate::store::RunFilter;
use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

/// The newest runs of an environment, whose commits are looked for.
pub(super) const RUNS: u32 = 200;

/// A branch that may be in its base.
struct Claim<'a> {
    pub branch: &'a BranchName,
    pub base: BranchName,
    pub ends: Ends,
    pub standing: Standing,
    /// What git knows proves nothing: it only followed, or is fresh.
    pub only_by_github: bool,
}

/// What is known of an environment's branch.
#[derive(Clone)]
pub(super) struct SeenBranch {
    pub facts: Probe<BranchFacts>,
    /// Why GitHub did not say whether it merged it.
    pub github_silent: Option<String>,
}

/// What an environment's branch is compared with.
struct Compared {
    base: BranchName,
    ends: Ends,
    /// The same for where the remote has the branch, when that is elsewhere: people may have pushed.
    pushed: Option<Ends>,
}

impl Orchestrator {
    /// What the branch of each environment holds, in their order. What is wrong with one is an answer about that one only.
    pub(super) async fn branches(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environments: &[Environment],
        view: &View,
    ) -> Vec<SeenBranch> {
        let ask_github = match view {
            View::Fetched(Probe::Unknown(why)) => {
                let why = format!("the repository could not be fetched: {why}");
                let seen = SeenBranch { facts: Probe::Unknown(why), github_silent: None };
                return vec![seen; environments.len()];
            }
            View::Fetched(Probe::Known(())) => true,
            View::AsItIs => false,
        };
        let compared = self.compared(codebase, repository, environments).await;
        let ends = compared.iter().flatten().flat_map(|compared| [Some(&compared.ends), compared.pushed.as_ref()]);
        let ends = ends.flatten().cloned().collect();
        let standings = self.standings(repository, ends).await;
        let (mut facts, mut claims) = (Vec::new(), Vec::new());
        for (at, (environment, compared)) in environments.iter().zip(compared).enumerate() {
            let standing_of = |ends: &Ends| standings.get(ends).cloned().unwrap_or_else(|| Err(unanswered()));
            let known = async {
                let compared = compared?;
                let standing = standing_of(&compared.ends)?;
                let pushed = compared.pushed.as_ref().map(standing_of).transpose()?;
                let own = self.own_work(repository, environment, &compared, standing.ahead).await?;
                let made_at = [Some(standing), pushed].into_iter().flatten().filter_map(|one| one.last_commit);
                let last_commit = made_at.filter(|at| *at <= self.now()).max();
                Ok::<_, StepError>((compared, standing, last_commit, own))
            };
            facts.push(known.await.map(|(Compared { base, ends, .. }, standing, last_commit, own)| {
                let tip = ends.tip.clone();
                if own != OwnWork::None {
                    let only_by_github = own == OwnWork::IfMerged;
                    claims.push((at, Claim { branch: &environment.branch, base, ends, standing, only_by_github }));
                }
                BranchFacts { tip, last_commit, has_own_commits: own == OwnWork::Some, merged: None }
            }));
        }
        let (places, claims): (Vec<usize>, Vec<Claim<'_>>) = claims.into_iter().unzip();
        let proofs = self.merge_proofs(codebase, repository, &claims, ask_github).await;
        let mut silent: Vec<Option<String>> = vec![None; facts.len()];
        for (at, proof) in places.into_iter().zip(proofs) {
            match (proof, &mut facts[at]) {
                (Ok(merged), Ok(branch)) => {
                    branch.has_own_commits |= merged.is_some();
                    branch.merged = merged;
                }
                (Err(StepError::Github(error)), Ok(_)) => silent[at] = Some(error.to_string()),
                (Err(error), fact) => *fact = Err(error),
                (Ok(_), Err(_)) => {}
            }
        }
        let seen = facts.into_iter().zip(silent);
        seen.map(|(facts, github_silent)| SeenBranch { facts: facts.into(), github_silent }).collect()
    }

    /// The ends of each branch: where it stands, and where its base does.
    async fn compared(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environments: &[Environment],
    ) -> Vec<Result<Compared, StepError>> {
        let default = codebase.default_branch.as_ref();
        let names = environments.iter().flat_map(|environment| {
            let bases = environment.base.iter().chain(default).map(BranchName::remote_ref);
            [environment.branch.full_ref(), environment.branch.remote_ref()].into_iter().chain(bases)
        });
        let names: BTreeSet<String> = names.collect();
        let tips = tips(repository, names.into_iter().collect()).await;
        let tip = |name: String| match tips.get(&name) {
            Some(Ok(tip)) => Ok(Some(tip.clone())),
            Some(Err(error)) => Err(StepError::Git(error.clone())),
            None => Ok(None),
        };
        let missing = |what: String| StepError::Refused(what);
        let compared = |environment: &Environment| {
            let branch = &environment.branch;
            let here = tip(branch.full_ref())?;
            let here = here.ok_or_else(|| missing(format!("the branch {branch} no longer exists here")))?;
            let recorded = environment.base.as_ref();
            let recorded_exists = match recorded {
                Some(base) => tip(base.remote_ref())?.is_some(),
                None => false,
            };
            let other = other_base(&BaseFacts { recorded, recorded_exists, pull: None, named: None, default });
            let base = other.or(recorded).cloned().ok_or_else(|| missing("no base branch is known".to_owned()))?;
            let there = tip(base.remote_ref())?;
            let there = there.ok_or_else(|| missing(format!("the base {base} no longer exists on the remote")))?;
            let pushed = tip(branch.remote_ref())?.filter(|pushed| *pushed != here);
            let pushed = pushed.map(|pushed| Ends { tip: pushed, base: there.clone() });
            Ok(Compared { base, ends: Ends { tip: here, base: there }, pushed })
        };
        environments.iter().map(compared).collect()
    }

    /// How they stand. What was told once is remembered.
    async fn standings(&self, repository: &Repository, ends: Vec<Ends>) -> HashMap<Ends, Result<Standing, GitError>> {
        let (mut known, unknown) = self.inner.comparisons.standings(ends);
        let new = standings(repository, unknown).await;
        self.inner
            .comparisons
            .remember(new.iter().filter_map(|(ends, standing)| Some((ends, standing.as_ref().ok()?))));
        known.extend(new);
        known
    }

    async fn own_work(
        &self,
        repository: &Repository,
        environment: &Environment,
        Compared { base, ends: Ends { tip, base: base_tip }, .. }: &Compared,
        ahead: u64,
    ) -> Result<OwnWork, StepError> {
        let moved = environment.start.as_ref() != Some(tip);
        // Where people fast-forward the base to a merge of theirs, its former commits stand beside its first parents.
        let base_stood_there = ahead == 0
            && moved
            && (repository.stood_at(base_tip, tip).await? || repository.was_fetched_at(base, tip).await?);
        let worked_on = base_stood_there && self.was_worked_on(repository, environment.id, tip).await?;
        let began_ahead = environment.metadata.began_ahead;
        let is_all_the_bases = ahead > 0 && !moved && repository.taken_off(base, tip).await? == ahead;
        let ahead = if is_all_the_bases { 0 } else { ahead };
        Ok(own_work(Lineage { ahead, moved, began_ahead, base_stood_there, worked_on }))
    }

    /// How each of them is known to be merged, in their order: the cheapest proof first, GitHub is asked last, once for all.
    async fn merge_proofs(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        claims: &[Claim<'_>],
        ask_github: bool,
    ) -> Vec<Result<Option<MergeProof>, StepError>> {
        let may_be_in_base = claims.iter().filter(|claim| !claim.only_by_github);
        let may_be_in_base = may_be_in_base.filter(|claim| claim.standing.merging == Merging::Unknown);
        let (mut in_base, unknown) =
            self.inner.comparisons.merges(may_be_in_base.map(|claim| claim.ends.clone()).collect());
        let trials = trials(repository, unknown).await;
        self.inner
            .comparisons
            .remember_merges(trials.iter().filter_map(|(ends, same)| Some((ends, *same.as_ref().ok()?))));
        in_base.extend(trials);
        let mut proofs: Vec<_> = claims
            .iter()
            .map(|claim| {
                if claim.only_by_github {
                    return Ok(None);
                }
                let base = claim.base.clone();
                match (claim.standing.ahead, in_base.get(&claim.ends)) {
                    (0, _) => Ok(Some(MergeProof::Ancestor { base })),
                    (_, Some(Ok(true))) => Ok(Some(MergeProof::ContentInBase { base })),
                    (_, Some(Err(error))) => Err(StepError::Git(error.clone())),
                    (_, Some(Ok(false)) | None) => Ok(None),
                }
            })
            .collect();
        let open: Vec<usize> = (0..claims.len()).filter(|at| matches!(proofs[*at], Ok(None))).collect();
        if ask_github && !open.is_empty() {
            let merged = self.merged_by_github(codebase, open.iter().map(|at| &claims[*at])).await;
            for (at, merged) in open.into_iter().zip(merged) {
                proofs[at] = match merged {
                    Ok(merged) => Ok(merged.map(|number| MergeProof::PullRequest { number })),
                    Err(error) => Err(error.into()),
                };
            }
        }
        proofs
    }

    /// The pull request that merged each of them.
    async fn merged_by_github<'a>(
        &self,
        codebase: &Codebase,
        claims: impl Iterator<Item = &'a Claim<'a>>,
    ) -> Vec<Result<Option<ThreadNumber>, GithubError>> {
        let wanted: Vec<MergedHead> = claims
            .map(|claim| MergedHead {
                head: claim.branch.clone(),
                sha: claim.ends.tip.clone(),
                base: claim.base.clone(),
            })
            .collect();
        match self.on_github(codebase) {
            Ok(Some(github)) => github.client.merged_pull_requests(github.id, github.name, &wanted).await,
            Ok(None) => vec![Ok(None); wanted.len()],
            Err(error) => vec![Err(GithubError::Settings(error.to_string())); wanted.len()],
        }
    }

    /// What became of the branches that this work had, and which names are taken.
    pub(super) async fn branches_before(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        settings: &RepoSettings,
        work: &Work,
    ) -> Result<Branches, StepError> {
        let bases = [codebase.default_branch.as_ref(), settings.base.as_ref()];
        let Some(base) = bases[1].or(bases[0]) else { return Ok(Branches::default()) };
        let Some(base_tip) = repository.tip(&base.remote_ref()).await? else { return Ok(Branches::default()) };
        let live = self.store().live_environments(Some(codebase.id)).await?;
        let last = self.store().find_last_environment(codebase.id, work).await?;
        let last_id = last.as_ref().map(|last| last.id);
        let name = async |branch: BranchName, asked: bool, over: bool| {
            let exists = exists(repository, &branch).await?;
            let is_base = bases.contains(&Some(&branch));
            let merged = exists
                && asked
                && !is_base
                && (over || self.is_merged(codebase, repository, last_id, &branch, base, &base_tip).await?);
            let in_use = live.iter().any(|one| one.branch == branch);
            let in_the_way = match asked {
                true => None,
                false => repository.branch_in_the_way(&branch).await?,
            };
            let has_below = in_the_way.is_some_and(|other| branch.is_above(&other));
            Ok::<_, StepError>(NameFacts { branch, exists, merged, is_base, in_use, has_below })
        };
        let last = match last {
            Some(last) => {
                let over = self.was_done_with(repository, &last).await?;
                Some(name(last.branch, true, over).await?)
            }
            None => None,
        };
        let mut branches = Branches::after(last);
        while branches.last.is_none() {
            // A name that cannot be is refused when it is chosen.
            let Ok(branch) = settings.branch(&branch_name(work, branches.taken.len())) else { break };
            let over = branches.merged.as_ref() == Some(&branch);
            if branches.may_have(name(branch, branches.taken.is_empty(), over).await?) {
                break;
            }
        }
        Ok(branches)
    }

    /// The environment was removed with its branch, since all on that was in the base, and the remote still has it so.
    async fn was_done_with(&self, repository: &Repository, environment: &Environment) -> Result<bool, StepError> {
        let receipt = match self.store().receipt_of(environment.id).await {
            // Then it is asked whether all of it was merged.
            Err(error) if error.is_corrupt() => return Ok(false),
            receipt => receipt?,
        };
        let Some(receipt) = receipt else { return Ok(false) };
        let here = repository.tip(&environment.branch.full_ref()).await?;
        let there = repository.tip(&environment.branch.remote_ref()).await?;
        Ok(receipt.details.branch_deleted && here.is_none() && there.is_some() && there == receipt.details.tip)
    }

    /// Whether all there is of a branch, here and on the remote, was merged. One that has nothing that the base lacks was
    /// only if runs in its environment worked on it, or GitHub says so: it may be fresh.
    pub(super) async fn is_merged(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: Option<EnvironmentId>,
        branch: &BranchName,
        base: &BranchName,
        base_tip: &CommitSha,
    ) -> Result<bool, StepError> {
        let here = repository.tip(&branch.full_ref()).await?;
        let there = repository.tip(&branch.remote_ref()).await?;
        let mut tips: BTreeSet<CommitSha> = here.iter().chain(&there).cloned().collect();
        // The branch here may be behind what people pushed and merged.
        if let (Some(here), Some(there)) = (&here, &there)
            && here != there
            && repository.is_ancestor(here, there).await?
        {
            tips.remove(here);
        }
        for tip in &tips {
            let ends = Ends { tip: tip.clone(), base: base_tip.clone() };
            let standing = match self.standings(repository, vec![ends.clone()]).await.remove(&ends) {
                Some(standing) => standing?,
                None => return Err(unanswered().into()),
            };
            if let (0, Some(environment)) = (standing.ahead, environment)
                && self.was_worked_on(repository, environment, tip).await?
            {
                continue;
            }
            let only_by_github = standing.ahead == 0;
            let claim = [Claim { branch, base: base.clone(), ends, standing, only_by_github }];
            let proof = retry::patiently(|| async {
                let proof = self.merge_proofs(codebase, repository, &claim, true).await.pop();
                proof.unwrap_or_else(|| Err(unanswered().into()))
            });
            if proof.await?.is_none() {
                return Ok(false);
            }
        }
        Ok(!tips.is_empty())
    }

    /// Whether a run of the environment left commits of the branch's own on it, which are in `tip`.
    async fn was_worked_on(
        &self,
        repository: &Repository,
        environment: EnvironmentId,
        tip: &CommitSha,
    ) -> Result<bool, StepError> {
        for run in self.store().list_runs(RunFilter::Environment(environment), RUNS, 0).await? {
            let (Some(head), Some(_)) = (run.outcome.head_after, run.outcome.commits) else { continue };
            match repository.is_ancestor(&head, tip).await {
                Ok(true) => return Ok(true),
                // People took it off the branch, if it is there at all.
                Ok(false) | Err(GitError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }
}

/// For how long single questions are asked after the one about all has failed.
const PATIENCE: Duration = Duration::from_secs(300);

/// Asks about all at once; where that fails, about each by itself, so that what is wrong with one is an answer about that one
/// only.
macro_rules! asked_together {
    ($asked:ident, $ask:expr) => {{
        let mut answers = HashMap::new();
        if $asked.is_empty() {
            return answers;
        }
        match $ask($asked.clone()).await {
            Ok(all) => answers.extend(all.into_iter().map(|(key, answer)| (key, Ok(answer)))),
            Err(error) => {
                let (begun, is_one) = (Instant::now(), $asked.len() == 1);
                for key in $asked {
                    if is_one || begun.elapsed() > PATIENCE {
                        answers.insert(key, Err(error.clone()));
                        continue;
                    }
                    match $ask(vec![key.clone()]).await {
                        Ok(one) => answers.extend(one.into_iter().map(|(key, answer)| (key, Ok(answer)))),
                        Err(error) => drop(answers.insert(key, Err(error))),
                    }
                }
            }
        }
        answers
    }};
}

async fn tips(repository: &Repository, names: Vec<String>) -> HashMap<String, Result<CommitSha, GitError>> {
    asked_together!(names, |names| repository.tips(names))
}

async fn standings(repository: &Repository, ends: Vec<Ends>) -> HashMap<Ends, Result<Standing, GitError>> {
    asked_together!(ends, |ends| repository.standings(ends))
}

/// Whether merging each of them adds nothing.
async fn trials(repository: &Repository, ends: Vec<Ends>) -> HashMap<Ends, Result<bool, GitError>> {
    asked_together!(ends, |ends| repository.merges_that_add_nothing(ends))
}

fn unanswered() -> GitError {
    GitError::Unreadable("git did not say how the branch stands".to_owned())
}

/// Here or on the remote.
async fn exists(repository: &Repository, branch: &BranchName) -> Result<bool, GitError> {
    let here = repository.tip(&branch.full_ref()).await?;
    Ok(here.is_some() || repository.tip(&branch.remote_ref()).await?.is_some())
}
