//! From a claimed run to a worktree it may work in: fetch, resolve, create or reuse, follow the remote.

use super::{
    Orchestrator, StepError,
    create::{Adopted, Creation, follows_its_remote},
    gather,
    offline::Needed,
    retry,
    sweep::Retired,
};
use crate::decide::create::{BaseFacts, other_base};
use crate::decide::resolve::{Choice, Found, Origin, Place, resolve};
use crate::git::Repository;
use crate::github::PullRequest;
use crate::model::*;
use crate::reply::opening::{self, Opening};
use crate::reply::{access, blocked, not_begun, remote, run_end, staged};
use crate::telemetry::field::EFFECT;
use futures::future::join_all;
use std::collections::BTreeSet;
use tokio_util::sync::CancellationToken;

/// The world may move between gathering and applying; then it is decided again, this often at most.
pub(super) const DECISIONS: usize = 4;

/// Where a run works.
pub(super) struct Prepared {
    pub codebase: Codebase,
    pub conversation: Conversation,
    pub repository: Repository,
    pub environment: Environment,
    pub pull: Option<PullRequest>,
    /// What the repository asked for when the run was prepared.
    pub settings: RepoSettings,
}

/// The first lines of the status comment.
#[derive(Default)]
pub(super) struct Notes(pub Vec<String>);

/// Why a worktree of its own does not go on in that of linked work.
fn apart(place: &Place, links_unknown: bool) -> Option<String> {
    match &place.not_shared {
        Some((work, why)) => Some(opening::not_shared(work, why)),
        None => links_unknown.then(opening::links_unknown),
    }
}

/// Ends a wait for a git server when the run is stopped.
async fn unless_stopped<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, StepError>>,
) -> Result<T, StepError> {
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = cancel.cancelled() => Err(StepError::Stopped),
    }
}

impl Notes {
    /// An environment that was there already.
    fn found(&mut self, environment: &Environment, found: &Found) {
        let opening = match (found, &environment.metadata.fork_head) {
            (Found::Linked(work) | Found::LinkedApart(work), _) => Opening::Reusing { work },
            (Found::Conversation | Found::SameWork, Some(sha)) => {
                Opening::ReviewingFork { sha, branch: &environment.branch }
            }
            (Found::Conversation | Found::SameWork, None) => Opening::Same { branch: &environment.branch },
        };
        self.0.insert(0, opening::opening(&opening));
        if let Found::LinkedApart(_) = found {
            self.0.push(opening::shared_apart(&environment.branch));
        }
    }
}

