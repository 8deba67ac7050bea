//! The directory of worktrees, where the settings give it a place: one of its own, so that nothing else is met in it and
//! nobody else changes it.

use super::Config;
use super::home::{COPY, FOLDERS, HomeError, MARK, SHARED, is_own, resolved};
use std::{
    ffi::OsStr,
    fs::{self, DirEntry},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// How deep a worktree lies: below its owner and its repository.
const DEEPEST: u32 = 3;

/// Refuses a directory of another purpose, and one that others may change; makes and changes nothing. What is not there yet
/// is nobody's.
pub(super) fn look(config: &Config) -> Result<(), HomeError> {
    let real = |path: &Path| resolved(path).map_err(|error| HomeError::NotReadable { path: path.to_owned(), error });
    let (home, base) = (real(&config.home)?, real(&config.worktree_base)?);
    // Nobody else comes into the home.
    if !base.starts_with(&home) {
        closed(&base)?;
    }
    // One that has had worktrees goes on as it was begun.
    match other_purpose(&base, &home, config.user_home.as_deref()) {
        Some(why) if !base.join(MARK).is_file() => Err(HomeError::NotItsOwn { path: base, why }),
        Some(_) | None => Ok(()),
    }
}

fn closed(base: &Path) -> Result<(), HomeError> {
    let Ok(there) = base.metadata() else { return Ok(()) };
    let (path, mode) = (base.to_owned(), there.mode() & 0o7777);
    if mode & 0o022 == 0 {
        return Ok(());
    }
    match is_own(&there) && mode & SHARED != SHARED {
        true => Err(HomeError::BaseOpen { path, mode }),
        false => Err(HomeError::NotItsOwn { path, why: "it is shared with others on this machine" }),
    }
}

fn other_purpose(base: &Path, home: &Path, user_home: Option<&Path>) -> Option<&'static str> {
    let is_folder = FOLDERS.iter().chain([&COPY]).any(|folder| base.starts_with(home.join(folder)));
    let is_user_home = || user_home.and_then(|place| resolved(place).ok()).is_some_and(|place| place == base);
    if base == home {
        Some("it is the home of Treewarden itself")
    } else if home.starts_with(base) {
        Some("the home of Treewarden lies in it")
    } else if is_folder {
        Some("that part of the home is kept for something else")
    } else if base.starts_with(home) {
        None
    } else if is_user_home() {
        Some("it is the user's own")
    } else if base.join(".git").exists() {
        Some("it is a working copy of a repository")
    } else {
        holds_other_things(base).then_some("it holds other things, and no worktree")
    }
}

/// Another program's worktrees are none, nor is what a new file system has.
fn holds_other_things(base: &Path) -> bool {
    let is_thing = |name: &OsStr| !name.as_encoded_bytes().starts_with(b".") && name != "lost+found";
    entries(base).any(|entry| is_thing(&entry.file_name())) && !has_worktree(base, DEEPEST)
}

fn has_worktree(directory: &Path, depth: u32) -> bool {
    directory.join(".git").is_file()
        || depth > 0
            && entries(directory)
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .any(|entry| has_worktree(&entry.path(), depth - 1))
}

fn entries(directory: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok)
}
