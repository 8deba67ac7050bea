//! After the home, or the directory of worktrees, was moved: the rows and git's own files name the new places before
//! anything is judged by the old ones.

use super::{Orchestrator, StepError};
use crate::model::*;

impl Orchestrator {
    /// What cannot follow is left as it is and shown; the next start tries again, until all have followed.
    pub async fn follow_move(&self) -> Result<(), StepError> {
        let provider = &self.parts().provider;
        if !provider.has_moved() {
            return Ok(());
        }
        tracing::warn!("worktrees, or their repositories, are elsewhere than when the service ran last: following");
        let (mut tied, mut complete) = (0, true);
        for codebase in self.store().list_codebases().await? {
            match provider.tie_again(&self.repository(&codebase)).await {
                Ok(ties) => {
                    tied += ties.made;
                    complete &= ties.failed == 0;
                }
                Err(error) => {
                    complete = false;
                    tracing::error!(codebase.name = %codebase.name, %error, "its worktrees were not tied again; the next start does");
                }
            }
        }
        for environment in self.store().live_environments(None).await? {
            let Some(path) = provider.moved(&environment.path) else { continue };
            let id = environment.id;
            if let Err(error) = self.store().update_environment(&Environment { path, ..environment }).await {
                complete = false;
                tracing::error!(environment.id = %id, %error, "its row still names the former place; the next start mends that");
            }
        }
        if complete {
            provider.settle()?;
        }
        let were = if tied == 1 { "worktree was" } else { "worktrees were" };
        tracing::info!("{tied} {were} tied again to their repositories");
        Ok(())
    }
}
