//! What the doctor says, and that it only looks.

use super::full_disk::{may_mount, unshare};
use super::*;
use sqlx::{Connection, Executor, SqliteConnection, sqlite::SqliteConnectOptions};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

/// What is wrong, as `(what, seen, mend)`.
async fn complaints(mut command: Command) -> Vec<(String, String, String)> {
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
        let metadata = fs::metadata(&path).unwrap();
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
    assert!(mend == "sudo systemctl start postgresql", "{mend}");
    let folder = dir.join("no such folder");
    let mend = complaint(&format!("sqlite://{}/tw.db", folder.display())).await;
    assert_eq!(mend, format!("mkdir -p '{}'", folder.display()));
    fs::write(dir.join("tw.db"), "this is no database, and long enough to be looked at as one").unwrap();
    let mend = complaint(&format!("sqlite://{}/tw.db", dir.display())).await;
    // What is spoilt is kept, with all that would be played over the backup.
    fs::write(dir.join("tw.db-wal"), "spoilt, too").unwrap();
    fs::write(dir.join("backup"), "whole").unwrap();
    let mend = mend.replace("<its backup>", dir.join("backup").to_str().unwrap());
    assert!(std::process::Command::new("sh").args(["-c", &mend]).status().unwrap().success(), "{mend}");
    assert_eq!(fs::read_to_string(dir.join("tw.db")).unwrap(), "whole", "{mend}");
    assert!(!dir.join("tw.db-wal").exists() && dir.join("tw.db.spoilt/tw.db-wal").exists(), "{mend}");
    assert!(fs::read_to_string(dir.join("tw.db.spoilt/tw.db")).unwrap().starts_with("this is no"), "{mend}");

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
    let output = output_of(harmless).await;
    let lines = text(&output.stdout);
    assert!(output.status.success() && lines.contains("no setting has this name: TREEWARDEN_LISTN"), "{lines}");
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
    secret: the webhook secret has fewer than 16 characters; a long one belongs into GITHUB_WEBHOOK_SECRET and into the App's settings on GitHub -> openssl rand -hex 32
    github: the App lacks permissions: issues: write, pull_requests: write; grant them, then accept them where it is installed -> <github>/settings/apps/treewarden-demo/permissions
    github: the App does not hear of: issue_comment, pull_request, pull_request_review, pull_request_review_comment, repository; tick them under "Subscribe to events" -> <github>/settings/apps/treewarden-demo/permissions
    github: the App is installed nowhere; choose repositories for it -> <github>/github-apps/treewarden-demo/installations/new
    agent: /etc/passwd is not a program this user can run; the agent's program is wanted, by its whole path -> export TREEWARDEN_AGENT_COMMAND='/<folder>/passwd'
    agent: TREEWARDEN_AGENT_ENV names what is not set where the service is started: MODEL_KEY -> export MODEL_KEY='<value>'
    "#);
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
    assert!(wrong.len() == 1 && wrong[0].0 == "address" && wrong[0].1.contains("by another program"), "{wrong:?}");
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
