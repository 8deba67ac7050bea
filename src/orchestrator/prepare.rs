//! From a claimed run to a worktree it may work in: fetch, resolve, create or reuse, follow the remote.

use super::{Orchestrator, StepError, gather, retry};
use crate::decide::resolve::{Block, Choice, Found, Origin, Place, resolve};
use crate::git::{FetchRequest, GitError, Repository, SubmodulePolicy, WorktreeStart};
use crate::github::PullRequest;
use crate::isolation::{CreateRequest, Furnishing};
use crate::model::*;
use crate::reply::{
    answers::{self, Opening},
    furnished,
};
use crate::store::{Inserted, NewEnvironment};
use crate::telemetry::field::EFFECT;
use futures::future::join_all;
use std::{collections::BTreeSet, path::PathBuf};

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

/// A worktree that becomes an environment as it is.
pub(super) struct Adopted {
    pub path: PathBuf,
    pub from: AdoptedFrom,
}

/// What a creation is made from, besides its row.
pub(super) struct Creation<'a> {
    pub codebase: &'a Codebase,
    pub repository: &'a Repository,
    /// What the repository asks for.
    pub settings: &'a RepoSettings,
}

/// The first lines of the status comment.
#[derive(Default)]
pub(super) struct Notes(pub Vec<String>);

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
        self.0.insert(0, answers::opening(&opening));
        if let Found::LinkedApart(_) = found {
            self.0.push(answers::shared_apart(&environment.branch));
        }
    }
}

impl Orchestrator {
    /// Finds or makes the environment of a run, binds the run to it, and brings it up to date.
    pub(super) async fn prepare(&self, run: &mut Run) -> Result<Prepared, StepError> {
        let (codebase, conversation) = self.thread_of(run).await?;
        let (codebase, clone_url) = retry::patiently(|| self.refreshed(&codebase)).await?;
        let repository = self.repository(&codebase);
        let pull = match conversation.kind {
            ThreadKind::PullRequest => Some(
                retry::patiently(|| async {
                    let client = self.client(&codebase);
                    Ok(client.pull_request(codebase.github_id, &codebase.name, conversation.number).await?)
                })
                .await?,
            ),
            ThreadKind::Issue => None,
        };
        if pull.is_some() || !self.nothing_to_fetch(&codebase, &conversation, &repository).await {
            let number = pull.as_ref().map(|pull| pull.number);
            retry::patiently(|| self.fetch(&codebase, &repository, &clone_url, number)).await?;
        }
        let settings = self.repo_settings(&codebase, &repository, &conversation).await?;

        let mut notes = Notes::default();
        for _ in 0..DECISIONS {
            let facts = self.resolve_facts(&codebase, &conversation, &repository, pull.as_ref(), &settings).await?;
            let resolution = resolve(&facts);
            for id in &resolution.forget {
                self.forget(&repository, *id, &mut notes).await?;
            }
            let (environment, found) = match resolution.choice {
                Choice::Block(block) => return Err(StepError::Refused(answers::blocked(&block))),
                Choice::Use { environment, found } => {
                    let Some(environment) = self.store().load_environment(environment).await? else { continue };
                    (environment, Some(found))
                }
                Choice::Adopt { place, path, from } => {
                    let limit = settings.worktree_limit(self.settings().environment_limit);
                    let adopted = Adopted { path, from };
                    let journalled =
                        self.journal_as(&codebase, &repository, &place, Some(&adopted), limit, &mut notes).await?;
                    let Some(environment) = journalled else { continue };
                    notes.0.push(answers::adopted(&environment.branch));
                    (environment, None)
                }
                Choice::Create(place) => {
                    let limit = settings.worktree_limit(self.settings().environment_limit);
                    let journalled = self.journal_creation(&codebase, &repository, &place, limit, &mut notes).await?;
                    let Some(environment) = journalled else { continue };
                    let apart = place.not_shared_with.as_ref();
                    notes.0.extend(apart.map(|work| answers::not_shared(work, settings.share_linked)));
                    if let Origin::LostHead { head, lost, .. } = &place.origin {
                        notes.0.push(answers::lost_head(*lost, head, &place.branch));
                    }
                    (environment, None)
                }
            };
            let Some(environment) = self.bind(run, environment.id).await? else { continue };
            let made = environment.state == EnvironmentState::Creating;
            let environment = match made {
                true => {
                    let work = Creation { codebase: &codebase, repository: &repository, settings: &settings };
                    self.finish_creation(&work, environment, &mut notes).await?
                }
                false => environment,
            };
            // A new worktree on a branch that was kept here may be behind, too.
            let (environment, obstacle) = self.follow_remote(&repository, environment, pull.as_ref()).await?;
            if let Some(found) = found.filter(|_| !made) {
                notes.found(&environment, &found);
            }
            notes.0.extend(obstacle);
            if made {
                notes.0.extend(self.settle_place_of_old(&conversation, &environment).await?);
            }
            let environment = self.with_base(environment, &settings, pull.as_ref(), &codebase).await?;
            run.opening = Some(notes.0.join("\n\n"));
            // A command may have given the thread another worktree meanwhile; that one counts from the next message on.
            self.store().tie_conversation(&conversation, environment.id, self.now()).await?;
            tracing::debug!(target: EFFECT, { run.id = %run.id, environment.id = %environment.id }, "thread tied");
            self.store().touch_environment(environment.id, self.now()).await?;
            return Ok(Prepared { codebase, conversation, repository, environment, pull, settings });
        }
        Err(StepError::Refused(answers::kept_moving()))
    }

