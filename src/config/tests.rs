//! Tests of `config`: precedence, defaults, every way to be wrong, and what must never be shown.

use super::*;
use std::collections::HashMap;
use std::os::unix::{ffi::OsStringExt, fs::PermissionsExt};

const KEY: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n";

/// Loads from the given environment and files, with `HOME=/home/ann` unless it says otherwise.
fn load(flags: &Flags, env: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Config, ConfigProblems> {
    let env: HashMap<&str, &str> = [("HOME", "/home/ann")].into_iter().chain(env.iter().copied()).collect();
    let files: HashMap<&str, &str> = files.iter().copied().collect();
    let read = |path: &Path| {
        let text = files.get(path.to_str().unwrap()).map(|text| (*text).to_owned());
        text.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    Config::load(flags, |name| env.get(name).map(|value| (*value).to_owned()), read)
}

fn from_env(env: &[(&str, &str)]) -> Result<Config, ConfigProblems> {
    load(&Flags::default(), env, &[])
}

#[test]
fn an_empty_machine_gets_the_defaults() {
    let config = from_env(&[]).unwrap();
    assert_eq!(config.home, Path::new("/home/ann/.treewarden"));
    assert_eq!(config.worktree_base, Path::new("/home/ann/.treewarden/worktrees"));
    assert_eq!(config.listen.to_string(), "127.0.0.1:3000");
    assert_eq!(config.database_url.expose_secret(), "sqlite:///home/ann/.treewarden/treewarden.db");
    assert_eq!(config.github.api_url, "https://api.github.com");
    assert!(config.github.app.is_none() && config.agent.is_none());
    assert_eq!((config.stale_after.as_secs(), config.max_worktrees, config.max_runs), (14 * 86_400, 25, 4));
    assert_eq!(config.run_time_limit, Duration::from_secs(3600));
    assert_eq!(config.public_url("127.0.0.1:4000".parse().unwrap()), "http://127.0.0.1:4000");
}

#[test]
fn flags_beat_environment_beats_file_beats_defaults() {
    let file = (
        "/srv/tw/treewarden.toml",
        "listen = '127.0.0.1:1'\nstale_threshold_days = 7\nadmins = ['Ann:583231', 'bob:17']",
    );
    let env = [("TREEWARDEN_HOME", "/srv/tw"), ("STALE_THRESHOLD_DAYS", "8")];
    let config = load(&Flags::default(), &env, &[file]).unwrap();
    assert_eq!((config.listen.port, config.stale_after.as_secs()), (1, 8 * 86_400));
    assert_eq!(config.admins, BTreeSet::from([UserId(17), UserId(583_231)]));
    let env = [env[0], ("TREEWARDEN_LISTEN", "127.0.0.1:2")];
    assert_eq!(load(&Flags::default(), &env, &[file]).unwrap().listen.port, 2);
    let flags = Flags { listen: Some("[::1]:3".to_owned()), ..Flags::default() };
    let config = load(&flags, &env, &[file]).unwrap();
    assert_eq!((config.listen.to_string(), config.listen.is_loopback()), ("[::1]:3".to_owned(), true));
}

#[test]
fn the_home_follows_its_rules() {
    let home = |flag: Option<&str>, env: &[(&str, &str)]| {
        load(&Flags { home: flag.map(PathBuf::from), ..Flags::default() }, env, &[]).unwrap().home
    };
    assert_eq!(home(None, &[("TREEWARDEN_HOME", "~/tw")]), Path::new("/home/ann/tw"));
    let container = [("TREEWARDEN_CONTAINER", "on"), ("TREEWARDEN_HOME", "/srv/tw")];
    assert_eq!(home(None, &container), Path::new("/.treewarden"));
    assert_eq!(home(Some("/flag"), &container), Path::new("/flag"));
    let overruled = |env: &[(&str, &str)]| from_env(env).unwrap().home_overruled;
    assert!(overruled(&container) && overruled(&[container[0], ("TREEWARDEN_HOME", "nowhere")]));
    for env in [&container[..1], &container[1..], &[container[0], ("TREEWARDEN_HOME", "/.treewarden")]] {
        assert!(!overruled(env), "{env:?}");
    }
    assert!(from_env(&[("TREEWARDEN_CONTAINER", "On")]).is_ok() && from_env(&[("TREEWARDEN_LOCAL", "yes")]).is_ok());
    let problems = from_env(&[("HOME", "")]).unwrap_err().to_string();
    assert!(problems.contains("TREEWARDEN_HOME: must be set, since HOME is not"), "{problems}");
    assert!(from_env(&[("TREEWARDEN_HOME", "/")]).is_err());
    let config = from_env(&[("WORKTREE_BASE", "~/trees")]).unwrap();
    assert_eq!(config.worktree_base, Path::new("/home/ann/trees"));
}

#[test]
fn a_slip_in_the_mode_is_no_silent_on() {
    assert_eq!(from_env(&[]).unwrap().mode, CodebaseMode::On);
    for mode in CodebaseMode::ALL {
        assert_eq!(from_env(&[("TREEWARDEN_MODE", mode.as_str())]).unwrap().mode, *mode);
    }
    for slip in ["Off", "stage", "none"] {
        let problems = from_env(&[("TREEWARDEN_MODE", slip)]).unwrap_err().to_string();
        assert!(problems.contains("expected on, staged or off"), "{problems}");
    }
}

#[test]
fn admins_are_named_by_number() {
    let problems = from_env(&[("TREEWARDEN_ADMINS", "ann:583231, bob")]).unwrap_err().to_string();
    insta::assert_snapshot!(problems, @r#"
    One setting is wrong; nothing was begun:
      - TREEWARDEN_ADMINS is "ann:583231, bob" (from the environment): bob may be somebody else tomorrow: write bob:<number>, with the number that GitHub gives as `id` (on github.com: `curl -s https://api.github.com/users/bob`)
    "#);
    for slip in ["ann:0", "ann:x", ":7", "ann:-1", "a[bot]:7", "7"] {
        assert!(from_env(&[("TREEWARDEN_ADMINS", slip)]).is_err(), "{slip}");
    }
}

#[test]
fn every_wrong_value_is_named_at_once() {
    let env = [
        ("TREEWARDEN_LISTEN", "3000"),
        ("MAX_WORKTREES_PER_CODEBASE", "0"),
        ("TREEWARDEN_ALLOW", "/approve = read"),
        ("TREEWARDEN_PUBLIC_URL", "https://tw.example.org/sub"),
        ("GITHUB_API_URL", "http://ghe.example.org/api/v3"),
        ("GITHUB_APP_ID", "seven"),
        ("GITHUB_APP_PRIVATE_KEY", "hunter2hunter2"),
        ("TREEWARDEN_AGENT_COMMAND", "claude -p 'open"),
        ("TREEWARDEN_AGENT_ENV", "MODEL_KEY,GITHUB_WEBHOOK_SECRET"),
        ("WORKTREE_BASE", "trees/../.."),
        ("TREEWARDEN_LOG_FORMAT", "xml"),
        ("TREEWARDEN_SECRET_KEY", "tooshort"),
    ];
    let file =
        ("/home/ann/.treewarden/treewarden.toml", "trash_days = 1.5\nlisten_on = 'x'\nhome = '/x'\nmode = 'maybe'");
    let problems = load(&Flags::default(), &env, &[file]).unwrap_err().to_string();
    insta::assert_snapshot!(problems, @r#"
    18 settings are wrong; nothing was begun:
      - home (from /home/ann/.treewarden/treewarden.toml): cannot be set in the file; set the environment variable TREEWARDEN_HOME
      - listen_on (from /home/ann/.treewarden/treewarden.toml): no setting has this name
      - trash_days (from /home/ann/.treewarden/treewarden.toml): expected a whole number
      - WORKTREE_BASE is "trees/../.." (from the environment): expected an absolute path without .., or one that starts with ~/
      - TREEWARDEN_LISTEN is "3000" (from the environment): expected host:port, for example 127.0.0.1:3000
      - TREEWARDEN_PUBLIC_URL is "https://tw.example.org/sub" (from the environment): expected no path behind the host: Treewarden needs a host name, or a port, of its own
      - GITHUB_WEB_URL: must be set as well, since GITHUB_API_URL is
      - GITHUB_API_URL is "http://ghe.example.org/api/v3" (from the environment): expected https://, since tokens are sent there (http:// is for this machine only)
      - GITHUB_WEBHOOK_SECRET: is missing; without it nobody could tell real webhooks from forged ones
      - GITHUB_APP_ID is "seven" (from the environment): expected the App's number, for example 123456
      - GITHUB_APP_PRIVATE_KEY (from the environment): expected the App's private key in PEM form (-----BEGIN … PRIVATE KEY-----)
      - TREEWARDEN_ALLOW is "/approve = read" (from the environment): /approve takes at least write permission: it lets strangers' code run
      - MAX_WORKTREES_PER_CODEBASE is "0" (from the environment): expected a whole number from 1 to 10000
      - TREEWARDEN_AGENT_ENV is "MODEL_KEY,GITHUB_WEBHOOK_SECRET" (from the environment): GITHUB_WEBHOOK_SECRET belongs to the service and is never given to an agent
      - TREEWARDEN_AGENT_COMMAND is "claude -p 'open" (from the environment): expected a program (a name on PATH or an absolute path) and its arguments, quotes balanced
      - mode is "maybe" (from /home/ann/.treewarden/treewarden.toml): expected on, staged or off
      - TREEWARDEN_SECRET_KEY (from the environment): expected 32 characters or more
      - TREEWARDEN_LOG_FORMAT is "xml" (from the environment): expected text or json
    "#);
    assert!(!problems.contains("hunter2") && !problems.contains("tooshort"));
}

#[test]
fn a_file_that_cannot_be_read_is_the_one_problem_it_makes() {
    let env = [("GITHUB_APP_ID", "7"), ("GITHUB_API_URL", "https://ghe.example.org/api/v3")];
    let flags = Flags { config: Some("/etc/tw.toml".into()), ..Flags::default() };
    for files in [&[][..], &[("/etc/tw.toml", "= 'x'")]] {
        let problems = load(&flags, &env, files).unwrap_err();
        assert_eq!(problems.0.len(), 1, "{problems}");
        assert_eq!(problems.0[0].fault, Fault::File("/etc/tw.toml".into()));
    }
    let problems = load(&flags, &env, &[("/etc/tw.toml", "mode = 'x'")]).unwrap_err();
    assert_eq!(problems.0.len(), 4, "{problems}");
}

/// Its settings cannot be read, and need not even be there.
#[test]
fn a_home_of_another_user_is_told_before_what_cannot_be_read_in_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join(".treewarden");
    std::fs::create_dir(&home).unwrap();
    let env = |name: &str| (name == "HOME").then(|| dir.path().display().to_string());
    let denied = |_: &Path| Err(io::Error::from(io::ErrorKind::PermissionDenied));
    let problem = || Config::load(&Flags::default(), env, denied).unwrap_err().0.remove(0);
    assert_eq!(problem().fault, Fault::File(home.join("treewarden.toml")));
    std::os::unix::fs::chown(&home, Some(7), None).unwrap();
    assert_eq!(problem().fault, Fault::OfAnother(home.as_path().into()));
    let told = format!("TREEWARDEN_HOME: {} belongs to another user of this machine (number 7)", home.display());
    assert!(problem().to_string().starts_with(&told), "{}", problem());
}

#[test]
fn where_values_stand_and_which_have_no_effect_is_known() {
    let env =
        [("GITHUB_CLIENT_ID", "Iv23liAbc"), ("TRASH_DAYS", "7"), ("MAX_CONCURRENT_RUNS", "2"), ("TREEWARDEN_LOG", " ")];
    let file = ("/home/ann/.treewarden/treewarden.toml", "max_concurrent_runs = 3\nlocal = true");
    let config = load(&Flags::default(), &env, &[file]).unwrap();
    assert_eq!(config.file.as_deref(), Some(Path::new(file.0)));
    assert_eq!(config.origin("MAX_CONCURRENT_RUNS"), Some(&Origin::Environment));
    assert_eq!(config.origin("TREEWARDEN_LOCAL"), Some(&Origin::File(file.0.into())));
    assert_eq!(config.origin("TREEWARDEN_LOG"), None);
    assert_eq!(config.without_effect(), ["GITHUB_CLIENT_ID"]);
    let reserved: Vec<&str> = SETTINGS.iter().filter(|one| !one.has_effect()).map(|one| one.variable).collect();
    let expected = ["GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"];
    assert_eq!(reserved, expected);
    assert_eq!(from_env(&[]).unwrap().file, None);
}

#[test]
fn an_app_is_connected_whole_or_not_at_all() {
    let whole = [("GITHUB_APP_ID", "7"), ("GITHUB_APP_PRIVATE_KEY", KEY), ("GITHUB_WEBHOOK_SECRET", "s")];
    assert_eq!(from_env(&whole).unwrap().github.app.unwrap().app_id, 7);
    for missing in 0..whole.len() {
        let mut env = whole.to_vec();
        let (name, _) = env.remove(missing);
        let problems = from_env(&env).unwrap_err();
        assert_eq!(problems.0.len(), 1);
        assert_eq!(problems.0[0].setting, name);
    }
    // Where nothing is let in, there is nothing to tell from forgeries.
    let fetched = from_env(&[whole[0], whole[1], ("TREEWARDEN_WEBHOOK", "poll")]).unwrap().github;
    assert_eq!((fetched.deliveries, fetched.app.unwrap().webhook_secret.is_none()), (Deliveries::Fetched, true));
    assert_eq!(from_env(&whole).unwrap().github.deliveries, Deliveries::Sent);
    for slip in ["", "off", "Poll", "https://smee.example/abc"] {
        let load = from_env(&[whole[0], whole[1], whole[2], ("TREEWARDEN_WEBHOOK", slip)]);
        assert_eq!(load.is_ok(), slip.is_empty(), "{slip}");
    }
    // What has no effect yet is in nobody's way.
    for reserved in ["GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"] {
        assert!(from_env(&[(reserved, "x")]).unwrap().github.app.is_none(), "{reserved}");
        assert!(from_env(&[whole[0], whole[1], whole[2], (reserved, "x")]).unwrap().github.app.is_some(), "{reserved}");
    }
    let escaped = KEY.replace('\n', "\\n");
    let env = [whole[0], ("GITHUB_APP_PRIVATE_KEY", escaped.as_str()), whole[2]];
    assert_eq!(from_env(&env).unwrap().github.app.unwrap().private_key.expose_secret(), KEY);
    let env = [whole[0], ("GITHUB_APP_PRIVATE_KEY_FILE", "/keys/app.pem"), whole[2]];
    assert!(load(&Flags::default(), &env, &[("/keys/app.pem", KEY)]).is_ok());
    assert!(load(&Flags::default(), &env, &[]).unwrap_err().to_string().contains("cannot be read"));
    let both = [whole[0], whole[1], env[1], whole[2]];
    let both = load(&Flags::default(), &both, &[("/keys/app.pem", KEY)]).unwrap_err();
    assert_eq!(both.0.iter().map(|problem| &problem.fault).collect::<Vec<_>>(), [&Fault::Surplus]);
    let spoilt = load(&Flags::default(), &env, &[("/keys/app.pem", "no key")]).unwrap_err();
    assert_eq!(spoilt.0[0].fault, Fault::File("/keys/app.pem".into()), "the setting is right");
}

#[test]
fn a_slip_in_a_level_or_a_path_stops_the_start() {
    let fine = |variable: &str, value: &str| from_env(&[(variable, value)]).is_ok();
    for log in ["debug", "warn,treewarden=trace,hyper=off", "info,[run{run.id=1}]=trace"] {
        assert!(fine("TREEWARDEN_LOG", log), "{log}");
    }
    for slip in ["loud", "treewarden=debug,inof"] {
        assert!(!fine("TREEWARDEN_LOG", slip), "{slip}");
    }
    assert!(fine("DATABASE_URL", "sqlite:///srv/tw.db"));
    for relative in ["sqlite://tw.db", "sqlite://./tw.db", "sqlite://"] {
        assert!(!fine("DATABASE_URL", relative), "{relative}");
    }
}

#[test]
fn what_is_not_utf_8_is_a_problem_and_never_another_value() {
    let load = |given: &[(&str, &[u8])]| {
        let env = |name: &str| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from_vec(value.to_vec())).or((name == "HOME").then(|| "/home/ann".into()))
        };
        Config::load_raw(&Flags::default(), env, |_| Err(io::ErrorKind::NotFound.into()), Reads::All)
    };
    assert!(load(&[("TREEWARDEN_LOG", b"debug")]).is_ok());
    let app: [(&str, &[u8]); 3] = [
        ("GITHUB_APP_ID", b"7"),
        ("GITHUB_APP_PRIVATE_KEY", KEY.as_bytes()),
        ("GITHUB_WEBHOOK_SECRET", b"\xff\xfe\xfd\xfc"),
    ];
    let problems = load(&app).unwrap_err().to_string();
    insta::assert_snapshot!(problems, @r"
    One setting is wrong; nothing was begun:
      - GITHUB_WEBHOOK_SECRET (from the environment): is not valid UTF-8; expected a value that is
    ");
    let agent: [(&str, &[u8]); 4] = [
        ("TREEWARDEN_AGENT_COMMAND", b"claude"),
        ("TREEWARDEN_AGENT_ENV", b"MODEL_KEY"),
        ("MODEL_KEY", b"k\xff"),
        ("TREEWARDEN_LISTEN", b"\xff"),
    ];
    let problems = load(&agent).unwrap_err();
    assert_eq!(
        problems.0.iter().map(|problem| &problem.setting).collect::<Vec<_>>(),
        ["MODEL_KEY", "TREEWARDEN_LISTEN"]
    );
}

#[test]
fn what_is_no_setting_and_where_secrets_stand_is_known() {
    let names = ["TREEWARDEN_LISTN", "TREEWARDEN_LISTEN", "PATH", "TREEWARDEN_PORT"].map(str::to_owned);
    assert_eq!(ignored(names.into_iter()), ["TREEWARDEN_LISTN", "TREEWARDEN_PORT"]);
    let secrets_in = |text: &str| {
        let file = ("/home/ann/.treewarden/treewarden.toml", text);
        load(&Flags::default(), &[], &[file]).unwrap().secrets_in.is_some()
    };
    assert!(!secrets_in("max_concurrent_runs = 2\ndatabase_url = 'postgres:///tw'"));
    assert!(secrets_in("database_url = 'postgres://tw:pw@db/tw'"));
    assert!(secrets_in("secret_key = '0123456789abcdef0123456789abcdef'"));
}

#[test]
fn proxies_are_for_a_github_elsewhere() {
    let env = [("https_proxy", "http://ann:pw@proxy:3128"), ("NO_PROXY", "localhost")];
    let config = from_env(&env).unwrap();
    let names: Vec<&str> = config.github.proxy.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["https_proxy", "NO_PROXY"]);
    assert_eq!(config.secrets().len(), 1, "a password in it is a secret");
    for local in ["http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost"] {
        let here = [env[0], env[1], ("GITHUB_API_URL", local), ("GITHUB_WEB_URL", local)];
        assert!(from_env(&here).unwrap().github.proxy.is_empty(), "{local}");
    }
}

#[test]
fn addresses_of_github_are_asked_for_by_their_own_examples() {
    let problems = from_env(&[("GITHUB_API_URL", "ghe"), ("GITHUB_WEB_URL", "ghe")]).unwrap_err().to_string();
    insta::assert_snapshot!(problems, @r#"
    2 settings are wrong; nothing was begun:
      - GITHUB_API_URL is "ghe" (from the environment): expected a URL like https://github.example.org/api/v3
      - GITHUB_WEB_URL is "ghe" (from the environment): expected a URL like https://github.example.org
    "#);
}

#[test]
fn an_agent_that_only_a_shell_would_find_is_refused_with_the_reason() {
    for command in ["~/bin/agent -p", "$HOME/bin/agent", "$AGENT"] {
        let problems = from_env(&[("TREEWARDEN_AGENT_COMMAND", command)]).unwrap_err().to_string();
        assert!(problems.ends_with("no shell reads it, so ~ and variables stand for nothing"), "{problems}");
    }
    let relative = from_env(&[("TREEWARDEN_AGENT_COMMAND", "bin/agent")]).unwrap_err().to_string();
    assert!(relative.ends_with("quotes balanced"), "{relative}");
}

#[test]
fn the_agent_gets_a_few_variables_of_the_service() {
    let env = [
        ("TREEWARDEN_AGENT_COMMAND", "claude -p --tools 'Bash, Edit'"),
        ("TREEWARDEN_AGENT_ENV", "MODEL_KEY, NOT_SET"),
        ("MODEL_KEY", "abcdefgh12345678"),
        // What lies in a worktree is never taken for the agent.
        ("PATH", ".:/bin::node_modules/.bin:/usr/bin"),
        ("DATABASE_URL", "postgres://tw:pw@db/tw"),
    ];
    let config = from_env(&env).unwrap();
    let agent = config.agent.clone().unwrap();
    assert_eq!(agent.argv, ["claude", "-p", "--tools", "Bash, Edit"]);
    let names: Vec<&str> = agent.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["PATH", "MODEL_KEY"]);
    assert_eq!(agent.env[0].1.expose_secret(), "/bin:/usr/bin");
    assert_eq!(agent.unset, ["NOT_SET"]);
    assert_eq!(secrets_of(&config), ["abcdefgh12345678", "postgres://tw:pw@db/tw"]);
    let shown = format!("{config:?}");
    assert!(!shown.contains("pw@db") && !shown.contains("abcdefgh"), "{shown}");
}

fn secrets_of(config: &Config) -> Vec<String> {
    config.secrets().iter().map(|secret| secret.expose_secret().to_owned()).collect()
}

#[test]
fn the_password_of_the_database_is_a_secret_wherever_it_stands() {
    for (url, secrets) in [
        ("postgres:///tw?host=/run/pg&user=tw&password=S3same%20open", &["S3same open"][..]),
        ("postgres://tw:S3same+%2Fopen@db/tw", &["S3same+%2Fopen", "S3same+/open"]),
        ("postgres://treewarden:treewarden@db/tw", &[]),
    ] {
        let config = from_env(&[("DATABASE_URL", url)]).unwrap();
        let expected: Vec<&str> = [url].into_iter().chain(secrets.iter().copied()).collect();
        assert_eq!(secrets_of(&config), expected, "{url}");
    }
    let file = ("/home/ann/.treewarden/treewarden.toml", "database_url = 'postgres:///tw?password=S3same-open'");
    assert!(load(&Flags::default(), &[], &[file]).unwrap().secrets_in.is_some());
    assert!(secrets_of(&from_env(&[("DATABASE_URL", "postgres:///tw?host=/run/pg")]).unwrap()).is_empty());
}

#[test]
fn a_broken_file_is_named_without_its_text() {
    let flags = Flags { config: Some(PathBuf::from("/etc/tw.toml")), ..Flags::default() };
    let problems = load(&flags, &[], &[]).unwrap_err().to_string();
    assert!(problems.contains("/etc/tw.toml: cannot be read"), "{problems}");
    let broken = "listen = '127.0.0.1:1'\ngithub_webhook_secret = 'hunter2hunter2\n";
    let problems = load(&flags, &[], &[("/etc/tw.toml", broken)]).unwrap_err().to_string();
    assert!(problems.contains("line 2") && !problems.contains("hunter2"), "{problems}");
}

#[test]
fn the_home_is_closed_to_others_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (home, base) = (dir.path().join("a/home"), dir.path().join("trees"));
    home::prepare(&home, &base).unwrap();
    home::prepare(&home, &base).unwrap();
    assert_eq!((mode(&home), mode(&home.join("runs")), base.is_dir()), (0o700, 0o700, true));
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = home::prepare(&home, &base).unwrap_err().to_string();
    assert!(refused.ends_with(&format!("Run: chmod 700 {}", home.display())), "{refused}");
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    home::prepare(&empty, &base).unwrap();
    assert_eq!(mode(&empty), 0o700);
}

