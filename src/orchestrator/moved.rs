//! After the home, or the directory of worktrees, was moved: the rows and git's own files name the new places before
//! anything is judged by the old ones.

use super::{Orchestrator, StepError};
use crate::model::*;

impl Orchestrator {
    /// Repeats itself at the next start until all of it has succeeded.
    pub(super) async fn follow_move(&self) -> Result<(), StepError> {
        let provider = &self.parts().provider;
        let Some(from) = provider.moved_from() else { return Ok(()) };
        tracing::warn!(git.directory = %from.display(), "worktrees are no longer here, or their repositories elsewhere: following");
        let (mut tied, mut complete) = (0, true);
        for codebase in self.store().list_codebases().await? {
            match provider.tie_again(&self.repository(&codebase)).await {
                Ok(count) => tied += count,
                Err(error) => {
                    complete = false;
                    tracing::error!(codebase.name = %codebase.name, %error, "its worktrees were not all tied again; the next start does");
                }
            }
        }
        for environment in self.store().live_environments(None).await? {
            if let Some(path) = provider.moved(&environment.path) {
                self.store().update_environment(&Environment { path, ..environment }).await?;
            }
        }
        if complete {
            provider.settle()?;
        }
        tracing::info!("{tied} worktrees were tied again to their repositories");
        Ok(())
    }
}
