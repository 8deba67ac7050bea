//! What ties an issue and its pull request together, on GitHub, in rows and in threads. Every step can be repeated, and is, by the next run.

use super::{Orchestrator, StepError, gather::work_of, host::OnGithub, retry};
use crate::command::closing;
use crate::github::PullRequest;
use crate::model::*;
use crate::telemetry::field::EFFECT;
use std::collections::HashSet;

impl Orchestrator {
    /// Work that a closing reference connects to this thread, in this repository. GitHub is asked first; when it cannot
    /// answer, which is said, the texts are read.
    pub(super) async fn links(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        pull: Option<&PullRequest>,
    ) -> Result<(Vec<Work>, bool), StepError> {
        let (Ok(Some(OnGithub { client, id, name, .. })), Some(number)) =
            (self.on_github(codebase), conversation.thread.number())
        else {
            return Ok((Vec::new(), false));
        };
        let kind = if pull.is_some() { WorkKind::Issue } else { WorkKind::PullRequest };
        let asked = retry::patiently(|| async {
            Ok(match pull {
                Some(_) => client.closing_issues(id, name, number).await?,
                None => client.closing_pull_requests(id, name, number).await?,
            })
        });
        let asked = asked.await;
        let unknown = asked.is_err();
        let mut numbers: Vec<ThreadNumber> = match asked {
            Ok(threads) => {
                threads.iter().filter(|thread| thread.repository == id).map(|thread| thread.number).collect()
            }
            Err(error) => {
                tracing::warn!(codebase.name = %name, error = %error, "closing references not answered, reading the text");
                Vec::new()
            }
        };
        // Of a pull request into another base than the default branch, GitHub never says that it closes an issue.
        if let Some(pull) = pull.filter(|pull| unknown || codebase.default_branch.as_ref() != Some(&pull.base)) {
            numbers.extend(closing::references(&pull.body, name, &self.settings().web_url));
        }
        let mut links: Vec<Work> = numbers.into_iter().map(|number| Work { kind, id: number.to_string() }).collect();
        if pull.is_none() {
            links.extend(self.noted_links(codebase, &work_of(conversation)).await?);
        }
        let mut seen = HashSet::new();
        links.retain(|link| seen.insert(link.clone()));
        Ok((links, unknown))
    }

    /// Pull requests into another base than the default branch that close this work, as their environments noted.
    async fn noted_links(&self, codebase: &Codebase, work: &Work) -> Result<Vec<Work>, StepError> {
        let live = self.store().live_environments(Some(codebase.id)).await?;
        let notes = live.into_iter().filter(|environment| {
            environment.base != codebase.default_branch
                && matches!(environment.work.kind, WorkKind::PullRequest | WorkKind::Review)
                && environment.metadata.links.contains(work)
        });
        Ok(notes.map(|environment| environment.work).collect())
    }

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
