//! Puts the layers together: each setting is looked up, understood, or becomes a problem, and has its default then.

use super::source::{Env, Files, Found, Sources, read_file, variable};
use super::table::*;
use super::{AgentConfig, AppCredentials, Config, Deliveries, Fault, GithubConfig, OauthCredentials, Problem};
use super::{Origin, home, parse, source::Flags};
use crate::model::{DiskMarks, Pacing};
use crate::telemetry;
use secrecy::SecretString;
use std::{ops::RangeInclusive, path::Path, path::PathBuf, time::Duration};

const DAY: u64 = 24 * 3600;
/// As programs spell them; each reads those it knows.
const PROXY_VARIABLES: [&str; 8] =
    ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];

pub(super) fn load(flags: &Flags, env: Env<'_>, files: Files<'_>) -> (Config, Vec<Problem>) {
    let mut problems = Vec::new();
    let user_home = variable(env, "HOME");
    let home = home::locate(&Sources { flags, env, file: None }, user_home.as_deref(), &mut problems);
    let (file, file_known) = match home.as_deref().map(|home| read_file(flags, home, files, &mut problems)) {
        Some(Ok(file)) => (file, true),
        Some(Err(problem)) => {
            problems.push(problem);
            (None, false)
        }
        None => (None, false),
    };
    // Paths below a home that is a problem itself are only made up to find the other problems.
    let home = home.unwrap_or_else(|| PathBuf::from("/"));
    let file_of_home = home.join("treewarden.toml");
    let sources = Sources { flags, env, file };
    let mut reader = Reader { sources, file_known, file_of_home, files, user_home, problems };
    let config = reader.config(home);
    (config, reader.problems)
}

