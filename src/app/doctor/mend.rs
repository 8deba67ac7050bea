//! What helps against what the doctor found: for each fault one line to copy, a command or the page to open. Words about
//! it belong to what was seen. No command takes anything away, and none points the service at another database.

use super::super::{
    credentials::CredentialsError,
    look::shut,
    program::Unstartable,
    secret_key::{self, KeyError},
};
use super::asked::{Asked, RESTART, is_own, quoted, user};
use super::root::{by_root, by_settings, is_in_home, link_aside, may_be_agents, moved};
use crate::config::{
    AgentConfig, AppCredentials, Config, Fault, HomeError, Listen, Origin, Problem, SETTINGS, Setting,
};
use crate::github::GithubError;
use crate::isolation::IsolationError;
use crate::model::is_loopback_host;
use crate::reply::shell;
use crate::store::{Holder, Lacking, Store, StoreError};
use reqwest::Url;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use secrecy::ExposeSecret;
use serde::{Serialize, Serializer};
use std::{
    fs,
    io::{self, Read},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mend {
    /// For a shell. What only a person knows stands in angle brackets.
    Run(String),
    /// For a shell; and what has to be known before.
    Aside { line: String, seen: String },
    /// An address, where nothing but a click helps.
    Open(String),
}

impl Serialize for Mend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.line())
    }
}

impl Mend {
    pub fn line(&self) -> &str {
        match self {
            Mend::Run(line) | Mend::Aside { line, .. } | Mend::Open(line) => line,
        }
    }

    /// A command, once another one has made it work.
    fn after(self, first: &str) -> Self {
        match self {
            Mend::Run(line) => Mend::Run(format!("{first} && {line}")),
            Mend::Aside { line, seen } => Mend::Aside { line: format!("{first} && {line}"), seen },
            Mend::Open(page) => Mend::Open(page),
        }
    }
}

pub(super) fn run(command: impl Into<String>) -> Mend {
    Mend::Run(command.into())
}

pub(super) fn open(page: impl Into<String>) -> Mend {
    Mend::Open(page.into())
}

/// A setting that was not understood, or the file it names.
pub(super) fn problem(problem: &Problem, asked: &Asked) -> Mend {
    let setting = problem.setting.as_str();
    // Where nothing else rests on the value.
    let is_optional = |known: &Setting| !known.default.is_empty() && setting != PUBLIC_URL || !known.has_effect();
    let has_default = SETTINGS.iter().any(|known| known.variable == setting && is_optional(known));
    match (&problem.fault, &problem.origin) {
        (Fault::OfAnother(home), _) => {
            let owner = fs::metadata(home).map_or(0, |there| there.uid());
            directory(&HomeError::OfAnother { path: home.to_path_buf(), owner }, home, asked, HOME)
        }
        (Fault::File(path), None) if shut(path).is_some_and(|directory| !is_own(&directory)) => {
            match asked.flags.config {
                Some(_) => run(asked.by_the_home().again()),
                None => in_own_directory(HOME, asked),
            }
        }
        (Fault::File(path), None) if unreadable(path) => match is_own(path) || is_called(path, "toml") {
            true => writable(path, asked),
            false => run(asked.by_the_home().again()),
        },
        (Fault::File(path), Some(Origin::File(settings)))
            if may_be_agents(settings) && !is_own(path) && !asked.is_beside_environment(path) =>
        {
            looked_at_first(path, settings, asked)
        }
        (Fault::File(path), Some(_)) if unreadable(path) => key_readable(path, asked),
        (Fault::File(path), None) if path.exists() && !path.is_file() => match asked.flags.config {
            Some(_) => run(asked.by_the_home().again()),
            None => aside(path, asked),
        },
        (Fault::File(path), None) => asked.edit(path),
        (Fault::File(path), Some(Origin::File(settings))) if path.is_dir() => asked.edit(settings),
        (Fault::File(path), Some(_)) if path.is_dir() => {
            asked.set(&[(KEY_FILE, &*path.join("<the .pem file of the App>").display().to_string())])
        }
        (Fault::File(path), Some(_)) => asked.place(PEM, path),
        (_, Some(Origin::File(path))) => asked.edit(path),
        (_, Some(Origin::Flag)) => {
            // The only one that the doctor takes as a setting.
            let other = asked.about(None);
            run(format!("{} --home ~/.treewarden", other.again()))
        }
        (Fault::Surplus, Some(Origin::Environment) | None) => asked.unset(&[setting]),
        (Fault::Value, Some(Origin::Environment) | None) if ADDRESSES.contains(&setting) => {
            let host = problem.given.as_deref().and_then(|given| Url::parse(given).ok()?.host_str().map(str::to_owned));
            addresses(host.as_deref().unwrap_or("<host>"), asked)
        }
        (Fault::Value, Some(Origin::Environment)) if setting == KEY => key(asked),
        (Fault::Value, Some(Origin::Environment)) if has_default => asked.unset(&[setting]),
        (Fault::Value, None) if setting == KEY => asked.set(&[(KEY_FILE, "<the .pem file of the App>")]),
        (Fault::Value, Some(Origin::Environment) | None) => asked.set(&[(setting, hint(setting))]),
    }
}

