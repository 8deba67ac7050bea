//! Commits that only a worktree's own entry holds: a detached HEAD, what its reflog remembers, refs under `refs/worktree/`.
//! They would be in nobody's reach once the entry is taken out, so they get a ref of their own before.

use super::error::GitError;
use super::registry::AdminEntry;
use super::repository::Repository;
use super::{blocking, small_file};
use crate::model::CommitSha;
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::Path,
};

/// How much of a reflog is read; an agent may have written it.
const REFLOG: u64 = 4 * 1024 * 1024;

impl Repository {
    /// Gives every such commit that no ref reaches a ref `refs/treewarden/archive/commits/<sha>`. The caller has the turn.
    pub(super) async fn pin_in_turn(&self, entry: &AdminEntry) -> Result<(), GitError> {
        let directory = entry.directory.clone();
        let held = blocking(move || Ok(held_by(&directory))).await?;
        if held.is_empty() {
            return Ok(());
        }
        let lines: String = held.iter().map(|sha| format!("{sha}\n")).collect();
        let call = self.call("rev-list").await?.slow().args(["--ignore-missing", "--stdin", "--not", "--all"]);
        let output = call.input(lines.into_bytes()).ok().await?;
        let unreachable: BTreeSet<&str> = std::str::from_utf8(&output).unwrap_or_default().lines().collect();
        for sha in held.iter().filter(|sha| unreachable.contains(sha.as_str())) {
            let name = format!("refs/treewarden/archive/commits/{sha}");
            if !self.set_ref_in_turn(&name, sha, None).await? {
                return Err(GitError::refused(format!("the commit {sha} could not be kept under {name}")));
            }
            tracing::info!(git.directory = %self.directory().display(), commit = %sha, "commit of a worktree kept");
        }
        Ok(())
    }
}

fn held_by(entry: &Path) -> BTreeSet<CommitSha> {
    let mut held = BTreeSet::new();
    let mut add = |text: &str| held.extend(CommitSha::new(text.trim()).ok());
    if let Ok(head) = small_file(&entry.join("HEAD")) {
        add(&String::from_utf8_lossy(&head));
    }
    let log = entry.join("logs/HEAD");
    if fs::symlink_metadata(&log).is_ok_and(|meta| meta.is_file())
        && let Ok(file) = fs::File::open(&log)
    {
        let lines = BufReader::new(std::io::Read::take(file, REFLOG)).split(b'\n');
        for line in lines.map_while(Result::ok) {
            add(String::from_utf8_lossy(&line).split(' ').nth(1).unwrap_or_default());
        }
    }
    let mut directories = vec![entry.join("refs/worktree")];
    while let Some(directory) = directories.pop() {
        for file in fs::read_dir(&directory).into_iter().flatten().flatten() {
            match file.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(file.path()),
                Ok(kind) if kind.is_file() => {
                    add(&String::from_utf8_lossy(&small_file(&file.path()).unwrap_or_default()))
                }
                _ => {}
            }
        }
    }
    held.retain(|sha| sha.as_str().bytes().any(|byte| byte != b'0'));
    held
}
