//! Treewarden's home: where it is, and making it so that nobody else on the machine can read it.

use super::source::{Found, Origin, Sources};
use super::table::{CONTAINER, HOME};
use super::{Problem, parse, read};
use std::{fs, io, os::unix::fs::DirBuilderExt, os::unix::fs::PermissionsExt, path::Path, path::PathBuf};

/// Where everything lies in a container, whatever the environment says: volumes are mounted there.
const CONTAINER_HOME: &str = "/.treewarden";

/// Why the home cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("{} cannot be made: {error}", path.display())]
    NotMade { path: PathBuf, error: io::Error },
    #[error(
        "{} can be read by others on this machine (mode {mode:o}), and secrets will lie in it. Run: chmod 700 {}",
        path.display(), path.display()
    )]
    Open { path: PathBuf, mode: u32 },
    #[error("{} is not a directory", path.display())]
    NotADirectory { path: PathBuf },
}

/// The flag, else the fixed place in a container, else the environment, else below the user's own home.
pub(super) fn locate(sources: &Sources<'_>, user_home: Option<&str>, problems: &mut Vec<Problem>) -> Option<PathBuf> {
    let container = sources.find(&CONTAINER);
    let fixed = match container.as_ref().map(|found| parse::switch(found.text.trim())) {
        Some(Err(expected)) => {
            problems.push(read::wrong(&CONTAINER, container, expected));
            false
        }
        Some(Ok(on)) => on,
        None => false,
    };
    match sources.find(&HOME) {
        Some(found) if found.origin == Origin::Flag || !fixed => given(found, user_home, problems),
        _ if fixed => Some(PathBuf::from(CONTAINER_HOME)),
        _ => match parse::path(HOME.default, user_home) {
            Ok(path) => Some(path),
            Err(_) => {
                problems.push(read::wrong(&HOME, None, "must be set, since HOME is not".to_owned()));
                None
            }
        },
    }
}

fn given(found: Found, user_home: Option<&str>, problems: &mut Vec<Problem>) -> Option<PathBuf> {
    let path = parse::path(found.text.trim(), user_home);
    let path = path.and_then(|path| match path.parent() {
        Some(_) => Ok(path),
        None => Err("expected a directory of its own".to_owned()),
    });
    path.map_err(|expected| problems.push(read::wrong(&HOME, Some(found), expected))).ok()
}

/// Makes what is missing. A home that others can read is closed when it is still empty, and refused otherwise: it may be
/// a directory that was never meant to be one.
pub(super) fn prepare(home: &Path, worktree_base: &Path) -> Result<(), HomeError> {
    make(home)?;
    close(home)?;
    for directory in ["repos", "trash", "runs"].map(|name| home.join(name)) {
        make(&directory)?;
    }
    make(worktree_base)
}

fn make(path: &Path) -> Result<(), HomeError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| HomeError::NotMade { path: path.to_owned(), error })
}

fn close(home: &Path) -> Result<(), HomeError> {
    let failed = |error| HomeError::NotMade { path: home.to_owned(), error };
    let metadata = fs::metadata(home).map_err(failed)?;
    if !metadata.is_dir() {
        return Err(HomeError::NotADirectory { path: home.to_owned() });
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    if fs::read_dir(home).map_err(failed)?.next().is_some() {
        return Err(HomeError::Open { path: home.to_owned(), mode });
    }
    fs::set_permissions(home, fs::Permissions::from_mode(0o700)).map_err(failed)
}
