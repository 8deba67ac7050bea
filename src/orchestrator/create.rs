//! Making the environment that was decided on: its journal row first, then its worktree with all that belongs into it.

use super::approve::{fork_mark, mark_fork};
use super::mend::maker;
use super::prepare::Notes;
use super::{Orchestrator, StepError};
use crate::decide::create::{Extras, Start, StartKind, Tips, check, extras, is_foreign, start};
use crate::decide::resolve::{Block, Origin, Place};
use crate::decide::restore::{Removed, as_it_was};
use crate::git::{GitError, Repository, Uncommitted};
use crate::isolation::{CreateRequest, Furnishing, LFS_PATIENCE, SUBMODULES_PATIENCE};
use crate::model::*;
use crate::reply::opening::{self, Opening};
use crate::reply::{blocked, furnished, not_begun};
use crate::store::{Inserted, NewEnvironment};
use crate::telemetry::field::EFFECT;
use std::path::PathBuf;

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
    /// The thread whose run it is for.
    pub thread: Option<ConversationId>,
    /// What there is to tell is kept with the environment until the next run tells it: nobody waits for it, or a kill may come
    /// before they hear.
    pub told_later: bool,
}

/// A worktree that was made.
struct Made {
    start: CommitSha,
    /// Its branch has commits that its base lacks.
    began_ahead: bool,
    /// What it was to bring back is all there.
    whole: bool,
}

