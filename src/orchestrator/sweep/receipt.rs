//! What a receipt says of a removal: of one that is done, and of one that is only foreseen.

use super::super::Orchestrator;
use super::trash_ref;
use crate::git::{GitError, Repository};
use crate::isolation::Removed;
use crate::model::*;
use crate::reply::cleanup;

/// Commits whose subjects a receipt has.
const SUBJECTS: usize = 10;

impl Orchestrator {
    pub(super) async fn receipt(
        &self,
        repository: &Repository,
        environment: &Environment,
        pending: &PendingRemoval,
        removed: &Removed,
    ) -> ReceiptDetails {
        let safety_ref = pending.kept.as_ref().map(|_| trash_ref(environment.id));
        let own = match own_commits(repository, environment, &pending.tip).await {
            Ok(own) => own,
            // It only tells.
            Err(error) => {
                tracing::warn!(environment.id = %environment.id, %error, "commits not counted for the receipt");
                None
            }
        };
        let (commits, subjects) = own.map_or((None, Vec::new()), |(count, subjects)| (Some(count), subjects));
        ReceiptDetails {
            proof: match removed.released {
                true => cleanup::released(&pending.proof),
                false => pending.proof.clone(),
            },
            branch: environment.branch.to_string(),
            restore: match removed.branch_deleted {
                true => format!("git branch {} {}", environment.branch, pending.tip),
                false => String::new(),
            },
            tip: Some(pending.tip.clone()),
            branch_deleted: removed.branch_deleted,
            released: removed.released,
            kept_until: safety_ref.as_ref().map(|_| self.now().plus(self.settings().trash_for)),
            safety_ref,
            rescued: if pending.kept.is_some() { pending.rescued } else { 0 },
            only_ignored: pending.kept.is_some() && !pending.keep_work,
            keepsake: pending.kept.clone(),
            told: pending.tell,
            held_up: None,
            bytes_freed: if removed.released { None } else { pending.bytes },
            asked_in: pending.asked_in,
            actor: pending.actor.clone(),
            commits,
            subjects: subjects.iter().map(|subject| self.redact(subject)).collect(),
        }
    }
}

/// How many commits the base lacks; where it has them all, how many were made since the environment was. With the subjects of
/// the newest.
async fn own_commits(
    repository: &Repository,
    environment: &Environment,
    tip: &CommitSha,
) -> Result<Option<(u64, Vec<String>)>, GitError> {
    let base = match &environment.base {
        Some(base) => repository.tip(&base.remote_ref()).await?,
        None => None,
    };
    let from = match base {
        Some(base) if !repository.is_ancestor(tip, &base).await? => Some(base),
        Some(_) | None => environment.start.clone(),
    };
    let Some(from) = from else { return Ok(None) };
    let (count, newest) = repository.line(&from, tip, SUBJECTS).await?;
    Ok(Some((count, newest.into_iter().map(|commit| commit.subject).collect())))
}
