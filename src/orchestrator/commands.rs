//! Commands, answered at once. Each calls the same verbs as the panel and the command line.

use super::{
    Orchestrator, StepError, gather,
    sweep::{Asked, Pass, Swept},
};
use crate::command::{grammar::Command, help};
use crate::decide::cleanup::{Class, Keep, Occasion};
use crate::git::GitError;
use crate::model::*;
use crate::reply::{cleanup, commands, run_end, staged};
use std::{collections::BTreeSet, path::Path};

/// Whether a command asks git about worktrees, or removes some. The others are answered at once, above all `/stop`.
pub(super) fn takes_long(command: &Command) -> bool {
    match command {
        Command::Status
        | Command::Doctor
        | Command::Create { .. }
        | Command::Orphans
        | Command::Reset
        | Command::Remove { .. }
        | Command::Restore { .. }
        | Command::Cleanup { .. } => true,
        Command::Help
        | Command::Stop
        | Command::List
        | Command::Link { .. }
        | Command::Pin
        | Command::Unpin
        | Command::Enable
        | Command::Approve { .. } => false,
    }
}

/// Whether a command does more than tell: `/stop` keeps one that waits from beginning.
pub(super) fn changes(command: &Command) -> bool {
    match command {
        Command::Remove { dry_run, .. } => !dry_run,
        Command::Create { .. }
        | Command::Link { .. }
        | Command::Reset
        | Command::Restore { .. }
        | Command::Cleanup { .. }
        | Command::Pin
        | Command::Unpin
        | Command::Enable
        | Command::Approve { .. } => true,
        Command::Help | Command::Status | Command::Doctor | Command::Stop | Command::List | Command::Orphans => false,
    }
}

/// Whether a command gives its thread a worktree to go on in: a closed conversation is open again with it.
pub(super) fn ties(command: &Command) -> bool {
    match command {
        Command::Create { .. } | Command::Link { .. } | Command::Restore { .. } => true,
        Command::Help
        | Command::Status
        | Command::Doctor
        | Command::Stop
        | Command::List
        | Command::Orphans
        | Command::Reset
        | Command::Remove { .. }
        | Command::Cleanup { .. }
        | Command::Pin
        | Command::Unpin
        | Command::Enable
        | Command::Approve { .. } => false,
    }
}

/// What `/worktree remove` asks for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// `None`: the worktree of the thread.
    pub name: Option<&'a str>,
    pub force: bool,
    pub dry_run: bool,
    pub trigger: Trigger,
}

impl Orchestrator {
    /// The answer to a command, as Markdown.
    pub(super) async fn command(
        &self,
        delivery: &Delivery,
        command: &Command,
        codebase: &Codebase,
        conversation: &Conversation,
        by: &Person,
    ) -> Result<String, StepError> {
        match command {
            Command::Help => Ok(match conversation.thread {
                ThreadId::Numbered { .. } => help::text(Some(&self.identity().slug)),
                ThreadId::Named(_) => help::text(None),
            }),
            Command::Doctor => self.examined(codebase).await,
            Command::Status => self.thread_status(codebase, conversation).await,
            Command::Stop => {
                // Marked before the look at the runs: one of them may be about to make its own.
                let waiting = self.store().stop_waiting_before(delivery).await?;
                let runs = self.stop_conversation(conversation.id, delivery.id, &by.login).await?;
                Ok(commands::stopping(runs, waiting > 0))
            }
            Command::List => {
                let environments = self.store().live_environments(Some(codebase.id)).await?;
                let (mut gone, mut left) = (BTreeSet::new(), BTreeSet::new());
                for environment in environments.iter().filter(|one| one.state == EnvironmentState::Active) {
                    if let Ok(false) = tokio::fs::try_exists(&environment.path).await {
                        gone.insert(environment.id);
                    }
                    if self.store().conversations_of(environment.id).await?.is_empty()
                        && self.store().held_conversations_of(environment.id).await?.is_empty()
                    {
                        left.insert(environment.id);
                    }
                }
                Ok(commands::environment_list(&environments, conversation.environment, &gone, &left))
            }
            Command::Create { what, base } => {
                self.create_on_request(codebase, conversation, what, base.as_deref(), by).await
            }
            Command::Link { name } => {
                let live = self.store().live_environments(Some(codebase.id)).await?;
                match called(live, name) {
                    Some(environment) => self.link(codebase, conversation, &environment, by).await,
                    None => Ok(commands::nothing_called(name)),
                }
            }
            Command::Orphans => self.known_to_git(codebase).await,
            Command::Reset => self.forget_thread(conversation, by).await,
            Command::Enable => self.enable(codebase, by).await,
            Command::Approve { head } => self.approve(codebase, conversation, head, by).await,
            Command::Remove { name, force, dry_run } => {
                let asked = Asked { delivery, thread: conversation.id };
                let (force, dry_run, trigger) = (*force, *dry_run, Trigger::Command);
                let wanted = Wanted { name: name.as_deref(), force, dry_run, trigger };
                let answer = self.remove_by_name(asked, codebase, conversation, wanted, by).await?;
                Ok(if dry_run { commands::only_foreseen(&answer) } else { answer })
            }
            Command::Restore { name } => self.restore_on_request(codebase, conversation, name, by).await,
            Command::Cleanup { merged, dry_run } => {
                let (kind, class) = if *merged { ("merged", Class::Merged) } else { ("stale", Class::Stale) };
                let pass = Pass {
                    trigger: Trigger::Command,
                    dry_run: *dry_run,
                    actor: &by.login,
                    codebase: Some(codebase.id),
                    only: Some(class),
                    stop: None,
                    asked: Some(Asked { delivery, thread: conversation.id }),
                };
                Ok(commands::cleanup_report(kind, &self.pass(&pass).await?))
            }
            Command::Pin => self.pin_thread(conversation, true, by).await,
            Command::Unpin => self.pin_thread(conversation, false, by).await,
        }
    }

