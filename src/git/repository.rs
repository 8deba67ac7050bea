//! A canonical repository: bare, on disk, linked to by worktrees; its creation, its configuration, its queue.

use super::command::{Call, Place};
use super::config::Found;
use super::error::GitError;
use super::fetch::Waiting;
use super::limited::{Overdue, overdue};
use super::packs::Packs;
use super::pipes::Workplace;
use super::remote_url::RemoteUrl;
use super::whole::refuse_other_refs;
use super::worktree::{LOGS, Worktree, put_right, put_ties_right};
use super::{
    Git, Stamp, blocking, broken_refs, config, copies::Excludes, own_files, plain_file, registry, registry::AdminEntry,
};
use crate::model::BranchName;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

/// Git commands that move refs, and so write to their logs.
const WRITE_LOGS: [&str; 6] = ["checkout", "fetch", "merge", "push", "update-ref", "worktree add"];

/// A handle on a canonical repository. Cheap; handles on the same place share one queue.
#[derive(Clone)]
pub struct Repository {
    pub(super) git: Git,
    pub(super) shared: Arc<Shared>,
}

/// What all handles on one place share.
pub(super) struct Shared {
    pub directory: PathBuf,
    /// The repository on this machine that it is a copy of, if it is one of those. No file can make it another.
    pub origin: Option<RemoteUrl>,
    /// One change at a time, in order of arrival.
    queue: AsyncMutex<()>,
    /// The remote as `ensure` was last told; before that, what the configuration file says.
    remote: Mutex<Option<RemoteUrl>>,
    pub waiting: Waiting,
    /// The list of commits at which history ends that was found to say the truth.
    pub right_ends: Mutex<Option<Stamp>>,
    pub overdue: Overdue,
    restored: Mutex<Restored>,
    pub excludes: Excludes,
    packs: Packs,
}

/// How often each of the files that only the service writes was found changed, and put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored(BTreeMap<&'static str, u64>);

impl Restored {
    /// What was put back after `before`.
    pub fn since(&self, before: &Self) -> Vec<&'static str> {
        let more = self.0.iter().filter(|(name, times)| before.0.get(*name) != Some(times));
        more.map(|(name, _)| *name).collect()
    }
}

impl Shared {
    pub fn new(directory: PathBuf, origin: Option<RemoteUrl>) -> Self {
        Self {
            directory,
            origin,
            queue: AsyncMutex::default(),
            remote: Mutex::default(),
            waiting: Waiting::default(),
            right_ends: Mutex::default(),
            overdue: Overdue::default(),
            restored: Mutex::default(),
            excludes: Excludes::default(),
            packs: Packs::default(),
        }
    }

    /// Before anything is asked: an agent may have been there since.
    fn put_right(&self) -> Result<(), GitError> {
        let mut wrong = own_files::put_right(&self.directory)?;
        wrong.extend(self.excludes.put_right(&self.directory)?);
        wrong.extend(self.packs.put_right(&self.directory)?);
        for name in wrong {
            let directory = self.directory.display();
            tracing::warn!(git.directory = %directory, "{name} does not belong there, or was damaged: put right");
            self.was_restored(name);
        }
        Ok(())
    }

    pub fn was_restored(&self, name: &'static str) {
        *self.restored.lock().unwrap_or_else(PoisonError::into_inner).0.entry(name).or_default() += 1;
    }
}

impl Repository {
    pub(super) fn new(git: Git, shared: Arc<Shared>) -> Self {
        Self { git, shared }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }

    /// Whether it is there.
    pub fn is_made(&self) -> bool {
        own_files::is_made(self.directory())
    }

    /// Makes the repository, empty, when it does not exist; gives it this remote. Costs no process when nothing is to do.
    pub async fn ensure(&self, remote_url: &str) -> Result<(), GitError> {
        let remote = self.address(remote_url)?;
        {
            let _turn = self.turn().await;
            refuse_other_refs(self.directory())?;
            if !own_files::is_made(self.directory()) {
                self.create(&remote).await?;
            } else {
                let shared = self.shared.clone();
                blocking(move || shared.put_right()).await?;
                if config::put(self.directory(), self.config(&remote))? != Found::AsItShouldBe {
                    tracing::info!(git.directory = %self.directory().display(), "repository configuration written");
                }
            }
        }
        *self.shared.remote.lock().unwrap_or_else(PoisonError::into_inner) = Some(remote);
        Ok(())
    }

    /// Puts the configuration file back to what we wrote; answers whether somebody had changed it.
    pub async fn restore_config(&self) -> Result<bool, GitError> {
        let restored = self.restore_own_files().await?;
        self.forget_false_ends().await?;
        Ok(restored)
    }

    pub(super) async fn restore_own_files(&self) -> Result<bool, GitError> {
        let repository = self.clone();
        blocking(move || repository.restore_own_files_now()).await
    }