impl Orchestrator {
    /// Finds or makes the environment of a run, binds the run to it, and brings it up to date.
    /// `cancel`: a git server that says nothing is not waited for any longer.
    pub(super) async fn prepare(&self, run: &mut Run, cancel: &CancellationToken) -> Result<Prepared, StepError> {
        let (codebase, mut conversation) = self.thread_of(run).await?;
        if codebase.mode != CodebaseMode::On {
            return Err(StepError::Refused(staged::not_begun(codebase.mode)));
        }
        let (codebase, clone_url) = match retry::patiently(|| self.refreshed(&codebase)).await {
            Err(StepError::Github(error)) if error.is_refusal() => {
                let why = Box::pin(self.refusal_explained(&codebase)).await;
                return Err(why.map_or(error.into(), |why| StepError::Refused(access::not_begun(&why))));
            }
            refreshed => refreshed?,
        };
        let repository = self.repository(&codebase);
        let pull = self.pull_request_of(&codebase, &conversation).await?;
        if let Some(pull) = &pull {
            self.demand_approval(&conversation, pull).await?;
        }
        // The one branch that is known to be as the last fetch left it; `None` after a fetch: all are.
        let mut only_fresh = match pull {
            Some(_) => None,
            None => self.unchanged_branch(&codebase, &conversation, &repository).await,
        };
        let needed = Needed { pull: pull.as_ref(), base: None };
        let offline = match only_fresh {
            None => {
                unless_stopped(cancel, self.fetch_or_do_without(&codebase, &repository, &clone_url, &needed)).await?
            }
            // It may have been renamed since the last fetch.
            Some(_) => {
                repository.ensure(&clone_url).await?;
                None
            }
        };
        let pull = match pull {
            // Somebody may have pushed before the fetch ended.
            Some(pull) if pull.is_fork() => {
                let now = self.fetch_pull_request(&codebase, pull.number).await?;
                self.demand_approval(&conversation, &now).await?;
                Some(now)
            }
            pull => pull,
        };
        run.outcome.pull_head = pull.as_ref().map(|pull| pull.head_sha.clone());
        let settings = self.repo_settings(&codebase, &repository, &conversation).await?;

        let creation = Creation {
            codebase: &codebase,
            repository: &repository,
            settings: &settings,
            thread: Some(conversation.id),
            told_later: true,
        };
        // Without a fetch nobody knows what is merged or empty.
        let mut fetched = offline.is_none();
        let (mut notes, mut stays) = (Notes(offline.into_iter().collect()), BTreeSet::new());
        for decision in 0..DECISIONS {
            if decision > 0 {
                (_, conversation) = self.thread_of(run).await?;
            }
            if pull.is_none() {
                for went in self.retired_for(run.delivery).await? {
                    self.tell(run, opening::retired(&went)).await?;
                }
            }
            let facts =
                self.resolve_facts(&codebase, &conversation, &repository, pull.as_ref(), &settings, run.delivery);
            let (mut facts, elsewhere) = Box::pin(facts).await?;
            for linked in &mut facts.linked {
                linked.may_make_way &= fetched && !stays.contains(&linked.candidate.environment.id);
            }
            let resolution = resolve(&facts);
            let mut is_outdated = false;
            for id in &resolution.forget {
                is_outdated |= !self.forget(run, &repository, *id).await?;
            }
            if is_outdated {
                continue;
            }
            if let Some(fresh) = &only_fresh
                && self.branch_of(&resolution.choice).await?.is_some_and(|chosen| chosen != *fresh)
            {
                let needed = Needed { pull: None, base: None };
                let fetch = self.fetch_or_do_without(&codebase, &repository, &clone_url, &needed);
                let offline = unless_stopped(cancel, fetch).await?;
                fetched &= offline.is_none();
                notes.0.extend(offline);
                only_fresh = None;
                continue;
            }
            let (environment, found) = match resolution.choice {
                Choice::Block(block) => return Err(StepError::Refused(blocked::blocked(&block))),
                Choice::Use { environment, found } => {
                    let Some(environment) = self.store().load_environment(environment).await? else { continue };
                    if fetched && pull.is_none() && !stays.contains(&environment.id) {
                        let retired = self.retire(&codebase, &repository, &conversation, &environment, run.delivery);
                        match retired.await? {
                            Retired::InUse => {}
                            // It is told with the next decision.
                            Retired::Gone => continue,
                            Retired::Stays => {
                                stays.insert(environment.id);
                                notes.0.push(opening::merged_but_kept(&environment.branch));
                            }
                        }
                    }
                    (environment, Some(found))
                }
                Choice::MakeWay { environment, place } => {
                    if !self.make_way(&codebase, &repository, environment, &place, run.delivery).await? {
                        stays.insert(environment);
                    }
                    continue;
                }
                Choice::Adopt { place, path, from, unclean } => {
                    let adopted = Adopted { path, from };
                    let mut untold = vec![match unclean {
                        true => opening::adopted_unclean(&place.branch),
                        false => opening::adopted(&place.branch),
                    }];
                    untold.extend(apart(&place, facts.links_unknown && adopted.from != AdoptedFrom::Legacy));
                    let journalled =
                        self.journal_creation(&creation, &place, Some(&adopted), untold, &mut notes).await?;
                    let Some(environment) = journalled else { continue };
                    (environment, None)
                }
                Choice::Create(place) => {
                    let mut untold = Vec::from_iter(apart(&place, facts.links_unknown));
                    untold.extend(place.instead_of.as_ref().map(|old| opening::merged_before(old, &place.branch)));
                    if let Origin::LostHead { head, lost, .. } = &place.origin {
                        untold.push(opening::lost_head(*lost, head, &place.branch));
                    }
                    let journalled = self.journal_creation(&creation, &place, None, untold, &mut notes).await?;
                    let Some(environment) = journalled else { continue };
                    (environment, None)
                }
            };
            let Some(environment) = self.bind(run, environment.id).await? else { continue };
            let made = environment.state == EnvironmentState::Creating;
            let environment = match made {
                true => self.finish_creation(&creation, environment, &mut notes).await?,
                false => environment,
            };
            // A new worktree on a branch that was kept here may be behind, too.
            let before = repository.tip(&environment.branch.full_ref()).await?;
            let (environment, followed) = self.follow_remote(&repository, environment, pull.as_ref()).await?;
            // Whoever reached the configuration may have lost it.
            if follows_its_remote(&environment) {
                repository.set_upstream(&environment.branch, true).await?;
            }
            notes.0.extend(self.catch_up(&creation, &environment, before).await?);
            if let Some(found) = found.filter(|_| !made) {
                notes.found(&environment, &found);
            }
            notes.0.extend(followed);
            let head = repository.worktree(&environment.path).head().await?.branch;
            if head.as_ref() != Some(&environment.branch) {
                notes.0.push(opening::head_elsewhere(&environment.branch, head.as_ref()));
            }
            let merged = pull.as_ref().filter(|pull| pull.state == ThreadState::Merged);
            notes.0.extend(merged.map(|pull| opening::pull_merged(pull.number)));
            let closed = pull.as_ref().filter(|pull| pull.state == ThreadState::Closed && !pull.is_fork());
            notes.0.extend(closed.map(|pull| opening::pull_closed(pull.number)));
            if made {
                notes.0.extend(self.settle_place_of_old(&conversation, &environment).await?);
            }
            if let Some(work) = facts.made_way.as_ref().filter(|_| environment.work == facts.work) {
                let tied = self.tie_along(work, &environment).await?;
                notes.0.extend(tied.then(|| opening::made_way(work, &environment.branch)));
            }
            self.record_links(&environment).await?;
            let environment = self.note_elsewhere(environment, &facts.work, &elsewhere).await?;
            let (environment, moved) =
                self.with_base(&repository, environment, &settings, pull.as_ref(), &codebase).await?;
            notes.0.extend(moved);
            // A command may have given the thread another worktree meanwhile; that one counts from the next message on.
            self.store().tie_conversation(&conversation, environment.id, self.now()).await?;
            tracing::debug!(target: EFFECT, { run.id = %run.id, environment.id = %environment.id }, "thread tied");
            self.store().touch_environment(environment.id, self.now()).await?;
            let told = notes.0.len().min(1);
            notes.0.splice(told..told, run.opening.take());
            run.opening = Some(notes.0.join("\n\n"));
            return Ok(Prepared { codebase, conversation, repository, environment, pull, settings });
        }
        Err(StepError::Refused(not_begun::kept_moving()))
    }

