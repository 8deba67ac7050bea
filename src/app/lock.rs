//! One service a home, and none in another's directory of worktrees: locks that the kernel gives back when the process ends,
//! however it ends, and the name under which this home claims work.

use crate::config;
use rustix::{
    fs::{Access, FlockOperation, OFlags, access, flock},
    io::Errno,
};
use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use uuid::Uuid;

/// How often, and after how long, a lock that is taken is tried again.
const LOOKS: u32 = 5;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("Another Treewarden runs on {}, so nothing was changed. Stop it first.", .0.display())]
    Taken(PathBuf),
    #[error(
        "Another Treewarden, with a home of its own, works in {}, or in a directory inside it. Give this one a home and a \
         WORKTREE_BASE that lie apart from that; nothing was changed.", .0.display()
    )]
    Shared(PathBuf),
    #[error("{} cannot be used: {error}", path.display())]
    Unusable { path: PathBuf, error: io::Error },
}

/// How a home and a directory of worktrees stand to those who could run in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A start would get both.
    Free,
    /// A service, or a command that needs a stopped one, runs on this home.
    Running,
}

/// In the home: who works here, and the file that is locked.
const NODE: &str = "node";

/// Held until dropped.
pub struct HomeLock {
    node: String,
    held: Vec<File>,
}

