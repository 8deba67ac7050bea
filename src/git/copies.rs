//! Files that git ignores but the work needs: copied from a directory of the operator's into a new worktree.
//!
//! Git itself says which files match, so patterns mean exactly what they mean in a `.gitignore`. Nothing that is there is
//! written over, no link is followed, on neither side. What was copied is written down in the admin entry, with the
//! content's id: an unchanged copy is nobody's work, and no copy is ever committed by the service. The paths also stand in
//! the repository's `info/exclude`, for everybody else's git; there is one such file for all worktrees of a repository,
//! git reads none in an admin entry.

mod place;

use super::error::GitError;
use super::file::Content;
use super::registry::{self, AdminEntry};
use super::repository::Repository;
use super::worktree::{Worktree, is_cache, is_there, path_of, quiet};
use super::{blocking, plain_file, write_whole};
use crate::model::{COPY_FILE, Copies, CopyPattern, NotCopied};
use git2::{ObjectType, Oid};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs, io,
    path::{Component, Path, PathBuf},
};

/// In the admin entry: what was copied, as JSON. Paths to blob ids; no id yet while the copying is under way.
const MANIFEST: &str = "treewarden-copies";

/// Largest pattern file that is read.
const PATTERN_BYTES: usize = 64 * 1024;
/// Most patterns, from the repository and the settings together.
const MOST_LINES: usize = 1_000;
/// More than a manifest, or the exclude file of a repository, ever has.
const MOST_LISTED: u64 = 64 * 1024 * 1024;
/// What one worktree is given at most.
const MOST_FILES: usize = 5_000;
const MOST_BYTES: u64 = 512 * 1024 * 1024;

/// Fewer than what one command line takes.
const NAMES_AT_ONCE: usize = 500;

/// Our lines in `info/exclude` stand between these.
const BEGIN: &str = "# Files that Treewarden copied into worktrees; these lines are made anew.";
const END: &str = "# End of the files that Treewarden copied.";

/// What was copied into one worktree.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifest(BTreeMap<String, Option<String>>);

impl Manifest {
    /// What is written down in an admin entry; nothing there is an empty one. An agent may have written to it: what we
    /// would never have copied counts for nothing.
    pub fn load(entry: &AdminEntry) -> Result<Self, GitError> {
        let path = entry.directory.join(MANIFEST);
        let bytes = match plain_file(&path, MOST_LISTED) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(GitError::file("reading", &path, &error)),
        };
        let mut manifest: Self = serde_json::from_slice(&bytes)
            .map_err(|error| GitError::Unreadable(format!("{}: {error}", path.display())))?;
        manifest.0.retain(|path, _| nameable(Path::new(path)).is_some());
        Ok(manifest)
    }

    fn save(&self, entry: &AdminEntry) -> Result<(), GitError> {
        let bytes = serde_json::to_vec(self).map_err(|error| GitError::Unreadable(error.to_string()))?;
        write_whole(&entry.directory.join(MANIFEST), &bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The blobs that the copies would become, as they were when they were made.
    pub fn contents(&self) -> HashSet<Oid> {
        self.0.values().flatten().filter_map(|id| Oid::from_str(id).ok()).collect()
    }

    pub fn has(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| self.0.contains_key(path))
    }

    /// Whether a listed path, below `files`, is a copy that nobody changed, or a directory that holds nothing else.
    pub fn accounts_for(&self, files: &Path, path: &Path) -> bool {
        if !path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return self.is_unchanged(files, path);
        }
        // A directory without any copy is not even looked into.
        self.0.keys().any(|copy| Path::new(copy).starts_with(path)) && self.accounts_for_all(files, path)
    }

    fn accounts_for_all(&self, files: &Path, directory: &Path) -> bool {
        let Ok(entries) = fs::read_dir(files.join(directory)) else { return false };
        entries.into_iter().all(|entry| {
            let Ok(entry) = entry else { return false };
            let path = directory.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => is_cache(&path.join("")) || self.accounts_for_all(files, &path),
                Ok(_) => self.is_unchanged(files, &path),
                Err(_) => false,
            }
        })
    }

    fn is_unchanged(&self, files: &Path, path: &Path) -> bool {
        let noted = path.to_str().and_then(|path| self.0.get(path)).and_then(Option::as_ref);
        noted.is_some_and(|noted| id_of(&files.join(path)).is_ok_and(|id| id == *noted))
    }
}