#[test]
fn looking_at_the_home_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let home = dir.path().join("a/home");
    let look = || home::look(&home, &home.join("worktrees"));
    assert_eq!(look().unwrap(), HomeState::ToBeMade);
    assert!(!dir.path().join("a").exists());
    home::prepare(&home, &home.join("worktrees")).unwrap();
    assert_eq!(look().unwrap(), HomeState::Ready);
    set(&home, 0o755);
    assert!(look().unwrap_err().to_string().contains("chmod 700"));
    assert_eq!(mode(&home), 0o755);
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    set(&empty, 0o755);
    assert_eq!(home::look(&empty, &empty).unwrap(), HomeState::ToBeMade);
    assert_eq!(mode(&empty), 0o755);
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert!(matches!(home::look(&dir.path().join("file/home"), &home), Err(HomeError::NotADirectory { .. })));
    let elsewhere = dir.path().join("file/trees");
    for refusal in [home::look(&home, &elsewhere).unwrap_err(), home::prepare(&empty, &elsewhere).unwrap_err()] {
        assert!(refusal.to_string().contains("WORKTREE_BASE"), "{refusal}");
    }
}

#[test]
fn a_directory_of_another_purpose_is_never_closed() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        let refusal = home::prepare(path, &dir.path().join("trees")).unwrap_err().to_string();
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o7777, mode);
        assert!(refusal.contains("directory of Treewarden's own") && !refusal.contains("chmod"), "{refusal}");
        refusal
    };
    let shared = dir.path().join("tmp");
    std::fs::create_dir(&shared).unwrap();
    assert!(refusal(&shared, 0o1777).contains("shared by everybody"));
    let other = dir.path().join("srv");
    std::fs::create_dir_all(other.join("www")).unwrap();
    assert!(refusal(&other, 0o755).contains("holds other things"));
    // Another home's; one that was begun in there goes on.
    let trees = dir.path().join("of another");
    std::fs::create_dir_all(trees.join("octo/hello")).unwrap();
    std::fs::write(trees.join(".treewarden"), "its mark").unwrap();
    for place in [&trees, &trees.join("octo")] {
        assert!(refusal(place, 0o700).contains("is a directory of worktrees"));
    }
    std::fs::create_dir(trees.join("repos")).unwrap();
    home::prepare(&trees, &dir.path().join("trees")).unwrap();
}