    /// All worktrees of the repository, whoever made them, and what else is where they are.
    async fn known_to_git(&self, codebase: &Codebase) -> Result<String, StepError> {
        let repository = self.repository(codebase);
        let there = repository.directory().try_exists().map_err(|error| {
            GitError::Unreadable(format!("the directory of {} could not be looked at: {error}", codebase.name))
        })?;
        let entries = if there { self.parts().provider.list(&repository).await? } else { Vec::new() };
        let live = self.store().live_environments(Some(codebase.id)).await?;
        let below =
            |path: &Path| path.strip_prefix(&self.settings().worktree_base).ok().map(|path| path.display().to_string());
        let ours = entries.into_iter().filter_map(|entry| {
            let environment = live.iter().find(|environment| entry.is_at(&environment.path))?;
            let (place, whose) = (below(&entry.path), commands::Whose::Ours(environment.work.clone()));
            Some(commands::Known { place, whose, branch: entry.branch })
        });
        let mut known: Vec<commands::Known> = ours.collect();
        for orphan in self.orphans(codebase).await?.0 {
            let reasons = if orphan.goes { Vec::new() } else { orphan.reasons };
            // Nobody is told where on this machine other people's worktrees are.
            let place = Some(orphan.place).filter(|place| Path::new(place).is_relative());
            known.push(commands::Known {
                place,
                whose: commands::Whose::Nobodys(orphan.kind, reasons),
                branch: orphan.branch,
            });
        }
        Ok(commands::known_to_git(&known))
    }

    async fn thread_status(&self, codebase: &Codebase, conversation: &Conversation) -> Result<String, StepError> {
        let environment = match conversation.environment {
            Some(id) => self.store().load_environment(id).await?,
            None => None,
        };
        let seen = match &environment {
            Some(environment) => Some(self.look_at(codebase, environment).await),
            None => None,
        };
        let last = match environment {
            None => self.store().find_last_environment(codebase.id, &gather::work_of(conversation)).await?,
            Some(_) => None,
        };
        let live = self.store().live_run_of(conversation.id).await?;
        let place = match &live {
            Some(run) if run.state == RunState::Queued => self.store().queue_place(run.id).await?,
            Some(_) | None => 0,
        };
        let run = live.map(|run| commands::LiveRun {
            state: run.state,
            place,
            age: self.now().since(run.created_at),
            panel_url: self.panel_url(run.id),
            requester: run.request.requester.login,
        });
        let asked = self.store().load_repo_settings(codebase.id).await?.unwrap_or_default().in_force;
        let disk = self.told_of_disk(codebase.id).await?;
        let mode = staged::in_status(codebase.mode);
        let status = commands::thread_status(&commands::ThreadStatus {
            disk: disk.map(|(line, _)| line),
            environment: environment.as_ref().zip(seen.as_ref()),
            removed: last.as_ref(),
            run,
            census: self.census(codebase).await?,
            limit: asked.worktree_limit(self.settings().environment_limit),
        });
        Ok(status + &mode)
    }

