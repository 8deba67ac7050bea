//! Each fault has one line that a shell, or a browser, takes as it is, in a shell of one's own and beside systemd.

use super::*;
use crate::config::Flags;
use std::collections::HashMap;

const KEY_PEM: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n";

fn load(env: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Config, crate::config::ConfigProblems> {
    let env: HashMap<&str, &str> = [("HOME", "/home/ann")].into_iter().chain(env.iter().copied()).collect();
    let files: HashMap<&str, &str> = files.iter().copied().collect();
    let read = |path: &Path| {
        let text = files.get(path.to_str().unwrap()).map(|text| (*text).to_owned());
        text.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    Config::load(&Flags::default(), |name| env.get(name).map(|value| (*value).to_owned()), read)
}

fn config() -> Config {
    load(&[], &[]).unwrap()
}

/// Where settings are made in a shell, and where systemd has them from a file that is there.
fn places(flags: &Flags) -> [Asked; 2] {
    ["/no such file", "/etc/passwd"].map(|file| Asked::beside(flags, Path::new(file), true))
}

fn shell() -> Asked {
    Asked::beside(&Flags::default(), Path::new("/no such file"), true)
}

fn check(mend: &Mend) {
    const PROGRAMS: [&str; 18] = [
        "export",
        "unset",
        "chmod",
        "mkdir",
        "mv",
        "sudo",
        "sudoedit",
        "treewarden",
        "tw",
        "cp",
        "install",
        "printf",
        "psql",
        "ssh",
        "sqlite3",
        "sleep",
        "tail",
        "${EDITOR:-vi}",
    ];
    match mend {
        Mend::Run(line) | Mend::Aside { line, .. } => {
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

/// What is set for a service counts there only once it was started again.
fn check_service(mend: &Mend) {
    check(mend);
    assert!(!mend.line().starts_with("export ") && !mend.line().starts_with("treewarden "), "{mend:?}");
}

#[test]
fn each_wrong_setting_is_mended_where_it_stands() {
    let mends = |env: &[(&str, &str)], files: &[(&str, &str)]| {
        let problems = load(env, files).unwrap_err();
        let [shell, service] = places(&Flags::default()).map(|asked| {
            let mends: Vec<Mend> = problems.0.iter().map(|one| problem(one, &asked)).collect();
            mends.iter().for_each(if asked.is_service() { check_service } else { check });
            mends.into_iter().map(|mend| mend.line().to_owned()).collect::<Vec<_>>()
        });
        [shell, service]
    };
    let file = ("/home/ann/.treewarden/treewarden.toml", "listn = 'x'");
    let [shell, service] = mends(&[("MAX_CONCURRENT_RUNS", "many"), ("WORKTREE_BASE", "trees")], &[file]);
    let edit = "${EDITOR:-vi} /home/ann/.treewarden/treewarden.toml";
    assert_eq!(shell, [edit, "unset WORKTREE_BASE", "unset MAX_CONCURRENT_RUNS"]);
    assert_eq!(
        service,
        [
            "sudoedit /home/ann/.treewarden/treewarden.toml && sudo systemctl restart treewarden",
            "sudo sed -i '/^WORKTREE_BASE=/d' /etc/passwd && sudo systemctl restart treewarden",
            "sudo sed -i '/^MAX_CONCURRENT_RUNS=/d' /etc/passwd && sudo systemctl restart treewarden",
        ]
    );
    let [shell, _] = mends(&[("DATABASE_URL", "mysql://db/tw"), ("TREEWARDEN_PUBLIC_URL", "tw.acme")], &[]);
    assert_eq!(shell, ["unset DATABASE_URL", "export TREEWARDEN_PUBLIC_URL='https://<host>'"]);
    // One address without the other would be the next fault.
    let both = |host: &str| format!("export GITHUB_API_URL={host}/api/v3 GITHUB_WEB_URL={host}");
    let [shell, _] = mends(&[("GITHUB_API_URL", "http://ghe.acme/api"), ("GITHUB_WEB_URL", "https://ghe.acme")], &[]);
    assert_eq!(shell, [both("https://ghe.acme")]);
    let [shell, _] = mends(&[("GITHUB_WEB_URL", "https://ghe.acme")], &[]);
    let unknown = "export 'GITHUB_API_URL=https://<host>/api/v3' 'GITHUB_WEB_URL=https://<host>'";
    assert_eq!(shlex::split(&shell[0]), shlex::split(unknown));
    // The file of the key, not the setting that names it.
    let app = [("GITHUB_APP_ID", "7"), ("GITHUB_WEBHOOK_SECRET", "a secret of the test")];
    let named = [app[0], app[1], ("GITHUB_APP_PRIVATE_KEY_FILE", "/etc/app.pem")];
    for files in [&[][..], &[("/etc/app.pem", "no key")]] {
        let [shell, service] = mends(&named, files);
        assert_eq!(shell, ["install -b -m 600 '<the .pem file that GitHub gave>' /etc/app.pem"]);
        assert!(service[0].starts_with("sudo install -b -m 600 -o "), "{service:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().display().to_string();
    let [shell, _] = mends(&[app[0], app[1], ("GITHUB_APP_PRIVATE_KEY_FILE", &folder)], &[]);
    assert_eq!(shell, [format!("export GITHUB_APP_PRIVATE_KEY_FILE='{folder}/<the .pem file of the App>'")]);
    let twice = [named[0], named[1], named[2], ("GITHUB_APP_PRIVATE_KEY", KEY_PEM)];
    assert_eq!(mends(&twice, &[("/etc/app.pem", KEY_PEM)])[0], ["unset GITHUB_APP_PRIVATE_KEY_FILE"]);
    let given = [app[0], app[1], ("GITHUB_APP_PRIVATE_KEY", "no key")];
    let [shell, service] = mends(&given, &[]);
    assert!(shell[0].starts_with("export GITHUB_APP_PRIVATE_KEY=\"$(cat "), "{shell:?}");
    assert!(service[0].starts_with("sudoedit /etc/passwd"), "{service:?}");
    let [shell, _] = mends(&app, &[]);
    assert_eq!(shell, ["export GITHUB_APP_PRIVATE_KEY_FILE='<the .pem file of the App>'"]);
    // The flag wins over the variable, and other flags stay.
    let root = Flags { home: Some("/".into()), config: Some("/etc/tw.toml".into()), ..Flags::default() };
    let wrong = Config::load(&root, |_| None, |_| Ok(String::new())).unwrap_err();
    let mend = problem(&wrong.0[0], &Asked::beside(&root, Path::new("/no such file"), true));
    assert_eq!(mend.line(), "treewarden doctor --config /etc/tw.toml --home ~/.treewarden");
}

#[test]
fn systemd_reads_what_was_meant() {
    let [_, service] = places(&Flags::default());
    let line = |value: &str| {
        let mend = service.set(&[("TREEWARDEN_AGENT_COMMAND", value)]);
        shlex::split(mend.line()).unwrap()[2].clone()
    };
    assert_eq!(line("claude -p 'a b'"), "TREEWARDEN_AGENT_COMMAND=claude -p 'a b'");
    assert_eq!(line("'/opt/my agent' -p"), "TREEWARDEN_AGENT_COMMAND=\"'/opt/my agent' -p\"");
    assert_eq!(line(r#"a \"#), r#"TREEWARDEN_AGENT_COMMAND="a \\""#);
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
            HomeError::NotReadable { path: path.clone(), error: denied() },
            HomeError::OfAnother { path: path.clone(), owner: 0 },
            HomeError::OfAnother { path: path.clone(), owner: 7 },
            HomeError::NotAFile { path: path.clone() },
            HomeError::OfWorktrees { path: path.clone() },
            HomeError::NotItsOwn { path: path.clone(), why: "it is the user's own" },
            HomeError::BaseOpen { path: path.clone(), mode: 0o775 },
            HomeError::NotADirectory { path },
        ]
    };
    let flagged = Flags { home: Some(place.clone()), ..Flags::default() };
    for asked in places(&Flags::default()).into_iter().chain(places(&flagged)) {
        for error in faults() {
            check(&home(&error, &config, &asked));
            check(&home(&HomeError::WorktreeBase(Box::new(error)), &config, &asked));
        }
    }
    let not_ours = &faults()[2];
    let line = |flags: &Flags| home(not_ours, &config, &places(flags)[0]).line().to_owned();
    assert_eq!(line(&Flags::default()), "export TREEWARDEN_HOME=/home/ann/.treewarden/treewarden-home");
    assert_eq!(line(&flagged), "treewarden doctor --home /home/ann/.treewarden/treewarden-home", "the flag wins");
    // Another user's is left to that user; root's, to what was there before.
    let line = |path: &Path, owner| {
        let error = HomeError::OfAnother { path: path.to_owned(), owner };
        home(&error, &config, &shell()).line().to_owned()
    };
    assert_eq!(line(&place, 7), "sudo -E -u '#7' treewarden doctor");
    fs::create_dir(&place).unwrap();
    assert_eq!(line(&place, 0), format!("sudo install -d -m 700 -o {} {}", user(), quoted(&place)));
    fs::write(place.join("file"), "").unwrap();
    assert!(line(&place, 0).ends_with(&format!("export TREEWARDEN_HOME={}/treewarden-home", dir.path().display())));
    for name in PREPARED {
        fs::create_dir(place.join(name)).unwrap();
    }
    assert_eq!(line(&place, 0), format!("sudo chown -hR {} {}", user(), quoted(&place)));
    // What lies in the home stays the home's, and the home where it is.
    let config = load(&[("HOME", dir.path().to_str().unwrap())], &[]).unwrap();
    let repos = config.home.join("repos");
    let file = HomeError::NotADirectory { path: repos.clone() };
    let aside = format!("mv -T --backup=t {} {}.aside", repos.display(), repos.display());
    assert_eq!(home(&file, &config, &shell()).line(), aside);
    let other = HomeError::NotWritable { path: repos.clone(), error: denied() };
    assert_eq!(home(&other, &config, &shell()).line(), format!("sudo chown -hR {} {}", user(), repos.display()));
    // What lies above belongs to everybody.
    let above = HomeError::NotWritable { path: "/no such place".into(), error: denied() };
    let made = format!("sudo install -d -m 700 -o {} {}", user(), config.home.display());
    assert_eq!(home(&above, &config, &shell()).line(), made);
}

/// Whoever runs as this user may have laid it: an agent, asked by whoever may write comments.
#[test]
fn root_is_asked_for_nothing_that_a_link_leads_to() {
    let dir = tempfile::tempdir().unwrap();
    let config = load(&[("HOME", dir.path().to_str().unwrap())], &[]).unwrap();
    fs::create_dir(&config.home).unwrap();
    let target = match user() {
        0 => dir.path().join("of another"),
        _ => PathBuf::from("/etc"),
    };
    let (runs, file) = (config.home.join("runs"), config.home.join("treewarden.db"));
    let links = [(&runs, target.clone()), (&file, target.join("passwd"))];
    if user() == 0 {
        let others = |path: &Path| std::os::unix::fs::chown(path, Some(7), None).unwrap();
        fs::create_dir(&target).unwrap();
        fs::write(target.join("passwd"), "").unwrap();
        others(&target);
        others(&target.join("passwd"));
    }
    for (link, to) in &links {
        std::os::unix::fs::symlink(to, link).unwrap();
        if user() == 0 {
            std::os::unix::fs::lchown(link, Some(7), None).unwrap();
        }
    }
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    let unreadable = StoreError::Unavailable("why".into());
    for asked in places(&Flags::default()) {
        let mut mends = vec![(&file, owned(&file)), (&file, restored(&file, &asked))];
        for path in [&runs, &runs.join("1")] {
            mends.extend([
                (&runs, home(&HomeError::NotWritable { path: path.clone(), error: denied() }, &config, &asked)),
                (&runs, home(&HomeError::NotMade { path: path.clone(), error: denied() }, &config, &asked)),
                (&runs, writable(path, &asked)),
                (&runs, given(path)),
                (&runs, made(path)),
            ]);
        }
        mends.push((&file, database(&unreadable, &config, Some(&file), &asked)));
        for (number, (link, mend)) in mends.iter().enumerate() {
            let ran_by_its_owner = number == 1 && !asked.is_service();
            if ran_by_its_owner {
                continue;
            }
            assert_eq!(mend.line(), format!("mv -T --backup=t {0} {0}.aside", link.display()), "{number}");
            let Mend::Aside { seen, .. } = mend else { panic!("{number}: {mend:?}") };
            assert!(seen.contains(&format!("{} is a link to {}", link.display(), target.display())), "{seen}");
        }
    }
    // What root has laid, root may follow.
    if user() == 0 {
        std::os::unix::fs::lchown(&runs, Some(0), None).unwrap();
        assert!(given(&runs).line().starts_with("sudo chown -hR "));
    }
}

/// One line of it would have root open `/etc` to whoever wrote it.
#[test]
fn what_only_a_settings_file_of_this_users_names_is_not_roots_to_give() {
    let dir = tempfile::tempdir().unwrap();
    let home_of_user = dir.path().to_str().unwrap();
    let others = match user() {
        0 => dir.path().join("of another"),
        _ => PathBuf::from("/etc"),
    };
    let file = others.join("passwd");
    if user() == 0 {
        fs::create_dir(&others).unwrap();
        fs::write(&file, "").unwrap();
        std::os::unix::fs::chown(&others, Some(7), None).unwrap();
        std::os::unix::fs::chown(&file, Some(7), None).unwrap();
    }
    let settings = dir.path().join(".treewarden/treewarden.toml");
    let (url, trees) = (format!("sqlite://{}/tw.db", others.display()), others.join("trees"));
    let text = format!("database_url = '{url}'\nworktree_base = '{}'\n", trees.display());
    let config = load(&[("HOME", home_of_user)], &[(settings.to_str().unwrap(), &text)]).unwrap();
    let denied = io::Error::from(io::ErrorKind::PermissionDenied);
    let base = HomeError::WorktreeBase(Box::new(HomeError::NotWritable { path: others.clone(), error: denied }));
    let asked = shell();
    let key = Problem {
        setting: "github_app_private_key_file".to_owned(),
        origin: Some(Origin::File(settings.clone())),
        given: None,
        expected: "cannot be read".to_owned(),
        fault: Fault::File(file.clone()),
    };
    let mut mends = vec![database_writable(&others, &config, &others.join("tw.db"), &asked), problem(&key, &asked)];
    // Root could do all of that as well.
    if user() != 0 {
        mends.extend([home(&base, &config, &asked), backup(&config, Some(&others.join("tw.db")), &asked)]);
    }
    for (number, mend) in mends.iter().enumerate() {
        assert_eq!(mend.line(), format!("${{EDITOR:-vi}} {}", settings.display()), "{number}");
    }
    let climbing = config.home.join("../..").join(others.strip_prefix("/").unwrap());
    assert!(!is_in_home(&climbing, &config) && is_in_home(&config.home.join("runs"), &config));
    // What a person has said is looked at more kindly, and still nobody else's directory is opened.
    let config = load(&[("HOME", home_of_user), ("DATABASE_URL", &url)], &[]).unwrap();
    let mend = database_writable(&others, &config, &others.join("tw.db"), &asked);
    assert_eq!(mend.line(), "export DATABASE_URL='sqlite:///<a directory of its own>/treewarden.db'");
}

#[test]
fn worktrees_out_of_sight_are_brought_back() {
    let (config, dir) = (config(), tempfile::tempdir().unwrap());
    let base = dir.path().join("base");
    let lost = IsolationError::OutOfSight { base: base.clone(), memory: dir.path().join("worktrees.mark") };
    for asked in places(&Flags::default()) {
        let mend = worktrees(&lost, &base, &config, &asked);
        check(&mend);
        assert!(mend.line().ends_with(&format!("cp -a '<where they are now>/.' {}", base.display())), "{mend:?}");
    }
    let memory = dir.path().join("worktrees.mark");
    let unmarked = IsolationError::Unmarked { base: base.clone(), memory: memory.clone() };
    for asked in places(&Flags::default()) {
        let mend = worktrees(&unmarked, &base, &config, &asked);
        check(&mend);
        assert!(mend.line().ends_with(&format!("mv -T --backup=t {0} {0}.aside", memory.display())), "{mend:?}");
    }
    let left = IsolationError::LeftBehind { before: "/srv/trees".into(), base: base.clone() };
    assert_eq!(worktrees(&left, &base, &config, &shell()).line(), "export WORKTREE_BASE=/srv/trees");
    let taken = IsolationError::MarkTaken("/home/ann".into());
    assert_eq!(worktrees(&taken, &base, &config, &shell()).line(), "export WORKTREE_BASE=/home/ann/worktrees");
    fs::create_dir(&base).unwrap();
    fs::write(base.join(".treewarden"), "of another home").unwrap();
    assert!(worktrees(&lost, &base, &config, &shell()).line().starts_with("export WORKTREE_BASE='<"));

    let apart = |shared: &str| apart(Path::new(shared), &config, &config.home, &shell()).line().to_owned();
    assert_eq!(apart("/srv/trees"), "export WORKTREE_BASE=/home/ann/.treewarden/trees");
    assert_eq!(apart("/home/ann"), "export TREEWARDEN_HOME=/home/treewarden-home");
}

#[test]
fn each_fault_of_the_database_has_its_command_and_none_makes_another() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tw.db");
    let text = || "why".to_owned();
    let faults = [
        StoreError::Url(text()),
        StoreError::Unavailable(text()),
        StoreError::Busy,
        StoreError::DiskFull,
        StoreError::NewerSchema { found: 2, known: 1 },
        StoreError::OtherProgram(vec![text()]),
        StoreError::Migration(text()),
        StoreError::Corrupt { what: text(), why: text() },
        StoreError::Conflict(text()),
        StoreError::Full,
        StoreError::Failed(text()),
        StoreError::Incomplete(vec![text()]),
        StoreError::NoTables { schema: "public".to_owned(), user: "tw".to_owned() },
        StoreError::InUse(text()),
        StoreError::Lacks { what: Lacking::Database, why: text() },
        StoreError::Lacks { what: Lacking::Role, why: text() },
        StoreError::Lacks { what: Lacking::RightToLogIn, why: text() },
    ];
    let at = |url: &str| load(&[("DATABASE_URL", url)], &[]).unwrap();
    let config = at("postgres://tw:hunter2@127.0.0.1:1/tw");
    for asked in places(&Flags::default()) {
        for error in &faults {
            for file in [None, Some(file.as_path())] {
                let mend = database(error, &config, file, &asked);
                check(&mend);
                // What is no database, or no installation's, is none to keep.
                let may_be_another =
                    matches!(error, StoreError::OtherProgram(_) | StoreError::Url(_)) && file.is_some();
                assert!(!mend.line().contains("hunter2"), "{mend:?}");
                assert!(may_be_another || !mend.line().contains("sqlite://"), "{mend:?}");
            }
        }
    }
    let other = |config: &Config, file| database(&faults[5], config, file, &shell()).line().to_owned();
    assert_eq!(
        other(&config, None),
        "psql postgres://tw@127.0.0.1:1/tw -c 'CREATE DATABASE treewarden' && \
         export DATABASE_URL='postgres://tw:<password>@127.0.0.1:1/treewarden'"
    );
    assert_eq!(other(&config, Some(&file)), "unset DATABASE_URL");
    let own = config.home.join("treewarden.db");
    assert!(other(&config, Some(&own)).ends_with("/treewarden-own.db"));
    let lacking = |what| {
        let error = StoreError::Lacks { what, why: text() };
        database(&error, &config, None, &shell()).line().to_owned()
    };
    let psql = "sudo -u postgres psql -p 1 -d postgres -c";
    assert_eq!(lacking(Lacking::Database), format!(r#"{psql} 'CREATE DATABASE "tw" OWNER "tw"'"#));
    assert_eq!(lacking(Lacking::RightToLogIn), format!(r#"{psql} 'ALTER ROLE "tw" LOGIN'"#));
    let role = lacking(Lacking::Role);
    assert!(role.contains("CREATE ROLE") && role.contains("LOGIN PASSWORD '<password>'"), "{role}");
    let folder = database(&faults[0], &config, Some(dir.path()), &shell());
    assert_eq!(folder.line(), format!("export DATABASE_URL=sqlite://{}/treewarden.db", dir.path().display()));
    // Somebody else's file is neither moved nor given away; what was a database is kept beside its backup.
    for (error, beginning, moved) in [
        (7, "root:x:0:0", false),
        (1, "root:x:0:0", false),
        (7, "SQLite format 3\0", true),
        (11, "SQLite format 3\0", true),
    ] {
        fs::write(&file, format!("{beginning}, and what comes after it")).unwrap();
        let mend = database(&faults[error], &config, Some(&file), &shell()).line().to_owned();
        assert!(if moved { mend.starts_with("mkdir ") } else { mend == "unset DATABASE_URL" }, "{mend}");
    }
    for process in [Some(7), None] {
        check(&held(Holder { process }, &shell()));
    }
    // It works wherever the address stands.
    let restored = database(&faults[7], &config, None, &shell());
    assert_eq!(restored.line(), "psql postgres://tw@127.0.0.1:1/tw -f '<its backup>'");
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://tw@{}/tw", there.local_addr().unwrap());
    let refused = database(&faults[1], &at(&url), None, &shell());
    assert!(refused.line().starts_with("export DATABASE_URL='postgres://tw:<password>@127"), "it answers: {refused:?}");
    let file = ("/home/ann/.treewarden/treewarden.toml", &*format!("database_url = '{url}'"));
    let refused = database(&faults[1], &load(&[], &[file]).unwrap(), None, &shell());
    assert_eq!(refused.line(), "${EDITOR:-vi} /home/ann/.treewarden/treewarden.toml");
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
    let app = [("GITHUB_APP_ID", "7"), ("GITHUB_APP_PRIVATE_KEY_FILE", "/etc/app.pem"), ("GITHUB_WEBHOOK_SECRET", "s")];
    let ghe = [("GITHUB_API_URL", "https://ghe.example/api/v3"), ("GITHUB_WEB_URL", "https://ghe.example")];
    let files = [("/etc/app.pem", KEY_PEM)];
    for env in [app.to_vec(), [&app[..], &ghe].concat()] {
        let config = load(&env, &files).unwrap();
        let app = config.github.app.as_ref().unwrap();
        for asked in places(&Flags::default()) {
            for error in &faults {
                let mend = github(error, &config, app, &asked);
                if asked.is_service() { check_service(&mend) } else { check(&mend) }
            }
            check(&webhook_secret(&config, &asked));
        }
        let key = github(&faults[9], &config, app, &shell());
        assert!(key.line().starts_with("install -b ") && key.line().ends_with(" /etc/app.pem"), "{key:?}");
    }
}

#[test]
fn the_rest_has_its_command() {
    let flags = Flags { config: Some("/etc/t w.toml".into()), ..Flags::default() };
    let [here, service] = places(&flags);
    assert_eq!(here.again(), "treewarden doctor --config '/etc/t w.toml'");
    assert_eq!(service.again(), "tw doctor --config '/etc/t w.toml'");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let wanted = Listen { host: "127.0.0.1".to_owned(), port: taken.port() };
    for asked in [here, service] {
        let mend = address(&wanted, &asked);
        check(&mend);
        assert!(!mend.line().contains(&wanted.to_string()), "{mend:?}");
    }
    for (program, found) in [("claude", "/<folder>/claude"), ("/opt/my agent", "/<folder>/my agent")] {
        let agent = AgentConfig { argv: vec![program.into(), "-p".into(), "a b".into()], env: vec![], unset: vec![] };
        let mend = agent_program(&agent, &config(), &shell());
        check(&mend);
        let value = shlex::split(mend.line()).unwrap().pop().unwrap();
        let command = value.strip_prefix("TREEWARDEN_AGENT_COMMAND=").unwrap();
        assert_eq!(shlex::split(command).unwrap(), [found, "-p", "a b"]);
    }
}