impl Worktree {
    /// Copies what `.worktreeinclude` in the checkout and `patterns` select below `source`. Meant for a worktree in which
    /// nobody has worked yet: what an earlier try copied is made anew.
    pub async fn copy_in(&self, source: &Path, patterns: &[CopyPattern]) -> Result<Copies, GitError> {
        let entry = self.entry().await?;
        let (files, begun) = (self.files().to_owned(), entry.clone());
        blocking(move || undo(&begun, &files)).await?;
        let mut lines = match self.include_file().await? {
            Ok(lines) => lines,
            Err(failed) => return Ok(Copies { failed: Some(failed), ..Copies::default() }),
        };
        lines.extend(patterns.iter().map(|pattern| pattern.as_str().to_owned()));
        let lines = patterns_of(lines);
        if lines.is_empty() {
            return Ok(Copies::default());
        }
        if lines.len() > MOST_LINES {
            let failed = format!("there are more than {MOST_LINES} patterns in `{COPY_FILE}` and the settings");
            return Ok(Copies { failed: Some(failed), ..Copies::default() });
        }
        let from = source.to_owned();
        let kept = blocking(move || Ok(from.is_dir())).await?;
        let selected = if kept { self.select(&entry, source, &lines).await? } else { Vec::new() };
        let submodules = self.submodule_paths().await?;
        let (begun, from, to) = (entry.clone(), source.to_owned(), self.files().to_owned());
        let (plan, missing) = blocking(move || {
            let missing: Vec<String> = lines.into_iter().filter(|line| is_missing(line, &selected)).collect();
            let plan = plan(&from, &to, selected, &submodules)?;
            if !plan.paths.is_empty() {
                Manifest(plan.paths.iter().map(|path| (path.clone(), None)).collect()).save(&begun)?;
            }
            Ok((plan, missing))
        })
        .await?;
        if !plan.paths.is_empty() {
            let _turn = self.repository().turn().await;
            self.repository().write_excludes_in_turn().await?;
        }
        let (from, to) = (source.to_owned(), self.files().to_owned());
        blocking(move || carry_out(&entry, &from, &to, plan, missing)).await
    }

    /// Files that git does not see here only since another worktree has a copy of that name: there is one `info/exclude`
    /// for all. Where there is no copy, they are work like any other.
    pub(super) async fn hidden_by_others(
        &self,
        entry: &AdminEntry,
        index: Option<&Path>,
    ) -> Result<Vec<PathBuf>, GitError> {
        let (repository, files, own) =
            (self.repository().directory().to_owned(), self.files().to_owned(), entry.clone());
        let there = blocking(move || {
            let text = match exclude_file(&repository) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                read => read.map_err(|error| GitError::file("reading", &repository.join("info/exclude"), &error))?,
            };
            let mine = Manifest::load(&own)?;
            let others = other_manifests(&repository, &own)?;
            let hidden = excluded(&text).into_iter().map(PathBuf::from);
            let hidden = hidden.filter(|path| !mine.has(path) && is_there(&files, path));
            // What is a copy stays one, whatever became of the list of this worktree: an agent can write there.
            let is_work = |path: &PathBuf| {
                let listed = others.iter().filter(|other| other.has(path)).collect::<Vec<_>>();
                !listed.is_empty() && !listed.iter().any(|other| other.is_unchanged(&files, path))
            };
            Ok(hidden.filter(is_work).collect::<Vec<_>>())
        });
        let mut hidden = Vec::new();
        for some in there.await?.chunks(NAMES_AT_ONCE) {
            let call = self.indexed(entry, "ls-files", index).await?.slow().env("GIT_LITERAL_PATHSPECS", "1");
            let call = call.args(["--others", "--exclude-per-directory=.gitignore", "-z", "--"]).args(some);
            let output = quiet(call.run().await?)?;
            hidden.extend(output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of));
        }
        Ok(hidden)
    }

    /// The lines of `.worktreeinclude` as the branch has it, or why there are none.
    async fn include_file(&self) -> Result<Result<Vec<String>, String>, GitError> {
        let Some(branch) = self.head().await?.branch else { return Ok(Ok(Vec::new())) };
        let file = self.repository().file_at(&branch.full_ref(), COPY_FILE, PATTERN_BYTES).await?;
        let text = match file.map(|file| file.content) {
            None => return Ok(Ok(Vec::new())),
            Some(Content::Bytes(bytes)) => String::from_utf8(bytes).ok(),
            Some(Content::TooLarge(_) | Content::NoFile) => None,
        };
        Ok(match text {
            Some(text) => Ok(text.lines().map(str::to_owned).collect()),
            None => Err(format!("`{COPY_FILE}` is no plain text file of at most {} KiB", PATTERN_BYTES / 1024)),
        })
    }

    /// The files below `source` that match, as git sees it. A directory that is a repository ends with a slash.
    async fn select(&self, entry: &AdminEntry, source: &Path, lines: &[String]) -> Result<Vec<PathBuf>, GitError> {
        let (repository, text) = (self.repository().clone(), lines.join("\n"));
        let (scratch, list) = blocking(move || {
            let scratch = repository.scratch()?;
            let list = scratch.path().join("patterns");
            fs::write(&list, text).map_err(|error| GitError::file("writing", &list, &error))?;
            Ok((scratch, list))
        })
        .await?;
        let call = self.repository().call_in(&entry.directory, source, "ls-files").await?.slow();
        let call = call.env("GIT_INDEX_FILE", scratch.path().join("index"));
        let mut exclude = std::ffi::OsString::from("--exclude-from=");
        exclude.push(&list);
        let output = quiet(call.args(["--others", "--ignored", "-z"]).arg(exclude).run().await?)?;
        let paths = output.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(path_of).collect())
    }
}