const KEY: &str = "GITHUB_APP_PRIVATE_KEY";
const KEY_FILE: &str = "GITHUB_APP_PRIVATE_KEY_FILE";
const SECRET_KEY: &str = "TREEWARDEN_SECRET_KEY";
const PUBLIC_URL: &str = "TREEWARDEN_PUBLIC_URL";
const PEM: &str = "<the .pem file that GitHub gave>";
/// They belong to one server: one of them alone is the next fault.
const ADDRESSES: [&str; 2] = ["GITHUB_API_URL", "GITHUB_WEB_URL"];

/// What a person looks up where.
fn hint(setting: &str) -> &'static str {
    match setting {
        "GITHUB_APP_ID" => "<the App ID at the top of its page>",
        "GITHUB_WEBHOOK_SECRET" => "<the webhook secret of its page>",
        KEY_FILE => "<the .pem file of the App>",
        SECRET_KEY => "<the key that sealed the credentials>",
        PUBLIC_URL => "https://<host>",
        AGENT => "/<folder>/<program> <arguments>",
        _ => "<value>",
    }
}

fn addresses(host: &str, asked: &Asked) -> Mend {
    let (api, web) = match host {
        "api.github.com" | "github.com" => ("https://api.github.com".to_owned(), PUBLIC.to_owned()),
        host => (format!("https://{host}/api/v3"), format!("https://{host}")),
    };
    asked.set(&[(ADDRESSES[0], &*api), (ADDRESSES[1], &*web)])
}

/// The key where it stands in a variable.
fn key(asked: &Asked) -> Mend {
    let several_lines = || run(format!("export {KEY}=\"$(cat '{PEM}')\""));
    asked.edit_environment().unwrap_or_else(several_lines)
}

/// A file that settings name which an agent may have written. Whether root gives it to this user, a person decides.
fn looked_at_first(file: &Path, settings: &Path, asked: &Asked) -> Mend {
    match (asked.edit(settings), owned(file)) {
        (Mend::Run(line), Mend::Run(give)) if unreadable(file) && shut(file).is_none() && is_called(file, "pem") => {
            let seen = format!(
                "if you know that file for the App's key, this gives it to the service's user: {give} (agents run as that user, \
                 so one may have written its name into {})",
                settings.display()
            );
            Mend::Aside { line, seen }
        }
        (edit, _) => edit,
    }
}

fn unreadable(file: &Path) -> bool {
    access(file, Access::READ_OK) == Err(Errno::ACCESS)
}

/// What is only read may stay somebody else's. Only what is a key by its name is given away.
fn key_readable(file: &Path, asked: &Asked) -> Mend {
    if let Some(mend) = let_through(file, asked) {
        return mend;
    }
    match shut(file) {
        // The names of what is in there are no secret.
        Some(directory) if asked.is_beside_environment(file) => {
            by_root(&directory, format!("chmod a+x {}", quoted(&directory)))
        }
        None if is_own(file) => asked.on(file, format!("chmod u+r {}", quoted(file))),
        None if is_called(file, "pem") => owned(file),
        Some(_) | None => asked.set(&[(KEY_FILE, "<a copy of the .pem file that this user can read>")]),
    }
}

/// Opens a directory of this user's own that is in the way to what lies below it.
fn let_through(place: &Path, asked: &Asked) -> Option<Mend> {
    let directory = shut(place).filter(|directory| is_own(directory))?;
    Some(asked.on(&directory, format!("chmod u+rwx {}", quoted(&directory))))
}

fn is_called(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|there| there == extension)
}

/// A file becomes this user's.
fn owned(file: &Path) -> Mend {
    by_root(file, format!("chown -h {} {}", user(), quoted(file)))
}

