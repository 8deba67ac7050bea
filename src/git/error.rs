//! How work with git can fail, as far as callers need to tell the cases apart; each variant is a sentence for people.
//!
//! Git reports network failures by exit status 128 and English text only. The text is read here and nowhere else, and
//! all it decides is how precise the sentence is and whether trying again may help; never whether something is safe.

use secrecy::{ExposeSecret, SecretString};
use std::{io, path::PathBuf, time::Duration};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    #[error("{0} does not exist")]
    NotFound(String),
    #[error("{reason}")]
    Refused { reason: String },
    /// Somebody left a merge, a rebase or conflicts in a worktree, which the service does not end for them.
    #[error("{0}")]
    Unfinished(String),
    /// What no commit can hold, so that nothing keeps it.
    #[error("{0}")]
    NotKeepable(String),
    #[error("{} exists already and is not empty; it was left as it is, and has to be moved away first", .0.display())]
    PathExists(PathBuf),
    #[error("the git server could not be reached: {0}")]
    Unreachable(String),
    #[error("the git server did not accept the access token")]
    AuthFailed,
    #[error("the disk is full")]
    DiskFull,
    /// Git does not say why; by the time it gives up it has made room again.
    #[error("git {command} could not write its files; the disk may be full, or its permissions wrong: {stderr}")]
    NotWritten { command: String, stderr: String },
    #[error("git {command} took longer than {} s and was stopped", .after.as_secs())]
    TimedOut { command: String, after: Duration },
    /// Git, or a program of its own, was ended by a signal: memory was short, or somebody did it.
    #[error("git {command} was ended from outside, as a system short of memory does{}", said_last(.stderr))]
    Killed { command: String, stderr: String },
    /// `stderr` has the token taken out and is cut to a readable length.
    #[error("git {command} failed{}: {stderr}", .status.map(|status| format!(" (exit status {status})")).unwrap_or_default())]
    Failed { command: String, status: Option<i32>, stderr: String },
    /// A lock file, or a registration that is being written.
    #[error(
        "{} is in the way, and process {process} may still hold it; nothing was removed or changed. It can go on when that \
         process has ended", .path.display()
    )]
    Held { path: PathBuf, process: u32 },
    #[error("the repository could not be read: {0}")]
    Unreadable(String),
}

impl GitError {
    /// Whether the same step may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            GitError::Unreachable(_) | GitError::TimedOut { .. } | GitError::Killed { .. } | GitError::Held { .. } => {
                true
            }
            GitError::AuthFailed
            | GitError::NotFound(_)
            | GitError::Refused { .. }
            | GitError::Unfinished(_)
            | GitError::NotKeepable(_)
            | GitError::PathExists(_)
            | GitError::DiskFull
            | GitError::NotWritten { .. }
            | GitError::Failed { .. }
            | GitError::Unreadable(_) => false,
        }
    }

    /// The server does not take who asks, or has nothing of that name.
    pub fn is_refusal(&self) -> bool {
        matches!(self, GitError::AuthFailed | GitError::NotFound(_))
    }

    /// Whether nobody answered, or only to say that the server is out of order.
    pub fn is_out_of_reach(&self) -> bool {
        match self {
            GitError::Unreachable(_) | GitError::TimedOut { .. } => true,
            GitError::Killed { .. }
            | GitError::Held { .. }
            | GitError::AuthFailed
            | GitError::NotFound(_)
            | GitError::Refused { .. }
            | GitError::Unfinished(_)
            | GitError::NotKeepable(_)
            | GitError::PathExists(_)
            | GitError::DiskFull
            | GitError::NotWritten { .. }
            | GitError::Failed { .. }
            | GitError::Unreadable(_) => false,
        }
    }

    /// In words for people elsewhere: `here` is left off, and of other absolute paths only the last part is told.
    pub(super) fn told_outside(&self, here: &std::path::Path) -> String {
        without_places(&self.to_string().replace(&format!("{}/", here.display()), ""))
    }

    pub(super) fn refused(reason: impl Into<String>) -> Self {
        GitError::Refused { reason: reason.into() }
    }

    /// Somebody else was faster.
    pub(crate) fn moved_meanwhile(what: impl std::fmt::Display) -> Self {
        GitError::refused(format!(
            "{what} moved meanwhile; nothing was changed, and asking again goes by where it is now"
        ))
    }

    /// What it means where git does not find an object that was just written.
    pub(super) fn of_what_was_just_written(self) -> Self {
        match self {
            GitError::Failed { stderr, .. } if stderr.contains("missing") || stderr.contains("bad object") => {
                GitError::refused(
                    "somebody deleted from the repository what was just written there, as `git prune` does; asking again keeps it",
                )
            }
            error => error,
        }
    }

    pub(super) fn file(what: &str, path: &std::path::Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull => GitError::DiskFull,
            _ => GitError::Unreadable(format!("{what} {}: {error}", path.display())),
        }
    }
}

