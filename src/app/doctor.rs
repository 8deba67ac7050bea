//! `treewarden doctor`: one line for each thing that has to be right, and below what is not, the command that mends it
//! or the page to open. It only looks: nothing is made, changed or brought up to date, so it can run beside a service.

mod asked;
mod examiner;
mod mend;
mod reach;
mod root;
mod running;

use super::commands::say;
use super::connection::client;
use super::credentials;
use super::lock::HomeLock;
use super::look::left_over;
use super::program::{self, Unstartable};
use super::scratch::Scratch;
use super::secret_key;
use crate::config::{AgentConfig, Config, Deliveries, Flags, HomeError, HomeState, Problem, SHORTEST_SECRET, Sandbox};
use crate::git::{Git, GitSettings, OLDEST, SEARCHED};
use crate::github::{
    GithubError, Registration, Webhook,
    manifest::{NOBODY, installation_page},
};
use crate::model::{DeliveryAttempt, Timestamp};
use crate::store::{Schema, Store, StoreError, StoredApp};
use asked::{Asked, quoted};
pub(super) use examiner::examiner;
use mend::{Mend, open, run};
use reqwest::Url;
use rustix::fs::{Access, access};
use secrecy::ExposeSecret;
use serde::Serialize;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// One line of the examination.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    fine: bool,
    /// What was seen, and what else has to be known before it is mended.
    seen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<Mend>,
    /// The account on GitHub that alone is concerned.
    #[serde(skip)]
    account: Option<String>,
}

impl Finding {
    fn of(self, account: &str) -> Self {
        Self { account: Some(account.to_owned()), ..self }
    }
}

fn fine(what: &'static str, seen: impl Into<String>) -> Finding {
    Finding { what, fine: true, seen: seen.into(), mend: None, account: None }
}

fn wrong(what: &'static str, seen: impl Into<String>, mend: Mend) -> Finding {
    let seen = match &mend {
        Mend::Aside { seen: known, .. } => format!("{}; {known}", seen.into()),
        Mend::Run(_) | Mend::Open(_) => seen.into(),
    };
    Finding { what, fine: false, seen, mend: Some(mend), account: None }
}

