//! `git status`, counted. Anything git says on standard error, and anything not understood, is a doubt; only remarks
//! about how a repository's own attributes and patterns are written are none.

use super::Worktree;
use super::index::Lengths;
use super::keepsake::Ignored;
use crate::git::command::Output;
use crate::git::registry::AdminEntry;
use crate::git::{GitError, blocking};
use crate::model::{NotTaken, NotTakenBecause, Probe};
use git2::Oid;
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

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

    fn of(changes: &[Change]) -> Self {
        let mut status = Self::default();
        for change in changes {
            *match change.kind {
                Kind::Tracked | Kind::TakenOut => &mut status.tracked,
                Kind::Untracked => &mut status.untracked,
                Kind::Conflicted => &mut status.conflicted,
            } += 1;
        }
        status
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
        Ok(Status::of(&self.changes(&entry, None).await?))
    }

    /// What is not committed, as [`Worktree::status`] has it, and what git ignores and a keepsake would hold: by one
    /// walk.
    pub async fn uncommitted(&self) -> Probe<(Status, Ignored)> {
        let answer = async {
            let entry = self.entry().await?;
            let output = self.run_status(&entry, None, Walk::Ignored).await?;
            let (changes, ignored) = self.listed_in(output, &entry, None).await?;
            let listed = self.ignored_work_among(&entry, ignored).await?;
            Ok::<_, GitError>((Status::of(&changes), self.ignored_among(listed).await?))
        };
        answer.await.into()
    }

    /// Every path that differs from HEAD, by the worktree's own index or another.
    pub(super) async fn changes(&self, entry: &AdminEntry, index: Option<&Path>) -> Result<Vec<Change>, GitError> {
        let output = self.run_status(entry, index, Walk::Changes).await?;
        Ok(self.listed_in(output, entry, index).await?.0)
    }

    /// The same of everything that may be looked at, and what may not, with the reason.
    pub(super) async fn changes_in_sight(&self, entry: &AdminEntry) -> Result<(Vec<Change>, Vec<NotTaken>), GitError> {
        let mut output = self.run_status(entry, None, Walk::Changes).await?;
        let closed = take_closed(&mut output.stderr);
        Ok((self.listed_in(output, entry, None).await?.0, closed))
    }

    async fn run_status(&self, entry: &AdminEntry, index: Option<&Path>, walk: Walk) -> Result<Output, GitError> {
        let call = self.indexed(entry, "status", index).await?;
        let call = call.args(["--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=dirty"]);
        let call = call.arg("--no-renames");
        match walk {
            Walk::Changes => call.run().await,
            Walk::Ignored => call.arg("--ignored=matching").run().await,
        }
    }

    /// Changes, and what is ignored where that was asked for.
    async fn listed_in(
        &self,
        output: Output,
        entry: &AdminEntry,
        index: Option<&Path>,
    ) -> Result<(Vec<Change>, Vec<PathBuf>), GitError> {
        let (mut changes, ignored) = parse(&quiet(output)?)?;
        let hidden = self.hidden_by_others(entry, index).await?;
        changes.extend(hidden.into_iter().map(|path| Change { kind: Kind::Untracked, path, committed: None }));
        let committed: Vec<Oid> = changes.iter().filter_map(|change| change.committed).collect();
        if committed.is_empty() {
            return Ok((changes, ignored));
        }
        let (files, lengths) = (self.files.clone(), self.lengths_of(committed).await?);
        self.look_inside(&self.files, move || {
            changes.retain(|change| !is_as_committed(&lengths, &files, change));
            Ok((changes, ignored))
        })
        .await
    }

    /// Ignored files and directories that no tool rebuilds by itself, and that are no unchanged copies. Relative paths.
    pub async fn ignored_work(&self) -> Probe<Vec<PathBuf>> {
        let list = async {
            let entry = self.entry().await?;
            let output = self.run_status(&entry, None, Walk::Ignored).await?;
            let (_, ignored) = parse(&quiet(output)?)?;
            self.ignored_work_among(&entry, ignored).await
        };
        list.await.into()
    }

    async fn ignored_work_among(&self, entry: &AdminEntry, ignored: Vec<PathBuf>) -> Result<Vec<PathBuf>, GitError> {
        let listed = self.outside_caches(entry, ignored).await?;
        let (files, list) = (self.files.clone(), self.list());
        blocking(move || {
            let copies = list.load()?;
            Ok(listed.into_iter().filter(|path| !copies.accounts_for(&files, path)).collect())
        })
        .await
    }
}