struct Reader<'a> {
    sources: Sources<'a>,
    /// Whether what stands in the file is known, be it nothing.
    file_known: bool,
    /// Where the file was looked for that nobody named.
    file_of_home: PathBuf,
    files: Files<'a>,
    user_home: Option<String>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn config(&mut self, home: PathBuf) -> Config {
        let worktree_base = self.path(&WORKTREE_BASE).unwrap_or_else(|| home.join("worktrees"));
        let database = self.optional(&DATABASE_URL, parse::database_url);
        let database = database.unwrap_or_else(|| format!("sqlite://{}", home.join("treewarden.db").display()));
        Config {
            worktree_base,
            user_home: self.user_home.as_ref().map(PathBuf::from),
            listen: self.value(&LISTEN, parse::listen),
            public_url: self.optional(&PUBLIC_URL, parse::public_url),
            database_url: SecretString::from(database),
            github: self.github(),
            stale_after: self.duration(&STALE_THRESHOLD_DAYS, DAY, 1..=3650),
            authority: self.optional(&ALLOW, parse::authority).unwrap_or_default(),
            max_worktrees: self.value(&MAX_WORKTREES, parse::whole_number(1..=10_000)),
            offline_create: self.value(&OFFLINE_CREATE, parse::switch),
            cleanup_interval: self.duration(&CLEANUP_INTERVAL_HOURS, 3600, 1..=8760),
            disk_marks: self.disk_marks(),
            reclaim_after: self.value(&RECLAIM_AFTER, parse::reclaim_after),
            trash_for: self.duration(&TRASH_DAYS, DAY, 1..=3650),
            retain_for: self.duration(&RETENTION_DAYS, DAY, 7..=3650),
            max_runs: self.value(&MAX_RUNS, parse::whole_number(1..=256)),
            agent: self.agent(),
            run_time_limit: self.value(&RUN_TIME_LIMIT, parse::time_limit),
            admins: self.optional(&ADMINS, parse::admins).unwrap_or_default(),
            mode: self.value(&MODE, parse::mode),
            local: self.value(&LOCAL, parse::switch),
            sandbox: self.value(&SANDBOX, parse::sandbox),
            secret_key: self.optional(&SECRET_KEY, parse::secret_key).map(SecretString::from),
            log: self.value(&LOG, log_filter),
            log_format: self.value(&LOG_FORMAT, |text| text.parse().map_err(|known| format!("expected {known}"))),
            secrets_in: self.sources.secrets_in().map(Path::to_owned),
            given: SETTINGS.iter().filter_map(|one| Some((one.variable, self.sources.find(one)?.origin))).collect(),
            file: self.sources.file.as_ref().map(|(path, _)| path.clone()),
            database_patience: None,
            pacing: Pacing::default(),
            home_overruled: self.home_in_environment().is_some_and(|named| named.as_ref() != Ok(&home)),
            ignored: Vec::new(),
            home,
        }
    }

    fn home_in_environment(&self) -> Option<Result<PathBuf, String>> {
        let found = self.sources.find(&HOME).filter(|found| found.origin == Origin::Environment)?;
        Some(parse::path(found.text.trim(), self.user_home.as_deref()))
    }

    fn github(&mut self) -> GithubConfig {
        let moved = [&GITHUB_API_URL, &GITHUB_WEB_URL].map(|setting| self.sources.find(setting).is_some());
        match moved {
            [true, false] => self.missing(&GITHUB_WEB_URL, "must be set as well, since GITHUB_API_URL is"),
            [false, true] => self.missing(&GITHUB_API_URL, "must be set as well, since GITHUB_WEB_URL is"),
            [true, true] | [false, false] => {}
        }
        let api_url = self.value(&GITHUB_API_URL, parse::github_api_url);
        let web_url = self.value(&GITHUB_WEB_URL, parse::github_web_url);
        let proxies = PROXY_VARIABLES.iter().filter(|_| !parse::is_local(&web_url));
        let proxy = proxies.filter_map(|name| Some((name.to_string(), variable(self.sources.env, name)?.into())));
        let proxy = proxy.collect();
        let deliveries = self.value(&WEBHOOK, parse::webhook);
        GithubConfig { proxy, api_url, web_url, app: self.app(deliveries), deliveries }
    }

    /// The App's credentials: all of them or none; a webhook secret that is missing is never a reason to go without.
    fn app(&mut self, deliveries: Deliveries) -> Option<AppCredentials> {
        let parts = [&GITHUB_APP_ID, &GITHUB_APP_PRIVATE_KEY, &GITHUB_APP_PRIVATE_KEY_FILE, &GITHUB_WEBHOOK_SECRET];
        let given = parts.map(|setting| self.sources.find(setting).is_some());
        let [id, key, key_file, secret] = given;
        if given == [false; 4] {
            return None;
        }
        if !id {
            self.missing(&GITHUB_APP_ID, "is missing, though other settings of the App are there");
        }
        if !key && !key_file {
            self.missing(&GITHUB_APP_PRIVATE_KEY, "is missing (or GITHUB_APP_PRIVATE_KEY_FILE)");
        }
        if key && key_file {
            let found = self.sources.find(&GITHUB_APP_PRIVATE_KEY_FILE);
            let expected = "is set beside GITHUB_APP_PRIVATE_KEY; expected one of the two".to_owned();
            let surplus = wrong(&GITHUB_APP_PRIVATE_KEY_FILE, found, expected);
            self.problems.push(Problem { fault: Fault::Surplus, ..surplus });
        }
        let is_wanted = deliveries == Deliveries::Sent;
        if !secret && is_wanted {
            self.missing(
                &GITHUB_WEBHOOK_SECRET,
                "is missing; without it nobody could tell real webhooks from forged ones",
            );
        }
        let app_id = self.optional(&GITHUB_APP_ID, parse::app_id);
        let private_key = self.private_key();
        let webhook_secret = self.optional(&GITHUB_WEBHOOK_SECRET, parse::any_text).map(SecretString::from);
        let client_id = self.optional(&GITHUB_CLIENT_ID, parse::any_text);
        let client_secret = self.optional(&GITHUB_CLIENT_SECRET, parse::any_text).map(SecretString::from);
        if is_wanted && webhook_secret.is_none() {
            return None;
        }
        Some(AppCredentials {
            app_id: app_id?,
            private_key: private_key?.into(),
            private_key_file: self.path(&GITHUB_APP_PRIVATE_KEY_FILE),
            webhook_secret,
            oauth: client_id
                .zip(client_secret)
                .map(|(client_id, client_secret)| OauthCredentials { client_id, client_secret }),
        })
    }

    fn disk_marks(&mut self) -> DiskMarks {
        let soft = self.optional(&DISK_SOFT_MARK, parse::disk_space);
        let hard = self.optional(&DISK_HARD_MARK, parse::disk_space);
        if let (Some(soft), Some(hard)) = (soft, hard)
            && soft > hard
        {
            let found = self.sources.find(&DISK_SOFT_MARK);
            self.wrong(&DISK_SOFT_MARK, found, "expected no more than DISK_HARD_MARK".to_owned());
        }
        DiskMarks { soft, hard }
    }

    fn private_key(&mut self) -> Option<String> {
        let Some(path) = self.path(&GITHUB_APP_PRIVATE_KEY_FILE) else {
            return self.optional(&GITHUB_APP_PRIVATE_KEY, parse::private_key);
        };
        let read = (self.files)(&path).map_err(|error| format!("the file cannot be read: {error}"));
        match read.and_then(|text| parse::private_key(&text)) {
            Ok(key) => Some(key),
            Err(expected) => {
                let found = self.sources.find(&GITHUB_APP_PRIVATE_KEY_FILE);
                let spoilt = wrong(&GITHUB_APP_PRIVATE_KEY_FILE, found, expected);
                self.problems.push(Problem { fault: Fault::File(path), ..spoilt });
                None
            }
        }
    }

    fn agent(&mut self) -> Option<AgentConfig> {
        let names = self.optional(&AGENT_ENV, parse::variable_names).unwrap_or_default();
        let argv = self.optional(&AGENT_COMMAND, parse::command_line)?;
        let value = |name: &String| match name.as_str() {
            "PATH" => variable(self.sources.env, name).and_then(|path| parse::absolute_entries(&path)),
            _ => variable(self.sources.env, name),
        };
        let unset = names.iter().filter(|name| value(name).is_none()).cloned().collect();
        let all = ["PATH", "LANG", "TERM"].map(str::to_owned).into_iter().chain(names);
        let env = all.filter_map(|name| value(&name).map(|value| (name, value.into()))).collect();
        Some(AgentConfig { argv, env, unset })
    }

    fn duration(&mut self, setting: &'static Setting, unit: u64, range: RangeInclusive<u32>) -> Duration {
        Duration::from_secs(u64::from(self.value(setting, parse::whole_number(range))) * unit)
    }

    fn path(&mut self, setting: &'static Setting) -> Option<PathBuf> {
        let user_home = self.user_home.clone();
        self.optional(setting, |text| parse::path(text, user_home.as_deref()))
    }

    /// The setting's value; its default when it is not set or wrong.
    fn value<T>(&mut self, setting: &'static Setting, parse: impl Fn(&str) -> Result<T, String>) -> T {
        self.optional(setting, &parse)
            .unwrap_or_else(|| parse(setting.default).expect("the table's defaults are valid"))
    }

    fn optional<T>(&mut self, setting: &'static Setting, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let found = self.sources.find(setting)?;
        match parse(found.text.trim()) {
            Ok(value) => Some(value),
            Err(expected) => {
                self.wrong(setting, Some(found), expected);
                None
            }
        }
    }

    fn wrong(&mut self, setting: &'static Setting, found: Option<Found>, expected: String) {
        self.problems.push(wrong(setting, found, expected));
    }

    /// Nobody is told to set what may stand in a file that could not be read. Of a file that is not there it is said once: that
    /// may be all that is missing.
    fn missing(&mut self, setting: &'static Setting, expected: &str) {
        if !self.file_known {
            return;
        }
        let is_first = !self.problems.iter().any(|before| before.origin.is_none() && before.fault == Fault::Value);
        let file = match &self.sources.file {
            None if is_first => format!(" (and there is no settings file {})", self.file_of_home.display()),
            None | Some(_) => String::new(),
        };
        self.wrong(setting, None, format!("{expected}{file}"));
    }
}

/// A problem with `setting`, called as it is where it was found; the value is left out when it is a secret.
pub(super) fn wrong(setting: &Setting, found: Option<Found>, expected: String) -> Problem {
    let (given, origin) = found.map(|found| (found.text, found.origin)).unzip();
    let name = match &origin {
        Some(Origin::File(_)) => setting.key(),
        Some(Origin::Flag | Origin::Environment) | None => setting.variable.to_owned(),
    };
    Problem { setting: name, origin, given: given.filter(|_| !setting.secret), expected, fault: Fault::Value }
}

fn log_filter(text: &str) -> Result<String, String> {
    let checked = telemetry::check_filter(text).map(|()| text.to_owned());
    checked.map_err(|_| "expected a level or directives, like info or treewarden=debug,warn".to_owned())
}
