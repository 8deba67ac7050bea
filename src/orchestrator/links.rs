//! What ties an issue and its pull request together, on GitHub, in rows and in threads. Every step can be repeated, and is, by the next run.

use super::{Orchestrator, StepError, gather::work_of, host::OnGithub, retry};
use crate::command::closing;
use crate::github::{LinkedThread, PullRequest};
use crate::model::*;
use crate::telemetry::field::EFFECT;
use std::collections::HashSet;

/// What belongs together with a thread's work.
#[derive(Default)]
pub(super) struct Links {
    /// Work of this repository.
    pub here: Vec<Work>,
    /// What no choice of an environment depends on.
    pub elsewhere: Vec<Elsewhere>,
    /// GitHub could not say; this is what texts and rows say.
    pub unknown: bool,
}

/// The part of [`Links`] that is only told.
pub(super) struct FoundElsewhere {
    pub threads: Vec<Elsewhere>,
    /// There may be more.
    pub in_part: bool,
}

impl Orchestrator {
    /// What closing references connect to this thread. GitHub is asked first; when it cannot answer, which is said, the texts
    /// are read.
    pub(super) async fn links(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        pull: Option<&PullRequest>,
    ) -> Result<Links, StepError> {
        let (Ok(Some(place)), Some(number)) = (self.on_github(codebase), conversation.thread.number()) else {
            return Ok(Links::default());
        };
        let OnGithub { client, id, name, .. } = &place;
        let kind = if pull.is_some() { WorkKind::Issue } else { WorkKind::PullRequest };
        let asked = retry::patiently(|| async {
            Ok(match pull {
                Some(_) => client.closing_issues(*id, name, number).await?,
                None => client.closing_pull_requests(*id, name, number).await?,
            })
        });
        let asked = asked.await;
        let unknown = asked.is_err();
        let (mut numbers, mut elsewhere) = (Vec::new(), Vec::new());
        match asked {
            Ok(threads) => {
                for LinkedThread { repository, name, number } in threads {
                    match name {
                        _ if repository == *id => numbers.push(number),
                        Some(name) => elsewhere.push(Elsewhere { repository: Some(repository), name, number }),
                        None => {}
                    }
                }
            }
            Err(error) => {
                tracing::warn!(codebase.name = %name, %error, "closing references not answered, reading the texts");
            }
        }
        let web_url = &self.settings().web_url;
        match pull {
            // Of a pull request into another base than the default branch, GitHub never says that it closes an issue.
            Some(pull) if unknown || codebase.default_branch.as_ref() != Some(&pull.base) => {
                let written = closing::references(&pull.body, name, web_url);
                numbers.extend(written.here);
                let written = written.elsewhere.into_iter();
                elsewhere.extend(written.map(|(name, number)| Elsewhere { repository: None, name, number }));
            }
            None if unknown => numbers.extend(self.closers_by_their_texts(&place, number).await),
            Some(_) | None => {}
        }
        let mut here: Vec<Work> = numbers.into_iter().map(|number| Work { kind, id: number.to_string() }).collect();
        if pull.is_none() {
            here.extend(self.noted_links(codebase, &work_of(conversation)).await?);
        }
        let mut seen = HashSet::new();
        here.retain(|link| seen.insert(link.clone()));
        Ok(Links { here, elsewhere, unknown })
    }

    /// The open pull requests whose texts say that they close this issue; none where they cannot be read, either.
    async fn closers_by_their_texts(&self, place: &OnGithub<'_>, issue: ThreadNumber) -> Vec<ThreadNumber> {
        let OnGithub { client, id, name, .. } = place;
        let texts = client.texts_of_open_pull_requests(*id, name).await.unwrap_or_else(|error| {
            tracing::warn!(codebase.name = %name, %error, "the texts of its pull requests are not read either");
            Vec::new()
        });
        let closes = |body: &str| closing::references(body, name, &self.settings().web_url).here.contains(&issue);
        texts.into_iter().filter(|(_, body)| closes(body)).map(|(number, _)| number).collect()
    }

    /// Writes into an environment's row what belongs together with a thread's work in other repositories. What GitHub did not
    /// answer takes nothing back, nor does a thread that only shares the environment.
    pub(super) async fn note_elsewhere(
        &self,
        environment: Environment,
        work: &Work,
        found: &FoundElsewhere,
    ) -> Result<Environment, StepError> {
        let note = |environment: &mut Environment| {
            let is_all = environment.work == *work && !found.in_part;
            let noted = &mut environment.metadata.links_elsewhere;
            if is_all {
                noted.clear();
            }
            for new in &found.threads {
                if !noted.iter().any(|known| known.is(new)) {
                    noted.push(new.clone());
                }
            }
        };
        self.changed(environment, note).await
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
