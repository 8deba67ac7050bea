//! Questions to the store, git and GitHub, answered as facts for `decide`. Nothing is changed here but caches.

use super::{
    Orchestrator, StepError,
    links::{FoundElsewhere, Links},
};
use crate::decide::branches::Branches;
use crate::decide::orphans::{branch_of_conversation, is_of_nobody_else};
use crate::decide::resolve::{Candidate, Holds, LinkedCandidate, PullFacts, Remote, ResolveFacts, Stray, new_branch};
use crate::git::{GitError, Repository, Worktree};
use crate::github::PullRequest;
use crate::isolation::{Maker, Stage};
use crate::model::*;
use crate::reply::commands::Seen;
use crate::store::StoreError;
use std::path::Path;

/// The work a thread stands for.
pub(super) fn work_of(conversation: &Conversation) -> Work {
    Work::of_thread(&conversation.thread)
}

/// Whether the thread is the one that an environment was made for.
pub(super) fn is_own(conversation: &Conversation, work: &Work) -> bool {
    match work.thread() {
        // A review has the number of its pull request.
        Some(number) => conversation.thread.number() == Some(number),
        None => work_of(conversation) == *work,
    }
}

/// The ref under which a pull request's head is kept.
pub(super) fn pull_ref(number: ThreadNumber) -> String {
    format!("refs/treewarden/pr/{number}")
}

impl Orchestrator {
    /// The thread that a piece of work stands for, if it was ever met; a task belongs to whoever uses it.
    pub(super) async fn thread_of_work(
        &self,
        codebase: CodebaseId,
        work: &Work,
    ) -> Result<Option<Conversation>, StoreError> {
        if let Some(number) = work.thread() {
            return self.store().find_conversation(codebase, number).await;
        }
        match (work.kind, ThreadName::new(&work.id)) {
            (WorkKind::Thread, Ok(name)) => {
                let thread = self.store().find_named_thread(PlatformKind::Local, &name).await?;
                Ok(thread.filter(|thread| thread.codebase == codebase))
            }
            _ => Ok(None),
        }
    }

