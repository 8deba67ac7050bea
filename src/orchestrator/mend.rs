//! Mending worktrees whose ties to their repository, or whose index, are broken, before they are used or judged. What only
//! gathers facts, and every dry run, leaves them as they are.

use super::{Orchestrator, StepError};
use crate::decide::presence::missing;
use crate::decide::resolve::ResolveFacts;
use crate::git::Repository;
use crate::github::PullRequest;
use crate::isolation::Maker;
use crate::model::*;
use std::{io, path::Path};

pub(super) fn maker(environment: &Environment) -> Maker {
    match environment.metadata.adopted_from {
        Some(_) => Maker::Others,
        None => Maker::Us,
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
        let seen = self.parts().provider.health(repository, &environment.path, maker(environment)).await;
        match seen {
            Probe::Known(Validity::Missing) => missing(environment.state, has_files(&environment.path).await),
            Probe::Known(Validity::Valid | Validity::Broken | Validity::OwnRepository | Validity::Foreign)
            | Probe::Unknown(_) => seen,
        }
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
    ) -> Result<ResolveFacts, StepError> {
        let gather =
            async || self.gather_resolve_facts(codebase, conversation, repository, pull, settings, delivery).await;
        let facts = gather().await?;
        let linked = facts.linked.iter().map(|linked| &linked.candidate);
        let mut mended = false;
        for candidate in facts.current.iter().chain(&facts.same_work).chain(linked) {
            mended |= self.mended(repository, &candidate.environment, &candidate.validity).await;
        }
        match mended {
            true => gather().await,
            false => Ok(facts),
        }
    }

    /// True when something was mended. What stands at the place of an environment that is being made or removed may be
    /// anybody's and stays as it is.
    async fn mended(&self, repository: &Repository, environment: &Environment, seen: &Probe<Validity>) -> bool {
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

/// Whether there is anything in a directory. One that cannot be read may hold any amount.
async fn has_files(directory: &Path) -> Probe<bool> {
    let first = async { tokio::fs::read_dir(directory).await?.next_entry().await };
    match first.await {
        Ok(first) => Probe::Known(first.is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Probe::Known(false),
        Err(error) => Probe::Unknown(format!("its directory cannot be looked into: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_that_cannot_be_read_is_not_an_empty_one() {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("place");
        assert_eq!(has_files(&place).await, Probe::Known(false));
        std::fs::create_dir(&place).unwrap();
        assert_eq!(has_files(&place).await, Probe::Known(false));
        std::fs::write(place.join("work"), "w").unwrap();
        assert_eq!(has_files(&place).await, Probe::Known(true));
        let round = temp.path().join("round");
        std::os::unix::fs::symlink(&round, &round).unwrap();
        let Probe::Unknown(why) = has_files(&round).await else { panic!("a doubt") };
        assert!(why.starts_with("its directory cannot be looked into: "), "{why}");
    }
}
