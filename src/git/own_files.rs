//! What a repository of ours has besides refs, objects and configuration, and what it never has. An agent that reaches it could
//! leave anything there, for everybody: a hook, attributes that change what is committed, patterns that hide work, a pipe
//! at which git waits for ever. It is put right before anything is asked. Others may be there at the same time: what is gone
//! when it is to be taken out is fine.

use super::broken_refs::{self, ASIDE};
use super::error::GitError;
use super::fetch::FETCHED;
use super::loose_objects::LACKS_OBJECTS;
use super::removed::REMOVED;
use super::worktree::odd_logs;
use super::{small_file, write_whole};
use crate::model::BranchName;
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

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

/// Those that git goes into. The first one is where others are moved to; above all, nothing is taken out through a link.
const DIRECTORIES: [&str; 9] =
    [ASIDE, REMOVED, "info", "objects/info", "worktrees", "logs", "logs/refs", "logs/refs/heads", "logs/refs/remotes"];

/// The same of refs: git would read and write through a link there. What they held is brought back as far as anybody knows it.
pub(super) const REFS: [&str; 6] =
    ["refs", "refs/heads", "refs/remotes", "refs/remotes/origin", "refs/tags", "refs/treewarden"];

pub(super) const PACKS: &str = "objects/pack";

/// What a repository without a usable HEAD gets; nothing of ours depends on which branch it names.
const HEAD: &str = "ref: refs/heads/main\n";

/// What we may do with a directory of ours.
const ALL_RIGHTS: u32 = 0o700;

/// Takes what does not belong into a repository of ours out, and gives it a HEAD that git can read. Answers with what was
/// wrong.
pub(super) fn put_right(repository: &Path) -> Result<Vec<&'static str>, GitError> {
    let mut found = Vec::new();
    // Out of sight, or none yet.
    if !is_made(repository) {
        return Ok(found);
    }
    for name in DIRECTORIES.into_iter().chain(REFS) {
        let path = repository.join(name);
        let Some(meta) = look(&path)? else { continue };
        if !meta.is_dir() {
            match REFS.contains(&name) {
                true => broken_refs::mend_way(repository, name).map(drop)?,
                false => make_room(repository, name)?,
            }
            found.push(name);
        } else if meta.permissions().mode() & ALL_RIGHTS != ALL_RIGHTS {
            open_up(&path, &meta)?;
            found.push(name);
        }
    }
    let packs = repository.join(PACKS);
    if !packs.is_dir() {
        make_room(repository, PACKS)?;
        // Git makes all others itself.
        match fs::create_dir(&packs) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(GitError::file("making", &packs, &error));
            }
            Ok(()) | Err(_) => found.push(PACKS),
        }
    }
    if clear_fan_out(repository)? {
        found.push("objects");
    }
    let packs_are_here = look(&packs)?.is_some_and(|meta| meta.is_dir());
    for name in [LACKS_OBJECTS, FETCHED, broken_refs::LOST] {
        if look(&repository.join(name))?.is_some_and(|meta| !meta.is_file()) {
            take_out(repository, name)?;
            found.push(name);
        }
    }
    for name in STRANGERS.into_iter().filter(|name| packs_are_here || !name.starts_with(PACKS)) {
        if look(&repository.join(name))?.is_some() {
            take_out(repository, name)?;
            found.push(name);
        }
    }
    if look(&repository.join(broken_refs::PACKED))?.is_some_and(|meta| !meta.is_file()) {
        broken_refs::mend(repository);
        found.push(broken_refs::PACKED);
    }
    if look(&repository.join(broken_refs::LOST))?.is_some() {
        broken_refs::mend(repository);
        if look(&repository.join(broken_refs::LOST))?.is_none() {
            found.push("refs");
        }
    }
    if !has_head(repository)? {
        make_room(repository, "HEAD")?;
        write_whole(&repository.join("HEAD"), HEAD.as_bytes())?;
        found.push("HEAD");
    }
    Ok(found)
}