#[test]
fn a_directory_of_worktrees_is_one_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for made in ["srv/home/repos", "ann", "open", "shared", "work/.git", "other/www", "disk/lost+found"] {
        std::fs::create_dir_all(at(made)).unwrap();
    }
    std::fs::create_dir_all(at("old/octo/hello/x")).unwrap();
    std::fs::write(at("old/octo/hello/x/.git"), "gitdir: elsewhere").unwrap();
    for (name, mode) in [("srv/home", 0o700), ("open", 0o775), ("shared", 0o1777)] {
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::os::unix::fs::symlink(at("srv"), at("link")).unwrap();
    let home = at("srv/home").display().to_string();
    let look = |base: &str| {
        let (ann, base) = (at("ann").display().to_string(), at(base).display().to_string());
        let env = [("HOME", &*ann), ("TREEWARDEN_HOME", &*home), ("WORKTREE_BASE", &*base)];
        let looked = from_env(&env).unwrap().look_at_home();
        looked.map_err(|error| error.to_string().replace(dir.path().to_str().unwrap(), ""))
    };
    for (base, why) in [
        ("srv/home", "it is the home of Treewarden itself"),
        ("srv", "the home of Treewarden lies in it"),
        ("link", "the home of Treewarden lies in it"),
        ("srv/home/repos", "that part of the home is kept for something else"),
        ("srv/home/trash/trees", "that part of the home is kept for something else"),
        ("ann", "it is the user's own"),
        ("work", "it is a working copy of a repository"),
        ("other", "it holds other things, and no worktree"),
        ("shared", "it is shared with others on this machine"),
        ("open", "others on this machine can change what is in it (mode 775)"),
    ] {
        let told = look(base).unwrap_err();
        assert!(told.contains(why) && told.contains("Nothing was changed"), "{base}: {told}");
    }
    // New, empty, a new file system's, earlier worktrees, or in the home beside what is kept there.
    for base in ["new/trees", "shared/trees", "srv/trees", "disk", "old", "srv/home/worktrees", "srv/home/trees"] {
        assert_eq!(look(base), Ok(HomeState::Ready), "{base}");
    }
    // Begun before this was looked at; what others can change is another thing.
    for base in ["srv", "other", "shared"] {
        std::fs::write(at(base).join(".treewarden"), "its mark").unwrap();
        assert_eq!(look(base).is_ok(), base != "shared", "{base}");
    }
}