/// A directory of worktrees that is not the one of before.
pub(super) fn worktrees(error: &IsolationError, base: &Path, config: &Config, asked: &Asked) -> Mend {
    if let Some(mend) = by_settings(BASE, base, config, asked) {
        return mend;
    }
    match error {
        IsolationError::LeftBehind { before, .. } => asked.set(&[(BASE, &*before.display().to_string())]),
        IsolationError::Unmarked { memory, .. } if not_mounted(base).is_none() => aside(memory, asked),
        IsolationError::MarkTaken(base) => asked.set(&[(BASE, &*base.join("worktrees").display().to_string())]),
        IsolationError::Files { path, .. } if path.exists() && path != base && !path.is_file() => aside(path, asked),
        IsolationError::Files { path, .. } => writable(path, asked),
        IsolationError::OtherDisk { place, .. } if !place.starts_with(base) => {
            asked.set(&[(HOME, "<the home that has them>")])
        }
        _ if is_marked(base) => asked.set(&[(BASE, "<the directory of the worktrees>")]),
        _ => match not_mounted(base) {
            Some(place) => run(format!("sudo mount {}", quoted(&place))),
            None => asked.on(base, format!("cp -a '<where they are now>/.' {}", quoted(base))),
        },
    }
}

fn is_marked(base: &Path) -> bool {
    base.join(".treewarden").exists()
}

/// The place at or around a directory where a file system belongs that is not there.
fn not_mounted(directory: &Path) -> Option<PathBuf> {
    let places = |table: &str| -> Vec<PathBuf> {
        let lines = fs::read_to_string(table).unwrap_or_default();
        // A space is written as a number in both tables.
        lines
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .map(|at| at.replace("\\040", " ").into())
            .collect()
    };
    let (wanted, there) = (places("/etc/fstab"), places("/proc/self/mounts"));
    directory
        .ancestors()
        .find(|at| wanted.iter().any(|place| place == at) && !there.iter().any(|place| place == at))
        .map(Path::to_owned)
}

/// Against a service that works in a directory of this one.
pub(super) fn apart(shared: &Path, config: &Config, home: &Path, asked: &Asked) -> Mend {
    if !home.starts_with(shared) {
        let own = ["worktrees", "trees"].map(|name| config.home.join(name));
        let other = own.iter().find(|own| **own != config.worktree_base).unwrap_or(&own[0]);
        return asked.set(&[(BASE, &*other.display().to_string())]);
    }
    let other = shared.with_file_name("treewarden-home");
    match asked.flags.home {
        Some(_) => run(asked.about(Some(other)).again()),
        None => asked.set(&[(HOME, &*other.display().to_string())]),
    }
}

pub(super) fn home(error: &HomeError, config: &Config, asked: &Asked) -> Mend {
    match error {
        HomeError::WorktreeBase(inner) => by_settings(BASE, &config.worktree_base, config, asked)
            .unwrap_or_else(|| directory(inner, &config.worktree_base, asked, BASE)),
        // What lies near it may not last, either.
        HomeError::NotItsOwn { .. } => default_base(config, asked),
        error => directory(error, &config.home, asked, HOME),
    }
}

/// Where the worktrees are when nothing is said about it.
fn default_base(config: &Config, asked: &Asked) -> Mend {
    let default = || asked.set(&[(BASE, &*config.home.join("trees").display().to_string())]);
    asked.forget(config, BASE).unwrap_or_else(default)
}

const HOME: &str = "TREEWARDEN_HOME";
const BASE: &str = "WORKTREE_BASE";

