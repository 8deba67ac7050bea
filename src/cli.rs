//! The command line: what `treewarden` can be told. Parsing only; what the commands do is `app`'s business.

use crate::config::{Flags, plain_table};
use clap::{Arg, ArgGroup, Args, CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};
use std::{ffi::OsString, io, path::PathBuf, path::absolute};

/// Gives each piece of agent work its own git worktree, and never loses work.
#[derive(Debug, Parser)]
#[command(name = "treewarden", version, arg_required_else_help = true)]
pub struct Cli {
    /// Settings file instead of treewarden.toml in the home
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of everything Treewarden keeps
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Run the service
    Serve(Listening),
    /// Play the whole story against a stand-in for GitHub on this machine, with settings and a home of its own
    Demo(Demo),
    /// Say what is right and, for what is not, what mends it; changes nothing
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Bring the database to this version's schema
    Migrate,
    /// Forget the App that the set-up connected, so that the next start opens the set-up again; on GitHub the App stays
    Disconnect,
    /// Remove what is provably done with, once, and print the report
    Cleanup {
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Take over what an older database knows: conversations, repositories, environments, sessions
    Import(Import),
    /// Say something to the running service, without GitHub, and show its answer
    Say(Say),
    /// Look at environments, remove one, bring one back
    Env {
        #[command(subcommand)]
        command: EnvCommand,
    },
    /// The demo's agent: prompt on standard input, changes in the current directory
    #[command(hide = true)]
    DemoAgent,
}

#[derive(Debug, PartialEq, Eq, Args)]
pub struct Listening {
    /// Where to listen; port 0 picks one and prints it
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Args)]
pub struct Demo {
    /// Stay up after the story (what happens on a terminal)
    #[arg(long, conflicts_with = "exit")]
    pub hold: bool,
    /// End after the story, with status 0 when every step went well
    #[arg(long)]
    pub exit: bool,
    #[command(flatten)]
    pub listening: Listening,
}

#[derive(Debug, PartialEq, Eq, Args)]
#[command(group(ArgGroup::new("what").args(["from", "backfill"]).required(true).multiple(true)))]
pub struct Import {
    /// The older database, which is only read: sqlite://<path> or postgres://<user>@<host>/<database>
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Make environments of worktrees that wait to become one, and forget those that never can
    #[arg(long)]
    pub backfill: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, PartialEq, Eq, Args)]
#[command(
    override_usage = "treewarden say [--conversation ID] [--codebase PATH|NAME] [--no-wait] TEXT…\n       treewarden say --close --conversation ID"
)]
pub struct Say {
    /// Go on in this conversation, or begin one of this name; without it a new one is begun
    #[arg(long, value_name = "ID")]
    pub conversation: Option<String>,
    /// Repository: a path on this machine, or the name of one on GitHub that the service knows (owner/name); without it
    /// that of the conversation, else that of the current directory
    #[arg(long, value_name = "PATH|NAME")]
    pub codebase: Option<String>,
    /// Print the conversation once the message is stored, and do not wait for the answer
    #[arg(long)]
    pub no_wait: bool,
    /// Close the conversation: what was said can no longer be read in it, and its worktree goes when nothing would be lost
    #[arg(long, requires = "conversation", conflicts_with_all = ["text", "codebase", "no_wait"])]
    pub close: bool,
    /// A request for the agent, or a command like /status; - reads standard input
    #[arg(required_unless_present = "close")]
    pub text: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum EnvCommand {
    /// Live environments with branch, state and when they were made
    List,
    /// Everything known about one environment
    Show {
        /// Its id, its work (issue-42, or owner/name#issue-42) or a thread that uses it (owner/name#42)
        name: String,
    },
    /// Remove one when nothing in it would be lost, and say every reason why not otherwise
    Remove(EnvRemove),
    /// Bring a removed one back: its branch, and what was not committed when it was removed
    Restore {
        /// As of show; the one that was removed last, where several were called so
        name: String,
    },
}

#[derive(Debug, PartialEq, Eq, Args)]
pub struct EnvRemove {
    /// As of show
    pub name: String,
    /// Take what is not committed to the trash, from where restore brings it back
    #[arg(long)]
    pub force: bool,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

impl Cli {
    /// Parses; on wrong use or `--help`, the error carries the text to print and the exit code.
    pub fn parse_from(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, clap::Error> {
        let command = without_globals_of_the_demo(Self::command()).after_long_help(plain_table());
        let cli = Self::from_arg_matches(&command.try_get_matches_from(args)?)?;
        if matches!(cli.command, Command::Demo(_)) && (cli.home.is_some() || cli.config.is_some()) {
            let why = "the demo brings settings and a home of its own: --home and --config do not go with it";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, why));
        }
        Ok(cli)
    }

