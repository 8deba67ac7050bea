//! The canonical repository's configuration file: all of it is written by us, and put back when anybody changed it.
//!
//! An agent that reaches this file could name programs that the service's git would run (filters, monitors, helpers), or
//! break every other worktree. No credential is ever in it.

use super::error::GitError;
use super::{command, lfs, plain_file};
use crate::model::BranchName;
use std::{collections::BTreeSet, fmt::Write as _, fs, io::Write as _, os::unix::fs::OpenOptionsExt, path::Path};

/// Sections that are believed in a file: an agent may have written any number.
const MOST_UPSTREAMS: usize = 1000;

/// More than such a file with that many takes.
pub(super) const MOST_BYTES: u64 = 4 * 1024 * 1024;

const BEFORE_BRANCH: &str = "[branch \"";
const AFTER_BRANCH: &str = "\"]";

const FILE_MODE: &str = "\tfilemode = true\n";
const BARE: &str = "\tbare = true\n";
const OF_WORKTREES: &str = "[extensions]\n\tworktreeConfig = true\n";

const FILTERS: &str = "[filter \"lfs\"]";

/// What the file is to say, apart from branches.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The remote.
    pub url: &'a str,
    /// Git LFS, where it is there: by it everybody's git makes pointers, not only ours.
    pub lfs: Option<&'a Path>,
}

/// The file's only content, with the branches that follow their namesakes on the remote.
fn render(Wanted { url, lfs }: Wanted<'_>, upstreams: &BTreeSet<BranchName>) -> String {
    let mut text = format!(
        "# Written by Treewarden and put back when changed.\n\
         [core]\n\trepositoryformatversion = 0\n{FILE_MODE}{BARE}\tlogallrefupdates = true\n\tcommitGraph = false\n\
         [remote \"origin\"]\n\turl = \"{url}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [gc]\n\tauto = 0\n\tworktreePruneExpire = never\n\
         [maintenance]\n\tauto = false\n\
         [lfs]\n\trepositoryformatversion = 0\n\
         [push]\n\tdefault = nothing\n",
        url = escaped(url)
    );
    text.extend(lfs.map(filters));
    for branch in upstreams {
        let name = escaped(branch.as_str());
        let full = escaped(&branch.full_ref());
        // Writing to a text never fails.
        let _ = write!(text, "{BEFORE_BRANCH}{name}{AFTER_BRANCH}\n\tremote = origin\n\tmerge = \"{full}\"\n");
    }
    text
}

fn filters(program: &Path) -> String {
    let settings = lfs::filters(program).map(|(name, value)| format!("\t{name} = \"{}\"\n", escaped(&value)));
    format!("{FILTERS}\n{}", settings.concat())
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

/// The address that a canonical repository was made from; absent where its file says anything but what we write.
pub fn address_of(repository: &Path) -> Option<String> {
    let url = url_in(&present(repository))?;
    is_right(repository, Wanted { url: &url, lfs: None }).then_some(url)
}

/// How the file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    AsItShouldBe,
    /// With what programs write there that are no harm: notes that git-lfs took for itself, whoever ran it (the service does),
    /// or what a sparse checkout needs; or written before git-lfs came, went or moved.
    WithNotes,
    Changed,
}

/// Whether the file says what it should, notes aside.
pub(super) fn is_right(repository: &Path, wanted: Wanted<'_>) -> bool {
    let present = present(repository);
    without_notes(&present, wanted) == without_notes(&render(wanted, &upstreams_in(&present)), wanted)
}

/// Makes the file say exactly what it should, with the branches that it has.
pub(super) fn put(repository: &Path, wanted: Wanted<'_>) -> Result<Found, GitError> {
    put_with(repository, wanted, |_| {})
}