    /// Everything the choice of an environment depends on, and what is linked with the thread elsewhere, of which none does.
    /// The canonical repository has just been fetched.
    pub(super) async fn gather_resolve_facts(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        repository: &Repository,
        pull: Option<&PullRequest>,
        settings: &RepoSettings,
        delivery: InboxId,
    ) -> Result<(ResolveFacts, FoundElsewhere), StepError> {
        let work = work_of(conversation);
        let current = match conversation.environment {
            Some(id) => self.store().load_environment(id).await?,
            None => None,
        };
        let same_work = match self.store().find_live_environment(codebase.id, &work).await? {
            None => self.adopted_for(codebase, settings, &work).await?,
            same_work => same_work,
        };
        let Links { here: links, elsewhere, unknown: links_unknown } = self.links(codebase, conversation, pull).await?;
        let examined = async |environment: Option<Environment>| match environment {
            Some(environment) => Some(self.candidate(repository, environment).await),
            None => None,
        };
        let (current, same_work) = (examined(current).await, examined(same_work).await);
        // One that was let go of is still there, and is nobody's.
        let is_live = |one: &&Candidate| one.environment.state != EnvironmentState::Destroyed;
        let has_place = current.iter().chain(&same_work).filter(is_live).any(Candidate::is_valid);
        let pull_facts = match pull {
            Some(pull) => Some(pull_facts(repository, pull).await?),
            None => None,
        };
        // What is on the pull request's own branch is its work, whatever GitHub knows of links.
        let on_its_branch = match &pull_facts {
            Some(pull) if !pull.fork && !pull.head_gone && !pull.head_renamed => {
                self.store().find_live_environment_on(codebase.id, &pull.head).await?
            }
            Some(_) | None => None,
        };
        let mut others: Vec<_> = on_its_branch.into_iter().collect();
        for link in &links {
            let environment = self.store().find_live_environment(codebase.id, link).await?;
            others.extend(environment.filter(|new| others.iter().all(|one| one.id != new.id)));
        }
        let branches = match pull {
            None if !has_place => Box::pin(self.branches_before(codebase, repository, settings, &work)).await?,
            None | Some(_) => Branches::default(),
        };
        let mut kept = None;
        if let Some(last) = &branches.last {
            // Whoever has its branch has its work, whatever GitHub knows of links.
            let there = self.store().find_live_environment_on(codebase.id, last).await?;
            others.extend(there.filter(|new| others.iter().all(|one| one.id != new.id)));
            kept = match repository.tip(&last.full_ref()).await? {
                Some(tip) => Some(tip),
                None => repository.tip(&last.remote_ref()).await?,
            };
        }
        let wanted = pull.map(|pull| &pull.head_sha).or(kept.as_ref());
        let mut linked = Vec::new();
        for environment in others {
            let contains_head = match wanted {
                Some(commit) => contains(repository, &environment.branch, commit).await,
                None => Probe::Known(false),
            };
            let candidate = self.candidate(repository, environment).await;
            // It costs much, and is asked for only where it may matter.
            let may_make_way = match pull {
                Some(pull) if !has_place && !pull.is_fork() && candidate.is_valid() => {
                    self.may_make_way(codebase, repository, &candidate.environment, &pull.head).await?
                }
                Some(_) | None => false,
            };
            linked.push(LinkedCandidate { candidate, contains_head, may_make_way });
        }
        let on_remote = async |branch: Option<&BranchName>| match branch {
            Some(branch) => Ok::<_, StepError>(repository.tip(&branch.remote_ref()).await?.is_some()),
            None => Ok(false),
        };
        let mut facts = ResolveFacts {
            work,
            pull: pull_facts,
            default_branch: codebase.default_branch.clone(),
            remote: self.remote(codebase, repository).await?,
            settings: settings.clone(),
            named_base_exists: on_remote(settings.base.as_ref()).await?,
            legacy: self.legacy(conversation, repository).await?,
            strays: Vec::new(),
            current,
            same_work,
            linked,
            branches,
            made_way: match pull {
                Some(_) => self.made_way(delivery).await?,
                None => None,
            },
            links,
            links_unknown,
        };
        if let Some(branch) = new_branch(&facts).filter(|_| !has_place) {
            facts.strays = self.strays(repository, &self.place_on_disk(codebase, &branch), Some(&branch)).await?;
        }
        Ok((facts, FoundElsewhere { threads: elsewhere, in_part: links_unknown }))
    }

    /// The environment of a conversation's worktree that a person took in hand when nobody knew any more whose it was: its
    /// branch is called by a hash, which tells the conversation only to whom knows that already.
    async fn adopted_for(
        &self,
        codebase: &Codebase,
        settings: &RepoSettings,
        work: &Work,
    ) -> Result<Option<Environment>, StepError> {
        let Some(branch) = branch_of_conversation(work, settings.branch_prefix.as_ref()) else { return Ok(None) };
        let there = self.store().find_live_environment_on(codebase.id, &branch).await?;
        Ok(there.filter(is_of_nobody_else))
    }

    /// What the last fetch brought.
    pub(super) async fn remote(&self, codebase: &Codebase, repository: &Repository) -> Result<Remote, GitError> {
        let has_default = match &codebase.default_branch {
            Some(default) => repository.tip(&default.remote_ref()).await?.is_some(),
            None => false,
        };
        Ok(match has_default {
            true => Remote::WithDefault,
            false if repository.has_remote_branches().await? => Remote::WithoutDefault,
            false => Remote::Empty,
        })
    }

    /// Where a conversation worked before it was imported.
    async fn legacy(&self, conversation: &Conversation, repository: &Repository) -> Result<Option<Stray>, StepError> {
        let Some(path) = self.store().legacy_path(conversation.id).await? else { return Ok(None) };
        Ok(self.strays(repository, &path, None).await?.pop())
    }

