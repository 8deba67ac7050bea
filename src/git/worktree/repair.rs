//! Mends what ties a worktree's files to the repository, when an agent (or a hand that slipped) has cut it, or a loss
//! of power has emptied it. Files are never touched: what differs from the branch afterwards is what differed before.
//! What is written over is kept beside.

use super::super::registry::{self, AdminEntry, LOCK_REASON};
use super::super::{GitError, blocking};
use super::entry::{COMMON, place_beside, put_right, take_out};
use super::hazards::false_operations;
use super::index::is_whole;
use super::{Worktree, belongs};
use crate::git::own_files::look;
use crate::model::{BranchName, CommitSha, Validity};
use crate::plain_file::{self, Links};
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

/// What is kept of something that was written over, in the admin entry.
pub(super) const KEPT: &str = "treewarden-broken-";

/// An index in the making.
const NEW_INDEX: &str = "treewarden-new-index";

/// Longer than any line of a reflog that we would believe.
const LINE: u64 = 4096;

impl Worktree {
    /// Mends the `.git` file, the admin entry or its HEAD, for a worktree of ours on `branch` that was handed out, and
    /// an index that is not as git wrote it. False: there is nothing to mend, or not enough left to mend it with; then
    /// nothing was changed. Starts no process and waits for nobody when all is well.
    pub async fn repair(&self, branch: &BranchName) -> Result<bool, GitError> {
        self.mark_anew().await?;
        let put_right = match self.known_validity().await? {
            Validity::Missing | Validity::OwnRepository | Validity::Foreign => return Ok(false),
            Validity::Valid => {
                let put_right = self.put_small_files_right().await?;
                if self.is_well().await? {
                    return Ok(put_right);
                }
                put_right
            }
            Validity::Broken => false,
        };
        let (worktree, branch) = (self.clone(), branch.clone());
        let mended = self.repository.to_the_end(async move { worktree.mend(&branch).await }).await?;
        Ok(put_right || mended)
    }

    /// Whoever asks for a repair knows that it was handed out, and files are there: when neither a mark nor an index
    /// says so, both were taken away. Then the mark is put back first: an index that is gone is made from HEAD, whoever
    /// comes next.
    async fn mark_anew(&self) -> Result<(), GitError> {
        let (repository, path) = (self.repository.directory().to_owned(), self.path.clone());
        blocking(move || match registry::find(&repository, &path)? {
            Some(entry) if entry.is_half_made()? && !is_empty(&path) => entry.hand_out(),
            Some(_) | None => Ok(()),
        })
        .await
    }

    async fn put_small_files_right(&self) -> Result<bool, GitError> {
        let entry = self.entry().await?;
        blocking(move || put_right(&entry)).await
    }

    /// Whether nothing is left to mend. Only looks.
    async fn is_well(&self) -> Result<bool, GitError> {
        let entry = self.entry().await?;
        if !has_whole_index(&entry).await? {
            return Ok(false);
        }
        blocking(move || Ok(!is_unlocked(&entry)? && false_operations(&entry)?.is_empty())).await
    }

    async fn mend(&self, branch: &BranchName) -> Result<bool, GitError> {
        let _turn = self.repository.turn().await;
        let (repository, path) = (self.repository.directory().to_owned(), self.path.clone());
        let question = move || {
            let entry = registry::find(&repository, &path)?.or_else(|| named(&repository, &path));
            entry.map_or(Ok(false), |entry| Ok(put_right(&entry)? | lock_again(&entry)?))
        };
        let (mut ties, mut head) = (blocking(question).await?, false);
        if let Some(tip) = self.repository.tip(&branch.full_ref()).await? {
            ties |= self.mend_ties(branch).await?;
            head = self.mend_head(branch, &tip).await?;
        }
        let index = self.mend_index().await?;
        let operation = self.end_false_operations().await?;
        if ties || head || index || operation {
            let parts = [("ties", ties), ("HEAD", head), ("index", index), ("operation", operation)];
            let mended: Vec<&str> = parts.into_iter().filter(|(_, done)| *done).map(|(part, _)| part).collect();
            tracing::warn!(git.directory = %self.path.display(), git.mended = ?mended, "a broken worktree was mended");
        }
        Ok(ties || head || index || operation)
    }

    async fn mend_ties(&self, branch: &BranchName) -> Result<bool, GitError> {
        let (repository, path, wanted) = (self.repository.directory().to_owned(), self.path.clone(), branch.clone());
        let Some(made) = blocking(move || mend(&repository, &path, &wanted)).await? else { return Ok(false) };
        if made {
            self.make_index(&self.entry().await?).await?;
        }
        Ok(true)
    }