/// Without the sections in which git-lfs keeps what it knows of an address, and without its filters, where they are what is
/// written for it at a place where it is looked for.
fn without_notes<'a>(text: &'a str, wanted: Wanted<'_>) -> Vec<&'a str> {
    let programs = std::env::split_paths(command::PATH).map(|directory| directory.join("git-lfs"));
    let ours: Vec<String> = programs.chain(wanted.lfs.map(Path::to_owned)).map(|program| filters(&program)).collect();
    let lines: Vec<&str> = text.lines().collect();
    let sections = lines.chunk_by(|_, next| !next.starts_with('['));
    let is_note = |section: &[&str]| {
        let is_ours = || ours.iter().any(|filters| filters.lines().eq(section.iter().copied()));
        section[0].starts_with("[lfs \"") || (section[0] == FILTERS && is_ours())
    };
    sections.filter(|section| !is_note(section)).flatten().copied().collect()
}

/// The file as it was before `git sparse-checkout set` changed it. It is put back all the same, since git would believe what
/// else stands in a worktree's own configuration: git-worktree(1), "Configuration file".
fn before_sparse_checkout(text: &str) -> String {
    match text.split_once(OF_WORKTREES) {
        Some((before, after)) if !text.contains(BARE) => {
            format!("{before}{after}").replacen(FILE_MODE, &format!("{FILE_MODE}{BARE}"), 1)
        }
        Some((before, after)) => format!("{before}{after}"),
        None => text.to_owned(),
    }
}

/// Lets a branch follow its namesake on the remote, or not any more.
pub(super) fn follow(
    repository: &Path,
    wanted: Wanted<'_>,
    branch: &BranchName,
    follows: bool,
) -> Result<(), GitError> {
    let change = |upstreams: &mut BTreeSet<BranchName>| match follows {
        true => drop(upstreams.insert(branch.clone())),
        false => drop(upstreams.remove(branch)),
    };
    put_with(repository, wanted, change).map(drop)
}

