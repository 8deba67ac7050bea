//! Renames between a worktree and the trash. Whoever works in a worktree can put a link in the place of any directory
//! there, at any moment: so the way is walked from one open directory to the next, and a link on it ends it.

use rustix::fs::{CWD, Mode, OFlags};
use std::{
    ffi::OsStr,
    io,
    os::fd::OwnedFd,
    path::{Component, Path},
};

/// Moves a directory out of a worktree.
pub(super) fn take_out(worktree: &Path, directory: &Path, place: &Path) -> io::Result<()> {
    let (parent, name) = way(worktree, directory)?;
    enter(&parent, name)?;
    Ok(rustix::fs::renameat(&parent, name, CWD, place)?)
}

/// Moves one into a worktree. Fails when something is there, other than an empty directory.
pub(super) fn put_in(worktree: &Path, directory: &Path, place: &Path) -> io::Result<()> {
    let (parent, name) = way(worktree, directory)?;
    Ok(rustix::fs::renameat(CWD, place, &parent, name)?)
}

/// What a relative path lies in, held open, and its name there.
fn way<'a>(worktree: &Path, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    let mut parts = Vec::new();
    for part in path.components() {
        let Component::Normal(part) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        parts.push(part);
    }
    let Some((name, parents)) = parts.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut here = rustix::fs::open(worktree, REAL, Mode::empty())?;
    for part in parents {
        here = enter(&here, part)?;
    }
    Ok((here, name))
}

const REAL: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn enter(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(parent, name, REAL, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn no_link_on_the_way_is_followed() {
        let temp = tempfile::tempdir().unwrap();
        let [worktree, elsewhere, place] = ["worktree", "elsewhere", "place"].map(|name| temp.path().join(name));
        fs::create_dir_all(worktree.join("web/target")).unwrap();
        fs::create_dir_all(elsewhere.join("target")).unwrap();
        symlink(&elsewhere, worktree.join("link")).unwrap();
        symlink(elsewhere.join("target"), worktree.join("web/venv")).unwrap();
        for bad in ["link/target", "web/venv", "../elsewhere/target", "web/../web/target", "", "/etc"] {
            assert!(take_out(&worktree, Path::new(bad), &place).is_err(), "{bad}");
            assert!(!place.exists() && elsewhere.join("target").is_dir(), "{bad}");
        }
        let cache = Path::new("web/target");
        take_out(&worktree, cache, &place).unwrap();
        assert!(place.is_dir() && !worktree.join(cache).exists());
        for bad in ["link/other", "web/venv", "../other"] {
            assert!(put_in(&worktree, Path::new(bad), &place).is_err(), "{bad}");
        }
        fs::create_dir_all(worktree.join("web/target/new")).unwrap();
        assert!(put_in(&worktree, cache, &place).is_err(), "there is another");
        fs::remove_dir(worktree.join("web/target/new")).unwrap();
        put_in(&worktree, cache, &place).unwrap();
        assert!(!place.exists() && worktree.join(cache).is_dir());
    }
}