#[test]
fn tables_name_every_setting() {
    for setting in SETTINGS {
        assert!(markdown_table().contains(&format!("| `{}` |", setting.variable)));
        assert!(plain_table().contains(&format!("  {}", setting.variable)));
    }
    assert!(!plain_table().contains(['`', '*']) && !plain_table().contains("]("), "{}", plain_table());
    let keys: BTreeSet<String> = SETTINGS.iter().map(|setting| setting.key()).collect();
    assert_eq!(keys.len(), SETTINGS.len());
}

#[test]
fn what_the_agent_is_given_by_name_is_redacted_unless_it_is_plainly_no_secret() {
    let env = [
        ("TREEWARDEN_AGENT_COMMAND", "claude"),
        (
            "TREEWARDEN_AGENT_ENV",
            "MODEL_AUTH, HOOK, BASE_URL, HOOK_URL, MODEL_CERTS, ROUNDS, EXTRA_FLAGS, SHORT, MODEL_KEY_FILE",
        ),
        ("PATH", "/usr/local/bin:/usr/bin"),
        ("MODEL_AUTH", "bearer-abcdef123456"),
        ("HOOK", "https://ann:pw@hooks.example.org/"),
        ("BASE_URL", "https://models.example.org/v1"),
        ("HOOK_URL", "https://hooks.example.org/T0123456789abcdef/x"),
        ("MODEL_CERTS", "/etc/ssl/certs"),
        ("ROUNDS", "1000000000"),
        ("EXTRA_FLAGS", "--verbose"),
        ("SHORT", "abc"),
        ("MODEL_KEY_FILE", "/etc/models/key"),
    ];
    let config = from_env(&env).unwrap();
    assert_eq!(secrets_of(&config), [env[3].1, env[4].1, env[6].1, env[11].1]);
}

