//! What people are told of worktrees, registrations and directories that no environment has.

use super::{cleanup, disk};
use crate::decide::orphans::{Class, Stays};
use crate::model::{RepoName, Timestamp};
use std::path::Path;

/// What it is, in a word or two.
pub fn kind(class: Class) -> &'static str {
    match class {
        Class::Orphan => "orphan",
        Class::Registration => "registration only",
        Class::Unregistered => "not a worktree",
        Class::Foreign => "somebody else's",
    }
}

/// As a label of a metric.
pub fn label(class: Class) -> &'static str {
    match class {
        Class::Orphan => "orphan",
        Class::Registration => "registration",
        Class::Unregistered => "unregistered",
        Class::Foreign => "foreign",
    }
}

/// As a label of a metric: directories of repositories that the database has not heard from.
pub const UNHEARD: &str = "unheard";

/// What lies where the worktrees of a repository are made that the database does not know; `path`: it is on this machine.
pub fn unheard(directories: usize, path: Option<&Path>) -> String {
    let lie = if directories == 1 { "directory lies" } else { "directories lie" };
    let way = match path {
        Some(path) => format!(
            "It was made from {}: with a repository of that name there, the next cleanup of everything meets it again",
            path.display()
        ),
        None => "Mention me in it (without GitHub: `treewarden say /status` there)".to_owned(),
    };
    format!(
        "{directories} {lie} where its worktrees are made, and this database has not heard from it. {way}; then they are listed, \
         with what can be done about them. Until then nothing touches them"
    )
}

/// The first of the reasons in a report: whatever else, no environment of that name is meant.
pub fn heading(class: Class) -> String {
    match class {
        Class::Orphan => "an orphan: a worktree that no environment has",
        Class::Registration => "git's registration of a worktree whose directory is gone; no environment has it",
        Class::Unregistered => "no environment has it",
        Class::Foreign => "a worktree that no environment has",
    }
    .to_owned()
}

/// Why one went, `proof` being why that was safe.
pub fn removed(proof: &str) -> String {
    format!("{proof}; no environment had it any more")
}

/// What is done about a registration of which nothing else is left.
pub fn taken_out() -> String {
    "only git's registration of it was left, without a directory and without an environment; what that alone held stays under a ref"
        .to_owned()
}

/// In the place of a name, where they could not even be looked for.
pub fn unseen() -> String {
    "(what no environment has)".to_owned()
}

/// A thread, or another wish, was faster.
pub fn taken_meanwhile() -> String {
    "An environment has taken it, its branch or its work meanwhile. Nothing was changed; look again.".to_owned()
}

/// One reason, as shown in reports, comments and the panel.
pub fn sentence(stays: &Stays) -> String {
    match stays {
        Stays::Elsewhere => "it lies outside of my directory: it is somebody else's, and I never touch it".to_owned(),
        Stays::UnknownToGit => {
            "git knows no worktree there, so I cannot tell what it is: I never touch it (whoever runs this service can move it away)"
                .to_owned()
        }
        Stays::MadeByOthers => {
            "it lacks the marks of a worktree that was made here: whoever made it may want it, and only adopting it in the panel lets \
             me look after it"
                .to_owned()
        }
        Stays::OlderThanDatabase => {
            "it is older than what this database knows of the repository, so it may be another installation's: it waits for a person, \
             in the panel"
                .to_owned()
        }
        Stays::Young => "something happened in it within the last hour".to_owned(),
        Stays::AgeUnknown(why) => format!("its age could not be told: {why}"),
        Stays::Entangled => "it lies inside another worktree, or around one".to_owned(),
        Stays::OutOfSight => "the directory it was in is not there either (is its file system mounted?)".to_owned(),
        Stays::InUse(process) => format!("process {process} is at work in it"),
        Stays::NoBranch => "its HEAD is on no branch that I would use: `git switch` in it puts it on one".to_owned(),
        Stays::BranchTaken(branch) => format!("another worktree is there for `{branch}`"),
        Stays::Strangers => {
            "its commits may be a stranger's: they came with a fork's pull request, where a mention takes it up again".to_owned()
        }
        Stays::Empty => "nothing is in its directory".to_owned(),
        Stays::NotMerged => "nothing proves that its work is merged: it waits for a person, in the panel".to_owned(),
        Stays::Keep(reason) => cleanup::sentence(reason),
    }
}

/// When one can be removed that cannot be at this moment.
pub fn later(from: Option<Timestamp>, once_adopted: bool) -> Option<String> {
    let from = from
        .map(|at| format!("It can be removed from {} on, should nothing happen in it until then.", disk::as_of(at)));
    from.or_else(|| once_adopted.then(|| "It can be removed once it is adopted.".to_owned()))
}

/// Why one is not adopted that nobody can say the base of.
pub fn no_base(why: &str) -> String {
    let why = why.trim_end_matches('.');
    format!(
        "The repository's default branch, which its work is compared with, could not be asked for: {why}. Nothing was changed"
    )
}

/// Why nothing can be said of what lies there.
pub fn unreadable(repository: &RepoName, error: &std::io::Error) -> String {
    format!(
        "The directory of the worktrees of {repository} cannot be read: {error}. What is there stays as it is; give the service's \
         user rights on it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::cleanup::Keep;

    #[test]
    fn each_reason_says_what_is_so_and_what_can_be_done() {
        let said: Vec<String> = [
            Stays::Young,
            Stays::InUse(7),
            Stays::NotMerged,
            Stays::Keep(Keep::UncommittedChanges { changed: 1, untracked: 0 }),
        ]
        .iter()
        .map(sentence)
        .collect();
        insta::assert_snapshot!(said.join("\n"), @r"
        something happened in it within the last hour
        process 7 is at work in it
        nothing proves that its work is merged: it waits for a person, in the panel
        uncommitted work: 1 changed file
        ");
        insta::assert_snapshot!(unheard(1, None), @"1 directory lies where its worktrees are made, and this database has not heard from it. Mention me in it (without GitHub: `treewarden say /status` there); then they are listed, with what can be done about them. Until then nothing touches them");
        insta::assert_snapshot!(unheard(12, Some(Path::new("/src/hello"))), @"12 directories lie where its worktrees are made, and this database has not heard from it. It was made from /src/hello: with a repository of that name there, the next cleanup of everything meets it again; then they are listed, with what can be done about them. Until then nothing touches them");
        for class in Class::ALL {
            assert!(!kind(class).is_empty() && !heading(class).is_empty());
        }
    }
}
