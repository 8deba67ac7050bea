//! What a removal that was decided needs before it is journalled: whatever takes long, or may still keep the environment.

use super::super::{Orchestrator, StepError, proofs::RUNS};
use super::finish::{not_kept, not_removed, trash_ref};
use crate::agent::process;
use crate::decide::cleanup::{Keep, Removal};
use crate::git::Repository;
use crate::isolation::MOST_IGNORED;
use crate::model::*;
use crate::store::RunFilter;
use crate::telemetry::field::EFFECT;
use std::time::Duration;

/// How often, and how far apart, processes are looked for that were told to end.
const LOOKS: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// What there is to write down of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready {
    /// What holds what is not committed, when there was any.
    pub kept: Option<CommitSha>,
    /// Size of the files; unknown of one that is only let go of.
    pub bytes: Option<u64>,
}

impl Orchestrator {
    /// Makes an environment ready to go. What cannot be kept, or could not be deleted, keeps everything.
    pub(super) async fn make_ready(
        &self,
        repository: &Repository,
        environment: &Environment,
        removal: &Removal,
    ) -> Result<Result<Ready, Keep>, StepError> {
        if self.is_outside(environment) {
            return Ok(Ok(Ready::default()));
        }
        self.end_leftovers(environment).await?;
        let bytes = match self.survey(environment).await {
            Ok(bytes) => bytes,
            Err(reason) => return Ok(Err(reason)),
        };
        if !removal.keep_work && removal.rescued == 0 {
            return Ok(Ok(Ready { kept: None, bytes }));
        }
        Ok(self.keep_work(repository, environment).await.map(|kept| Ready { kept, bytes }))
    }

    /// The size of its files, or what is in the way of deleting them. Unknown of one that is only let go of.
    pub(super) async fn survey(&self, environment: &Environment) -> Result<Option<u64>, Keep> {
        if self.is_outside(environment) {
            return Ok(None);
        }
        self.parts().provider.survey(&environment.path).await.map(Some).map_err(not_removed)
    }

    async fn keep_work(&self, repository: &Repository, environment: &Environment) -> Result<Option<CommitSha>, Keep> {
        let worktree = repository.worktree(&environment.path);
        let kept = worktree.keep(&trash_ref(environment.id), MOST_IGNORED).await;
        let kept = kept.map_err(|error| not_kept(&worktree, &error))?;
        tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "uncommitted work kept");
        Ok(kept)
    }

    /// What [`Self::end_leftovers`] would end.
    pub(super) async fn leftovers(&self, environment: &Environment) -> Result<Vec<u32>, StepError> {
        let (runs, path) = (self.runs_in(environment).await?, environment.path.clone());
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        Ok(tokio::task::spawn_blocking(move || process::leftovers_in(&path, &runs)).await.unwrap_or_default())
    }

    async fn runs_in(&self, environment: &Environment) -> Result<Vec<RunId>, StepError> {
        let runs = self.store().list_runs(RunFilter::Environment(environment.id), RUNS, 0).await?;
        Ok(runs.into_iter().map(|run| run.id).collect())
    }

    /// Ends what its runs have left behind in its worktree. No run is live any more: nobody waits for what these do.
    pub(super) async fn end_leftovers(&self, environment: &Environment) -> Result<(), StepError> {
        let runs = self.runs_in(environment).await?;
        if runs.is_empty() {
            return Ok(());
        }
        for _ in 0..LOOKS {
            let (runs, path) = (runs.clone(), environment.path.clone());
            match tokio::task::spawn_blocking(move || process::end_leftovers_in(&path, &runs)).await {
                Ok(0) => break,
                Ok(count) => {
                    tracing::info!(environment.id = %environment.id, run.processes = count, "ended processes that runs left in a worktree");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    tracing::error!(environment.id = %environment.id, %error, "could not look for what runs left in a worktree");
                    break;
                }
            }
        }
        Ok(())
    }
}
