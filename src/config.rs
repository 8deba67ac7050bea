//! What the person who runs Treewarden decided: defaults < `treewarden.toml` < environment < flags.
//!
//! Everything is checked before anything starts, and every wrong value is reported at once. No other file of the crate
//! reads environment variables, and this one reads settings in a single place ([`Config::from_process`]); everything else takes
//! its sources as arguments. What may not live here: starting anything, or a second list of settings beside [`SETTINGS`].

mod base;
mod home;
mod parse;
mod problem;
mod read;
mod source;
mod table;

pub use home::{HomeError, HomeState, resolved};
pub use parse::Listen;
pub use problem::{ConfigProblems, Fault, Problem};
pub use source::{Flags, Origin};
pub use table::{SETTINGS, Setting, markdown_table, plain_table};

use crate::decide::authority::Authority;
use crate::model::{CodebaseMode, DiskMarks, Pacing, UserId};
use crate::plain_file::{self, Links};
use crate::telemetry::LogFormat;
use reqwest::Url;
use rustix::process::{Pid, getppid};
use secrecy::{ExposeSecret, SecretString};
use std::{cell::RefCell, collections::BTreeSet, ffi::OsString, io, path::Path, path::PathBuf, time::Duration};

/// Longest of the files that settings and keys are read from.
const MOST_TEXT: u64 = 1024 * 1024;

/// All settings, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Absolute.
    pub home: PathBuf,
    /// Absolute.
    pub worktree_base: PathBuf,
    /// The one of the user, as the environment says.
    pub user_home: Option<PathBuf>,
    pub listen: Listen,
    /// Without a trailing slash; see [`Config::public_url`].
    pub public_url: Option<String>,
    /// May carry a password.
    pub database_url: SecretString,
    /// How long a statement waits for a connection or a lock; absent: as long as the store sees fit.
    pub database_patience: Option<Duration>,
    pub pacing: Pacing,
    pub github: GithubConfig,
    pub stale_after: Duration,
    /// Who may ask for what.
    pub authority: Authority,
    pub max_worktrees: u32,
    /// Work may start from what the last fetch brought while the git server cannot be reached.
    pub offline_create: bool,
    pub cleanup_interval: Duration,
    /// How much of the disk one codebase may take.
    pub disk_marks: DiskMarks,
    /// Idle for so long, a worktree gives up its caches; absent: none does.
    pub reclaim_after: Option<Duration>,
    pub trash_for: Duration,
    pub retain_for: Duration,
    pub max_runs: u32,
    /// Absent: no agent is configured, and runs fail with a sentence that says so.
    pub agent: Option<AgentConfig>,
    pub run_time_limit: Duration,
    /// Who may do everywhere what takes admin permission on a repository.
    pub admins: BTreeSet<UserId>,
    /// What a codebase starts in that is met for the first time.
    pub mode: CodebaseMode,
    pub local: bool,
    pub sandbox: Sandbox,
    pub secret_key: Option<SecretString>,
    pub log: String,
    pub log_format: LogFormat,
    /// The settings file, when secrets stand in it.
    pub secrets_in: Option<PathBuf>,
    /// The variables of the settings that were set, in the order of the table, and where the value that counts stands.
    pub given: Vec<(&'static str, Origin)>,
    /// The settings file, when there is one.
    pub file: Option<PathBuf>,
    /// TREEWARDEN_HOME is set, and names another home than the one of a container, which counts.
    pub home_overruled: bool,
    /// Environment variables that are named like settings and are none: misspelled, or of a service called like this one.
    pub ignored: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct GithubConfig {
    /// Without a trailing slash.
    pub api_url: String,
    /// Without a trailing slash.
    pub web_url: String,
    /// Absent: no App is connected yet.
    pub app: Option<AppCredentials>,
    pub deliveries: Deliveries,
    /// The environment's variables about proxies, for git; empty for a GitHub on this very machine.
    pub proxy: Vec<(String, SecretString)>,
}

#[derive(Clone, Debug)]
pub struct AppCredentials {
    pub app_id: u64,
    /// PEM.
    pub private_key: SecretString,
    /// The file it was read from, if it was.
    pub private_key_file: Option<PathBuf>,
    /// Always there where deliveries are [sent](Deliveries::Sent).
    pub webhook_secret: Option<SecretString>,
    pub oauth: Option<OauthCredentials>,
}

/// Characters of a webhook secret that nobody guesses.
pub const SHORTEST_SECRET: usize = 16;

impl AppCredentials {
    /// Whoever guesses it can make the service believe anything.
    pub fn has_short_secret(&self) -> bool {
        self.webhook_secret.as_ref().is_some_and(|secret| secret.expose_secret().len() < SHORTEST_SECRET)
    }
}

#[derive(Clone, Debug)]
pub struct OauthCredentials {
    pub client_id: String,
    pub client_secret: SecretString,
}

/// An agent of kind `command`.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Program and arguments; never empty, never run through a shell.
    pub argv: Vec<String>,
    /// `PATH`, `LANG` and `TERM` of the service as far as they are set, and what `TREEWARDEN_AGENT_ENV` names.
    pub env: Vec<(String, SecretString)>,
    /// What `TREEWARDEN_AGENT_ENV` names and is not set, or empty.
    pub unset: Vec<String>,
}

