//! Taking caches out of a worktree that stays: each by one rename into the trash, where it is certain for a last time that
//! git misses nothing, and then to what is deleted in the background.

use super::usage::{has_mount, measure};
use super::worktree::{WorktreeProvider, blocking, certain, exists};
use super::{IsolationError, Usage};
use crate::git::Repository;
use crate::model::*;
use crate::telemetry::field::EFFECT;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Caches that are to go. It was decided that nobody needs them now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReclaimRequest {
    pub environment: EnvironmentId,
    /// Of the worktree.
    pub path: PathBuf,
    /// In it; in the same order in every try.
    pub directories: Vec<CacheDirectory>,
    /// Only what an earlier try has moved is brought to its end: nobody has decided about the others anew.
    pub begun_only: bool,
}

impl WorktreeProvider {
    pub(super) async fn reclaimable_now(
        &self,
        repository: &Repository,
        path: &Path,
    ) -> Result<Vec<CacheDirectory>, IsolationError> {
        self.unused(path).await?;
        let mut caches = Vec::new();
        for directory in repository.worktree(path).reclaimable_caches().await? {
            let place = path.join(&directory);
            // What has no name that can be written down is left alone.
            let Some(name) = directory.to_str().map(str::to_owned) else { continue };
            if let Some(frees) = frees(&place).await?
                && !is_mounted(&place).await?
            {
                caches.push(CacheDirectory { path: name, frees });
            }
        }
        Ok(caches)
    }

    pub(super) async fn reclaim_now(
        &self,
        repository: &Repository,
        path: &Path,
        request: &ReclaimRequest,
    ) -> Result<Vec<CacheDirectory>, IsolationError> {
        let worktree = repository.worktree(path);
        if !request.begun_only {
            self.unused(path).await?;
            if certain(worktree.validity().await)? != Validity::Valid {
                return Err(IsolationError::Foreign(path.to_owned()));
            }
            if let Some(reason) = certain(worktree.foreign_lock().await)? {
                return Err(IsolationError::Locked(reason));
            }
        }
        let still = match request.begun_only {
            true => Vec::new(),
            false => worktree.reclaimable_caches().await?,
        };
        let mut gone = Vec::new();
        for (number, cache) in request.directories.iter().enumerate() {
            let (directory, place) =
                (PathBuf::from(&cache.path), self.trash.place_of_cache(request.environment, number));
            let before = path.join(&directory);
            if !exists(&place)? {
                if !exists(&before)? {
                    gone.push(cache.clone());
                    continue;
                }
                // Looking into it takes a while: who came meanwhile is seen after that.
                let is_certain = still.contains(&directory) && frees(&before).await?.is_some();
                if !is_certain || is_mounted(&before).await? || self.unused(path).await.is_err() {
                    continue;
                }
                let moved = fs::rename(&before, &place);
                moved.map_err(|error| IsolationError::files("moving", &before, &error))?;
                tracing::debug!(target: EFFECT, { environment.id = %request.environment }, "cache in the trash");
            }
            // Nobody reaches it by its old path any more: what was added to the index before, and the repository that was made in it,
            // are known by now.
            let is_tracked = !worktree.tracked_among(std::slice::from_ref(&directory)).await?.is_empty();
            let is_missed = is_tracked || frees(&place).await?.is_none();
            if is_missed && !exists(&before)? {
                let back = fs::rename(&place, &before);
                back.map_err(|error| IsolationError::files("putting back", &place, &error))?;
                continue;
            }
            if is_missed {
                return Err(IsolationError::HalfWay {
                    place,
                    why: format!("there is another {} in its worktree", cache.path),
                });
            }
            self.trash.discard(&place).map_err(|error| IsolationError::files("moving", &place, &error))?;
            tracing::debug!(target: EFFECT, { environment.id = %request.environment }, "cache released");
            gone.push(cache.clone());
        }
        self.empty_in_background();
        Ok(gone)
    }
}

/// What the deletion of a directory frees. `None`: it holds somebody's repository, or it cannot be known whether it does.
async fn frees(place: &Path) -> Result<Option<u64>, IsolationError> {
    let Usage { whole, repository, freed, .. } = measure(place).await?;
    Ok((whole && repository.is_none() && !exists(&place.join(".git"))?).then_some(freed))
}

async fn is_mounted(place: &Path) -> Result<bool, IsolationError> {
    let place = place.to_owned();
    blocking(move || Ok(has_mount(&place))).await
}
