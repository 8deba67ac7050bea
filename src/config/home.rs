//! Treewarden's home: where it is, and making it so that nobody else on the machine can read it.

use super::source::{Found, Origin, Sources};
use super::table::{CONTAINER, HOME};
use super::{Problem, parse, read};
use rustix::fs::{Access, access};
use std::{
    borrow::Cow,
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Where everything lies in a container, whatever the environment says: volumes are mounted there.
const CONTAINER_HOME: &str = "/.treewarden";

/// By one of these a directory is known as a home, and not as something of another purpose.
const OWN_ENTRIES: [&str; 4] = ["treewarden.toml", "treewarden.db", "repos", "runs"];

/// Lies in a directory that has, or has had, worktrees.
pub(super) const MARK: &str = ".treewarden";

/// What the service makes in the home, and changes.
pub(super) const FOLDERS: [&str; 5] = ["repos", "trash", "runs", "git", "agents"];
/// What is kept there for new worktrees; it is only read.
pub(super) const COPY: &str = "copy";

/// What is replaced by a file of that name, whatever else it is.
const FILES: [&str; 3] = ["local.json", "local.json.new", "worktrees.new"];

/// As a shell takes it for one argument. Only NUL cannot be quoted, and it occurs in no path.
fn quoted(path: &Path) -> String {
    shlex::try_quote(&path.to_string_lossy()).map(Cow::into_owned).unwrap_or_default()
}

/// Why the home cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("{} cannot be made: {error}", path.display())]
    NotMade { path: PathBuf, error: io::Error },
    #[error(
        "{} can be read by others on this machine (mode {mode:o}), and secrets will lie in it. Run: chmod 700 {}",
        path.display(), quoted(path)
    )]
    Open { path: PathBuf, mode: u32 },
    #[error(
        "{} is open to others (mode {mode:o}) and {why}, so it was left as it is. Choose a directory of Treewarden's own with \
         --home or TREEWARDEN_HOME",
        path.display()
    )]
    NotOurs { path: PathBuf, mode: u32, why: &'static str },
    #[error(
        "{} belongs to another user of this machine (number {owner}), so it was left as it is. Start Treewarden as that user, or \
         choose a directory of its own with --home or TREEWARDEN_HOME",
        path.display()
    )]
    OfAnother { path: PathBuf, owner: u32 },
    /// Another home's, most of the time.
    #[error(
        "{} is a directory of worktrees, so it was left as it is. Choose a directory of Treewarden's own with --home or \
         TREEWARDEN_HOME", path.display()
    )]
    OfWorktrees { path: PathBuf },
    #[error("{} cannot be written by this user: {error}", path.display())]
    NotWritable { path: PathBuf, error: io::Error },
    #[error("{} cannot be read by this user: {error}", path.display())]
    NotReadable { path: PathBuf, error: io::Error },
    #[error("{} is not a directory", path.display())]
    NotADirectory { path: PathBuf },
    #[error("{} is a directory, where a file of Treewarden belongs", path.display())]
    NotAFile { path: PathBuf },
    /// The directory of worktrees, where the settings give it a place of its own.
    #[error("The directory of worktrees that WORKTREE_BASE names cannot be used: {0}")]
    WorktreeBase(Box<HomeError>),
    #[error(
        "{} cannot be the directory of the worktrees: {why}. Nothing was changed. WORKTREE_BASE has to name a directory of its own",
        path.display()
    )]
    NotItsOwn { path: PathBuf, why: &'static str },
    #[error(
        "{} cannot be the directory of the worktrees while others on this machine can change what is in it (mode {mode:o}). \
         Nothing was changed. Run: chmod go-w {}",
        path.display(), quoted(path)
    )]
    BaseOpen { path: PathBuf, mode: u32 },
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

/// Makes what is missing, once everything was looked at. A home that others can read is closed when it is still empty, and
/// refused otherwise: it may be a directory that was never meant to be one.
pub(super) fn prepare(home: &Path, worktree_base: &Path) -> Result<(), HomeError> {
    look(home, worktree_base)?;
    make(home)?;
    close(home)?;
    for directory in ["repos", "trash", "runs"].map(|name| home.join(name)) {
        make(&directory)?;
    }
    make(worktree_base).map_err(|error| of_base(error, home, worktree_base))
}

/// Below the home it is the home that is wrong.
fn of_base(error: HomeError, home: &Path, worktree_base: &Path) -> HomeError {
    match worktree_base.starts_with(home) {
        true => error,
        false => HomeError::WorktreeBase(Box::new(error)),
    }
}

fn make(path: &Path) -> Result<(), HomeError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| HomeError::NotMade { path: path.to_owned(), error })
}

/// What [`prepare`] would find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeState {
    Ready,
    /// It is not there yet and can be made, or is empty and can be closed to others.
    ToBeMade,
}

