//! What was in the files that were ever copied into worktrees of a repository, whatever became of the worktrees, and of the
//! files that the operator keeps. Git does not commit a file as it is: it turns line ends, encodings and expanded keywords
//! round, and puts a pointer in the place of a file that is kept by LFS. So contents are compared as text with all of that
//! taken off, or by the pointer.

use super::manifest::{MOST_LISTED, lists_of, write_beside};
use crate::git::error::GitError;
use crate::git::lfs::{POINTER, POINTER_BYTES};
use crate::git::plain_file;
use crate::plain_file::{self as plain, Links};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// No directory of a worktree has a name like this.
pub(super) const FILE: &str = "~contents";

/// More than numbers of versions have.
const MANY_DIGITS: usize = 6;

/// Longer ones are compared byte by byte only.
const MOST_TEXT: u64 = 1024 * 1024;

/// The contents, each by one or two marks of this module's own.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Known(BTreeSet<String>);

impl Known {
    pub fn load(repository: &Path) -> Result<Self, GitError> {
        let path = file(repository);
        match plain_file(&path, MOST_LISTED) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| GitError::Unreadable(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(GitError::file("reading", &path, &error)),
        }
    }

    /// What these files, below `directory`, hold is known from now on. One at a time for each repository.
    pub fn add<'a>(
        repository: &Path,
        directory: &Path,
        files: impl Iterator<Item = &'a String>,
    ) -> Result<(), GitError> {
        let mut all = Vec::new();
        for name in files {
            let marks = marks_of_file(&directory.join(name));
            all.extend(marks.map_err(|error| GitError::file("reading", Path::new(name), &error))?);
        }
        Self::add_marks(repository, all)
    }

    /// The same of what is no file here.
    pub fn add_contents(repository: &Path, contents: &[Vec<u8>]) -> Result<(), GitError> {
        Self::add_marks(repository, contents.iter().flat_map(|content| marks(content)).collect())
    }

    fn add_marks(repository: &Path, marks: Vec<String>) -> Result<(), GitError> {
        let mut known = Self::load(repository)?;
        let before = known.0.len();
        known.0.extend(marks);
        if known.0.len() == before {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&known).map_err(|error| GitError::Unreadable(error.to_string()))?;
        write_beside(&file(repository), &bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a blob of so many bytes is worth reading.
    pub fn may_hold(&self, length: u64) -> bool {
        let is_long = |mark: &String| mark.strip_prefix(&length.to_string()).is_some_and(|rest| rest.starts_with(' '));
        !self.is_empty() && (length <= 2 * MOST_TEXT || self.0.iter().any(is_long))
    }

    /// Whether a blob holds what a copy held, however git wrote it.
    pub fn holds(&self, blob: &[u8]) -> bool {
        if let Some(mark) = pointer(blob) {
            return self.0.contains(&mark);
        }
        let of_text = (blob.len() as u64 <= 2 * MOST_TEXT).then(|| text(blob)).flatten();
        of_text.is_some_and(|mark| self.0.contains(&mark))
            || self.0.contains(&whole(blob.len() as u64, &hex::encode(Sha256::digest(blob))))
    }
}

fn file(repository: &Path) -> PathBuf {
    lists_of(repository).join(FILE)
}

/// Empty for what gives nothing away.
fn marks_of_file(path: &Path) -> io::Result<Vec<String>> {
    if let Ok(target) = fs::read_link(path) {
        return Ok(marks(target.as_os_str().as_encoded_bytes()));
    }
    let mut file = plain::open(path, Links::Refuse)?;
    let length = file.metadata()?.len();
    if length <= MOST_TEXT {
        let mut bytes = Vec::new();
        (&mut file).take(MOST_TEXT).read_to_end(&mut bytes)?;
        return Ok(marks(&bytes));
    }
    let (mut digest, mut read, mut part) = (Sha256::new(), 0, vec![0; MOST_TEXT as usize]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(vec![whole(read, &hex::encode(digest.finalize()))]),
            length => {
                digest.update(&part[..length]);
                read += length as u64;
            }
        }
    }
}

