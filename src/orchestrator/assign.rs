//! Giving a thread another worktree, on request: one on a branch that a person names, or one that is there already.

use super::create::{Adopted, Creation};
use super::offline::Needed;
use super::prepare::{DECISIONS, Notes};
use super::{Orchestrator, StepError, retry};
use crate::command::grammar::New;
use crate::decide::resolve::{Block, NamedFacts, on_named_branch};
use crate::git::Repository;
use crate::model::*;
use crate::reply::{blocked, commands, not_begun, opening};

/// What a worktree is to be called. A task's branch gets its name from the settings of the repository.
struct Named {
    work: Work,
    branch: Option<BranchName>,
}

impl Orchestrator {
    /// `/worktree create`: makes the worktree, or goes on with the one an earlier try made. The answer, as Markdown.
    pub(super) async fn create_on_request(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        what: &New,
        base: Option<&str>,
        by: &Person,
    ) -> Result<String, StepError> {
        match self.assigned_new(codebase, conversation, what, base, by).await {
            // A reason not to, already worded, is an answer like any other.
            Err(StepError::Refused(why)) => Ok(commands::refused(&why)),
            answer => answer,
        }
    }

    async fn assigned_new(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        what: &New,
        base: Option<&str>,
        by: &Person,
    ) -> Result<String, StepError> {
        let refused = |block: Block| StepError::Refused(blocked::blocked(&block));
        let bad = |error: InvalidName| refused(Block::BadBranch(error.to_string()));
        // Before anybody is asked.
        let base = base.map(BranchName::to_create).transpose().map_err(bad)?;
        let named = match what {
            New::Branch(branch) => {
                let branch = BranchName::to_create(branch).map_err(bad)?;
                Named { work: Work::on_branch(&branch), branch: Some(branch) }
            }
            New::Task(words) => Named { work: Work::of_task(words), branch: None },
        };
        let (codebase, clone_url) = retry::patiently(|| self.refreshed(codebase)).await?;
        let repository = self.repository(&codebase);
        let needed = Needed { pull: None, base: base.as_ref() };
        let offline = self.fetch_or_do_without(&codebase, &repository, &clone_url, &needed).await?;
        let settings = self.repo_settings(&codebase, &repository, conversation).await?;
        let mut on_remote = Vec::new();
        for base in [&base, &settings.base].into_iter().flatten() {
            if repository.tip(&base.remote_ref()).await?.is_some() {
                on_remote.push(base.clone());
            }
        }
        let branch = match named.branch {
            Some(branch) => branch,
            None => settings.branch(&named.work.branch()).map_err(bad)?,
        };
        let strays = self.strays(&repository, &self.place_on_disk(&codebase, &branch), Some(&branch)).await?;
        let facts = NamedFacts {
            work: named.work,
            branch,
            base,
            settings_base: settings.base.clone(),
            default_branch: codebase.default_branch.clone(),
            remote: self.remote(&codebase, &repository).await?,
            on_remote,
            strays,
        };
        let (place, there) = on_named_branch(facts).map_err(refused)?;
        let adopted = there.map(|(path, from)| Adopted { path, from });
        let creation = Creation {
            codebase: &codebase,
            repository: &repository,
            settings: &settings,
            thread: None,
            told_later: false,
        };
        let mut notes = Notes(offline.into_iter().collect());
        for _ in 0..DECISIONS {
            let environment = match self.store().find_live_environment(codebase.id, &place.work).await? {
                // `Add x` and the branch `add-x` have one name.
                Some(other) if other.branch != place.branch => {
                    return Err(StepError::Refused(not_begun::name_taken(&place.work, &other.branch)));
                }
                Some(environment) => environment,
                None => {
                    let journalled =
                        self.journal_creation(&creation, &place, adopted.as_ref(), Vec::new(), &mut notes).await?;
                    let Some(environment) = journalled else { continue };
                    notes.0.extend(adopted.as_ref().map(|_| opening::adopted(&environment.branch)));
                    environment
                }
            };
            let ready = self.ready_for(Some((conversation, by)), &creation, environment.id, &mut notes).await?;
            let Some(environment) = ready else { continue };
            return Ok(commands::works_there(&environment, &notes.0));
        }
        Err(StepError::Refused(not_begun::kept_moving()))
    }

    /// Makes the worktree of an environment, if it is not there, and gives it to a thread; `None` when it is to be decided
    /// anew.
    pub(super) async fn ready_for(
        &self,
        thread: Option<(&Conversation, &Person)>,
        creation: &Creation<'_>,
        id: EnvironmentId,
        notes: &mut Notes,
    ) -> Result<Option<Environment>, StepError> {
        let repository = creation.repository;
        // Nobody removes it in between, and who waits for it finds out whose it is.
        let _lease = self.inner.leases.take(id).await;
        let Some(environment) = self.store().load_environment(id).await? else { return Ok(None) };
        match environment.state {
            EnvironmentState::Creating => {
                let environment = self.finish_creation(creation, environment, notes).await?;
                if let Some((conversation, by)) = thread {
                    self.assign(conversation, &environment, by).await?;
                }
                Ok(Some(environment))
            }
            EnvironmentState::Removing | EnvironmentState::Destroyed => Ok(None),
            EnvironmentState::Active => {
                if self.is_there(repository, &environment).await? {
                    if let Some((conversation, by)) = thread {
                        self.assign(conversation, &environment, by).await?;
                    }
                    return Ok(Some(environment));
                }
                self.close_without_worktree(repository, &environment).await?;
                notes.0.push(opening::stale_reference(&environment.branch));
                Ok(None)
            }
        }
    }

    /// False: its directory is gone. Refuses what nobody can work in as it is.
    async fn is_there(&self, repository: &Repository, environment: &Environment) -> Result<bool, StepError> {
        let id = environment.id;
        let doubt = match self.validity(repository, environment).await {
            Probe::Known(Validity::Valid) => return Ok(true),
            Probe::Known(Validity::Missing) => return Ok(false),
            Probe::Known(Validity::Broken) => Block::Broken { environment: id },
            Probe::Known(Validity::OwnRepository) => Block::OwnRepository { environment: id },
            Probe::Known(Validity::Foreign) => Block::ForeignPath { environment: id },
            Probe::Unknown(why) => Block::CannotVerify { environment: id, why },
        };
        Err(StepError::Refused(blocked::blocked(&doubt)))
    }

    /// `/worktree link`.
    pub(super) async fn link(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        environment: &Environment,
        by: &Person,
    ) -> Result<String, StepError> {
        let _lease = self.inner.leases.take(environment.id).await;
        let now = self.store().load_environment(environment.id).await?;
        match now.filter(|environment| environment.state == EnvironmentState::Active) {
            Some(environment) if !self.is_there(&self.repository(codebase), &environment).await? => {
                Ok(commands::directory_gone(&environment))
            }
            Some(environment) => {
                self.assign(conversation, &environment, by).await?;
                Ok(commands::linked(&environment, &conversation.thread))
            }
            None => Ok(commands::in_transition(&environment.work.to_string())),
        }
    }

    async fn assign(
        &self,
        conversation: &Conversation,
        environment: &Environment,
        by: &Person,
    ) -> Result<(), StepError> {
        let now = self.now();
        self.store().set_conversation_environment(conversation.id, Some(environment.id), now).await?;
        self.store().touch_environment(environment.id, now).await?;
        let (thread, work) = (&conversation.thread, environment.work.to_string());
        self.audit_within(conversation.codebase, thread, &by.login, "thread.assigned", &work).await;
        Ok(())
    }
}