    /// Writes down what has become of the thread's worktree: the person is to hear it, whatever ends the run. Twice rather
    /// than never.
    async fn tell(&self, run: &mut Run, note: String) -> Result<(), StepError> {
        if run.opening.as_ref().is_none_or(|told| !told.contains(&note)) {
            run.opening = Some(run.opening.take().into_iter().chain([note]).collect::<Vec<_>>().join("\n\n"));
            self.save(run).await?;
        }
        Ok(())
    }

    pub(super) async fn thread_of(&self, run: &Run) -> Result<(Codebase, Conversation), StepError> {
        let codebase = self.store().load_codebase(run.codebase).await?;
        let conversation = self.store().load_conversation(run.conversation).await?;
        match (codebase, conversation) {
            (Some(codebase), Some(conversation)) => Ok((codebase, conversation)),
            _ => Err(StepError::Refused(not_begun::thread_unknown())),
        }
    }

    /// The branch that a choice leads to.
    async fn branch_of(&self, choice: &Choice) -> Result<Option<BranchName>, StepError> {
        Ok(match choice {
            // Who makes way goes before anything is chosen.
            Choice::Block(_) | Choice::MakeWay { .. } => None,
            Choice::Use { environment, .. } => {
                self.store().load_environment(*environment).await?.map(|environment| environment.branch)
            }
            Choice::Create(place) | Choice::Adopt { place, .. } => Some(place.branch.clone()),
        })
    }