/// How GitHub's deliveries come here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deliveries {
    /// GitHub sends them; what it cannot hand over is fetched.
    Sent,
    /// All of them are fetched, and none is let in.
    Fetched,
}

/// The least protection a run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    Strict,
    Basic,
    Off,
}

/// What a command reads of the settings, besides where the home is and what is logged. What is wrong with others is none of
/// its business: a shell beside the service need not have its secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    All,
    Home,
    Database,
}

impl Reads {
    /// What is said about a file as a whole, or about a name that is none, may be about anything.
    fn is_concerned(self, problem: &Problem) -> bool {
        let is_it = |setting: &&&Setting| setting.variable == problem.setting || setting.key() == problem.setting;
        let Some(setting) = SETTINGS.iter().find(is_it) else { return true };
        let of_home = [&table::HOME, &table::CONTAINER, &table::LOG, &table::LOG_FORMAT];
        let is_of_home = || of_home.iter().any(|one| one.variable == setting.variable);
        match self {
            Reads::All => true,
            Reads::Home => is_of_home(),
            Reads::Database => is_of_home() || setting.variable == table::DATABASE_URL.variable,
        }
    }
}

fn of_what_is_read(config: Config, mut problems: Vec<Problem>, reads: Reads) -> Result<Config, ConfigProblems> {
    problems.retain(|problem| reads.is_concerned(problem));
    if problems.is_empty() { Ok(config) } else { Err(ConfigProblems(problems)) }
}

impl Config {
    /// Reads and checks everything. `env` answers for one environment variable; `files` gives a file's text.
    pub fn load(
        flags: &Flags,
        env: impl Fn(&str) -> Option<String>,
        files: impl Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, ConfigProblems> {
        let (config, problems) = read::load(flags, &env, &files);
        of_what_is_read(config, problems, Reads::All)
    }

    /// [`load`](Self::load) with this process's environment and the real file system.
    pub fn from_process(flags: &Flags) -> Result<Self, ConfigProblems> {
        Self::from_process_for(flags, Reads::All)
    }

    /// The same for a command that reads a part of it. The other settings have their defaults where they are wrong.
    pub fn from_process_for(flags: &Flags, reads: Reads) -> Result<Self, ConfigProblems> {
        let config = Self::load_raw(flags, |name| std::env::var_os(name), text_of, reads)?;
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        Ok(Self { ignored: ignored(names), ..config })
    }

    /// [`load`](Self::load) with an environment as the system gives it: a value that is not UTF-8 is a problem, since what
    /// can be shown of it is another value, and of a secret one that is easier to guess.
    fn load_raw(
        flags: &Flags,
        env: impl Fn(&str) -> Option<OsString>,
        files: impl Fn(&Path) -> io::Result<String>,
        reads: Reads,
    ) -> Result<Self, ConfigProblems> {
        let garbled = RefCell::new(BTreeSet::new());
        let text = |name: &str| {
            env(name).map(|value| {
                value.into_string().unwrap_or_else(|value| {
                    garbled.borrow_mut().insert(name.to_owned());
                    value.to_string_lossy().into_owned()
                })
            })
        };
        let (config, mut problems) = read::load(flags, &text, &files);
        let garbled = garbled.into_inner();
        // What was said about the value was said about another one.
        problems.retain(|problem| !garbled.contains(&problem.setting));
        problems.extend(garbled.into_iter().map(|setting| Problem {
            setting,
            origin: Some(Origin::Environment),
            given: None,
            expected: "is not valid UTF-8; expected a value that is".to_owned(),
            fault: Fault::Value,
        }));
        of_what_is_read(config, problems, reads)
    }

    /// Where a setting stands; absent when it has its default.
    pub fn origin(&self, variable: &str) -> Option<&Origin> {
        self.given.iter().find(|(given, _)| *given == variable).map(|(_, origin)| origin)
    }

    /// The settings that were set although this version does nothing with them.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let reserved =
            SETTINGS.iter().filter(|setting| !setting.has_effect() && self.origin(setting.variable).is_some());
        reserved.map(|setting| setting.variable).collect()
    }

