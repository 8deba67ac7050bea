//! Threads, and the work that is done for them: what both are called.

use super::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// Which thread of its platform a conversation is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ThreadId {
    /// An issue or pull request of the codebase.
    Numbered { kind: ThreadKind, number: ThreadNumber },
    /// A thread that has a name of its own on its platform.
    Named(ThreadName),
}

impl ThreadId {
    pub fn number(&self) -> Option<ThreadNumber> {
        match self {
            ThreadId::Numbered { number, .. } => Some(*number),
            ThreadId::Named(_) => None,
        }
    }

    /// The pull request that it is.
    pub fn pull_request(&self) -> Option<ThreadNumber> {
        match self {
            ThreadId::Numbered { kind: ThreadKind::PullRequest, number } => Some(*number),
            ThreadId::Numbered { kind: ThreadKind::Issue, .. } | ThreadId::Named(_) => None,
        }
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadId::Numbered { number, .. } => number.fmt(f),
            ThreadId::Named(name) => name.fmt(f),
        }
    }
}

/// An issue or pull request of another repository that a closing reference names. Each is worked on apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Absent where only a text names it.
    #[serde(default)]
    pub repository: Option<RepositoryId>,
    /// As it was called when it was named.
    pub name: RepoName,
    pub number: ThreadNumber,
}

impl Elsewhere {
    /// Whether both are the same thread, as far as that is known.
    pub fn is(&self, other: &Self) -> bool {
        let same_place = match (self.repository, other.repository) {
            (Some(one), Some(two)) => one == two,
            (None, _) | (_, None) => self.name.is_called(&other.name),
        };
        same_place && self.number == other.number
    }
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.number)
    }
}

/// The work an environment is for: a kind and an id within the codebase, shown as `issue-42`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Work {
    pub kind: WorkKind,
    pub id: String,
}

impl Work {
    /// A worktree that somebody asked for by its branch.
    pub fn on_branch(branch: &BranchName) -> Self {
        Self { kind: WorkKind::Task, id: branch.to_string() }
    }

    /// A task that somebody names in words of their own: `Add dark mode!` is `task-add-dark-mode`.
    pub fn of_task(words: &str) -> Self {
        Self { kind: WorkKind::Task, id: slugified(words) }
    }

    /// The work that a thread stands for.
    pub fn of_thread(thread: &ThreadId) -> Self {
        match thread {
            ThreadId::Numbered { kind: ThreadKind::Issue, number } => {
                Self { kind: WorkKind::Issue, id: number.to_string() }
            }
            ThreadId::Numbered { kind: ThreadKind::PullRequest, number } => {
                Self { kind: WorkKind::PullRequest, id: number.to_string() }
            }
            ThreadId::Named(name) => Self { kind: WorkKind::Thread, id: name.to_string() },
        }
    }

    /// What its branch is called where Treewarden chooses the name. A pull request on whose own branch nothing is done is
    /// looked at on a review's.
    pub fn branch(&self) -> String {
        match self.kind {
            WorkKind::Review => format!("pr-{}-review", self.id),
            WorkKind::Issue | WorkKind::PullRequest | WorkKind::Thread | WorkKind::Task => self.to_string(),
        }
    }

    /// The issue or pull request of the same repository that the work belongs to; a task belongs to whoever uses it.
    pub fn thread(&self) -> Option<ThreadNumber> {
        match self.kind {
            WorkKind::Issue | WorkKind::PullRequest | WorkKind::Review => self.id.parse().ok().map(ThreadNumber),
            WorkKind::Thread | WorkKind::Task => None,
        }
    }
}

/// As people name it. A thread may be named by any text, so that it is known by the beginning of that text's SHA-256.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            WorkKind::Issue | WorkKind::PullRequest | WorkKind::Review | WorkKind::Task => {
                write!(f, "{}-{}", self.kind, self.id)
            }
            WorkKind::Thread => write!(f, "{}-{}", self.kind, &hex::encode(Sha256::digest(&self.id))[..8]),
        }
    }
}

/// Letters and digits in lower case, with one `-` for whatever is between them. Where more is lost than blanks and punctuation
/// (`Fix C++`, `Fix C#`, `🚀`), the beginning of a SHA-256 tells such tasks apart.
fn slugified(words: &str) -> String {
    // Characters, and bytes: a prefix has to have room beside it.
    const LONGEST: usize = 50;
    const MOST: usize = 150;
    let words = words.to_lowercase();
    let parts = words.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    let slug = parts.collect::<Vec<_>>().join("-");
    let end = slug.char_indices().take(LONGEST).map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= MOST).last();
    let short = slug[..end.unwrap_or_default()].trim_end_matches('-');
    let says_nothing = |c: char| c.is_alphanumeric() || c.is_whitespace() || ".,;:!?'\"()-_".contains(c);
    if !short.is_empty() && short == slug && words.chars().all(says_nothing) {
        return slug;
    }
    let plain = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let hash = &hex::encode(Sha256::digest(plain))[..8];
    if short.is_empty() { hash.to_owned() } else { format!("{short}-{hash}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn work_and_its_branch_have_names() {
        let both = |kind, id: &str| {
            let work = Work { kind, id: id.to_owned() };
            (work.to_string(), work.branch())
        };
        let same = |name: &str| (name.to_owned(), name.to_owned());
        assert_eq!(both(WorkKind::Issue, "42"), same("issue-42"));
        assert_eq!(both(WorkKind::Review, "99"), ("review-99".to_owned(), "pr-99-review".to_owned()));
        assert_eq!(both(WorkKind::Thread, "chat"), same("thread-31e06f7d"));
        assert_eq!(both(WorkKind::Task, "add-dark-mode"), same("task-add-dark-mode"));
        // Its branch is its head's, or a review's.
        assert_eq!(both(WorkKind::PullRequest, "99").0, "pr-99");
        let named = |name: &str| Work::of_thread(&ThreadId::Named(ThreadName::new(name).unwrap())).to_string();
        // printf %s chat | sha256sum
        assert_eq!(named("chat"), "thread-31e06f7d");
        assert_ne!(named("chat"), named("Chat"));
        let issue = ThreadId::Numbered { kind: ThreadKind::Issue, number: ThreadNumber(7) };
        assert_eq!(Work::of_thread(&issue).to_string(), "issue-7");
    }

    /// BR-080
    #[test]
    fn every_task_has_a_branch_of_its_own() {
        let task = |words: &str| Work::of_task(words).to_string();
        for (words, name) in [
            ("Add dark mode!", "task-add-dark-mode"),
            ("  (Für alle) ", "task-für-alle"),
            ("feat: x..y", "task-feat-x-y"),
            ("x.lock", "task-x-lock"),
            ("修复", "task-修复"),
        ] {
            assert_eq!(task(words), name);
        }
        let (long, longer) = ("long ".repeat(30), "long ".repeat(31));
        let (wide, wider) = ("𠀀".repeat(50), "𠀀".repeat(51));
        let odd =
            ["Fix C++", "Fix C#", "Fix C", "🚀🚀", "🚀", "...", "@", "", "a\\b", "a/b", &long, &longer, &wide, &wider];
        let names: BTreeSet<_> = odd.iter().map(|words| task(words)).collect();
        assert_eq!(names.len(), odd.len(), "{names:?}");
        for name in &names {
            assert!(BranchName::to_create(name).is_ok() && name.chars().count() <= 64 && name.len() <= 170, "{name}");
        }
        assert!(task("Fix C++").starts_with("task-fix-c-"));
        assert_eq!(task(" fix  C++ "), task("Fix c++"), "the same words are the same task");
    }
}
