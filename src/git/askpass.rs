//! The files git is pointed to instead of the user's own: a static script that answers git's question for a password, an
//! empty global configuration, an empty home.
//!
//! The token is never in a URL, an argument or a file: it is in the environment of one git process, and the script
//! prints it only when git asks for exactly the expected scheme, user and host.

use super::error::GitError;
use std::{
    fs, io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Set for the git process that may use the token.
pub(super) const TOKEN: &str = "TREEWARDEN_GIT_TOKEN";
/// `https://x-access-token@host`, as git's question spells it.
pub(super) const PLACE: &str = "TREEWARDEN_GIT_PLACE";
/// GitHub's user name for installation tokens.
pub(super) const USER: &str = "x-access-token";

const SCRIPT: &str = r##"#!/bin/sh
# Prints the token for the one place it is meant for, and nothing for any other question.
[ -n "$TREEWARDEN_GIT_TOKEN" ] || exit 1
site="${TREEWARDEN_GIT_PLACE%%//*}//${TREEWARDEN_GIT_PLACE#*@}"
case "$1" in
    "Password for '$TREEWARDEN_GIT_PLACE': " | "Password for \"$TREEWARDEN_GIT_PLACE\"") printf '%s\n' "$TREEWARDEN_GIT_TOKEN" ;;
    # Git LFS asks for the name as well.
    "Username for \"$site\"") printf '%s\n' x-access-token ;;
    *) exit 1 ;;
esac
"##;

/// Paths of the prepared files.
#[derive(Debug)]
pub(super) struct Prepared {
    pub script: PathBuf,
    pub config: PathBuf,
    pub home: PathBuf,
    /// Throw-away files of single calls.
    pub scratch: PathBuf,
}

/// Writes what is missing or was changed below `state`.
pub(super) fn prepare(state: &Path) -> Result<Prepared, GitError> {
    let prepared = Prepared {
        script: state.join("askpass"),
        config: state.join("gitconfig"),
        home: state.join("home"),
        scratch: state.join("scratch"),
    };
    let write = || -> io::Result<()> {
        for directory in [state, &prepared.home, &prepared.scratch] {
            fs::create_dir_all(directory)?;
            fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
        }
        replace(&prepared.script, SCRIPT, 0o700)?;
        replace(&prepared.config, "", 0o600)
    };
    write().map_err(|error| GitError::file("preparing git's state in", state, &error))?;
    Ok(prepared)
}

/// Leaves an equal file alone: a script that another process is just executing cannot be written.
fn replace(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    let equal = fs::read_to_string(path).is_ok_and(|present| present == content)
        && fs::symlink_metadata(path)?.permissions().mode() & 0o777 == mode;
    if equal {
        return Ok(());
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    io::Write::write_all(&mut file, content.as_bytes())?;
    drop(file);
    fs::rename(&new, path)
}