/// What `git status` is to list.
#[derive(Clone, Copy)]
enum Walk {
    Changes,
    /// Also what is ignored: a directory as one where a pattern names it, single files elsewhere.
    Ignored,
}

/// Output of a call that must have looked at everything: an unreadable directory is only a warning to git.
pub(in crate::git) fn quiet(output: Output) -> Result<Vec<u8>, GitError> {
    if output.status != Some(0) {
        return Err(output.failure());
    }
    match output.stderr.split(|byte| *byte == b'\n').all(|line| is_harmless(&String::from_utf8_lossy(line))) {
        true => Ok(output.stdout),
        false => Err(GitError::Unreadable(output.remarks())),
    }
}

/// Takes out of standard error what `git status` cannot look into: directories, and what is known of their files.
/// Anything else that it complains of stays, above all patterns that it may not read: what they ignore would look new.
fn take_closed(stderr: &mut Vec<u8>) -> Vec<NotTaken> {
    let text = String::from_utf8_lossy(stderr).into_owned();
    let (told, others): (Vec<_>, Vec<_>) = text.lines().partition(|line| closed(line).is_some());
    *stderr = others.join("\n").into_bytes();
    told.into_iter().filter_map(closed).collect()
}

/// Where such a line says that. The words are those of git's `dir.c` and `diff-lib.c`.
fn closed(line: &str) -> Option<NotTaken> {
    let ended = CLOSED.iter().find_map(|why| Some((line.strip_suffix(why)?.strip_suffix(": ")?, *why)));
    let (place, why) = match ended {
        Some(ended) => ended,
        // The path is too long even for the message.
        None if line.len() >= LONGEST_LINE => {
            let path = line.strip_prefix(CANNOT_OPEN)?;
            return Some(NotTaken { path: path.into(), why: NotTakenBecause::GitRefuses(TOO_LONG.to_owned()) });
        }
        None => return None,
    };
    let path = match place.strip_prefix(CANNOT_OPEN) {
        Some(directory) => directory.strip_suffix('\'')?,
        None if ["warning: ", "error: ", "fatal: "].iter().any(|begin| place.starts_with(begin)) => return None,
        None => place,
    };
    Some(NotTaken { path: path.into(), why: NotTakenBecause::GitRefuses(why.to_owned()) })
}

const CANNOT_OPEN: &str = "warning: could not open directory '";

const TOO_LONG: &str = "File name too long";
const CLOSED: [&str; 2] = ["Permission denied", TOO_LONG];

/// Where git's `usage.c` cuts a message off.
const LONGEST_LINE: usize = 4095;

/// Whether a line of standard error only says that git passes over a line it cannot use in `.gitattributes`, or over
/// such a file or a `.gitignore` that is a link or far too large, or compares a file without converting it. Whoever
/// commits such a thing must not stop every delivery, and all files were looked at. The words are those of git's
/// `attr.c`, `dir.c` and `convert.c`; any others are a doubt.
fn is_harmless(line: &str) -> bool {
    let warning = line.strip_prefix("warning: ").unwrap_or_default();
    let error = line.strip_prefix("error: ").unwrap_or_default();
    // `<file>:<line>`, at the end.
    let in_attributes = |place: &str| {
        let place =
            place.rsplit_once(':').filter(|(_, line)| !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()));
        place.is_some_and(|(file, _)| file.ends_with("attributes"))
    };
    let of_its_own = |file: &str| {
        let name = file.rsplit('/').next();
        matches!(name, Some(".gitattributes" | ".gitignore"))
    };
    let linked = warning.strip_prefix("unable to access '").and_then(|rest| rest.strip_suffix(LINKED));
    line.is_empty()
        || warning == "Negative patterns are ignored in git attributes"
        || line == "Use '\\!' for literal leading exclamation."
        || warning.starts_with("ignoring overly long attributes line ")
        || warning.starts_with("ignoring overly large gitattributes ")
        || warning.strip_prefix("ignoring excessively large pattern file: ").is_some_and(of_its_own)
        || linked.is_some_and(of_its_own)
        || (line.starts_with("[attr]")
            && line.rsplit_once(" not allowed: ").is_some_and(|(_, place)| in_attributes(place)))
        || line.rsplit_once(" is not a valid attribute name: ").is_some_and(|(_, place)| in_attributes(place))
        || error.starts_with("failed to encode '")
        || error.starts_with("BOM is ")
}

