//! Reading in this process what others can write. Libgit2 never comes back from some damaged objects, and waits at pipes; and
//! it takes files into memory as a whole. So such reading has a time limit, and what it is let to is looked at before.

use super::error::GitError;
use super::pipes::{self, Workplace};
use super::registry::linked_from;
use super::repository::{Repository, Shared};
use super::{blocking, canonical, plain_file, refuse_large, small_file};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Longer than any configuration of one repository.
const CONFIG: u64 = 1024 * 1024;

/// What a configuration is read on by, wherever that leads.
const INCLUDE: &[u8] = b"[include";

/// Places whose reading took too long and has not ended yet.
#[derive(Debug, Default)]
pub(super) struct Overdue(Mutex<Vec<PathBuf>>);

impl Overdue {
    pub fn has(&self, place: &Path) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|overdue| overdue == place)
    }

    fn add(&self, place: &Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(place.to_owned());
    }

    fn remove(&self, place: &Path) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|overdue| overdue == place) {
            all.swap_remove(at);
        }
    }
}

impl Repository {
    /// Reads at a place, off the async threads. Reading that does not end is an error, and until it has ended, so is every
    /// other at this place: threads do not pile up. Pipes in the workplace are let go.
    pub(super) async fn within_limit<T: Send + 'static>(
        &self,
        place: &Path,
        workplace: Workplace,
        question: impl FnOnce() -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let shared = self.shared.clone();
        if shared.overdue.has(place) {
            return Err(overdue(&shared, place));
        }
        let mut reading = tokio::spawn(blocking(question));
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(self.git.inner.read_limit, &mut reading) => outcome,
            never = pipes::watch(workplace, self.git.inner.program.pipe_pause) => match never {},
        };
        match outcome {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Ok(Err(error)) => Err(GitError::Unreadable(error.to_string())),
            Err(_) => {
                let told = overdue(&shared, place);
                tracing::error!(path = %place.display(), "a read does not end; is an object damaged?");
                let place = place.to_owned();
                shared.overdue.add(&place);
                tokio::spawn(async move {
                    let _ = reading.await;
                    shared.overdue.remove(&place);
                });
                Err(told)
            }
        }
    }
}

pub(super) fn overdue(shared: &Shared, place: &Path) -> GitError {
    GitError::Unreadable(match shared.directory == place {
        true => {
            "reading it does not come to an end, so one of its objects may be damaged; `git fsck` in the service's \
                 repository says which"
                .to_owned()
        }
        false => {
            "reading what lies in the worktree takes too long: there is very much of it, or a submodule or a repository inside \
                  is damaged, and `git fsck` in each of them says which"
                .to_owned()
        }
    })
}

/// Before libgit2 is let into a repository whose every file may be an agent's. `place`: its own directory, or one with its
/// files.
pub(super) fn refuse_unfit(place: &Path) -> Result<(), GitError> {
    let link = place.join(".git");
    let own = match fs::metadata(&link) {
        Ok(meta) if meta.is_dir() => canonical(&link),
        Ok(_) => linked_from(place).ok_or_else(|| unfit(&link))?,
        Err(_) => place.to_owned(),
    };
    refuse_large_below(&own)?;
    let mut configs = vec![own.join("config"), own.join("config.worktree"), place.join(".gitmodules")];
    if fs::symlink_metadata(own.join("commondir")).is_ok() {
        let common = small_file(&own.join("commondir")).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let common = canonical(&own.join(common.ok_or_else(|| unfit(&own))?.trim_end()));
        refuse_large_below(&common)?;
        configs.push(common.join("config"));
    }
    for config in configs.iter().filter(|config| fs::symlink_metadata(config).is_ok()) {
        let text = plain_file(config, CONFIG).map_err(|_| unfit(config))?.to_ascii_lowercase();
        if text.windows(INCLUDE.len()).any(|part| part == INCLUDE) {
            return Err(GitError::Unreadable(format!(
                "{} includes another file, and no such configuration is read",
                config.display()
            )));
        }
    }
    Ok(())
}

/// All that is read as a whole: nothing below `objects` but lists of other places for them, and no other repositories.
fn refuse_large_below(own: &Path) -> Result<(), GitError> {
    let mut directories = vec![own.to_owned(), own.join("objects/info")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.map_err(|error| GitError::file("reading", &directory, &error))?.path();
            let is_apart = || directory == own && ["objects", "modules", "lfs"].iter().any(|name| path.ends_with(name));
            match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() && is_apart() => {}
                Ok(meta) if meta.is_dir() => directories.push(path),
                Ok(_) => refuse_large(&path).map_err(|_| unfit(&path))?,
                Err(_) => {}
            }
        }
    }
    Ok(())
}

fn unfit(path: &Path) -> GitError {
    GitError::Unreadable(format!("{} is no file as git writes it, and is not read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{Git, GitSettings};
    use std::{sync::mpsc, time::Duration};

    #[tokio::test]
    async fn a_read_that_does_not_end_holds_up_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let settings = GitSettings {
            local_remotes: true,
            read_limit: Duration::from_millis(50),
            ..GitSettings::new("git", dir.path().join("state"))
        };
        let repository = Git::new(settings).unwrap().repository(dir.path().join("r.git"));
        repository.ensure(dir.path().to_str().unwrap()).await.unwrap();
        let (go_on, wait) = mpsc::channel::<()>();
        let stuck = repository.read(move |_| Ok(wait.recv().is_err())).await;
        assert!(matches!(&stuck, Err(GitError::Unreadable(why)) if why.contains("git fsck")), "{stuck:?}");
        assert!(repository.has_remote_branches().await.is_err());
        let elsewhere = repository.within_limit(Path::new("/elsewhere"), Workplace::default(), || Ok(1)).await;
        assert_eq!(elsewhere, Ok(1));
        drop(go_on);
        while repository.shared.overdue.has(repository.directory()) {
            tokio::task::yield_now().await;
        }
        assert_eq!(repository.has_remote_branches().await, Ok(false));
    }
}