    /// What of it are settings. Relative paths are taken from the current directory.
    pub fn flags(&self) -> io::Result<Flags> {
        let listen = match &self.command {
            Command::Serve(listening) | Command::Demo(Demo { listening, .. }) => listening.listen.clone(),
            Command::Doctor { .. } | Command::Migrate | Command::Cleanup { .. } => None,
            Command::Disconnect | Command::Import(_) | Command::Say(_) | Command::Env { .. } | Command::DemoAgent => {
                None
            }
        };
        Ok(Flags {
            config: self.config.as_ref().map(absolute).transpose()?,
            home: self.home.as_ref().map(absolute).transpose()?,
            listen,
        })
    }
}

/// The demo refuses them, and so does not offer them.
fn without_globals_of_the_demo(command: clap::Command) -> clap::Command {
    let hidden: Vec<Arg> =
        command.get_arguments().filter(|one| one.is_global_set()).map(|one| one.clone().hide(true)).collect();
    command.mut_subcommand("demo", |demo| demo.args(hidden))
}

impl Demo {
    /// Whether to stay up after the story; without a flag, when a person is at the terminal.
    pub fn holds(&self, terminal: bool) -> bool {
        self.hold || (terminal && !self.exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_are_understood() {
        let serve = parse("treewarden serve --listen 127.0.0.1:0 --home /srv/tw --config tw.toml").unwrap();
        let flags = serve.flags().unwrap();
        assert_eq!((flags.home, flags.listen), (Some("/srv/tw".into()), Some("127.0.0.1:0".to_owned())));
        assert!(flags.config.unwrap().is_absolute());
        let show = parse("treewarden env show octo/hello#issue-1").unwrap().command;
        assert_eq!(show, Command::Env { command: EnvCommand::Show { name: "octo/hello#issue-1".to_owned() } });
        let remove = EnvRemove { name: "issue-1".to_owned(), force: true, dry_run: true };
        assert_eq!(
            parse("treewarden env remove issue-1 --force --dry-run").unwrap().command,
            Command::Env { command: EnvCommand::Remove(remove) }
        );
        let restore = EnvCommand::Restore { name: "octo/hello#1".to_owned() };
        assert_eq!(parse("treewarden env restore octo/hello#1").unwrap().command, Command::Env { command: restore });
        assert_eq!(parse("treewarden cleanup --dry-run").unwrap().command, Command::Cleanup { dry_run: true });
        let import = Import { from: Some("sqlite:old.db".to_owned()), dry_run: true, backfill: false, json: false };
        assert_eq!(parse("treewarden import --from sqlite:old.db --dry-run").unwrap().command, Command::Import(import));
        assert!(parse("treewarden import --backfill").is_ok());
        let Command::Say(said) = parse("treewarden say --codebase octo/hello --no-wait -").unwrap().command else {
            panic!("a message");
        };
        assert_eq!(
            (said.codebase.as_deref(), said.text.join(" ").as_str(), said.no_wait),
            (Some("octo/hello"), "-", true)
        );
        assert!(parse("treewarden say --close --conversation c").is_ok());
        assert_eq!(parse("treewarden demo-agent").unwrap().command, Command::DemoAgent);
        for wrong in [
            "treewarden",
            "treewarden dance",
            "treewarden demo --hold --exit",
            "treewarden demo --home /srv/tw",
            "treewarden --config tw.toml demo",
            "treewarden env show",
            "treewarden env remove",
            "treewarden env restore",
            "treewarden env restore issue-1 --dry-run",
            "treewarden import",
            "treewarden import --dry-run",
            "treewarden say",
            "treewarden say --close",
            "treewarden say --close --conversation c text",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_demo_holds_on_a_terminal() {
        let demo = |line: &str| match parse(line).unwrap().command {
            Command::Demo(demo) => demo,
            other => panic!("{other:?}"),
        };
        assert!(demo("treewarden demo").holds(true) && !demo("treewarden demo").holds(false));
        assert!(demo("treewarden demo --hold").holds(false) && !demo("treewarden demo --exit").holds(true));
    }

    #[test]
    fn long_help_lists_settings_and_hides_the_toy() {
        let help = parse("treewarden --help").unwrap_err().to_string();
        assert!(help.contains("TREEWARDEN_AGENT_COMMAND") && help.contains("doctor"), "{help}");
        assert!(!help.contains("demo-agent"), "{help}");
    }

    #[test]
    fn each_command_offers_what_it_takes_in_plain_words() {
        for command in [
            "serve",
            "demo",
            "doctor",
            "migrate",
            "cleanup",
            "import",
            "say",
            "env",
            "env list",
            "env show",
            "env remove",
            "env restore",
        ] {
            let help = parse(&format!("treewarden {command} --help")).unwrap_err().to_string();
            assert!(!help.contains(['`', '*']) && !help.contains("]("), "{help}");
            assert_eq!(help.contains("--home") && help.contains("--config"), command != "demo", "{help}");
        }
    }
}