    fn restore_own_files_now(&self) -> Result<bool, GitError> {
        refuse_other_refs(self.directory())?;
        let remote = self.remote()?;
        if self.looks_only() {
            return match config::is_right(self.directory(), self.config(&remote)) {
                true => Ok(false),
                false => Err(GitError::refused(
                    "the configuration of its repository was changed by somebody; the service, or an import, puts it back first",
                )),
            };
        }
        let found = config::put(self.directory(), self.config(&remote))?;
        if found == Found::Changed {
            tracing::warn!(git.directory = %self.directory().display(), "changed repository configuration put back");
            self.shared.was_restored("config");
        }
        self.shared.put_right()?;
        Ok(found != Found::AsItShouldBe)
    }

    /// What had to be put back so far, by whichever call.
    pub fn restored(&self) -> Restored {
        self.shared.restored.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets a branch follow its namesake on the remote, or not any more, so that git says in its worktree how far apart they are.
    pub async fn set_upstream(&self, branch: &BranchName, follows: bool) -> Result<(), GitError> {
        let remote = self.remote()?;
        let _turn = self.turn().await;
        config::follow(self.directory(), self.config(&remote), branch, follows)
    }

    fn config<'a>(&'a self, remote: &'a RemoteUrl) -> config::Wanted<'a> {
        config::Wanted { url: &remote.text, lfs: self.lfs_program() }
    }

    fn address(&self, text: &str) -> Result<RemoteUrl, GitError> {
        match &self.shared.origin {
            Some(origin) if origin.text == text => Ok(origin.clone()),
            Some(_) => Err(GitError::refused("this is a copy of another repository on this machine")),
            None => RemoteUrl::new(text, self.git.inner.local_remotes),
        }
    }

    /// The worktree registered for `path`, whether or not it exists.
    pub fn worktree(&self, path: impl AsRef<Path>) -> Worktree {
        Worktree::new(self.clone(), path.as_ref().to_owned())
    }

    /// Made beside its place and renamed into it, so that a crash leaves no half-made repository there.
    async fn create(&self, remote: &RemoteUrl) -> Result<(), GitError> {
        let directory = self.directory();
        let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else {
            return Err(GitError::refused("a repository needs a directory of its own"));
        };
        fs::create_dir_all(parent).map_err(|error| GitError::file("making", parent, &error))?;
        let new = parent.join(format!(".{}.new", name.to_string_lossy()));
        // Of a try that was killed: with its locks, no other would ever succeed, and nothing but what was just made is in it.
        match fs::remove_dir_all(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(GitError::file("removing", &new, &error));
            }
            _ => {}
        }
        let call = self.git.program().call(&Place::Nowhere, "init");
        // No template: no sample hooks.
        let call = call.args(["--bare", "--quiet", "--template=", "--initial-branch=main"]);
        call.arg("--end-of-options").arg(&new).ok().await?;
        config::put(&new, self.config(remote))?;
        // Renaming over an empty directory is fine; one with content makes this fail and stays.
        fs::rename(&new, directory).map_err(|error| GitError::file("making", directory, &error))
    }

    /// Whether it is a copy of a repository on this machine.
    pub(super) fn is_of_this_machine(&self) -> bool {
        self.shared.origin.is_some()
    }