    pub(super) async fn remove_by_name(
        &self,
        asked: Asked<'_>,
        codebase: &Codebase,
        conversation: &Conversation,
        wanted: Wanted<'_>,
        by: &Person,
    ) -> Result<String, StepError> {
        let Wanted { name, force, dry_run, trigger } = wanted;
        if let Some(receipt) = self.removed_before(asked.delivery).await?.pop()
            && let Some(removed) = self.store().load_environment(receipt.environment).await?
        {
            return Ok(cleanup::removed_line(&removed.work, &receipt.details));
        }
        let live = self.store().live_environments(Some(codebase.id)).await?;
        let wanted = match name {
            Some(name) => called(live, name),
            None => live.into_iter().find(|environment| Some(environment.id) == conversation.environment),
        };
        let Some(environment) = wanted else {
            return Ok(name.map_or_else(commands::no_environment, commands::nothing_called));
        };
        if name.is_none() {
            let users = self.store().conversations_of(environment.id).await?;
            let is_other = |user: &Conversation| user.id != conversation.id && user.state == ThreadState::Open;
            let others: Vec<Conversation> = users.into_iter().filter(is_other).collect();
            for other in &others {
                let run = self.store().live_run_of(other.id).await?;
                if let Some(run) = run.filter(|run| !run.is_elsewhere(environment.id)) {
                    return Ok(commands::in_use_by(&environment.work, &other.thread, run.id));
                }
            }
            let others: Vec<ThreadId> = others.into_iter().map(|other| other.thread).collect();
            if !others.is_empty() {
                if !dry_run {
                    self.leave_worktree(conversation.id).await?;
                }
                return Ok(commands::left_to_others(&environment.work, &others, force));
            }
        }
        let (id, actor) = (environment.id, by.login.as_str());
        let occasion = if force { Occasion::Forced } else { Occasion::Named };
        let swept = match dry_run {
            true => self.foresee(id, force, trigger, actor).await?,
            false => self.remove_named(id, occasion, trigger, actor, Some(asked)).await?,
        };
        Ok(match swept {
            Swept::Removed(details) => cleanup::removed_line(&environment.work, &details),
            Swept::Kept(reasons) => commands::kept_on_request(&environment, &reasons, self.settings().trash_for),
            Swept::Gone => commands::removed_before(&environment.branch),
        })
    }

    async fn pin_thread(&self, conversation: &Conversation, pinned: bool, by: &Person) -> Result<String, StepError> {
        let pinned = match conversation.environment {
            Some(id) => self.set_pinned(id, pinned, &by.login).await?,
            None => None,
        };
        Ok(pinned.map_or_else(commands::no_environment, |environment| commands::pinned(&environment)))
    }

    /// Protects an environment from cleanup, or ends that; `None` when there is no such environment.
    pub async fn set_pinned(
        &self,
        id: EnvironmentId,
        pinned: bool,
        actor: &str,
    ) -> Result<Option<Environment>, StepError> {
        let _lease = self.inner.leases.take(id).await;
        let Some(mut environment) = self.store().load_environment(id).await? else { return Ok(None) };
        if environment.state != EnvironmentState::Active {
            return Ok(None);
        }
        environment.pinned = pinned;
        let sentence = cleanup::sentence(&Keep::Pinned);
        environment.metadata.kept_because.retain(|reason| *reason != sentence);
        let steps = cleanup::next_steps(&[Keep::Pinned]);
        environment.metadata.next_steps.retain(|step| !steps.contains(step));
        if pinned {
            environment.metadata.kept_because.push(sentence);
        }
        let environment = self.store().update_environment(&environment).await?;
        let action = if pinned { "environment.pinned" } else { "environment.unpinned" };
        self.audit_within(environment.codebase, &environment.work, actor, action, "").await;
        Ok(Some(environment))
    }

    /// Asks this conversation's runs to stop, as far as they were asked for before the delivery `asked_in`; queued ones are
    /// over at once. Answers how many there were.
    async fn stop_conversation(
        &self,
        conversation: ConversationId,
        asked_in: InboxId,
        actor: &str,
    ) -> Result<usize, StepError> {
        let because = run_end::stopped_before_work();
        let runs = self.store().request_cancel_of_conversation(conversation, asked_in, &because, self.now()).await?;
        self.stopped(&runs, actor).await?;
        Ok(runs.len())
    }

    /// Asks one run to stop; false when it is over already.
    pub async fn stop_run(&self, run: RunId, actor: &str) -> Result<bool, StepError> {
        let because = run_end::stopped_before_work();
        let runs = self.store().request_cancel_of_run(run, &because, self.now()).await?;
        self.stopped(&runs, actor).await?;
        Ok(!runs.is_empty())
    }

    async fn stopped(&self, runs: &[RunId], actor: &str) -> Result<(), StepError> {
        self.inner.wake.cancelled.notify_waiters();
        let (mut over, mut told) = (None, Ok(()));
        for id in runs {
            self.audit(actor, "run.stop", &id.to_string(), "").await;
            if let Some(run) = self.store().load_run(*id).await?.filter(|run| run.state.is_final()) {
                told = told.and(self.publish(&run, None).await);
                over = Some(run);
            }
        }
        // They are of one conversation.
        if let Some(run) = over {
            self.look_after_thread_soon(run);
        }
        told
    }
}

/// By the work's name, which is unique (a thread's also with what it is called on its platform); else by that or the branch
/// in whatever case, when only one is called so.
fn called(live: Vec<Environment>, name: &str) -> Option<Environment> {
    let in_full = |work: &Work| work.kind == WorkKind::Thread && name.strip_prefix("thread-") == Some(&work.id);
    let named = |environment: &&Environment| environment.work.to_string() == name || in_full(&environment.work);
    if let Some(environment) = live.iter().find(named) {
        return Some(environment.clone());
    }
    let alike = |text: &str| text.eq_ignore_ascii_case(name);
    let mut called = live
        .into_iter()
        .filter(|environment| alike(environment.branch.as_str()) || alike(&environment.work.to_string()));
    let first = called.next()?;
    called.next().is_none().then_some(first)
}
