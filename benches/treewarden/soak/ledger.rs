//! What must not be lost, as those wrote it down who made it: one line of JSON a note, after the fact.

use git2::{ObjectType, Oid};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Note {
    /// Made in the service's repository, or pushed to the remote, of the codebase.
    Commit { codebase: String, sha: String },
    /// Left at `name` in the worktree at `place`, without a commit, `at` so many microseconds.
    File { codebase: String, place: PathBuf, name: String, blob: String, at: u64 },
    /// In a repository of its own below the worktree.
    Nested { place: PathBuf, name: String, blob: String },
    /// Of people, who deleted the branch that it was on themselves.
    LetGo { sha: String },
    /// Whoever left it replaced it.
    Replaced { blob: String },
    /// HEAD may be anywhere there.
    Wandered { place: PathBuf },
}

/// A file that everybody appends to.
#[derive(Clone, Debug)]
pub struct Ledger(PathBuf);

impl Ledger {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A line a call, so that nobody's words stand within another's.
    pub fn note(&self, note: &Note) {
        let line = serde_json::to_string(note).expect("a note is JSON") + "\n";
        let file = fs::OpenOptions::new().create(true).append(true).open(&self.0);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the ledger can be written");
    }

    /// A writer that was killed leaves half a line, of which nothing is known.
    pub fn read(&self) -> Vec<Note> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

pub fn blob(bytes: &[u8]) -> String {
    Oid::hash_object(ObjectType::Blob, bytes).expect("a hash").to_string()
}

/// Puts a whole file to its place in one step, where its directory still is, and notes it down; what was there without a
/// commit is replaced. Whether it is there.
pub fn leave(ledger: &Ledger, (codebase, place, name): (&str, &Path, &str), text: &str) -> bool {
    let target = place.join(name);
    let uncommitted = fs::read(&target).ok().map(|bytes| blob(&bytes));
    let uncommitted =
        uncommitted.filter(|sha| git(place, &["rev-parse", &format!("HEAD:{name}")]).as_ref() != Some(sha));
    let draft = ledger.path().with_extension(format!("draft-{}", std::process::id()));
    let left = fs::write(&draft, text).and_then(|()| fs::rename(&draft, &target));
    let _ = fs::remove_file(&draft);
    if left.is_err() {
        return false;
    }
    if let Some(blob) = uncommitted {
        ledger.note(&Note::Replaced { blob });
    }
    let (codebase, place, name) = (codebase.to_owned(), place.to_owned(), name.to_owned());
    let at = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros() as u64);
    ledger.note(&Note::File { codebase, place, name, blob: blob(text.as_bytes()), at });
    true
}

/// What git says, without the last line break; `None` when it failed.
pub fn git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = plain_git(directory).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// A git that knows of nobody's settings.
pub fn plain_git(directory: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(directory).args(["-c", "user.name=Agent", "-c", "user.email=agent@localhost"]);
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.stdin(std::process::Stdio::null());
    git
}

/// Makes directories below a place that is there; never the place itself.
pub fn room(place: &Path, name: &str) -> io::Result<()> {
    match Path::new(name).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => match fs::create_dir(place.join(parent)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
