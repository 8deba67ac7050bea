//! The one list of settings. Reading, `--help` and the table in the README all follow it.

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The environment variable.
    pub variable: &'static str,
    /// As a person would write it; in angle brackets where it depends on other things; empty when there is none.
    pub default: &'static str,
    pub meaning: &'static str,
    /// Its value is never shown.
    pub secret: bool,
}

impl Setting {
    /// The key in `treewarden.toml`: the variable in lower case, without `treewarden_`.
    pub fn key(&self) -> String {
        let lower = self.variable.to_ascii_lowercase();
        lower.strip_prefix("treewarden_").map(str::to_owned).unwrap_or(lower)
    }

    /// Whether the file may set it. It cannot say where it itself lies, nor what kind of machine it is on.
    pub fn in_file(&self) -> bool {
        self.variable != HOME.variable && self.variable != CONTAINER.variable
    }

    /// Whether this version does more with it than to read it, as its meaning says.
    pub fn has_effect(&self) -> bool {
        !self.meaning.contains("no effect yet")
    }
}

macro_rules! settings {
    ($($(#[$kind:ident])? $name:ident $variable:literal = $default:literal, $meaning:literal;)*) => {
        $(pub(super) const $name: Setting = Setting {
            variable: $variable, default: $default, meaning: $meaning, secret: settings!(@secret $($kind)?),
        };)*

        /// All settings, in the order in which people read about them.
        pub const SETTINGS: &[&Setting] = &[$(&$name),*];
    };
    (@secret secret) => { true };
    (@secret) => { false };
}

settings! {
    HOME "TREEWARDEN_HOME" = "~/.treewarden",
        "directory of everything Treewarden keeps; where `TREEWARDEN_CONTAINER` is on, `/.treewarden` in its place";
    CONTAINER "TREEWARDEN_CONTAINER" = "off", "`on` where Treewarden runs in a container: fixes the home (there is no image of ours yet)";
    WORKTREE_BASE "WORKTREE_BASE" = "<home>/worktrees", "where worktrees are made; `~` is expanded";
    LISTEN "TREEWARDEN_LISTEN" = "127.0.0.1:3000", "`host:port` to listen on; port 0 picks one and prints it";
    PUBLIC_URL "TREEWARDEN_PUBLIC_URL" = "http://<listen>", "how browsers and GitHub reach Treewarden: scheme, host and port";
    #[secret]
    DATABASE_URL "DATABASE_URL" = "sqlite://<home>/treewarden.db", "`sqlite://<path>` or `postgres://…`";
    GITHUB_API_URL "GITHUB_API_URL" = "https://api.github.com", "API of GitHub Enterprise Server";
    GITHUB_WEB_URL "GITHUB_WEB_URL" = "https://github.com", "pages and git of that server; set both or none";
    GITHUB_APP_ID "GITHUB_APP_ID" = "", "number of the GitHub App";
    #[secret]
    GITHUB_APP_PRIVATE_KEY "GITHUB_APP_PRIVATE_KEY" = "", "its private key (PEM; `\\n` for line breaks is understood)";
    GITHUB_APP_PRIVATE_KEY_FILE "GITHUB_APP_PRIVATE_KEY_FILE" = "", "or the file that holds it; one of the two, wherever it stands";
    #[secret]
    GITHUB_WEBHOOK_SECRET "GITHUB_WEBHOOK_SECRET" = "", "the secret its webhooks are signed with; it should have 16 characters or more";
    WEBHOOK "TREEWARDEN_WEBHOOK" = "on",
        "how deliveries come: `on`, GitHub sends them; `poll`, GitHub is asked for them every ten seconds, and nothing has to reach this machine ([more](docs/operations.md#without-an-inbound-port)); then no webhook secret is needed";
    GITHUB_CLIENT_ID "GITHUB_CLIENT_ID" = "", "its OAuth client id; reserved for the panel's login, no effect yet";
    #[secret]
    GITHUB_CLIENT_SECRET "GITHUB_CLIENT_SECRET" = "", "its OAuth client secret; no effect yet";
    STALE_THRESHOLD_DAYS "STALE_THRESHOLD_DAYS" = "14", "days without activity after which a worktree is stale; 1 to 3650";
    MAX_WORKTREES "MAX_WORKTREES_PER_CODEBASE" = "25", "live worktrees one repository may have; 1 to 10000";
    OFFLINE_CREATE "TREEWARDEN_OFFLINE_CREATE" = "off",
        "`on`: while the git server cannot be reached, work starts from what the last fetch brought, and says how old that is";
    CLEANUP_INTERVAL_HOURS "CLEANUP_INTERVAL_HOURS" = "6", "hours between two cleanups; 1 to 8760";
    TRASH_DAYS "TRASH_DAYS" = "30", "days for which what was in a removed worktree and in no commit can be brought back: ignored files, and by force uncommitted work; 1 to 3650";
    RETENTION_DAYS "RETENTION_DAYS" = "90", "days for which logs of runs, handled deliveries, sent messages, ended sessions and reports are kept; 7 to 3650";
    DISK_SOFT_MARK "DISK_SOFT_MARK" = "", "disk space that one repository may take, worktrees and history, like `20GB` (`MB`, `GB`, `TB`, or `MiB`, `GiB`, `TiB`; 1MB to 1000TB); above it a whole cleanup of it begins by itself";
    DISK_HARD_MARK "DISK_HARD_MARK" = "", "the same, and no less than the soft one; above it no worktree of that repository is made or brought back; those that are there go on";
    RECLAIM_AFTER "TREEWARDEN_RECLAIM_AFTER" = "off",
        "how long a worktree is idle, like `3d`, before the cleanup takes caches out of it that tools make again ([more](docs/operations.md#disk-growth)); over `DISK_SOFT_MARK` at once; 1h to 3650d, or `off`";
    MAX_RUNS "MAX_CONCURRENT_RUNS" = "4", "agents at work at the same time; 1 to 256";
    AGENT_COMMAND "TREEWARDEN_AGENT_COMMAND" = "",
        "program and arguments of the agent: prompt on standard input, standard output (Markdown) is the reply; no shell";
    AGENT_ENV "TREEWARDEN_AGENT_ENV" = "",
        "names of environment variables the agent gets besides `PATH`, `HOME`, `LANG` and `TERM`, separated by commas";
    RUN_TIME_LIMIT "TREEWARDEN_RUN_TIME_LIMIT" = "1h", "how long one run of the agent may take, like `90m`; 1 second to 7 days";
    ALLOW "TREEWARDEN_ALLOW" = "", "who may ask for what, where it is not everybody with write permission: rules like `/worktree cleanup = maintain; /status = read, @ann:583231; requests = write` ([more](docs/operations.md#who-may-ask))";
    ADMINS "TREEWARDEN_ADMINS" = "", "people who may do in every repository what takes admin permission there (`/enable`, `/doctor`), like `ann:583231, bob:17`: login and GitHub's number of it ([more](docs/operations.md#who-may-ask))";
    MODE "TREEWARDEN_MODE" = "on", "what a repository starts in when it is met for the first time: `on`; `staged`, the bot says what it would do and does nothing; `off`, it says nothing either ([more](docs/operations.md#on-staged-off))";
    LOCAL "TREEWARDEN_LOCAL" = "off", "`on` opens `/local/messages` on loopback, which `treewarden say` speaks to: for people and scripts without GitHub";
    SANDBOX "TREEWARDEN_SANDBOX" = "strict", "the least protection a run may have: `strict`, `basic` or `off`; this version has no sandbox, so with an agent it starts with `off` only";
    #[secret]
    SECRET_KEY "TREEWARDEN_SECRET_KEY" = "", "seals the App's credentials where the set-up stored them; 32 characters or more; without it, a key file in the home does ([more](docs/operations.md#keys-and-secrets))";
    LOG "TREEWARDEN_LOG" = "info", "what is logged, like `info` or `treewarden=debug,warn`";
    LOG_FORMAT "TREEWARDEN_LOG_FORMAT" = "text", "`text`, or `json` for machines";
}

/// The table of the README.
pub fn markdown_table() -> String {
    let rows = SETTINGS.iter().map(|setting| {
        let default = if setting.default.is_empty() { "none".to_owned() } else { format!("`{}`", setting.default) };
        format!("| `{}` | {default} | {} |\n", setting.variable, setting.meaning)
    });
    ["| setting | default | meaning |\n|---|---|---|\n".to_owned()].into_iter().chain(rows).collect()
}

/// The same for a terminal.
pub fn plain_table() -> String {
    let rows = SETTINGS.iter().map(|setting| {
        let default = if setting.default.is_empty() { String::new() } else { format!(" [{}]", setting.default) };
        let meaning = setting.meaning.replace('`', "").replace("[more](", "see ").replace("))", ")");
        format!("  {}{default}\n      {meaning}\n", setting.variable)
    });
    let head =
        "Settings, as environment variables; in treewarden.toml the same names in lower case without treewarden_:\n";
    [head.to_owned()].into_iter().chain(rows).collect()
}
