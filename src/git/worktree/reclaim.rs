//! Caches that may be taken out of a worktree without anything being missed: what git ignores as a whole, under a name that
//! only tools use, and in which nothing is tracked, new, or a copy of the operator's.

use super::Worktree;
use super::caches::is_cache_inside;
use super::status::{path_of, quiet};
use crate::git::command::NAMES_AT_ONCE;
use crate::git::registry::AdminEntry;
use crate::git::{GitError, blocking};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

impl Worktree {
    /// Their paths in it. The way to each leads through real directories only.
    pub async fn reclaimable_caches(&self) -> Result<Vec<PathBuf>, GitError> {
        let entry = self.entry().await?;
        let call = self.call(&entry, "ls-files").await?;
        let call = call.args(["--others", "--ignored", "--exclude-standard", "--directory", "-z"]);
        let output = quiet(call.run().await?)?;
        let listed: Vec<PathBuf> = output.split(|byte| *byte == 0).filter_map(as_directory).map(path_of).collect();
        let (files, list) = (self.files().to_owned(), self.list());
        let caches = blocking(move || {
            let copies = list.load()?;
            let fits = |path: &PathBuf| is_cache_inside(&files, path) && is_reached_by_directories(&files, path);
            let mut caches: Vec<PathBuf> =
                listed.into_iter().filter(|path| fits(path) && !copies.has_below(path)).collect();
            // One inside another goes with that.
            caches.sort();
            caches.dedup_by(|inner, outer| inner.starts_with(outer));
            Ok(caches)
        })
        .await?;
        if caches.is_empty() {
            return Ok(caches);
        }
        let seen = self.seen_below(&entry, &caches, &["--cached", "--others", "--exclude-standard"]).await?;
        let changed = self.changes(&entry, None).await?;
        blocking(move || {
            let named = seen.iter().map(PathBuf::as_path).chain(changed.iter().map(|change| change.path.as_path()));
            Ok(apart_from(caches, &named.collect()))
        })
        .await
    }

    /// Those of these directories that the index has something in, whatever has become of the files.
    pub async fn tracked_among(&self, directories: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        let entry = self.entry().await?;
        let seen = self.seen_below(&entry, directories, &["--cached"]).await?;
        let has_some = |directory: &&PathBuf| seen.iter().any(|path| path.starts_with(directory));
        Ok(directories.iter().filter(has_some).cloned().collect())
    }

    async fn seen_below(
        &self,
        entry: &AdminEntry,
        directories: &[PathBuf],
        kinds: &[&str],
    ) -> Result<Vec<PathBuf>, GitError> {
        let mut seen = Vec::new();
        for some in directories.chunks(NAMES_AT_ONCE) {
            let call = self.call(entry, "ls-files").await?.env("GIT_LITERAL_PATHSPECS", "1");
            let output = quiet(call.args(kinds).args(["-z", "--"]).args(some).run().await?)?;
            seen.extend(output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of));
        }
        Ok(seen)
    }
}

/// Those that none of the paths lies in, or leads to.
fn apart_from(caches: Vec<PathBuf>, paths: &HashSet<&Path>) -> Vec<PathBuf> {
    let above: HashSet<&Path> = paths.iter().flat_map(|path| path.ancestors()).collect();
    let is_apart =
        |cache: &PathBuf| !above.contains(cache.as_path()) && !cache.ancestors().any(|part| paths.contains(part));
    caches.into_iter().filter(is_apart).collect()
}

/// Git marks those by a final slash.
fn as_directory(listed: &[u8]) -> Option<&[u8]> {
    listed.strip_suffix(b"/").filter(|path| !path.is_empty())
}

fn is_reached_by_directories(files: &Path, path: &Path) -> bool {
    let mut place = files.to_owned();
    path.components().all(|part| {
        place.push(part);
        fs::symlink_metadata(&place).is_ok_and(|there| there.is_dir())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_something_or_lies_in_it_is_left_alone() {
        let caches = ["a/target", "b/target", "c/new/target", "target", "d/target-2"].map(PathBuf::from).to_vec();
        let paths = ["b/target/kept.rs", "c/new/", "target", "d/target"].map(Path::new);
        let left = apart_from(caches, &paths.into_iter().collect());
        assert_eq!(left, ["a/target", "d/target-2"].map(PathBuf::from));
    }
}
