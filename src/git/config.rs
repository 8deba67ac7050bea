//! The canonical repository's configuration file: all of it is written by us, and put back when anybody changed it.
//!
//! An agent that reaches this file could name programs that the service's git would run (filters, monitors, helpers), or
//! break every other worktree. No credential is ever in it.

use super::error::GitError;
use super::plain_file;
use crate::model::BranchName;
use std::{collections::BTreeSet, fmt::Write as _, fs, io::Write as _, os::unix::fs::OpenOptionsExt, path::Path};

/// Sections that are believed in a file: an agent may have written any number.
const MOST_UPSTREAMS: usize = 1000;

/// More than such a file with that many takes.
pub(super) const MOST_BYTES: u64 = 4 * 1024 * 1024;

const BEFORE_BRANCH: &str = "[branch \"";
const AFTER_BRANCH: &str = "\"]";

/// The file's only content, for a remote and the branches that follow their namesakes there.
fn render(url: &str, upstreams: &BTreeSet<BranchName>) -> String {
    let mut text = format!(
        "# Written by Treewarden and put back when changed.\n\
         [core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\tlogallrefupdates = true\n\tcommitGraph = false\n\
         [remote \"origin\"]\n\turl = \"{url}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [gc]\n\tauto = 0\n\tworktreePruneExpire = never\n\
         [maintenance]\n\tauto = false\n\
         [lfs]\n\trepositoryformatversion = 0\n\
         [push]\n\tdefault = nothing\n",
        url = escaped(url)
    );
    for branch in upstreams {
        let name = escaped(branch.as_str());
        let full = escaped(&branch.full_ref());
        // Writing to a text never fails.
        let _ = write!(text, "{BEFORE_BRANCH}{name}{AFTER_BRANCH}\n\tremote = origin\n\tmerge = \"{full}\"\n");
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

fn unescaped(value: &str) -> String {
    value.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// The branches for which a file has a section. Whatever else such a section says, what is written of it is that the branch
/// follows its namesake.
fn upstreams_in(text: &str) -> BTreeSet<BranchName> {
    let names = text.lines().filter_map(|line| line.strip_prefix(BEFORE_BRANCH)?.strip_suffix(AFTER_BRANCH));
    names.filter_map(|name| BranchName::new(&unescaped(name)).ok()).take(MOST_UPSTREAMS).collect()
}

/// The remote that a file of this form names; absent when the line was tampered with.
pub(super) fn url_in(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("\turl = \""))?;
    let url = unescaped(line.strip_suffix('"')?);
    let usable = !url.is_empty() && !url.chars().any(char::is_control);
    usable.then_some(url)
}

/// How the file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    AsItShouldBe,
    /// With notes that git-lfs took for itself, whoever ran it; the service does.
    WithNotes,
    Changed,
}

/// Whether the file says what it should, notes aside.
pub(super) fn is_right(repository: &Path, url: &str) -> bool {
    let present = present(repository);
    without_notes(&present) == without_notes(&render(url, &upstreams_in(&present)))
}

/// Makes the file say exactly what it should, with the branches that it has.
pub(super) fn put(repository: &Path, url: &str) -> Result<Found, GitError> {
    put_with(repository, url, |_| {})
}

/// Without the sections in which git-lfs keeps what it knows of an address.
fn without_notes(text: &str) -> Vec<&str> {
    let mut notes = false;
    let kept = text.lines().filter(|line| {
        if line.starts_with('[') {
            notes = line.starts_with("[lfs \"");
        }
        !notes
    });
    kept.collect()
}

/// Lets a branch follow its namesake on the remote, or not any more.
pub(super) fn follow(repository: &Path, url: &str, branch: &BranchName, follows: bool) -> Result<(), GitError> {
    let change = |upstreams: &mut BTreeSet<BranchName>| match follows {
        true => drop(upstreams.insert(branch.clone())),
        false => drop(upstreams.remove(branch)),
    };
    put_with(repository, url, change).map(drop)
}

fn present(repository: &Path) -> String {
    let bytes = plain_file(&repository.join("config"), MOST_BYTES).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

fn put_with(repository: &Path, url: &str, change: impl FnOnce(&mut BTreeSet<BranchName>)) -> Result<Found, GitError> {
    let path = repository.join("config");
    let present = present(repository);
    let mut upstreams = upstreams_in(&present);
    change(&mut upstreams);
    let wanted = render(url, &upstreams);
    if present == wanted {
        return Ok(Found::AsItShouldBe);
    }
    if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
        fs::remove_dir_all(&path).map_err(|error| GitError::file("removing", &path, &error))?;
    }
    let write = || {
        let new = repository.join(format!(".config.{}", uuid::Uuid::now_v7()));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(wanted.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().map_err(|error| GitError::file("writing", &path, &error))?;
    Ok(if without_notes(&present) == without_notes(&wanted) { Found::WithNotes } else { Found::Changed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_survives_a_round_trip() {
        for url in ["https://github.com/octo/hello.git", "/tmp/odd \"dir\" \\x/r.git"] {
            assert_eq!(url_in(&render(url, &BTreeSet::new())).as_deref(), Some(url));
        }
        assert_eq!(url_in("[core]\n\tbare = true\n"), None);
    }

    #[test]
    fn branches_follow_their_namesakes_and_nothing_else_of_a_section_is_believed() {
        let temp = tempfile::tempdir().unwrap();
        let (url, path) = ("https://github.com/octo/hello.git", temp.path().join("config"));
        let text = || fs::read_to_string(&path).unwrap();
        put(temp.path(), url).unwrap();
        let without = text();
        for name in ["feature/x", "odd\"name"] {
            follow(temp.path(), url, &BranchName::new(name).unwrap(), true).unwrap();
        }
        let with = text();
        let section = "[branch \"feature/x\"]\n\tremote = origin\n\tmerge = \"refs/heads/feature/x\"\n";
        assert!(with.starts_with(&without) && with.contains(section), "{with}");
        assert_eq!(put(temp.path(), url).unwrap(), Found::AsItShouldBe);
        // What an agent writes into it is put back.
        let bad = "[branch \"feature/x\"]\n\tmerge = refs/heads/main\n[branch \"a..b\"]\n[core]\n\tfsmonitor = evil\n";
        fs::write(&path, format!("{with}{bad}")).unwrap();
        assert_eq!(put(temp.path(), url).unwrap(), Found::Changed);
        assert_eq!(text(), with);
        let notes = "[lfs \"https://github.com/octo/hello.git/info/lfs\"]\n\taccess = basic\n";
        fs::write(&path, format!("{with}{notes}")).unwrap();
        assert_eq!(put(temp.path(), url).unwrap(), Found::WithNotes);
        assert_eq!(text(), with);
        for name in ["feature/x", "odd\"name"] {
            follow(temp.path(), url, &BranchName::new(name).unwrap(), false).unwrap();
        }
        assert_eq!(text(), without);
        // Nor is a directory in its place the end of the repository.
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(path.join("deep/er")).unwrap();
        assert_eq!(put(temp.path(), url).unwrap(), Found::Changed);
        assert_eq!(text(), without);
    }
}
