//! `/worktree restore`: a removed environment comes back with its branch and with what was not committed. It is made anew like
//! any other: journal, worktree, and then what its receipt says was kept. And the end of what was kept, when nobody asked for
//! it in time.

use super::create::Creation;
use super::offline::Needed;
use super::prepare::{DECISIONS, Notes};
use super::sweep::{TRASH, trash_ref};
use super::{Orchestrator, StepError, retry};
use crate::decide::restore::{
    Had, Live, Restoration, RestoreFacts, TrashFacts, called, has_expired, kept_since, restoration, witnessed,
};
use crate::git::Repository;
use crate::model::*;
use crate::reply::{commands, not_begun};
use crate::store::EnvironmentFilter;

/// How many environments are looked through for a name that the database does not know, the newest first.
const MOST: u32 = 200;

/// What became of the wish to have an environment back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It is there, with what there is to tell.
    Back(Box<Environment>, Vec<String>),
    /// It was there already, by an earlier wish.
    Before(Box<Environment>),
    /// This work has another one by now.
    Occupied(Box<Environment>),
    /// No receipt knows of it.
    NeverRemoved,
}

/// Which one is meant, and for whom.
struct Wish<'a> {
    /// Every environment that is meant, of one piece of work, the newest first.
    had: Vec<Environment>,
    /// This very one of them.
    only: Option<EnvironmentId>,
    /// The thread that goes on in it.
    thread: Option<(&'a Conversation, &'a Person)>,
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
            Ok(Restored::Before(environment)) => Ok(commands::works_there(&environment, &[])),
            Ok(Restored::Back(environment, notes)) => Ok(commands::works_there(&environment, &notes)),
            Ok(Restored::Occupied(environment)) => Ok(commands::nothing_to_restore(&environment)),
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
        let had = self.store().environments_of(codebase.id, &environment.work).await?;
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
        let creation = Creation {
            codebase: &codebase,
            repository: &repository,
            settings: &settings,
            thread: None,
            told_later: false,
        };
        let mut notes = Notes(offline.into_iter().collect());
        for had in &wish.had {
            // What was written there at the very last belongs to it.
            Box::pin(self.look_again_or_later(had.id)).await;
        }
        for _ in 0..DECISIONS {
            let facts = self.restore_facts(&repository, wish, codebase.id, &work).await?;
            let environment = match restoration(&facts) {
                // An earlier try of this very wish came this far.
                Restoration::GoOn(environment) => {
                    if wish.thread.is_none()
                        && environment.state == EnvironmentState::Active
                        && self.validity(&repository, &environment).await == Probe::Known(Validity::Valid)
                    {
                        return Ok(Restored::Before(environment));
                    }
                    let more = commands::kept_since(&environment.work);
                    if kept_since(&environment, &facts.had) && !notes.0.contains(&more) {
                        notes.0.push(more);
                    }
                    *environment
                }
                Restoration::Occupied(environment) => return Ok(Restored::Occupied(environment)),
                Restoration::NeverRemoved => return Ok(Restored::NeverRemoved),
                Restoration::BringBack(removed) => {
                    let id = removed.environment.id;
                    // Nobody lets go of its work meanwhile; once it is journalled, it is awaited.
                    let _lease = self.inner.leases.take(id).await;
                    if removed.keepsake.is_some() && repository.tip(&trash_ref(id)).await? != removed.keepsake {
                        continue;
                    }
                    let journalled = self.journal_return(&creation, &removed, &mut notes).await?;
                    let Some(environment) = journalled else { continue };
                    if self.parts().provider.removal_begun(id) {
                        notes.0.push(commands::files_wait());
                    }
                    if removed.keepsake.is_none() {
                        notes.0.extend(removed.details.kept_until.map(commands::trash_expired));
                    }
                    environment
                }
            };
            let ready = self.ready_for(wish.thread, &creation, environment.id, &mut notes).await?;
            let Some(environment) = ready else { continue };
            return Ok(Restored::Back(Box::new(environment), notes.0));
        }
        Err(StepError::Refused(not_begun::kept_moving()))
    }

    async fn restore_facts(
        &self,
        repository: &Repository,
        wish: &Wish<'_>,
        codebase: CodebaseId,
        work: &Work,
    ) -> Result<RestoreFacts, StepError> {
        let live = match self.store().find_live_environment(codebase, work).await? {
            Some(environment) => {
                let users = self.store().conversations_of(environment.id).await?;
                Some(Live { users: users.iter().map(|user| user.id).collect(), environment })
            }
            None => None,
        };
        let mut had: Vec<Had> = Vec::new();
        for known in &wish.had {
            // As it is by now: an earlier decision may have closed it.
            let Some(environment) = self.store().load_environment(known.id).await? else { continue };
            let receipt = match self.store().receipt_of(environment.id).await {
                // The newest first: where a later one can be read, this one is not the one that is meant.
                Err(error)
                    if error.is_corrupt()
                        && wish.only != Some(environment.id)
                        && had.iter().any(|had| had.receipt.is_some()) =>
                {
                    tracing::warn!(environment.id = %environment.id, %error, "its receipt cannot be read: it is no choice");
                    None
                }
                receipt => receipt?,
            };
            let in_trash = repository.tip(&trash_ref(environment.id)).await?;
            had.push(Had { receipt, in_trash, environment });
        }
        Ok(RestoreFacts { only: wish.only, thread: wish.thread.map(|(thread, _)| thread.id), live, had })
    }

    /// Every environment that a name stands for, the newest first.
    async fn called_so(&self, codebase: CodebaseId, name: &str) -> Result<Vec<Environment>, StepError> {
        let mut found = self.store().environments_called(codebase, name).await?;
        if found.is_empty() {
            // A conversation's work is called by a hash, which only stands in the name of its branch.
            let filter = EnvironmentFilter { codebase: Some(codebase), live_only: false, search: name.to_owned() };
            found = self.store().list_environments(&filter, MOST, 0).await?;
        }
        Ok(called(found, name))
    }

    /// Lets go of what the trash has kept for as long as it was promised. What fails is tried again by the next pass.
    pub(super) async fn empty_expired(&self, codebase: &Codebase) {
        let repository = self.repository(codebase);
        if !repository.directory().is_dir() {
            return;
        }
        let kept = match repository.refs_below(TRASH).await {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(codebase.name = %codebase.name, %error, "trash not looked at; the next pass tries again");
                return;
            }
        };
        if kept.is_empty() {
            return;
        }
        let then = witnessed(self.now_at_least(), self.settings().sweep_interval);
        let witnessed = match self.store().was_passed_between(*then.start(), *then.end()).await {
            Ok(witnessed) => witnessed,
            Err(error) => {
                tracing::warn!(codebase.name = %codebase.name, %error, "trash not looked at; the next pass tries again");
                return;
            }
        };
        for (name, keepsake, made) in kept {
            let Some(id) = name.strip_prefix(TRASH).and_then(|id| id.parse().ok()) else { continue };
            if let Err(error) = self.empty_if_expired(codebase, &repository, id, &keepsake, made, witnessed).await {
                tracing::warn!(environment.id = %id, %error, "expired trash not emptied; the next pass tries again");
            }
        }
    }

    async fn empty_if_expired(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        id: EnvironmentId,
        keepsake: &CommitSha,
        made: Timestamp,
        witnessed: bool,
    ) -> Result<(), StepError> {
        // Nobody brings it back, or removes what it belongs to, meanwhile.
        let _lease = self.inner.leases.take(id).await;
        let facts = TrashFacts {
            now: self.now_at_least(),
            witnessed,
            environment: id,
            kept_until: self.store().receipt_of(id).await?.and_then(|receipt| receipt.details.kept_until),
            made,
            trash_for: self.settings().trash_for,
            live: self.store().live_environments(Some(codebase.id)).await?,
        };
        let name = trash_ref(id);
        if has_expired(&facts) && repository.delete_own_ref(&name, keepsake).await? {
            self.audit("schedule", "trash.expired", &id.to_string(), &name).await;
        }
        Ok(())
    }
}