impl Orchestrator {
    /// Writes the journal row of a new environment, `adopted`: of a place that is there already, with what the next run is to
    /// tell. `None`: somebody else was faster, decide again.
    pub(super) async fn journal_creation(
        &self,
        creation: &Creation<'_>,
        place: &Place,
        adopted: Option<&Adopted>,
        untold: Vec<String>,
        notes: &mut Notes,
    ) -> Result<Option<Environment>, StepError> {
        let Creation { codebase, repository, .. } = *creation;
        let (fork_head, lost_head) = match &place.origin {
            Origin::PinnedHead { sha, .. } => (Some(sha.clone()), None),
            Origin::LostHead { sha, .. } => (None, Some(sha.clone())),
            Origin::Base | Origin::PullHead => (None, None),
        };
        let (path, adopted_from) = match adopted {
            Some(Adopted { path, from }) => (path.clone(), Some(*from)),
            None => (self.place_on_disk(codebase, &place.branch), None),
        };
        let tips = tips(repository, &place.branch, Some(&place.base)).await?;
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
                foreign_branch: is_foreign(place, adopted.is_some(), &tips),
                adopted_from,
                migrated: adopted_from == Some(AdoptedFrom::Legacy),
                untold,
                ..Default::default()
            },
        };
        self.journal_new(creation, new, &tips, notes).await
    }

    /// The same for one that comes back.
    pub(super) async fn journal_return(
        &self,
        creation: &Creation<'_>,
        removed: &Removed,
        notes: &mut Notes,
    ) -> Result<Option<Environment>, StepError> {
        let Creation { codebase, repository, .. } = *creation;
        let Environment { work, branch, base, .. } = &removed.environment;
        let tips = tips(repository, branch, base.as_ref()).await?;
        let new = NewEnvironment {
            codebase: codebase.id,
            work: work.clone(),
            branch: branch.clone(),
            path: self.place_on_disk(codebase, branch),
            base: base.clone(),
            provider: self.parts().provider.name().to_owned(),
            metadata: as_it_was(removed),
        };
        self.journal_new(creation, new, &tips, notes).await
    }

    async fn journal_new(
        &self,
        creation: &Creation<'_>,
        new: NewEnvironment,
        tips: &Tips,
        notes: &mut Notes,
    ) -> Result<Option<Environment>, StepError> {
        let Creation { codebase, repository, settings, thread, .. } = *creation;
        if let Some(other) = repository.branch_in_the_way(&new.branch).await? {
            let why = not_begun::branch_beside(&new.branch, &other);
            return Err(StepError::Refused(blocked::blocked(&Block::BadBranch(why))));
        }
        check(&new.branch, &new.metadata, tips).map_err(|block| StepError::Refused(blocked::blocked(&block)))?;
        // What is there already takes no more than it did.
        if new.metadata.adopted_from.is_none() {
            let removed = self.fits_on_disk(codebase).await?;
            notes.0.extend((removed > 0).then(|| opening::made_room(removed)));
        }
        let limit = settings.worktree_limit(self.settings().environment_limit);
        match self.store().insert_environment(new, limit, self.now()).await? {
            Inserted::Created(environment) => {
                tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "creation journalled");
                Ok(Some(environment))
            }
            Inserted::Exists(other) => {
                if let Some(why) = other.metadata.removal.as_ref().and_then(|removal| removal.stuck.as_deref()) {
                    return Err(StepError::Refused(not_begun::removal_stuck(why)));
                }
                // One that is being removed is waited for; then it is decided anew.
                drop(self.inner.leases.take(other.id).await);
                Ok(None)
            }
            Inserted::BranchTaken(taken) => {
                // Somebody may just have given this very thread the worktree that has it.
                drop(self.inner.leases.take(taken.id).await);
                let now = match thread {
                    Some(thread) => self.store().load_conversation(thread).await?,
                    None => None,
                };
                match now.is_some_and(|now| now.environment == Some(taken.id)) {
                    true => Ok(None),
                    false => Err(StepError::Refused(not_begun::branch_taken(&taken.branch, &taken.work))),
                }
            }
            Inserted::LimitReached { live } => {
                let room = self.make_room(codebase).await?;
                if room.merged + room.ghosts == 0 {
                    let stale_after = self.settings().stale_after;
                    let why = not_begun::limit_reached(&codebase.name, live, &room.left, stale_after);
                    return Err(StepError::Refused(why));
                }
                if room.merged > 0 {
                    notes.0.push(opening::made_room(room.merged));
                }
                Ok(None)
            }
        }
    }

    /// Where a new worktree of the branch is made.
    pub(super) fn place_on_disk(&self, codebase: &Codebase, branch: &BranchName) -> PathBuf {
        self.folder_on_disk(codebase).join(branch.slug())
    }

    /// Where all new worktrees of a codebase are made.
    pub(super) fn folder_on_disk(&self, codebase: &Codebase) -> PathBuf {
        self.settings().worktree_base.join(folder(codebase))
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
            Ok(Made { start, began_ahead, whole }) => {
                let (start, began_ahead) = match environment.metadata.adopted_from {
                    // Where it began, nobody knows: not where it is found.
                    Some(AdoptedFrom::Orphan) => (None, environment.metadata.began_ahead),
                    Some(AdoptedFrom::Legacy | AdoptedFrom::Path | AdoptedFrom::Branch) | None => {
                        (Some(start), began_ahead)
                    }
                };
                let mut untold = environment.metadata.untold;
                if creation.told_later {
                    // The first note is a run's opening, which each run has of its own.
                    untold.extend(notes.0.drain(1..));
                }
                let restores = environment.metadata.restores.map(|restores| Restores { whole, ..restores });
                let metadata = EnvironmentMetadata { began_ahead, untold, restores, ..environment.metadata };
                let active = Environment { state: EnvironmentState::Active, start, metadata, ..environment };
                tracing::debug!(target: EFFECT, { environment.id = %active.id }, "worktree created");
                let active = self.store().update_environment(&active).await?;
                tracing::debug!(target: EFFECT, { environment.id = %active.id }, "environment active");
                let subject = format!("{}#{}", creation.codebase.name, active.work);
                self.audit("treewarden", "environment.created", &subject, &active.path.display().to_string()).await;
                Ok(active)
            }
            Err(error) => {
                match self.validity(creation.repository, &environment).await {
                    // Somebody else's, and it stays so.
                    _ if environment.metadata.adopted_from.is_some() => {
                        if self.is_outside(&environment) {
                            creation.repository.release_worktree(&environment.path).await?;
                        }
                        self.store().destroy_environment(&environment, None, self.now()).await?;
                    }
                    Probe::Known(Validity::Missing) => {
                        if let Err(error) = self.discard(creation.repository, &environment).await {
                            tracing::warn!(environment.id = %environment.id, %error, "what is left of a creation stays for now");
                        }
                    }
                    Probe::Known(Validity::Foreign | Validity::OwnRepository) => {
                        self.store().destroy_environment(&environment, None, self.now()).await?;
                    }
                    // Something of ours is there: the next try, or the reconciliation, goes on with it.
                    Probe::Known(Validity::Valid | Validity::Broken) | Probe::Unknown(_) => {}
                }
                Err(error)
            }
        }
    }

    async fn make_worktree(
        &self,
        creation: &Creation<'_>,
        environment: &Environment,
        notes: &mut Notes,
    ) -> Result<Made, StepError> {
        let repository = creation.repository;
        let branch = &environment.branch;
        let base =
            environment.base.as_ref().ok_or_else(|| StepError::Refused(blocked::blocked(&Block::EmptyRepository)))?;
        let tips = tips(repository, branch, Some(base)).await?;
        let start = start(&environment.metadata, &tips)
            .ok_or_else(|| StepError::Refused(blocked::blocked(&Block::BaseMissing(base.clone()))))?;
        let extras = extras_for(creation, environment, &[&start.tip]).await;
        let gets_something = environment.metadata.adopted_from != Some(AdoptedFrom::Orphan);
        let credential =
            if gets_something && extras.has_to_fetch() { self.furnishing_credential(creation).await } else { None };
        let Extras { submodules, lfs, copies } = extras;
        let kept = self.settings().home.join("copy").join(folder(creation.codebase));
        let withheld = !copies && kept.is_dir();
        let furnishing = Furnishing {
            credential,
            submodules,
            lfs,
            keepsake: environment.metadata.restores.as_ref().and_then(|restores| restores.keepsake.clone()),
            copy_from: copies.then_some(kept),
            copy: creation.settings.copy.clone(),
        };
        let Start { from, tip, kind, forks } = start;
        if forks {
            mark_fork(repository, branch, &tip).await?;
        }
        let (path, maker) = (environment.path.clone(), maker(environment));
        let uncommitted = match environment.metadata.adopted_from {
            // What its own thread left there goes on with it, and what a person takes in hand is as they saw it.
            Some(AdoptedFrom::Legacy | AdoptedFrom::Orphan) => Uncommitted::Keep,
            Some(AdoptedFrom::Path | AdoptedFrom::Branch) | None => Uncommitted::Refuse,
        };
        let request = CreateRequest { path, maker, uncommitted, branch: branch.clone(), start: from, furnishing };
        let furnished = self.parts().provider.create(repository, &request).await?;
        notes.0.extend(furnished::notes(&furnished));
        notes.0.extend(withheld.then(furnished::withheld));
        let ahead = match &tips.base {
            Some(base) if kind != StartKind::Fresh => repository.ahead_behind(&tip, base).await?.0,
            Some(_) | None => 0,
        };
        let line = match kind {
            StartKind::Pinned => opening::opening(&Opening::ReviewingFork { sha: &tip, branch }),
            StartKind::Fresh => opening::opening(&Opening::Created { branch }),
            StartKind::Continued => opening::opening(&Opening::Continuing { branch, ahead }),
        };
        notes.0.insert(0, line);
        Ok(Made { start: tip, began_ahead: ahead > 0, whole: furnished.work.is_whole() })
    }

    /// Fetches what belongs to a worktree that may have moved since its branch stood at `before`: submodules, then objects
    /// of LFS. A failure is told and ends nothing.
    pub(super) async fn catch_up(
        &self,
        creation: &Creation<'_>,
        environment: &Environment,
        before: Option<CommitSha>,
    ) -> Result<Vec<String>, StepError> {
        let Creation { codebase, repository, .. } = *creation;
        let (Some(before), Some(after)) = (before, repository.tip(&environment.branch.full_ref()).await?) else {
            return Ok(Vec::new());
        };
        if before == after {
            return Ok(Vec::new());
        }
        let mut brought = Furnished::default();
        // What was left behind by a submodule that is gone is taken back, too.
        let Extras { submodules, lfs, .. } = extras_for(creation, environment, &[&before, &after]).await;
        if submodules != SubmodulePolicy::Leave {
            let policy = &submodules;
            let worktree = &repository.worktree(&environment.path);
            let (from, to) = (&before, &after);
            let along = |credential: Option<Credential>| async move {
                worktree.bring_submodules_along(from, to, policy, credential.as_ref(), SUBMODULES_PATIENCE).await
            };
            let failed = |error: StepError| Submodules { not_moved: Some(error.to_string()), ..Submodules::default() };
            brought.submodules = self.with_credential(codebase, false, along).await.unwrap_or_else(failed);
        }
        if lfs {
            // What came in are pointers.
            brought.lfs = self.pull_lfs(codebase, repository, environment).await;
        }
        Ok(furnished::notes(&brought))
    }

    /// Downloads what a move brought. A failure is told and ends nothing.
    async fn pull_lfs(&self, codebase: &Codebase, repository: &Repository, environment: &Environment) -> Lfs {
        let worktree = &repository.worktree(&environment.path);
        let pull =
            |credential: Option<Credential>| async move { worktree.pull_lfs(credential.as_ref(), LFS_PATIENCE).await };
        let failed = |error: StepError| Lfs { failed: Some(error.to_string()), ..Lfs::default() };
        self.with_credential(codebase, false, pull).await.unwrap_or_else(failed)
    }

    /// What submodules and LFS objects are fetched with. Without it those that need it are told as failed.
    async fn furnishing_credential(&self, creation: &Creation<'_>) -> Option<Credential> {
        let asked = async {
            match self.on_github(creation.codebase)? {
                Some(github) => Ok(Some(github.client.git_credential(github.id, false).await?)),
                None => Ok::<_, StepError>(None),
            }
        };
        match asked.await {
            Ok(credential) => credential,
            Err(error) => {
                tracing::warn!(codebase.name = %creation.codebase.name, error = %error, "no token for submodules and LFS");
                None
            }
        }
    }
}

