//! What a repository of ours has besides refs, objects and configuration, and what it never has. An agent that reaches it could
//! leave anything there, for everybody: a hook, attributes that change what is committed, patterns that hide work, a pipe at
//! which git waits for ever. It is put right before anything is asked.

use super::broken_refs::{self, ASIDE};
use super::error::GitError;
use super::{small_file, write_whole};
use crate::model::BranchName;
use std::{fs, io, path::Path};

/// A hook that an agent left would run in everybody else's worktrees, with everybody's git; attributes would change what is
/// committed in all of them; borrowed objects may be gone tomorrow; and git believes a commit graph, grafts, or an index of
/// many packs without looking, so that a forged one makes work look merged, or a spoilt one stops everybody.
const STRANGERS: [&str; 9] = [
    "hooks",
    "info/attributes",
    "info/grafts",
    "objects/info/alternates",
    "objects/info/http-alternates",
    "objects/info/commit-graph",
    "objects/info/commit-graphs",
    "objects/pack/multi-pack-index",
    "objects/pack/multi-pack-index.d",
];

const DIRECTORIES: [&str; 6] = ["info", "logs", "logs/refs", "logs/refs/heads", "logs/refs/remotes", ASIDE];

/// What a repository without a usable HEAD gets; nothing of ours depends on which branch it names.
const HEAD: &str = "ref: refs/heads/main\n";

/// Takes what does not belong into a repository of ours out, and gives it a HEAD that git can read. Answers with what was
/// wrong.
pub(super) fn put_right(repository: &Path) -> Result<Vec<&'static str>, GitError> {
    let mut found = Vec::new();
    // Out of sight, or none yet.
    if !is_there(repository) {
        return Ok(found);
    }
    for name in STRANGERS {
        let path = repository.join(name);
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let taken = if meta.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        taken.map_err(|error| GitError::file("removing", &path, &error))?;
        found.push(name);
    }
    for name in DIRECTORIES {
        let path = repository.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_dir()) {
            make_room(repository, name)?;
            found.push(name);
        }
    }
    // Git makes all others itself.
    let packs = repository.join("objects/pack");
    if !packs.exists() {
        fs::create_dir(&packs).map_err(|error| GitError::file("making", &packs, &error))?;
        found.push("objects/pack");
    }
    if fs::symlink_metadata(repository.join(broken_refs::PACKED)).is_ok_and(|meta| !meta.is_file()) {
        broken_refs::mend(repository);
    }
    let head = repository.join("HEAD");
    if !small_file(&head).is_ok_and(|bytes| is_head(&bytes)) {
        if fs::symlink_metadata(&head).is_ok_and(|meta| !meta.is_file()) {
            make_room(repository, "HEAD")?;
        }
        write_whole(&head, HEAD.as_bytes())?;
        found.push("HEAD");
    }
    Ok(found)
}

/// It is renamed into its place when it is whole, so that what it holds is there, whatever became of its small files.
pub(super) fn is_there(repository: &Path) -> bool {
    repository.join("objects").is_dir()
}

fn is_head(bytes: &[u8]) -> bool {
    let name = str::from_utf8(bytes).ok().and_then(|text| text.trim_end().strip_prefix("ref: refs/heads/"));
    name.is_some_and(|name| BranchName::new(name).is_ok())
}

/// For what should stand there. Links and pipes hold nothing themselves; everything else is kept.
pub(super) fn make_room(repository: &Path, name: &'static str) -> Result<(), GitError> {
    let path = repository.join(name);
    let meta = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        meta => meta.map_err(|error| GitError::file("looking at", &path, &error))?,
    };
    if !(meta.is_dir() || meta.is_file()) || name == ASIDE {
        return fs::remove_file(&path).map_err(|error| GitError::file("removing", &path, &error));
    }
    let aside = repository.join(ASIDE).join(uuid::Uuid::now_v7().to_string()).join(name);
    let moved = aside.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::rename(&path, &aside));
    moved.map_err(|error| GitError::file("setting aside", &path, &error))
}
