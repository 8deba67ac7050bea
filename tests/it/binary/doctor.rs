//! What the doctor says, and that it only looks.

use super::*;
use crate::support::namespace::{may_mount, unshare};
use crate::support::postgres::Database;
use sqlx::{Connection, Executor, SqliteConnection, sqlite::SqliteConnectOptions};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

/// What is wrong, as `(what, seen, mend)`.
pub(super) async fn complaints(mut command: Command) -> Vec<(String, String, String)> {
    let output = output_of(command.arg("--json")).await;
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let text = |finding: &serde_json::Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    let wrong = findings.iter().filter(|finding| finding["fine"] == false);
    let wrong: Vec<_> = wrong.map(|one| (text(one, "what"), text(one, "seen"), text(one, "mend"))).collect();
    assert_eq!(output.status.success(), wrong.is_empty(), "{output:?}");
    wrong
}

/// Every file and directory with its mode and size.
fn tree(root: &Path) -> BTreeMap<String, (u32, u64)> {
    let mut found = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(path) = rest.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let size = if metadata.is_dir() { 0 } else { metadata.len() };
        found.insert(path.display().to_string(), (metadata.permissions().mode(), size));
        if metadata.is_dir() {
            rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

#[tokio::test]
async fn it_only_looks() {
    let installation = Installation::new().await;
    let home = installation.dir.path().join("home");
    let before = installation.run(&["doctor"]).await;
    let lines = text(&before.stdout);
    assert!(before.status.success() && lines.lines().all(|line| line.starts_with('✔')), "{lines}");
    for words in [&*format!("this is the App @{}", installation.standin.app_slug()), "first start", "installed on octo"]
    {
        assert!(lines.contains(words), "{words} in {lines}");
    }
    assert!(!home.exists());

    assert!(installation.run(&["migrate"]).await.status.success());
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    let seen = tree(&home);
    let open = complaints(installation.command(&["doctor"])).await;
    assert_eq!(tree(&home), seen);
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!((&*open[0].0, &*open[0].2), ("home", &*format!("chmod 700 {}", home.display())));
}

#[tokio::test]
async fn a_database_out_of_reach_is_mended_and_never_replaced() {
    let installation = Installation::new().await;
    let dir = installation.dir.path();
    let complaint = async |url: &str| {
        let mut command = installation.command(&["doctor"]);
        command.env("DATABASE_URL", url);
        let mut wrong = complaints(command).await;
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        let (what, seen, mend) = wrong.remove(0);
        assert!(what == "database" && !mend.contains("DATABASE_URL=") && !seen.contains("hunter2"), "{seen}: {mend}");
        mend
    };
    let mend = complaint("postgres://tw:hunter2@127.0.0.1:1/tw").await;
    assert!(mend == "sudo systemctl start postgresql && ss -ltn", "{mend}");
    let folder = dir.join("no such folder");
    let mend = complaint(&format!("sqlite://{}/tw.db", folder.display())).await;
    assert_eq!(mend, format!("mkdir -p -m 700 '{}'", folder.display()));
    fs::write(dir.join("tw.db"), "SQLite format 3\0 and nothing of a database, though long enough to be one").unwrap();
    let mend = complaint(&format!("sqlite://{}/tw.db", dir.display())).await;
    // What is spoilt is kept, with all that would be played over the backup.
    fs::write(dir.join("tw.db-wal"), "spoilt, too").unwrap();
    fs::write(dir.join("backup"), "whole").unwrap();
    let mend = mend.replace("<its backup>", dir.join("backup").to_str().unwrap());
    let pasted = std::process::Command::new("sh").args(["-c", &mend]).output().unwrap();
    assert!(pasted.status.success() && pasted.stderr.is_empty(), "{mend}: {pasted:?}");
    assert_eq!(fs::read_to_string(dir.join("tw.db")).unwrap(), "whole", "{mend}");
    assert_eq!(fs::metadata(dir.join("tw.db")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!dir.join("tw.db-wal").exists() && dir.join("tw.db.spoilt/tw.db-wal").exists(), "{mend}");
    assert!(fs::read_to_string(dir.join("tw.db.spoilt/tw.db")).unwrap().starts_with("SQLite format"), "{mend}");

    assert!(installation.run(&["migrate"]).await.status.success());
    let file = dir.join("home/treewarden.db");
    let mut ahead = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&file)).await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (9000, 'from the future', true, x'', 0)";
    ahead.execute(newer).await.unwrap();
    ahead.close().await.unwrap();
    let mend = complaint(&format!("sqlite://{}", file.display())).await;
    assert!(mend.starts_with("sudo install '<the newer treewarden>' /"), "{mend}");
}

#[tokio::test]
async fn a_database_that_cannot_be_written_is_seen_before_a_start_fails() {
    const READ_ONLY: &str =
        "mount -t tmpfs tmpfs \"$0\" && eval \"$BEFORE\" && mount -o remount,ro \"$0\" && exec \"$@\"";
    if !may_mount() {
        return;
    }
    let installation = Installation::new().await;
    let place = installation.dir.path().join("database");
    fs::create_dir(&place).unwrap();
    let migrate = format!("'{PROGRAM}' migrate >/dev/null");
    for before in ["true", &*migrate] {
        let mut command = installation.command(&["doctor"]);
        command.env("DATABASE_URL", format!("sqlite://{}/tw.db", place.display())).env("BEFORE", before);
        let mut inside = Command::new("unshare");
        inside.args(unshare()).args(["sh", "-c", READ_ONLY]).arg(&place).args([PROGRAM, "doctor"]).env_clear();
        inside.envs(command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
        let wrong = complaints(inside).await;
        assert_eq!(wrong.len(), 1, "{before}: {wrong:?}");
        assert_eq!(wrong[0].1, format!("{} cannot be written by this user", place.display()), "{before}");
    }
}

#[tokio::test]
async fn secrets_that_others_come_to_are_seen_wherever_they_stand() {
    let installation = Installation::new().await;
    let dir = installation.dir.path();
    let file = dir.join("tw.toml");
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let doctor = || {
        let mut command = installation.command(&["doctor", "--config"]);
        command.arg(&file).env_remove("GITHUB_WEBHOOK_SECRET");
        command
    };
    fs::write(&file, "github_webhook_secret = 'a secret of the test'\n").unwrap();
    open(&file, 0o644);
    for mode in [0o700, 0o750] {
        open(dir, mode);
        assert_eq!(complaints(doctor()).await, [], "no stranger comes into this folder");
    }
    open(dir, 0o711);
    let wrong = complaints(doctor()).await;
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!((&*wrong[0].0, &*wrong[0].2), ("settings", &*format!("chmod o-rwx,g-w {}", file.display())));
    fs::write(&file, "max_concurrent_runs = 2\n").unwrap();
    let mut harmless = doctor();
    harmless.env("GITHUB_WEBHOOK_SECRET", "a secret of the test").env("TREEWARDEN_LISTN", "127.0.0.1:1");
    harmless.env("GITHUB_CLIENT_ID", "Iv1");
    let output = output_of(harmless).await;
    let lines = text(&output.stdout);
    assert!(output.status.success() && lines.contains("no setting has this name: TREEWARDEN_LISTN"), "{lines}");
    assert!(lines.contains("without effect in this version: GITHUB_CLIENT_ID"), "{lines}");
    assert!(lines.contains(&format!("looked at: {}; in this environment ", file.display())), "{lines}");
}

#[tokio::test]
async fn what_would_fail_first_is_seen() {
    let installation = Installation::new().await;
    let key = installation.dir.path().join("app.pem");
    fs::write(&key, installation.standin.private_key_pem().expose_secret()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(installation.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = installation.command(&["doctor"]);
    command.env_remove("GITHUB_APP_PRIVATE_KEY").env("GITHUB_APP_PRIVATE_KEY_FILE", &key);
    command.env("TREEWARDEN_AGENT_COMMAND", "/etc/passwd").env("TREEWARDEN_AGENT_ENV", "MODEL_KEY");
    command.env("GITHUB_WEBHOOK_SECRET", "hunter2");
    installation.standin.register(&[("metadata", "read"), ("contents", "write"), ("issues", "read")], &["issues"]);
    installation.standin.uninstall(REPO).unwrap();
    let lines: Vec<String> =
        complaints(command).await.into_iter().map(|(what, seen, mend)| format!("{what}: {seen} -> {mend}")).collect();
    let dir = installation.dir.path().display().to_string();
    let lines = lines.join("\n").replace(&dir, "<dir>").replace(&installation.standin.web_url(), "<github>");
    insta::assert_snapshot!(lines, @r#"
    key: <dir>/app.pem holds a secret and can be read or changed by others (mode 644) -> chmod o-rwx,g-w <dir>/app.pem
    secret: the webhook secret has fewer than 16 characters; a long one, as `openssl rand -hex 32` makes it, belongs into the settings and, the same, into the App's page on GitHub -> export GITHUB_WEBHOOK_SECRET="$(openssl rand -hex 32)"; echo "$GITHUB_WEBHOOK_SECRET"
    github: the App lacks permissions: checks: write, issues: write, pull_requests: write; grant them, then accept them where it is installed -> <github>/settings/apps/treewarden-demo/permissions
    github: the App does not hear of: check_run, issue_comment, pull_request, pull_request_review, pull_request_review_comment, repository; tick them under "Subscribe to events" -> <github>/settings/apps/treewarden-demo/permissions
    github: the App is installed nowhere; choose repositories for it -> <github>/github-apps/treewarden-demo/installations/new
    agent: /etc/passwd is not a program this user can run: it has neither the x bit nor a first line that begins with #!; the agent's program is wanted, by its whole path -> export TREEWARDEN_AGENT_COMMAND='/<folder>/passwd'
    agent: TREEWARDEN_AGENT_ENV names what is not set where the service is started: MODEL_KEY -> export MODEL_KEY='<value>'
    "#);
}

/// Each is as easily made as a script, and has another cure.
#[tokio::test]
async fn an_agent_that_would_not_start_is_mended_where_it_is() {
    let installation = Installation::new().await;
    let agent = installation.dir.path().join("agent.sh");
    let (good, quoted) = ("#!/bin/sh\ntrue\n", shlex::try_quote(agent.to_str().unwrap()).unwrap());
    let on_windows = good.replace('\n', "\r\n");
    for (text, mode, seen, mend) in [
        (good, 0o644, "lacks the x bit for this user (mode 644)", format!("chmod +x {quoted}")),
        (&on_windows, 0o755, "end as on Windows", format!("sed -i --follow-symlinks 's/\\r$//' {quoted}")),
        ("#!/no/such/node\n", 0o755, "is to be run by /no/such/node", format!("${{EDITOR:-vi}} {quoted}")),
    ] {
        fs::write(&agent, text).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(mode)).unwrap();
        let command = |name: &str| {
            let mut command = installation.command(&[name]);
            command.env("TREEWARDEN_AGENT_COMMAND", &agent);
            command
        };
        let wrong = complaints(command("doctor")).await;
        assert!(wrong.len() == 1 && wrong[0].1.contains(seen), "{wrong:?}");
        assert_eq!(wrong[0].2, mend);
        let edited = format!("EDITOR='sed -i s,/no/such/node,/bin/sh,'; {mend}");
        assert!(std::process::Command::new("sh").args(["-c", &edited]).status().unwrap().success(), "{mend}");
        assert_eq!(complaints(command("doctor")).await, [], "{mend}");
        // Who starts the service without asking the doctor is told as well.
        fs::write(&agent, text).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(mode)).unwrap();
        let mut serve = command("serve");
        serve.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut process = serve.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let told = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
        assert!(told.contains("WARN") && told.contains("no agent can be started") && told.contains(seen), "{told}");
        process.kill().await.unwrap();
    }
}

#[tokio::test]
async fn the_manifest_is_enough_and_an_installation_may_lag_behind() {
    let installation = Installation::new().await;
    let manifest = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/app-manifest.yml")).unwrap();
    let (permissions, events) =
        manifest.split_once("default_permissions:").unwrap().1.split_once("default_events:").unwrap();
    let permissions = permissions.lines().filter_map(|line| line.split('#').next().unwrap().trim().split_once(": "));
    let permissions: Vec<(&str, &str)> = permissions.map(|(area, level)| (area, level.trim())).collect();
    let events = events.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split_whitespace().next());
    installation.standin.register(&permissions, &events.collect::<Vec<_>>());
    assert_eq!(complaints(installation.command(&["doctor"])).await, []);

    installation.standin.suspend_installation(REPO, true).unwrap();
    let wrong = complaints(installation.command(&["doctor"])).await;
    assert!(wrong.len() == 1 && wrong[0].1.contains("suspended"), "{wrong:?}");
    assert!(
        wrong[0].2.starts_with(&format!("{}/settings/installations/", installation.standin.web_url())),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn a_mistake_in_the_file_is_mended_there() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tw.toml");
    fs::write(&file, "listn = '127.0.0.1:1'\n").unwrap();
    let mut command = treewarden(&["doctor", "--config"], &dir.path().join("home"));
    command.arg(&file).env("MAX_CONCURRENT_RUNS", "many");
    let mends: Vec<String> = complaints(command).await.into_iter().map(|(_, _, mend)| mend).collect();
    let expected = format!("${{EDITOR:-vi}} {}", file.display());
    let rest = format!("treewarden doctor --config {}", file.display());
    assert_eq!(mends, [&*expected, "unset MAX_CONCURRENT_RUNS", &*rest]);
}

#[tokio::test]
async fn a_port_that_another_program_has_is_named() {
    let installation = Installation::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = installation.command(&["doctor"]);
    command.env("TREEWARDEN_LISTEN", taken.local_addr().unwrap().to_string());
    let wrong = complaints(command).await;
    assert!(
        wrong.len() == 1 && wrong[0].0 == "address" && wrong[0].1.contains("by another program; a proxy"),
        "{wrong:?}"
    );
    assert!(wrong[0].2.starts_with("export TREEWARDEN_LISTEN=127.0.0.1:"), "{wrong:?}");
    drop(taken);

    let serving = installation.serve().await;
    let mut beside = installation.command(&["doctor"]);
    beside.env("TREEWARDEN_LISTEN", serving.url.strip_prefix("http://").unwrap());
    assert_eq!(complaints(beside).await, [], "the service itself");
    // Its database is changed by nobody else.
    let migrate = installation.run(&["migrate"]).await;
    assert!(!migrate.status.success() && text(&migrate.stderr).contains("Another Treewarden runs"), "{migrate:?}");
    serving.stop().await;
}

/// Whether the doctor and a start agree that this is refused, with the same words; with the doctor's line.
async fn both_refuse(installation: &Installation, what: &str, env: &[(&str, &str)]) -> String {
    let command = |name: &str| {
        let mut command = installation.command(&[name]);
        command.envs(env.iter().copied());
        command
    };
    let seen = tree(installation.dir.path());
    let wrong = complaints(command("doctor")).await;
    assert_eq!(tree(installation.dir.path()), seen, "it only looks");
    assert!(wrong.len() == 1 && wrong[0].0 == what, "{wrong:?}");
    let serve = output_of(command("serve")).await;
    let (refusal, (_, said, mend)) = (text(&serve.stderr), &wrong[0]);
    assert!(!serve.status.success() && refusal.contains(&**said), "doctor: {said}\nserve: {refusal}");
    mend.clone()
}

#[tokio::test]
async fn worktrees_that_a_start_would_not_find_are_missed_here_too() {
    let installation = Installation::new().await;
    let serving = installation.serve().await;
    installation.ask("add a greeting");
    let store = installation.store().await;
    until_succeeded(&store, 1).await;
    store.close().await;
    serving.stop().await;
    assert_eq!(complaints(installation.command(&["doctor"])).await, []);

    let elsewhere = installation.dir.path().join("elsewhere").display().to_string();
    let mend = both_refuse(&installation, "worktrees", &[("WORKTREE_BASE", &elsewhere)]).await;
    let base = installation.dir.path().join("home/worktrees").canonicalize().unwrap();
    assert_eq!(mend, format!("export WORKTREE_BASE={}", base.display()));

    let aside = installation.dir.path().join("aside");
    fs::rename(&base, &aside).unwrap();
    for _ in ["it is not there", "it is empty"] {
        let mend = both_refuse(&installation, "worktrees", &[]).await;
        assert_eq!(mend, format!("cp -a '<where they are now>/.' {}", base.display()));
        assert!(!base.exists() || fs::read_dir(&base).unwrap().next().is_none(), "a refused start makes nothing");
        fs::create_dir_all(&base).unwrap();
    }
    fs::write(base.join(".treewarden"), "the mark of another home\n").unwrap();
    let mend = both_refuse(&installation, "worktrees", &[]).await;
    assert_eq!(mend, "export WORKTREE_BASE='<the directory of the worktrees>'");

    fs::remove_dir_all(&base).unwrap();
    fs::rename(&aside, &base).unwrap();
    assert_eq!(complaints(installation.command(&["doctor"])).await, []);
}

#[tokio::test]
async fn another_service_in_the_same_directories_is_met() {
    let installation = Installation::new().await;
    let other = Installation::new().await;
    let shared = installation.dir.path().join("shared");
    let mut command = other.command(&["serve"]);
    command.env("WORKTREE_BASE", &shared);
    let serving = other.serve_with(command).await;
    let mend = both_refuse(&installation, "service", &[("WORKTREE_BASE", shared.to_str().unwrap())]).await;
    assert_eq!(mend, format!("export WORKTREE_BASE={}/home/worktrees", installation.dir.path().display()));
    serving.stop().await;
}

/// As since PostgreSQL 15 whoever makes a database of somebody's for a user finds it.
#[tokio::test]
async fn a_database_that_lets_its_user_make_no_tables_is_told_by_both() {
    let Some(database) = Database::create().await else { return };
    let installation = Installation::new().await;
    let role = format!("user_{}", uuid::Uuid::now_v7().simple());
    let owner = async |statements: String| {
        let mut connection = sqlx::PgConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    };
    owner(format!("CREATE ROLE {role} LOGIN PASSWORD 'tw'; REVOKE CREATE ON SCHEMA public FROM PUBLIC")).await;
    let mut url = reqwest::Url::parse(&database.url).unwrap();
    url.set_username(&role).unwrap();
    url.set_password(Some("tw")).unwrap();
    let mend = both_refuse(&installation, "database", &[("DATABASE_URL", url.as_str())]).await;
    let words = shlex::split(&mend).unwrap();
    let statement = format!("GRANT USAGE, CREATE ON SCHEMA \"public\" TO \"{role}\"");
    assert_eq!(words.last(), Some(&statement), "{mend}");
    owner(statement).await;
    let mut command = installation.command(&["doctor"]);
    command.env("DATABASE_URL", url.as_str());
    assert_eq!(complaints(command).await, []);
    owner(format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    database.drop().await;
}

/// Another home, which may be another machine's: what is not on its disk is not gone.
#[tokio::test]
async fn a_database_has_one_service_and_its_worktrees_one_place() {
    let database = Database::create().await;
    let urls = database.iter().map(|database| Some(database.url.clone())).chain([None]);
    for postgres in urls {
        let (one, other) = (Installation::new().await, Installation::new().await);
        let file = format!("sqlite://{}", one.dir.path().join("elsewhere.db").display());
        let url = postgres.unwrap_or(file);
        let database = [("DATABASE_URL", &*url)];
        let mut command = one.command(&["serve"]);
        command.envs(database);
        let serving = one.serve_with(command).await;
        let process = format!("process {} on ", serving.process.id().unwrap());

        let mend = both_refuse(&other, "database", &database).await;
        assert_eq!(mend, "export DATABASE_URL='<a database of its own>'");
        let refused = async |arguments: &[&str]| {
            let mut command = other.command(arguments);
            command.envs(database);
            let output = output_of(command).await;
            assert!(!output.status.success(), "{output:?}");
            text(&output.stderr)
        };
        for command in [&["serve"][..], &["migrate"], &["cleanup"], &["import", "--backfill"]] {
            let refusal = refused(command).await;
            assert!(refusal.contains(&process) && refusal.contains(", home "), "{command:?}: {refusal}");
        }
        assert!(!other.dir.path().join("home").exists(), "a refused start makes nothing");

        let issue = one.ask("agent:fail");
        let store = Store::open(&url).await.unwrap();
        until("the failed run", || async {
            let ended = runs(&store).await.iter().any(|run| run.state == RunState::Failed);
            (ended && store.unfinished().await.unwrap().is_empty()).then_some(())
        })
        .await;
        serving.stop().await;
        let live = store.live_environments(None).await.unwrap();
        assert_eq!(live.len(), 1);
        let mend = both_refuse(&other, "worktrees", &database).await;
        assert_eq!(mend, "export TREEWARDEN_HOME='<the home that has them>'");
        assert!(!other.dir.path().join("home").exists());
        let refusal = refused(&["serve"]).await;
        assert_eq!(store.live_environments(None).await.unwrap(), live, "{refusal}");

        // They are lost for good, and somebody says so.
        let (lost, new) = (one.dir.path().join("home"), one.dir.path().join("new home"));
        fs::rename(&lost, one.dir.path().join("lost")).unwrap();
        let base = lost.join("worktrees");
        let start = |name: &str| {
            let mut command = one.command(&[name]);
            command.envs(database).env("TREEWARDEN_HOME", &new).env("WORKTREE_BASE", &base);
            command
        };
        let refusal = text(&output_of(start("serve")).await.stderr);
        let (_, mark) = refusal.split_once("write their mark, ").expect(&refusal);
        fs::create_dir_all(&base).unwrap();
        fs::set_permissions(&lost, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(base.join(".treewarden"), mark.split_once(',').unwrap().0).unwrap();
        assert_eq!(complaints(start("doctor")).await, []);
        let serving = one.serve_with(start("serve")).await;
        let mention = format!("@{} add a greeting", one.standin.app_slug());
        one.standin.comment(REPO, ANN, issue, &mention).unwrap();
        until_succeeded(&store, 1).await;
        serving.stop().await;
        store.close().await;
    }
    if let Some(database) = database {
        database.drop().await;
    }
}

#[tokio::test]
async fn a_service_with_other_settings_than_the_doctors_is_told_apart() {
    let installation = Installation::new().await;
    let serving = installation.serve().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut command = installation.command(&["doctor"]);
    command.env("TREEWARDEN_LISTEN", &free).env("TREEWARDEN_LOCAL", "on");
    let wrong = complaints(command).await;
    assert!(wrong.len() == 1 && wrong[0].0 == "service", "{wrong:?}");
    let (_, seen, mend) = &wrong[0];
    let both = seen.contains(&format!("nothing listens on {free}; it takes no messages of this machine"));
    assert!(both && seen.ends_with("A start beside it is refused"), "{seen}");
    assert_eq!(mend, "TREEWARDEN_LISTEN='<host>:<port>' TREEWARDEN_LOCAL=off treewarden doctor");
    serving.stop().await;
}

#[tokio::test]
async fn a_start_that_does_not_meet_github_or_its_database_says_what_to_do() {
    let installation = Installation::new().await;
    let refusal = async |env: &[(&str, &str)]| {
        let mut command = installation.command(&["serve"]);
        command.envs(env.iter().copied());
        let output = output_of(command).await;
        assert!(!output.status.success(), "{output:?}");
        text(&output.stderr)
    };
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plain = installation.standin.web_url().replace("http://", "https://");
    let nobody = format!("http://{nobody}");
    let nowhere = format!("{}/no/such/api", installation.standin.api_url());
    for (api, happened, advice) in [
        (&*nobody, "GitHub could not be reached", "Check the network"),
        (
            &*plain,
            "GitHub could not be reached",
            "where that says https, its port has to speak HTTPS. Then start again.",
        ),
        (&*nowhere, "answer was not understood", "what answers there is not GitHub's API"),
    ] {
        let told = refusal(&[("GITHUB_API_URL", api), ("GITHUB_WEB_URL", &installation.standin.web_url())]).await;
        let again = "whoever mentions the bot before its first start has to do so again";
        for words in ["GitHub did not say which App this is", happened, "Nothing was begun", again, advice] {
            assert!(told.contains(words), "{words} in {told}");
        }
    }
    let told = refusal(&[("DATABASE_URL", "postgres://tw@127.0.0.1:1/tw")]).await;
    for words in [
        "the database cannot be reached (127.0.0.1:1, as DATABASE_URL says: ",
        "Nothing that was stored is lost",
        "treewarden doctor",
    ] {
        assert!(told.contains(words), "{words} in {told}");
    }
}

#[tokio::test]
async fn a_place_that_is_none_is_told_in_one_line_with_what_mends_it() {
    let installation = Installation::new().await;
    let dir = installation.dir.path();
    fs::write(dir.join("file"), "").unwrap();
    fs::create_dir_all(dir.join("folder/.treewarden")).unwrap();
    let at = |name: &str| dir.join(name).display().to_string();
    let (file, folder, inside) = (at("file"), at("folder"), at("file/trees"));
    let cases = [
        ("home", "TREEWARDEN_HOME", file.clone(), format!("TREEWARDEN_HOME={}", at("treewarden-home"))),
        ("home", "WORKTREE_BASE", file.clone(), format!("WORKTREE_BASE={}", at("treewarden-worktrees"))),
        ("home", "WORKTREE_BASE", inside, format!("WORKTREE_BASE={}", at("treewarden-worktrees"))),
        ("worktrees", "WORKTREE_BASE", folder.clone(), format!("WORKTREE_BASE={folder}/worktrees")),
        (
            "database",
            "DATABASE_URL",
            format!("sqlite://{folder}"),
            format!("DATABASE_URL=sqlite://{folder}/treewarden.db"),
        ),
    ];
    for (what, name, value, mended) in cases {
        let mend = both_refuse(&installation, what, &[(name, &value)]).await;
        assert_eq!(mend, format!("export {mended}"), "{name}={value}");
        let mut command = installation.command(&["doctor"]);
        let (name, value) = mended.split_once('=').unwrap();
        command.env(name, value);
        assert_eq!(complaints(command).await, [], "{mended}");
    }
    // Nothing was made by what was refused.
    assert!(!dir.join("home").exists());

    assert!(installation.run(&["migrate"]).await.status.success());
    for name in ["repos", "git", "agents"] {
        let place = dir.join("home").join(name);
        let _ = fs::remove_dir(&place);
        fs::write(&place, "").unwrap();
        let mend = both_refuse(&installation, "home", &[]).await;
        assert!(std::process::Command::new("sh").args(["-c", &mend]).status().unwrap().success(), "{mend}");
        assert_eq!(complaints(installation.command(&["doctor"])).await, [], "{mend}");
    }
    let mut agent = installation.command(&["doctor"]);
    agent.env("TREEWARDEN_AGENT_COMMAND", &folder);
    let wrong = complaints(agent).await;
    assert!(wrong.len() == 1 && wrong[0].1.contains(&format!("{folder} is a directory")), "{wrong:?}");
}

#[tokio::test]
async fn a_directory_of_worktrees_that_is_not_one_of_its_own_is_refused_by_both() {
    let installation = Installation::new().await;
    let dir = installation.dir.path();
    let at = |name: &str| dir.join(name).display().to_string();
    let made = |name: &str, mode| {
        fs::create_dir_all(dir.join(name)).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    made("shared", 0o1777);
    made("open", 0o775);
    made("other/www", 0o755);
    for (base, mended) in [
        ("shared", "unset WORKTREE_BASE".to_owned()),
        ("open", format!("chmod go-w {}", at("open"))),
        ("other", "unset WORKTREE_BASE".to_owned()),
        ("", "unset WORKTREE_BASE".to_owned()),
        ("home", "unset WORKTREE_BASE".to_owned()),
        ("home/repos", "unset WORKTREE_BASE".to_owned()),
    ] {
        let base = at(base).trim_end_matches('/').to_owned();
        assert_eq!(both_refuse(&installation, "home", &[("WORKTREE_BASE", &base)]).await, mended);
        assert!(!dir.join("home").exists(), "{base}");
        let again = format!("{mended}; exec '{PROGRAM}' doctor \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &again, "sh"]).env_clear();
        let asked = installation.command(&["doctor"]);
        command.envs(asked.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("WORKTREE_BASE", &base);
        assert_eq!(complaints(command).await, [], "{mended}");
    }
}

#[tokio::test]
async fn a_home_of_another_user_is_left_to_that_user() {
    let installation = Installation::new().await;
    let home = installation.dir.path().join("home");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&home, Some(7), None).unwrap();
    assert_eq!(both_refuse(&installation, "home", &[]).await, "sudo -E -u '#7' treewarden doctor");
}

/// As far as what became of GitHub's deliveries shows it.
#[tokio::test]
async fn a_webhook_secret_that_is_not_githubs_is_seen() {
    let installation = Installation::new().await;
    let serving = installation.serve().await;
    let hook = format!("{}/webhooks/github", serving.url);
    let doctor = async || {
        let mut command = installation.command(&["doctor"]);
        command.env("TREEWARDEN_LISTEN", serving.url.strip_prefix("http://").unwrap());
        complaints(command).await
    };
    installation.standin.set_webhook(&hook, "another secret, of GitHub".to_owned().into());
    installation.ask("add a greeting");
    installation.standin.settled().await;
    let wrong = doctor().await;
    assert!(wrong.len() == 1 && wrong[0].0 == "webhook" && wrong[0].1.contains("answered with 401"), "{wrong:?}");
    assert!(wrong[0].2.starts_with("export GITHUB_WEBHOOK_SECRET=\"$(openssl rand -hex 32)\""), "{wrong:?}");
    // A proxy in front that does not know the address. What failed by itself may have come before the start.
    let secret = || "a secret of the test".to_owned().into();
    installation.standin.set_webhook(&format!("{hook}/elsewhere"), secret());
    let newest = || installation.standin.deliveries().iter().map(|delivery| delivery.id).max().unwrap();
    installation.standin.redeliver(newest()).unwrap();
    installation.standin.settled().await;
    let wrong = doctor().await;
    assert!(wrong.len() == 1 && wrong[0].1.contains("was answered with 404"), "{wrong:?}");
    assert!(wrong[0].2.ends_with("/settings/apps/treewarden-demo/advanced"), "{wrong:?}");
    installation.standin.set_webhook(&hook, secret());
    installation.standin.redeliver(newest()).unwrap();
    installation.standin.settled().await;
    assert_eq!(doctor().await, []);
    serving.stop().await;
}

/// Only git and links lead there: nothing else would ask it before the first mention.
#[tokio::test]
async fn an_address_of_githubs_pages_that_is_not_githubs_is_seen() {
    let installation = Installation::new().await;
    let mut command = installation.command(&["doctor"]);
    command.env("GITHUB_WEB_URL", "http://127.0.0.1:1");
    let wrong = complaints(command).await;
    let right = installation.standin.web_url();
    assert!(wrong.len() == 1 && wrong[0].1.contains(&format!("and git, at {right}")), "{wrong:?}");
    assert_eq!(wrong[0].2, format!("export GITHUB_WEB_URL={right}"));
}

/// The App is there, and nothing of what people write would come.
#[tokio::test]
async fn a_webhook_that_leads_elsewhere_is_seen() {
    let installation = Installation::new().await;
    let told = async |url: &str, public: &str| {
        installation.standin.set_webhook(url, "a secret of the test".to_owned().into());
        let mut command = installation.command(&["doctor"]);
        command.env("TREEWARDEN_PUBLIC_URL", public);
        let mut wrong = complaints(command).await;
        assert!(wrong.len() <= 1 && wrong.iter().all(|one| one.0 == "webhook"), "{url}: {wrong:?}");
        wrong.pop().map(|(_, seen, page)| {
            assert_eq!(page, format!("{}/settings/apps/treewarden-demo", installation.standin.web_url()));
            seen
        })
    };
    const PUBLIC: &str = "https://tw.example.org";
    assert_eq!(told("https://tw.example.org/webhooks/github", PUBLIC).await, None);
    assert_eq!(told("https://smee.example/abc", "").await, None, "nobody knows where that leads");
    for url in ["https://tw.example.org", "https://tw.example.org/webhook", "https://other.example/webhooks/github"] {
        let seen = told(url, PUBLIC).await.unwrap();
        assert!(seen.contains(url) && seen.ends_with("it has to be https://tw.example.org/webhooks/github"), "{seen}");
    }
    for (public, host) in [(PUBLIC, PUBLIC), ("", "https://<host>")] {
        let seen = told("", public).await.unwrap();
        assert!(seen.contains("no webhook") && seen.ends_with(&format!("{host}/webhooks/github")), "{seen}");
    }
}

/// Where they are fetched, it is no matter where they lead.
#[tokio::test]
async fn a_webhook_that_leads_nowhere_is_right_where_nothing_is_let_in() {
    let installation = Installation::new().await;
    let told = async |url: &str| {
        installation.standin.set_webhook(url, "".to_owned().into());
        let mut command = installation.command(&["doctor"]);
        command.env("TREEWARDEN_WEBHOOK", "poll").env("TREEWARDEN_PUBLIC_URL", "https://tw.example.org");
        command.env_remove("GITHUB_WEBHOOK_SECRET");
        complaints(command).await
    };
    assert_eq!(told("https://treewarden.invalid/webhooks/github").await, []);
    let wrong = told("").await;
    assert!(wrong.len() == 1 && wrong[0].1.contains("the App has no webhook"), "{wrong:?}");
    assert_eq!(wrong[0].2, format!("{}/settings/apps/treewarden-demo", installation.standin.web_url()));
}

/// Nobody waits at a pipe for whoever writes, and no directory is taken for the file that belongs there.
#[tokio::test]
async fn what_is_no_file_where_one_belongs_is_told_by_both() {
    let installation = Installation::new().await;
    let home = installation.dir.path().join("home");
    installation.serve().await.stop().await;
    let make_pipe = |path: &Path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    let make_directory = |path: &Path| fs::create_dir(path).unwrap();
    let makers: [&dyn Fn(&Path); 2] = [&make_pipe, &make_directory];
    for (name, what) in [("node", "service"), ("worktrees.mark", "worktrees"), ("worktrees/.treewarden", "worktrees")] {
        let (path, kept) = (home.join(name), installation.dir.path().join("kept"));
        for (number, make) in makers.iter().enumerate() {
            fs::rename(&path, &kept).unwrap();
            make(&path);
            let mend = both_refuse(&installation, what, &[]).await;
            // A base with a directory of that name is taken for somebody else's.
            if name != "worktrees/.treewarden" || number == 0 {
                assert_eq!(mend, format!("mv -T --backup=t {0} {0}.aside", path.display()));
            }
            fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
            fs::rename(&kept, &path).unwrap();
            assert_eq!(complaints(installation.command(&["doctor"])).await, []);
        }
    }
    let aside = async |what: &str, path: &Path| {
        let mend = both_refuse(&installation, what, &[]).await;
        assert_eq!(mend, format!("mv -T --backup=t {0} {0}.aside", path.display()));
        assert!(std::process::Command::new("sh").args(["-c", &mend]).status().unwrap().success());
        assert_eq!(complaints(installation.command(&["doctor"])).await, [], "{mend}");
        let beside = format!("{}.aside", path.display());
        fs::remove_file(&beside).or_else(|_| fs::remove_dir(&beside)).unwrap();
    };
    for name in ["local.json", "local.json.new", "worktrees.new"] {
        make_directory(&home.join(name));
        aside("home", &home.join(name)).await;
    }
    for (name, make) in [("-wal", 0), ("-wal", 1), ("-shm", 0), ("-shm", 1), ("", 0), ("", 1)] {
        let (path, kept) = (home.join(format!("treewarden.db{name}")), installation.dir.path().join("kept"));
        let there = fs::rename(&path, &kept).is_ok();
        makers[make](&path);
        aside("database", &path).await;
        if there {
            fs::rename(&kept, &path).unwrap();
        }
    }
    let link = |path: &Path| std::os::unix::fs::symlink("nothing", path).unwrap();
    let file = |path: &Path| fs::write(path, "").unwrap();
    let (trees, kept) = (home.join("worktrees"), installation.dir.path().join("kept"));
    let others: [&dyn Fn(&Path); 3] = [&make_pipe, &link, &file];
    for make in others {
        make(&home.join("copy"));
        aside("home", &home.join("copy")).await;
        fs::rename(&trees, &kept).unwrap();
        make(&trees);
        assert_eq!(
            both_refuse(&installation, "home", &[]).await,
            format!("mv -T --backup=t {0} {0}.aside", trees.display())
        );
        fs::remove_file(&trees).unwrap();
        fs::rename(&kept, &trees).unwrap();
    }
    let settings = home.join("treewarden.toml");
    for make in makers {
        make(&settings);
        for command in ["doctor", "serve"] {
            let output = output_of(installation.command(&[command])).await;
            let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert!(!output.status.success() && said.contains("it is no file"), "{command}: {said}");
            let mend = format!("    mv -T --backup=t {0} {0}.aside\n", settings.display());
            assert!(command == "serve" || said.contains(&mend), "{said}");
        }
        fs::remove_file(&settings).or_else(|_| fs::remove_dir(&settings)).unwrap();
    }
}

/// A start would refuse both.
#[tokio::test]
async fn migrations_that_were_changed_or_broken_off_are_told_by_both() {
    let installation = Installation::new().await;
    assert!(installation.run(&["migrate"]).await.status.success());
    let options = SqliteConnectOptions::new().filename(installation.dir.path().join("home/treewarden.db"));
    for change in [
        "UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
        "UPDATE _sqlx_migrations SET success = false WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
    ] {
        let mut database = SqliteConnection::connect_with(&options).await.unwrap();
        database.execute(change).await.unwrap();
        database.close().await.unwrap();
        both_refuse(&installation, "database", &[]).await;
    }
}

#[tokio::test]
async fn a_table_that_is_gone_is_missed_by_both() {
    let installation = Installation::new().await;
    assert!(installation.run(&["migrate"]).await.status.success());
    let file = installation.dir.path().join("home/treewarden.db");
    let whole = fs::read(&file).unwrap();
    for table in ["cleanup_reports", "codebases", "_sqlx_migrations"] {
        let options = SqliteConnectOptions::new().filename(&file).foreign_keys(false);
        let mut database = SqliteConnection::connect_with(&options).await.unwrap();
        let statement = sqlx::AssertSqlSafe(format!("DROP TABLE {table}"));
        sqlx::query(statement).execute(&mut database).await.unwrap();
        database.close().await.unwrap();
        let mend = both_refuse(&installation, "database", &[]).await;
        assert!(mend.starts_with("mkdir ") && mend.contains("<its backup>"), "{table}: {mend}");
        fs::write(&file, &whole).unwrap();
        assert_eq!(complaints(installation.command(&["doctor"])).await, []);
    }
}

#[tokio::test]
async fn a_database_that_another_process_has_to_itself_is_told_by_both() {
    let refused = async |preparation: &'static str| {
        let installation = Installation::new().await;
        assert!(installation.run(&["migrate"]).await.status.success());
        let file = installation.dir.path().join("home/treewarden.db");
        let mut other = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&file)).await.unwrap();
        other.execute(preparation).await.unwrap();
        other.execute("BEGIN EXCLUSIVE").await.unwrap();
        let mend = both_refuse(&installation, "database", &[]).await;
        assert_eq!(mend, format!("tail --pid={} -f /dev/null; treewarden doctor", std::process::id()));
        other.execute("ROLLBACK").await.unwrap();
        other.close().await.unwrap();
        assert_eq!(complaints(installation.command(&["doctor"])).await, []);
    };
    // Its log, or none, in which only a look at the file shows it.
    tokio::join!(refused("PRAGMA journal_mode = wal"), refused("PRAGMA journal_mode = delete"));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_to_whoever_has_it() {
    let installation = Installation::new().await;
    let mend = both_refuse(&installation, "database", &[("DATABASE_URL", "sqlite:///etc/passwd")]).await;
    assert_eq!(mend, "unset DATABASE_URL");
}

#[tokio::test]
async fn a_database_of_another_program_is_nobodys_to_change() {
    let installation = Installation::new().await;
    let file = installation.dir.path().join("other.db");
    let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let mut other = SqliteConnection::connect_with(&options).await.unwrap();
    other.execute("CREATE TABLE orders (id INTEGER)").await.unwrap();
    other.close().await.unwrap();
    let url = format!("sqlite://{}", file.display());
    let before = tree(installation.dir.path());
    for arguments in [
        &["migrate"][..],
        &["cleanup"],
        &["env", "list"],
        &["import", "--backfill"],
        &["import", "--backfill", "--dry-run"],
    ] {
        let mut command = installation.command(arguments);
        command.env("DATABASE_URL", &url);
        let output = output_of(command).await;
        let told = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        for words in ["another program", "(orders)", "Nothing was changed", "treewarden doctor"] {
            assert!(told.contains(words), "{arguments:?}: {told}");
        }
    }
    let mend = both_refuse(&installation, "database", &[("DATABASE_URL", &url)]).await;
    assert_eq!(mend, "unset DATABASE_URL");
    assert_eq!(tree(installation.dir.path()), before);
}

#[tokio::test]
async fn a_database_that_is_gone_is_missed_where_there_is_work() {
    let installation = Installation::new().await;
    let serving = installation.serve().await;
    installation.ask("add a greeting");
    let store = installation.store().await;
    until_succeeded(&store, 1).await;
    store.close().await;
    serving.stop().await;
    let home = installation.dir.path().join("home");
    let (file, backup) = (home.join("treewarden.db"), installation.dir.path().join("backup"));
    fs::copy(&file, &backup).unwrap();
    // It is another one that is named; and one in a folder that has to be made for its backup.
    let missing = installation.dir.path().join("missing");
    let url = format!("sqlite://{}", missing.join("tw.db").display());
    let elsewhere = || {
        let mut command = installation.command(&["doctor"]);
        command.env("DATABASE_URL", &url);
        command
    };
    let wrong = complaints(elsewhere()).await;
    assert!(wrong.len() == 1 && wrong[0].1.contains(&format!("{} that knows of it", file.display())), "{wrong:?}");
    assert_eq!(wrong[0].2, "unset DATABASE_URL");
    fs::rename(&file, home.join("kept")).unwrap();
    let wrong = complaints(elsewhere()).await;
    let mend = wrong[0].2.replace("<its backup>", backup.to_str().unwrap());
    assert!(std::process::Command::new("sh").args(["-c", &mend]).status().unwrap().success(), "{mend}");
    assert_eq!(complaints(elsewhere()).await, [], "{mend}");
    fs::remove_dir_all(&missing).unwrap();
    fs::rename(home.join("kept"), &file).unwrap();
    for way in ["gone", "empty"] {
        if way == "gone" {
            fs::remove_file(&file).unwrap()
        } else {
            fs::write(&file, "").unwrap()
        }
        let wrong = complaints(installation.command(&["doctor"])).await;
        assert!(wrong.len() == 1 && wrong[0].0 == "database", "{way}: {wrong:?}");
        assert!(wrong[0].1.contains("earlier work in ") && wrong[0].1.contains("know nothing of it"), "{wrong:?}");
        let mend = wrong[0].2.replace("<its backup>", backup.to_str().unwrap());
        assert!(std::process::Command::new("sh").args(["-c", &mend]).status().unwrap().success(), "{mend}");
        assert_eq!(complaints(installation.command(&["doctor"])).await, [], "{way}");
    }
    // Whoever starts all the same is told once.
    fs::remove_file(&file).unwrap();
    for is_told in [true, false] {
        let output = installation.run(&["migrate"]).await;
        let told = text(&output.stderr).contains("knows nothing of the earlier work");
        assert!(output.status.success() && told == is_told, "{output:?}");
    }
}