impl HomeLock {
    pub fn take(home: &Path, worktree_base: &Path) -> Result<Self, LockError> {
        let path = home.join(NODE);
        let unusable = |error| LockError::Unusable { path: path.clone(), error };
        file_or_nothing(&path).map_err(unusable)?;
        let mut options = File::options();
        options.create(true).read(true).write(true).truncate(false).custom_flags(NO_WAITING);
        let mut file = options.open(&path).map_err(unusable)?;
        lock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => LockError::Taken(home.to_owned()),
            error => unusable(error.into()),
        })?;
        let mut node = String::new();
        file.read_to_string(&mut node).map_err(unusable)?;
        if node.trim().is_empty() {
            node = Uuid::now_v7().to_string();
            file.rewind().and_then(|()| file.write_all(node.as_bytes())).map_err(unusable)?;
        }
        // For `held_since`, which only helps a person to understand.
        let _ = file.set_modified(SystemTime::now());
        // Dropped when something is in the way, and with it what was taken until then.
        let mut lock = Self { node: node.trim().to_owned(), held: vec![file] };
        lock.take_directories(home, worktree_base)?;
        Ok(lock)
    }

    /// What [`HomeLock::take`] would come upon. Makes nothing; what it asks for is given back at once.
    pub fn look(home: &Path, worktree_base: &Path) -> Result<Standing, LockError> {
        let path = home.join(NODE);
        file_or_nothing(&path).map_err(|error| LockError::Unusable { path: path.clone(), error })?;
        match access(&path, Access::READ_OK | Access::WRITE_OK) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(LockError::Unusable { path, error: error.into() }),
        }
        if Self::is_held(home) {
            return Ok(Standing::Running);
        }
        let mut lock = Self { node: String::new(), held: Vec::new() };
        lock.take_directories(home, worktree_base).map(|()| Standing::Free)
    }

    fn take_directories(&mut self, home: &Path, worktree_base: &Path) -> Result<(), LockError> {
        let own = BTreeSet::from([resolved(home)?, resolved(worktree_base)?]);
        let around = own.iter().flat_map(|own| own.ancestors()).filter(|around| !own.contains(*around));
        let around: BTreeSet<&Path> = around.filter(|around| is_of_this_user(around)).collect();
        for own in own.iter().filter(|own| own.exists()) {
            self.held.extend(take_directory(own, FlockOperation::NonBlockingLockExclusive)?);
        }
        for around in around {
            self.held.extend(take_directory(around, FlockOperation::NonBlockingLockShared)?);
        }
        Ok(())
    }

    /// Whether a service runs on this home. Makes nothing; closing the file gives back what was asked for.
    pub fn is_held(home: &Path) -> bool {
        let held = |file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK);
        let path = home.join(NODE);
        let opened = || File::options().read(true).custom_flags(NO_WAITING).open(&path);
        file_or_nothing(&path).is_ok() && opened().is_ok_and(held)
    }

    /// Since when a service runs on this home, as far as can be seen; absent: none does.
    pub fn held_since(home: &Path) -> Option<SystemTime> {
        let began = || home.join(NODE).metadata().and_then(|file| file.modified()).ok();
        Self::is_held(home).then(began).flatten()
    }

    /// [`HomeLock::node`] of a home that was taken before. Makes nothing.
    pub fn node_of(home: &Path) -> Option<String> {
        let path = home.join(NODE);
        file_or_nothing(&path).ok()?;
        let mut node = String::new();
        File::options().read(true).custom_flags(NO_WAITING).open(path).ok()?.read_to_string(&mut node).ok()?;
        Some(node.trim().to_owned()).filter(|node| !node.is_empty())
    }

    /// Stays the same over restarts on this home.
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl Drop for HomeLock {
    /// Closing alone would leave it with a child that was forked at this moment and has not become its program yet.
    fn drop(&mut self) {
        for file in &self.held {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// Opening a pipe would wait for whoever writes.
const NO_WAITING: i32 = OFlags::NONBLOCK.bits() as i32;
const DIRECTORY: i32 = OFlags::DIRECTORY.bits() as i32;

fn file_or_nothing(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(there) if !there.is_file() => Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// With links resolved, also where not all of it is there yet.
pub fn resolved(path: &Path) -> Result<PathBuf, LockError> {
    config::resolved(path).map_err(|error| LockError::Unusable { path: path.to_owned(), error })
}

/// Somebody who only looks whether a service runs has it for a moment.
fn lock(file: &File, operation: FlockOperation) -> Result<(), Errno> {
    let mut looks = LOOKS;
    loop {
        match flock(file, operation) {
            Err(Errno::WOULDBLOCK) if looks > 0 => std::thread::sleep(LOOK_AGAIN),
            tried => return tried,
        }
        looks -= 1;
    }
}

/// Directories of other users, and those that everybody may write to, are nobody's home; other programs may lock them.
fn is_of_this_user(directory: &Path) -> bool {
    let meta = directory.metadata();
    meta.is_ok_and(|meta| meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o002 == 0)
}

/// One's own directories are taken alone, those around them together with whoever else has something inside: so two services
/// meet wherever one's directory is the other's, or lies in it, and whichever starts first. By the directory itself, not
/// by what it is called. `None`: the file system locks no directories, or it cannot be read.
fn take_directory(directory: &Path, operation: FlockOperation) -> Result<Option<File>, LockError> {
    let unusable = |error| LockError::Unusable { path: directory.to_owned(), error };
    let file = match File::options().read(true).custom_flags(DIRECTORY).open(directory) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(unusable(error)),
    };
    match lock(&file, operation) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Err(LockError::Shared(directory.to_owned())),
        Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL | Errno::BADF | Errno::ISDIR) => Ok(None),
        Err(error) => Err(unusable(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn two_services_meet_wherever_one_has_a_directory_in_the_others() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        for made in ["one/worktrees/octo", "two/worktrees", "trees/inner", "apart"] {
            fs::create_dir_all(at(made)).unwrap();
        }
        symlink(at("trees"), at("link")).unwrap();
        let take = |home: &str, base: &str| HomeLock::take(&at(home), &at(base));
        let look = |home: &str, base: &str| HomeLock::look(&at(home), &at(base));
        let meeting = [
            (("one", "trees"), ("two", "trees")),
            (("one", "trees"), ("two", "link")),
            (("one", "trees"), ("two", "link/inner")),
            (("one", "one/worktrees"), ("two", "one/worktrees")),
            (("one", "one/worktrees"), ("two", "one/worktrees/octo")),
            (("one", "apart"), ("two", "one/worktrees")),
            (("one", "trees"), ("trees/inner", "apart")),
        ];
        for (first, second) in meeting {
            for ((home, base), (other, others)) in [(first, second), (second, first)] {
                let held = take(home, base).unwrap();
                assert!(matches!(take(other, others), Err(LockError::Shared(_))), "{home} {base}: {other} {others}");
                assert!(matches!(look(other, others), Err(LockError::Shared(_))), "{home} {base}: {other} {others}");
                drop(held);
                assert_eq!(look(other, others).unwrap(), Standing::Free);
                drop(take(other, others).unwrap());
            }
        }
        // Side by side, and one's own inside one's own.
        let held = [take("one", "one/worktrees"), take("two", "two/worktrees"), take("trees/inner", "trees")];
        assert!(held.iter().all(Result::is_ok));
        assert!(matches!(take("one", "apart"), Err(LockError::Taken(_))));
        assert_eq!(look("one", "apart").unwrap(), Standing::Running);
        // What is not there is not made, and still lies where it would.
        assert!(matches!(look("new", "two/worktrees/new"), Err(LockError::Shared(_))));
        assert!(look("new", "newer").is_ok() && !at("new").exists() && !at("newer").exists());
    }
}