fn directory(error: &HomeError, wanted: &Path, asked: &Asked, variable: &str) -> Mend {
    let elsewhere = || match another(error, wanted, variable) {
        other if variable == HOME => home_elsewhere(other, asked),
        other => asked.set(&[(variable, &*other.display().to_string())]),
    };
    let inside = |path: &PathBuf| path != wanted && path.starts_with(wanted);
    match error {
        // What is in a home, is the home's: nobody else needs it.
        HomeError::NotADirectory { path } if inside(path) => aside(path, asked),
        HomeError::NotMade { path, .. } | HomeError::NotWritable { path, .. } | HomeError::NotReadable { path, .. }
            if inside(path) =>
        {
            reopened(path, asked).unwrap_or_else(|| given(path))
        }
        HomeError::NotAFile { path } => aside(path, asked),
        HomeError::Open { path, .. } => asked.on(path, format!("chmod 700 {}", quoted(path))),
        HomeError::BaseOpen { path, .. } => asked.on(path, format!("chmod go-w {}", quoted(path))),
        HomeError::NotOurs { .. } | HomeError::NotADirectory { .. } | HomeError::NotItsOwn { .. } => elsewhere(),
        HomeError::OfWorktrees { .. } => in_own_directory(variable, asked),
        HomeError::OfAnother { owner, .. } if *owner != 0 && !asked.is_service() => by(*owner, asked),
        // Made, or brought back, by root for this user.
        HomeError::OfAnother { path, .. } if was_prepared(path) => given(path),
        // What only root sees, root has to look at first.
        HomeError::OfAnother { path, .. } if access(path, Access::EXEC_OK) == Err(Errno::ACCESS) => {
            let there = PREPARED.map(|name| format!("-d {}", quoted(&path.join(name)))).join(" -a ");
            by_root(path, format!("test {there} && sudo {}", to_this_user(path)))
        }
        HomeError::OfAnother { path, .. } if is_empty(path) => made(path),
        HomeError::OfAnother { .. } => elsewhere().after(made(&another(error, wanted, variable)).line()),
        HomeError::NotMade { path, .. } | HomeError::NotWritable { path, .. } | HomeError::NotReadable { path, .. } => {
            if shut(wanted).is_some() {
                return let_through(wanted, asked).unwrap_or_else(|| in_own_directory(variable, asked));
            }
            match unlocked(path, asked) {
                Some(mend) => mend,
                // What is there stays with whoever has it.
                None if path != wanted || is_empty(path) => made(wanted),
                None => elsewhere().after(made(&another(error, wanted, variable)).line()),
            }
        }
        HomeError::WorktreeBase(inner) => directory(inner, wanted, asked, variable),
    }
}

/// What each start makes in a home: no other directory has all of them.
const PREPARED: [&str; 3] = ["repos", "trash", "runs"];

fn was_prepared(directory: &Path) -> bool {
    PREPARED.iter().all(|name| directory.join(name).is_dir())
}

fn in_own_directory(variable: &str, asked: &Asked) -> Mend {
    const OWN: &str = "<a directory of its own>";
    match variable {
        HOME => home_elsewhere(OWN, asked),
        variable => asked.set(&[(variable, OWN)]),
    }
}

