//! One service a home: a lock that the kernel gives back when the process ends, however it ends, and the name under which
//! this home claims work.

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};
use uuid::Uuid;

/// How often, and after how long, a lock that is taken is tried again.
const LOOKS: u32 = 5;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "Another Treewarden runs on {}. Stop it first, or use its panel; nothing was changed.", .0.display()
    )]
    Taken(PathBuf),
    #[error(
        "Another Treewarden, with a home of its own, works in {}. Give this one another WORKTREE_BASE; nothing was changed.",
        .0.display()
    )]
    BaseTaken(PathBuf),
    #[error("{} cannot be used: {error}", path.display())]
    Unusable { path: PathBuf, error: io::Error },
}

/// Held until dropped.
pub struct HomeLock {
    file: File,
    node: String,
    /// The directory of worktrees, where that lies outside of the home.
    base: Option<File>,
}

impl HomeLock {
    pub fn take(home: &Path, worktree_base: &Path) -> Result<Self, LockError> {
        let path = home.join("node");
        let unusable = |error| LockError::Unusable { path: path.clone(), error };
        let mut options = File::options();
        let mut file = options.create(true).read(true).write(true).truncate(false).open(&path).map_err(unusable)?;
        // Somebody who only looks whether a service runs has it for a moment.
        let mut looks = LOOKS;
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            match error {
                Errno::WOULDBLOCK if looks > 0 => std::thread::sleep(LOOK_AGAIN),
                Errno::WOULDBLOCK => return Err(LockError::Taken(home.to_owned())),
                error => return Err(unusable(error.into())),
            }
            looks -= 1;
        }
        let mut node = String::new();
        file.read_to_string(&mut node).map_err(unusable)?;
        if node.trim().is_empty() {
            node = Uuid::now_v7().to_string();
            file.rewind().and_then(|()| file.write_all(node.as_bytes())).map_err(unusable)?;
        }
        let base = if worktree_base.starts_with(home) { None } else { take_base(worktree_base)? };
        Ok(Self { node: node.trim().to_owned(), file, base })
    }

    /// Whether a service runs on this home. Makes nothing; closing the file gives back what was asked for.
    pub fn is_held(home: &Path) -> bool {
        let held = |file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK);
        File::open(home.join("node")).is_ok_and(held)
    }

    /// Stays the same over restarts on this home.
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl Drop for HomeLock {
    /// Closing alone would leave it with a child that was forked at this moment and has not become its program yet.
    fn drop(&mut self) {
        for file in self.base.iter().chain([&self.file]) {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// `None`: the file system locks no directories.
fn take_base(base: &Path) -> Result<Option<File>, LockError> {
    let directory = File::open(base).map_err(|error| LockError::Unusable { path: base.to_owned(), error })?;
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(directory)),
        Err(Errno::WOULDBLOCK) => Err(LockError::BaseTaken(base.to_owned())),
        Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL | Errno::BADF | Errno::ISDIR) => Ok(None),
        Err(error) => Err(LockError::Unusable { path: base.to_owned(), error: error.into() }),
    }
}