pub async fn examine(flags: &Flags, json: bool) -> anyhow::Result<ExitCode> {
    let asked = Asked::here(flags);
    let findings = match Config::from_process(flags) {
        Err(problems) => {
            let seen = |problem: &Problem| wrong("settings", problem.to_string(), mend::problem(problem, &asked));
            problems.0.iter().map(seen).chain([rest_unseen(&asked)]).collect()
        }
        Ok(config) => everything(&config, &asked).await,
    };
    let findings = told_apart(findings, &asked);
    let healthy = findings.iter().all(|finding| finding.fine);
    if json {
        say(serde_json::to_string_pretty(&findings)?);
    } else {
        for finding in &findings {
            let sign = if finding.fine { "✔" } else { "✘" };
            say(format!("{sign} {:<10} {}", finding.what, finding.seen));
            if let Some(mend) = &finding.mend {
                say(format!("    {}", mend.line()));
            }
        }
        if findings.iter().all(|finding| finding.fine || finding.mend.is_some()) && !healthy {
            say("Below each ✘: the command that mends it, or the page to open.");
        }
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where systemd starts a service by other settings than these, that is most likely the one that was meant: what mends a
/// fault of these would be done to it.
fn told_apart(mut findings: Vec<Finding>, asked: &Asked) -> Vec<Finding> {
    let Some((file, ask)) = asked.other_service() else { return findings };
    let seen = format!(
        "the service that systemd starts here has its settings from {}. Those were not looked at, but what this user has in this \
         shell",
        file.display()
    );
    let first = match findings.iter().all(|finding| finding.fine) {
        true => fine("systemd", format!("{seen}; tw doctor (docs/operations.md, \"Its commands\") looks at them")),
        false => wrong("systemd", format!("{seen}; so nothing is said about how to mend that"), ask),
    };
    findings.iter_mut().for_each(|finding| finding.mend = None);
    findings.insert(0, first);
    findings
}

/// The rest can be looked at only where the settings say.
fn rest_unseen(asked: &Asked) -> Finding {
    wrong("the rest", "nothing else was looked at; the settings come first, then ask again", run(asked.again()))
}

async fn everything(config: &Config, asked: &Asked) -> Vec<Finding> {
    let looked = config.look_at_home();
    let (no_home, no_base) = match &looked {
        Err(HomeError::NotADirectory { path } | HomeError::OfAnother { path, .. }) => {
            (config.home.starts_with(path), config.worktree_base.starts_with(path))
        }
        Err(HomeError::OfWorktrees { .. }) => (true, config.worktree_base.starts_with(&config.home)),
        Err(HomeError::WorktreeBase(_) | HomeError::NotItsOwn { .. } | HomeError::BaseOpen { .. }) => (false, true),
        _ => (false, false),
    };
    let mut findings = vec![settings(config), home(looked, config, asked)];
    // What would be in a place that is none has nothing to be said about.
    if !no_home && !no_base {
        findings.extend(running::look(config, asked).await);
    }
    findings.push(git(asked).await);
    let file = Store::file(config.database_url.expose_secret());
    if !no_home || !file.is_some_and(|file| file.starts_with(&config.home)) {
        findings.push(database(config, asked).await);
    }
    findings.extend(secret_files(config, asked));
    // Of a database that cannot be asked, its own line tells.
    let stored = credentials::stored(config).await.unwrap_or_default();
    match credentials::completed(config, stored.as_ref()) {
        Ok(completed) => {
            findings.extend(short_secret(&completed, asked));
            findings.extend(passed_over(config, stored.as_ref()));
            let of_app = github(&completed, asked).await;
            let is_reached = completed.github.app.is_some() && of_app.iter().all(|finding| finding.fine);
            findings.extend(of_app);
            if is_reached && !no_home {
                findings.extend(reach::look(&completed).await);
            }
        }
        Err(error) => findings.push(wrong("github", error.to_string(), mend::stored_app(&error, config, asked))),
    }
    findings.extend(agent(config, asked));
    findings.push(sandbox(config, asked));
    findings.push(running::address(config, asked));
    findings
}

/// A variable that is no setting is no mistake for sure: orchestrators make some of a service's name.
fn settings(config: &Config) -> Finding {
    let mut seen = format!("every value is understood; {}", running::looked_at(config));
    let without_effect = config.without_effect();
    if !without_effect.is_empty() {
        seen.push_str(&format!("; set, but without effect in this version: {}", without_effect.join(", ")));
    }
    if config.home_overruled {
        seen.push_str("; TREEWARDEN_HOME does not count, since TREEWARDEN_CONTAINER is on");
    }
    if !config.ignored.is_empty() {
        seen.push_str(&format!("; ignored, because no setting has this name: {}", config.ignored.join(", ")));
    }
    fine("settings", seen)
}

fn home(looked: Result<HomeState, HomeError>, config: &Config, asked: &Asked) -> Finding {
    let error = match looked {
        Ok(HomeState::Ready) => return fine("home", format!("{} is ours alone", config.home.display())),
        Ok(HomeState::ToBeMade) => {
            return fine("home", format!("{} is made ready by the first start", config.home.display()));
        }
        Err(error) => error,
    };
    let seen = match &error {
        HomeError::Open { path, mode } => {
            format!("{} can be read by others (mode {mode:o}), and secrets lie in it", path.display())
        }
        HomeError::BaseOpen { path, mode } => format!(
            "{} cannot be the directory of the worktrees while others on this machine can change what is in it (mode {mode:o})",
            path.display()
        ),
        HomeError::NotOurs { path, mode, why } => {
            format!("{} is open to others (mode {mode:o}) and {why}; a directory of its own is wanted", path.display())
        }
        HomeError::NotADirectory { .. }
        | HomeError::NotAFile { .. }
        | HomeError::OfAnother { .. }
        | HomeError::OfWorktrees { .. }
        | HomeError::NotItsOwn { .. }
        | HomeError::NotMade { .. }
        | HomeError::NotWritable { .. }
        | HomeError::NotReadable { .. }
        | HomeError::WorktreeBase(_) => error.to_string(),
    };
    wrong("home", seen, mend::home(&error, config, asked))
}

/// Git's door wants a place for its helpers, and the home is only looked at.
async fn git(asked: &Asked) -> Finding {
    let (major, minor) = OLDEST;
    let scratch = match Scratch::make("doctor") {
        Ok(scratch) => scratch,
        Err((place, error)) => {
            let seen = format!("{} cannot be made to try git in: {error}", place.display());
            let other = if place.starts_with("/tmp") { "/var/tmp" } else { "/tmp" };
            return wrong("git", seen, asked.set(&[("TMPDIR", other)]));
        }
    };
    let version = match Git::new(GitSettings::new("git", scratch.path().join("git"))) {
        Ok(git) => git.version().await,
        Err(error) => Err(error),
    };
    match version {
        Ok(version) => fine("git", version),
        Err(error) => {
            let seen = format!("{error}; git {major}.{minor} or newer is looked for in {SEARCHED}");
            wrong("git", seen, open("https://git-scm.com/install/linux"))
        }
    }
}

async fn database(config: &Config, asked: &Asked) -> Finding {
    let url = config.database_url.expose_secret();
    let file = Store::file(url);
    // A service writes now and then, and nobody else is let in beside it.
    if let Some(file) = file.filter(|_| !HomeLock::is_held(&config.home))
        && let Some(holder) = Store::holder(file).await
    {
        return wrong("database", StoreError::Busy.to_string(), mend::held(holder, asked));
    }
    let schema = Store::schema(url).await;
    if schema.is_ok()
        && !HomeLock::is_held(&config.home)
        && let Err(error) = Store::is_free(url).await
    {
        let mend = match Store::lock(url) {
            Some(lock) if !matches!(error, StoreError::InUse(_)) => mend::lock(&lock, config, asked),
            Some(_) | None => mend::database(&error, config, file, asked),
        };
        return wrong("database", error.to_string(), mend);
    }
    if let Some((file, place)) = file.filter(|_| schema.is_ok()).and_then(|file| Some((file, unwritable(file)?))) {
        let seen = format!("{} cannot be written by this user", place.display());
        return wrong("database", seen, mend::database_writable(place, config, file, asked));
    }
    let error = match schema {
        Ok(Schema::Current) => return fine("database", "answers, and has this version's schema"),
        Ok(Schema::Older { found, known }) => {
            return fine("database", format!("answers; the next start brings its schema from {found} to {known}"));
        }
        Ok(Schema::Missing) => return missing(config, file, asked).await,
        Ok(Schema::Newer { found, known }) => StoreError::NewerSchema { found, known },
        Err(error) => error,
    };
    wrong("database", error.to_string(), mend::database(&error, config, file, asked))
}

/// None, or one without tables.
async fn missing(config: &Config, file: Option<&Path>, asked: &Asked) -> Finding {
    const EMPTY: &str = "answers, and is empty";
    let none = file.filter(|file| !file.exists()).map(|file| format!("{} is not there", file.display()));
    if let Some(work) = left_over(config) {
        let none = none.as_deref().unwrap_or(EMPTY);
        if let Some((own, mend)) = own_database(config, asked).await {
            let seen = format!(
                "{none}, and there is earlier work in {}; it is {} that knows of it, which counts where DATABASE_URL is not set",
                work.display(),
                own.display()
            );
            return wrong("database", seen, mend);
        }
        let seen = format!(
            "{none}, but there is earlier work in {}. A start leaves all of that where it is, and makes tables that know nothing of it: \
             threads, runs, and whose worktree is whose. If there is a backup, it comes first",
            work.display()
        );
        return wrong("database", seen, mend::backup(config, file, asked));
    }
    match file {
        Some(file) if none.is_some() => missing_file(config, file, asked),
        Some(_) | None => fine("database", format!("{EMPTY}; the first start makes the tables")),
    }
}

/// The database of the home with what brings it back, where the settings name another one.
async fn own_database(config: &Config, asked: &Asked) -> Option<(PathBuf, Mend)> {
    let own = config.home.join("treewarden.db");
    let url = format!("sqlite://{}", own.display());
    if url == config.database_url.expose_secret() {
        return None;
    }
    match Store::schema(&url).await {
        Ok(Schema::Current | Schema::Older { .. }) => Some((own, asked.forget(config, mend::DATABASE)?)),
        Ok(Schema::Missing | Schema::Newer { .. }) | Err(_) => None,
    }
}

/// What is in the way of writing to the database, which makes files beside its own.
fn unwritable(file: &Path) -> Option<&Path> {
    let directory = file.parent().filter(|directory| directory.is_dir())?;
    let wanted = [(directory, Access::WRITE_OK | Access::EXEC_OK), (file, Access::READ_OK | Access::WRITE_OK)];
    let refused =
        |(place, how): &(&Path, Access)| access(*place, *how).is_err_and(|error| error != rustix::io::Errno::NOENT);
    wanted.into_iter().find(refused).map(|(place, _)| place)
}

fn missing_file(config: &Config, file: &Path, asked: &Asked) -> Finding {
    let directory = file.parent().unwrap_or(Path::new("/"));
    if directory.is_dir() || directory == config.home {
        return fine("database", format!("none yet; the first start makes {}", file.display()));
    }
    let seen = format!("{} is not there, so no database can be made in it", directory.display());
    let inside = directory.starts_with(&config.home).then_some(&*config.home);
    let made: Vec<&Path> = inside.into_iter().chain([directory]).collect();
    let make = || asked.make(&made);
    wrong("database", seen, root::by_settings(mend::DATABASE, directory, config, asked).unwrap_or_else(make))
}

/// Files with secrets that others can read: the App's key, the settings, the key of what is sealed.
fn secret_files(config: &Config, asked: &Asked) -> Vec<Finding> {
    let sealing = secret_key::file(config);
    let key = config.github.app.as_ref().and_then(|app| app.private_key_file.as_ref()).map(|path| ("key", path));
    let settings = config.secrets_in.as_ref().map(|path| ("settings", path));
    let open = |(what, path): (&'static str, &PathBuf)| {
        // The file itself, wherever a link leads to it.
        let path = &path.canonicalize().ok()?;
        let mode = openness(path)?;
        let seen = format!("{} holds a secret and can be read or changed by others (mode {mode:o})", path.display());
        Some(wrong(what, seen, asked.on(path, format!("chmod o-rwx,g-w {}", quoted(path)))))
    };
    key.into_iter().chain(settings).chain([("key", &sealing)]).filter_map(open).collect()
}

/// The settings count before what the set-up stored.
fn passed_over(config: &Config, stored: Option<&StoredApp>) -> Option<Finding> {
    let (app, stored) = (config.github.app.as_ref()?, stored?);
    let seen = match app.app_id == stored.app_id {
        true => format!("GITHUB_APP_ID and what goes with it count, not what the set-up stored of @{}", stored.slug),
        false => format!(
            "GITHUB_APP_ID names the App that counts, not the one that the set-up stored (@{}, number {})",
            stored.slug, stored.app_id
        ),
    };
    Some(fine("github", seen))
}

/// A webhook secret that could be guessed: one delivery that was seen is enough to try all short ones.
fn short_secret(config: &Config, asked: &Asked) -> Option<Finding> {
    let app = config.github.app.as_ref()?;
    let seen = || {
        format!(
            "the webhook secret has fewer than {SHORTEST_SECRET} characters; a long one, as `openssl rand -hex 32` makes it, \
             belongs into the settings and, the same, into the App's page on GitHub"
        )
    };
    app.has_short_secret().then(|| wrong("secret", seen(), mend::webhook_secret(config, asked)))
}

/// The mode of a file, named without links, that others come to and may read or change.
fn openness(file: &Path) -> Option<u32> {
    let mode = |path: &Path| fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777);
    let found = mode(file).ok()?;
    let reached = |by| file.ancestors().skip(1).all(|directory| mode(directory).is_ok_and(|mode| mode & by != 0));
    // A group that only reads may be how the service's user is given a file that belongs to root.
    let open = found & 0o007 != 0 && reached(0o001) || found & 0o020 != 0 && reached(0o011);
    open.then_some(found)
}

async fn github(config: &Config, asked: &Asked) -> Vec<Finding> {
    let Some(app) = &config.github.app else {
        if config.local {
            return vec![fine("github", "no App is connected; repositories on this machine need none")];
        }
        let needed = match config.github.deliveries {
            Deliveries::Sent => "GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY_FILE and GITHUB_WEBHOOK_SECRET",
            Deliveries::Fetched => "GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY_FILE",
        };
        let seen = format!(
            "no App is connected; a start prints the link to the panel's set-up page, which makes one, or {needed} name one that is \
             there (for repositories on this machine only: TREEWARDEN_LOCAL=on)"
        );
        // A second start is refused; the page of the one that runs is there for whoever is signed in.
        let mend = match HomeLock::held_since(&config.home) {
            Some(_) => open(format!("http://{}/setup", config.listen)),
            None => asked.start(),
        };
        return vec![wrong("github", seen, mend)];
    };
    let registration = match client(&config.github, app) {
        Ok(github) => github.registration().await,
        Err(error) => Err(error),
    };
    match registration {
        Ok(registration) => registered(&registration, config, asked),
        Err(error) => {
            let seen = match &error {
                GithubError::Unauthorized => {
                    format!("{error}: its number and key have to be of one App")
                }
                GithubError::Unreachable(_) => format!(
                    "{error}: {} has to be reached, past name resolution, firewall and, where one is in use, proxy",
                    config.github.api_url
                ),
                GithubError::NotFound(_) | GithubError::BadAnswer(_) => {
                    format!("{error}: {} does not answer like GitHub's API", config.github.api_url)
                }
                error => error.to_string(),
            };
            vec![wrong("github", seen, mend::github(&error, config, app, asked))]
        }
    }
}

fn registered(app: &Registration, config: &Config, asked: &Asked) -> Vec<Finding> {
    let right = app.page.as_deref().and_then(|page| elsewhere(page, &config.github.web_url));
    let web_url = right.as_deref().unwrap_or(&config.github.web_url);
    let page = format!("{web_url}/{}/permissions", app.settings);
    let mut findings = vec![fine("github", format!("this is the App @{}", app.slug))];
    if let Some(right) = &right {
        let given = &config.github.web_url;
        let seen = format!("GITHUB_WEB_URL is {given}, but this GitHub has its pages, and git, at {right}");
        findings.push(wrong("github", seen, mend::web_url(right, config, asked)));
    }
    let settings = format!("{web_url}/{}", app.settings);
    match config.github.deliveries {
        Deliveries::Sent => findings.extend(sent(app, &settings, config, asked)),
        Deliveries::Fetched => findings.push(fetched(app, &settings)),
    }
    if !app.missing_permissions.is_empty() {
        let missing = app.missing_permissions.join(", ");
        let seen = format!("the App lacks permissions: {missing}; grant them, then accept them where it is installed");
        findings.push(wrong("github", seen, open(&page)));
    }
    if !app.missing_events.is_empty() {
        let missing = app.missing_events.join(", ");
        let seen = format!("the App does not hear of: {missing}; tick them under \"Subscribe to events\"");
        findings.push(wrong("github", seen, open(&page)));
    }
    if app.missing_permissions.is_empty() && app.missing_events.is_empty() {
        findings.push(fine("github", "the App has every permission that it needs, and hears of every event"));
    }
    let live: Vec<_> = app.installations.iter().filter(|installed| !installed.suspended).collect();
    if live.is_empty() {
        findings.push(match app.installations.first() {
            None => {
                let page = installation_page(web_url, &app.slug);
                wrong("github", "the App is installed nowhere; choose repositories for it", open(page))
            }
            Some(suspended) => {
                let seen = "every installation of the App is suspended; who suspended it presses \"Unsuspend\"";
                wrong("github", seen, open(&suspended.page))
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
        let finding = match missing.is_empty() {
            true => fine("github", format!("it is installed on {}", installed.account)),
            false => {
                let (account, missing) = (&installed.account, missing.join(", "));
                let seen =
                    format!("on {account} it does not have: {missing}; an owner there accepts its new permissions");
                wrong("github", seen, open(&installed.page))
            }
        };
        findings.push(finding.of(&installed.account));
    }
    findings
}

/// Whether GitHub's deliveries come here.
fn sent(app: &Registration, settings: &str, config: &Config, asked: &Asked) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(seen) = app.webhook.as_ref().and_then(|webhook| not_delivered(webhook, config.public_url.as_deref())) {
        findings.push(wrong("webhook", seen, open(settings)));
    }
    let Some(newest) = &app.newest_delivery else { return findings };
    if newest.status == REFUSED {
        let seen = format!(
            "GitHub's newest delivery ({}) was answered with {REFUSED}: the webhook secret here is not the one of the App's page. A \
             new one belongs into both; \"Redeliver\" on that page, under \"Advanced\", shows whether they are the same",
            newest.at
        );
        findings.push(wrong("webhook", seen, mend::webhook_secret(config, asked)));
        return findings;
    }
    let began = HomeLock::held_since(&config.home).map(|began| Timestamp::new(began.into()));
    if let Some(seen) = began.and_then(|began| not_taken(newest, began)) {
        findings.push(wrong("webhook", seen, open(format!("{settings}/advanced"))));
    }
    findings
}

/// Whether GitHub has deliveries that could be fetched; where it tries to send them is no matter.
fn fetched(app: &Registration, settings: &str) -> Finding {
    if app.webhook.as_ref().is_some_and(|webhook| webhook.url.is_empty()) {
        let seen = format!(
            "the App has no webhook, so that GitHub has no deliveries to fetch: tick \"Active\", with a URL at which nobody listens, \
             like {NOBODY}"
        );
        return wrong("webhook", seen, open(settings));
    }
    let newest = match &app.newest_delivery {
        Some(newest) => format!("the newest is of {}", newest.at),
        None => "there is none of the last days".to_owned(),
    };
    fine("webhook", format!("GitHub is asked for deliveries every ten seconds; {newest}"))
}

/// The address of GitHub's pages by one of them, where it is another than the one that is set.
fn elsewhere(page: &str, web_url: &str) -> Option<String> {
    let (page, given) = (Url::parse(page).ok()?.origin(), Url::parse(web_url).ok()?.origin());
    (page != given).then(|| page.ascii_serialization())
}

/// Why GitHub's deliveries do not come here, as far as its settings show.
fn not_delivered(webhook: &Webhook, public_url: Option<&str>) -> Option<String> {
    let here = format!("{}/webhooks/github", public_url.unwrap_or("https://<host>"));
    let Webhook { url, as_json } = webhook;
    if url.is_empty() {
        return Some(format!(
            "the App has no webhook, so that GitHub tells of nothing: tick \"Active\", with the URL {here}"
        ));
    }
    if public_url.is_some() && Url::parse(url) != Url::parse(&here) {
        return Some(format!("the App's webhook leads to {url}; by TREEWARDEN_PUBLIC_URL it has to be {here}"));
    }
    (!as_json).then(|| "the App's webhook sends forms; its content type has to be application/json".to_owned())
}

/// What the service answers to a delivery that is not signed with its secret.
const REFUSED: u16 = 401;

/// How long a start may take that has much to look at.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Why a delivery did not come to a service that runs since `began`. What set out by itself before it listened found nobody;
/// whoever has one sent again knows that it is there.
fn not_taken(newest: &DeliveryAttempt, began: Timestamp) -> Option<String> {
    let listens = if newest.redelivery { Duration::ZERO } else { STARTS_WITHIN };
    // GitHub tells times to the second.
    if newest.at < Timestamp::from_unix(began.unix()).plus(listens) {
        return None;
    }
    let answered = match newest.status {
        // Of the service itself: taken, not understood, no room.
        200..=299 | 400 | 415 | 503 => return None,
        0 => "had no answer".to_owned(),
        status => format!("was answered with {status}"),
    };
    Some(format!(
        "GitHub's newest delivery ({}) {answered}: what is in front of the service (a proxy, a tunnel) has to forward \
         /webhooks/github to it. What does not come in is fetched, but only every two minutes",
        newest.at
    ))
}

fn agent(config: &Config, asked: &Asked) -> Vec<Finding> {
    let Some(agent) = &config.agent else {
        let seen = "none is configured (for good: agent_command = \"…\" in treewarden.toml)";
        return vec![wrong("agent", seen, asked.set(&[(mend::AGENT, "<program> <arguments>")]))];
    };
    let mut findings = vec![program(agent, config, asked)];
    if !agent.unset.is_empty() {
        let names = agent.unset.join(", ");
        let seen = format!("TREEWARDEN_AGENT_ENV names what is not set where the service is started: {names}");
        let values: Vec<(&str, &str)> = agent.unset.iter().map(|name| (name.as_str(), "<value>")).collect();
        findings.push(wrong("agent", seen, asked.set(&values)));
    }
    findings
}

fn program(agent: &AgentConfig, config: &Config, asked: &Asked) -> Finding {
    let error = match program::look(agent) {
        Ok(file) => return fine("agent", format!("{} is there", file.display())),
        Err(error) => error,
    };
    let seen = match &error {
        Unstartable::NotExecutable { .. } | Unstartable::CarriageReturn(_) => error.to_string(),
        Unstartable::NoInterpreter { .. } => format!("{error}; a program is wanted there that is"),
        Unstartable::Missing(_)
        | Unstartable::NotOnPath { .. }
        | Unstartable::Directory(_)
        | Unstartable::OutOfReach { .. }
        | Unstartable::NoProgram(_)
        | Unstartable::Noexec(_) => format!("{error}; the agent's program is wanted, by its whole path"),
    };
    wrong("agent", seen, mend::agent(&error, agent, config, asked))
}

fn sandbox(config: &Config, asked: &Asked) -> Finding {
    match config.sandbox {
        Sandbox::Off => fine("sandbox", "off, as written: agents run as the user of this service"),
        Sandbox::Strict | Sandbox::Basic if config.agent.is_none() => fine("sandbox", "not needed without an agent"),
        Sandbox::Strict | Sandbox::Basic => {
            let seen = "this version cannot confine agents, and starts with one only where they may do all that the \
                        user of this service may (for good: sandbox = \"off\" in treewarden.toml)";
            wrong("sandbox", seen, asked.set(&[("TREEWARDEN_SANDBOX", "off")]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AttemptId;

    #[test]
    fn a_delivery_that_failed_speaks_against_the_way_only_while_a_service_listened() {
        let began = Timestamp::from_unix(1000);
        let told = |seconds: i64, status: u16, redelivery: bool| {
            let (id, at) = (AttemptId(1), Timestamp::from_unix(seconds));
            let attempt = DeliveryAttempt { id, guid: "g".to_owned(), at, status, redelivery };
            not_taken(&attempt, began).is_some()
        };
        assert_eq!([999, 1059, 1060].map(|at| told(at, 502, false)), [false, false, true]);
        assert_eq!([999, 1000].map(|at| told(at, 502, true)), [false, true]);
        assert_eq!([0, 404, 202, 400, 503].map(|status| told(2000, status, false)), [true, true, false, false, false]);
    }
}
