//! The key that secrets in the database are sealed with: `TREEWARDEN_SECRET_KEY`, else a file of its own in the home, that
//! nobody else reads. It is made when it is needed first, and never a second time where something is sealed already.

use super::door::fresh_token;
use crate::config::Config;
use crate::plain_file::{self, Links};
use crate::store::Sealer;
use anyhow::anyhow;
use rustix::fs::Mode;
use secrecy::{ExposeSecret, SecretString};
use std::{
    fmt, fs,
    io::{self, ErrorKind, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

const FILE: &str = "secret.key";
/// In bytes; longer ones are something else.
const MOST: u64 = 4096;
/// In characters, as for the variable.
const SHORTEST: usize = 32;

/// Where the key is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Variable,
    File(PathBuf),
}

impl Place {
    pub fn of(config: &Config) -> Self {
        match config.secret_key {
            Some(_) => Place::Variable,
            None => Place::File(file(config)),
        }
    }
}

/// Where it lies, unless the settings have it.
pub(super) fn file(config: &Config) -> PathBuf {
    config.home.join(FILE)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Variable => f.write_str("TREEWARDEN_SECRET_KEY"),
            Place::File(path) => path.display().fmt(f),
        }
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{}, which holds their key, is not there", .0.display())]
    Missing(PathBuf),
    #[error("{} holds a key and can be read by others (mode {mode:o}): chmod 600 it", path.display())]
    Open { path: PathBuf, mode: u32 },
    #[error("{} holds no key of {SHORTEST} characters or more", .0.display())]
    Short(PathBuf),
    #[error("{}, which holds their key, cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}, which is to hold a key, cannot be written: {error}", path.display())]
    Unwritable { path: PathBuf, error: io::Error },
}

/// By the key that is there.
pub(super) fn sealer(config: &Config) -> Result<Sealer, KeyError> {
    match (&config.secret_key, Place::of(config)) {
        (Some(key), _) => Ok(Sealer::new(key)),
        (None, Place::File(path)) => Ok(Sealer::new(&read(&path)?)),
        (None, Place::Variable) => Err(KeyError::Missing(file(config))),
    }
}

/// By the key that is there; where there is none yet, by a new one.
pub(super) fn sealer_for_the_first(config: &Config) -> Result<Sealer, KeyError> {
    match sealer(config) {
        Err(KeyError::Missing(path)) => {
            make(&path).map_err(|error| KeyError::Unwritable { path: path.clone(), error })?;
            Ok(Sealer::new(&read(&path)?))
        }
        found => found,
    }
}

/// Takes the key away from its file, once nothing is sealed with it.
pub(super) fn forget(config: &Config) -> anyhow::Result<()> {
    let Place::File(path) = Place::of(config) else { return Ok(()) };
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(anyhow!(
            "The App is forgotten here, but {}, which holds the key of what was stored of it, cannot be removed: {error}. Delete it \
             before another App is made.",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// The key that a file holds, if one does.
pub(super) fn in_file(config: &Config) -> Option<SecretString> {
    read(&file(config)).ok()
}

fn read(path: &Path) -> Result<SecretString, KeyError> {
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => KeyError::Missing(path.to_owned()),
        _ => KeyError::Unreadable { path: path.to_owned(), error },
    };
    let mode = fs::symlink_metadata(path).map_err(unreadable)?.permissions().mode() & 0o777;
    let text = SecretString::from(plain_file::read_text(path, Links::Refuse, MOST).map_err(unreadable)?);
    if mode & 0o077 != 0 {
        return Err(KeyError::Open { path: path.to_owned(), mode });
    }
    let key = text.expose_secret().trim();
    match key.len() >= SHORTEST {
        true => Ok(SecretString::from(key)),
        false => Err(KeyError::Short(path.to_owned())),
    }
}

/// Whole on the disk before it has its name; one that has it meanwhile stays.
fn make(path: &Path) -> io::Result<()> {
    let new = path.with_extension("key.new");
    let _ = fs::remove_file(&new);
    let private = Mode::RUSR | Mode::WUSR;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(private.bits()).open(&new)?;
    writeln!(file, "{}", fresh_token().expose_secret()).and_then(|()| file.sync_all())?;
    let named = match fs::hard_link(&new, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    fs::remove_file(&new)?;
    named?;
    fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_file_is_made_once_and_is_nobody_elses() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE);
        assert!(matches!(read(&path), Err(KeyError::Missing(_))));
        make(&path).unwrap();
        let first = read(&path).unwrap();
        assert_eq!(first.expose_secret().len(), 64);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        make(&path).unwrap();
        assert_eq!(read(&path).unwrap().expose_secret(), first.expose_secret(), "what is there stays");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_key_that_others_read_or_that_is_none_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE);
        make(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = read(&path).unwrap_err();
        assert!(matches!(refused, KeyError::Open { mode: 0o640, .. }), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short\n").unwrap();
        assert!(matches!(read(&path), Err(KeyError::Short(_))));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(matches!(read(&path), Err(KeyError::Unreadable { .. })));
    }
}
