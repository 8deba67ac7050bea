//! The canonical repository's configuration file: all of it is written by us, and put back when anybody changed it.
//!
//! An agent that reaches this file could name programs that the service's git would run (filters, monitors, helpers), or
//! break every other worktree. No credential is ever in it.

use super::error::GitError;
use std::{fs, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

/// The file's only content, for a remote.
pub(super) fn render(url: &str) -> String {
    let url = url.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "# Written by Treewarden and put back when changed.\n\
         [core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\tlogallrefupdates = true\n\
         [remote \"origin\"]\n\turl = \"{url}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [gc]\n\tauto = 0\n\tworktreePruneExpire = never\n\
         [maintenance]\n\tauto = false\n\
         [lfs]\n\trepositoryformatversion = 0\n\
         [push]\n\tdefault = nothing\n"
    )
}

/// The remote that a file of this form names; absent when the line was tampered with.
pub(super) fn url_in(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("\turl = \""))?;
    let url = line.strip_suffix('"')?.replace("\\\"", "\"").replace("\\\\", "\\");
    let usable = !url.is_empty() && !url.chars().any(char::is_control);
    usable.then_some(url)
}

/// Makes the file say exactly `wanted`; answers whether it had to be written.
pub(super) fn put(repository: &Path, wanted: &str) -> Result<bool, GitError> {
    let path = repository.join("config");
    let regular = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
    if regular && fs::read(&path).is_ok_and(|present| present == wanted.as_bytes()) {
        return Ok(false);
    }
    let write = || {
        let new = repository.join(format!(".config.{}", uuid::Uuid::now_v7()));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(wanted.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().map_err(|error| GitError::file("writing", &path, &error))?;
    Ok(true)
}

/// There are no hooks: one that an agent left would run in everybody else's worktrees, with everybody's git. Answers
/// whether there were any.
pub(super) fn take_hooks_out(repository: &Path) -> Result<bool, GitError> {
    let path = repository.join("hooks");
    let Ok(meta) = fs::symlink_metadata(&path) else { return Ok(false) };
    let taken = if meta.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    taken.map_err(|error| GitError::file("removing", &path, &error))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_survives_a_round_trip() {
        for url in ["https://github.com/octo/hello.git", "/tmp/odd \"dir\" \\x/r.git"] {
            assert_eq!(url_in(&render(url)).as_deref(), Some(url));
        }
        assert_eq!(url_in("[core]\n\tbare = true\n"), None);
    }
}
