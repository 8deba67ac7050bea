//! Git's own way to have a file to oneself, for the few of its files that are changed here without git.

use super::error::GitError;
use super::leftovers;
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The lock on a file; let go of when it is dropped.
pub(super) struct Lock {
    file: fs::File,
    /// Absent: it has become the file.
    path: Option<PathBuf>,
    of: PathBuf,
}

impl Lock {
    /// `None`: somebody has it. What a killed git left of one counts for nothing.
    pub fn take(repository: &Path, of: &Path) -> Result<Option<Self>, GitError> {
        let mut name = of.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        if let Some(lock) = Self::make(&path, of)? {
            return Ok(Some(lock));
        }
        if leftovers::clear_lock(repository, &path)? {
            return Self::make(&path, of);
        }
        tracing::warn!(path = %path.display(), "not taken: somebody has it, or had it a moment ago; what it is about stays as it is");
        Ok(None)
    }

    fn make(path: &Path, of: &Path) -> Result<Option<Self>, GitError> {
        let parent = path.parent().unwrap_or(of);
        match fs::create_dir_all(parent).and_then(|()| fs::File::create_new(path)) {
            Ok(file) => Ok(Some(Self { file, path: Some(path.to_owned()), of: of.to_owned() })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(GitError::file("making", path, &error)),
        }
    }

    /// What the file is to say.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        let written = self.file.write_all(bytes).and_then(|()| self.file.sync_all());
        written.map_err(|error| GitError::file("writing", &self.of, &error))
    }

    /// Makes it the file.
    pub fn commit(mut self) -> Result<(), GitError> {
        let Some(path) = &self.path else { return Ok(()) };
        fs::rename(path, &self.of).map_err(|error| GitError::file("writing", &self.of, &error))?;
        // Another one of that name is somebody else's.
        self.path = None;
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// No ref, and nothing else of git's, is called so.
pub(super) fn is_lock(path: &Path) -> bool {
    path.extension() == Some("lock".as_ref())
}