    /// Those of the worktrees of a repository at `place`, or on a branch, that no live environment has. Each is looked at,
    /// which takes as long as a `git status`, and other tools may have made many.
    pub(super) async fn strays(
        &self,
        repository: &Repository,
        place: &Path,
        branch: Option<&BranchName>,
    ) -> Result<Vec<Stray>, StepError> {
        if !repository.may_have_worktree(place, branch).await? {
            return Ok(Vec::new());
        }
        let live = self.store().live_environments(None).await?;
        let provider = &self.parts().provider;
        let mut strays = Vec::new();
        for entry in provider.list(repository).await? {
            let at_place = entry.is_at(place);
            let has_branch = branch.is_some() && entry.branch.as_ref() == branch;
            let known = live.iter().any(|environment| entry.is_at(&environment.path));
            let is_inside = !provider.is_outside(&entry.path);
            // One that git would drop is no obstacle: its place is made anew.
            if known || (entry.prunable && is_inside) || !(at_place || has_branch) {
                continue;
            }
            self.hide_if_outside(&entry.path);
            let worktree = repository.worktree(&entry.path);
            let entangled = |environment: &Environment| {
                environment.path.starts_with(&entry.path) || entry.path.starts_with(&environment.path)
            };
            let validity = match live.iter().any(entangled) {
                true => Probe::Unknown("it lies inside another one, or around it".to_owned()),
                false => provider.health(repository, &entry.path, Maker::Others, Stage::InTheMaking).await,
            };
            // Nor is what a creation of ours left that was cut short; git calls none of them prunable, since they are locked.
            let ours = at_place && is_inside && entry.has_our_lock();
            if ours && validity == Probe::Known(Validity::Missing) {
                continue;
            }
            let (foreign_lock, holds) = match validity == Probe::Known(Validity::Valid) {
                true => (worktree.foreign_lock().await, holds(&worktree).await),
                false => (Probe::Known(None), Probe::Unknown("there is no worktree to look at".to_owned())),
            };
            strays.push(Stray { path: entry.path, at_place, branch: entry.branch, validity, foreign_lock, holds });
        }
        Ok(strays)
    }

    async fn candidate(&self, repository: &Repository, environment: Environment) -> Candidate {
        let validity = self.health(repository, &environment).await;
        Candidate { environment, validity }
    }

    /// What `/status` shows of an environment.
    pub(super) async fn look_at(&self, codebase: &Codebase, environment: &Environment) -> Seen {
        let repository = self.repository(codebase);
        let ahead_behind = async {
            let Some(base) = &environment.base else { return Ok(None) };
            let tip = repository.tip(&environment.branch.full_ref()).await?;
            let base = repository.tip(&base.remote_ref()).await?;
            match (tip, base) {
                (Some(tip), Some(base)) => repository.ahead_behind(&tip, &base).await.map(Some),
                _ => Ok::<_, GitError>(None),
            }
        };
        let validity = self.health(&repository, environment).await;
        let worktree = repository.worktree(&environment.path);
        let dirty = worktree.status().await.map(|status| status.tracked + status.untracked + status.conflicted);
        let on_branch = Probe::from(worktree.head().await).map(|head| head.branch);
        let (ignored, submodules) = (worktree.ignored_work().await, worktree.submodule_work().await);
        Seen { ahead_behind: ahead_behind.await.into(), validity, dirty, ignored, submodules, on_branch }
    }
}

async fn holds(worktree: &Worktree) -> Probe<Holds> {
    match (worktree.status().await, worktree.operation_in_progress().await) {
        (Probe::Unknown(why), _) | (_, Probe::Unknown(why)) => Probe::Unknown(why),
        (Probe::Known(status), Probe::Known(operation)) if operation.is_some() || status.conflicted > 0 => {
            Probe::Known(Holds::Unfinished)
        }
        (Probe::Known(status), Probe::Known(_)) if status.is_clean() => Probe::Known(Holds::Nothing),
        (Probe::Known(_), Probe::Known(_)) => Probe::Known(Holds::Uncommitted),
    }
}

async fn contains(repository: &Repository, branch: &BranchName, commit: &CommitSha) -> Probe<bool> {
    let answer = async {
        match repository.tip(&branch.full_ref()).await? {
            Some(tip) => repository.is_ancestor(commit, &tip).await,
            None => Ok(false),
        }
    };
    answer.await.into()
}

async fn pull_facts(repository: &Repository, pull: &PullRequest) -> Result<PullFacts, StepError> {
    let head_gone = !pull.is_fork() && !pull.head_renamed && repository.tip(&pull.head.remote_ref()).await?.is_none();
    Ok(PullFacts {
        number: pull.number,
        head: pull.head.clone(),
        head_sha: pull.head_sha.clone(),
        fork: pull.is_fork(),
        head_gone,
        head_renamed: pull.head_renamed,
        base: pull.base.clone(),
    })
}