/// The flag would win over the variable.
fn home_elsewhere(other: impl Into<PathBuf>, asked: &Asked) -> Mend {
    let other = other.into();
    match asked.flags.home {
        Some(_) => run(asked.about(Some(other)).again()),
        None => asked.set(&[(HOME, &*other.display().to_string())]),
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// A directory of this user's, by whoever may make it.
fn made(directory: &Path) -> Mend {
    by_root(directory, format!("install -d -m 700 -o {} {}", user(), quoted(directory)))
}

/// All that is in a directory becomes this user's.
fn given(directory: &Path) -> Mend {
    by_root(directory, to_this_user(directory))
}

fn to_this_user(directory: &Path) -> String {
    format!("chown -hR {} {}", user(), quoted(directory))
}

/// The same question by another user.
fn by(owner: u32, asked: &Asked) -> Mend {
    run(format!("sudo -E -u '#{owner}' {}", asked.again()))
}

/// Something that stands where something else belongs, and stays beside it.
pub(super) fn aside(path: &Path, asked: &Asked) -> Mend {
    asked.on(path.parent().unwrap_or(path), moved(path))
}

/// A file that only a service locks, and that it cannot.
pub(super) fn lock(file: &Path, config: &Config, asked: &Asked) -> Mend {
    let is_file = file.symlink_metadata().is_ok_and(|there| there.is_file());
    match is_file && !is_own(file) {
        true => database_writable(file, config, file, asked),
        false => aside(file, asked),
    }
}

/// A directory that is not there yet, beside what stands in the way, or inside of a directory that does.
fn another(error: &HomeError, wanted: &Path, variable: &str) -> PathBuf {
    let name = if variable == HOME { "treewarden-home" } else { "treewarden-worktrees" };
    match error {
        // Nobody else comes into the home of another user.
        HomeError::NotADirectory { path } | HomeError::OfAnother { path, .. } => path.with_file_name(name),
        _ => wanted.join(name),
    }
}

/// Against a place that this user cannot write to, where somebody else need not give it away.
fn unlocked(place: &Path, asked: &Asked) -> Option<Mend> {
    let others = || match fs::metadata(place).ok()?.uid() {
        0 => None,
        // The user of the service, most of the time.
        owner if !asked.is_service() => Some(by(owner, asked)),
        _ => None,
    };
    reopened(place, asked).or_else(|| link_aside(place)).or_else(others)
}

/// The same where the place is this user's own, or its file system is in the way.
fn reopened(place: &Path, asked: &Asked) -> Option<Mend> {
    if access(place, Access::WRITE_OK) == Err(Errno::ROFS) {
        let quoted = quoted(place);
        return Some(by_root(place, format!("mount -o remount,rw \"$(findmnt -n -o TARGET -T {quoted})\"")));
    }
    let mode = if place.is_dir() { "u+rwx" } else { "u+rw" };
    let own = fs::metadata(place).is_ok_and(|meta| meta.uid() == user());
    own.then(|| asked.on(place, format!("chmod {mode} {}", quoted(place))))
}

/// Lets this user write to a file or directory that stays where it is.
pub(super) fn writable(place: &Path, asked: &Asked) -> Mend {
    let given = || match place.is_dir() {
        // Not taken away from those who have it.
        true => by_root(place, format!("setfacl -m u:{}:rwx {}", user(), quoted(place))),
        false => owned(place),
    };
    let_through(place, asked).or_else(|| unlocked(place, asked)).unwrap_or_else(given)
}

/// Another database only where the one that is named is no installation's: it would start with an empty memory.
pub(super) fn database(error: &StoreError, config: &Config, file: Option<&Path>, asked: &Asked) -> Mend {
    let url = config.database_url.expose_secret();
    let address = || asked.fill(config, DATABASE, &address_of(url, "<password>"));
    let psql = |what: &str| run(format!("psql {} {what}", shell::quoted(&address_of(url, ""))));
    match (error, file) {
        (StoreError::NewerSchema { .. }, _) => {
            let program = std::env::current_exe().unwrap_or_else(|_| "/usr/local/bin/treewarden".into());
            run(format!("sudo install '<the newer treewarden>' {}", quoted(&program)))
        }
        (StoreError::OtherProgram(_), Some(file)) => own_database(config, file, asked),
        (StoreError::OtherProgram(_), None) => {
            let own = if url.ends_with("/treewarden") { "treewarden_own" } else { "treewarden" };
            let address = asked.fill(config, DATABASE, &beside(&address_of(url, "<password>"), own));
            address.after(&format!("psql {} -c 'CREATE DATABASE {own}'", shell::quoted(&address_of(url, ""))))
        }
        (StoreError::Url(_), Some(file)) if file.exists() && is_in_home(file, config) => aside(file, asked),
        (StoreError::Url(_), Some(file)) if file.is_dir() => {
            asked.fill(config, DATABASE, &format!("sqlite://{}", file.join("treewarden.db").display()))
        }
        (StoreError::Url(_), Some(file)) => own_database(config, file, asked),
        (StoreError::Url(_), None) => address(),
        (StoreError::Unavailable(_) | StoreError::Corrupt { .. }, Some(file)) if !may_be_ours(file, config) => {
            own_database(config, file, asked)
        }
        (StoreError::Corrupt { .. } | StoreError::Incomplete(_), Some(file)) => {
            by_settings(DATABASE, file, config, asked).unwrap_or_else(|| restored(file, asked))
        }
        (StoreError::Unavailable(_), Some(file)) => match Store::not_a_file(file) {
            Some(other) => aside(&other, asked),
            None => database_writable(file, config, file, asked),
        },
        (StoreError::Lacks { what, .. }, _) => lacking(*what, url).unwrap_or_else(address),
        (StoreError::Unavailable(_), None) => server(url).unwrap_or_else(address),
        (StoreError::Corrupt { .. } | StoreError::Incomplete(_), None) => psql("-f '<its backup>'"),
        (StoreError::NoTables { schema, user }, _) => {
            by_administrator(url, &format!("GRANT USAGE, CREATE ON SCHEMA \"{schema}\" TO \"{user}\""))
        }
        (StoreError::DiskFull, Some(file)) => {
            let place = quoted(file.parent().unwrap_or(Path::new("/")));
            run(format!("sudo du -xh \"$(findmnt -n -o TARGET -T {place})\" | sort -h | tail -n 20"))
        }
        (StoreError::DiskFull, None) => psql("-c '\\l+'"),
        // Who has it may go on with it.
        (StoreError::InUse(_), _) => asked.fill(config, DATABASE, "<a database of its own>"),
        (StoreError::Busy | StoreError::Full, _) => run(asked.again()),
        (StoreError::Migration(_) | StoreError::Conflict(_) | StoreError::Failed(_), Some(file)) => {
            asked.on(file, format!("sqlite3 {} .schema", quoted(file)))
        }
        (StoreError::Migration(_) | StoreError::Conflict(_) | StoreError::Failed(_), None) => psql("-c '\\d'"),
    }
}

pub(super) const DATABASE: &str = "DATABASE_URL";

/// What is in the way of writing to the database in `file`: that, or its directory. One outside of the home is opened only
/// where the database in it is this user's.
pub(super) fn database_writable(place: &Path, config: &Config, file: &Path, asked: &Asked) -> Mend {
    let is_foreign = match place == file {
        true => shut(file).is_some_and(|directory| !is_own(&directory)),
        false => !is_own(place) && (!file.exists() || !is_own(file)),
    };
    match by_settings(DATABASE, place, config, asked) {
        Some(mend) => mend,
        None if is_foreign && !is_in_home(place, config) => {
            asked.fill(config, DATABASE, "sqlite:///<a directory of its own>/treewarden.db")
        }
        None => writable(place, asked),
    }
}

/// A database of the home, in place of what is none, or somebody else's.
fn own_database(config: &Config, file: &Path, asked: &Asked) -> Mend {
    let other = || asked.set(&[(DATABASE, &*format!("sqlite://{}/treewarden-own.db", config.home.display()))]);
    match file == config.home.join("treewarden.db") {
        true => other(),
        false => asked.forget(config, DATABASE).unwrap_or_else(other),
    }
}

/// Whether a file may be given to this user, or be moved to make room for a backup. One that is no database, or that says
/// nothing of it by its name either, is left to whoever has it.
fn may_be_ours(file: &Path, config: &Config) -> bool {
    const BEGINNING: &[u8] = b"SQLite format 3\0";
    let mut beginning = [0; BEGINNING.len()];
    let read = fs::File::open(file).and_then(|mut file| file.read_exact(&mut beginning));
    let has_name = || file.extension().is_some_and(|extension| extension == "db");
    is_in_home(file, config)
        || match read {
            Ok(()) => beginning == BEGINNING && fs::metadata(file).is_ok_and(|there| there.uid() == user()),
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied && has_name(),
        }
}

/// Until another process has ended.
pub(super) fn held(holder: Holder, asked: &Asked) -> Mend {
    run(match holder.process {
        Some(process) => format!("tail --pid={process} -f /dev/null; {}", asked.again()),
        None => asked.again(),
    })
}

/// `None`: the address does not say which one.
fn lacking(what: Lacking, url: &str) -> Option<Mend> {
    let parsed = Url::parse(url).ok()?;
    let (user, database) = (parsed.username(), parsed.path().trim_matches('/'));
    if [user, database].iter().any(|name| name.is_empty() || name.contains(['%', '"'])) {
        return None;
    }
    // Every server has that database.
    let server = beside(url.split(['?', '#']).next().unwrap_or_default(), "postgres");
    let statement = match what {
        Lacking::Database => format!("CREATE DATABASE \"{database}\" OWNER \"{user}\""),
        Lacking::Role => format!("CREATE ROLE \"{user}\" LOGIN PASSWORD '<password>'"),
        Lacking::RightToLogIn => format!("ALTER ROLE \"{user}\" LOGIN"),
    };
    Some(by_administrator(&server, &statement))
}

/// A statement for whoever keeps the server: on this machine its own user.
fn by_administrator(url: &str, statement: &str) -> Mend {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or("localhost");
    let port = url.as_ref().and_then(|url| url.port()).map(|port| format!(" -p {port}")).unwrap_or_default();
    let database = url.as_ref().map(|url| url.path().trim_start_matches('/')).unwrap_or_default();
    let psql = match is_loopback_host(host) {
        true => format!("sudo -u postgres psql{port}"),
        false => format!("psql -h {}{port} -U '<its owner>'", shell::quoted(host.trim_matches(['[', ']']))),
    };
    run(format!("{psql} -d {} -c {}", shell::quoted(database), shell::quoted(statement)))
}

/// The address of another database of the same server.
fn beside(address: &str, name: &str) -> String {
    let server = address.rsplit_once('/').map_or(address, |(server, _)| server);
    format!("{server}/{name}")
}

/// Into a database that is not there, or has nothing in it.
pub(super) fn backup(config: &Config, file: Option<&Path>, asked: &Asked) -> Mend {
    if let Some(mend) = file.and_then(|file| by_settings(DATABASE, file, config, asked)) {
        return mend;
    }
    let put = put_backup(config, file, asked);
    match file.and_then(Path::parent).filter(|directory| !directory.exists() && *directory != config.home) {
        Some(directory) => put.after(asked.make(&[directory]).line()),
        None => put,
    }
}

fn put_backup(config: &Config, file: Option<&Path>, asked: &Asked) -> Mend {
    match (file, asked.is_service()) {
        (Some(file), true) => {
            by_root(file, format!("install -m 600 -o {} '<its backup>' {} && {RESTART}", user(), quoted(file)))
        }
        (Some(file), false) => run(format!("install -m 600 '<its backup>' {}", quoted(file))),
        (None, _) => run(format!(
            "psql {} -f '<its backup>'",
            shell::quoted(&address_of(config.database_url.expose_secret(), ""))
        )),
    }
}

/// What is there is moved away with what SQLite keeps beside it: that would be played over a backup.
fn restored(database: &Path, asked: &Asked) -> Mend {
    let aside = |suffix: &str| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (wal, shm) = (aside("-wal"), aside("-shm"));
    let (file, spoilt, wal, shm) = (quoted(database), quoted(&aside(".spoilt")), quoted(&wal), quoted(&shm));
    // The two beside it are not always there.
    let away =
        format!("mkdir {spoilt} && for f in {file} {wal} {shm}; do test ! -e \"$f\" || mv \"$f\" {spoilt}; done");
    match asked.is_service() {
        false => run(format!("{away} && install -m 600 '<its backup>' {file}")),
        true => {
            let put = format!("install -m 600 -o {} \"<its backup>\" {file}", user());
            let both = shell::quoted(&format!("{away} && {put}"));
            by_root(database, format!("sh -c {both}"))
        }
    }
}

/// A PostgreSQL that does not answer; absent where it does, and lets nobody in by this URL.
fn server(url: &str) -> Option<Mend> {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or("localhost");
    let port = url.as_ref().and_then(|url| url.port()).unwrap_or(5432);
    let places = (host.trim_matches(['[', ']']), port).to_socket_addrs();
    let reached = |place| TcpStream::connect_timeout(&place, Duration::from_secs(2)).is_ok();
    if places.is_ok_and(|mut places| places.any(reached)) {
        return None;
    }
    // One that has another port is shown by where everything there listens.
    let start = match port {
        5432 => "sudo systemctl start postgresql",
        _ => "sudo systemctl start postgresql && ss -ltn",
    };
    Some(run(match is_loopback_host(host) {
        true => start.to_owned(),
        false => format!("ssh {} {}", host.trim_matches(['[', ']']), shell::quoted(start)),
    }))
}

/// The database's address with another password, or without one: `psql` asks for it then.
fn address_of(url: &str, password: &str) -> String {
    let Ok(parsed) = Url::parse(url) else { return POSTGRES.to_owned() };
    let (Some(host), false) = (parsed.host_str(), parsed.username().is_empty()) else {
        return if password.is_empty() { url.to_owned() } else { POSTGRES.to_owned() };
    };
    let (user, path) = (parsed.username(), parsed.path());
    let password = if password.is_empty() { String::new() } else { format!(":{password}") };
    let port = parsed.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("postgres://{user}{password}@{host}{port}{path}")
}

const POSTGRES: &str = "postgres://<user>:<password>@<host>/<database>";

pub(super) fn github(error: &GithubError, config: &Config, app: &AppCredentials, asked: &Asked) -> Mend {
    let (api, web) = (&config.github.api_url, &config.github.web_url);
    match error {
        GithubError::Settings(_) => match &app.private_key_file {
            Some(file) => by_settings(KEY_FILE, file, config, asked).unwrap_or_else(|| asked.place(PEM, file)),
            None => key(asked),
        },
        GithubError::Unauthorized | GithubError::Forbidden(_) | GithubError::Invalid(_) => {
            open(format!("{web}/settings/apps"))
        }
        GithubError::Unreachable(_) => unreached(api, config, asked),
        GithubError::RateLimited { retry_after } => run(format!("sleep {}; {}", retry_after.as_secs(), asked.again())),
        GithubError::Server { .. } if web == PUBLIC => open("https://www.githubstatus.com"),
        GithubError::Server { .. } => run(asked.again()),
        GithubError::NotFound(_) | GithubError::BadAnswer(_) | GithubError::OutcomeUnknown => {
            let right = if web == PUBLIC { "https://api.github.com".to_owned() } else { format!("{web}/api/v3") };
            match &right == api {
                // Then it is the server that is not GitHub's.
                true => addresses("<host>", asked),
                false => asked.set(&[(ADDRESSES[0], &*right)]),
            }
        }
    }
}

/// The one server has a known address, so that something is on the way; of another one the address may be wrong as well.
fn unreached(api: &str, config: &Config, asked: &Asked) -> Mend {
    match config.origin(ADDRESSES[0]) {
        Some(Origin::File(path)) => asked.edit(path),
        Some(_) if api != "https://api.github.com" => addresses("<host>", asked),
        _ => asked.set(&[("https_proxy", "http://<proxy>:<port>")]),
    }
}

/// Credentials that are stored and do not open: their key is brought back, or they are read off the App's page anew.
pub(super) fn stored_app(error: &CredentialsError, config: &Config, asked: &Asked) -> Mend {
    let file = secret_key::file(config);
    match error {
        CredentialsError::Key { error: KeyError::Open { path, .. }, .. } => {
            asked.on(path, format!("chmod 600 {}", quoted(path)))
        }
        CredentialsError::Key { .. } | CredentialsError::OtherKey { .. } if config.secret_key.is_none() => {
            asked.place("<its backup>", &file)
        }
        CredentialsError::Key { .. } | CredentialsError::OtherKey { .. } => {
            asked.fill(config, SECRET_KEY, hint(SECRET_KEY))
        }
        CredentialsError::Damaged { .. } => {
            let names = ["GITHUB_APP_ID", KEY_FILE, "GITHUB_WEBHOOK_SECRET"];
            asked.set(&names.map(|name| (name, hint(name))))
        }
    }
}

/// The address of GitHub's pages, as GitHub says it.
pub(super) fn web_url(right: &str, config: &Config, asked: &Asked) -> Mend {
    asked.fill(config, ADDRESSES[1], right)
}

pub(super) const PUBLIC: &str = "https://github.com";

pub(super) const AGENT: &str = "TREEWARDEN_AGENT_COMMAND";

/// A program that is there is mended by whoever it belongs to; else another one is named.
pub(super) fn agent(error: &Unstartable, agent: &AgentConfig, config: &Config, asked: &Asked) -> Mend {
    let there = |file: &Path, command: &str| {
        let mend = || asked.on(file, format!("{command} {}", quoted(file)));
        by_settings(AGENT, file, config, asked).unwrap_or_else(mend)
    };
    match error {
        Unstartable::NotExecutable { file, .. } if is_own(file) => there(file, "chmod +x"),
        // A script is also read.
        Unstartable::NotExecutable { file, .. } => there(file, "chmod a+rx"),
        Unstartable::CarriageReturn(script) => there(script, r"sed -i --follow-symlinks 's/\r$//'"),
        Unstartable::NoInterpreter { script, .. } => there(script, "${EDITOR:-vi}"),
        Unstartable::OutOfReach { file, .. } => {
            let_through(file, asked).unwrap_or_else(|| agent_program(agent, config, asked))
        }
        Unstartable::Missing(_)
        | Unstartable::NotOnPath { .. }
        | Unstartable::Directory(_)
        | Unstartable::NoProgram(_)
        | Unstartable::Noexec(_) => agent_program(agent, config, asked),
    }
}

/// The agent's command, with its program where it is.
pub(super) fn agent_program(agent: &AgentConfig, config: &Config, asked: &Asked) -> Mend {
    let name = Path::new(&agent.argv[0]).file_name().unwrap_or_default().to_string_lossy();
    let program = match shell::quoted(&name) {
        plain if plain == name => format!("/<folder>/{name}"),
        _ => shell::quoted(&format!("/<folder>/{name}")),
    };
    let arguments = shlex::try_join(agent.argv[1..].iter().map(String::as_str)).unwrap_or_default();
    asked.fill(config, AGENT, format!("{program} {arguments}").trim_end())
}

/// A secret that nobody guesses, shown once: GitHub has to be told.
pub(super) fn webhook_secret(config: &Config, asked: &Asked) -> Mend {
    const NAME: &str = "GITHUB_WEBHOOK_SECRET";
    const MADE: &str = "$(openssl rand -hex 32)";
    match (config.origin(NAME), asked.is_service()) {
        (Some(Origin::File(path)), _) => asked.edit(path),
        (_, true) => asked.put(format!("\"{NAME}={MADE}\"")),
        (_, false) => run(format!("export {NAME}=\"{MADE}\"; echo \"${NAME}\"")),
    }
}

/// An address of this machine that is free now, near the one that was wanted.
pub(super) fn address(wanted: &Listen, asked: &Asked) -> Mend {
    let first = wanted.port.max(1024);
    let near = (first..=first.saturating_add(100)).filter(|port| *port != wanted.port);
    let places = near.flat_map(|port| [&*wanted.host, "127.0.0.1"].map(|host| Listen { host: host.to_owned(), port }));
    let free = places.map(|place| place.to_string()).find(|place| TcpListener::bind(place).is_ok());
    asked.set(&[("TREEWARDEN_LISTEN", free.as_deref().unwrap_or("127.0.0.1:0"))])
}

#[cfg(test)]
mod tests;
