//! Git LFS: the objects of a new worktree's files, the pointers of a commit, the objects of a push.
//!
//! The real `git-lfs` does the work, by an absolute path that is ours: a repository says which files are meant
//! (`filter=lfs`), never which program. Addresses come from the canonical repository's remote, whatever a `.lfsconfig` says,
//! and no file is downloaded but by the one call that is for it. Without the program pointers stay pointers, and changed
//! files are not committed: as blobs they would be in the history for good.

use super::command::Call;
use super::error::GitError;
use super::remote_url::RemoteUrl;
use super::worktree::{Worktree, path_of, quiet};
use super::{blocking, plain_file};
use crate::model::{BranchName, Credential, Lfs};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

/// How a pointer file begins, in every version of its format.
pub(super) const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Longest of them.
pub(super) const POINTER_BYTES: u64 = 1024;

/// What makes git store pointers and nothing else: settings of `filter.lfs`.
pub(super) fn filters(program: &Path) -> [(&'static str, String); 4] {
    // Git hands these to a shell.
    let program = format!("'{}'", program.display().to_string().replace('\'', r"'\''"));
    [
        ("clean", format!("{program} clean -- %f")),
        ("smudge", format!("{program} smudge --skip -- %f")),
        ("process", format!("{program} filter-process --skip")),
        ("required", "true".to_owned()),
    ]
}

impl Worktree {
    /// Downloads the objects of all files of the checkout that are pointers, within `limit`. Repeatable.
    pub async fn pull_lfs(&self, credential: Option<&Credential>, limit: Duration) -> Result<Lfs, GitError> {
        let mut told = Lfs::default();
        let paths = self.lfs_files().await?;
        if paths.is_empty() {
            return Ok(told);
        }
        if self.repository().lfs_program().is_none() {
            told.without_program = paths.len() as u64;
            return Ok(told);
        }
        let remote = self.repository().remote()?;
        remote.admits(credential)?;
        self.refuse_to_write_over(&paths).await?;
        let entry = self.entry().await?;
        let settings = lfs_settings(&remote);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let call = self.repository().call_with(&entry.directory, self.files(), &settings, "lfs pull").await?;
        let pulled = call.credential(&remote, credential).within(limit).ok().await;
        // The program writes notes of its own into the configuration that all worktrees share.
        self.repository().restore_config().await?;
        told.failed = pulled.err().map(|error| self.told_outside(&error));
        // The program may well be content with less: what counts is what is there.
        let files = self.files().to_owned();
        let left = blocking(move || Ok(paths.iter().filter(|path| holds_pointer(&files.join(path))).count())).await?;
        if told.failed.is_none() && left > 0 {
            told.failed = Some(format!("the server has no objects for {left} of them"));
        }
        Ok(told)
    }

    /// Somebody may have worked here: the program must not write over what git does not see, nor behind a link.
    async fn refuse_to_write_over(&self, paths: &[PathBuf]) -> Result<(), GitError> {
        if !self.hidden_paths().await?.is_empty() {
            return Err(GitError::refused("edits in the worktree are hidden from `git status`, and stay as they are"));
        }
        let (files, paths) = (self.files().to_owned(), paths.to_vec());
        let linked = move || Ok(paths.into_iter().find(|path| is_behind_a_link(&files, path)));
        match blocking(linked).await? {
            Some(path) => Err(GitError::refused(format!("a link is where a directory of {} was", path.display()))),
            None => Ok(()),
        }
    }

    /// The tracked files that are kept by LFS.
    async fn lfs_files(&self) -> Result<Vec<PathBuf>, GitError> {
        let call = self.call_for_lfs("ls-files").await?.slow();
        let output = quiet(call.args(["-z", "--", ":(top,attr:filter=lfs)"]).run().await?)?;
        Ok(output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of).collect())
    }

    /// Those of `paths` that would become blobs although LFS is to keep them: there is no program to make pointers.
    pub(super) async fn not_pointers(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        if self.repository().lfs_program().is_some() {
            return Ok(Vec::new());
        }
        let kept = self.kept_by_lfs(paths).await?;
        Ok(kept.into_iter().filter(|path| !is_pointer(&self.files().join(path))).collect())
    }

    /// Those of `paths` that LFS is to keep, as the attributes in the checkout say.
    pub(super) async fn kept_by_lfs(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        self.marked_for_lfs(&[], paths).await
    }

    /// The same as the attributes in the index say, whatever became of the files.
    pub(super) async fn kept_by_lfs_in_index(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        self.marked_for_lfs(&["--cached"], paths).await
    }

    async fn marked_for_lfs(&self, options: &[&str], paths: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let list = paths.iter().flat_map(|path| [path.as_os_str().as_encoded_bytes(), b"\0"].concat()).collect();
        let call = self.call_for_lfs("check-attr").await?.args(options).args(["-z", "--stdin", "filter"]).input(list);
        let output = quiet(call.run().await?)?;
        let fields: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
        // <path> <attribute> <value>, as git-check-attr(1) describes.
        let marked = fields.chunks_exact(3).filter(|record| record[2] == b"lfs");
        Ok(marked.map(|record| path_of(record[0])).collect())
    }

    /// Changed files that [`Worktree::commit_all`] leaves behind for that reason.
    pub async fn kept_from_lfs(&self) -> Result<Vec<PathBuf>, GitError> {
        if self.repository().lfs_program().is_some() {
            return Ok(Vec::new());
        }
        let changed = self.changed_paths().await?;
        self.not_pointers(&changed).await
    }

    /// Uploads the objects that the branch's commits need and the remote may lack. Nothing to do where no commit was ever
    /// made with LFS. The answer: files whose pointers lead nowhere, since neither side has their objects. A text that looks
    /// like a pointer, at a place that LFS is not to keep, is a text.
    pub async fn push_lfs(
        &self,
        branch: &BranchName,
        credential: Option<&Credential>,
    ) -> Result<Vec<PathBuf>, GitError> {
        let repository = self.repository();
        if repository.lfs_program().is_none() {
            return Ok(Vec::new());
        }
        let objects = self.brought_for_lfs().await?.objects;
        if objects.is_empty() && !repository.directory().join("lfs/objects").is_dir() {
            return Ok(Vec::new());
        }
        let remote = repository.remote()?;
        remote.admits(credential)?;
        let settings = lfs_settings(&remote);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let call = repository.bare_call_with(&settings, "lfs push").await?.credential(&remote, credential).slow();
        let pushed = call.args(["origin", &branch.full_ref()]).ok().await;
        repository.restore_config().await?;
        // It passes over what it does not find, and names it.
        let said = String::from_utf8_lossy(&pushed?).into_owned();
        let missing: BTreeSet<PathBuf> =
            objects.into_iter().filter(|(id, _)| said.contains(id)).map(|(_, path)| path).collect();
        Ok(missing.into_iter().collect())
    }

    async fn call_for_lfs(&self, name: &str) -> Result<Call<'_>, GitError> {
        let entry = self.entry().await?;
        self.repository().call_in(&entry.directory, self.files(), name).await
    }
}