impl Repository {
    /// Writes the copies of all worktrees into `info/exclude`; other lines there stay.
    pub(super) async fn write_excludes_in_turn(&self) -> Result<(), GitError> {
        let directory = self.directory().to_owned();
        blocking(move || write_excludes(&directory)).await
    }
}

/// What was copied into the other worktrees of a repository, as far as that can be read.
fn other_manifests(repository: &Path, own: &AdminEntry) -> Result<Vec<Manifest>, GitError> {
    let entries = registry::entries(&repository.join("worktrees"))?;
    let others = entries.into_iter().filter(|entry| entry.directory != own.directory);
    Ok(others.filter_map(|entry| Manifest::load(&entry).ok()).collect())
}

fn write_excludes(repository: &Path) -> Result<(), GitError> {
    let mut paths = BTreeSet::new();
    for entry in registry::entries(&repository.join("worktrees"))? {
        match Manifest::load(&entry) {
            Ok(manifest) => paths.extend(manifest.0.into_keys()),
            // One worktree's trouble is none of the others'.
            Err(error) => {
                tracing::warn!(error = %error, "what was copied into a worktree cannot be read; it is left out")
            }
        }
    }
    let directory = repository.join("info");
    let file = directory.join("exclude");
    let present = match exclude_file(repository) {
        // A link or a pipe makes place for a file.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %file.display(), error = %error, "not readable; it is made anew");
            String::new()
        }
        read => read.unwrap_or_default(),
    };
    let wanted = excludes(&present, &paths);
    if wanted == present {
        return Ok(());
    }
    fs::create_dir_all(&directory).map_err(|error| GitError::file("making", &directory, &error))?;
    write_whole(&file, wanted.as_bytes())
}