/// What the folders of a repository are called, as long as it is known: its first name, which another one may have by now.
fn folder(codebase: &Codebase) -> &str {
    codebase.repository_dir.strip_suffix(".git").unwrap_or(&codebase.repository_dir)
}

/// What belongs into a worktree that stands at one of these commits.
async fn extras_for(creation: &Creation<'_>, environment: &Environment, commits: &[&CommitSha]) -> Extras {
    let mut needs = CheckoutNeeds::NONE;
    for commit in commits {
        needs = needs.or(creation.repository.needs(commit).await.unwrap_or(CheckoutNeeds::ALL));
    }
    extras(creation.settings, environment.metadata.fork_head.is_some(), environment.base.as_ref(), needs)
}

async fn tips(repository: &Repository, branch: &BranchName, base: Option<&BranchName>) -> Result<Tips, GitError> {
    Ok(Tips {
        here: repository.tip(&branch.full_ref()).await?,
        remote: repository.tip(&branch.remote_ref()).await?,
        base: match base {
            Some(base) => repository.tip(&base.remote_ref()).await?,
            None => None,
        },
        from_fork: is_a_forks(repository, branch).await?,
    })
}

/// Whether a branch was once made here from a fork's pull request.
pub(super) async fn is_a_forks(repository: &Repository, branch: &BranchName) -> Result<bool, GitError> {
    Ok(repository.tip(&fork_mark(branch)).await?.is_some())
}

/// A pull request's own branch has a namesake on the remote from the beginning; what begins here has none before it is pushed.
pub(super) fn follows_its_remote(environment: &Environment) -> bool {
    let EnvironmentMetadata { fork_head, lost_head, adopted_from, .. } = &environment.metadata;
    let at_its_head = fork_head.is_none() && lost_head.is_none() && adopted_from.is_none();
    at_its_head && environment.work.kind == WorkKind::PullRequest
}
