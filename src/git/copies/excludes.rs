//! Our lines in `info/exclude`: the copies of all worktrees of a repository, between two marks. Other lines there stay.

use super::manifest::{MOST_LISTED, Manifest, nameable};
use crate::git::error::GitError;
use crate::git::{plain_file, registry, write_whole};
use std::{collections::BTreeSet, fs, io, path::Path};

/// Our lines in `info/exclude` stand between these.
const BEGIN: &str = "# Files that Treewarden copied into worktrees; these lines are made anew.";
const END: &str = "# End of the files that Treewarden copied.";

pub(super) fn write_excludes(repository: &Path) -> Result<(), GitError> {
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

pub(super) fn exclude_file(repository: &Path) -> io::Result<String> {
    let bytes = plain_file(&repository.join("info/exclude"), MOST_LISTED)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
    fn only_our_part_of_the_exclude_file_changes() {
        let paths = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
        let one = excludes("*.swp\n", &paths(&[".env", "a [b]/c*"]));
        assert_eq!(one, format!("*.swp\n{BEGIN}\n/.env\n/a\\ \\[b]/c\\*\n{END}\n"));
        assert_eq!(excluded(&one), paths(&[".env", "a [b]/c*"]));
        assert_eq!(excludes(&one, &paths(&["x"])), format!("*.swp\n{BEGIN}\n/x\n{END}\n"));
        assert_eq!(excludes(&one, &paths(&[])), "*.swp\n");
        assert_eq!(excludes("", &paths(&[])), "");
    }
}