/// Where git puts objects with a file each, by the first letters of their names. With anything in the place of such a directory
/// there is no writing those.
fn clear_fan_out(repository: &Path) -> Result<bool, GitError> {
    let objects = repository.join("objects");
    let entries = fs::read_dir(&objects).map_err(|error| GitError::file("reading", &objects, &error))?;
    let mut found = false;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_one = name.len() == 2 && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit);
        // One that leads to objects elsewhere stays: nothing is taken from there, and they may be all that there are.
        if !is_one || entry.file_type().is_ok_and(|kind| kind.is_dir()) || entry.path().is_dir() {
            continue;
        }
        if let Some(meta) = look(&entry.path())? {
            set_aside(repository, &Path::new("objects").join(name), &meta)?;
            found = true;
        }
    }
    Ok(found)
}

/// Before git writes logs: it would write through a link that an agent left there.
pub(super) fn put_logs_right(repository: &Path) -> Result<bool, GitError> {
    let odd = odd_logs(repository)?;
    for path in &odd {
        match look(path)? {
            Some(meta) if meta.is_dir() => {
                set_aside(repository, path.strip_prefix(repository).unwrap_or(path), &meta)?;
            }
            Some(_) => gone(fs::remove_file(path), "removing", path)?,
            None => {}
        }
    }
    Ok(!odd.is_empty())
}

/// It is renamed into its place when it is whole, so that what it holds is there, whatever became of its small files.
pub(super) fn is_made(repository: &Path) -> bool {
    repository.join("objects").is_dir()
}

/// An error where nobody can say.
fn has_head(repository: &Path) -> Result<bool, GitError> {
    let path = repository.join("HEAD");
    if !look(&path)?.is_some_and(|meta| meta.is_file()) {
        return Ok(false);
    }
    match small_file(&path) {
        Ok(bytes) => {
            let name = str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().strip_prefix("ref: refs/heads/"));
            Ok(name.is_some_and(|name| BranchName::new(name).is_ok()))
        }
        // It is far too long, or became something else just now.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(GitError::file("reading", &path, &error)),
    }
}

pub(super) fn look(path: &Path) -> Result<Option<fs::Metadata>, GitError> {
    match fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(GitError::file("looking at", path, &error)),
    }
}

fn open_up(directory: &Path, meta: &fs::Metadata) -> Result<(), GitError> {
    let mode = fs::Permissions::from_mode(meta.permissions().mode() | ALL_RIGHTS);
    fs::set_permissions(directory, mode).map_err(|error| GitError::file("opening", directory, &error))
}

/// Files and links go; a directory, which may take long and may be closed, is moved away.
fn take_out(repository: &Path, name: &'static str) -> Result<(), GitError> {
    let path = repository.join(name);
    match look(&path)? {
        Some(meta) if meta.is_dir() => set_aside(repository, Path::new(name), &meta),
        Some(_) => gone(fs::remove_file(&path), "removing", &path),
        None => Ok(()),
    }
}

/// For what should stand there. Links and pipes hold nothing themselves; everything else is kept, but for what stands where
/// it would be kept.
pub(super) fn make_room(repository: &Path, name: &'static str) -> Result<(), GitError> {
    let path = repository.join(name);
    match look(&path)? {
        Some(meta) if (meta.is_dir() || meta.is_file()) && name != ASIDE => {
            set_aside(repository, Path::new(name), &meta)
        }
        Some(_) => gone(fs::remove_file(&path), "removing", &path),
        None => Ok(()),
    }
}

/// Moves what is at `name` within a repository to where it is kept.
pub(super) fn set_aside(repository: &Path, name: &Path, meta: &fs::Metadata) -> Result<(), GitError> {
    let path = repository.join(name);
    if meta.is_dir() {
        open_up(&path, meta)?;
    }
    let aside: PathBuf = repository.join(ASIDE).join(uuid::Uuid::now_v7().to_string()).join(name);
    let moved = aside.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::rename(&path, &aside));
    gone(moved, "setting aside", &path)
}

pub(super) fn gone(outcome: io::Result<()>, what: &str, path: &Path) -> Result<(), GitError> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(|error| GitError::file(what, path, &error)),
    }
}
