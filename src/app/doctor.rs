//! `treewarden doctor`: one line for each thing that has to be right, and for what is not, a command or a sentence that
//! helps. It only looks: nothing is made, changed or brought up to date, so it can run beside a service.

use super::commands::say;
use super::lock::HomeLock;
use super::scratch::Scratch;
use crate::agent::FALLBACK_PATH;
use crate::config::{AgentConfig, Config, Flags, HomeError, HomeState, SHORTEST_SECRET, Sandbox};
use crate::git::{Git, GitSettings, OLDEST, SEARCHED};
use crate::github::{Github, GithubError, GithubSettings, Registration};
use crate::store::{Schema, Store, StoreError};
use rustix::fs::{Access, access};
use secrecy::ExposeSecret;
use serde::Serialize;
use std::{
    fs, io,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// One line of the examination.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    fine: bool,
    /// What was seen.
    seen: String,
    /// What helps: a command, or a sentence where no command does. Empty when there is nothing to mend.
    #[serde(skip_serializing_if = "String::is_empty")]
    mend: String,
}

fn fine(what: &'static str, seen: impl Into<String>) -> Finding {
    Finding { what, fine: true, seen: seen.into(), mend: String::new() }
}

fn wrong(what: &'static str, seen: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { what, fine: false, seen: seen.into(), mend: mend.into() }
}

