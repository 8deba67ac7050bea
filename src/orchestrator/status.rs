//! Publishing a run's status comment: the row in the outbox always holds the newest wanted text.

use super::{Orchestrator, StepError};
use crate::model::*;
use crate::reply::{
    self,
    status::{self, StatusView},
};
use crate::store::NewOutgoing;

impl Orchestrator {
    /// Asks for the status comment to say what `run` says now.
    pub(super) async fn publish(&self, run: &Run, step: Option<&str>) -> Result<(), StepError> {
        if let Some(new) = self.status_comment(run, step).await? {
            self.ask_to_send(new).await?;
        }
        Ok(())
    }

    /// The status comment for a run; absent when its thread is no longer known.
    pub(super) async fn status_comment(&self, run: &Run, step: Option<&str>) -> Result<Option<NewOutgoing>, StepError> {
        let codebase = self.store().load_codebase(run.codebase).await?;
        let conversation = self.store().load_conversation(run.conversation).await?;
        let (Some(codebase), Some(conversation)) = (codebase, conversation) else {
            return Ok(None);
        };
        let environment = match run.environment {
            Some(id) => self.store().load_environment(id).await?,
            None => None,
        };
        let place = match run.state {
            RunState::Queued => Some(self.store().queue_place(run.id).await?),
            _ => None,
        };
        let settings = self.settings();
        let end = run.ended_at.unwrap_or_else(|| self.now());
        let body = status::render(&StatusView {
            run,
            repository: &codebase.name,
            web_url: match codebase.host {
                Host::Github { .. } => Some(&settings.web_url),
                Host::Local { .. } => None,
            },
            panel_url: format!("{}/runs/{}", settings.public_url, run.id),
            branch: environment.as_ref().map(|environment| &environment.branch),
            place,
            step,
            elapsed: run.started_at.map(|start| end.since(start)),
        });
        let key = status::key(run.id);
        let outgoing = Outgoing::text(&conversation, body, reply::marker(&key));
        Ok(Some(NewOutgoing {
            key,
            codebase: run.codebase,
            conversation: Some(run.conversation),
            outgoing: self.redacted(outgoing),
            turn: if run.state.is_final() { Turn::Result } else { Turn::Progress },
            not_before: self.now(),
        }))
    }
}