fn exclude_file(repository: &Path) -> io::Result<String> {
    let bytes = plain_file(&repository.join("info/exclude"), MOST_LISTED)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Lines that say something, each once: the last of equal ones, since the last that matches decides.
fn patterns_of(lines: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut kept: Vec<String> = lines
        .into_iter()
        .rev()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#') && seen.insert(line.clone()))
        .collect();
    kept.reverse();
    kept
}

/// The text of `info/exclude` with exactly these paths in our part of it.
fn excludes(present: &str, paths: &BTreeSet<String>) -> String {
    let mut ours = false;
    let mut text = String::new();
    for line in present.lines() {
        ours |= line == BEGIN;
        if !ours {
            text.push_str(line);
            text.push('\n');
        }
        ours &= line != END;
    }
    if !paths.is_empty() {
        let lines: String = paths.iter().map(|path| format!("/{}\n", escaped(path))).collect();
        text.push_str(&format!("{BEGIN}\n{lines}{END}\n"));
    }
    text
}

/// The paths in our part of `info/exclude`.
fn excluded(text: &str) -> BTreeSet<String> {
    let ours = text.lines().skip_while(|line| *line != BEGIN).take_while(|line| *line != END);
    let paths = ours.filter_map(|line| line.strip_prefix('/')).map(unescaped);
    paths.filter(|path| nameable(Path::new(path)).is_some()).collect()
}

fn unescaped(pattern: &str) -> String {
    let mut path = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        path.extend(if c == '\\' { rest.next() } else { Some(c) });
    }
    path
}

/// A path as a pattern that stands for nothing else.
fn escaped(path: &str) -> String {
    let mut pattern = String::new();
    for c in path.chars() {
        if matches!(c, '\\' | '*' | '?' | '[' | ' ') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Takes away what a try that did not come to its end has copied: the worktree was never handed out.
fn undo(entry: &AdminEntry, files: &Path) -> Result<(), GitError> {
    let manifest = Manifest::load(entry)?;
    let root = place::open_root(files).map_err(|error| GitError::file("opening", files, &error))?;
    for path in manifest.0.keys() {
        place::remove(&root, Path::new(path)).map_err(|error| GitError::file("removing", Path::new(path), &error))?;
    }
    match fs::remove_file(entry.directory.join(MANIFEST)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(GitError::file("removing", &entry.directory.join(MANIFEST), &error))
        }
        _ => Ok(()),
    }
}

/// What is to be copied, and what is not.
#[derive(Default)]
struct Plan {
    paths: Vec<String>,
    refused: Vec<(String, NotCopied)>,
}

fn plan(source: &Path, files: &Path, selected: Vec<PathBuf>, submodules: &[PathBuf]) -> Result<Plan, GitError> {
    let mut plan = Plan::default();
    let mut bytes = 0;
    for path in selected {
        let shown = path.display().to_string();
        let meta = fs::symlink_metadata(source.join(&path)).ok();
        let verdict = match (nameable(&path), meta) {
            (Some(_), Some(meta)) if meta.is_symlink() && !stays_inside(source, &path) => Err(NotCopied::LeadsOut),
            (Some(name), Some(meta)) if meta.is_symlink() || meta.is_file() => Ok((name, meta.len())),
            _ => Err(NotCopied::NotPlain),
        };
        let verdict = verdict.and_then(|(name, size)| {
            bytes += size;
            match () {
                () if bytes > MOST_BYTES || plan.paths.len() >= MOST_FILES => Err(NotCopied::TooMuch),
                // In a submodule it would be untracked.
                () if submodules.iter().any(|submodule| path.starts_with(submodule)) => Err(NotCopied::InTheWay),
                () if fs::symlink_metadata(files.join(&path)).is_ok() => Err(NotCopied::InTheWay),
                () => Ok(name),
            }
        });
        match verdict {
            Ok(name) => plan.paths.push(name),
            Err(why) => plan.refused.push((shown, why)),
        }
    }
    Ok(plan)
}

fn carry_out(
    entry: &AdminEntry,
    source: &Path,
    files: &Path,
    plan: Plan,
    missing: Vec<String>,
) -> Result<Copies, GitError> {
    let mut copies = Copies { missing, refused: plan.refused, ..Copies::default() };
    if plan.paths.is_empty() {
        return Ok(copies);
    }
    let open = |path: &Path| place::open_root(path).map_err(|error| GitError::file("opening", path, &error));
    let (from, to) = (open(source)?, open(files)?);
    let mut manifest = Manifest::default();
    for name in plan.paths {
        let path = Path::new(&name);
        match place::copy(&from, &to, path) {
            Ok(()) => {
                let id = id_of(&files.join(path)).map_err(|error| GitError::file("reading", path, &error))?;
                manifest.0.insert(name.clone(), Some(id));
                copies.copied.push(name);
            }
            Err(place::Failed::InTheWay) => copies.refused.push((name, NotCopied::InTheWay)),
            Err(place::Failed::NotPlain) => copies.refused.push((name, NotCopied::NotPlain)),
            Err(place::Failed::Io(error)) => {
                let what = GitError::file("copying", path, &error);
                copies.failed = Some(what.told_outside(files));
                break;
            }
        }
    }
    manifest.save(entry)?;
    Ok(copies)
}

/// The name of a path that may be copied: text on one line, outside of anything of git's.
fn nameable(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let plain = |part: Component| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        _ => false,
    };
    let fine = !text.ends_with('/') && !text.chars().any(char::is_control) && path.components().all(plain);
    fine.then(|| text.to_owned())
}