pub async fn examine(flags: &Flags, json: bool) -> anyhow::Result<ExitCode> {
    let findings = match Config::from_process(flags) {
        Err(problems) => {
            let problems = problems.0.iter().map(|problem| wrong("settings", problem.to_string(), problem.mend()));
            problems.chain([rest_unseen()]).collect()
        }
        Ok(config) => everything(&config).await,
    };
    let healthy = findings.iter().all(|finding| finding.fine);
    if json {
        say(serde_json::to_string_pretty(&findings)?);
    } else {
        for finding in &findings {
            let sign = if finding.fine { "✔" } else { "✘" };
            say(format!("{sign} {:<9} {}", finding.what, finding.seen));
            if !finding.mend.is_empty() {
                say(format!("            mend: {}", finding.mend));
            }
        }
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The rest can be looked at only where the settings say.
fn rest_unseen() -> Finding {
    let mend = "Correct the settings first; then `treewarden doctor` goes on.";
    wrong("the rest", "nothing else was looked at", mend)
}

async fn everything(config: &Config) -> Vec<Finding> {
    let mut findings = vec![settings(config), home(config), git().await];
    findings.push(database(config).await);
    findings.extend(secret_files(config));
    findings.extend(short_secret(config));
    findings.extend(github(config).await);
    findings.extend(agent(config));
    findings.push(sandbox(config));
    findings.push(address(config));
    findings
}

/// A variable that is no setting is no mistake for sure: orchestrators make some of a service's name.
fn settings(config: &Config) -> Finding {
    let mut seen = "every value is understood".to_owned();
    if !config.ignored.is_empty() {
        seen.push_str(&format!("; ignored, because no setting has this name: {}", config.ignored.join(", ")));
    }
    fine("settings", seen)
}

fn home(config: &Config) -> Finding {
    const ANOTHER: &str = "Choose a directory of its own with --home or TREEWARDEN_HOME.";
    let error = match config.look_at_home() {
        Ok(HomeState::Ready) => return fine("home", format!("{} is ours alone", config.home.display())),
        Ok(HomeState::ToBeMade) => {
            return fine("home", format!("{} is made ready by the first start", config.home.display()));
        }
        Err(error) => error,
    };
    match &error {
        HomeError::Open { path, mode } => {
            let seen = format!("{} can be read by others (mode {mode:o}), and secrets lie in it", path.display());
            wrong("home", seen, format!("chmod 700 {}", quoted(path)))
        }
        HomeError::NotOurs { path, mode, why } => {
            wrong("home", format!("{} is open to others (mode {mode:o}) and {why}", path.display()), ANOTHER)
        }
        HomeError::NotADirectory { .. } => wrong("home", error.to_string(), ANOTHER),
        HomeError::NotMade { .. } | HomeError::NotWritable { .. } => {
            let mend = "Run this as the user of the service, give that user the directory, or choose another home.";
            wrong("home", error.to_string(), mend)
        }
        HomeError::WorktreeBase(_) => {
            let mend = "Give the user of the service that directory, or choose another one in WORKTREE_BASE.";
            wrong("home", error.to_string(), mend)
        }
    }
}

/// Git's door wants a place for its helpers, and the home is only looked at.
async fn git() -> Finding {
    let (major, minor) = OLDEST;
    let scratch = match Scratch::make("doctor") {
        Ok(scratch) => scratch,
        Err((place, error)) => {
            let seen = format!("{} cannot be made to try git in: {error}", place.display());
            return wrong("git", seen, "Set TMPDIR to a directory this user can write to.");
        }
    };
    let version = match Git::new(GitSettings::new("git", scratch.path().join("git"))) {
        Ok(git) => git.version().await,
        Err(error) => Err(error),
    };
    match version {
        Ok(version) => fine("git", version),
        Err(error) => {
            let mend = format!("Install git {major}.{minor} or newer where it is looked for: {SEARCHED}");
            wrong("git", error.to_string(), mend)
        }
    }
}

async fn database(config: &Config) -> Finding {
    let url = config.database_url.expose_secret();
    let file = Store::file(url);
    let schema = Store::schema(url).await;
    if let Some(place) = file.filter(|_| schema.is_ok()).and_then(unwritable) {
        let seen = format!("{} cannot be written by this user", place.display());
        return wrong(
            "database",
            seen,
            "Give the user of the service the file and its folder, or run this as that user.",
        );
    }
    let error = match schema {
        Ok(Schema::Current) => return fine("database", "answers, and has this version's schema"),
        Ok(Schema::Older { found, known }) => {
            return fine("database", format!("answers; the next start brings its schema from {found} to {known}"));
        }
        Ok(Schema::Missing) => return file.map_or(fine("database", EMPTY), |file| missing_file(config, file)),
        Ok(Schema::Newer { found, known }) => StoreError::NewerSchema { found, known },
        Err(error) => error,
    };
    wrong("database", error.to_string(), mend_database(&error, file))
}

const EMPTY: &str = "answers, and is empty; the first start makes the tables";

/// What is in the way of writing to the database, which makes files beside its own.
fn unwritable(file: &Path) -> Option<&Path> {
    let directory = file.parent().filter(|directory| directory.is_dir())?;
    let wanted = [(directory, Access::WRITE_OK | Access::EXEC_OK), (file, Access::READ_OK | Access::WRITE_OK)];
    let refused =
        |(place, how): &(&Path, Access)| access(*place, *how).is_err_and(|error| error != rustix::io::Errno::NOENT);
    wanted.into_iter().find(refused).map(|(place, _)| place)
}

fn missing_file(config: &Config, file: &Path) -> Finding {
    let directory = file.parent().unwrap_or(Path::new("/"));
    if directory.is_dir() || directory.starts_with(&config.home) {
        return fine("database", format!("none yet; the first start makes {}", file.display()));
    }
    let seen = format!("{} is not there, so no database can be made in it", directory.display());
    wrong("database", seen, format!("mkdir -p {}", quoted(directory)))
}

/// Never another database: an installation would start with an empty memory.
fn mend_database(error: &StoreError, file: Option<&Path>) -> String {
    match (error, file) {
        (StoreError::NewerSchema { .. }, _) => {
            "Start the newer Treewarden again, or restore a backup made before the upgrade.".to_owned()
        }
        (StoreError::Url(_), _) => "Correct DATABASE_URL.".to_owned(),
        (StoreError::Unavailable(_), Some(file)) => {
            format!("See that the user of the service may read and write {}.", file.display())
        }
        (StoreError::Unavailable(_), None) => {
            "Start PostgreSQL, and see that host, user, password and database in DATABASE_URL are right.".to_owned()
        }
        (StoreError::Corrupt { .. }, Some(file)) => {
            format!("See whether {} is Treewarden's database; if it is, restore it from a backup.", file.display())
        }
        (StoreError::DiskFull, _) => "Free some space on the disk of the database.".to_owned(),
        (StoreError::Busy | StoreError::Full, _) => "Ask again in a moment.".to_owned(),
        (StoreError::Corrupt { .. }, None) => "Restore the database from a backup.".to_owned(),
        (StoreError::Migration(_) | StoreError::Conflict(_) | StoreError::Failed(_), _) => {
            "See that the database in DATABASE_URL is Treewarden's own and its user may read all of it.".to_owned()
        }
    }
}

/// Files with secrets that others can read: the App's key, the settings.
fn secret_files(config: &Config) -> Vec<Finding> {
    let key = config.github.app.as_ref().and_then(|app| app.private_key_file.as_ref()).map(|path| ("key", path));
    let settings = config.secrets_in.as_ref().map(|path| ("settings", path));
    let open = |(what, path): (&'static str, &PathBuf)| {
        let mode = openness(path)?;
        let seen = format!("{} holds a secret and can be read or changed by others (mode {mode:o})", path.display());
        Some(wrong(what, seen, format!("chmod o-rwx,g-w {}", quoted(path))))
    };
    key.into_iter().chain(settings).filter_map(open).collect()
}

/// A webhook secret that could be guessed: one delivery that was seen is enough to try all short ones.
fn short_secret(config: &Config) -> Option<Finding> {
    let app = config.github.app.as_ref()?;
    let mend =
        "`openssl rand -hex 32` makes a long one: set it in GITHUB_WEBHOOK_SECRET and in the App's settings on GitHub.";
    let seen = || format!("the webhook secret has fewer than {SHORTEST_SECRET} characters");
    app.has_short_secret().then(|| wrong("secret", seen(), mend))
}

/// The mode of a file that others come to and may read or change.
fn openness(file: &Path) -> Option<u32> {
    let mode = |path: &Path| fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777);
    let file = file.canonicalize().ok()?;
    let found = mode(&file).ok()?;
    let reached = |by| file.ancestors().skip(1).all(|directory| mode(directory).is_ok_and(|mode| mode & by != 0));
    // A group that only reads may be how the service's user is given a file that belongs to root.
    let open = found & 0o007 != 0 && reached(0o001) || found & 0o020 != 0 && reached(0o011);
    open.then_some(found)
}

async fn github(config: &Config) -> Vec<Finding> {
    let Some(app) = &config.github.app else {
        if config.local {
            return vec![fine("github", "no App is configured; repositories on this machine need none")];
        }
        let mend = "Set GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY_FILE and GITHUB_WEBHOOK_SECRET; the README says where they \
                    come from.";
        return vec![wrong("github", "no App is configured", mend)];
    };
    let settings = GithubSettings {
        app_id: app.app_id,
        private_key_pem: app.private_key.clone(),
        api_url: config.github.api_url.clone(),
        web_url: config.github.web_url.clone(),
        timeout: None,
    };
    let registration = match Github::new(&settings) {
        Ok(github) => github.registration().await,
        Err(error) => Err(error),
    };
    match registration {
        Ok(registration) => registered(&registration, &config.github.web_url),
        Err(error) => vec![wrong("github", error.to_string(), mend_github(&error, &config.github.api_url))],
    }
}

fn mend_github(error: &GithubError, api_url: &str) -> String {
    match error {
        GithubError::Unauthorized => {
            "See that GITHUB_APP_ID and the private key are of the same App, and that this machine's clock is right."
                .to_owned()
        }
        GithubError::Unreachable(_) => {
            format!("See that this machine reaches {api_url} (network, proxy, firewall, certificates).")
        }
        GithubError::RateLimited { retry_after } => format!("Ask again in {} s.", retry_after.as_secs()),
        GithubError::Server { .. } => {
            "Ask again later; https://www.githubstatus.com says how github.com is.".to_owned()
        }
        GithubError::Settings(_) => "Use the private key that GitHub gave for this App, unchanged.".to_owned(),
        GithubError::NotFound(_) | GithubError::BadAnswer(_) | GithubError::OutcomeUnknown => {
            format!("See that {api_url} is the API of the GitHub on which the App is.")
        }
        GithubError::Forbidden(_) | GithubError::Invalid(_) => {
            "See on GitHub whether the App is there and not suspended.".to_owned()
        }
    }
}

fn registered(app: &Registration, web_url: &str) -> Vec<Finding> {
    const SETTINGS: &str = "On GitHub, in the App's settings under \"Permissions & events\"";
    let mut findings = vec![fine("github", format!("this is the App @{}", app.slug))];
    if !app.missing_permissions.is_empty() {
        let seen = format!("the App lacks permissions: {}", app.missing_permissions.join(", "));
        findings.push(wrong(
            "github",
            seen,
            format!("{SETTINGS}, grant them; then accept them where it is installed."),
        ));
    }
    if !app.missing_events.is_empty() {
        let seen = format!("the App does not hear of: {}", app.missing_events.join(", "));
        findings.push(wrong("github", seen, format!("{SETTINGS}, subscribe to these events.")));
    }
    let live: Vec<_> = app.installations.iter().filter(|installed| !installed.suspended).collect();
    if live.is_empty() {
        let pages = if web_url == "https://github.com" { "apps" } else { "github-apps" };
        findings.push(match app.installations.is_empty() {
            true => {
                let page = format!("{web_url}/{pages}/{}/installations/new", app.slug);
                wrong("github", "the App is installed nowhere", format!("Install it on a repository: {page}"))
            }
            false => {
                let mend = "Whoever suspended it lifts that, on GitHub under Settings → Applications.";
                wrong("github", "every installation of the App is suspended", mend)
            }
        });
    }
    for installed in live {
        let missing: Vec<&str> = installed
            .missing_permissions
            .iter()
            .filter(|one| !app.missing_permissions.contains(one))
            .map(String::as_str)
            .collect();
        findings.push(match missing.is_empty() {
            true => fine("github", format!("it is installed on {}", installed.account)),
            false => {
                let seen = format!("on {} it does not have: {}", installed.account, missing.join(", "));
                let mend = "An owner there accepts the App's new permissions, on GitHub under Settings → Applications.";
                wrong("github", seen, mend)
            }
        });
    }
    findings
}

const NO_AGENT: &str =
    "export TREEWARDEN_AGENT_COMMAND='<program> <arguments>' (for good: agent_command = \"…\" in treewarden.toml)";

fn agent(config: &Config) -> Vec<Finding> {
    let Some(agent) = &config.agent else {
        return vec![wrong("agent", "none is configured", NO_AGENT)];
    };
    let mut findings = vec![program(agent)];
    if !agent.unset.is_empty() {
        let names = agent.unset.join(", ");
        let mend = "Set it where the service is started, or take its name out of TREEWARDEN_AGENT_ENV.";
        findings.push(wrong("agent", format!("TREEWARDEN_AGENT_ENV names what is not set: {names}"), mend));
    }
    findings
}

fn program(agent: &AgentConfig) -> Finding {
    let program = &agent.argv[0];
    let path =
        agent.env.iter().find(|(name, _)| name == "PATH").map_or(FALLBACK_PATH, |(_, value)| value.expose_secret());
    let places: Vec<PathBuf> = match program.contains('/') {
        true => vec![PathBuf::from(program)],
        false => path.split(':').map(|directory| Path::new(directory).join(program)).collect(),
    };
    let files: Vec<&PathBuf> = places.iter().filter(|place| place.is_file()).collect();
    match files.iter().find(|file| access(file.as_path(), Access::EXEC_OK).is_ok()) {
        Some(file) => fine("agent", format!("{} is there", file.display())),
        None => match files.first() {
            Some(file) => {
                let mend =
                    "Name the agent's program in TREEWARDEN_AGENT_COMMAND; if it is this file, make it executable.";
                wrong("agent", format!("{} is not a program this user can run", file.display()), mend)
            }
            None if program.contains('/') => {
                wrong("agent", format!("{program} is not there"), "Install it, or correct TREEWARDEN_AGENT_COMMAND.")
            }
            None => {
                let mend = "Install it, or give its absolute path in TREEWARDEN_AGENT_COMMAND.";
                wrong("agent", format!("{program} is not on PATH ({path})"), mend)
            }
        },
    }
}

fn sandbox(config: &Config) -> Finding {
    match config.sandbox {
        Sandbox::Off => fine("sandbox", "off, as written: agents run as the user of this service"),
        Sandbox::Strict | Sandbox::Basic if config.agent.is_none() => fine("sandbox", "not needed without an agent"),
        Sandbox::Strict | Sandbox::Basic => {
            let seen = "this version cannot confine agents; the service will not start with one";
            let mend = "Where agents may do all that the user of this service may: export TREEWARDEN_SANDBOX=off (for good: \
                        sandbox = \"off\" in treewarden.toml)";
            wrong("sandbox", seen, mend)
        }
    }
}

/// Whether the service could listen where it is to.
fn address(config: &Config) -> Finding {
    let mend = "Choose another address with --listen or TREEWARDEN_LISTEN.";
    let wanted = config.listen.to_string();
    match TcpListener::bind(&wanted) {
        Ok(_) => fine("address", format!("{wanted} can be listened on")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && HomeLock::is_held(&config.home) => {
            fine("address", format!("{wanted} is in use by the service, which runs on this home"))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            wrong("address", format!("{wanted} is in use by another program"), mend)
        }
        Err(error) => wrong("address", format!("{wanted} cannot be listened on: {error}"), mend),
    }
}

/// Fit for a command line.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    shlex::try_quote(&text).map(|quoted| quoted.into_owned()).unwrap_or(text)
}