    /// Makes the home (readable by its owner only) and the directories in it.
    pub fn prepare_home(&self) -> Result<(), HomeError> {
        base::look(self)?;
        home::prepare(&self.home, &self.worktree_base)
    }

    /// Whether [`prepare_home`](Self::prepare_home) would succeed; changes nothing.
    pub fn look_at_home(&self) -> Result<HomeState, HomeError> {
        let state = home::look(&self.home, &self.worktree_base)?;
        base::look(self).map(|()| state)
    }

    /// How browsers and GitHub reach the service that listens on `bound`, without a trailing slash.
    pub fn public_url(&self, bound: std::net::SocketAddr) -> String {
        self.public_url.clone().unwrap_or_else(|| format!("http://{bound}"))
    }

    /// Every secret among the settings, for redaction.
    pub fn secrets(&self) -> Vec<SecretString> {
        let mut secrets: Vec<&SecretString> = self.secret_key.iter().collect();
        if let Some(app) = &self.github.app {
            secrets.push(&app.private_key);
            secrets.extend(&app.webhook_secret);
            secrets.extend(app.oauth.as_ref().map(|oauth| &oauth.client_secret));
        }
        let named = self.agent.iter().flat_map(|agent| &agent.env);
        secrets
            .extend(named.filter(|(name, value)| may_be_secret(name, value.expose_secret())).map(|(_, value)| value));
        let addresses = self.github.proxy.iter().map(|(_, url)| url).chain([&self.database_url]);
        secrets.into_iter().cloned().chain(addresses.flat_map(secret_parts)).collect()
    }
}

/// Whether systemd itself has started this process, and so given it the environment of a unit, and no flag names another home
/// than that. A shell in a terminal that systemd has started has its variable as well, but not its number.
pub fn is_given_by_systemd(flags: &Flags) -> bool {
    let is_of_unit = std::env::var_os("INVOCATION_ID").is_some() && getppid() == Some(Pid::INIT);
    let home = std::env::var_os(table::HOME.variable).map(PathBuf::from);
    let is_other = |named: &PathBuf| home.as_ref().is_some_and(|home| home != named);
    is_of_unit && !flags.home.as_ref().is_some_and(is_other)
}

/// What is secret of an address with a password in it: the address, and the password as it is written and as it is sent. One
/// of small letters only is left alone: it would take a common word, such as the name of this program, out of all texts.
fn secret_parts(address: &SecretString) -> Vec<SecretString> {
    let text = address.expose_secret();
    let passwords = Url::parse(text).map(|url| passwords(&url)).unwrap_or_default();
    if passwords.is_empty() && !text.contains('@') {
        return Vec::new();
    }
    let telling = passwords.into_iter().filter(|password| password.chars().any(|c| !c.is_ascii_lowercase()));
    [text.to_owned()].into_iter().chain(telling).map(SecretString::from).collect()
}

fn passwords(url: &Url) -> Vec<String> {
    let in_query =
        |url: &Url| url.query_pairs().find(|(name, _)| name == "password").map(|(_, password)| password.into_owned());
    let written = url.password().map(str::to_owned);
    // A query is decoded for us; in front of a host a plus sign is one.
    let sent = written.as_ref().and_then(|written| {
        let mut carrier = url.clone();
        carrier.set_query(Some(&format!("password={}", written.replace('+', "%2B"))));
        in_query(&carrier)
    });
    [written, sent, in_query(url)].into_iter().flatten().collect()
}

/// Of a plain file. A pipe in its place would be waited for for ever; one that a shell hands over is meant.
fn text_of(path: &Path) -> io::Result<String> {
    match path.starts_with("/dev") {
        true => std::fs::read_to_string(path),
        false => plain_file::read_text(path, Links::Follow, MOST_TEXT),
    }
}

fn ignored(names: impl Iterator<Item = String>) -> Vec<String> {
    let known = |name: &str| SETTINGS.iter().any(|setting| setting.variable == name);
    let mut ignored: Vec<String> = names.filter(|name| name.starts_with("TREEWARDEN_") && !known(name)).collect();
    ignored.sort();
    ignored
}

/// Whether a variable handed to the agent may hold a secret: whatever its name says, unless its value is plainly something
/// else. Shorter ones and those of `PATH` and the like are ordinary words that must not vanish from texts.
fn may_be_secret(name: &str, value: &str) -> bool {
    let sounds = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];
    if sounds.iter().any(|word| name.to_ascii_uppercase().contains(word)) {
        return true;
    }
    let ordinary = matches!(name, "PATH" | "HOME" | "LANG" | "TERM" | "TZ" | "SHELL" | "USER" | "LOGNAME" | "TMPDIR")
        || name.starts_with("LC_");
    !ordinary && value.trim().len() >= 8 && !parse::is_plain_value(value.trim())
}

#[cfg(test)]
mod tests;
