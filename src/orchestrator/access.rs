//! The App gains or loses its access to repositories.

use super::intake::{Handled, done};
use super::{Orchestrator, StepError};
use crate::model::*;
use crate::reply;
use crate::store::NewCodebase;
use std::time::Duration;

/// How far back, and how many at most, what could not be said while access was gone is said after all.
const MISSED_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
const MISSED: u32 = 500;

impl Orchestrator {
    pub(super) async fn access_changed(
        &self,
        installation: InstallationId,
        access: Access,
    ) -> Result<Handled, StepError> {
        let now = self.now();
        match access {
            Access::Granted | Access::Withdrawn => {
                let connected = access == Access::Granted;
                let all = self.store().list_codebases().await?.into_iter();
                let ids: Vec<_> =
                    all.filter(|own| own.installation() == Some(installation)).map(|own| own.id).collect();
                for id in &ids {
                    self.store().set_codebase_connected(*id, connected, now).await?;
                }
                if connected {
                    self.tell_what_was_missed(&ids).await?;
                }
                done(if connected { "the installation gives access" } else { "the installation is gone; work is kept" })
            }
            Access::Repositories { added, removed } => {
                let mut regained = Vec::new();
                for (id, _) in &removed {
                    let codebase = self.store().find_codebase_by_github(*id).await?;
                    // One that was transferred may be reached through another installation already.
                    if let Some(codebase) = codebase.filter(|own| own.installation() == Some(installation)) {
                        self.store().set_codebase_connected(codebase.id, false, now).await?;
                    }
                }
                for (github_id, name) in &added {
                    if self.store().find_codebase_by_github(*github_id).await?.is_some() {
                        let (github_id, name) = (*github_id, self.present_name(*github_id, installation, name).await?);
                        let new = NewCodebase { github_id, installation, name, default_branch: None, reached: true };
                        regained.push(self.store().upsert_codebase(new, now).await?.id);
                    }
                }
                self.tell_what_was_missed(&regained).await?;
                let plural = if added.len() == 1 { "repository" } else { "repositories" };
                done(format!("{} {plural} added, {} removed; work is kept", added.len(), removed.len()))
            }
        }
    }

    /// Runs that ended while GitHub let nobody write there left comments that say they are at work. What is still tried
    /// waits no longer.
    async fn tell_what_was_missed(&self, codebases: &[CodebaseId]) -> Result<(), StepError> {
        for codebase in codebases {
            if self.store().hurry_outgoing(*codebase, self.now()).await? > 0 {
                self.inner.wake.outgoing.notify_one();
            }
        }
        let failed = match codebases {
            [] => Vec::new(),
            _ => self.store().failed_outgoing(self.now().minus(MISSED_FOR), MISSED).await?,
        };
        let told = |row: &&OutboxRow| codebases.contains(&row.codebase) && reply::status::run_of(&row.key).is_some();
        for row in failed.iter().filter(told) {
            if self.store().send_again(row, self.now()).await? {
                self.inner.wake.outgoing.notify_one();
            }
        }
        Ok(())
    }
}