#[test]
fn an_agent_is_given_no_token_of_github() {
    for name in
        ["GITHUB_TOKEN", "GH_TOKEN", "gh_token", "GITHUB_APP_PRIVATE_KEY", "GITHUB_WEBHOOK_SECRET", "DATABASE_URL"]
    {
        let env = [("TREEWARDEN_AGENT_COMMAND", "claude"), ("TREEWARDEN_AGENT_ENV", name), (name, "x")];
        assert!(from_env(&env).is_err(), "{name}");
    }
}

#[test]
fn a_limit_is_one_to_ten_thousand_in_the_environment_and_in_the_file() {
    for (value, right) in
        [("1", true), ("10000", true), ("0", false), ("10001", false), ("1000000", false), ("-1", false)]
    {
        let files = [("/home/ann/.treewarden/treewarden.toml", format!("max_worktrees_per_codebase = {value}"))];
        let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
        for loaded in [from_env(&[("MAX_WORKTREES_PER_CODEBASE", value)]), load(&Flags::default(), &[], &files)] {
            match loaded {
                Ok(config) => assert!(right && config.max_worktrees.to_string() == value, "{value}"),
                Err(problems) => {
                    let problems = problems.to_string();
                    assert!(!right && problems.contains("a whole number from 1 to 10000"), "{value}: {problems}");
                }
            }
        }
    }
}