    pub(super) async fn thread_of(&self, run: &Run) -> Result<(Codebase, Conversation), StepError> {
        let codebase = self.store().load_codebase(run.codebase).await?;
        let conversation = self.store().load_conversation(run.conversation).await?;
        match (codebase, conversation) {
            (Some(codebase), Some(conversation)) => Ok((codebase, conversation)),
            _ => Err(StepError::Refused(answers::thread_unknown())),
        }
    }

    /// The codebase with its present name and default branch, and where to clone it from.
    pub(super) async fn refreshed(&self, codebase: &Codebase) -> Result<(Codebase, String), StepError> {
        let info = self.client(codebase).repository(codebase.github_id).await?;
        if info.archived {
            return Err(StepError::Refused(answers::archived(&info.name)));
        }
        let new = crate::store::NewCodebase {
            github_id: info.id,
            installation: codebase.installation,
            name: info.name,
            default_branch: info.default_branch,
        };
        Ok((self.store().upsert_codebase(new, self.now()).await?, info.clone_url))
    }

    /// Whether GitHub says that the branches an issue's work rests on are where the last fetch left them. Asking is much
    /// cheaper than a fetch that brings nothing; any doubt leads to the fetch.
    async fn nothing_to_fetch(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        repository: &Repository,
    ) -> bool {
        let Some(default) = codebase.default_branch.clone() else { return false };
        let before = self.store().load_repo_settings(codebase.id).await.ok().flatten();
        let Ok(known) = self.look_up_settings(codebase, repository, before.as_ref()).await else { return false };
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
            None => settings.branch(&gather::work_of(conversation).to_string()).ok(),
        };
        let Some(own) = own else { return false };
        // A branch that was in the way may be gone by now.
        if !matches!(repository.branch_in_the_way(&own).await, Ok(None)) {
            return false;
        }
        let client = self.client(codebase);
        let unchanged = async |branch: &BranchName, needed: bool| {
            let there = client.branch_tip(codebase.github_id, &codebase.name, branch);
            match (there.await, repository.tip(&branch.remote_ref()).await) {
                (Ok(there), Ok(here)) => there == here && (here.is_some() || !needed),
                _ => false,
            }
        };
        let bases = join_all(bases.iter().map(|base| unchanged(base, true)));
        let (bases, own) = tokio::join!(bases, unchanged(&own, false));
        own && bases.into_iter().all(|same| same)
    }

    /// Brings the canonical repository up to date: all branches, and one pull request's head.
    pub(super) async fn fetch(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        clone_url: &str,
        pull: Option<ThreadNumber>,
    ) -> Result<(), StepError> {
        tracing::debug!(target: EFFECT, { codebase.name = %codebase.name }, "fetch");
        repository.ensure(clone_url).await?;
        let pulls = pull.map(|number| (format!("refs/pull/{number}/head"), gather::pull_ref(number)));
        let request = &FetchRequest { branches: true, extra: pulls.into_iter().collect() };
        self.with_credential(
            codebase,
            false,
            |credential| async move { repository.fetch(request, Some(&credential)).await },
        )
        .await
    }

    /// A live row whose worktree is gone: closed, and the person told.
    pub(super) async fn forget(
        &self,
        repository: &Repository,
        id: EnvironmentId,
        notes: &mut Notes,
    ) -> Result<(), StepError> {
        if let Some(environment) = self.store().load_environment(id).await? {
            self.close_without_worktree(repository, &environment).await?;
            notes.0.push(answers::stale_reference(&environment.branch));
        }
        Ok(())
    }

    /// Writes the journal row of a new environment. `None`: somebody else was faster, decide again.
    pub(super) async fn journal_creation(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        place: &Place,
        limit: u32,
        notes: &mut Notes,
    ) -> Result<Option<Environment>, StepError> {
        self.journal_as(codebase, repository, place, None, limit, notes).await
    }

    pub(super) async fn journal_as(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        place: &Place,
        adopted: Option<&Adopted>,
        limit: u32,
        notes: &mut Notes,
    ) -> Result<Option<Environment>, StepError> {
        let (fork_head, lost_head) = match &place.origin {
            Origin::PinnedHead { sha, .. } => (Some(sha.clone()), None),
            Origin::LostHead { sha, .. } => (None, Some(sha.clone())),
            Origin::Base | Origin::PullHead => (None, None),
        };
        let (path, adopted_from) = match adopted {
            Some(Adopted { path, from }) => (path.clone(), Some(*from)),
            None => (self.place_on_disk(codebase, &place.branch), None),
        };
        if let Some(other) = repository.branch_in_the_way(&place.branch).await? {
            let why = answers::branch_beside(&place.branch, &other);
            return Err(StepError::Refused(answers::blocked(&Block::BadBranch(why))));
        }
        let on_remote = repository.tip(&place.branch.remote_ref()).await?.is_some();
        let here = repository.tip(&place.branch.full_ref()).await?.is_some();
        // A name that a person gave may be that of their own branch.
        let foreign = match (place.work.kind, &place.origin) {
            _ if adopted_from.is_some() => true,
            (WorkKind::Task, _) => on_remote || here,
            (_, Origin::Base) => false,
            _ => on_remote,
        };
        let new = NewEnvironment {
            codebase: codebase.id,
            work: place.work.clone(),
            branch: place.branch.clone(),
            path,
            base: Some(place.base.clone()),
            provider: self.parts().provider.name().to_owned(),
            metadata: EnvironmentMetadata {
                links: place.links.clone(),
                fork_head,
                lost_head,
                foreign_branch: foreign,
                adopted_from,
                migrated: adopted_from == Some(AdoptedFrom::Legacy),
                ..Default::default()
            },
        };
        match self.store().insert_environment(new, limit, self.now()).await? {
            Inserted::Created(environment) => {
                tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "creation journalled");
                Ok(Some(environment))
            }
            Inserted::Exists(other) => {
                if let Some(why) = other.metadata.removal.as_ref().and_then(|removal| removal.stuck.as_deref()) {
                    return Err(StepError::Refused(answers::removal_stuck(why)));
                }
                // One that is being removed is waited for; then it is decided anew.
                drop(self.inner.leases.take(other.id).await);
                Ok(None)
            }
            Inserted::BranchTaken(taken) => Err(StepError::Refused(answers::branch_taken(&taken.branch, &taken.work))),
            Inserted::LimitReached { live } => {
                let room = self.make_room(codebase).await?;
                if room.merged + room.ghosts == 0 {
                    let days = self.settings().stale_after.as_secs() / 86_400;
                    return Err(StepError::Refused(answers::limit_reached(&codebase.name, live, &room.left, days)));
                }
                if room.merged > 0 {
                    notes.0.push(answers::made_room(room.merged));
                }
                Ok(None)
            }
        }
    }

    fn place_on_disk(&self, codebase: &Codebase, branch: &BranchName) -> std::path::PathBuf {
        let repository = codebase.repository_dir.strip_suffix(".git").unwrap_or(&codebase.repository_dir);
        self.settings().worktree_base.join(repository).join(branch.slug())
    }

    /// Makes the worktree of a journalled row. A failure undoes what this try made, so that the next one starts clean.
    pub(super) async fn finish_creation(
        &self,
        creation: &Creation<'_>,
        environment: Environment,
        notes: &mut Notes,
    ) -> Result<Environment, StepError> {
        tracing::info!(target: EFFECT, { environment.id = %environment.id }, "create worktree");
        match self.make_worktree(creation, &environment, notes).await {
            Ok((start, began_ahead)) => {
                let metadata = EnvironmentMetadata { began_ahead, ..environment.metadata };
                let active =
                    Environment { state: EnvironmentState::Active, start: Some(start), metadata, ..environment };
                tracing::debug!(target: EFFECT, { environment.id = %active.id }, "worktree created");
                let active = self.store().update_environment(&active).await?;
                tracing::debug!(target: EFFECT, { environment.id = %active.id }, "environment active");
                self.audit(
                    "treewarden",
                    "environment.created",
                    &active.branch.to_string(),
                    &active.path.display().to_string(),
                )
                .await;
                Ok(active)
            }
            Err(error) => {
                match self.validity(creation.repository, &environment).await {
                    // Somebody else's, and it stays so.
                    _ if environment.metadata.adopted_from.is_some() => {
                        self.store().destroy_environment(&environment, None, self.now()).await?;
                    }
                    Probe::Known(Validity::Missing | Validity::Foreign | Validity::OwnRepository) => {
                        self.store().destroy_environment(&environment, None, self.now()).await?;
                    }
                    // Something of ours is there: the next try, or the reconciliation, goes on with it.
                    Probe::Known(Validity::Valid | Validity::Broken) | Probe::Unknown(_) => {}
                }
                Err(error)
            }
        }
    }

    /// Existing branches are continued as they are, never reset. Answers with the branch's commit, and whether it is ahead
    /// of the base.
    async fn make_worktree(
        &self,
        creation: &Creation<'_>,
        environment: &Environment,
        notes: &mut Notes,
    ) -> Result<(CommitSha, bool), StepError> {
        let repository = creation.repository;
        let branch = &environment.branch;
        let base =
            environment.base.as_ref().ok_or_else(|| StepError::Refused(answers::blocked(&Block::EmptyRepository)))?;
        let base_tip = repository.tip(&base.remote_ref()).await?;
        let local = repository.tip(&branch.full_ref()).await?;
        let remote = repository.tip(&branch.remote_ref()).await?;
        let EnvironmentMetadata { fork_head, lost_head, .. } = &environment.metadata;
        let (start, tip) = match (local, fork_head, remote, lost_head) {
            (Some(local), ..) => (WorktreeStart::Existing, local),
            (None, Some(sha), ..) | (None, None, None, Some(sha)) => {
                (WorktreeStart::NewBranch(sha.clone()), sha.clone())
            }
            (None, None, Some(remote), _) => (WorktreeStart::NewBranch(remote.clone()), remote),
            (None, None, None, None) => {
                let tip = base_tip.clone().ok_or_else(|| StepError::Refused(answers::base_missing(base)))?;
                (WorktreeStart::NewBranch(tip.clone()), tip)
            }
        };
        let fresh = matches!(&start, WorktreeStart::NewBranch(sha) if Some(sha) == base_tip.as_ref());
        let kept = self.settings().home.join("copy").join(creation.codebase.name.to_string());
        let withheld = fork_head.is_some() && kept.is_dir();
        let submodules = match (creation.settings.submodules, fork_head) {
            (false, _) => SubmodulePolicy::Leave,
            (true, None) => SubmodulePolicy::All,
            (true, Some(_)) => SubmodulePolicy::AsIn(base.remote_ref()),
        };
        let furnishing = Furnishing {
            credential: self.furnishing_credential(creation, &tip, &submodules).await,
            submodules,
            // Whoever opened a fork's pull request wrote code that could read them, and the list of what is wanted.
            copy_from: fork_head.is_none().then_some(kept),
            copy: creation.settings.copy.clone(),
        };
        let request = CreateRequest { path: environment.path.clone(), branch: branch.clone(), start, furnishing };
        let furnished = self.parts().provider.create(repository, &request).await?;
        notes.0.extend(furnished::notes(&furnished));
        notes.0.extend(withheld.then(furnished::withheld));
        let pinned = fork_head.as_ref().or(lost_head.as_ref().filter(|sha| **sha == tip));
        let ahead = match &base_tip {
            Some(base) if !fresh => repository.ahead_behind(&tip, base).await?.0,
            Some(_) | None => 0,
        };
        let line = match (pinned, fresh) {
            (Some(sha), _) => answers::opening(&Opening::ReviewingFork { sha, branch }),
            (None, true) => answers::opening(&Opening::Created { branch }),
            (None, false) => answers::opening(&Opening::Continuing { branch, ahead }),
        };
        notes.0.insert(0, line);
        Ok((tip, ahead > 0))
    }

    /// What the worktree's submodules are fetched with, when there are any. Without it those that need it are told as failed.
    async fn furnishing_credential(
        &self,
        creation: &Creation<'_>,
        tip: &CommitSha,
        submodules: &SubmodulePolicy,
    ) -> Option<Credential> {
        let has_any = *submodules != SubmodulePolicy::Leave
            && creation.repository.has_file(tip, ".gitmodules").await.unwrap_or(true);
        if !has_any {
            return None;
        }
        let client = self.client(creation.codebase);
        match client.git_credential(creation.codebase.github_id, false).await {
            Ok(credential) => Some(credential),
            Err(error) => {
                tracing::warn!(codebase.name = %creation.codebase.name, error = %error, "no token for submodules");
                None
            }
        }
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

    /// Takes new commits of the branch's remote in, when that is a plain fast-forward of a clean worktree; otherwise a note
    /// says what is in the way.
    async fn follow_remote(
        &self,
        repository: &Repository,
        environment: Environment,
        pull: Option<&PullRequest>,
    ) -> Result<(Environment, Option<String>), StepError> {
        let remote = match (&environment.metadata.fork_head, pull) {
            // Another thread may have been linked to a fork's worktree.
            (Some(_), Some(pull)) if environment.work.thread() == Some(pull.number) => Some(pull.head_sha.clone()),
            (Some(_), _) => None,
            (None, _) => repository.tip(&environment.branch.remote_ref()).await?,
        };
        let local = repository.tip(&environment.branch.full_ref()).await?;
        let (Some(remote), Some(local)) = (remote, local) else { return Ok((environment, None)) };
        if remote == local {
            return Ok((self.note_fork_head(environment, remote).await?, None));
        }
        if repository.is_ancestor(&remote, &local).await? {
            return Ok((environment, None));
        }
        let obstacle = if !repository.is_ancestor(&local, &remote).await? {
            let (ours, theirs) = repository.ahead_behind(&local, &remote).await?;
            answers::diverged(ours, theirs)
        } else {
            match repository.worktree(&environment.path).fast_forward(&environment.branch, &remote).await {
                Ok(()) => return Ok((self.note_fork_head(environment, remote).await?, None)),
                Err(GitError::Refused { reason }) => reason,
                Err(error) => return Err(error.into()),
            }
        };
        let note = answers::cannot_follow(&environment.branch, &obstacle);
        Ok((environment, Some(note)))
    }

    /// What is to be said about the place where an imported thread worked before, when it did not become its environment.
    async fn settle_place_of_old(
        &self,
        conversation: &Conversation,
        environment: &Environment,
    ) -> Result<Option<String>, StepError> {
        let Some(place) = self.store().legacy_path(conversation.id).await? else { return Ok(None) };
        if environment.path == place || !place.exists() {
            self.store().clear_legacy_path(conversation.id).await?;
            return Ok(None);
        }
        Ok(Some(answers::place_of_old_left()))
    }

    /// An imported environment gets its base with its first use.
    async fn with_base(
        &self,
        mut environment: Environment,
        settings: &RepoSettings,
        pull: Option<&PullRequest>,
        codebase: &Codebase,
    ) -> Result<Environment, StepError> {
        let base = pull.filter(|pull| environment.work.thread() == Some(pull.number)).map(|pull| pull.base.clone());
        let base = base.or_else(|| settings.base.clone()).or_else(|| codebase.default_branch.clone());
        if environment.base.is_some() || base.is_none() {
            return Ok(environment);
        }
        environment.base = base;
        Ok(self.store().update_environment(&environment).await?)
    }

    /// A fork's pull request has moved on: this run and later ones name the commit that is looked at.
    async fn note_fork_head(&self, mut environment: Environment, head: CommitSha) -> Result<Environment, StepError> {
        while environment.metadata.fork_head.as_ref().is_some_and(|noted| *noted != head) {
            environment.metadata.fork_head = Some(head.clone());
            match self.store().update_environment(&environment).await {
                Ok(noted) => return Ok(noted),
                // A pass wrote why it kept it.
                Err(error) if error.is_conflict() => {
                    let now = self.store().load_environment(environment.id).await?;
                    environment = now.ok_or_else(|| StepError::Refused(answers::environment_lost()))?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(environment)
    }
}
