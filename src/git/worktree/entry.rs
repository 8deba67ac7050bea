//! Git's own small files in the admin entry of a worktree. An agent that reaches it can leave anything there: a link through
//! which git would write elsewhere, a directory that no git command gets past, in anybody's worktree. What says nothing is put
//! right from what is known anyway, before git is run; what may say something is kept beside.

use super::repair::{KEPT, replace};
use crate::git::own_files::{gone, look};
use crate::git::pipes::UNREADABLE;
use crate::git::registry::{AdminEntry, LOCK_REASON};
use crate::git::{GitError, SMALL, small_file};
use crate::model::CommitSha;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where git writes on its own account, at the end of what is there.
pub(in crate::git) const LOGS: &str = "logs";

/// The way from an entry to its repository.
pub(super) const COMMON: &str = "../..\n";

/// What every git process in the repository reads, of all worktrees. Answers whether anything was put right. A new entry may
/// be in the making, and stays as it is.
pub(in crate::git) fn put_ties_right(entry: &AdminEntry) -> Result<bool, GitError> {
    let mut found = false;
    for (name, text) in [("commondir", COMMON), ("locked", LOCK_REASON)] {
        let path = entry.directory.join(name);
        let Some(meta) = look(&path)? else { continue };
        // A lock without a reason is somebody's.
        let says_nothing = is_spoilt(&path, &meta) || (meta.len() == 0 && name != "locked");
        if says_nothing && !entry.is_new()? {
            replace(&path, text)?;
            tell(&path);
            found = true;
        }
    }
    // Git reads all of it, however much it is; it is written anew where the worktree's row is known.
    for name in ["gitdir", "HEAD"] {
        let path = entry.directory.join(name);
        let Some(meta) = look(&path)? else { continue };
        if meta.is_file() && is_spoilt(&path, &meta) && !entry.is_new()? {
            take_out(entry, &path)?;
            tell(&path);
            found = true;
        }
    }
    Ok(found)
}

/// Gives one that lost it its way to the repository again.
pub(in crate::git) fn tie_to_repository(entry: &AdminEntry) -> Result<(), GitError> {
    replace(&entry.directory.join("commondir"), COMMON)
}

/// The same for all that git needs to be asked about this worktree, and to write in it.
pub(in crate::git) fn put_right(entry: &AdminEntry) -> Result<bool, GitError> {
    let ties = put_ties_right(entry)?;
    let mut odd = odd_logs(&entry.directory)?;
    // Nobody needs it, and git does nothing that would write it where it cannot read it.
    let path = entry.directory.join("ORIG_HEAD");
    let is_commit =
        || small_file(&path).is_ok_and(|text| CommitSha::new(String::from_utf8_lossy(&text).trim()).is_ok());
    if look(&path)?.is_some() && !is_commit() {
        odd.push(path);
    }
    for path in &odd {
        take_out(entry, path)?;
        tell(path);
    }
    Ok(ties || !odd.is_empty())
}

fn tell(path: &Path) {
    tracing::warn!(path = %path.display(), "not as git writes it, in the registration of a worktree: put right");
}

/// What git would write through, or could not write to, below the logs of a repository or an entry: also a directory in the
/// place of a ref's log.
pub(in crate::git) fn odd_logs(directory: &Path) -> Result<Vec<PathBuf>, GitError> {
    let logs = directory.join(LOGS);
    // Only one that says a commit: in the place of a directory of refs, the logs below are all that knows of those.
    let is_ref = |log: &Path| {
        let text = log.strip_prefix(&logs).ok().and_then(|name| small_file(&directory.join(name)).ok());
        text.is_some_and(|text| CommitSha::new(String::from_utf8_lossy(&text).trim_end()).is_ok())
    };
    match look(&logs)? {
        None => return Ok(Vec::new()),
        Some(meta) if meta.is_dir() => {}
        Some(_) => return Ok(vec![logs]),
    }
    let (mut odd, mut directories) = (Vec::new(), vec![logs.clone()]);
    while let Some(directory) = directories.pop() {
        let files = match fs::read_dir(&directory) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(GitError::file("reading", &directory, &error)),
        };
        for file in files {
            let file = file.map_err(|error| GitError::file("reading", &directory, &error))?;
            let kind = file.file_type().map_err(|error| GitError::file("looking at", &file.path(), &error))?;
            let is_head = directory == logs && file.file_name().as_encoded_bytes().ends_with(b"HEAD");
            match kind.is_dir() && !is_head && !is_ref(&file.path()) {
                true => directories.push(file.path()),
                false if kind.is_file() => {}
                false => odd.push(file.path()),
            }
        }
    }
    Ok(odd)
}

/// Nothing that git writes, also for its size, or what stands where a pipe was taken away.
pub(super) fn is_spoilt(path: &Path, meta: &fs::Metadata) -> bool {
    let is_stand_in = || meta.len() == UNREADABLE.len() as u64 && small_file(path).is_ok_and(|text| text == UNREADABLE);
    !meta.is_file() || meta.len() > SMALL || is_stand_in()
}

/// Out of git's way. Links and pipes hold nothing themselves; everything else is kept beside.
pub(in crate::git) fn take_out(entry: &AdminEntry, path: &Path) -> Result<(), GitError> {
    let taken = match look(path)? {
        None => return Ok(()),
        Some(meta) if meta.is_dir() || meta.is_file() => fs::rename(path, place_beside(&entry.directory, path)),
        Some(_) => fs::remove_file(path),
    };
    gone(taken, "setting aside", path)
}

/// Where what stood at `path` is kept.
pub(super) fn place_beside(directory: &Path, path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    directory.join(format!("{KEPT}{name}-{}", uuid::Uuid::now_v7()))
}