    /// The branch that an issue's work most likely goes on, if GitHub says that it, and what it rests on, is where the last
    /// fetch left it. Asking is much cheaper than a fetch that brings nothing; any doubt leads to the fetch.
    async fn unchanged_branch(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        repository: &Repository,
    ) -> Option<BranchName> {
        let github = self.on_github(codebase).ok()??;
        let default = codebase.default_branch.clone()?;
        // What is missing comes with a fetch only.
        if !repository.is_whole().unwrap_or(false) {
            return None;
        }
        let before = self.store().load_repo_settings(codebase.id).await.ok().flatten();
        let known = self.look_up_settings(codebase, repository, before.as_ref()).await.ok()?;
        let settings = known.in_force;
        let bound = match conversation.environment {
            Some(id) => self.store().load_environment(id).await.ok().flatten(),
            None => None,
        };
        // The default branch has the settings; without the others there is nothing to start from, whatever GitHub says.
        let mut bases = BTreeSet::from([default]);
        bases.extend(settings.base.clone());
        let own = match bound {
            Some(environment) => {
                bases.extend(environment.base);
                Some(environment.branch)
            }
            None => settings.branch(&gather::work_of(conversation).branch()).ok(),
        };
        let own = own?;
        // It could not be beside one of these.
        let above: Vec<_> = own.above().filter_map(|name| BranchName::new(name).ok()).collect();
        // A branch that was in the way may be gone by now.
        if !matches!(repository.branch_in_the_way(&own).await, Ok(None)) {
            return None;
        }
        let unchanged = async |branch: &BranchName, needed: bool| {
            let there = github.client.branch_tip(github.id, github.name, branch);
            match (there.await, repository.tip(&branch.remote_ref()).await) {
                (Ok(there), Ok(here)) => there == here && (here.is_some() || !needed),
                _ => false,
            }
        };
        let own_unchanged = async {
            let there = github.client.branches_like(github.id, github.name, &own);
            match (there.await, repository.tip(&own.remote_ref()).await) {
                (Ok(there), Ok(here)) => {
                    there.get(own.as_str()) == here.as_ref() && !there.keys().any(|name| own.is_above(name))
                }
                _ => false,
            }
        };
        let others = bases.iter().map(|base| (base, true)).chain(above.iter().map(|name| (name, false)));
        let others = join_all(others.map(|(branch, needed)| unchanged(branch, needed)));
        let (others, same) = tokio::join!(others, own_unchanged);
        (same && others.into_iter().all(|same| same)).then_some(own)
    }

    /// Closes a live row whose worktree is gone; the person is told. False when the choice is to be made anew: its removal has
    /// begun since it was looked at, or it is there after all, or git goes on listing it, which was not ours to take out.
    async fn forget(&self, run: &mut Run, repository: &Repository, id: EnvironmentId) -> Result<bool, StepError> {
        let _lease = self.inner.leases.take(id).await;
        let Some(stale) = self.store().load_environment(id).await? else { return Ok(false) };
        let is_gone = self.health(repository, &stale).await == Probe::Known(Validity::Missing);
        if stale.state != EnvironmentState::Active || !is_gone {
            return Ok(false);
        }
        self.tell(run, opening::stale_reference(&stale.branch)).await?;
        self.close_without_worktree(repository, &stale).await?;
        Ok(!self.is_outside(&stale))
    }

