//! `/worktree restore`: a removed environment comes back with its branch and with what was not committed. It is made anew like
//! any other: journal, worktree, and then what its receipt says was kept.

use super::create::{Creation, Journal};
use super::offline::Needed;
use super::prepare::{DECISIONS, Notes};
use super::sweep::{TRASH, trash_ref};
use super::{Orchestrator, StepError, retry};
use crate::decide::resolve::Block;
use crate::git::Repository;
use crate::model::*;
use crate::reply::{answers, blocked, commands};
use crate::store::{EnvironmentFilter, NewEnvironment};
use crate::telemetry::field::EFFECT;

/// How many environments of a name are looked through, the newest first.
const MOST: u32 = 200;

/// What became of the wish to have an environment back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It is there, with what there is to tell.
    Back(Box<Environment>, Vec<String>),
    /// This work has another one by now.
    Occupied(Work),
    /// No receipt knows of it.
    NeverRemoved,
}

/// Which one is meant, and for whom.
struct Wish<'a> {
    /// Every environment of that work, the newest first.
    had: Vec<Environment>,
    /// This very one of them.
    only: Option<EnvironmentId>,
    /// The thread that goes on in it.
    thread: Option<(&'a Conversation, &'a Person)>,
}

/// What is brought back.
struct Removed {
    environment: Environment,
    receipt: Receipt,
    keepsake: Option<CommitSha>,
}

impl Orchestrator {
    /// The answer, as Markdown.
    pub(super) async fn restore_on_request(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        name: &str,
        by: &Person,
    ) -> Result<String, StepError> {
        let had = self.called_so(codebase.id, name).await?;
        let wish = Wish { had, only: None, thread: Some((conversation, by)) };
        match self.restored(codebase, &wish).await {
            Ok(Restored::Back(environment, notes)) => Ok(commands::works_there(&environment, &notes)),
            Ok(Restored::Occupied(work)) => Ok(commands::nothing_to_restore(&work)),
            Ok(Restored::NeverRemoved) => Ok(commands::never_removed(name)),
            // A reason not to, already worded, is an answer like any other.
            Err(StepError::Refused(why)) => Ok(commands::refused(&why)),
            Err(error) => Err(error),
        }
    }

    /// For how long removed work can be brought back.
    pub fn trash_for(&self) -> std::time::Duration {
        self.settings().trash_for
    }

    /// Brings back this very environment; no thread is told.
    pub async fn restore(&self, id: EnvironmentId, actor: &str) -> Result<Restored, StepError> {
        let Some(environment) = self.store().load_environment(id).await? else { return Ok(Restored::NeverRemoved) };
        let Some(codebase) = self.store().load_codebase(environment.codebase).await? else {
            return Ok(Restored::NeverRemoved);
        };
        let had = self.called_so(codebase.id, &environment.work.to_string()).await?;
        let restored = self.restored(&codebase, &Wish { had, only: Some(id), thread: None }).await?;
        if let Restored::Back(back, _) = &restored {
            self.audit_within(codebase.id, &back.work, actor, "environment.restored", &id.to_string()).await;
        }
        Ok(restored)
    }

    async fn restored(&self, codebase: &Codebase, wish: &Wish<'_>) -> Result<Restored, StepError> {
        let Some(work) = wish.had.first().map(|newest| newest.work.clone()) else { return Ok(Restored::NeverRemoved) };
        let (codebase, clone_url) = retry::patiently(|| self.refreshed(codebase)).await?;
        let repository = self.repository(&codebase);
        let offline =
            self.fetch_or_do_without(&codebase, &repository, &clone_url, &Needed { pull: None, base: None }).await?;
        let settings = match wish.thread {
            Some((conversation, _)) => self.repo_settings(&codebase, &repository, conversation).await?,
            None => {
                let before = self.store().load_repo_settings(codebase.id).await?;
                self.look_up_settings(&codebase, &repository, before.as_ref()).await?.in_force
            }
        };
        let journal = Journal {
            codebase: &codebase,
            repository: &repository,
            limit: settings.worktree_limit(self.settings().environment_limit),
            thread: None,
        };
        let creation = Creation { codebase: &codebase, repository: &repository, settings: &settings, unheard: false };
        let mut notes = Notes(offline.into_iter().collect());
        for _ in 0..DECISIONS {
            let environment = match self.store().find_live_environment(codebase.id, &work).await? {
                // An earlier try of this very wish came this far.
                Some(environment) if self.is_of(wish, &environment).await? => environment,
                Some(_) => return Ok(Restored::Occupied(work)),
                None => {
                    let Some(removed) = self.removed_last(&repository, wish).await? else {
                        return Ok(Restored::NeverRemoved);
                    };
                    if removed.keepsake.is_none() {
                        notes.0.extend(removed.receipt.details.kept_until.map(commands::trash_expired));
                    }
                    let new = self.as_it_was(&codebase, &repository, &removed).await?;
                    let Some(environment) = self.journal_new(&journal, new, &mut notes).await? else { continue };
                    environment
                }
            };
            let ready = self.ready_for(wish.thread, &creation, environment.id, &mut notes).await?;
            let Some(environment) = ready else { continue };
            return Ok(Restored::Back(Box::new(environment), notes.0));
        }
        Err(StepError::Refused(answers::kept_moving()))
    }

