//! What helps against what the doctor found: for each fault one line to copy, a command or the page to open. Words about
//! it belong to what was seen. No command takes anything away, and none points the service at another database.

use crate::config::{AgentConfig, Config, Flags, HomeError, Listen};
use crate::github::GithubError;
use crate::model::is_loopback_host;
use crate::store::StoreError;
use reqwest::Url;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde::Serialize;
use std::{
    fs,
    net::{TcpListener, TcpStream, ToSocketAddrs},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Mend {
    /// For a shell. What only a person knows stands in angle brackets.
    Run(String),
    /// An address, where nothing but a click helps.
    Open(String),
}

impl Mend {
    pub fn line(&self) -> &str {
        match self {
            Mend::Run(line) | Mend::Open(line) => line,
        }
    }
}

pub(super) fn run(command: impl Into<String>) -> Mend {
    Mend::Run(command.into())
}

pub(super) fn open(page: impl Into<String>) -> Mend {
    Mend::Open(page.into())
}

/// Sets a variable for what is started from this shell.
pub(super) fn export(variable: &str, value: &str) -> Mend {
    let value = shlex::try_quote(value).map_or_else(|_| value.to_owned(), |value| value.into_owned());
    run(format!("export {variable}={value}"))
}

/// What the examination was asked to look at, as it is asked again.
pub(super) fn again(flags: &Flags) -> String {
    let mut command = "treewarden doctor".to_owned();
    for (flag, path) in [("config", &flags.config), ("home", &flags.home)] {
        command.extend(path.iter().map(|path| format!(" --{flag} {}", quoted(path))));
    }
    command
}

pub(super) fn home(error: &HomeError, config: &Config, flags: &Flags) -> Mend {
    match error {
        HomeError::WorktreeBase(inner) => directory(inner, &config.worktree_base, flags, "WORKTREE_BASE"),
        error if flags.home.is_some() => match directory(error, &config.home, flags, HOME) {
            // The flag would win over the variable.
            Mend::Run(command) if command.starts_with("export ") => {
                let other = Flags { home: Some(another(error, &config.home)), ..flags.clone() };
                run(again(&other))
            }
            mend => mend,
        },
        error => directory(error, &config.home, flags, HOME),
    }
}

const HOME: &str = "TREEWARDEN_HOME";

fn directory(error: &HomeError, wanted: &Path, flags: &Flags, variable: &str) -> Mend {
    let elsewhere = || export(variable, &another(error, wanted).display().to_string());
    match error {
        HomeError::Open { path, .. } => run(format!("chmod 700 {}", quoted(path))),
        HomeError::NotOurs { .. } | HomeError::NotADirectory { .. } => elsewhere(),
        HomeError::NotMade { path, .. } | HomeError::NotWritable { path, .. } => {
            let user = rustix::process::geteuid().as_raw();
            let missing = || run(format!("sudo install -d -m 700 -o {user} {}", quoted(wanted)));
            match unlocked(path, flags) {
                Some(mend) => mend,
                // What is there stays with whoever has it.
                None if path != wanted => missing(),
                None if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) => missing(),
                None => elsewhere(),
            }
        }
        HomeError::WorktreeBase(inner) => directory(inner, wanted, flags, variable),
    }
}

/// A directory that is not there yet, beside a file or inside of a directory that stands in the way.
fn another(error: &HomeError, wanted: &Path) -> PathBuf {
    match error {
        HomeError::NotADirectory { path } => path.with_file_name("treewarden-home"),
        _ => wanted.join("treewarden-home"),
    }
}

/// Against a place that this user cannot write to, where somebody else need not give it away.
fn unlocked(place: &Path, flags: &Flags) -> Option<Mend> {
    if access(place, Access::WRITE_OK) == Err(Errno::ROFS) {
        let place = quoted(place);
        return Some(run(format!("sudo mount -o remount,rw \"$(findmnt -n -o TARGET -T {place})\"")));
    }
    match fs::metadata(place).ok()?.uid() {
        owner if owner == rustix::process::geteuid().as_raw() => {
            let mode = if place.is_dir() { "u+rwx" } else { "u+rw" };
            Some(run(format!("chmod {mode} {}", quoted(place))))
        }
        0 => None,
        // The user of the service, most of the time.
        owner => Some(run(format!("sudo -E -u '#{owner}' {}", again(flags)))),
    }
}

