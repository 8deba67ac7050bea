//! The upkeep of canonical repositories: one after the other, when it is due, and when no run waits for its agent.

use super::{Orchestrator, StepError};
use crate::decide::maintenance::{Maintenance, MaintenanceFacts, Packing, is_tried_again, maintenance};
use crate::git::Repository;
use crate::model::*;
use crate::reply::upkeep;
use crate::telemetry::metric;
use tokio_util::sync::CancellationToken;

impl Orchestrator {
    /// Looks after every repository. One that fails stops none of the others.
    pub async fn maintain(&self, stop: &CancellationToken) -> Result<(), StepError> {
        for codebase in self.store().list_codebases().await? {
            if stop.is_cancelled() {
                break;
            }
            if let Err(error) = self.maintain_one(&codebase, stop).await {
                tracing::error!(codebase.name = %codebase.name, %error, "a repository was not looked after; it is tried again");
            }
        }
        Ok(())
    }

    async fn maintain_one(&self, codebase: &Codebase, stop: &CancellationToken) -> Result<(), StepError> {
        let repository = self.repository(codebase);
        if !repository.is_made() {
            return Ok(());
        }
        let known = self.store().load_maintained(codebase.id).await?;
        let plan = match self.maintenance_facts(&repository, known.clone()).await {
            Ok(facts) => maintenance(&facts),
            Err(StepError::Git(_)) if !is_tried_again(&known, self.now()) => return Ok(()),
            Err(StepError::Git(error)) => {
                return self.note_maintained(codebase, known, None, Err(error.to_string())).await;
            }
            Err(error) => return Err(error),
        };
        let packing = match plan {
            Maintenance::NotDue => return Ok(()),
            Maintenance::PutOff => {
                tracing::debug!(codebase.name = %codebase.name, "its upkeep waits for the runs in the queue");
                return Ok(());
            }
            Maintenance::NoRoom { needed, free } => {
                return self.note_maintained(codebase, known, None, Err(upkeep::no_room(needed, free))).await;
            }
            Maintenance::Pack(packing) => packing,
        };
        // Dropped in the middle, git is told to end, and what it was at is as it was.
        let Some(packed) = stop.run_until_cancelled(pack(&repository, packing)).await else { return Ok(()) };
        self.note_maintained(codebase, known, Some(packing), packed.map_err(|error| error.to_string())).await
    }

    async fn maintenance_facts(
        &self,
        repository: &Repository,
        known: Maintained,
    ) -> Result<MaintenanceFacts, StepError> {
        let objects = repository.object_store().await?;
        let counts = self.store().run_counts().await?;
        let waits = |state: &RunState| matches!(state, RunState::Queued | RunState::Preparing);
        Ok(MaintenanceFacts {
            now: self.now(),
            known,
            objects,
            runs_wait: counts.iter().any(|(state, count)| waits(state) && *count > 0),
        })
    }

    /// Remembers how it went. The same trouble is told once, however often it is met.
    async fn note_maintained(
        &self,
        codebase: &Codebase,
        known: Maintained,
        packing: Option<Packing>,
        outcome: Result<(), String>,
    ) -> Result<(), StepError> {
        let (now, mut known) = (self.now(), known);
        let before = known.trouble.take();
        // The week is counted from the first look on.
        known.repacked_at.get_or_insert(now);
        let result = match outcome {
            Ok(()) => {
                known.packed_at = Some(now);
                if packing == Some(Packing::Everything) {
                    known.repacked_at = Some(now);
                }
                if before.is_some() {
                    tracing::info!(codebase.name = %codebase.name, "its upkeep goes well again");
                }
                "packed"
            }
            Err(why) => {
                if before.as_ref().is_none_or(|before| before.why != why) {
                    tracing::warn!(codebase.name = %codebase.name, reason = %why, "its upkeep came to nothing; nothing is lost, and it is tried again each day");
                }
                let since = before.map_or(now, |before| before.since);
                known.trouble = Some(MaintenanceTrouble { since, tried_at: now, why });
                "failed"
            }
        };
        metrics::counter!(metric::MAINTENANCE, "result" => result).increment(1);
        Ok(self.store().save_maintained(codebase.id, &known, now).await?)
    }
}

async fn pack(repository: &Repository, packing: Packing) -> Result<(), crate::git::GitError> {
    match packing {
        Packing::New => repository.pack_new().await?,
        Packing::Everything => repository.pack_everything().await?,
    }
    repository.pack_refs().await
}