    /// Puts HEAD back on the branch, unless anything speaks for it having been elsewhere.
    async fn mend_head(&self, branch: &BranchName, tip: &CommitSha) -> Result<bool, GitError> {
        let Some(entry) = self.tied_entry().await?.filter(|(_, has_head)| !has_head).map(|(entry, _)| entry) else {
            return Ok(false);
        };
        // Rebase and bisect work on a detached HEAD.
        if self.known_operation().await?.is_some() {
            return Ok(false);
        }
        let (repository, directory, wanted) =
            (self.repository.directory().to_owned(), entry.directory.clone(), branch.clone());
        let question = move || Ok((registry::is_checked_out(&repository, &wanted)?, last_logged(&directory)?));
        let (taken, logged) = blocking(question).await?;
        let elsewhere = match logged {
            Some(logged) => !self.repository.is_ancestor(&logged, tip).await?,
            None => false,
        };
        if taken || elsewhere {
            return Ok(false);
        }
        replace(&entry.directory.join("HEAD"), &format!("ref: {}\n", branch.full_ref()))?;
        Ok(true)
    }

    /// Makes an index that is broken or gone anew from HEAD.
    async fn mend_index(&self) -> Result<bool, GitError> {
        let Some((entry, true)) = self.tied_entry().await? else { return Ok(false) };
        if has_whole_index(&entry).await? || self.head().await?.sha.is_none() {
            return Ok(false);
        }
        self.make_index(&entry).await?;
        Ok(true)
    }

    /// Takes out what only looks like a merge or the like. With paths in conflict there may be one, and people are
    /// asked.
    async fn end_false_operations(&self) -> Result<bool, GitError> {
        let Some((entry, true)) = self.tied_entry().await? else { return Ok(false) };
        let asked = entry.clone();
        let found = blocking(move || false_operations(&asked)).await?;
        if found.is_empty() || self.known_status().await?.conflicted > 0 {
            return Ok(false);
        }
        blocking(move || found.iter().try_for_each(|path| take_out(&entry, path))).await?;
        Ok(true)
    }

    /// The entry when it and the worktree name each other, and whether it has a HEAD.
    async fn tied_entry(&self) -> Result<Option<(AdminEntry, bool)>, GitError> {
        let (repository, path) = (self.repository.directory().to_owned(), self.path.clone());
        blocking(move || {
            let Some(entry) = registry::find(&repository, &path)? else { return Ok(None) };
            if registry::linked_from(&path).as_ref() != Some(&entry.directory) || !belongs(&entry, &repository) {
                return Ok(None);
            }
            let has_head = entry.head_line()?.is_some();
            Ok(Some((entry, has_head)))
        })
        .await
    }

    /// The index as HEAD has it, made beside the old one, so that there always is one.
    pub(in crate::git) async fn make_index(&self, entry: &AdminEntry) -> Result<(), GitError> {
        let (new, index) = (entry.directory.join(NEW_INDEX), entry.directory.join("index"));
        self.indexed(entry, "read-tree", Some(&new)).await?.slow().arg("HEAD").ok().await?;
        // Makes later questions cheap; its exit status only says whether files differ.
        self.indexed(entry, "update-index", Some(&new)).await?.slow().args(["-q", "--refresh"]).run().await?;
        keep(&index)?;
        fs::rename(&new, &index).map_err(|error| GitError::file("writing", &index, &error))
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut files| files.next().is_none())
}

/// Whoever makes a worktree writes one, even for no files.
async fn has_whole_index(entry: &AdminEntry) -> Result<bool, GitError> {
    let index = entry.directory.join("index");
    let question = move || {
        let is_whole = || is_whole(&index).map_err(|error| GitError::file("reading", &index, &error));
        Ok(look(&index)?.is_some() && is_whole()?)
    };
    blocking(question).await
}

/// The entry that a worktree names, or has to be made for it.
fn named(repository: &Path, path: &Path) -> Option<AdminEntry> {
    let directory =
        registry::linked_from(path).filter(|linked| linked.parent() == Some(&repository.join("worktrees")))?;
    Some(AdminEntry { directory })
}

/// Whether somebody took our lock off one that was handed out, and so left it to the next prune.
fn is_unlocked(entry: &AdminEntry) -> Result<bool, GitError> {
    let there = |name| Ok::<_, GitError>(look(&entry.directory.join(name))?.is_some());
    Ok(!there("locked")? && there(registry::COMPLETE)?)
}

fn lock_again(entry: &AdminEntry) -> Result<bool, GitError> {
    let unlocked = is_unlocked(entry)?;
    if unlocked {
        replace(&entry.directory.join("locked"), LOCK_REASON)?;
    }
    Ok(unlocked)
}

