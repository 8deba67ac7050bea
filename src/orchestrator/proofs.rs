//! What became of a branch's commits: whether they are in the base, and how that is known.

use super::{Orchestrator, StepError, retry};
use crate::decide::branches::{Branches, NameFacts, branch_name};
use crate::decide::cleanup::{BranchFacts, Lineage, MergeProof, OwnWork, own_work};
use crate::decide::create::{BaseFacts, other_base};
use crate::git::{GitError, Repository};
use crate::model::*;
use crate::store::RunFilter;
use std::collections::BTreeSet;

/// The newest runs of an environment, whose commits are looked for.
pub(super) const RUNS: u32 = 200;

impl Orchestrator {
    pub(super) async fn branch_facts(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: &Environment,
        ask_github: bool,
    ) -> Result<BranchFacts, StepError> {
        let missing = |what: String| StepError::Refused(what);
        let branch = &environment.branch;
        let tip = repository
            .tip(&branch.full_ref())
            .await?
            .ok_or_else(|| missing(format!("the branch {branch} no longer exists here")))?;
        let recorded = environment.base.as_ref();
        let recorded_exists = match recorded {
            Some(base) => repository.tip(&base.remote_ref()).await?.is_some(),
            None => false,
        };
        let default = codebase.default_branch.as_ref();
        let other = other_base(&BaseFacts { recorded, recorded_exists, pull: None, named: None, default });
        let base = other.or(recorded).cloned().ok_or_else(|| missing("no base branch is known".to_owned()))?;
        let base_tip = repository
            .tip(&base.remote_ref())
            .await?
            .ok_or_else(|| missing(format!("the base {base} no longer exists on the remote")))?;
        let (ahead, _) = repository.ahead_behind(&tip, &base_tip).await?;
        let newest = repository.log(&base_tip, &tip, 1).await?;
        let last_commit = newest.first().map(|commit| commit.committed_at);
        let moved = environment.start.as_ref() != Some(&tip);
        let base_stood_there = ahead == 0 && moved && repository.stood_at(&base_tip, &tip).await?;
        let worked_on = base_stood_there && self.was_worked_on(repository, environment.id, &tip).await?;
        let began_ahead = environment.metadata.began_ahead;
        let is_all_the_bases = ahead > 0 && !moved && repository.taken_off(&base, &tip).await? == ahead;
        let own = if is_all_the_bases { 0 } else { ahead };
        match own_work(Lineage { ahead: own, moved, began_ahead, base_stood_there, worked_on }) {
            OwnWork::None => return Ok(BranchFacts { tip, last_commit, has_own_commits: false, merged: None }),
            OwnWork::IfMerged => {
                let merged = match ask_github {
                    true => self.merged_by_github(codebase, branch, &tip, &base).await?,
                    false => None,
                };
                return Ok(BranchFacts { tip, last_commit, has_own_commits: merged.is_some(), merged });
            }
            OwnWork::Some => {}
        }
        let merged = self.merge_proof(codebase, repository, branch, &tip, base, &base_tip, ahead, ask_github).await?;
        Ok(BranchFacts { tip, last_commit, has_own_commits: true, merged })
    }

    /// Cheapest proof first; GitHub is asked last.
    #[expect(clippy::too_many_arguments, reason = "two ends of one comparison, by name and by commit")]
    async fn merge_proof(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        branch: &BranchName,
        tip: &CommitSha,
        base: BranchName,
        base_tip: &CommitSha,
        ahead: u64,
        ask_github: bool,
    ) -> Result<Option<MergeProof>, StepError> {
        if ahead == 0 {
            return Ok(Some(MergeProof::Ancestor { base }));
        }
        // Commits that cancel each other out add nothing to the base without ever having been merged.
        if !repository.net_diff_empty(base_tip, tip).await? && repository.merge_adds_nothing(base_tip, tip).await? {
            return Ok(Some(MergeProof::ContentInBase { base }));
        }
        match ask_github {
            true => self.merged_by_github(codebase, branch, tip, &base).await,
            false => Ok(None),
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
            let (ahead, _) = repository.ahead_behind(tip, base_tip).await?;
            if let (0, Some(environment)) = (ahead, environment)
                && self.was_worked_on(repository, environment, tip).await?
            {
                continue;
            }
            let proof = retry::patiently(|| async {
                match ahead {
                    0 => self.merged_by_github(codebase, branch, tip, base).await,
                    _ => {
                        let base = base.clone();
                        self.merge_proof(codebase, repository, branch, tip, base, base_tip, ahead, true).await
                    }
                }
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

    async fn merged_by_github(
        &self,
        codebase: &Codebase,
        branch: &BranchName,
        tip: &CommitSha,
        base: &BranchName,
    ) -> Result<Option<MergeProof>, StepError> {
        let Some(github) = self.on_github(codebase)? else { return Ok(None) };
        let merged = github.client.merged_pull_request(github.id, github.name, branch, tip, base).await?;
        Ok(merged.map(|number| MergeProof::PullRequest { number }))
    }
}

/// Here or on the remote.
async fn exists(repository: &Repository, branch: &BranchName) -> Result<bool, GitError> {
    let here = repository.tip(&branch.full_ref()).await?;
    Ok(here.is_some() || repository.tip(&branch.remote_ref()).await?.is_some())
}
