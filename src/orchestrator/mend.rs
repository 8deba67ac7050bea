//! Mending worktrees whose ties to their repository, or whose index, are broken, before they are used or judged. What only
//! gathers facts, and every dry run, leaves them as they are.

use super::{Orchestrator, StepError, links::FoundElsewhere};
use crate::decide::resolve::ResolveFacts;
use crate::git::Repository;
use crate::github::PullRequest;
use crate::isolation::{Maker, Stage};
use crate::model::*;
use std::path::Path;

pub(super) fn maker(environment: &Environment) -> Maker {
    match environment.metadata.adopted_from {
        Some(_) => Maker::Others,
        None => Maker::Us,
    }
}

fn stage(environment: &Environment) -> Stage {
    match (environment.state, maker(environment)) {
        (EnvironmentState::Creating, Maker::Us) => Stage::InTheMaking,
        (EnvironmentState::Creating, Maker::Others) => Stage::HandedOut,
        (EnvironmentState::Active | EnvironmentState::Removing | EnvironmentState::Destroyed, _) => Stage::HandedOut,
    }
}

impl Orchestrator {
    /// Whether the worktree is really there, after it was mended.
    pub(super) async fn validity(&self, repository: &Repository, environment: &Environment) -> Probe<Validity> {
        let seen = self.health(repository, environment).await;
        match self.mended(repository, environment, &seen).await {
            true => self.health(repository, environment).await,
            false => seen,
        }
    }

    /// Whether the worktree is there, as it is.
    pub(super) async fn health(&self, repository: &Repository, environment: &Environment) -> Probe<Validity> {
        let (maker, stage) = (maker(environment), stage(environment));
        self.parts().provider.health(repository, &environment.path, maker, stage).await
    }

    /// Whether its worktree was made by somebody else, outside of our directory: then it is not ours to take away.
    pub(super) fn is_outside(&self, environment: &Environment) -> bool {
        maker(environment) == Maker::Others && self.parts().provider.is_outside(&environment.path)
    }

    /// No thread is told where on this machine other people's worktrees are.
    pub(super) fn hide_if_outside(&self, path: &Path) {
        if self.parts().provider.is_outside(path) {
            self.inner.places.learn(path, "worktree");
        }
    }

    /// The facts for the choice of an environment, of worktrees that were mended.
    pub(super) async fn resolve_facts(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        repository: &Repository,
        pull: Option<&PullRequest>,
        settings: &RepoSettings,
        delivery: InboxId,
    ) -> Result<(ResolveFacts, FoundElsewhere), StepError> {
        let gather =
            || Box::pin(self.gather_resolve_facts(codebase, conversation, repository, pull, settings, delivery));
        let (facts, elsewhere) = gather().await?;
        let linked = facts.linked.iter().map(|linked| &linked.candidate);
        let mut mended = false;
        for candidate in facts.current.iter().chain(&facts.same_work).chain(linked) {
            mended |= self.mended(repository, &candidate.environment, &candidate.validity).await;
        }
        match mended {
            true => gather().await,
            false => Ok((facts, elsewhere)),
        }
    }

    /// True when something was mended. What stands at the place of an environment that is being made or removed may be
    /// anybody's and stays as it is.
    pub(super) async fn mended(
        &self,
        repository: &Repository,
        environment: &Environment,
        seen: &Probe<Validity>,
    ) -> bool {
        match seen {
            Probe::Known(Validity::Valid | Validity::Broken) if environment.state == EnvironmentState::Active => {}
            Probe::Known(Validity::Valid | Validity::Broken) => return false,
            Probe::Known(Validity::Missing | Validity::OwnRepository | Validity::Foreign) | Probe::Unknown(_) => {
                return false;
            }
        }
        let repaired = self.parts().provider.repair(repository, &environment.path, &environment.branch).await;
        repaired.unwrap_or_else(|error| {
            tracing::warn!(environment.id = %environment.id, %error, "a broken worktree could not be mended");
            false
        })
    }
}