/// Whether a link at `path` leads to a place below the same root, whatever else lies on the way: it climbs first, no higher
/// than the root, and then only descends.
fn stays_inside(root: &Path, path: &Path) -> bool {
    let Ok(target) = fs::read_link(root.join(path)) else { return false };
    let height = path.components().count().saturating_sub(1);
    let climbed = target.components().take_while(|part| *part == Component::ParentDir).count();
    let descends = target.components().skip(climbed).all(|part| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        Component::CurDir => true,
        Component::ParentDir | Component::RootDir | Component::Prefix(_) => false,
    });
    climbed <= height && descends
}

/// Whether a pattern names one file or directory that is not among the selected.
fn is_missing(line: &str, selected: &[PathBuf]) -> bool {
    let name = line.trim_end();
    if name.contains(['*', '?', '[', '\\', '!', '`']) {
        return false;
    }
    let anchored = name.trim_end_matches('/').contains('/');
    let name = Path::new(name.trim_matches('/'));
    !selected.iter().any(|path| match anchored {
        true => path.starts_with(name),
        false => path.components().any(|part| part.as_os_str() == name.as_os_str()),
    })
}

/// The id git gives to the content of a file, or to where a link leads.
fn id_of(path: &Path) -> io::Result<String> {
    let meta = fs::symlink_metadata(path)?;
    let id = match meta.is_symlink() {
        true => Oid::hash_object(ObjectType::Blob, fs::read_link(path)?.as_os_str().as_encoded_bytes()),
        false if meta.is_file() => Oid::hash_file(ObjectType::Blob, path),
        false => return Err(io::ErrorKind::InvalidInput.into()),
    };
    id.map(|id| id.to_string()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_part_of_the_exclude_file_changes() {
        let paths = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
        let one = excludes("*.swp\n", &paths(&[".env", "a [b]/c*"]));
        assert_eq!(one, format!("*.swp\n{BEGIN}\n/.env\n/a\\ \\[b]/c\\*\n{END}\n"));
        assert_eq!(excluded(&one), paths(&[".env", "a [b]/c*"]));
        assert_eq!(excludes(&one, &paths(&["x"])), format!("*.swp\n{BEGIN}\n/x\n{END}\n"));
        assert_eq!(excludes(&one, &paths(&[])), "*.swp\n");
        assert_eq!(excludes("", &paths(&[])), "");
    }

    #[test]
    fn equal_patterns_are_one_and_mean_the_same() {
        let lines = ["a", "#", "!a", " ", "b", "a"].map(str::to_owned);
        assert_eq!(patterns_of(lines.to_vec()), ["!a", "b", "a"]);
    }

    #[test]
    fn a_missing_file_is_one_that_was_named() {
        let selected = [".env", "config/local/a", "deep/down/key"].map(PathBuf::from);
        for (line, missing) in [
            (".env", false),
            ("/.env", false),
            ("key", false),
            ("down/", false),
            ("config/local/", false),
            ("config/other", true),
            ("/key", true),
            ("x", true),
            ("*.pem", false),
            ("!x", false),
        ] {
            assert_eq!(is_missing(line, &selected), missing, "{line}");
        }
    }

    #[test]
    fn names_of_gits_own_are_never_copied() {
        for bad in [".git/config", "a/.GIT/x", "a\nb", "sub/", "../x", "/x"] {
            assert_eq!(nameable(Path::new(bad)), None, "{bad:?}");
        }
        assert!(nameable(Path::new("a/.gitx b")).is_some());
    }
}