fn present(repository: &Path) -> String {
    let bytes = plain_file(&repository.join("config"), MOST_BYTES).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

fn put_with(
    repository: &Path,
    wanted: Wanted<'_>,
    change: impl FnOnce(&mut BTreeSet<BranchName>),
) -> Result<Found, GitError> {
    let path = repository.join("config");
    let present = present(repository);
    let mut upstreams = upstreams_in(&present);
    change(&mut upstreams);
    let text = render(wanted, &upstreams);
    if present == text {
        return Ok(Found::AsItShouldBe);
    }
    if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
        fs::remove_dir_all(&path).map_err(|error| GitError::file("removing", &path, &error))?;
    }
    let write = || {
        let new = repository.join(format!(".config.{}", uuid::Uuid::now_v7()));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().map_err(|error| GitError::file("writing", &path, &error))?;
    let same = without_notes(&before_sparse_checkout(&present), wanted) == without_notes(&text, wanted);
    Ok(if same { Found::WithNotes } else { Found::Changed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_survives_a_round_trip() {
        for url in ["https://github.com/octo/hello.git", "/tmp/odd \"dir\" \\x/r.git"] {
            let wanted = Wanted { url, lfs: Some(Path::new("/usr/bin/git-lfs")) };
            assert_eq!(url_in(&render(wanted, &BTreeSet::new())).as_deref(), Some(url));
        }
        assert_eq!(url_in("[core]\n\tbare = true\n"), None);
    }

    #[test]
    fn branches_follow_their_namesakes_and_nothing_else_of_a_section_is_believed() {
        let temp = tempfile::tempdir().unwrap();
        let (url, path) = ("https://github.com/octo/hello.git", temp.path().join("config"));
        let text = || fs::read_to_string(&path).unwrap();
        let wanted = Wanted { url, lfs: None };
        put(temp.path(), wanted).unwrap();
        let without = text();
        for name in ["feature/x", "odd\"name"] {
            follow(temp.path(), wanted, &BranchName::new(name).unwrap(), true).unwrap();
        }
        let with = text();
        let section = "[branch \"feature/x\"]\n\tremote = origin\n\tmerge = \"refs/heads/feature/x\"\n";
        assert!(with.starts_with(&without) && with.contains(section), "{with}");
        assert_eq!(put(temp.path(), wanted).unwrap(), Found::AsItShouldBe);
        // What an agent writes into it is put back.
        let bad = "[branch \"feature/x\"]\n\tmerge = refs/heads/main\n[branch \"a..b\"]\n[core]\n\tfsmonitor = evil\n";
        fs::write(&path, format!("{with}{bad}")).unwrap();
        assert_eq!(put(temp.path(), wanted).unwrap(), Found::Changed);
        assert_eq!(text(), with);
        let notes = "[lfs \"https://github.com/octo/hello.git/info/lfs\"]\n\taccess = basic\n";
        fs::write(&path, format!("{with}{notes}")).unwrap();
        assert_eq!(put(temp.path(), wanted).unwrap(), Found::WithNotes);
        assert_eq!(text(), with);
        for name in ["feature/x", "odd\"name"] {
            follow(temp.path(), wanted, &BranchName::new(name).unwrap(), false).unwrap();
        }
        assert_eq!(text(), without);
        // Nor is a directory in its place the end of the repository.
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(path.join("deep/er")).unwrap();
        assert_eq!(put(temp.path(), wanted).unwrap(), Found::Changed);
        assert_eq!(text(), without);
    }

    #[test]
    fn what_a_sparse_checkout_needs_is_put_back_and_is_nobodys_attack() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("config");
        let wanted = Wanted { url: "https://github.com/octo/hello.git", lfs: None };
        put(temp.path(), wanted).unwrap();
        let right = fs::read_to_string(&path).unwrap();
        let sparse = format!("{}{OF_WORKTREES}", right.replace(BARE, ""));
        for text in [&sparse, &format!("{right}{OF_WORKTREES}")] {
            fs::write(&path, text).unwrap();
            assert!(!is_right(temp.path(), wanted), "git would believe a worktree's own configuration");
            assert_eq!(put(temp.path(), wanted).unwrap(), Found::WithNotes);
            assert_eq!(fs::read_to_string(&path).unwrap(), right);
        }
        for text in
            [right.replace(BARE, ""), format!("{sparse}\tpreciousObjects = true\n"), format!("{sparse}{OF_WORKTREES}")]
        {
            fs::write(&path, text).unwrap();
            assert_eq!(put(temp.path(), wanted).unwrap(), Found::Changed);
        }
    }

    /// The service is updated, or the program comes, goes or moves.
    #[test]
    fn filters_are_ours_whichever_of_our_places_they_name_and_nobody_elses() {
        let temp = tempfile::tempdir().unwrap();
        let (url, path) = ("https://github.com/octo/hello.git", temp.path().join("config"));
        let text = || fs::read_to_string(&path).unwrap();
        let [none, here, there] = [None, Some("/usr/bin/git-lfs"), Some("/usr/local/bin/git-lfs")]
            .map(|lfs| Wanted { url, lfs: lfs.map(Path::new) });
        put(temp.path(), none).unwrap();
        for wanted in [here, there, none, here] {
            assert!(is_right(temp.path(), wanted));
            assert_eq!(put(temp.path(), wanted).unwrap(), Found::WithNotes);
            assert_eq!(put(temp.path(), wanted).unwrap(), Found::AsItShouldBe);
        }
        let right = text();
        assert!(right.contains("[filter \"lfs\"]\n\tclean = \"'/usr/bin/git-lfs' clean -- %f\"\n"), "{right}");
        for bad in [
            right.replace("/usr/bin/git-lfs", "/tmp/git-lfs"),
            right.replace(" filter-process", " filter-process; evil"),
            format!("{right}[filter \"lfs\"]\n\tclean = evil\n"),
            format!("{right}\tclean = evil\n"),
        ] {
            fs::write(&path, &bad).unwrap();
            assert!(!is_right(temp.path(), here) && !is_right(temp.path(), none), "{bad}");
            assert_eq!(put(temp.path(), here).unwrap(), Found::Changed);
            assert_eq!(text(), right);
        }
    }
}
