//! What an agent remembers of a thread: the home it has for it, and its session. Both end on request, and with the
//! worktree that the thread points to.

use super::{Orchestrator, StepError};
use crate::agent;
use crate::model::*;
use crate::reply::commands;
use std::path::PathBuf;

impl Orchestrator {
    /// What the agent keeps between the turns of one conversation.
    pub(super) fn agent_home(&self, conversation: ConversationId) -> PathBuf {
        agent::homes(&self.settings().home).join(conversation.to_string())
    }

    /// `/reset`: refused while a run needs the memory or is about to. Messages of one thread are handled in turn, so none is
    /// added meanwhile.
    pub(super) async fn forget_thread(&self, conversation: &Conversation, by: &Person) -> Result<String, StepError> {
        if self.store().live_run_of(conversation.id).await?.is_some() {
            return Ok(commands::not_forgotten());
        }
        self.store().close_sessions_of(conversation.id, "reset", self.now()).await?;
        agent::forget(&self.agent_home(conversation.id)).await?;
        self.audit_within(conversation.codebase, &conversation.thread, &by.login, "thread.reset", "").await;
        Ok(commands::forgotten())
    }

    /// The threads that pointed to an environment have lost it: its row, and with it their sessions, ended before. What a
    /// crash comes between is found by the next start ([`Self::forget_the_rest`]).
    pub(super) async fn forget_all(&self, users: Vec<Conversation>) -> Result<(), StepError> {
        for conversation in users {
            self.forget_unless_at_work(conversation.id).await?;
        }
        Ok(())
    }

    /// A thread points to no worktree any more; others go on with the one it had.
    pub(super) async fn leave_worktree(&self, conversation: ConversationId) -> Result<(), StepError> {
        self.store().close_sessions_of(conversation, "worktree removed", self.now()).await?;
        self.store().set_conversation_environment(conversation, None, self.now()).await?;
        self.forget_unless_at_work(conversation).await
    }

    /// After a start: threads that point to no worktree remember nothing.
    pub(super) async fn forget_the_rest(&self) -> Result<(), StepError> {
        let Ok(homes) = std::fs::read_dir(agent::homes(&self.settings().home)) else { return Ok(()) };
        let names = homes.flatten().filter_map(|home| home.file_name().to_str()?.parse::<ConversationId>().ok());
        for id in names.collect::<Vec<_>>() {
            let conversation = self.store().load_conversation(id).await?;
            if conversation.is_some_and(|conversation| conversation.environment.is_none()) {
                self.forget_unless_at_work(id).await?;
            }
        }
        Ok(())
    }

    /// An agent at work keeps its home. One that cannot be set aside keeps no worktree from going.
    pub(super) async fn forget_unless_at_work(&self, conversation: ConversationId) -> Result<(), StepError> {
        let live = self.store().live_run_of(conversation).await?;
        if live.is_some_and(|run| run.state == RunState::Running) {
            return Ok(());
        }
        if let Err(error) = agent::forget(&self.agent_home(conversation)).await {
            tracing::error!(conversation.id = %conversation, %error, "the agent goes on remembering the thread");
        }
        Ok(())
    }
}