    /// Whether an environment that is there was brought back by this very wish, before a crash: nobody else works in it.
    async fn is_of(&self, wish: &Wish<'_>, environment: &Environment) -> Result<bool, StepError> {
        let Some(restores) = &environment.metadata.restores else { return Ok(false) };
        let users = self.store().conversations_of(environment.id).await?;
        let own = |user: &Conversation| wish.thread.is_some_and(|(thread, _)| thread.id == user.id);
        Ok(wish.only.is_none_or(|only| only == restores.environment) && users.iter().all(own))
    }

    /// Every environment of that name or branch, the newest first.
    async fn called_so(&self, codebase: CodebaseId, name: &str) -> Result<Vec<Environment>, StepError> {
        let filter = EnvironmentFilter { codebase: Some(codebase), live_only: false, search: name.to_owned() };
        let mut found = self.store().list_environments(&filter, MOST, 0).await?;
        let alike = |text: &str| text.eq_ignore_ascii_case(name);
        // Work counts before a branch: a pull request's has the branch of the issue that it closes.
        let is_work = found.iter().any(|one| alike(&one.work.to_string()));
        found.retain(|one| alike(&one.work.to_string()) || (!is_work && alike(one.branch.as_str())));
        let newest = found.first().map(|newest| newest.work.clone());
        found.retain(|one| Some(&one.work) == newest.as_ref());
        Ok(found)
    }

    /// The last of them that was removed with something uncommitted which nobody brought back, else the last that was removed.
    async fn removed_last(&self, repository: &Repository, wish: &Wish<'_>) -> Result<Option<Removed>, StepError> {
        let mut last = None;
        for environment in wish.had.iter().filter(|one| wish.only.is_none_or(|only| only == one.id)) {
            let back = |other: &Environment| {
                other.metadata.restores.as_ref().is_some_and(|it| it.environment == environment.id && it.whole)
            };
            let Some(receipt) = self.store().receipt_of(environment.id).await? else { continue };
            if receipt.details.released || wish.had.iter().any(back) {
                continue;
            }
            // A removal that went no further may have left one, too.
            let keepsake = match &receipt.details.safety_ref {
                Some(_) => repository.tip(&trash_ref(environment.id)).await?,
                None => None,
            };
            let removed = Removed { environment: environment.clone(), receipt, keepsake };
            if removed.keepsake.is_some() {
                return Ok(Some(removed));
            }
            last.get_or_insert(removed);
        }
        Ok(last)
    }

    /// The row of what is brought back, with its branch there.
    async fn as_it_was(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        removed: &Removed,
    ) -> Result<NewEnvironment, StepError> {
        let Removed { environment, receipt, keepsake } = removed;
        let branch = &environment.branch;
        if let Some(other) = repository.branch_in_the_way(branch).await? {
            let why = answers::branch_beside(branch, &other);
            return Err(StepError::Refused(blocked::blocked(&Block::BadBranch(why))));
        }
        if let Some(tip) = &receipt.details.tip
            && repository.tip(&branch.full_ref()).await?.is_none()
        {
            repository.set_ref(&branch.full_ref(), tip, None).await?;
            tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "branch brought back");
        }
        let before = &environment.metadata;
        Ok(NewEnvironment {
            codebase: codebase.id,
            work: environment.work.clone(),
            branch: branch.clone(),
            path: self.place_on_disk(codebase, branch),
            base: environment.base.clone(),
            provider: self.parts().provider.name().to_owned(),
            metadata: EnvironmentMetadata {
                links: before.links.clone(),
                fork_head: before.fork_head.clone(),
                lost_head: before.lost_head.clone(),
                agreed: before.agreed.clone(),
                foreign_branch: before.foreign_branch,
                created_by: before.created_by,
                restores: Some(Restores { environment: environment.id, keepsake: keepsake.clone(), whole: false }),
                ..Default::default()
            },
        })
    }

    /// Lets go of what the trash has kept for as long as it was promised. What fails is tried again by the next pass.
    pub(super) async fn empty_expired(&self, codebase: &Codebase) {
        let repository = self.repository(codebase);
        if !repository.directory().is_dir() {
            return;
        }
        let emptied = async {
            for (name, keepsake, made) in repository.refs_below(TRASH).await? {
                let id: Option<EnvironmentId> = name.strip_prefix(TRASH).and_then(|id| id.parse().ok());
                let Some(id) = id else { continue };
                let until = match self.store().receipt_of(id).await?.and_then(|receipt| receipt.details.kept_until) {
                    Some(until) => until,
                    // Of a removal that went no further.
                    None => Timestamp::new(made.into()).plus(self.settings().trash_for),
                };
                if until <= self.now() && !self.is_awaited(codebase, id).await? {
                    repository.delete_own_ref(&name, &keepsake).await?;
                    self.audit("schedule", "trash.expired", &id.to_string(), &name).await;
                }
            }
            Ok::<_, StepError>(())
        };
        if let Err(error) = emptied.await {
            tracing::warn!(codebase.name = %codebase.name, %error, "expired trash not emptied; the next pass tries again");
        }
    }

    /// Whether it is being removed, or brought back, at this moment.
    async fn is_awaited(&self, codebase: &Codebase, id: EnvironmentId) -> Result<bool, StepError> {
        let live = self.store().live_environments(Some(codebase.id)).await?;
        Ok(live.iter().any(|one| match one.state {
            EnvironmentState::Removing => one.id == id,
            EnvironmentState::Creating => one.metadata.restores.as_ref().is_some_and(|it| it.environment == id),
            EnvironmentState::Active | EnvironmentState::Destroyed => false,
        }))
    }
}