/// Lets this user write to a file or directory that stays where it is.
pub(super) fn writable(place: &Path, flags: &Flags) -> Mend {
    let user = rustix::process::geteuid().as_raw();
    let given = || match place.is_dir() {
        // Not taken away from those who have it.
        true => run(format!("sudo setfacl -m u:{user}:rwx {}", quoted(place))),
        false => run(format!("sudo chown {user} {}", quoted(place))),
    };
    unlocked(place, flags).unwrap_or_else(given)
}

/// Never another database: an installation would start with an empty memory.
pub(super) fn database(error: &StoreError, url: &str, file: Option<&Path>, flags: &Flags) -> Mend {
    match (error, file) {
        (StoreError::NewerSchema { .. }, _) => {
            let program = std::env::current_exe().unwrap_or_else(|_| "/usr/local/bin/treewarden".into());
            run(format!("sudo install '<the newer treewarden>' {}", quoted(&program)))
        }
        (StoreError::Url(_), _) => export("DATABASE_URL", POSTGRES),
        (StoreError::Unavailable(_), Some(file)) => writable(file, flags),
        (StoreError::Unavailable(_), None) => server(url),
        (StoreError::Corrupt { .. }, Some(file)) => run(restored(file)),
        (StoreError::Corrupt { .. }, None) => run("psql \"$DATABASE_URL\" -f '<its backup>'"),
        (StoreError::DiskFull, Some(file)) => {
            let place = quoted(file.parent().unwrap_or(Path::new("/")));
            run(format!("sudo du -xh \"$(findmnt -n -o TARGET -T {place})\" | sort -h | tail -n 20"))
        }
        (StoreError::DiskFull, None) => run("psql \"$DATABASE_URL\" -c '\\l+'"),
        (StoreError::Busy | StoreError::Full, _) => run(again(flags)),
        (StoreError::Migration(_) | StoreError::Conflict(_) | StoreError::Failed(_), Some(file)) => {
            run(format!("sqlite3 {} .schema", quoted(file)))
        }
        (StoreError::Migration(_) | StoreError::Conflict(_) | StoreError::Failed(_), None) => {
            run("psql \"$DATABASE_URL\" -c '\\d'")
        }
    }
}

/// What is there is moved away with what SQLite keeps beside it: that would be played over a backup.
fn restored(file: &Path) -> String {
    let aside = |suffix: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (wal, shm) = (aside("-wal"), aside("-shm"));
    let (file, spoilt, wal, shm) = (quoted(file), quoted(&aside(".spoilt")), quoted(&wal), quoted(&shm));
    format!("mkdir {spoilt} && (mv {file} {wal} {shm} {spoilt}; cp '<its backup>' {file})")
}

/// A PostgreSQL that does not answer, or lets nobody in by this URL.
fn server(url: &str) -> Mend {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or("localhost");
    let port = url.as_ref().and_then(|url| url.port()).unwrap_or(5432);
    let answers = (host.trim_matches(['[', ']']), port)
        .to_socket_addrs()
        .is_ok_and(|mut places| places.any(|place| TcpStream::connect_timeout(&place, Duration::from_secs(2)).is_ok()));
    match answers {
        true => export("DATABASE_URL", POSTGRES),
        false if host == "localhost" || is_loopback_host(host) => run("sudo systemctl start postgresql"),
        false => run(format!("pg_isready -h {host} -p {port}")),
    }
}

const POSTGRES: &str = "postgres://<user>:<password>@<host>/<database>";

