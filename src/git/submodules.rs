//! Filling the submodules of a new worktree. Their repositories are made inside the worktree's admin entry
//! (`worktrees/<id>/modules`), so they come and go with it.
//!
//! Addresses come from the repository, so they are the least trusted thing here: only the remote's own host is asked, only
//! encrypted transports are spoken (and what the canonical repository's own remote speaks), redirects are not followed, the
//! token goes to that host only, and no hook, template or update command has a part in it. Each address is resolved and
//! checked before git sees it, at every depth. Nothing is written to the configuration that all worktrees share, and no
//! repository that was there before is taken: an agent may have written its configuration.

mod along;
mod room;

use super::addresses::Addresses;
use super::command::Call;
use super::error::GitError;
use super::registry::{AdminEntry, linked_from};
use super::remote_url::RemoteUrl;
use super::worktree::{Worktree, submodules_inside};
use super::{blocking, canonical, write_whole};
use crate::model::{Credential, SubmodulePolicy, Submodules};
use room::in_the_way;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

/// In the admin entry, from before the first submodule is touched.
const BEGUN: &str = "treewarden-submodules";

/// A transport that does not exist.
const ELSEWHERE: &str = "treewarden-elsewhere";

/// Where a repository writes down the addresses.
const ADDRESSES: &str = ".gitmodules";

/// A repository whose submodules are to be filled: the worktree itself, or a filled submodule.
struct Parent {
    /// Relative to the worktree; empty for itself.
    place: PathBuf,
    /// Its own part of a repository.
    own: PathBuf,
    address: RemoteUrl,
    /// Relative to its place.
    submodules: Vec<PathBuf>,
}

impl Worktree {
    /// Checks all submodules out, each by itself, so that one that fails stops no other; one that failed is left as if it
    /// had not been tried. Meant for a worktree in which nobody has worked yet: what an earlier try began is made anew.
    pub async fn fill_submodules(
        &self,
        policy: &SubmodulePolicy,
        credential: Option<&Credential>,
        limit: Duration,
    ) -> Result<Submodules, GitError> {
        let mut told = Submodules::default();
        let nested = match policy {
            SubmodulePolicy::Leave => return Ok(told),
            SubmodulePolicy::All => true,
            SubmodulePolicy::AsIn(_) => false,
        };
        let paths = self.submodule_paths().await?;
        if paths.is_empty() {
            return Ok(told);
        }
        if !self.may_ask_addresses(policy).await? {
            told.other_addresses = true;
            return Ok(told);
        }
        self.repository().remote()?.admits(credential)?;
        let entry = self.entry().await?;
        let (begun, files, all) = (entry.clone(), self.files().to_owned(), paths.clone());
        blocking(move || begin_anew(&begun, &files, &all)).await?;
        told.failed = self.fill_each(&entry, paths, nested, credential, Instant::now() + limit).await?;
        Ok(told)
    }

    /// Whether a branch's own `.gitmodules` may be followed.
    async fn may_ask_addresses(&self, policy: &SubmodulePolicy) -> Result<bool, GitError> {
        match policy {
            SubmodulePolicy::Leave => Ok(false),
            SubmodulePolicy::All => Ok(true),
            SubmodulePolicy::AsIn(full_ref) => self.has_addresses_of(full_ref).await,
        }
    }

    /// Fills those of `paths` that are not there, and what is `nested` in them. Answers with those that failed, and why.
    async fn fill_each(
        &self,
        entry: &AdminEntry,
        paths: Vec<PathBuf>,
        nested: bool,
        credential: Option<&Credential>,
        end: Instant,
    ) -> Result<Vec<(String, String)>, GitError> {
        let mut failed = Vec::new();
        let (own, remote) = (entry.directory.clone(), self.repository().remote()?);
        let mut pending = vec![Parent { place: PathBuf::new(), own, address: remote, submodules: paths }];
        while let Some(parent) = pending.pop() {
            let addresses = self.addresses_in(&parent.place).await?;
            for path in &parent.submodules {
                let place = parent.place.join(path);
                if self.files().join(&place).join(".git").exists() {
                    continue;
                }
                match self.fill(&parent, &addresses, path, credential, end).await {
                    Ok(address) if nested => pending.extend(self.as_parent(place, address).await?),
                    Ok(_) => {}
                    Err(error) => {
                        failed.push((place.display().to_string(), self.told_outside(&error)));
                        let (entry, files) = (entry.clone(), self.files().to_owned());
                        blocking(move || take_back(&entry, &files, &place)).await?;
                    }
                }
            }
        }
        Ok(failed)
    }

    /// What `.gitmodules` of the checkout at `place` says; a link is none, as for git.
    async fn addresses_in(&self, place: &Path) -> Result<Addresses, GitError> {
        let file = self.files().join(place).join(ADDRESSES);
        match fs::symlink_metadata(&file) {
            Ok(meta) if meta.is_file() => Ok(Addresses::parse(&self.repository().list_config(&file).await?)),
            Ok(_) => Ok(Addresses::default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Addresses::default()),
            Err(error) => Err(GitError::file("looking at", &file, &error)),
        }
    }