/// Looks whether [`prepare`] would succeed; changes nothing.
pub(super) fn look(home: &Path, worktree_base: &Path) -> Result<HomeState, HomeError> {
    look_at_owner(home)?;
    if let Some(path) = home.ancestors().find(|place| place.join(MARK).is_file() && !is_home(home)) {
        return Err(HomeError::OfWorktrees { path: path.to_owned() });
    }
    look_at_place(worktree_base).map_err(|error| of_base(error, home, worktree_base))?;
    if !look_at_place(home)? {
        return Ok(HomeState::ToBeMade);
    }
    if let Openness::Empty = openness(home)? {
        return Ok(HomeState::ToBeMade);
    }
    for folder in FOLDERS {
        look_at_place(&home.join(folder))?;
    }
    if let Some(path) = FILES.map(|name| home.join(name)).into_iter().find(|path| is_plain_directory(path)) {
        return Err(HomeError::NotAFile { path });
    }
    let copy = home.join(COPY);
    if !is_there(&copy)? {
        return Ok(HomeState::Ready);
    }
    match access(&copy, Access::READ_OK | Access::EXEC_OK) {
        Ok(()) => Ok(HomeState::Ready),
        Err(error) => Err(HomeError::NotReadable { path: copy, error: error.into() }),
    }
}

/// A link to one is replaced like a file.
fn is_plain_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|there| there.is_dir())
}

/// Whether a directory is there. What is something else, be it a link to nothing, is in its way.
fn is_there(path: &Path) -> Result<bool, HomeError> {
    match path.metadata() {
        Ok(there) if there.is_dir() => Ok(true),
        Err(_) if path.symlink_metadata().is_err() => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(HomeError::NotReadable { path: path.to_owned(), error })
        }
        Ok(_) | Err(_) => Err(HomeError::NotADirectory { path: path.to_owned() }),
    }
}

/// Whether a directory is there, for this user to work in; where it is not, whether the nearest one above lets this user
/// make it.
fn look_at_place(path: &Path) -> Result<bool, HomeError> {
    let there = path.ancestors().find(|place| place.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    is_there(there)?;
    let needed = if there == path { Access::READ_OK } else { Access::empty() } | Access::WRITE_OK | Access::EXEC_OK;
    access(there, needed).map_err(|error| HomeError::NotWritable { path: there.to_owned(), error: error.into() })?;
    Ok(there == path)
}

/// With links resolved, also where not all of it is there yet.
pub fn resolved(path: &Path) -> io::Result<PathBuf> {
    let there = path.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"));
    let real = there.canonicalize()?;
    let rest = path.strip_prefix(there).unwrap_or(path);
    Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

/// Everybody makes things there, and removes only their own.
pub(super) const SHARED: u32 = 0o1002;

/// A home is used by the user it belongs to. One that everybody shares is refused for that.
pub(super) fn look_at_owner(home: &Path) -> Result<(), HomeError> {
    match home.metadata() {
        Ok(there) if there.is_dir() && !is_own(&there) && there.mode() & SHARED != SHARED => {
            Err(HomeError::OfAnother { path: home.to_owned(), owner: there.uid() })
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

pub(super) fn is_own(there: &fs::Metadata) -> bool {
    there.uid() == rustix::process::geteuid().as_raw()
}

enum Openness {
    Closed,
    /// Others may look into it, but there is nothing to see, and it is ours to close.
    Empty,
}

fn openness(home: &Path) -> Result<Openness, HomeError> {
    let failed = |error| HomeError::NotMade { path: home.to_owned(), error };
    let metadata = fs::metadata(home).map_err(failed)?;
    if !metadata.is_dir() {
        return Err(HomeError::NotADirectory { path: home.to_owned() });
    }
    let mode = metadata.permissions().mode() & 0o7777;
    let not_ours = |why| HomeError::NotOurs { path: home.to_owned(), mode, why };
    if mode & 0o077 == 0 {
        return Ok(Openness::Closed);
    }
    if mode & 0o1000 != 0 {
        return Err(not_ours("shared by everybody on this machine"));
    }
    if fs::read_dir(home).map_err(failed)?.next().is_none() {
        return Ok(Openness::Empty);
    }
    match is_home(home) {
        true => Err(HomeError::Open { path: home.to_owned(), mode }),
        false => Err(not_ours("holds other things")),
    }
}

/// Whether somebody's Treewarden has been at work in a directory.
fn is_home(directory: &Path) -> bool {
    OWN_ENTRIES.iter().any(|name| directory.join(name).exists())
}

fn close(home: &Path) -> Result<(), HomeError> {
    match openness(home)? {
        Openness::Closed => Ok(()),
        Openness::Empty => fs::set_permissions(home, fs::Permissions::from_mode(0o700))
            .map_err(|error| HomeError::NotMade { path: home.to_owned(), error }),
    }
}
