//! `local.json` in the home: where the running service takes messages of this machine, and the token that opens that. Who
//! may read the home is who may speak.

use rustix::fs::Mode;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const FILE: &str = "local.json";

/// What the file says.
#[derive(Clone, Debug, Deserialize)]
pub struct Door {
    /// On loopback, without a trailing slash.
    pub url: String,
    pub token: SecretString,
}

#[derive(Serialize)]
struct Written<'a> {
    url: &'a str,
    token: &'a str,
}

#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written: {error}", path.display())]
pub struct DoorError {
    path: PathBuf,
    error: io::Error,
}

impl Door {
    /// Writes the file for a service at `url`, with the token of this start: whoever was shown the one of before, at an address
    /// that the service had left, has nothing of it.
    pub fn open(home: &Path, url: String, token: SecretString) -> Result<Self, DoorError> {
        let door = Self { url, token };
        let path = home.join(FILE);
        door.write(&path).map_err(|error| DoorError { path, error })?;
        Ok(door)
    }

    /// Takes the file away: nobody is to look for a service where there is none.
    pub fn close(home: &Path) -> Result<(), DoorError> {
        let path = home.join(FILE);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(DoorError { path, error }),
            _ => Ok(()),
        }
    }

    /// Whether there is one, for a service that is just starting or stopping not yet, or still.
    pub fn exists(home: &Path) -> bool {
        home.join(FILE).exists()
    }

    pub fn read(home: &Path) -> io::Result<Self> {
        let path = home.join(FILE);
        // A pipe would be waited for.
        if !fs::metadata(&path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file"));
        }
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("json.new");
        let _ = fs::remove_file(&new);
        let private = Mode::RUSR | Mode::WUSR;
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(private.bits()).open(&new)?;
        let text = serde_json::to_string(&Written { url: &self.url, token: self.token.expose_secret() })?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
        fs::rename(&new, path)
    }
}

/// What opens the door from one start to the next.
pub fn fresh_token() -> SecretString {
    let mut token = [0; 32];
    // The system's random source does not fail once the process runs; without randomness nobody could be let in.
    aws_lc_rs::rand::fill(&mut token).expect("the system gives random bytes");
    SecretString::from(hex::encode(token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_start_has_a_token_of_its_own_that_nobody_else_reads() {
        let home = tempfile::tempdir().unwrap();
        let first = Door::open(home.path(), "http://127.0.0.1:1".to_owned(), fresh_token()).unwrap();
        let second = Door::open(home.path(), "http://127.0.0.1:2".to_owned(), fresh_token()).unwrap();
        assert_ne!(first.token.expose_secret(), second.token.expose_secret());
        let read = Door::read(home.path()).unwrap();
        assert_eq!(
            (read.url.as_str(), read.token.expose_secret()),
            ("http://127.0.0.1:2", second.token.expose_secret())
        );
        assert_eq!(second.token.expose_secret().len(), 64);
        assert_eq!(fs::metadata(home.path().join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        Door::close(home.path()).unwrap();
        Door::close(home.path()).unwrap();
        assert!(Door::read(home.path()).is_err());
    }
}
