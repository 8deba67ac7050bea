//! Lock files that a killed git left behind. Git never removes them by itself, and every later change of the same ref or
//! index fails.
//!
//! Git holds such a lock for moments. One that is in our way while it is our turn, and has been there for long, belongs
//! to nobody any more.

use super::blocking;
use super::error::GitError;
use super::repository::Repository;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const STALE: Duration = Duration::from_secs(10);

impl Repository {
    /// After a change failed during our turn: when locks were in the way, waits until they are stale, removes them, and
    /// answers that another try is worth it. `admin`: the entry of the one worktree that was changed.
    pub(super) async fn clear_stale_locks(&self, admin: Option<&Path>, failure: &GitError) -> Result<bool, GitError> {
        if !matches!(failure, GitError::Failed { stderr, .. } if stderr.contains(".lock")) {
            return Ok(false);
        }
        let places = Places { repository: self.directory().to_owned(), admin: admin.map(Path::to_owned) };
        if let Some(wait) = places.until_stale()? {
            tokio::time::sleep(wait).await;
            blocking(move || places.clear()).await?;
        }
        Ok(true)
    }
}

struct Places {
    repository: PathBuf,
    admin: Option<PathBuf>,
}

impl Places {
    /// How long until all locks that are there now are stale; `None` when there are none.
    fn until_stale(&self) -> Result<Option<Duration>, GitError> {
        let ages = self.locks()?.into_iter().map(|(_, age)| STALE.saturating_sub(age));
        Ok(ages.max())
    }

    fn clear(&self) -> Result<(), GitError> {
        for (path, age) in self.locks()? {
            if age >= STALE {
                tracing::warn!(path = %path.display(), "stale git lock removed");
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(GitError::file("removing", &path, &error));
                    }
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// All lock files with their ages.
    fn locks(&self) -> Result<Vec<(PathBuf, Duration)>, GitError> {
        let mut found = Vec::new();
        look(&self.repository, false, &mut found)?;
        look(&self.repository.join("refs"), true, &mut found)?;
        if let Some(admin) = &self.admin {
            look(admin, false, &mut found)?;
        }
        Ok(found)
    }
}

fn look(directory: &Path, deep: bool, found: &mut Vec<(PathBuf, Duration)>) -> Result<(), GitError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(GitError::file("reading", directory, &error)),
    };
    for entry in entries.flatten() {
        // What vanishes meanwhile is no lock any more.
        let Ok(meta) = entry.metadata() else { continue };
        let path = entry.path();
        if meta.is_dir() && deep {
            look(&path, true, found)?;
        } else if meta.is_file() && path.extension() == Some("lock".as_ref()) {
            let changed = meta.modified().map_err(|error| GitError::file("looking at", &path, &error))?;
            found.push((path, SystemTime::now().duration_since(changed).unwrap_or_default()));
        }
    }
    Ok(())
}