impl From<git2::Error> for GitError {
    fn from(error: git2::Error) -> Self {
        match error.code() {
            git2::ErrorCode::NotFound => GitError::NotFound(error.message().to_owned()),
            _ => GitError::Unreadable(error.message().to_owned()),
        }
    }
}

fn said_last(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}

fn without_places(text: &str) -> String {
    let mut told = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let begins =
            told.chars().next_back().is_none_or(|before| before.is_whitespace() || "'\"`([=<".contains(before));
        if c != '/' || !begins {
            told.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let end = rest.find(|c: char| c.is_whitespace() || "'\"`)]>,;".contains(c)).unwrap_or(rest.len());
        let (place, after) = rest.split_at(end);
        let named = place.trim_end_matches([':', '.', '/']);
        told.push_str(named.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("…"));
        told.push_str(place[named.len()..].trim_end_matches('/'));
        rest = after;
    }
    told
}

/// Names a failure from git's exit status, absent after a signal, and its standard error.
pub(super) fn failure(command: &str, status: Option<i32>, stderr: &[u8], secret: Option<&SecretString>) -> GitError {
    let text = readable(stderr, secret);
    let all = String::from_utf8_lossy(stderr);
    let says = |needles: &[&str]| needles.iter().any(|needle| all.contains(needle));
    if says(&["No space left on device", "Disk quota exceeded"]) {
        return GitError::DiskFull;
    }
    // Elsewhere it is a filter, which may die of the very file.
    let speaks_with_remote = matches!(command, "fetch" | "push" | "ls-remote");
    // A new worktree is filled by a git of its own.
    let its_own = command == "worktree add" && says(&["error: reset died of signal "]);
    if status.is_none() || its_own || (speaks_with_remote && says(&[" died of signal "])) {
        return GitError::Killed { command: command.to_owned(), stderr: text };
    }
    if command == "fetch" && says(&["lazy fetching disabled", "from promisor remote"]) {
        return GitError::refused(
            "the remote lacks contents of its own history (it is a partial clone itself); `git fetch --refetch --no-filter \
             origin` in the remote's own repository mends that",
        );
    }
    if says(&[
        "Authentication failed",
        "could not read Password",
        "could not read Username",
        "error: 401",
        "error: 403",
    ]) {
        return GitError::AuthFailed;
    }
    if let Some((_, name)) = all.split_once("couldn't find remote ref ") {
        return GitError::NotFound(format!("{} on the remote", name.lines().next().unwrap_or_default().trim()));
    }
    if says(&["repository not found", "Repository not found", "does not appear to be a git repository"])
        || (says(&["fatal: repository "]) && says(&["not found", "does not exist"]))
    {
        return GitError::NotFound("the remote repository".to_owned());
    }
    if says(&[
        "Could not resolve host",
        "Failed to connect",
        "Couldn't connect",
        "unable to access",
        "early EOF",
        "the remote end hung up",
        "RPC failed",
        "Connection reset",
    ]) {
        return GitError::Unreachable(text);
    }
    if says(&["unable to write", "failed to write", "could not write", "insufficient permission for adding an object"])
    {
        return GitError::NotWritten { command: command.to_owned(), stderr: text };
    }
    GitError::Failed { command: command.to_owned(), status, stderr: text }
}

