//! From the text of a message to a request: a command when its first word starts with `/`, or when one has a line of its own;
//! else work for the agent.

use super::markdown::visible;
use crate::model::{CommitSha, Permission};

/// What somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Work for the agent, in the person's words.
    Agent(String),
    Command(Command),
    /// Starts with `/` but is no command, or not one that is used like this.
    Unknown {
        given: String,
        hint: Hint,
    },
}

/// What somebody may have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    None,
    /// The name of the most similar command.
    Nearest(&'static str),
    /// How the commands are used whose name was given, or begun.
    Usage(Vec<&'static str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Status,
    Stop,
    List,
    /// A worktree for this, for this thread to go on in.
    Create {
        what: New,
        base: Option<String>,
    },
    /// The environment by the name `/worktree list` shows: this thread goes on in it.
    Link {
        name: String,
    },
    Orphans,
    /// The environment by the name `/worktree list` shows (`issue-42`), or this thread's.
    Remove {
        name: Option<String>,
        /// Uncommitted work goes to the trash.
        force: bool,
    },
    /// The environment of that name, which was removed.
    Restore {
        name: String,
    },
    /// Of the repository: what is merged, or what is stale.
    Cleanup {
        merged: bool,
        dry_run: bool,
    },
    Pin,
    Unpin,
    Reset,
    /// The code of this fork's pull request may run here, as it is at this commit.
    Approve {
        head: CommitSha,
    },
}

/// What a worktree is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum New {
    /// One word: this branch.
    Branch(String),
    /// Several: a task, in somebody's own words.
    Task(String),
}

impl New {
    fn called(words: &[&str]) -> Self {
        match words {
            [branch] => New::Branch((*branch).to_owned()),
            words => New::Task(words.join(" ")),
        }
    }
}

/// A row of the table of commands.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The words that select it.
    pub name: &'static str,
    pub usage: &'static str,
    pub does: &'static str,
    pub needs: Permission,
}

/// Every command, in the order of the help.
pub const COMMANDS: &[Entry] = &[
    Entry { name: "/help", usage: "/help", does: "lists the commands", needs: Permission::Write },
    Entry {
        name: "/status",
        usage: "/status",
        does: "shows this thread's worktree, branch, changes and run, and how many worktrees the repository has",
        needs: Permission::Write,
    },
    Entry {
        name: "/stop",
        usage: "/stop",
        does: "stops this thread's runs, queued ones too; work done so far is kept",
        needs: Permission::Write,
    },
    Entry {
        name: "/reset",
        usage: "/reset",
        does: "lets the agent forget this thread; its worktree stays as it is",
        needs: Permission::Write,
    },
    Entry {
        name: "/approve",
        usage: "/approve <full sha>",
        does: "lets me work on a fork's pull request at this commit, its head, whose files may then run on the server; ends with the next push",
        needs: Permission::Write,
    },
    Entry {
        name: "/worktree create",
        usage: "/worktree create <branch or words> [--base <branch>]",
        does: "makes a worktree on that branch, called `task-<branch>`, in which this thread goes on; an existing branch is continued. Several words are a task: `Add dark mode!` is worked on in `task-add-dark-mode`",
        needs: Permission::Write,
    },
    Entry {
        name: "/worktree link",
        usage: "/worktree link <name>",
        does: "lets this thread go on in the worktree of that name (`issue-42`, `pr-99`, `task-x`, `thread-1a2b3c4d`)",
        needs: Permission::Write,
    },
    Entry {
        name: "/worktree list",
        usage: "/worktree list",
        does: "lists the worktrees of this repository",
        needs: Permission::Write,
    },
    Entry {
        name: "/worktree orphans",
        usage: "/worktree orphans",
        does: "lists every worktree that git knows here, and marks those that Treewarden does not",
        needs: Permission::Write,
    },
    Entry {
        name: "/worktree remove",
        usage: "/worktree remove [<name>] [--force]",
        does: "removes a worktree when nothing in it would be lost, and says why not otherwise; without a name, a worktree that other open threads use is left to them; with `--force`, what is not committed goes to the trash, from where it can be restored",
        needs: Permission::Write,
    },
    Entry {
        name: "/worktree restore",
        usage: "/worktree restore <name>",
        does: "brings a removed worktree back: its branch, and what was not committed when it was removed by force; this thread goes on in it",
        needs: Permission::Write,
    },
    Entry {
        name: "/worktree cleanup merged",
        usage: "/worktree cleanup merged [--dry-run]",
        does: "removes the worktrees of this repository whose work is proven to be merged",
        needs: Permission::Write,
    },
    Entry {
        name: "/worktree cleanup stale",
        usage: "/worktree cleanup stale [--dry-run]",
        does: "removes those whose threads are closed or in which nothing happened for long; their branches are kept",
        needs: Permission::Write,
    },
    Entry {
        name: "/worktree pin",
        usage: "/worktree pin",
        does: "protects this thread's worktree from cleanup",
        needs: Permission::Write,
    },
    Entry { name: "/worktree unpin", usage: "/worktree unpin", does: "ends that protection", needs: Permission::Write },
];

