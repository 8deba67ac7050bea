//! Renames between a worktree and the trash. Whoever works in a worktree can put a link in the place of any directory
//! there, at any moment: so the way is walked from one open directory to the next, and a link on it ends it.

use rustix::fs::{CWD, Mode, OFlags};
use rustix::{io::Errno, path::Arg};
use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::{Component, Path},
};

/// Moves a directory out of a worktree.
pub(super) fn take_out(worktree: &Path, directory: &Path, place: &Path) -> io::Result<()> {
    let (parent, name) = way(worktree, directory)?;
    enter(&parent, name)?;
    moved(&parent, name, CWD, place)
}

/// Moves one into a worktree. Fails when something is there, other than an empty directory.
pub(super) fn put_in(worktree: &Path, directory: &Path, place: &Path) -> io::Result<()> {
    let (parent, name) = way(worktree, directory)?;
    moved(CWD, place, &parent, name)
}

/// Moves a whole worktree.
pub(super) fn relocate(from: &Path, to: &Path) -> io::Result<()> {
    moved(CWD, from, CWD, to)
}

/// A rename of a directory needs the right to write to it. Where its owner has taken that away, it is given for the moment.
fn moved(parent: impl AsFd, name: impl Arg + Copy, new_parent: impl AsFd, new: impl Arg + Copy) -> io::Result<()> {
    let rename = || rustix::fs::renameat(&parent, name, &new_parent, new);
    match rename() {
        Err(Errno::ACCESS) => {}
        done => return Ok(done?),
    }
    let directory = rustix::fs::openat(&parent, name, REAL, Mode::empty())?;
    let mode = rustix::fs::fstat(&directory)?.st_mode & 0o7777;
    if mode & WRITABLE != 0 {
        return Err(Errno::ACCESS.into());
    }
    set_mode(&directory, mode | WRITABLE)?;
    let done = rename();
    set_mode(&directory, mode)?;
    Ok(done?)
}

/// By the handle, which may be of a directory that cannot be opened: a name may stand for something else by now.
pub(super) fn set_mode(directory: &OwnedFd, mode: u32) -> io::Result<()> {
    fs::set_permissions(format!("/proc/self/fd/{}", directory.as_raw_fd()), fs::Permissions::from_mode(mode))
}

const WRITABLE: u32 = 0o200;

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
pub(super) mod tests {
    use super::*;
    use rustix::process::{Uid, geteuid};
    use std::os::unix::fs::symlink;

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

    /// As somebody whom modes bind: a thread has a user of its own.
    pub fn as_another_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        let work = || {
            if geteuid().is_root() {
                let user = Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            work()
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn a_directory_that_its_owner_may_not_write_to_moves_and_keeps_its_mode() {
        let temp = tempfile::tempdir().unwrap();
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o777)).unwrap();
        as_another_user(|| {
            let [base, trash, free] = ["base", "trash", "base/free"].map(|name| temp.path().join(name));
            for directory in [&base, &trash, &free] {
                fs::create_dir(directory).unwrap();
            }
            let closed = base.join("closed");
            fs::create_dir(&closed).unwrap();
            fs::write(closed.join("f"), "work").unwrap();
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
            let place = trash.join("closed");
            assert_eq!(fs::rename(&closed, &place).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            relocate(&closed, &place).unwrap();
            assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o500);
            // Where it is not the directory itself that forbids it, nothing is changed.
            fs::set_permissions(&base, fs::Permissions::from_mode(0o500)).unwrap();
            let back = relocate(&place, &closed).unwrap_err();
            assert_eq!(back.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o500);
            assert!(relocate(&free, &trash.join("free")).is_err());
            fs::set_permissions(&base, fs::Permissions::from_mode(0o700)).unwrap();
            relocate(&place, &closed).unwrap();
            assert_eq!(fs::read(closed.join("f")).unwrap(), b"work");
        });
    }
}