pub(super) fn github(error: &GithubError, api_url: &str, web_url: &str, flags: &Flags) -> Mend {
    match error {
        GithubError::Unauthorized | GithubError::Settings(_) | GithubError::Forbidden(_) | GithubError::Invalid(_) => {
            open(format!("{web_url}/settings/apps"))
        }
        GithubError::Unreachable(_) => run(format!("curl -sSI {api_url}")),
        GithubError::RateLimited { retry_after } => run(format!("sleep {}; {}", retry_after.as_secs(), again(flags))),
        GithubError::Server { .. } if web_url == PUBLIC => open("https://www.githubstatus.com"),
        GithubError::Server { .. } => run(again(flags)),
        GithubError::NotFound(_) | GithubError::BadAnswer(_) | GithubError::OutcomeUnknown => {
            let api = if web_url == PUBLIC { "https://api.github.com".to_owned() } else { format!("{web_url}/api/v3") };
            export("GITHUB_API_URL", &api)
        }
    }
}

pub(super) const PUBLIC: &str = "https://github.com";

pub(super) const AGENT: &str = "TREEWARDEN_AGENT_COMMAND";

/// The agent's command, with its program where it is.
pub(super) fn agent_program(agent: &AgentConfig) -> Mend {
    let name = Path::new(&agent.argv[0]).file_name().unwrap_or_default().to_string_lossy();
    let arguments = shlex::try_join(agent.argv[1..].iter().map(String::as_str)).unwrap_or_default();
    export(AGENT, format!("/<folder>/{name} {arguments}").trim_end())
}

/// An address of this machine that is free now, near the one that was wanted.
pub(super) fn address(wanted: &Listen, flags: &Flags) -> Mend {
    let first = wanted.port.max(1024);
    let near = (first..=first.saturating_add(100)).filter(|port| *port != wanted.port);
    let places = near.flat_map(|port| [&*wanted.host, "127.0.0.1"].map(|host| Listen { host: host.to_owned(), port }));
    let free = places.map(|place| place.to_string()).find(|place| TcpListener::bind(place).is_ok());
    let free = free.unwrap_or_else(|| "127.0.0.1:0".to_owned());
    match flags.listen {
        Some(_) => run(format!("{} --listen {free}", again(flags))),
        None => export("TREEWARDEN_LISTEN", &free),
    }
}