#[test]
fn marks_on_the_disk_are_sizes_in_an_order() {
    let marks = |soft: &str, hard: &str| {
        let env = [("DISK_SOFT_MARK", soft), ("DISK_HARD_MARK", hard)];
        from_env(&env).map(|config| config.disk_marks).map_err(|problems| problems.to_string())
    };
    let given = |soft, hard| Ok(DiskMarks { soft, hard });
    assert_eq!(marks(" ", ""), given(None, None));
    assert_eq!(marks("20GB", "1.5 TB"), given(Some(20_000_000_000), Some(1_500_000_000_000)));
    assert_eq!(marks("800 MiB", "800mib"), given(Some(800 << 20), Some(800 << 20)));
    for wrong in ["20", "GB", "20XB", "-1GB", "1.2.3GB", "1kB", "9999TB", "20 GB please"] {
        assert!(marks(wrong, "").unwrap_err().contains("DISK_SOFT_MARK"), "{wrong}");
    }
    insta::assert_snapshot!(marks("21GB", "20GB").unwrap_err(), @r#"
    One setting is wrong; nothing was begun:
      - DISK_SOFT_MARK is "21GB" (from the environment): expected no more than DISK_HARD_MARK
    "#);
}

#[test]
fn caches_are_reclaimed_only_where_somebody_says_so() {
    let after = |text: &str| from_env(&[("TREEWARDEN_RECLAIM_AFTER", text)]).map(|config| config.reclaim_after);
    assert_eq!(from_env(&[]).unwrap().reclaim_after, None);
    assert_eq!(after("off").unwrap(), None);
    assert_eq!(after("3d").unwrap(), Some(Duration::from_secs(3 * 86_400)));
    for wrong in ["on", "3", "10m", "0s"] {
        assert!(after(wrong).unwrap_err().to_string().contains("expected off, or a time"), "{wrong}");
    }
}
