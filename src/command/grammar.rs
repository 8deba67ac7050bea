//! From the text of a message to a request: a command when its first word starts with `/`, or when one has a line of its own;
//! else work for the agent.

use super::markdown::visible;
use crate::model::{CommitSha, Permission};

/// What somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Work for the agent, in the person's words.
    Agent(String),
    /// With the row it was read by: what is in no row cannot be said.
    Command(&'static Entry, Command),
    /// Starts with `/` but is no command, or not one that is used like this.
    Unknown { given: String, hint: Hint },
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
    /// What works of the service.
    Doctor,
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
        dry_run: bool,
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
    /// The repository is switched on.
    Enable,
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
    /// Reads the words after the name, as they were written. `None`: it is not used like this.
    reads: fn(&[&str]) -> Option<Command>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Entry {}

impl Entry {
    /// The words after its name, if these begin with it, in any case.
    fn after_name<'a>(&self, words: &'a [&'a str]) -> Option<&'a [&'a str]> {
        let name: Vec<&str> = self.name.split(' ').collect();
        let (begin, rest) = words.split_at_checked(name.len())?;
        begin.iter().zip(name).all(|(word, name)| word.to_lowercase() == name).then_some(rest)
    }
}

/// What an unknown command is answered with.
pub const HELP: Entry = Entry {
    name: "/help",
    usage: "/help",
    does: "lists the commands",
    needs: Permission::Write,
    reads: |rest| rest.is_empty().then_some(Command::Help),
};

/// Every command, in the order of the help.
pub const COMMANDS: &[Entry] = &[
    HELP,
    Entry {
        name: "/status",
        usage: "/status",
        does: "shows this thread's worktree, branch, changes and run, and how many worktrees the repository has",
        needs: Permission::Write,
        reads: |rest| rest.is_empty().then_some(Command::Status),
    },
    Entry {
        name: "/stop",
        usage: "/stop",
        does: "stops this thread's runs, queued ones too; work done so far is kept",
        needs: Permission::Write,
        reads: |rest| rest.is_empty().then_some(Command::Stop),
    },
    Entry {
        name: "/doctor",
        usage: "/doctor",
        does: "says whether this repository is reached, and which parts of the service work; the rest is in its panel. Needs admin permission, or to be one of `TREEWARDEN_ADMINS`",
        needs: Permission::Admin,
        reads: |rest| rest.is_empty().then_some(Command::Doctor),
    },
    Entry {
        name: "/reset",
        usage: "/reset",
        does: "lets the agent forget this thread; its worktree stays as it is",
        needs: Permission::Write,
        reads: |rest| rest.is_empty().then_some(Command::Reset),
    },
    Entry {
        name: "/approve",
        usage: "/approve <full sha>",
        does: "lets me work on a fork's pull request at this commit, its head, whose files may then run on the server; ends with the next push",
        needs: Permission::Write,
        reads: approve,
    },
    Entry {
        name: "/enable",
        usage: "/enable",
        does: "switches this repository on where it is staged (I only say what I would do) or off",
        needs: Permission::Admin,
        reads: |rest| rest.is_empty().then_some(Command::Enable),
    },
    Entry {
        name: "/worktree create",
        usage: "/worktree create <branch or words> [--base <branch>]",
        does: "makes a worktree on that branch, called `task-<branch>`, in which this thread goes on; an existing branch is continued. Several words are a task: `Add dark mode!` is worked on in `task-add-dark-mode`",
        needs: Permission::Write,
        reads: create,
    },
    Entry {
        name: "/worktree link",
        usage: "/worktree link <name>",
        does: "lets this thread go on in the worktree of that name (`issue-42`, `pr-99`, `task-x`, `thread-1a2b3c4d`)",
        needs: Permission::Write,
        reads: |rest| one_name(rest).map(|name| Command::Link { name }),
    },
    Entry {
        name: "/worktree list",
        usage: "/worktree list",
        does: "lists the worktrees of this repository",
        needs: Permission::Write,
        reads: |rest| rest.is_empty().then_some(Command::List),
    },
    Entry {
        name: "/worktree orphans",
        usage: "/worktree orphans",
        does: "lists every worktree that git knows here, and marks those that Treewarden does not",
        needs: Permission::Write,
        reads: |rest| rest.is_empty().then_some(Command::Orphans),
    },
    Entry {
        name: "/worktree remove",
        usage: "/worktree remove [<name>] [--force] [--dry-run]",
        does: "removes a worktree when nothing in it would be lost, and says why not otherwise; without a name, a worktree that other open threads use is left to them; with `--force`, what is not committed goes to the trash, from where it can be restored; with `--dry-run`, it only says what it would do",
        needs: Permission::Write,
        reads: remove,
    },
    Entry {
        name: "/worktree restore",
        usage: "/worktree restore <name>",
        does: "brings a removed worktree back: its branch, its ignored files, and what was not committed when it was removed by force; this thread goes on in it",
        needs: Permission::Write,
        reads: |rest| one_name(rest).map(|name| Command::Restore { name }),
    },
    Entry {
        name: "/worktree cleanup merged",
        usage: "/worktree cleanup merged [--dry-run]",
        does: "removes the worktrees of this repository whose work is proven to be merged",
        needs: Permission::Write,
        reads: |rest| cleanup(rest, true),
    },
    Entry {
        name: "/worktree cleanup stale",
        usage: "/worktree cleanup stale [--dry-run]",
        does: "removes those whose threads are closed or in which nothing happened for long; their branches are kept, unless there is nothing on them",
        needs: Permission::Write,
        reads: |rest| cleanup(rest, false),
    },
    Entry {
        name: "/worktree pin",
        usage: "/worktree pin",
        does: "protects this thread's worktree from cleanup",
        needs: Permission::Write,
        reads: |rest| rest.is_empty().then_some(Command::Pin),
    },
    Entry {
        name: "/worktree unpin",
        usage: "/worktree unpin",
        does: "ends that protection",
        needs: Permission::Write,
        reads: |rest| rest.is_empty().then_some(Command::Unpin),
    },
];

/// Understands a message (without its mention).
pub fn parse(text: &str) -> Request {
    let text = text.trim();
    match (starts_with_command(text), alone(text)) {
        (true, _) => in_line(text.lines().next().unwrap_or_default()),
        (false, Some(command)) => command,
        (false, None) => Request::Agent(text.to_owned()),
    }
}

/// Whether a message with a command says anything else, which nobody reads.
pub fn says_more(text: &str) -> bool {
    visible(text).text.lines().filter(|line| !line.trim_matches(['\0', ' ', '\r', '\t']).is_empty()).count() > 1
}

/// So many lines that begin like a command are looked at; nobody writes more of them.
const MOST_LINES: usize = 100;

/// The first command that has a line of its own further down, after words of explanation: as ordinary text, and whole. Else
/// the only line that begins like one, if it was meant to be one; several are a list of something, and one below a colon is
/// what the words before speak of.
fn alone(text: &str) -> Option<Request> {
    let visible = visible(text).text;
    let lines =
        text.lines().zip(visible.lines()).map(|(line, seen)| (line.trim(), seen.trim_matches(['\0', ' ', '\r', '\t'])));
    let (mut before, mut read) = ("", Vec::new());
    for (line, seen) in lines.filter(|(line, _)| !line.is_empty()) {
        if line == seen && starts_with_command(line) && read.len() < MOST_LINES {
            read.push((line, before.ends_with(':'), in_line(line)));
        }
        before = line;
    }
    let command = read.iter().find(|(.., request)| matches!(request, Request::Command(..)));
    let slip = || match &read[..] {
        [only @ (line, false, request)] if is_slip(line, request) => Some(only),
        _ => None,
    };
    command.or_else(slip).map(|(.., request)| request.clone())
}

/// Whether a line is a command with a slip, or without what belongs to it; what has more words than the command is a remark.
fn is_slip(line: &str, request: &Request) -> bool {
    let words = |text: &str| text.split_whitespace().count();
    let meant = |usage: &&str| words(line) <= words(usage);
    match request {
        Request::Unknown { hint: Hint::Usage(usages), .. } => usages.iter().any(meant),
        Request::Unknown { hint: Hint::Nearest(name), .. } => {
            COMMANDS.iter().any(|entry| entry.name == *name && meant(&entry.usage))
        }
        Request::Unknown { hint: Hint::None, .. } | Request::Command(..) | Request::Agent(_) => false,
    }
}

/// A line that starts like a command.
fn in_line(line: &str) -> Request {
    let given: Vec<&str> = line.trim_end_matches(closing).split_whitespace().collect();
    let read = COMMANDS.iter().find_map(|entry| {
        let command = (entry.reads)(entry.after_name(&given)?)?;
        Some(Request::Command(entry, command))
    });
    read.unwrap_or_else(|| {
        let words: Vec<String> = given.iter().map(|word| word.trim_end_matches(closing).to_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Request::Unknown { given: line.to_owned(), hint: hint(&words) }
    })
}

fn approve(rest: &[&str]) -> Option<Command> {
    let [sha] = rest else { return None };
    CommitSha::new(&sha.to_lowercase()).ok().map(|head| Command::Approve { head })
}

fn create(rest: &[&str]) -> Option<Command> {
    let (what, base) = match rest {
        [what @ .., flag, base] if is_flag(flag, "--base") && is_name(base) => (what, Some((*base).to_owned())),
        what => (what, None),
    };
    let are_names = !what.is_empty() && what.iter().all(|word| is_name(word));
    are_names.then(|| Command::Create { what: New::called(what), base })
}

fn remove(rest: &[&str]) -> Option<Command> {
    let (name, flags): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| is_name(word));
    let times = |flag| flags.iter().filter(|word| is_flag(word, flag)).count();
    let (force, dry_run) = (times("--force"), times("--dry-run"));
    if force > 1 || dry_run > 1 || force + dry_run < flags.len() {
        return None;
    }
    let name = if name.is_empty() { None } else { Some(one_name(&name)?) };
    Some(Command::Remove { name, force: force > 0, dry_run: dry_run > 0 })
}

fn cleanup(rest: &[&str], merged: bool) -> Option<Command> {
    let dry_run = match rest {
        [] => false,
        [flag] if is_flag(flag, "--dry-run") => true,
        _ => return None,
    };
    Some(Command::Cleanup { merged, dry_run })
}

fn one_name(rest: &[&str]) -> Option<String> {
    match rest {
        [name] if is_name(name) => Some((*name).to_owned()),
        _ => None,
    }
}

/// The first word starts with `/` and is no path (`/etc/hosts is wrong` is a remark for the agent).
fn starts_with_command(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.trim_end_matches(closing).strip_prefix('/').is_some_and(|name| !name.contains(['/', '.']))
}

/// What ends a sentence belongs to no command: `/stop.` stops.
fn closing(letter: char) -> bool {
    letter.is_whitespace() || ['.', ',', ';', ':', '!', '?', '…'].contains(&letter)
}

fn is_name(word: &str) -> bool {
    !word.starts_with('-')
}

fn is_flag(word: &str, flag: &str) -> bool {
    word.eq_ignore_ascii_case(flag)
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

    /// What a text says, whatever row it is in.
    fn said(text: &str) -> Command {
        match parse(text) {
            Request::Command(_, command) => command,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// The row that this must be read by, whose permission it then needs. A new command is to be thought of here.
    fn row_of(command: &Command) -> &'static str {
        match command {
            Command::Help => "/help",
            Command::Doctor => "/doctor",
            Command::Status => "/status",
            Command::Stop => "/stop",
            Command::Reset => "/reset",
            Command::Approve { .. } => "/approve",
            Command::Enable => "/enable",
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
        }
    }

    #[test]
    fn every_command_of_the_table_is_understood() {
        for entry in COMMANDS {
            let (sha, without) = ("a".repeat(40), entry.usage.find('[').unwrap_or(entry.usage.len()));
            // Without what may be left out, and with it.
            let whole = entry.usage.replace(['[', ']'], "");
            for usage in [&entry.usage[..without], &whole] {
                let usage = usage.replace("<full sha>", &sha).replace("<branch or words>", "<branch>");
                let Request::Command(row, command) = parse(&usage) else { panic!("{usage}") };
                assert_eq!((row.name, row_of(&command)), (entry.name, entry.name), "{usage}");
            }
        }
        // None hides another one.
        for (place, entry) in COMMANDS.iter().enumerate() {
            let begins = |other: &Entry| other.after_name(&entry.name.split(' ').collect::<Vec<_>>()).is_some();
            assert_eq!(COMMANDS.iter().position(begins), Some(place), "{}", entry.name);
        }
    }

    #[test]
    fn plain_text_is_for_the_agent() {
        assert_eq!(parse(" add a greeting "), Request::Agent("add a greeting".into()));
        let further_down = "Look here.\n\n/status shows nothing\n/worktree is wrong here\n/deploy\n/";
        let quoted = "Document this:\n\n```\n/stop\n```\n\n> /stop\n\n- /stop\n\n`/stop`\n/stop it\nplease /stop";
        let in_html = "<pre>\n/stop\n</pre>\n<!--\n/stop\n-->\n\n<p title='\n/stop\n'>\n```\n/stop\n```\n</p>";
        for text in [
            "see /etc/hosts",
            "/etc/hosts is wrong",
            "/Makefile.am fails",
            "// TODO in a.rs",
            "",
            further_down,
            quoted,
            in_html,
        ]
        .into_iter()
        .chain(["/etc/hosts.", "/etc/ is wrong", "/.env, too", "... /stop"])
        {
            assert_eq!(parse(text), Request::Agent(text.into()));
        }
    }

    /// Whoever ends a sentence means the command before its end, and must not set an agent to work by `/stop.`.
    #[test]
    fn what_ends_a_sentence_belongs_to_no_command() {
        for text in
            ["/stop.", "/stop!", "/Stop, ", "/stop?!", "/stop …", "/stop.\nIt goes wrong.", "Thanks.\n\n/stop.\nBye"]
        {
            assert_eq!(said(text), Command::Stop, "{text}");
        }
        for text in ["/worktree remove issue-5 --force.", "/worktree remove --force issue-5."] {
            assert_eq!(
                said(text),
                Command::Remove { name: Some("issue-5".into()), force: true, dry_run: false },
                "{text}"
            );
        }
        let (release, sha) = (Command::Restore { name: "v1.2".into() }, CommitSha::new(&"a".repeat(40)).unwrap());
        assert_eq!(said("/worktree restore v1.2."), release);
        assert_eq!(said(&format!("/approve {sha}.")), Command::Approve { head: sha });
        for (text, usage) in
            [("/stop. It goes wrong.", "/stop"), ("/stop, please", "/stop"), ("/approve.", "/approve <full sha>")]
        {
            let hint = Hint::Usage(vec![usage]);
            assert_eq!(parse(text), Request::Unknown { given: text.into(), hint }, "{text}");
        }
        let slip = Hint::Nearest("/status");
        assert_eq!(parse("/stauts."), Request::Unknown { given: "/stauts.".into(), hint: slip });
    }

    /// BR-131
    #[test]
    fn a_command_on_a_line_of_its_own_counts_after_an_explanation() {
        for text in [
            "Thanks!\n\n/stop",
            "<img src=\"x.png\" />\n/stop",
            "<!-- a -->\n/stop",
            "Sorry.\r\n  /STOP  \r\nWill do it by hand.",
            "a\n/stop\n/help",
            "See `x`.\n\n/stop",
        ] {
            assert_eq!(said(text), Command::Stop, "{text}");
        }
    }

    /// It is no work for the agent, whatever else is said.
    #[test]
    fn a_slip_on_a_line_of_its_own_gets_its_hint() {
        let hint = |text| match parse(text) {
            Request::Unknown { hint, .. } => hint,
            other => panic!("{text}: {other:?}"),
        };
        let create = "/worktree create <branch or words> [--base <branch>]";
        assert_eq!(hint("Branch is wrong, sorry.\n\n/worktree create\n"), Hint::Usage(vec![create]));
        assert_eq!(hint("Looks fine.\n\n/approve abc"), Hint::Usage(vec!["/approve <full sha>"]));
        assert_eq!(hint("That is enough.\n\n/stopp"), Hint::Nearest("/stop"));
        assert_eq!(hint("Thanks\n\n/worktree remov"), Hint::Nearest("/worktree remove"));
        assert_eq!(said("Well.\n\n/worktree create\n/stop"), Command::Stop, "a whole command comes first");
        let task = "Add an endpoint that counts visits:\n\n/stats";
        assert_eq!(parse(task), Request::Agent(task.into()));
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
        let removal =
            |name: Option<&str>, force, dry_run| Command::Remove { name: name.map(str::to_owned), force, dry_run };
        assert_eq!(said("/Worktree   REMOVE  Issue-5"), removal(Some("Issue-5"), false, false));
        assert_eq!(
            said("/worktree CREATE Fix/A --BASE Release-2"),
            Command::Create { what: New::Branch("Fix/A".into()), base: Some("Release-2".into()) }
        );
        assert_eq!(
            said("/worktree create Add dark mode! --base next"),
            Command::Create { what: New::Task("Add dark mode!".into()), base: Some("next".into()) }
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
        assert_eq!(said(&format!("/approve {}", "AB".repeat(20))), Command::Approve { head });
        for text in ["/worktree remove X --force", "/worktree remove --FORCE X"] {
            assert_eq!(said(text), removal(Some("X"), true, false));
        }
        assert_eq!(said("/worktree remove --force"), removal(None, true, false));
        assert_eq!(said("/worktree remove --dry-run"), removal(None, false, true));
        for text in ["X --force --dry-run", "--dry-run --force X", "--force X --Dry-Run"] {
            assert_eq!(said(&format!("/worktree remove {text}")), removal(Some("X"), true, true));
        }
        for wrong in ["--force --force", "a b", "a --force b", "--dry-run a --dry-run", "--all", "a --dry-run --all"] {
            let text = format!("/worktree remove {wrong}");
            assert_eq!(usages(&text), ["/worktree remove [<name>] [--force] [--dry-run]"], "{text}");
        }
        assert_eq!(usages("/worktree cleanup").len(), 2);
        assert_eq!(usages("/worktree").len(), COMMANDS.iter().filter(|e| e.name.starts_with("/worktree ")).count());
    }
}
