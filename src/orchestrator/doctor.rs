//! `/doctor` in a thread: the examination as far as it concerns everybody there, and whether this repository is reached.

use super::{Orchestrator, StepError};
use crate::model::*;
use crate::reply::doctor::{Reached, told};

impl Orchestrator {
    /// Markdown. Where things lie on the server, and what mends them, is not in it.
    pub(super) async fn examined(&self, codebase: &Codebase) -> Result<String, StepError> {
        let found = self.examine().await;
        let reached = match &codebase.host {
            Host::Github { .. } => self.reached(codebase).await,
            Host::Local { .. } => Reached::Here,
        };
        let page = format!("{}/doctor", self.settings().public_url);
        Ok(told(&found, &codebase.name, &reached, &page, self.now()))
    }

    async fn reached(&self, codebase: &Codebase) -> Reached {
        match self.read_here(codebase).await {
            Ok(true) => Reached::Read,
            Ok(false) => Reached::Named,
            Err(error) => Reached::Not(error.to_string()),
        }
    }

    /// GitHub is asked for the repository, and git for its default branch, both by the tokens that work has. False when there
    /// is nothing of it here yet, with which git could ask.
    async fn read_here(&self, codebase: &Codebase) -> Result<bool, StepError> {
        let (codebase, _) = self.refreshed(codebase).await?;
        if !self.repository_path(&codebase).exists() {
            return Ok(false);
        }
        let repository = &self.repository(&codebase);
        self.with_credential(&codebase, false, |credential| async move {
            repository.remote_head(credential.as_ref()).await
        })
        .await?;
        Ok(true)
    }
}
