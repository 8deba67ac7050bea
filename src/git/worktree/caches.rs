//! Directories that tools fill and fill again: what git ignores there is nobody's work.

use super::Worktree;
use super::status::{path_of, quiet};
use crate::git::GitError;
use crate::git::command::NAMES_AT_ONCE;
use crate::git::registry::AdminEntry;
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
};

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

/// Names that people give to directories of their own, too, and what the tools leave in theirs.
const ALSO_OF_PEOPLE: &[&str] = &["target", "venv"];
const MARKS: &[&str] = &["CACHEDIR.TAG", ".rustc_info.json", "maven-status", "pyvenv.cfg"];

/// The cache directory, by its name, that a listed path is or lies in; git marks directories by a final slash. Whether anything
/// in it is not ignored is not looked at here.
pub(super) fn cache_of(files: &Path, path: &Path) -> Option<PathBuf> {
    let is_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let parts: Vec<_> = path.components().collect();
    let directories = if is_directory { &parts[..] } else { &parts[..parts.len().saturating_sub(1)] };
    let named = (0..directories.len()).filter(|at| is_named(directories[*at].as_ref(), CACHES));
    // One that people call so is ignored by its name, not by those of single files; behind one that is theirs another may be.
    named.map(|at| (at, parts[..=at].iter().collect::<PathBuf>())).find_map(|(at, cache)| {
        let is_ignored = is_directory && at + 1 == parts.len();
        (is_ignored || is_cache_inside(files, &cache)).then_some(cache)
    })
}

/// Whether a directory within one that git ignores as a whole, below `files`, is a cache.
pub(in crate::git) fn is_cache_inside(files: &Path, directory: &Path) -> bool {
    let named = |names: &[&str]| directory.file_name().is_some_and(|name| is_named(name, names));
    let has_mark = || MARKS.iter().any(|mark| files.join(directory).join(mark).exists());
    named(CACHES) && (!named(ALSO_OF_PEOPLE) || has_mark())
}

fn is_named(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|known| name == *known)
}

impl Worktree {
    /// Those of the listed paths, which git ignores, that are in no cache.
    pub(super) async fn outside_caches(
        &self,
        entry: &AdminEntry,
        mut listed: Vec<PathBuf>,
    ) -> Result<Vec<PathBuf>, GitError> {
        let named: BTreeSet<PathBuf> = listed.iter().filter_map(|path| cache_of(&self.files, path)).collect();
        let mut sources = BTreeSet::new();
        for some in named.iter().collect::<Vec<_>>().chunks(NAMES_AT_ONCE) {
            let call = self.call(entry, "ls-files").await?.env("GIT_LITERAL_PATHSPECS", "1");
            let call = call.args(["--cached", "--others", "--exclude-standard", "-z", "--"]);
            let output = quiet(call.args(some).run().await?)?;
            let seen = output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of);
            sources.extend(seen.filter_map(|path| named.iter().find(|cache| path.starts_with(cache)).cloned()));
        }
        listed.retain(|path| cache_of(&self.files, path).is_none_or(|cache| sources.contains(&cache)));
        Ok(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_known_by_their_directory() {
        let files = tempfile::tempdir().unwrap();
        let marked = files.path().join("built/target");
        std::fs::create_dir_all(&marked).unwrap();
        std::fs::write(marked.join("CACHEDIR.TAG"), "").unwrap();
        for (path, cache) in [
            ("node_modules/", Some("node_modules")),
            ("node_modules/x", Some("node_modules")),
            ("packages/a/node_modules/", Some("packages/a/node_modules")),
            ("target/", Some("target")),
            ("built/target/debug/target/x", Some("built/target")),
            ("services/target/.env", None),
            ("Lib/venv/__pycache__/", Some("Lib/venv/__pycache__")),
            ("services/target/node_modules/x", Some("services/target/node_modules")),
            (".env", None),
            ("target", None),
            ("build/", None),
        ] {
            assert_eq!(cache_of(files.path(), Path::new(path)), cache.map(PathBuf::from), "{path}");
        }
    }
}
