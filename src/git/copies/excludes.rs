//! `info/exclude`: the copies of all worktrees of a repository, between two marks. Nothing else stays there: git goes by it
//! in every worktree, so that one agent's pattern would hide everybody's work.

use super::manifest::{MOST_LISTED, all_listed, nameable};
use crate::git::error::GitError;
use crate::git::own_files::make_room;
use crate::git::{Stamp, plain_file, write_whole};
use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    sync::{Mutex, PoisonError},
};

const EXCLUDE: &str = "info/exclude";

/// Our lines in `info/exclude` stand between these.
const BEGIN: &str = "# Files that Treewarden copied into worktrees; these lines are made anew.";
const END: &str = "# End of the files that Treewarden copied.";

/// The file as it was when it was right, there or not; locked while it is looked at or written.
#[derive(Default)]
pub struct Excludes(Mutex<Option<Option<Stamp>>>);

impl Excludes {
    /// After a worktree got copies, or went. Lists that are written before are read.
    pub fn write(&self, repository: &Path) -> Result<(), GitError> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Otherwise the next look reads what was written.
        *seen = None;
        let (file, wanted) = (repository.join(EXCLUDE), wanted(repository)?);
        let is_right = || exclude_file(repository).is_ok_and(|present| present == wanted);
        if !is_right() {
            put(repository, &wanted)?;
        }
        // Before it is read again: what is written meanwhile is another one.
        let now = Stamp::of(&file);
        if is_right() {
            *seen = Some(now);
        }
        Ok(())
    }

    /// As it should be, whoever wrote to it since; answers with its name if somebody had. What was there is kept. Mostly it
    /// costs one look.
    pub fn put_right(&self, repository: &Path) -> Result<Option<&'static str>, GitError> {
        let file = repository.join(EXCLUDE);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Before it is read: what is written meanwhile is another one.
        let now = Stamp::of(&file);
        if *seen == Some(now) {
            return Ok(None);
        }
        let wanted = wanted(repository)?;
        let present = match exclude_file(repository) {
            Ok(present) => Some(present),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(String::new()),
            // A link, a pipe, a directory, or far too long.
            Err(_) if !fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file()) => None,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
            Err(error) => return Err(GitError::file("reading", &file, &error)),
        };
        if present.as_ref() == Some(&wanted) {
            *seen = Some(now);
            return Ok(None);
        }
        *seen = None;
        make_room(repository, EXCLUDE)?;
        put(repository, &wanted)?;
        Ok(Some(EXCLUDE))
    }
}

/// What stands in the lists of all worktrees.
fn wanted(repository: &Path) -> Result<String, GitError> {
    Ok(excludes(&all_listed(repository)?))
}

fn put(repository: &Path, text: &str) -> Result<(), GitError> {
    let directory = repository.join("info");
    fs::create_dir_all(&directory).map_err(|error| GitError::file("making", &directory, &error))?;
    write_whole(&repository.join(EXCLUDE), text.as_bytes())
}

pub(super) fn exclude_file(repository: &Path) -> io::Result<String> {
    let bytes = plain_file(&repository.join(EXCLUDE), MOST_LISTED)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of `info/exclude` for exactly these paths.
fn excludes(paths: &BTreeSet<String>) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let lines: String = paths.iter().map(|path| format!("/{}\n", escaped(path))).collect();
    format!("{BEGIN}\n{lines}{END}\n")
}

/// The paths in our part of `info/exclude`.
pub(super) fn excluded(text: &str) -> BTreeSet<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stand_for_nothing_else() {
        let paths = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
        let text = excludes(&paths(&[".env", "a [b]/c*"]));
        assert_eq!(text, format!("{BEGIN}\n/.env\n/a\\ \\[b]/c\\*\n{END}\n"));
        assert_eq!(excluded(&text), paths(&[".env", "a [b]/c*"]));
        assert_eq!(excludes(&paths(&[])), "");
    }
}