/// What was mended: true when the entry had to be made anew, and has no index yet.
fn mend(repository: &Path, path: &Path, branch: &BranchName) -> Result<Option<bool>, GitError> {
    let link = path.join(".git");
    if let Some(entry) = registry::find(repository, path)? {
        return mend_registered(&entry, repository, &link);
    }
    let Some(entry) = named(repository, path) else { return Ok(None) };
    if entry.directory.exists() {
        if entry.lock()?.as_deref() != Some(LOCK_REASON) || serves_another(&entry, path) {
            return Ok(None);
        }
        replace(&entry.directory.join("commondir"), COMMON)?;
        replace(&entry.directory.join("gitdir"), &format!("{}\n", link.display()))?;
        return Ok(Some(false));
    }
    // Two worktrees on one branch would move it under each other.
    if registry::is_checked_out(repository, branch)? {
        return Ok(None);
    }
    fs::create_dir_all(&entry.directory).map_err(|error| GitError::file("making", &entry.directory, &error))?;
    let lines = [
        ("locked", LOCK_REASON.to_owned()),
        ("commondir", COMMON.to_owned()),
        ("HEAD", format!("ref: {}\n", branch.full_ref())),
        (registry::COMPLETE, String::new()),
        ("gitdir", format!("{}\n", link.display())),
    ];
    for (name, text) in lines {
        replace(&entry.directory.join(name), &text)?;
    }
    Ok(Some(true))
}

/// Only the way between the two may be missing. Anything else at the link's place is somebody's.
fn mend_registered(entry: &AdminEntry, repository: &Path, link: &Path) -> Result<Option<bool>, GitError> {
    if entry.is_half_made()? {
        return Ok(None);
    }
    let cut = link.parent().map_or(Ok(false), registry::is_cut)?;
    match belongs(entry, repository) {
        true if cut => {
            let text = format!("gitdir: {}\n", entry.directory.display());
            // Nor is what stood there kept among the files.
            rewrite(link, &text, |link| keep_in(&entry.directory, link))?;
        }
        false if link.parent().and_then(registry::linked_from).as_ref() == Some(&entry.directory) => {
            replace(&entry.directory.join("commondir"), COMMON)?;
        }
        true | false => return Ok(None),
    }
    Ok(Some(false))
}

/// Whether the entry is registered for another worktree that is there and names it.
fn serves_another(entry: &AdminEntry, path: &Path) -> bool {
    let other = entry.git_file().and_then(|file| file.parent().map(PathBuf::from));
    other.is_some_and(|other| {
        other != path && registry::linked_from(&other).as_deref() == Some(entry.directory.as_path())
    })
}

/// The commit on which HEAD stood last, as git's reflog says. Absent when nothing is noted, or nothing readable.
fn last_logged(entry: &Path) -> Result<Option<CommitSha>, GitError> {
    let path = entry.join("logs/HEAD");
    let bytes = match plain_file::read_end(&path, Links::Refuse, LINE) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(GitError::file("reading", &path, &error)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let line = text.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
    Ok(line.split(' ').nth(1).and_then(|sha| CommitSha::new(sha).ok()))
}

/// What stood there is kept.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), GitError> {
    rewrite(path, text, keep)
}

/// Writes beside the file and renames over it: a link that stands there is replaced, not followed. `before` deals with
/// what stands there, once the new text is on the disk.
pub(in crate::git) fn rewrite(
    path: &Path,
    text: &str,
    before: impl FnOnce(&Path) -> Result<(), GitError>,
) -> Result<(), GitError> {
    // Not in a worktree itself: what a kill leaves there would be somebody's untracked file.
    let beside = match path.file_name() {
        Some(name) if name == ".git" => path.parent().unwrap_or(path),
        Some(_) | None => path,
    };
    let new = beside.with_file_name(format!(".treewarden-{}", uuid::Uuid::now_v7()));
    let write = || {
        let mut file = fs::File::create_new(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    let done = write().map_err(|error| GitError::file("writing", path, &error));
    let done = done.and_then(|()| before(path));
    let done = done.and_then(|()| fs::rename(&new, path).map_err(|error| GitError::file("writing", path, &error)));
    if done.is_err() {
        let _ = fs::remove_file(&new);
    }
    done
}

fn keep(path: &Path) -> Result<(), GitError> {
    keep_in(path.parent().unwrap_or(path), path)
}

/// Gives what stands at `path` a second name; what has no content needs none.
fn keep_in(directory: &Path, path: &Path) -> Result<(), GitError> {
    match look(path)? {
        None => return Ok(()),
        Some(meta) if meta.file_type().is_fifo() || (meta.is_file() && meta.len() == 0) => return Ok(()),
        Some(_) => {}
    }
    let kept = place_beside(directory, path);
    // A directory can have one name only, and the entry may be on another file system than the worktree.
    let named = fs::hard_link(path, &kept).or_else(|_| fs::rename(path, &kept));
    let kept = match named {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => carry(path, &kept),
        named => named,
    };
    kept.map_err(|error| GitError::file("keeping", path, &error))
}

/// The same for a link or a file of another file system, which stays for whoever writes over it.
fn carry(path: &Path, kept: &Path) -> io::Result<()> {
    match fs::read_link(path) {
        Ok(target) => std::os::unix::fs::symlink(target, kept),
        Err(_) => {
            let mut file = plain_file::open(path, Links::Refuse)?;
            let mut copy = fs::File::create_new(kept)?;
            io::copy(&mut file, &mut copy)?;
            copy.sync_all()
        }
    }
}
