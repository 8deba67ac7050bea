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
        self.settings().home.join("agents").join(conversation.to_string())
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

    /// The threads that point to an environment are about to lose it. Before the row ends, which ends the sessions: what a
    /// crash comes between is done again.
    pub(super) async fn forget_with(&self, environment: EnvironmentId) -> Result<(), StepError> {
        for conversation in self.store().conversations_of(environment).await? {
            self.forget_unless_at_work(conversation.id).await?;
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