/// Fit for a command line.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    shlex::try_quote(&text).map(|quoted| quoted.into_owned()).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn config() -> Config {
        let env = |name: &str| (name == "HOME").then(|| "/home/ann".to_owned());
        Config::load(&Flags::default(), env, |_| Err(io::ErrorKind::NotFound.into())).unwrap()
    }

    /// One line that a shell, or a browser, takes as it is.
    fn check(mend: &Mend) {
        const PROGRAMS: [&str; 14] = [
            "export",
            "unset",
            "chmod",
            "mkdir",
            "sudo",
            "treewarden",
            "cp",
            "psql",
            "pg_isready",
            "sqlite3",
            "curl",
            "sleep",
            "openssl",
            "${EDITOR:-vi}",
        ];
        match mend {
            Mend::Run(line) => {
                let words = shlex::split(line).unwrap_or_else(|| panic!("no command: {line}"));
                assert!(PROGRAMS.contains(&&*words[0]) && words.len() > 1 && !line.contains('\n'), "{line}");
                assert!(!line.ends_with('.'), "a sentence: {line}");
            }
            Mend::Open(page) => {
                let page = Url::parse(page).unwrap();
                assert!(matches!(page.scheme(), "https" | "http") && page.host_str().is_some(), "{page}");
            }
        }
    }

    #[test]
    fn each_fault_of_the_home_has_its_command() {
        let (config, dir) = (config(), tempfile::tempdir().unwrap());
        let place = dir.path().join("a place");
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let faults = || {
            let path = place.clone();
            [
                HomeError::NotMade { path: path.clone(), error: denied() },
                HomeError::Open { path: path.clone(), mode: 0o755 },
                HomeError::NotOurs { path: path.clone(), mode: 0o755, why: "holds other things" },
                HomeError::NotWritable { path: path.clone(), error: denied() },
                HomeError::NotADirectory { path },
            ]
        };
        let flagged = Flags { home: Some(place.clone()), ..Flags::default() };
        for flags in [Flags::default(), flagged.clone()] {
            for error in faults() {
                check(&home(&error, &config, &flags));
                check(&home(&HomeError::WorktreeBase(Box::new(error)), &config, &flags));
            }
        }
        let not_ours = &faults()[2];
        let line = |flags: &Flags| home(not_ours, &config, flags).line().to_owned();
        assert_eq!(line(&Flags::default()), "export TREEWARDEN_HOME=/home/ann/.treewarden/treewarden-home");
        assert_eq!(line(&flagged), "treewarden doctor --home /home/ann/.treewarden/treewarden-home", "the flag wins");
        // What lies above belongs to everybody.
        let above = HomeError::NotWritable { path: "/no such place".into(), error: denied() };
        let user = rustix::process::geteuid().as_raw();
        let made = format!("sudo install -d -m 700 -o {user} /home/ann/.treewarden");
        assert_eq!(home(&above, &config, &Flags::default()).line(), made);
    }

    #[test]
    fn each_fault_of_the_database_has_its_command_and_none_makes_another() {
        let (flags, dir) = (Flags::default(), tempfile::tempdir().unwrap());
        let file = dir.path().join("tw.db");
        let text = || "why".to_owned();
        let faults = [
            StoreError::Url(text()),
            StoreError::Unavailable(text()),
            StoreError::Busy,
            StoreError::DiskFull,
            StoreError::NewerSchema { found: 2, known: 1 },
            StoreError::Migration(text()),
            StoreError::Corrupt { what: text(), why: text() },
            StoreError::Conflict(text()),
            StoreError::Full,
            StoreError::Failed(text()),
        ];
        for error in &faults {
            for file in [None, Some(file.as_path())] {
                let mend = database(error, "postgres://tw:hunter2@127.0.0.1:1/tw", file, &flags);
                check(&mend);
                assert!(!mend.line().contains("hunter2") && !mend.line().contains("sqlite://"), "{mend:?}");
            }
        }
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://tw@{}/tw", there.local_addr().unwrap());
        let refused = database(&faults[1], &url, None, &flags);
        assert!(refused.line().starts_with("export DATABASE_URL="), "it answers, and lets nobody in: {refused:?}");
    }

    #[test]
    fn each_fault_of_github_has_its_command_or_page() {
        let text = || "why".to_owned();
        let faults = [
            GithubError::NotFound(text()),
            GithubError::Unauthorized,
            GithubError::Forbidden(text()),
            GithubError::RateLimited { retry_after: Duration::from_secs(9) },
            GithubError::Invalid(text()),
            GithubError::Server { status: 502 },
            GithubError::Unreachable(text()),
            GithubError::OutcomeUnknown,
            GithubError::BadAnswer(text()),
            GithubError::Settings(text()),
        ];
        for error in &faults {
            for (api, web) in
                [("https://api.github.com", PUBLIC), ("https://ghe.example/api/v3", "https://ghe.example")]
            {
                check(&github(error, api, web, &Flags::default()));
            }
        }
    }

    #[test]
    fn the_rest_has_its_command() {
        let flags = Flags { config: Some("/etc/t w.toml".into()), ..Flags::default() };
        assert_eq!(again(&flags), "treewarden doctor --config '/etc/t w.toml'");
        let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let wanted = Listen { host: "127.0.0.1".to_owned(), port: taken.port() };
        let flagged = Flags { listen: Some(wanted.to_string()), ..Flags::default() };
        for flags in [flags, flagged] {
            let mend = address(&wanted, &flags);
            check(&mend);
            assert!(!mend.line().ends_with(&wanted.to_string()), "{mend:?}");
        }
        let agent = AgentConfig { argv: vec!["claude".into(), "-p".into(), "a b".into()], env: vec![], unset: vec![] };
        let mend = agent_program(&agent);
        check(&mend);
        let value = shlex::split(mend.line()).unwrap().pop().unwrap();
        let command = value.strip_prefix("TREEWARDEN_AGENT_COMMAND=").unwrap();
        assert_eq!(shlex::split(command).unwrap(), ["/<folder>/claude", "-p", "a b"]);
    }
}