/// Understands a message (without its mention).
pub fn parse(text: &str) -> Request {
    let text = text.trim();
    match (starts_with_command(text), alone(text)) {
        (true, _) => in_line(text.lines().next().unwrap_or_default()),
        (false, Some(command)) => Request::Command(command),
        (false, None) => Request::Agent(text.to_owned()),
    }
}

/// The first command that has a line of its own further down, after words of explanation: as ordinary text, and whole.
fn alone(text: &str) -> Option<Command> {
    let visible = visible(text).text;
    let lines =
        text.lines().zip(visible.lines()).map(|(line, seen)| (line.trim(), seen.trim_matches(['\0', ' ', '\r', '\t'])));
    lines.filter(|(line, seen)| line == seen && starts_with_command(line)).find_map(|(line, _)| match in_line(line) {
        Request::Command(command) => Some(command),
        Request::Agent(_) | Request::Unknown { .. } => None,
    })
}

/// A line that starts like a command.
fn in_line(line: &str) -> Request {
    let given: Vec<&str> = line.split_whitespace().collect();
    let words: Vec<String> = given.iter().map(|word| word.to_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let unknown = || Request::Unknown { given: line.to_owned(), hint: hint(&words) };
    // Names are taken as they were written.
    let name = |place: usize| given[place].to_owned();
    let command = match words.as_slice() {
        ["/help"] => Command::Help,
        ["/status"] => Command::Status,
        ["/stop"] => Command::Stop,
        ["/worktree", "list"] => Command::List,
        ["/worktree", "remove"] => Command::Remove { name: None, force: false },
        ["/worktree", "remove", "--force"] => Command::Remove { name: None, force: true },
        ["/reset"] => Command::Reset,
        ["/approve", sha] => match CommitSha::new(sha) {
            Ok(head) => Command::Approve { head },
            Err(_) => return unknown(),
        },
        ["/worktree", "create", what @ .., "--base", base] if are_names(what) && is_name(base) => Command::Create {
            what: New::called(&given[2..given.len() - 2]),
            base: given.last().map(|base| (*base).to_owned()),
        },
        ["/worktree", "create", what @ ..] if are_names(what) => {
            Command::Create { what: New::called(&given[2..]), base: None }
        }
        ["/worktree", "link", other] if is_name(other) => Command::Link { name: name(2) },
        ["/worktree", "orphans"] => Command::Orphans,
        ["/worktree", "remove", other, force @ ..] if is_name(other) && matches!(force, [] | ["--force"]) => {
            Command::Remove { name: Some(name(2)), force: !force.is_empty() }
        }
        ["/worktree", "remove", "--force", other] if is_name(other) => {
            Command::Remove { name: Some(name(3)), force: true }
        }
        ["/worktree", "restore", other] if is_name(other) => Command::Restore { name: name(2) },
        ["/worktree", "cleanup", kind @ ("merged" | "stale"), rest @ ..] if matches!(rest, [] | ["--dry-run"]) => {
            Command::Cleanup { merged: *kind == "merged", dry_run: !rest.is_empty() }
        }
        ["/worktree", "pin"] => Command::Pin,
        ["/worktree", "unpin"] => Command::Unpin,
        _ => return unknown(),
    };
    Request::Command(command)
}

/// The first word starts with `/` and is no path (`/etc/hosts is wrong` is a remark for the agent).
fn starts_with_command(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.strip_prefix('/').is_some_and(|name| !name.contains(['/', '.']))
}

fn is_name(word: &str) -> bool {
    !word.starts_with('-')
}

fn are_names(words: &[&str]) -> bool {
    !words.is_empty() && words.iter().all(|word| is_name(word))
}

/// The table's row for a command.
pub fn entry(command: &Command) -> &'static Entry {
    let name = match command {
        Command::Help => "/help",
        Command::Status => "/status",
        Command::Stop => "/stop",
        Command::Reset => "/reset",
        Command::Approve { .. } => "/approve",
        Command::Create { .. } => "/worktree create",
        Command::Link { .. } => "/worktree link",
        Command::Orphans => "/worktree orphans",
        Command::List => "/worktree list",
        Command::Remove { .. } => "/worktree remove",
        Command::Restore { .. } => "/worktree restore",
        Command::Cleanup { merged: true, .. } => "/worktree cleanup merged",
        Command::Cleanup { merged: false, .. } => "/worktree cleanup stale",
        Command::Pin => "/worktree pin",
        Command::Unpin => "/worktree unpin",
    };
    COMMANDS.iter().find(|entry| entry.name == name).unwrap_or(&COMMANDS[0])
}

fn hint(words: &[&str]) -> Hint {
    let known = |entry: &&Entry| {
        let name: Vec<&str> = entry.name.split(' ').collect();
        words.starts_with(&name) || name.starts_with(words)
    };
    let known: Vec<&str> = COMMANDS.iter().filter(known).map(|entry| entry.usage).collect();
    match nearest(words) {
        _ if !known.is_empty() => Hint::Usage(known),
        Some(name) => Hint::Nearest(name),
        None => Hint::None,
    }
}

