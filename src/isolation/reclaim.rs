//! Taking caches out of a worktree that stays: each by one rename into the trash, where it is certain for a last time
//! that git misses nothing and nobody is at work in it, and then to what is deleted.

use super::usage::measure;
use super::worktree::{WorktreeProvider, blocking, certain, exists};
use super::{IsolationError, Usage, mounts, way};
use crate::git::{Repository, Worktree};
use crate::model::*;
use crate::telemetry::field::EFFECT;
use std::path::{Path, PathBuf};

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

/// What became of caches, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    pub gone: Vec<CacheDirectory>,
    /// The others by their paths in the worktree.
    pub stay: Vec<(String, IsolationError)>,
}

impl Reclaimed {
    /// Some are in the trash, and neither may be deleted nor can go back.
    pub fn half_way(&self) -> Option<&IsolationError> {
        self.stay.iter().map(|(_, why)| why).find(|why| matches!(why, IsolationError::CacheHalfWay { .. }))
    }
}

impl WorktreeProvider {
    pub(super) async fn reclaimable_now(
        &self,
        repository: &Repository,
        path: &Path,
    ) -> Result<Reclaimed, IsolationError> {
        self.unused(path).await?;
        let mut reclaimable = Reclaimed::default();
        for directory in repository.worktree(path).reclaimable_caches().await? {
            let frees = match directory.to_str() {
                Some(_) => frees(&path.join(&directory)).await,
                None => Err(IsolationError::NoCache("its name cannot be written down".to_owned())),
            };
            let name = directory.to_string_lossy().into_owned();
            match frees {
                Ok(frees) => reclaimable.gone.push(CacheDirectory { path: name, frees }),
                Err(why) => reclaimable.stay.push((name, why)),
            }
        }
        Ok(reclaimable)
    }

    pub(super) async fn reclaim_now(
        &self,
        repository: &Repository,
        path: &Path,
        request: &ReclaimRequest,
    ) -> Result<Reclaimed, IsolationError> {
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
            true => None,
            false => Some(worktree.reclaimable_caches().await?),
        };
        let mut reclaimed = Reclaimed::default();
        for (number, cache) in request.directories.iter().enumerate() {
            match self.reclaim_cache(&worktree, request.environment, (number, Path::new(&cache.path)), &still).await {
                Ok(true) => reclaimed.gone.push(cache.clone()),
                Ok(false) => {}
                Err(why) => {
                    let place = self.trash.place_of_cache(request.environment, number);
                    // What cannot be looked at may be there.
                    let why = match exists(&place).unwrap_or(true) {
                        true => IsolationError::CacheHalfWay { place, why: why.to_string() },
                        false => why,
                    };
                    reclaimed.stay.push((cache.path.clone(), why));
                }
            }
        }
        Ok(reclaimed)
    }

    /// Whether it is gone, by a reclaim. `still`: what may be moved now.
    async fn reclaim_cache(
        &self,
        worktree: &Worktree,
        environment: EnvironmentId,
        (number, cache): (usize, &Path),
        still: &Option<Vec<PathBuf>>,
    ) -> Result<bool, IsolationError> {
        let (path, place) = (worktree.files(), self.trash.place_of_cache(environment, number));
        let before = path.join(cache);
        if !exists(&place)? {
            let Some(still) = still else {
                return exists(&self.trash.released_cache(environment, number));
            };
            // Somebody was faster.
            if !exists(&before)? {
                return Ok(false);
            }
            if !still.iter().any(|still| still == cache) {
                return Err(IsolationError::NoCache("by now git misses something when it goes".to_owned()));
            }
            frees(&before).await?;
            // Looking into it takes a while: who, or what, came meanwhile is seen after that.
            mounts::refuse(&before)?;
            self.unused(path).await?;
            let moved = way::take_out(path, cache, &place);
            moved.map_err(|error| IsolationError::files("moving", &before, &error))?;
            tracing::debug!(target: EFFECT, { environment.id = %environment }, "cache in the trash");
        }
        if let Err(why) = self.refuse_missed(worktree, cache, &place).await {
            return Err(match way::put_in(path, cache, &place) {
                Ok(()) => why,
                Err(error) => IsolationError::NoCache(format!("{why}; and it cannot go back: {error}")),
            });
        }
        let released = self.trash.release_cache(environment, number);
        released.map_err(|error| IsolationError::files("moving", &place, &error))?;
        tracing::debug!(target: EFFECT, { environment.id = %environment }, "cache released");
        Ok(true)
    }

    /// Nobody reaches it by its old path any more: what was added to the index before, the repository that was made in
    /// it, and who went into it, are known by now.
    async fn refuse_missed(&self, worktree: &Worktree, cache: &Path, place: &Path) -> Result<(), IsolationError> {
        if !worktree.tracked_among(&[cache.to_owned()]).await?.is_empty() {
            return Err(IsolationError::NoCache("git tracks something in it by now".to_owned()));
        }
        frees(place).await?;
        self.unused(place).await
    }
}

/// What the deletion of a cache frees, or why it may not be deleted, or could not be.
async fn frees(place: &Path) -> Result<u64, IsolationError> {
    let directory = place.to_owned();
    // Before anybody goes into it: what is mounted there may hang.
    blocking(move || mounts::refuse(&directory)).await?;
    let refused = |why: String| Err(IsolationError::NoCache(why));
    let repository_at = |found: &Path| match found.strip_prefix(place) {
        Ok(inside) if !inside.as_os_str().is_empty() => format!("a repository lies in it, at {}", inside.display()),
        _ => "it is a repository".to_owned(),
    };
    if exists(&place.join(".git"))? {
        return refused(repository_at(place));
    }
    match measure(place).await? {
        Some(Usage { obstacle: Some((path, owner)), .. }) => Err(IsolationError::NotDeletable { path, owner }),
        Some(Usage { repository: Some(found), .. }) => refused(repository_at(&found)),
        None | Some(Usage { whole: false, .. }) => refused("not all of it could be looked at".to_owned()),
        Some(Usage { freed, .. }) => Ok(freed),
    }
}
