//! What ties an issue and its pull request together, in rows and threads. Every step can be repeated, and is, by the next run.

use super::{Orchestrator, StepError};
use crate::model::*;
use crate::telemetry::field::EFFECT;

impl Orchestrator {
    /// Writes an environment's links into the rows of the linked work, too, so that both know of each other.
    pub(super) async fn record_links(&self, environment: &Environment) -> Result<(), StepError> {
        for link in &environment.metadata.links {
            let linked = self.store().find_live_environment(environment.codebase, link).await?;
            let Some(linked) = linked.filter(|linked| lacks(linked, &environment.work)) else { continue };
            // Nobody examines it for a removal meanwhile, whose journal would be refused.
            let _lease = self.inner.leases.take(linked.id).await;
            let note = |linked: &mut Environment| {
                if lacks(linked, &environment.work) {
                    linked.metadata.links.push(environment.work.clone());
                }
            };
            match self.changed(linked, note).await {
                Ok(linked) => tracing::debug!(target: EFFECT, { environment.id = %linked.id }, "link recorded"),
                // It was taken away meanwhile, and the link with it.
                Err(StepError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Points the thread of work whose environment made way to the one that has its place. False: it is over, or went
    /// elsewhere.
    pub(super) async fn tie_along(&self, work: &Work, environment: &Environment) -> Result<bool, StepError> {
        let Some(number) = work.thread() else { return Ok(false) };
        let thread = self.store().find_conversation(environment.codebase, number).await?;
        let Some(thread) = thread.filter(|thread| thread.state == ThreadState::Open) else { return Ok(false) };
        if thread.environment.is_some() {
            return Ok(thread.environment == Some(environment.id));
        }
        self.store().tie_conversation(&thread, environment.id, self.now()).await?;
        tracing::debug!(target: EFFECT, { conversation.id = %thread.id, environment.id = %environment.id }, "thread tied along");
        Ok(true)
    }
}

/// A row in transition belongs to whoever makes or removes it, and is not written to.
fn lacks(environment: &Environment, work: &Work) -> bool {
    environment.state == EnvironmentState::Active
        && environment.work != *work
        && !environment.metadata.links.contains(work)
}