fn marks(bytes: &[u8]) -> Vec<String> {
    let of_text = text(bytes);
    // What says nothing as text says nothing at all.
    let of_whole = of_text.is_some().then(|| whole(bytes.len() as u64, &hex::encode(Sha256::digest(bytes))));
    of_text.into_iter().chain(of_whole).collect()
}

fn whole(length: u64, digest: &str) -> String {
    format!("{length} {digest}")
}

/// Absent where there is no letter and hardly a digit: many files are like that, and hold nothing or the number of a version.
fn text(bytes: &[u8]) -> Option<String> {
    let decoded = decoded(bytes);
    let text = decoded.as_deref().unwrap_or(bytes);
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = behind;
        // Also a mark of an expanded keyword ends at a line's end; without its end it is none.
        if rest.starts_with(b"Id:") && *first == b'$' {
            let line = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            if let Some(end) = rest[..line].iter().position(|byte| *byte == b'$') {
                plain.extend_from_slice(b"$Id$");
                rest = &rest[end + 1..];
                continue;
            }
        }
        if !(*first == b'\r' && rest.first() == Some(&b'\n')) {
            plain.push(*first);
        }
    }
    let has_letters = plain.iter().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii());
    let says = has_letters || plain.iter().filter(|byte| byte.is_ascii_digit()).count() >= MANY_DIGITS;
    says.then(|| format!("text {}", hex::encode(Sha256::digest(&plain))))
}

/// UTF-16 as UTF-8, where a mark at the beginning says that it is that.
fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let (unit, rest): (fn([u8; 2]) -> u16, _) = match bytes {
        [0xff, 0xfe, rest @ ..] => (u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => (u16::from_be_bytes, rest),
        _ => return None,
    };
    let (units, []) = rest.as_chunks::<2>() else { return None };
    char::decode_utf16(units.iter().copied().map(unit)).collect::<Result<String, _>>().ok().map(String::into_bytes)
}

/// The file that a pointer of LFS stands for.
fn pointer(blob: &[u8]) -> Option<String> {
    if blob.len() as u64 > POINTER_BYTES || !blob.starts_with(POINTER) {
        return None;
    }
    let lines = || std::str::from_utf8(blob).ok().map(str::lines);
    let value = |key: &str| lines()?.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    let digest = value("oid")?.strip_prefix("sha256:")?;
    Some(whole(value("size")?.parse().ok()?, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(content: &[u8]) -> Known {
        Known(marks(content).into_iter().collect())
    }

    #[test]
    fn however_git_writes_it_it_is_the_same() {
        let utf16: Vec<u8> = [0xfeff].into_iter().chain("K=é\r\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
        for (file, blob) in [
            (&b"K=1\r\nL=2\r\n"[..], &b"K=1\nL=2\n"[..]),
            (b"K=1\nL=2\n", b"K=1\r\nL=2\r\n"),
            (b"K=1\r\nL=2\n", b"K=1\nL=2\n"),
            (b"# $Id: 0123 $\nK=1\n", b"# $Id$\nK=1\n"),
            (&utf16, "K=é\n".as_bytes()),
            (b"\xef\xbb\xbfK=1\n", b"K=1\n"),
        ] {
            assert!(known(file).holds(blob), "{file:?} as {blob:?}");
            assert!(known(file).holds(file), "{file:?}");
        }
    }

    #[test]
    fn a_pointer_is_what_it_stands_for() {
        let digest = hex::encode(Sha256::digest(b"secret\n"));
        let pointer =
            |digest: &str| format!("version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 7\n");
        assert!(known(b"secret\n").holds(pointer(&digest).as_bytes()));
        assert!(!known(b"secret\n").holds(pointer(&hex::encode(Sha256::digest(b"public\n"))).as_bytes()));
    }

    #[test]
    fn what_says_nothing_and_what_says_something_else_is_let_go() {
        for nothing in [&b""[..], b"\n", b"{}\n", b" \r\n", b"20\n", b"3.12.4\n"] {
            assert!(known(nothing).is_empty(), "{nothing:?}");
        }
        for (file, blob) in [(&b"K=1\n"[..], &b"K=2\n"[..]), (b"$Id: a", b"$Id$"), (b"a\rb", b"ab"), (b"ab", b"a b")] {
            assert!(!known(file).holds(blob), "{file:?} as {blob:?}");
        }
    }
}
