//! Objects with a file each, as git writes the newest ones. A loss of power leaves such a file empty; git stops at it, does
//! not write over it, and no fetch brings what it should hold while it stands there. It is looked for after something failed,
//! kept beside everything else that could not be read, and the next fetch brings everything again that the remote has.

use super::error::GitError;
use super::own_files::{look, set_aside};
use super::write_whole;
use git2::{ErrorClass, Odb, Oid};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

/// Stands in a repository from which an object was taken, until all was fetched again.
pub(super) const LACKS_OBJECTS: &str = "treewarden-lacks-objects";

/// An object's id in hexadecimal.
const ID: usize = 40;

/// Larger ones are left: to tell whether one is good it would have to be read as a whole.
const MOST_READ: u64 = 256 * 1024 * 1024;

/// Takes those away that git named when it failed and that do not hold what their name says, and with them all that are
/// empty: one is seldom the only one. Answers whether there were any.
pub(super) fn mend(repository: &Path, said: &[u8]) -> bool {
    let mended = mend_each(repository, named(said));
    if mended {
        mend_empty(repository);
    }
    mended
}

/// Takes away those that are empty.
pub(super) fn mend_empty(repository: &Path) -> bool {
    mend_each(repository, empty(repository))
}

fn mend_each(repository: &Path, ids: BTreeSet<String>) -> bool {
    let mut any = false;
    for id in ids {
        any |= try_mend(repository, &id).unwrap_or_else(|error| {
            tracing::error!(git.directory = %repository.display(), %error, "a damaged object was not put aside");
            false
        });
    }
    any
}

/// Those whose files are empty.
fn empty(repository: &Path) -> BTreeSet<String> {
    let below = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = below(repository.join("objects")).filter(|entry| entry.file_name().len() == 2);
    let files = directories.flat_map(|directory| {
        let begin = directory.file_name().to_string_lossy().into_owned();
        let empty =
            below(directory.path()).filter(|file| file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0));
        empty.map(move |file| format!("{begin}{}", file.file_name().to_string_lossy()))
    });
    files.filter(|id| id.len() == ID && id.bytes().all(|byte| byte.is_ascii_hexdigit())).collect()
}

/// Git names an object by its id, or by its file, `objects/<2>/<38>`.
fn named(said: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(said).replace('/', "");
    let words = text.split(|letter: char| !letter.is_ascii_hexdigit() || letter.is_ascii_uppercase());
    words.filter(|word| word.len() == ID).map(str::to_owned).collect()
}

fn try_mend(repository: &Path, id: &str) -> Result<bool, GitError> {
    let name: PathBuf = ["objects", &id[..2], &id[2..]].iter().collect();
    let path = repository.join(&name);
    let Some(meta) = look(&path)?.filter(|meta| !meta.is_file() || !holds(repository, id, meta.len())) else {
        return Ok(false);
    };
    // First: a process that is killed in between has everything fetched once too often.
    write_whole(&repository.join(LACKS_OBJECTS), b"")?;
    set_aside(repository, &name, &meta)?;
    tracing::warn!(path = %path.display(), "an object is damaged: set aside, everything is fetched again");
    Ok(true)
}

/// Whether the object is what its name says, wherever it is. Where that cannot be seen, nothing speaks against it.
fn holds(repository: &Path, id: &str, length: u64) -> bool {
    let read = || -> Result<(), git2::Error> {
        let (objects, id) = (Odb::new()?, Oid::from_str(id)?);
        objects.add_disk_alternate(&repository.join("objects").to_string_lossy())?;
        // Few bytes may stand for very many.
        match objects.read_header(id)?.0 as u64 > MOST_READ {
            true => Ok(()),
            false => objects.read(id).map(drop),
        }
    };
    let is_in_doubt = |error: git2::Error| matches!(error.class(), ErrorClass::Os | ErrorClass::NoMemory);
    length > 0 && (length > MOST_READ || read().map_or_else(is_in_doubt, |()| true))
}

/// Whether objects were taken away since everything was fetched.
pub(super) fn are_lacking(repository: &Path) -> bool {
    fs::symlink_metadata(repository.join(LACKS_OBJECTS)).is_ok_and(|meta| meta.is_file())
}

/// Everything was fetched again. What is not there now is not on the remote, either.
pub(super) fn all_fetched(repository: &Path) -> Result<(), GitError> {
    let path = repository.join(LACKS_OBJECTS);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GitError::file("removing", &path, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
