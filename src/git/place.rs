//! Writing below a directory whose content comes from elsewhere: every step goes from an open directory to a real one in it,
//! never through a link.

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::{
    ffi::OsStr,
    fs,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::Path,
};

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Why a file was not copied.
#[derive(Debug)]
pub(super) enum Failed {
    /// Something is there already, or where one of its directories should be.
    InTheWay,
    /// It is neither a file nor a link (any more).
    NotPlain,
    Io(io::Error),
}

impl From<Errno> for Failed {
    fn from(error: Errno) -> Self {
        Failed::Io(error.into())
    }
}

pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Copies one file, with its mode, or one link. Nothing that is there is written over.
pub(super) fn copy(from: &OwnedFd, to: &OwnedFd, path: &Path) -> Result<(), Failed> {
    let Some(name) = path.file_name() else { return Err(Failed::NotPlain) };
    let source = descend(from, path, false)?;
    let stat = rustix::fs::statat(&source, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let target = match descend(to, path, true) {
        Err(Errno::NOTDIR | Errno::LOOP | Errno::EXIST) => return Err(Failed::InTheWay),
        target => target?,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let link = rustix::fs::readlinkat(&source, name, Vec::new())?;
            match rustix::fs::symlinkat(&link, &target, name) {
                Err(Errno::EXIST) => Err(Failed::InTheWay),
                made => Ok(made?),
            }
        }
        FileType::RegularFile => copy_file(&source, &target, name),
        _ => Err(Failed::NotPlain),
    }
}

fn copy_file(source: &OwnedFd, target: &OwnedFd, name: &OsStr) -> Result<(), Failed> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let from = fs::File::from(rustix::fs::openat(source, name, flags, Mode::empty())?);
    let meta = from.metadata().map_err(Failed::Io)?;
    if !meta.is_file() {
        return Err(Failed::NotPlain);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut to = match rustix::fs::openat(target, name, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::EXIST) => return Err(Failed::InTheWay),
        opened => fs::File::from(opened?),
    };
    // No more than was measured, should it be growing.
    let copied = io::copy(&mut from.take(meta.len()), &mut to)
        .and_then(|_| to.set_permissions(fs::Permissions::from_mode(meta.permissions().mode() & 0o777)));
    copied.map_err(|error| {
        let _ = rustix::fs::unlinkat(target, name, AtFlags::empty());
        Failed::Io(error)
    })
}

/// Writes one file with this mode, in the place of a file or link that is there.
pub(super) fn write(root: &OwnedFd, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let (directory, name) = cleared(root, path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = fs::File::from(rustix::fs::openat(&directory, name, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Makes one link, in the place of a file or link that is there.
pub(super) fn link(root: &OwnedFd, path: &Path, target: &OsStr) -> io::Result<()> {
    let (directory, name) = cleared(root, path)?;
    Ok(rustix::fs::symlinkat(target, &directory, name)?)
}

fn cleared<'a>(root: &OwnedFd, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let directory = descend(root, path, true)?;
    match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok((directory, name)),
        // Directories that became empty were taken away.
        Err(error) => Err(error.into()),
    }
}

/// Removes the directories that `path` was in, from the innermost on, as far as they are empty.
pub(super) fn prune(root: &OwnedFd, path: &Path) {
    for directory in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
        let gone = directory.file_name().and_then(|name| {
            let above = descend(root, directory, false).ok()?;
            rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR).ok()
        });
        if gone.is_none() {
            break;
        }
    }
}

/// Removes one file or link; what is not there is fine, and so is what lies behind a link.
pub(super) fn remove(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Ok(()) };
    let gone = match descend(root, path, false) {
        Ok(directory) => rustix::fs::unlinkat(&directory, name, AtFlags::empty()),
        Err(error) => Err(error),
    };
    match gone {
        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The directory that `path` is in; `make`: its directories are made where they are missing.
fn descend(root: &OwnedFd, path: &Path, make: bool) -> Result<OwnedFd, Errno> {
    let mut here = rustix::fs::openat(root, c".", DIRECTORY, Mode::empty())?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        if make {
            match rustix::fs::mkdirat(&here, part.as_os_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        here = rustix::fs::openat(&here, part.as_os_str(), DIRECTORY, Mode::empty())?;
    }
    Ok(here)
}