    /// Ties the run to the environment; the database refuses a second live run in it. `None`: a removal came between
    /// the decision and the binding, decide again.
    async fn bind(&self, run: &mut Run, id: EnvironmentId) -> Result<Option<Environment>, StepError> {
        let _lease = self.inner.leases.take(id).await;
        run.environment = Some(id);
        match self.store().update_run(run, self.node()).await {
            Ok(true) => tracing::debug!(target: EFFECT, { run.id = %run.id, environment.id = %id }, "run tied"),
            Ok(false) => return Err(StepError::LeaseLost),
            Err(error) if error.is_conflict() => return Err(StepError::Occupied(id)),
            Err(error) => return Err(error.into()),
        }
        let now = self.store().load_environment(id).await?;
        let usable = |environment: &Environment| match environment.state {
            EnvironmentState::Creating | EnvironmentState::Active => true,
            EnvironmentState::Removing | EnvironmentState::Destroyed => false,
        };
        Ok(now.filter(usable))
    }

    /// What is to be said about the place where an imported thread worked before, when it did not become its environment.
    async fn settle_place_of_old(
        &self,
        conversation: &Conversation,
        environment: &Environment,
    ) -> Result<Option<String>, StepError> {
        let Some(place) = self.store().legacy_path(conversation.id).await? else { return Ok(None) };
        // One that cannot be looked at is not known to be gone.
        if environment.path == place || place.try_exists().is_ok_and(|there| !there) {
            self.store().clear_legacy_path(conversation.id).await?;
            return Ok(None);
        }
        Ok(Some(opening::place_of_old_left()))
    }

    /// The base as it is now: a pull request may have been given another one, and a branch may be gone from the remote. The
    /// person is told of another base.
    async fn with_base(
        &self,
        repository: &Repository,
        environment: Environment,
        settings: &RepoSettings,
        pull: Option<&PullRequest>,
        codebase: &Codebase,
    ) -> Result<(Environment, Option<String>), StepError> {
        let exists = async |base: Option<&BranchName>| match base {
            Some(base) => Ok::<_, StepError>(repository.tip(&base.remote_ref()).await?.is_some()),
            None => Ok(false),
        };
        let recorded_exists = exists(environment.base.as_ref()).await?;
        let own = pull.filter(|pull| environment.work.thread() == Some(pull.number));
        let pull_base = own.map(|pull| &pull.base);
        let (pull_base_exists, named_exists) = (exists(pull_base).await?, exists(settings.base.as_ref()).await?);
        let facts = BaseFacts {
            recorded: environment.base.as_ref(),
            recorded_exists,
            pull: pull_base.filter(|_| pull_base_exists),
            named: settings.base.as_ref().filter(|_| named_exists),
            default: codebase.default_branch.as_ref(),
        };
        let Some(base) = other_base(&facts).cloned() else { return Ok((environment, None)) };
        let note = environment.base.as_ref().map(|before| remote::other_base(before, &base, recorded_exists));
        Ok((self.changed(environment, |environment| environment.base = Some(base.clone())).await?, note))
    }

    /// Writes a change into a row, if it is one; anew, on top of what somebody else wrote meanwhile: a pass says why it
    /// kept it, a linked environment's run records the link.
    pub(super) async fn changed(
        &self,
        mut environment: Environment,
        change: impl Fn(&mut Environment),
    ) -> Result<Environment, StepError> {
        loop {
            let mut wanted = environment.clone();
            change(&mut wanted);
            if wanted == environment {
                return Ok(environment);
            }
            match self.store().update_environment(&wanted).await {
                Ok(written) => return Ok(written),
                Err(error) if error.is_conflict() => {
                    let now = self.store().load_environment(environment.id).await?;
                    let live = now.filter(|now| now.state != EnvironmentState::Destroyed);
                    environment = live.ok_or_else(|| StepError::Refused(run_end::environment_lost()))?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