    /// A submodule that was just filled, when it has submodules itself.
    async fn as_parent(&self, place: PathBuf, address: RemoteUrl) -> Result<Option<Parent>, GitError> {
        let files = self.files().join(&place);
        let inside = files.clone();
        self.look_inside(&inside, move || {
            let submodules = submodules_inside(&files)?;
            let own = linked_from(&files).filter(|_| !submodules.is_empty());
            Ok(own.map(|own| Parent { place, own, address, submodules }))
        })
        .await
    }

    /// Whether the branch's addresses are those of another ref, byte for byte.
    async fn has_addresses_of(&self, full_ref: &str) -> Result<bool, GitError> {
        let Some(branch) = self.head().await?.branch else { return Ok(false) };
        let own = self.repository().file_at(&branch.full_ref(), ADDRESSES, 0).await?;
        let other = self.repository().file_at(full_ref, ADDRESSES, 0).await?;
        Ok(own.map(|file| file.id) == other.map(|file| file.id))
    }

    async fn fill(
        &self,
        parent: &Parent,
        addresses: &Addresses,
        path: &Path,
        credential: Option<&Credential>,
        end: Instant,
    ) -> Result<RemoteUrl, GitError> {
        let repository = self.repository();
        let address = addresses.of(path, &parent.address, &repository.remote()?, repository.admits_files())?;
        let (own, names) = (parent.own.clone(), addresses.names_of(path));
        for name in names {
            let (place, parent) = (own.clone(), own.clone());
            let found = self.look_inside(&own, move || in_the_way(&place, &name)).await?;
            // Not in the look: whoever gave up waiting for it must not lose something afterwards.
            blocking(move || found.map_or(Ok(()), |found| found.clear(&parent))).await?;
        }
        let call = self.submodule_call(parent, credential, end).await?;
        match call.arg("--").arg(path).ok().await {
            Err(GitError::Failed { stderr, .. }) if stderr.contains(ELSEWHERE) => {
                Err(GitError::refused("its address is on another host than the repository, and no other is asked"))
            }
            outcome => outcome.map(|_| address),
        }
    }

    async fn submodule_call(
        &self,
        parent: &Parent,
        credential: Option<&Credential>,
        end: Instant,
    ) -> Result<Call<'_>, GitError> {
        let remote = self.repository().remote()?;
        // Active by this call alone: `submodule init` would write to the shared configuration.
        let mut settings = vec!["submodule.active=.".to_owned()];
        // The longest match wins: every address but those of the remote's own host becomes one that nobody speaks.
        settings.extend(remote.root().map(|root| format!("url.{root}.insteadOf={root}")));
        settings.extend(["https://", "http://"].map(|any| format!("url.{ELSEWHERE}::.insteadOf={any}")));
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        const UPDATE: &str = "submodule update";
        let call = match parent.place.as_os_str().is_empty() {
            true => self.repository().call_with(&parent.own, self.files(), &settings, UPDATE).await?,
            false => {
                let files = self.files().join(&parent.place);
                self.repository().call_inside(&parent.own, &files, &settings, UPDATE).await?
            }
        };
        let call = call.credential(&remote, credential).within(end.saturating_duration_since(Instant::now()));
        let call = call.env("GIT_ALLOW_PROTOCOL", self.repository().transports_for_others()?);
        let call = call.env("GIT_TEMPLATE_DIR", self.repository().no_template());
        Ok(call.args(["--quiet", "--checkout", "--force", "--no-recommend-shallow", "--no-single-branch"]))
    }
}

/// Clears what a try of ours left that was killed, and writes down that one begins.
fn begin_anew(entry: &AdminEntry, files: &Path, paths: &[PathBuf]) -> Result<(), GitError> {
    let mark = entry.directory.join(BEGUN);
    if mark.exists() {
        gone(&entry.directory.join("modules"))?;
        for path in paths {
            empty(files, path)?;
        }
    }
    write_whole(&mark, b"")
}

/// Leaves a submodule as if it had not been tried.
fn take_back(entry: &AdminEntry, files: &Path, path: &Path) -> Result<(), GitError> {
    let modules = canonical(&entry.directory.join("modules"));
    if let Some(own) = linked_from(&files.join(path)).filter(|own| own.starts_with(&modules)) {
        gone(&own)?;
    }
    empty(files, path)
}

/// An empty directory, as a checkout makes it. What is not a directory is left alone.
fn empty(files: &Path, path: &Path) -> Result<(), GitError> {
    let place = files.join(path);
    match fs::symlink_metadata(&place) {
        Ok(meta) if !meta.is_dir() => return Ok(()),
        _ => gone(&place)?,
    }
    fs::create_dir_all(&place).map_err(|error| GitError::file("making", &place, &error))
}

fn gone(path: &Path) -> Result<(), GitError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GitError::file("removing", path, &error)),
        _ => Ok(()),
    }
}
