//! How far the bot goes in a repository: it is switched on, staged or off, and in a staged one it says what it would do.

use super::intake::{HANDLED_BEFORE, Handled, answer_key, done};
use super::lanes::Place;
use super::{Orchestrator, StepError, commands, gather};
use crate::command::grammar::{Command, Entry, Request};
use crate::decide::admit::Asks;
use crate::decide::staged::{Foreseen, StagedFacts, foresee};
use crate::model::*;
use crate::reply::{self, staged};
use crate::store::StoreError;

/// What a request is for, as far as the mode of a codebase makes a difference.
pub(super) fn asks(request: &Request) -> Asks {
    match request {
        Request::Agent(_) => Asks::Change,
        Request::Command(_, Command::Enable) => Asks::Enable,
        Request::Command(_, Command::Stop) => Asks::End,
        Request::Command(_, Command::Cleanup { dry_run: true, .. }) | Request::Unknown { .. } => Asks::Tell,
        Request::Command(_, command) if commands::changes(command) => Asks::Change,
        Request::Command(..) => Asks::Tell,
    }
}

/// The same command, as far as it can say what it would do.
fn tried_out(command: &Command) -> Option<Command> {
    match command {
        Command::Remove { name, force, .. } => {
            Some(Command::Remove { name: name.clone(), force: *force, dry_run: true })
        }
        Command::Cleanup { merged, .. } => Some(Command::Cleanup { merged: *merged, dry_run: true }),
        Command::Help
        | Command::Status
        | Command::Doctor
        | Command::Stop
        | Command::List
        | Command::Create { .. }
        | Command::Link { .. }
        | Command::Orphans
        | Command::Restore { .. }
        | Command::Pin
        | Command::Unpin
        | Command::Reset
        | Command::Enable
        | Command::Approve { .. } => None,
    }
}

impl Orchestrator {
    /// As it is now; what was read before may be old.
    pub(super) async fn mode_of(&self, codebase: &Codebase) -> Result<CodebaseMode, StoreError> {
        let now = self.store().load_codebase(codebase.id).await?;
        Ok(now.map_or(codebase.mode, |now| now.mode))
    }

    /// Switches a codebase on, stages it, or switches it off. False: it was so already. Runs that wait find out when they
    /// begin, and those at work before they push.
    pub async fn set_mode(&self, codebase: &Codebase, mode: CodebaseMode, actor: &str) -> Result<bool, StepError> {
        let changed = self.store().set_codebase_mode(codebase.id, mode, self.now()).await?;
        if changed {
            self.audit(actor, "codebase.mode", &codebase.name.to_string(), mode.as_str()).await;
        }
        Ok(changed)
    }

    /// `/enable`.
    pub(super) async fn enable(&self, codebase: &Codebase, by: &Person) -> Result<String, StepError> {
        let changed = self.set_mode(codebase, CodebaseMode::On, &by.login).await?;
        Ok(staged::enabled(&codebase.name, changed))
    }

    /// Answers a request in a staged codebase with what would be done for it.
    pub(super) async fn foretell(
        &self,
        delivery: &Delivery,
        codebase: &Codebase,
        conversation: &Conversation,
        asked: &RunRequest,
        request: &Request,
        place: &mut Place,
    ) -> Result<Handled, StepError> {
        let slug = conversation.thread.number().map(|_| self.identity().slug.as_str());
        let told = match request {
            Request::Command(entry, command) => match tried_out(command) {
                Some(harmless) => {
                    place.step_aside().await?;
                    if self.was_handled(delivery, conversation, &asked.source).await? {
                        return done(HANDLED_BEFORE);
                    }
                    let foreseen = self.command(delivery, &harmless, codebase, conversation, &asked.requester).await?;
                    staged::tried_out(&codebase.name, entry, &foreseen, slug)
                }
                None => staged::command(&codebase.name, entry, slug),
            },
            Request::Agent(_) | Request::Unknown { .. } => {
                staged::request(&codebase.name, &self.foreseen_work(codebase, conversation).await?, slug)
            }
        };
        let key = answer_key(delivery, conversation, &asked.source);
        self.comment(key.clone(), codebase, conversation, reply::commands::answer(&told, &key)).await?;
        done(match request {
            Request::Command(Entry { name, .. }, _) => format!("told what {name} would do: the repository is staged"),
            Request::Agent(_) | Request::Unknown { .. } => {
                "told what would be done: the repository is staged".to_owned()
            }
        })
    }

    async fn foreseen_work(&self, codebase: &Codebase, conversation: &Conversation) -> Result<Foreseen, StoreError> {
        let pointed_to = match conversation.environment {
            Some(id) => self.store().load_environment(id).await?,
            None => None,
        };
        let there = match pointed_to.filter(|there| there.state == EnvironmentState::Active) {
            None => self.store().find_live_environment(codebase.id, &gather::work_of(conversation)).await?,
            there => there,
        };
        Ok(foresee(&StagedFacts {
            thread: conversation.thread.clone(),
            there,
            default_branch: codebase.default_branch.clone(),
            settings: self.store().load_repo_settings(codebase.id).await?.unwrap_or_default().in_force,
            has_pull_requests: matches!(codebase.host, Host::Github { .. }),
        }))
    }
}
