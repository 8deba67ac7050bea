//! A directory of its own for a command that must not leave anything behind.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// Goes when it is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Among the system's temporary files; an error comes with the place.
    pub fn make(purpose: &str) -> Result<Self, (PathBuf, io::Error)> {
        let path = std::env::temp_dir().join(format!("treewarden-{purpose}-{}", Uuid::new_v4().simple()));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err((path, error)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
