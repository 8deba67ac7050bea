//! Commits that only a worktree's own entry holds: a detached HEAD, what its reflog remembers, refs of its own, changes that
//! git put aside for a merge.
//! They would be in nobody's reach once the entry is taken out, so they get a ref of their own before.

use super::error::GitError;
use super::own_files::look;
use super::registry::AdminEntry;
use super::repository::Repository;
use super::{blocking, small_file};
use crate::model::CommitSha;
use crate::plain_file::{self, Links};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// How much of a reflog is read; an agent may have written it.
const REFLOG: u64 = 4 * 1024 * 1024;
/// How much of a file that names commits, one a line.
const PSEUDOREF: u64 = 64 * 1024;

/// The same of what git puts aside for a rebase, and where it began: git-rebase(1), `--autostash`.
const IN_OPERATIONS: [&str; 4] =
    ["rebase-merge/autostash", "rebase-merge/orig-head", "rebase-apply/autostash", "rebase-apply/orig-head"];

impl Repository {
    /// Gives every such commit that no ref reaches a ref `refs/treewarden/archive/commits/<sha>`. The caller has the turn.
    pub(super) async fn pin_in_turn(&self, entry: &AdminEntry) -> Result<(), GitError> {
        let entry = entry.clone();
        let held = blocking(move || commits_of(&entry)).await?;
        if held.is_empty() {
            return Ok(());
        }
        let lines: String = held.iter().map(|sha| format!("{sha}\n")).collect();
        // The HEADs of worktrees, this one's among them, hold nothing for long.
        let call = self.call("rev-list").await?.slow();
        let call = call.args(["--ignore-missing", "--single-worktree", "--stdin", "--not", "--all"]);
        let output = call.input(lines.into_bytes()).ok().await?;
        let unreachable = String::from_utf8_lossy(&output);
        let unreachable: BTreeSet<&str> = unreachable.lines().collect();
        for sha in held.iter().filter(|sha| unreachable.contains(sha.as_str())) {
            let name = format!("refs/treewarden/archive/commits/{sha}");
            if !self.set_ref_in_turn(&name, sha, None).await? {
                return Err(GitError::refused(format!("the commit {sha} could not be kept under {name}")));
            }
            tracing::info!(git.directory = %self.directory().display(), git.commit = %sha, "commit of a worktree kept");
        }
        Ok(())
    }
}

/// The commits that it names itself. What is not there names nothing; what is there and cannot be read is a doubt.
pub(super) fn commits_of(entry: &AdminEntry) -> Result<BTreeSet<CommitSha>, GitError> {
    let mut held = BTreeSet::new();
    let mut add = |text: &[u8]| held.extend(CommitSha::new(String::from_utf8_lossy(text).trim()).ok());
    if let Some(line) = entry.head_line()? {
        add(line.as_bytes());
    }
    let log = entry.directory.join("logs/HEAD");
    if let Some(meta) = present(fs::symlink_metadata(&log), &log)? {
        if !meta.is_file() {
            return Err(GitError::Unreadable(format!("{} is no plain file", log.display())));
        }
        let failed = |error: io::Error| GitError::file("reading", &log, &error);
        let mut file = plain_file::open(&log, Links::Refuse).map_err(failed)?;
        // The newest are at its end.
        file.seek(SeekFrom::Start(meta.len().saturating_sub(REFLOG))).map_err(failed)?;
        for line in BufReader::new(file.take(REFLOG)).split(b'\n') {
            let line = line.map_err(|error| GitError::file("reading", &log, &error))?;
            add(line.split(|byte| *byte == b' ').nth(1).unwrap_or_default());
        }
    }
    let mut refs: Vec<PathBuf> = IN_OPERATIONS.iter().map(|name| entry.directory.join(name)).collect();
    for file in present(fs::read_dir(&entry.directory), &entry.directory)?.into_iter().flatten() {
        let file = file.map_err(|error| GitError::file("reading", &entry.directory, &error))?;
        if is_ref_of_its_own(&file.file_name()) {
            refs.push(file.path());
        }
    }
    for file in refs {
        if !look(&file)?.is_some_and(|meta| meta.is_file()) {
            continue;
        }
        let text = plain_file::read_start(&file, Links::Refuse, PSEUDOREF);
        let text = text.map_err(|error| GitError::file("reading", &file, &error))?;
        for line in text.split(|byte| *byte == b'\n') {
            add(line.split(u8::is_ascii_whitespace).next().unwrap_or_default());
        }
    }
    let mut directories = vec![entry.directory.join("refs")];
    while let Some(directory) = directories.pop() {
        for file in present(fs::read_dir(&directory), &directory)?.into_iter().flatten() {
            let file = file.map_err(|error| GitError::file("reading", &directory, &error))?;
            let kind = file.file_type().map_err(|error| GitError::file("looking at", &file.path(), &error))?;
            match kind.is_dir() {
                true => directories.push(file.path()),
                false => {
                    add(&small_file(&file.path()).map_err(|error| GitError::file("reading", &file.path(), &error))?)
                }
            }
        }
    }
    held.retain(|sha| sha.as_str().bytes().any(|byte| byte != b'0'));
    Ok(held)
}

/// Whether git may keep a commit in the file, as in `MERGE_AUTOSTASH`: gitglossary(7), "pseudoref". Words are in some, too.
/// What was fetched is elsewhere as well.
fn is_ref_of_its_own(name: &OsStr) -> bool {
    name != "FETCH_HEAD" && name.as_encoded_bytes().iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_')
}

fn present<T>(found: io::Result<T>, path: &Path) -> Result<Option<T>, GitError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(GitError::file("reading", path, &error)),
    }
}