/// The most similar command, when at most a third of its letters differ, and no more than two: `restore` is not `remove`.
fn nearest(words: &[&str]) -> Option<&'static str> {
    let candidates = COMMANDS.iter().map(|entry| {
        let length = entry.name.split(' ').count();
        let given = words.iter().take(length).copied().collect::<Vec<_>>().join(" ");
        let given: String = given.chars().take(100).collect();
        (strsim::osa_distance(&given, entry.name), entry.name)
    });
    candidates.filter(|(distance, name)| *distance <= (name.len() / 3).min(2)).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_table_is_understood() {
        for entry in COMMANDS {
            let (sha, without) = ("a".repeat(40), entry.usage.find('[').unwrap_or(entry.usage.len()));
            // Without what may be left out, and with it.
            let whole = entry.usage.replace(['[', ']'], "");
            for usage in [&entry.usage[..without], &whole] {
                let usage = usage.replace("<full sha>", &sha).replace("<branch or words>", "<branch>");
                let Request::Command(command) = parse(&usage) else { panic!("{usage}") };
                assert_eq!(super::entry(&command).name, entry.name, "{usage}");
            }
        }
    }

    #[test]
    fn plain_text_is_for_the_agent() {
        assert_eq!(parse(" add a greeting "), Request::Agent("add a greeting".into()));
        let further_down = "Branch is wrong, sorry.\n\n/worktree create";
        let quoted = "Document this:\n\n```\n/stop\n```\n\n> /stop\n\n- /stop\n\n`/stop`\n/stop it\nplease /stop";
        for text in
            ["see /etc/hosts", "/etc/hosts is wrong", "/Makefile.am fails", "// TODO in a.rs", "", further_down, quoted]
        {
            assert_eq!(parse(text), Request::Agent(text.into()));
        }
    }

    /// BR-131
    #[test]
    fn a_command_on_a_line_of_its_own_counts_after_an_explanation() {
        for text in
            ["Thanks!\n\n/stop", "Sorry.\r\n  /STOP  \r\nWill do it by hand.", "a\n/stop\n/help", "See `x`.\n\n/stop"]
        {
            assert_eq!(parse(text), Request::Command(Command::Stop), "{text}");
        }
    }

    #[test]
    fn a_slip_gets_a_hint_and_nonsense_none() {
        let nearest = |text| match parse(text) {
            Request::Unknown { hint: Hint::Nearest(name), .. } => Some(name),
            Request::Unknown { hint: Hint::None, .. } => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(nearest("/stauts"), Some("/status"));
        assert_eq!(nearest("/hlep"), Some("/help"));
        assert_eq!(nearest("/worktree lst"), Some("/worktree list"));
        for other in ["/deploy production", "/worktree reopen", "/worktree archive"] {
            assert_eq!(nearest(other), None, "{other}");
        }
        assert_eq!(nearest("/"), None);
    }

    #[test]
    fn case_and_spacing_do_not_matter() {
        assert_eq!(
            parse("/Worktree   REMOVE  Issue-5"),
            Request::Command(Command::Remove { name: Some("Issue-5".into()), force: false })
        );
        assert_eq!(
            parse("/worktree CREATE Fix/A --BASE Release-2"),
            Request::Command(Command::Create { what: New::Branch("Fix/A".into()), base: Some("Release-2".into()) })
        );
        assert_eq!(
            parse("/worktree create Add dark mode! --base next"),
            Request::Command(Command::Create { what: New::Task("Add dark mode!".into()), base: Some("next".into()) })
        );
        for unfinished in
            ["/worktree create", "/worktree create --base main", "/worktree create x --base", "/worktree create -x"]
        {
            let usage = Hint::Usage(vec!["/worktree create <branch or words> [--base <branch>]"]);
            assert_eq!(parse(unfinished), Request::Unknown { given: unfinished.into(), hint: usage });
        }
        let usages = |text: &str| match parse(text) {
            Request::Unknown { hint: Hint::Usage(usages), .. } => usages,
            other => panic!("{other:?}"),
        };
        assert_eq!(usages("/help me please"), ["/help"]);
        for short in ["/approve", "/approve abc1234", "/approve HEAD", &format!("/approve {}", "a".repeat(41))] {
            assert_eq!(usages(short), ["/approve <full sha>"], "{short}");
        }
        let head = CommitSha::new(&"ab".repeat(20)).unwrap();
        assert_eq!(parse(&format!("/approve {}", "AB".repeat(20))), Request::Command(Command::Approve { head }));
        assert_eq!(usages("/worktree remove --all"), ["/worktree remove [<name>] [--force]"]);
        assert_eq!(usages("/worktree cleanup").len(), 2);
        assert_eq!(usages("/worktree").len(), COMMANDS.iter().filter(|e| e.name.starts_with("/worktree ")).count());
    }
}