/// How git names that it follows no link in the place of such a file.
const LINKED: &str = "': Too many levels of symbolic links";

/// Byte for byte what is committed: only git's conversion of line ends would write it differently. Nobody changed it,
/// and nothing is lost with it.
fn is_as_committed(lengths: &Lengths, files: &Path, change: &Change) -> bool {
    change.committed.is_some_and(|blob| lengths.is_blob(&files.join(&change.path), blob).unwrap_or(false))
}

/// One path that differs from HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub kind: Kind,
    /// Relative; a final slash marks a repository of its own.
    pub path: PathBuf,
    /// The blob that HEAD and index agree on, where a plain file may still be exactly that.
    pub committed: Option<Oid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tracked,
    /// HEAD has it and the index has not, as after `git rm --cached`; the file may be there, ignored.
    TakenOut,
    Untracked,
    Conflicted,
}

/// Porcelain format 2, as git-status(1) describes it: how many fields come before the path depends on the record.
/// Beside the changes stands what is ignored.
fn parse(output: &[u8]) -> Result<(Vec<Change>, Vec<PathBuf>), GitError> {
    let (mut changes, mut ignored) = (Vec::new(), Vec::new());
    let mut records = output.split(|byte| *byte == 0);
    while let Some(record) = records.next() {
        let (kind, fields) = match record {
            [] | [b'#', b' ', ..] => continue,
            [b'!', b' ', path @ ..] if !path.is_empty() => {
                ignored.push(path_of(path));
                continue;
            }
            [b'1', b' ', b'D', b'.', ..] => (Kind::TakenOut, 8),
            [b'1', b' ', ..] => (Kind::Tracked, 8),
            [b'2', b' ', ..] => (Kind::Tracked, 9),
            [b'u', b' ', ..] => (Kind::Conflicted, 10),
            [b'?', b' ', ..] => (Kind::Untracked, 1),
            odd => return Err(doubt(odd)),
        };
        let path = record.splitn(fields + 1, |byte| *byte == b' ').nth(fields).filter(|path| !path.is_empty());
        let path = path_of(path.ok_or_else(|| doubt(record))?);
        changes.push(Change { kind, path, committed: committed(record) });
        if record[0] == b'2' {
            // The path it had before is a record of its own.
            let before = records.next().filter(|path| !path.is_empty()).ok_or_else(|| doubt(record))?;
            changes.push(Change { kind, path: path_of(before), committed: None });
        }
    }
    Ok((changes, ignored))
}

/// Of `1 .M N... <mode HEAD> <mode index> <mode file> <HEAD> <index> <path>`, with one mode of a plain file.
fn committed(record: &[u8]) -> Option<Oid> {
    let fields: Vec<&[u8]> = record.splitn(9, |byte| *byte == b' ').collect();
    match fields[..] {
        [b"1", b".M", _, head_mode, index_mode, file_mode, head, index, _]
            if head == index && head_mode == index_mode && index_mode == file_mode && head_mode.starts_with(b"100") =>
        {
            Oid::from_str(str::from_utf8(head).ok()?).ok()
        }
        _ => None,
    }
}

fn doubt(record: &[u8]) -> GitError {
    GitError::Unreadable(format!("git status said something odd: {}", String::from_utf8_lossy(record)))
}

