//! Files that git ignores but the work needs: copied from a directory of the operator's into a new worktree.
//!
//! Git itself says which files match, so patterns mean exactly what they mean in a `.gitignore`. Nothing that is there is
//! written over, no link is followed, on neither side. What was copied is written down beside the repository, with the
//! content's id: an unchanged copy is nobody's work. For each branch, and for what the copies held, it stays written down, so
//! that no copy is ever committed by the service, or pushed. The paths also stand in
//! the repository's `info/exclude`, for everybody else's git; there is one such file for all worktrees of a repository,
//! git reads none in an admin entry.

mod excludes;
mod known;
mod manifest;

pub(super) use known::Known;
pub(super) use manifest::{List, Manifest};

use super::blocking;
use super::command::NAMES_AT_ONCE;
use super::error::GitError;
use super::file::Content;
use super::place;
use super::registry::AdminEntry;
use super::repository::Repository;
use super::worktree::{Worktree, is_there, path_of, quiet};
use crate::model::{COPY_FILE, Copies, CopyPattern, NotCopied};
pub(super) use excludes::Excludes;
use excludes::{exclude_file, excluded};
use manifest::{content_of, nameable};
use std::{
    collections::HashSet,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Largest pattern file that is read.
const PATTERN_BYTES: usize = 64 * 1024;
/// Most patterns, from the repository and the settings together.
const MOST_LINES: usize = 1_000;
/// What one worktree is given at most.
const MOST_FILES: usize = 5_000;
const MOST_BYTES: u64 = 512 * 1024 * 1024;

impl Worktree {
    /// Copies what `.worktreeinclude` in the checkout and `patterns` select below `source`. Meant for a worktree in which
    /// nobody has worked yet: what an earlier try copied is made anew.
    pub async fn copy_in(&self, source: &Path, patterns: &[CopyPattern]) -> Result<Copies, GitError> {
        let entry = self.entry().await?;
        let (files, begun, list) = (self.files().to_owned(), entry.clone(), self.list());
        blocking(move || undo(&list, &begun, &files)).await?;
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
        let (list, of_branch) = (self.list(), self.list_of_branch().await?);
        let (from, to) = (source.to_owned(), self.files().to_owned());
        let (plan, missing) = blocking(move || {
            let missing: Vec<String> = lines.into_iter().filter(|line| is_missing(line, &selected)).collect();
            let plan = plan(&from, &to, selected, &submodules)?;
            if !plan.paths.is_empty() {
                let planned = Manifest(plan.paths.iter().map(|path| (path.clone(), None)).collect());
                list.save(&planned)?;
                of_branch.iter().try_for_each(|list| list.add(&planned))?;
            }
            Ok((plan, missing))
        })
        .await?;
        if plan.paths.is_empty() {
            return Ok(Copies { missing, refused: plan.refused, ..Copies::default() });
        }
        {
            let _turn = self.repository().turn().await;
            self.repository().write_excludes_in_turn().await?;
        }
        match self.carry_out(source, plan, missing).await {
            Ok(copies) => Ok(copies),
            Err(error) => {
                // Nothing stays of which it is not written down what it held.
                let (files, list) = (self.files().to_owned(), self.list());
                blocking(move || undo(&list, &entry, &files)).await?;
                Err(error)
            }
        }
    }

    async fn carry_out(&self, source: &Path, plan: Plan, missing: Vec<String>) -> Result<Copies, GitError> {
        let (from, to) = (source.to_owned(), self.files().to_owned());
        let (copies, copied) = blocking(move || carry_out(&from, &to, plan, missing)).await?;
        let (list, repository, files) =
            (self.list(), self.repository().directory().to_owned(), self.files().to_owned());
        let _turn = self.repository().turn().await;
        blocking(move || {
            Known::add(&repository, &files, copied.0.keys())?;
            list.save(&copied)
        })
        .await?;
        Ok(copies)
    }

    /// Files that git does not see here only since another worktree has a copy of that name: there is one `info/exclude`
    /// for all. Where there is no copy, they are work like any other.
    pub(super) async fn hidden_by_others(
        &self,
        entry: &AdminEntry,
        index: Option<&Path>,
    ) -> Result<Vec<PathBuf>, GitError> {
        let (repository, files, own) = (self.repository().directory().to_owned(), self.files().to_owned(), self.list());
        let there = blocking(move || {
            let text = match exclude_file(&repository) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                read => read.map_err(|error| GitError::file("reading", &repository.join("info/exclude"), &error))?,
            };
            let mine = own.load()?;
            let hidden = excluded(&text).into_iter().map(PathBuf::from);
            Ok(hidden.filter(|path| !mine.has(path) && is_there(&files, path)).collect::<Vec<_>>())
        });
        let mut hidden = Vec::new();
        for some in there.await?.chunks(NAMES_AT_ONCE) {
            let call = self.indexed(entry, "ls-files", index).await?.env("GIT_LITERAL_PATHSPECS", "1");
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
        // What lies there is the operator's.
        let call = call.args(["--others", "--ignored", "-z"]).arg(exclude).leaving_pipes();
        let output = quiet(call.run().await?)?;
        let paths = output.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(path_of).collect())
    }
}

impl Repository {
    /// Writes the copies of all worktrees into `info/exclude`.
    pub(super) async fn write_excludes_in_turn(&self) -> Result<(), GitError> {
        let shared = self.shared.clone();
        blocking(move || shared.excludes.write(&shared.directory)).await
    }
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

/// Takes away what a try that did not come to its end has copied: the worktree was never handed out. What the checkout has is
/// no copy, should the list be an earlier worktree's.
fn undo(list: &List, entry: &AdminEntry, files: &Path) -> Result<(), GitError> {
    let manifest = list.load()?;
    if manifest.is_empty() {
        return Ok(());
    }
    let index = git2::Index::open(&entry.directory.join("index"))?;
    let root = place::open_root(files).map_err(|error| GitError::file("opening", files, &error))?;
    for path in manifest.0.keys().map(Path::new).filter(|path| index.get_path(path, 0).is_none()) {
        place::remove(&root, path).map_err(|error| GitError::file("removing", path, &error))?;
    }
    list.forget()
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

fn carry_out(source: &Path, files: &Path, plan: Plan, missing: Vec<String>) -> Result<(Copies, Manifest), GitError> {
    let mut copies = Copies { missing, refused: plan.refused, ..Copies::default() };
    let open = |path: &Path| place::open_root(path).map_err(|error| GitError::file("opening", path, &error));
    let (from, to) = (open(source)?, open(files)?);
    let mut manifest = Manifest::default();
    for name in plan.paths {
        let path = Path::new(&name);
        match place::copy(&from, &to, path) {
            Ok(()) => {
                let content = content_of(&files.join(path)).map_err(|error| GitError::file("reading", path, &error))?;
                manifest.0.insert(name.clone(), Some(content));
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
    Ok((copies, manifest))
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
