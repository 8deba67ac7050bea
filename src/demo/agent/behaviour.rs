//! What the toy agent does when a task tells it to misbehave, for tests of whoever runs agents.

use std::{
    fs, io,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Whether the task has the word `agent:<name>`.
pub(super) fn asked(task: &str, name: &str) -> bool {
    words(task).any(|word| word == name)
}

/// The time of `agent:sleep=SECONDS`, which may have a fraction.
pub(super) fn sleep_of(task: &str) -> Option<Duration> {
    let seconds = words(task).find_map(|word| word.strip_prefix("sleep=")?.parse().ok())?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn words(task: &str) -> impl Iterator<Item = &str> {
    task.split_whitespace().filter_map(|word| word.trim_matches(['`', ',', ';']).strip_prefix("agent:"))
}

/// The task without such words.
pub(super) fn rest_of(task: &str) -> String {
    let is_plain = |word: &&str| !word.trim_matches(['`', ',', ';']).starts_with("agent:");
    let lines = task.lines().map(|line| line.split_whitespace().filter(is_plain).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Works in a directory and says what it did.
type Doing = fn(&Path) -> io::Result<String>;

/// Does what the first word it knows says and reports it; None when the task has no such word.
pub(super) fn special(task: &str, cwd: &Path) -> io::Result<Option<String>> {
    const DOINGS: [(&str, Doing); 5] =
        [("noop", noop), ("dirty-nested", dirty_nested), ("commit", commit), ("huge", huge), ("fork", fork)];
    match DOINGS.iter().find(|(name, _)| asked(task, name)) {
        Some((_, doing)) => doing(cwd).map(Some),
        None => Ok(None),
    }
}

fn noop(_: &Path) -> io::Result<String> {
    Ok("There was nothing to change.\n".to_owned())
}

/// Leaves a repository of its own, with uncommitted work, inside the worktree.
fn dirty_nested(cwd: &Path) -> io::Result<String> {
    let nested = cwd.join("nested");
    fs::create_dir_all(&nested)?;
    git(&nested, &["init", "--quiet"])?;
    fs::write(nested.join("work.txt"), "not committed\n")?;
    Ok("I left a repository with uncommitted work in `nested/`.\n".to_owned())
}

/// Commits by itself, as agents with git at hand like to do.
fn commit(cwd: &Path) -> io::Result<String> {
    let path = cwd.join("committed.txt");
    let before = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, before + "committed by the agent\n")?;
    git(cwd, &["add", "--all"])?;
    let identity = ["-c", "user.name=Toy agent", "-c", "user.email=toy-agent@localhost"];
    git(cwd, &[&identity[..], &["commit", "--quiet", "--message", "Work of the agent"]].concat())?;
    Ok("I changed `committed.txt` and committed it myself.\n".to_owned())
}

/// An answer longer than a comment may be, with characters of several bytes and a fence that is never closed.
fn huge(cwd: &Path) -> io::Result<String> {
    fs::write(cwd.join("huge.txt"), "see the answer\n")?;
    Ok(format!("Here is the whole log:\n\n```text\n{}", "Größe 🌳 line of the log\n".repeat(10_000)))
}

/// Leaves a process behind that outlives the agent.
fn fork(cwd: &Path) -> io::Result<String> {
    let mut sleep = Command::new("sleep");
    sleep.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = sleep.spawn()?;
    fs::write(cwd.join("left-behind.txt"), format!("{}\n", child.id()))?;
    Ok(format!("I left process {} running.\n", child.id()))
}

fn git(directory: &Path, arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("git").current_dir(directory).args(arguments).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr))))
}