pub(in crate::git) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_are_told_apart_whatever_the_names() {
        let output = b"1 .M N... 100644 100644 100644 a a f g\0\
            2 R. N... 100644 100644 100644 a a R100 g\0? not untracked\0\
            1 D. N... 100644 000000 000000 a 0 gone\0\
            1 DA N... 100644 000000 100644 a 0 meant\0u UU N... 1 2 3 4 a b c x\0? x\xffy\0? n\nl/\0! t/\0";
        let (changes, ignored) = parse(output).unwrap();
        assert_eq!(ignored, [Path::new("t/")]);
        let told: Vec<_> =
            changes.iter().map(|change| (change.kind, change.path.as_os_str().as_encoded_bytes())).collect();
        assert_eq!(
            told,
            [
                (Kind::Tracked, &b"f g"[..]),
                (Kind::Tracked, b"g"),
                (Kind::Tracked, b"? not untracked"),
                (Kind::TakenOut, b"gone"),
                (Kind::Tracked, b"meant"),
                (Kind::Conflicted, b"x"),
                (Kind::Untracked, b"x\xffy"),
                (Kind::Untracked, b"n\nl/"),
            ]
        );
        assert_eq!(parse(b"").unwrap(), Default::default());
        for odd in [&b"fatal: odd\0"[..], b"2 R. N... 1 2 3 a a R100 g\0", b"1 .M N...\0", b"? \0", b"! \0"] {
            assert!(parse(odd).is_err());
        }
    }

    #[test]
    fn only_what_could_not_be_looked_at_is_a_doubt() {
        for harmless in [
            "",
            "warning: Negative patterns are ignored in git attributes",
            "Use '\\!' for literal leading exclamation.",
            "warning: ignoring overly long attributes line 3",
            "warning: ignoring overly large gitattributes file 'a/.gitattributes'",
            "[attr]x text not allowed: sub/.gitattributes:1",
            "te!xt is not a valid attribute name: .gitattributes:12",
            "warning: unable to access 'a/.gitignore': Too many levels of symbolic links",
            "warning: unable to access '.gitattributes': Too many levels of symbolic links",
            "error: failed to encode 'f' from UTF-99 to UTF-8",
            "error: BOM is required in 'f' if encoded as UTF-16",
        ] {
            assert!(is_harmless(harmless), "{harmless}");
        }
        for doubt in [
            "warning: could not open directory 'closed/': Permission denied",
            "warning: could not open directory ' is not a valid attribute name: .gitattributes:1/': Permission denied",
            "warning: unable to access '.gitignore': Permission denied",
            "warning: unable to access 'f': Too many levels of symbolic links",
            "warning: cannot fstat gitattributes file '.gitattributes': x",
            "error: could not stat 'f'",
            "[attr]x text not allowed: elsewhere",
        ] {
            assert!(!is_harmless(doubt), "{doubt}");
        }
    }

    #[test]
    fn what_is_closed_is_told_apart_from_every_other_doubt() {
        let patterns = "warning: unable to access '.gitignore': Permission denied";
        let odd = "error: x: Permission denied";
        let said = format!(
            "data/a: Permission denied\nwarning: could not open directory 'a b/': Permission denied\n{patterns}\n{odd}\n"
        );
        let mut stderr = said.into_bytes();
        let closed: Vec<_> = take_closed(&mut stderr).into_iter().map(|closed| (closed.path, closed.why)).collect();
        let denied = || NotTakenBecause::GitRefuses("Permission denied".to_owned());
        assert_eq!(closed, ["data/a", "a b/"].map(|path| (PathBuf::from(path), denied())));
        assert_eq!(String::from_utf8(stderr).unwrap(), format!("{patterns}\n{odd}"));
        for (length, end) in [(100, "/': File name too long"), (5000, "")] {
            let said = format!("warning: could not open directory '{}{end}", "d/".repeat(length));
            let mut stderr = said.as_bytes()[..said.len().min(LONGEST_LINE)].to_vec();
            let closed = take_closed(&mut stderr);
            assert!(stderr.is_empty() && closed[0].path.starts_with("d/d"), "{closed:?}");
            assert_eq!(closed[0].why, NotTakenBecause::GitRefuses(TOO_LONG.to_owned()));
        }
        let mut broken = b"warning: could not open directory 'a/': Input/output error".to_vec();
        assert!(take_closed(&mut broken).is_empty() && !broken.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_a_doubt(output in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&output);
        }
    }
}