    /// The address to talk to.
    pub(super) fn remote(&self) -> Result<RemoteUrl, GitError> {
        if let Some(origin) = &self.shared.origin {
            return Ok(origin.clone());
        }
        let mut known = self.shared.remote.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remote) = &*known {
            return Ok(remote.clone());
        }
        let path = self.directory().join("config");
        let text = plain_file(&path, config::MOST_BYTES).map_err(|error| GitError::file("reading", &path, &error))?;
        let url = config::url_in(&String::from_utf8_lossy(&text))
            .ok_or_else(|| GitError::refused("the repository names no remote any more"))?;
        let remote = RemoteUrl::new(&url, self.git.inner.local_remotes)?;
        *known = Some(remote.clone());
        Ok(remote)
    }

    /// Waits for this repository's turn; held for as long as something is being changed.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.shared.queue.lock().await
    }

    /// Carries a change to its end even when nobody waits for it any more: a worktree that is half checked out, or a git
    /// that cleans up after itself while the next one is at work, must not come from a caller that gave up.
    pub(super) async fn to_the_end<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, GitError>> + Send + 'static,
    ) -> Result<T, GitError> {
        match tokio::spawn(change).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(GitError::Unreadable(format!("the service is stopping ({error})"))),
        }
    }

    /// A call on the bare repository, with the configuration checked just before.
    pub(super) async fn call(&self, name: &str) -> Result<Call<'_>, GitError> {
        self.bare_call_with(&[], name).await
    }

    /// A call on one of its worktrees, with the configuration checked just before.
    pub(super) async fn call_in(&self, admin: &Path, files: &Path, name: &str) -> Result<Call<'_>, GitError> {
        self.call_with(admin, files, &[], name).await
    }

    /// The same with settings for this one call.
    pub(super) async fn call_with(
        &self,
        admin: &Path,
        files: &Path,
        settings: &[&str],
        name: &str,
    ) -> Result<Call<'_>, GitError> {
        self.before_process(Some(admin), name).await?;
        let place =
            Place::Worktree { admin: admin.to_owned(), common: self.directory().to_owned(), files: files.to_owned() };
        Ok(self.mending(self.git.program().call_with(&place, settings, name)))
    }

    /// A call on the bare repository with settings of its own.
    pub(super) async fn bare_call_with(&self, settings: &[&str], name: &str) -> Result<Call<'_>, GitError> {
        self.before_process(None, name).await?;
        let place = Place::Bare(self.directory().to_owned());
        Ok(self.mending(self.git.program().call_with(&place, settings, name)))
    }

    fn mending<'a>(&self, call: Call<'a>) -> Call<'a> {
        match self.looks_only() {
            true => call.leaving_pipes(),
            false => call.mending(self.directory()),
        }
    }

    pub(super) fn looks_only(&self) -> bool {
        self.git.inner.looks_only
    }

    /// Puts right what git would stumble over, or write through: in the entry of the worktree that it is about, and, where it
    /// looks at all of them, in the repository and in what ties each worktree to it.
    async fn before_process(&self, admin: Option<&Path>, name: &str) -> Result<(), GitError> {
        self.restore_config().await?;
        if self.looks_only() {
            return Ok(());
        }
        let (shared, admin) = (self.shared.clone(), admin.map(Path::to_owned));
        let writes_logs = WRITE_LOGS.contains(&name);
        let looks_at_all = writes_logs || name.starts_with("worktree ");
        blocking(move || {
            if writes_logs && own_files::put_logs_right(&shared.directory)? {
                tracing::warn!(git.directory = %shared.directory.display(), "logs that are no files: taken out");
                shared.was_restored(LOGS);
            }
            if let Some(directory) = admin {
                put_right(&AdminEntry { directory })?;
            }
            if looks_at_all {
                for entry in registry::entries(&shared.directory.join("worktrees"))? {
                    put_ties_right(&entry)?;
                }
            }
            Ok(())
        })
        .await
    }

    pub(super) fn lfs_program(&self) -> Option<&Path> {
        self.git.program().lfs.as_deref()
    }

    /// Whether local paths may be fetched from.
    pub(super) fn admits_files(&self) -> bool {
        self.git.inner.local_remotes
    }

    /// A call on a repository inside a worktree, which lies below its admin entry.
    pub(super) async fn call_inside(
        &self,
        own: &Path,
        files: &Path,
        settings: &[&str],
        name: &str,
    ) -> Result<Call<'_>, GitError> {
        self.restore_config().await?;
        let place = Place::Worktree { admin: own.to_owned(), common: own.to_owned(), files: files.to_owned() };
        Ok(self.git.program().call_with(&place, settings, name))
    }

    /// What a file in git's own format says: `<key> LF <value> NUL`. Nothing it includes is read.
    pub(super) async fn list_config(&self, file: &Path) -> Result<Vec<u8>, GitError> {
        let call = self.git.program().call(&Place::Nowhere, "config").args(["--no-includes", "-z", "--list", "--file"]);
        call.arg(file).ok().await
    }

    /// Value of `GIT_ALLOW_PROTOCOL` for addresses that the repository itself names.
    pub(super) fn transports_for_others(&self) -> Result<&'static str, GitError> {
        Ok(match (self.remote()?.is_plain_http(), self.git.inner.local_remotes) {
            (false, false) => "https",
            (false, true) => "https:file",
            (true, false) => "https:http",
            (true, true) => "https:http:file",
        })
    }

    /// An empty directory, to make repositories without sample hooks.
    pub(super) fn no_template(&self) -> &Path {
        &self.git.program().files.home
    }

    pub(super) fn scratch(&self) -> Result<super::scratch::Scratch, GitError> {
        super::scratch::Scratch::new(&self.git.program().files.scratch)
    }

    /// Reads with libgit2, off the async threads, within a time limit. What cannot be read is asked again if it was the refs,
    /// and they could be put right.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        question: impl Fn(&git2::Repository) -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let shared = self.shared.clone();
        if shared.overdue.has(self.directory()) {
            return Err(overdue(&shared, self.directory()));
        }
        self.forget_false_ends().await?;
        let looks_only = self.looks_only();
        let workplace =
            Workplace { repository: Some(self.directory().to_owned()).filter(|_| !looks_only), files: None };
        let asked = move || {
            refuse_other_refs(&shared.directory)?;
            let directory = &shared.directory;
            if !looks_only {
                shared.put_right()?;
            }
            // One that is there, and is none to libgit2, lacks its directory of refs.
            let doubt = |error: git2::Error| match own_files::is_made(directory) {
                true => GitError::Unreadable(error.message().to_owned()),
                false => error.into(),
            };
            // Nor does it complain about one without branches, though all of them have gone with their directory.
            if !looks_only && !directory.join("refs/heads").is_dir() {
                broken_refs::mend(directory);
            }
            let ask = || question(&git2::Repository::open_bare(directory).map_err(doubt)?);
            if looks_only { ask() } else { broken_refs::mending(directory, ask) }
        };
        self.within_limit(self.directory(), workplace, asked).await
    }
}