/// Where objects are, that nobody is asked about locks, and that all of them are meant, whatever a `.lfsconfig` says. An
/// object that cannot be downloaded is a failure; one that there is none of to upload is named, whoever needs it.
fn lfs_settings(remote: &RemoteUrl) -> Vec<String> {
    let url = remote.lfs();
    let fixed = [
        "lfs.locksverify=false",
        "lfs.fetchinclude=",
        "lfs.fetchexclude=",
        "lfs.allowincompletepush=true",
        "lfs.skipdownloaderrors=false",
    ];
    let places = [format!("lfs.url={url}"), format!("lfs.pushurl={url}")];
    places.into_iter().chain(fixed.map(str::to_owned)).collect()
}

fn is_behind_a_link(files: &Path, path: &Path) -> bool {
    let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    parents.into_iter().any(|parent| std::fs::symlink_metadata(files.join(parent)).is_ok_and(|meta| meta.is_symlink()))
}

fn holds_pointer(path: &Path) -> bool {
    let is_short = |meta: std::fs::Metadata| meta.is_file() && meta.len() <= POINTER_BYTES;
    std::fs::symlink_metadata(path).is_ok_and(is_short) && is_pointer(path)
}

/// Also a deleted file, and a link: there is nothing in them that would become a blob.
fn is_pointer(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() && meta.len() <= POINTER_BYTES => {
            plain_file(path, POINTER_BYTES).is_ok_and(|content| content.starts_with(POINTER))
        }
        Ok(meta) => !meta.is_file(),
        Err(_) => true,
    }
}
