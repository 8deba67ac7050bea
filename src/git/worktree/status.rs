//! `git status`, counted. Anything git says on standard error, and anything not understood, is a doubt.

use super::Worktree;
use crate::git::GitError;
use crate::model::Probe;
use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

/// Paths that differ from HEAD. All zero: clean, apart from the inside of submodules, hidden changes and ignored files,
/// which have questions of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub tracked: u64,
    /// Files, and whole repositories that are not part of this one.
    pub untracked: u64,
    pub conflicted: u64,
}

impl Status {
    pub fn is_clean(&self) -> bool {
        *self == Status::default()
    }
}

impl Worktree {
    /// Counts what is not committed. The worktree and its index stay exactly as they are.
    ///
    /// Submodules count by their commit only: looking inside would make git obey configuration that an agent can write;
    /// [`Worktree::submodule_work`] looks inside without that.
    pub async fn status(&self) -> Probe<Status> {
        self.known_status().await.into()
    }

    pub(super) async fn known_status(&self) -> Result<Status, GitError> {
        let entry = self.entry().await?;
        let call = self.call(&entry, "status").await?.slow();
        let call = call.args(["--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=dirty"]);
        parse(&quiet(call.arg("--no-renames").run().await?)?)
    }

    /// Ignored files and directories that no tool rebuilds by itself. Relative paths.
    pub async fn ignored_work(&self) -> Probe<Vec<PathBuf>> {
        let list = async {
            let entry = self.entry().await?;
            let call = self.call(&entry, "ls-files").await?.slow();
            let call = call.args(["--others", "--ignored", "--exclude-standard", "--directory", "-z"]);
            let output = quiet(call.run().await?)?;
            Ok::<_, GitError>(paths(&output).filter(|path| !is_cache(path)).collect())
        };
        list.await.into()
    }
}

/// Directories that tools fill and fill again.
const CACHES: &[&str] = &[
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".gradle",
    ".next",
    ".nuxt",
    ".turbo",
    ".parcel-cache",
    ".svelte-kit",
];

/// Whether a listed path is a known cache directory (git marks directories by a final slash) or lies in one.
pub(super) fn is_cache(path: &PathBuf) -> bool {
    let is_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let parts: Vec<_> = path.components().collect();
    let directories = if is_directory { &parts[..] } else { &parts[..parts.len().saturating_sub(1)] };
    directories.iter().any(|part| CACHES.iter().any(|cache| part.as_os_str() == *cache))
}

/// Output of a call that must have had nothing to complain about: an unreadable directory is only a warning to git.
pub(super) fn quiet(output: crate::git::command::Output) -> Result<Vec<u8>, GitError> {
    if output.status != Some(0) {
        return Err(output.failure());
    }
    match output.stderr.is_empty() {
        true => Ok(output.stdout),
        false => Err(GitError::Unreadable(output.remarks())),
    }
}

/// NUL-ended paths, as bytes.
pub(super) fn paths(output: &[u8]) -> impl Iterator<Item = PathBuf> {
    let fields = output.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    fields.map(|field| PathBuf::from(OsString::from_vec(field.to_owned())))
}

/// Porcelain format 2, as git-status(1) describes it.
fn parse(output: &[u8]) -> Result<Status, GitError> {
    let mut status = Status::default();
    let mut records = output.split(|byte| *byte == 0);
    while let Some(record) = records.next() {
        match record {
            [] | [b'#' | b'!', b' ', ..] => {}
            [b'1', b' ', ..] => status.tracked += 1,
            [b'2', b' ', ..] => {
                status.tracked += 1;
                // The path it had before is a record of its own.
                if records.next().is_none_or(<[u8]>::is_empty) {
                    return Err(GitError::Unreadable("git status ended in the middle of a rename".to_owned()));
                }
            }
            [b'u', b' ', ..] => status.conflicted += 1,
            [b'?', b' ', ..] => status.untracked += 1,
            odd => {
                let odd = String::from_utf8_lossy(odd).into_owned();
                return Err(GitError::Unreadable(format!("git status said something odd: {odd}")));
            }
        }
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_are_counted_whatever_the_names() {
        let output = b"1 .M N... 100644 100644 100644 a a f\0\
            2 R. N... 100644 100644 100644 a a R100 g\0? not untracked\0\
            u UU N... 1 2 3 4 a b c x\0? x\xffy\0? n\nl\0! t/\0";
        assert_eq!(parse(output).unwrap(), Status { tracked: 2, untracked: 2, conflicted: 1 });
        assert!(parse(b"").unwrap().is_clean());
        assert!(parse(b"fatal: odd\0").is_err());
        assert!(parse(b"2 R. N... 1 2 3 a a R100 g\0").is_err());
    }

    #[test]
    fn caches_are_known_by_their_directory() {
        for (path, cache) in [
            ("node_modules/", true),
            ("packages/a/node_modules/", true),
            ("target/x", true),
            (".env", false),
            ("target", false),
            ("build/", false),
        ] {
            assert_eq!(is_cache(&PathBuf::from(path)), cache, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_a_doubt(output in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&output);
        }
    }
}