/// Standard error as one readable line: lossy UTF-8, without the secret, without progress noise, with
/// nothing of the middle where it has more than 600 characters.
pub(super) fn readable(stderr: &[u8], secret: Option<&SecretString>) -> String {
    let mut text = String::from_utf8_lossy(stderr).replace(['\r', '\n'], " ");
    if let Some(secret) = secret.filter(|secret| !secret.expose_secret().is_empty()) {
        text = text.replace(secret.expose_secret(), "[token]");
    }
    let text = text.trim();
    match text.chars().count() {
        0..=600 => text.to_owned(),
        length => text.chars().take(400).chain(['…']).chain(text.chars().skip(length - 200)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stderr: &str) -> GitError {
        failure("fetch", Some(128), stderr.as_bytes(), None)
    }

    #[test]
    fn failures_are_named_by_what_git_says() {
        assert_eq!(of("fatal: write error: No space left on device"), GitError::DiskFull);
        assert_eq!(of("fatal: Authentication failed for 'https://h/x/'"), GitError::AuthFailed);
        let far = format!("{}\nfatal: Authentication failed for 'https://h/x/'\n{}", "x".repeat(450), "y".repeat(450));
        assert_eq!(of(&far), GitError::AuthFailed, "wherever it stands");
        let missing = of("fatal: couldn't find remote ref refs/pull/7/head\n");
        assert_eq!(missing, GitError::NotFound("refs/pull/7/head on the remote".into()));
        assert_eq!(
            of("fatal: repository 'https://h/x/' not found").to_string(),
            "the remote repository does not exist"
        );
        assert!(of("fatal: unable to access 'https://h/': Could not resolve host: h").is_transient());
        assert!(!of("fatal: bad object").is_transient());
    }

    #[test]
    fn what_was_killed_is_worth_another_try() {
        let alone = failure("push", None, b"", None);
        assert_eq!(alone.to_string(), "git push was ended from outside, as a system short of memory does");
        let helper = of("error: git-remote-http died of signal 9\nfatal: expected flush after ref listing");
        assert!(
            helper
                .to_string()
                .ends_with("does: error: git-remote-http died of signal 9 fatal: expected flush after ref listing"),
            "{helper}"
        );
        assert!(alone.is_transient() && helper.is_transient() && !helper.is_out_of_reach());
        let inner = failure("worktree add", Some(137), b"error: reset died of signal 9", None);
        assert!(inner.is_transient(), "{inner}");
        let filter = failure("update-index", Some(128), b"error: external filter 'x' died of signal 11", None);
        assert!(!filter.is_transient(), "of the very file, it may be");
    }

    #[test]
    fn where_things_are_on_this_machine_is_not_told() {
        let here = std::path::Path::new("/srv/trees/b");
        for (text, told) in [
            (
                "fatal: clone of 'https://h/x' into submodule path '/srv/trees/b/a/sub' failed",
                "fatal: clone of 'https://h/x' into submodule path 'a/sub' failed",
            ),
            ("fatal: '/srv/repos/c.git/worktrees/b': no", "fatal: 'b': no"),
            ("reading /srv/x/config: denied (/)", "reading config: denied (…)"),
            ("a/b and 1/2 stay", "a/b and 1/2 stay"),
        ] {
            assert_eq!(GitError::refused(text).told_outside(here), told);
        }
    }

    #[test]
    fn the_secret_never_shows() {
        let secret = SecretString::from("ghs_abc");
        let error = failure("push", Some(1), b"fatal: odd https://x:ghs_abc@h\nmore", Some(&secret));
        assert_eq!(error.to_string(), "git push failed (exit status 1): fatal: odd https://x:[token]@h more");
    }
}
