//! Importing from the older schema, with the program as people run it: each stage, as a SQLite file and on PostgreSQL.

use crate::binary::{Installation, output_of, text, treewarden};
use crate::support::{
    postgres::Database,
    world::{ANN, REPO},
};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection, sqlite::SqliteConnectOptions};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command as Program, Output},
};
use treewarden::{
    git::{FetchRequest, Git, GitSettings, LOCK_REASON},
    model::*,
    store::{Inserted, NewCodebase, NewEnvironment, Store},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Paths,
    Providers,
    Environments,
}

const STAGES: [Stage; 3] = [Stage::Paths, Stage::Providers, Stage::Environments];

/// The older tables, as its own migrations left them at a stage.
fn schema(stage: Stage, postgres: bool) -> String {
    let base = "
        CREATE TABLE remote_agent_codebases (
            id {uuid} PRIMARY KEY, name VARCHAR(255), repository_url VARCHAR(500), default_cwd VARCHAR(500),
            ai_assistant_type VARCHAR(20), commands {json}, created_at {time}, updated_at {time});
        CREATE TABLE remote_agent_conversations (
            id {uuid} PRIMARY KEY, platform_type VARCHAR(20), platform_conversation_id VARCHAR(255), codebase_id {uuid},
            cwd VARCHAR(500), ai_assistant_type VARCHAR(20), worktree_path VARCHAR(500), created_at {time},
            updated_at {time});
        CREATE TABLE remote_agent_sessions (
            id {uuid} PRIMARY KEY, conversation_id {uuid}, codebase_id {uuid}, ai_assistant_type VARCHAR(20),
            assistant_session_id VARCHAR(255), active {bool}, metadata {json}, started_at {time}, ended_at {time});
    ";
    let providers = "
        ALTER TABLE remote_agent_conversations ADD COLUMN isolation_env_id VARCHAR(255);
        ALTER TABLE remote_agent_conversations ADD COLUMN isolation_provider VARCHAR(50) DEFAULT 'worktree';
    ";
    let environments = "
        CREATE TABLE remote_agent_isolation_environments (
            id {uuid} PRIMARY KEY, codebase_id {uuid}, workflow_type TEXT, workflow_id TEXT, provider TEXT,
            working_path TEXT, branch_name TEXT, status TEXT, created_at {time}, created_by_platform TEXT, metadata {json});
        ALTER TABLE remote_agent_conversations RENAME COLUMN isolation_env_id TO isolation_env_id_legacy;
        ALTER TABLE remote_agent_conversations ADD COLUMN isolation_env_id {uuid};
        ALTER TABLE remote_agent_conversations ADD COLUMN last_activity_at {time};
    ";
    let text = match stage {
        Stage::Paths => base.to_owned(),
        Stage::Providers => format!("{base}{providers}"),
        Stage::Environments => format!("{base}{providers}{environments}"),
    };
    let kinds = match postgres {
        true => ["UUID", "TIMESTAMP WITH TIME ZONE", "JSONB", "BOOLEAN"],
        false => ["TEXT", "TEXT", "TEXT", "INTEGER"],
    };
    ["{uuid}", "{time}", "{json}", "{bool}"].iter().zip(kinds).fold(text, |text, (from, to)| text.replace(from, to))
}

fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

async fn execute(url: &str, text: String) {
    match url.strip_prefix("sqlite://") {
        Some(path) => {
            let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
            let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
            connection.execute(sqlx::raw_sql(AssertSqlSafe(text))).await.unwrap();
            connection.close().await.unwrap();
        }
        None => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            connection.execute(sqlx::raw_sql(AssertSqlSafe(text))).await.unwrap();
            connection.close().await.unwrap();
        }
    }
}

/// An installation, a worktree of its own that no row knows, and the clone of an older installation with another.
struct Scene {
    installation: Installation,
    issues: [i64; 3],
    own: PathBuf,
    older: PathBuf,
}

impl Scene {
    async fn new() -> Self {
        let installation = Installation::new().await;
        let standin = &installation.standin;
        let issues = ["One", "Two", "Three"].map(|title| standin.open_issue(REPO, ANN, title, "").unwrap());
        let remote = standin.git_dir(REPO).unwrap();
        let older = installation.dir.path().join("older");
        git(&["clone", "--quiet", remote.to_str().unwrap(), "clone"], &made(&older));
        git(&["worktree", "add", "--quiet", "-b", "issue-2", "../issue-2"], &older.join("clone"));
        commit(&older.join("issue-2"));

        let home = installation.dir.path().join("home");
        assert!(installation.run(&["migrate"]).await.status.success());
        let settings =
            GitSettings { local_remotes: true, ..GitSettings::new("git", installation.dir.path().join("g")) };
        let repository = Git::new(settings).unwrap().repository(home.join("repos/octo/hello.git"));
        repository.ensure(&format!("file://{}", remote.display())).await.unwrap();
        repository.fetch(&FetchRequest { branches: true, extra: vec![] }, None).await.unwrap();
        let tip = repository.tip("refs/remotes/origin/main").await.unwrap().unwrap();
        let own = made(&home.join("worktrees/octo/hello")).join("issue-1");
        let branch = BranchName::new("issue-1").unwrap();
        repository.add_worktree(&own, &branch, &WorktreeStart::NewBranch(tip)).await.unwrap();
        // The older installation locked none.
        repository.release_worktree(&own).await.unwrap();
        let scene = Self { own: own.canonicalize().unwrap(), older: older.join("issue-2"), installation, issues };
        let store = scene.store().await;
        store.upsert_codebase(scene.codebase(), Timestamp::from_unix(1_700_000_000)).await.unwrap();
        store.close().await;
        scene
    }

    fn codebase(&self) -> NewCodebase {
        let standin = &self.installation.standin;
        NewCodebase {
            github_id: RepositoryId(standin.repository(REPO).unwrap()),
            installation: InstallationId(standin.installation_id(REPO).unwrap()),
            name: REPO.parse().unwrap(),
            default_branch: BranchName::new("main").ok(),
            reached: true,
        }
    }

    /// Why the worktree that no row knew is locked, if it is.
    fn lock(&self) -> Option<String> {
        let entry = self.installation.dir.path().join("home/repos/octo/hello.git/worktrees/issue-1");
        fs::read_to_string(entry.join("locked")).ok().map(|reason| reason.trim_end().to_owned())
    }

    async fn store(&self) -> Store {
        self.installation.store().await
    }

    fn file(&self) -> String {
        format!("sqlite://{}", self.installation.dir.path().join("older.db").display())
    }

    /// An older database with three threads on GitHub (a worktree of ours, one of the older installation, none), one on
    /// Telegram, and two sessions.
    async fn fill(&self, url: &str, stage: Stage) {
        let web = self.installation.standin.web_url();
        let (own, older) = (self.own.display(), self.older.display());
        let [one, two, three] = self.issues;
        let mut rows = schema(stage, !url.starts_with("sqlite"));
        rows += &format!(
            "INSERT INTO remote_agent_codebases (id, name, repository_url, default_cwd, created_at)
             VALUES ('{}', 'hello', '{web}/octo/hello.git', '/workspace/hello', '2025-01-01T00:00:00Z');",
            id(1)
        );
        let paths = [Some(own.to_string()), Some(older.to_string()), None, None];
        let threads = [
            ("github", format!("{REPO}#{one}")),
            ("github", format!("{REPO}#{two}")),
            ("github", format!("{REPO}#{three}")),
            ("telegram", "-100/7".to_owned()),
        ];
        if stage == Stage::Environments {
            for (at, (work, path)) in [(one, own.to_string()), (two, older.to_string())].iter().enumerate() {
                rows += &format!(
                    "INSERT INTO remote_agent_isolation_environments (id, codebase_id, workflow_type, workflow_id, provider,
                         working_path, branch_name, status, created_at, created_by_platform, metadata)
                     VALUES ('{}', '{}', 'issue', '{work}', 'worktree', '{path}', 'issue-{work}', 'active',
                         '2025-01-02T00:00:00Z', 'github', '{{\"related_prs\": [9]}}');",
                    id(20 + u32::try_from(at).unwrap()),
                    id(1)
                );
            }
        }
        for (at, ((platform, thread), path)) in threads.iter().zip(&paths).enumerate() {
            let at = u32::try_from(at).unwrap();
            let quoted = path.as_ref().map_or("NULL".to_owned(), |path| format!("'{path}'"));
            let (columns, values) = match stage {
                Stage::Paths => (", worktree_path", format!(", {quoted}")),
                Stage::Providers => (", worktree_path, isolation_env_id", format!(", {quoted}, {quoted}")),
                Stage::Environments => (
                    ", isolation_env_id, last_activity_at",
                    path.as_ref()
                        .map_or(", NULL, NULL".to_owned(), |_| format!(", '{}', '2025-02-01T00:00:00Z'", id(20 + at))),
                ),
            };
            rows += &format!(
                "INSERT INTO remote_agent_conversations (id, platform_type, platform_conversation_id, codebase_id, created_at
                     {columns})
                 VALUES ('{}', '{platform}', '{thread}', '{}', '2025-01-01T00:00:00Z' {values});",
                id(10 + at),
                id(1)
            );
        }
        for (at, conversation, name) in [(30, 10, "memory-one"), (31, 12, "memory-three")] {
            rows += &format!(
                "INSERT INTO remote_agent_sessions (id, conversation_id, ai_assistant_type, assistant_session_id, active,
                     started_at)
                 VALUES ('{}', '{}', 'claude', '{name}', true, '2025-01-01T00:00:00Z');",
                id(at),
                id(conversation)
            );
        }
        execute(url, rows).await;
    }

    async fn import(&self, url: &str, more: &[&str]) -> Output {
        self.installation.run(&[&["import", "--from", url], more].concat()).await
    }

    async fn report(&self, url: &str, more: &[&str]) -> Value {
        let output = self.import(url, &[more, &["--json"]].concat()).await;
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Outcome and note of each place that waits.
    async fn backfill(&self, more: &[&str]) -> Vec<(String, String)> {
        let output = self.installation.run(&[&["import", "--backfill", "--json"], more].concat()).await;
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let said = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
        report["waiting"].as_array().unwrap().iter().map(|row| (said(row, "outcome"), said(row, "note"))).collect()
    }
}

fn made(path: &Path) -> PathBuf {
    fs::create_dir_all(path).unwrap();
    path.to_owned()
}

fn git(arguments: &[&str], directory: &Path) {
    let mut git = Program::new("git");
    git.args(arguments).current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(git.status().unwrap().success(), "git {arguments:?}");
}

fn commit(directory: &Path) {
    git(&["-c", "user.name=Ann", "-c", "user.email=ann@b.c", "commit", "-qm", "More", "--allow-empty"], directory);
}

/// Runs a test with an older database of each stage, as a file and on a server.
async fn with_each_source(test: impl AsyncFn(&Scene, &str, Stage)) {
    for stage in STAGES {
        let scene = Scene::new().await;
        let url = scene.file();
        scene.fill(&url, stage).await;
        test(&scene, &url, stage).await;
        let Some(database) = Database::create().await else { continue };
        let scene = Scene::new().await;
        scene.fill(&database.url, stage).await;
        test(&scene, &database.url, stage).await;
        database.drop().await;
    }
}

/// Outcome and note of a row.
fn row(report: &Value, number: u32) -> (String, String) {
    let rows = report["rows"].as_array().unwrap();
    let found =
        rows.iter().find(|row| row["id"] == id(number).as_str()).unwrap_or_else(|| panic!("{number} in {report}"));
    let said = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (said("outcome"), said("note"))
}

/// Everything an import may write, as text.
async fn everything(store: &Store) -> String {
    let mut found =
        format!("{:#?}{:#?}", store.list_codebases().await.unwrap(), store.held_conversations().await.unwrap());
    for codebase in store.list_codebases().await.unwrap() {
        for environment in store.live_environments(Some(codebase.id)).await.unwrap() {
            found += &format!("{environment:#?}{:#?}", store.conversations_of(environment.id).await.unwrap());
        }
        for number in 0..50 {
            found += &format!("{:?}", store.find_conversation(codebase.id, ThreadNumber(number)).await.unwrap());
        }
    }
    found + &format!("{:#?}{:#?}", store.legacy_paths().await.unwrap(), store.list_audit(50).await.unwrap())
}

#[tokio::test]
async fn every_stage_is_taken_over_once() {
    with_each_source(async |scene, url, stage| {
        let before = everything(&scene.store().await).await;
        let dry = scene.report(url, &["--dry-run"]).await;
        assert_eq!(everything(&scene.store().await).await, before, "a dry run changed something");
        let report = scene.report(url, &[]).await;
        assert_eq!(report["rows"], dry["rows"], "a dry run said something else");

        assert_eq!(row(&report, 1).0, "present", "{stage:?}");
        for number in [10, 11, 12, 13] {
            assert_eq!(row(&report, number).0, "taken", "{stage:?} {number}");
        }
        let elsewhere = row(&report, 11).1;
        let path = scene.older.display().to_string();
        assert!(elsewhere.contains("its work stays where it is") && elsewhere.contains(&path), "{elsewhere}");
        assert!(elsewhere.contains(&format!("`git -C {path} push origin issue-2`")), "{elsewhere}");
        assert!(row(&report, 13).1.contains("can talk on telegram"), "{report}");
        assert_eq!(row(&report, 31).0, "skipped", "no environment, no session");

        let store = scene.store().await;
        let codebase = store.find_codebase(&REPO.parse().unwrap()).await.unwrap().unwrap();
        let thread = async |at: usize| {
            store.find_conversation(codebase.id, ThreadNumber(scene.issues[at])).await.unwrap().unwrap()
        };
        let (one, two) = (thread(0).await, thread(1).await);
        let issue = ThreadId::Numbered { kind: ThreadKind::Issue, number: ThreadNumber(1) };
        assert_eq!((one.title.as_str(), &one.thread, one.state), ("One", &issue, ThreadState::Open));
        assert_eq!(one.created_at.to_string(), "2025-01-01T00:00:00Z");
        assert_eq!(two.environment, None);
        let live = store.live_environments(None).await.unwrap();
        match stage {
            Stage::Paths => {
                assert_eq!((live.len(), one.environment, scene.lock()), (0, None, None));
                assert_eq!(store.legacy_path(one.id).await.unwrap(), Some(scene.own.clone()));
                assert_eq!(store.legacy_path(two.id).await.unwrap(), None);
                assert_eq!(row(&report, 30).0, "skipped");
            }
            Stage::Providers | Stage::Environments => {
                let [environment] = &live[..] else { panic!("{live:#?}") };
                assert_eq!(one.environment, Some(environment.id));
                assert_eq!(scene.lock().as_deref(), Some(LOCK_REASON));
                assert_eq!((&environment.path, environment.state), (&scene.own, EnvironmentState::Active));
                assert_eq!(environment.work.to_string(), format!("issue-{}", scene.issues[0]));
                assert_eq!(environment.branch.as_str(), "issue-1");
                assert!(environment.metadata.migrated && environment.metadata.foreign_branch);
                let session = store.live_session(one.id, environment.id).await.unwrap().unwrap();
                assert_eq!((session.agent.as_str(), session.external_id.as_str()), ("claude", "memory-one"));
            }
        }
        if stage == Stage::Environments {
            assert_eq!(live[0].last_activity_at.to_string(), "2025-02-01T00:00:00Z");
            assert_eq!(live[0].metadata.links, [Work { kind: WorkKind::PullRequest, id: "9".to_owned() }]);
        }
        let held = store.held_conversations().await.unwrap();
        assert_eq!((held.len(), held[0].platform, held[0].codebase), (1, PlatformKind::Telegram, Some(codebase.id)));

        let after = everything(&store).await;
        let again = scene.report(url, &[]).await;
        assert_eq!(everything(&store).await, after, "twice is not once");
        for number in [1, 10, 11, 12, 13] {
            assert_eq!(row(&again, number).0, "present", "{stage:?} {number}");
        }
        assert!(scene.older.join("README.md").exists() && scene.own.join("README.md").exists());
        store.close().await;
    })
    .await;
}

/// The service puts such things back before it lets git near them. A dry run does not even do that, and says so.
#[tokio::test]
async fn a_dry_run_leaves_a_repository_as_somebody_changed_it() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Environments).await;
    let repository = scene.installation.dir.path().join("home/repos/octo/hello.git");
    let config = fs::read_to_string(repository.join("config")).unwrap();
    let changed = config.clone() + "[filter \"x\"]\n\tclean = touch ran\n";
    fs::write(repository.join("config"), &changed).unwrap();
    fs::create_dir(repository.join("hooks")).unwrap();
    fs::write(made(&repository.join("info")).join("attributes"), "* filter=x\n").unwrap();
    let (outcome, note) = row(&scene.report(&url, &["--dry-run"]).await, 20);
    assert!(outcome == "skipped" && note.contains("the configuration of its repository was changed"), "{note}");
    scene.backfill(&["--dry-run"]).await;
    assert_eq!(fs::read_to_string(repository.join("config")).unwrap(), changed);
    assert!(repository.join("hooks").exists() && repository.join("info/attributes").exists());
    assert_eq!(row(&scene.report(&url, &[]).await, 20), ("taken".to_owned(), String::new()));
    assert_eq!(fs::read_to_string(repository.join("config")).unwrap(), config);
    assert!(!repository.join("hooks").exists() && !scene.own.join("ran").exists());
}

#[tokio::test]
async fn the_older_file_and_an_unborn_home_are_not_touched() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Environments).await;
    let file = scene.installation.dir.path().join("older.db");
    let listed = || {
        let mut names: Vec<_> =
            fs::read_dir(scene.installation.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for journal in ["DELETE", "WAL"] {
        execute(&url, format!("PRAGMA journal_mode = {journal};")).await;
        let (bytes, names) = (fs::read(&file).unwrap(), listed());
        let home = scene.installation.dir.path().join("unborn");
        let output = output_of(
            scene.installation.command(&["import", "--from", &url, "--dry-run"]).env("TREEWARDEN_HOME", &home),
        )
        .await;
        assert!(output.status.success() && text(&output.stdout).contains("Nothing was changed."), "{output:?}");
        assert!(text(&output.stdout).contains("would be taken  codebases              octo/hello"), "{output:?}");
        assert_eq!((fs::read(&file).unwrap(), listed()), (bytes, names), "{journal}");
    }
}

#[tokio::test]
async fn without_the_app_repositories_wait_and_chats_come() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Paths).await;
    let home = scene.installation.dir.path().join("other");
    let mut command = treewarden(&["import", "--from", &url, "--json"], &home);
    let standin = &scene.installation.standin;
    command.env("GITHUB_WEB_URL", standin.web_url()).env("GITHUB_API_URL", standin.api_url());
    let output = output_of(&mut command).await;
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for number in [1, 10, 12] {
        let (outcome, note) = row(&report, number);
        assert!(outcome == "skipped" && note.contains("connect the App first"), "{number}: {note}");
    }
    assert_eq!(row(&report, 13).0, "taken");
    // Once the App is there, the same command takes the rest.
    let mut command = scene.installation.command(&["import", "--from", &url, "--json"]);
    let output = output_of(command.env("TREEWARDEN_HOME", &home)).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((row(&report, 1).0.as_str(), row(&report, 12).0.as_str()), ("taken", "taken"), "{report}");
    assert_eq!(row(&report, 13).0, "taken", "it knows its repository now");
}

#[tokio::test]
async fn odd_rows_are_named_and_keep_nobody_else_away() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Environments).await;
    let web = scene.installation.standin.web_url();
    let thread = scene.issues[2];
    scene.installation.standin.rename_repository(REPO, "renamed").unwrap();
    execute(
        &url,
        format!(
            "INSERT INTO remote_agent_codebases (id, name, repository_url) VALUES
                 ('{}', 'local', NULL), ('{}', 'lab', 'https://token:secret@gitlab.com/a/b'), ('{}', 'odd', '{web}/x'),
                 ('{}', 'absent', '{web}/octo/absent');
             INSERT INTO remote_agent_conversations (id, platform_type, platform_conversation_id) VALUES
                 ('{}', 'github', 'nonsense'), ('{}', 'test', 'x'), ('{}', NULL, NULL), ('{}', 'github', 'octo/absent#1'),
                 ('{}', 'github', '{REPO}#999'), ('{}', 'github', 'octo/renamed#{thread}'), (NULL, 'slack', 'C1');
             INSERT INTO remote_agent_isolation_environments
                 (id, codebase_id, workflow_type, workflow_id, provider, working_path, branch_name, status) VALUES
                 ('{}', '{own}', 'issue', '7', 'worktree', '/nowhere', 'issue-7', 'active'),
                 ('{}', '{own}', 'issue', '8', 'worktree', '/nowhere', 'issue-8', 'destroyed'),
                 ('{}', '{own}', 'issue', '9', 'container', '/nowhere', 'issue-9', 'active'),
                 ('{}', '{own}', 'dream', '9', 'worktree', '/nowhere', 'issue-9', 'active'),
                 ('{}', '{own}', 'issue', '10', 'worktree', 'relative/path', 'x', 'active'),
                 ('{}', 'no id', NULL, NULL, NULL, NULL, NULL, NULL);
             INSERT INTO remote_agent_sessions (id, conversation_id, ai_assistant_type, assistant_session_id, active) VALUES
                 ('{}', '{}', 'claude', NULL, 1), ('{}', 'nobody', 'claude', 's', 1), ('{}', '{}', 'claude', 's', 0);",
            id(2), id(3), id(4), id(5),
            id(40), id(41), id(42), id(43), id(44), id(45),
            id(50), id(51), id(52), id(53), id(54), id(55),
            id(60), id(10), id(61), id(62), id(10),
            own = id(1),
        ),
    )
    .await;
    let report = scene.report(&url, &[]).await;
    for (number, why) in [
        (2, "neither an address nor a path"),
        (3, "it is on gitlab.com"),
        (4, "its repository_url"),
        (5, "not installed"),
        (40, "its platform_conversation_id"),
        (41, "no platform called test"),
        (42, "its platform_type"),
        (43, "not installed"),
        (44, "no such issue"),
        (45, "the same thread"),
        (50, "no worktree at /nowhere"),
        (51, "removed there already"),
        (52, "its kind, container"),
        (53, "its workflow_type"),
        (54, "not an absolute path"),
        (55, "its status"),
        (60, "its assistant_session_id"),
        (61, "its conversation was not"),
        (62, "over already"),
    ] {
        let (outcome, note) = row(&report, number);
        assert!(outcome == "skipped" && note.contains(why), "{number}: {note}");
    }
    assert!(!report.to_string().contains("secret"), "{report}");
    let slack = report["rows"].as_array().unwrap().iter().find(|row| row["about"] == "C1").unwrap();
    assert_eq!((&slack["outcome"], &slack["id"]), (&"taken".into(), &"(row 1)".into()), "{slack}");
    for number in [10, 11, 12, 13, 20, 30] {
        assert_eq!(row(&report, number).0, "taken", "{number}");
    }
}

#[tokio::test]
async fn what_stays_away_is_told_with_the_way_on_and_obeyed_by_no_terminal() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Environments).await;
    let link = scene.installation.dir.path().join("link");
    std::os::unix::fs::symlink(&scene.own, &link).unwrap();
    execute(
        &url,
        format!(
            "INSERT INTO remote_agent_codebases (id, name, repository_url) VALUES
                 ('{}', 'la\u{202e}b\u{1b}[2J', 'https://gitlab.com/a/b');
             INSERT INTO remote_agent_conversations (id, platform_type, platform_conversation_id) VALUES
                 ('{}', 'local', 'my chat');
             INSERT INTO remote_agent_sessions (id, conversation_id, ai_assistant_type, assistant_session_id, active) VALUES
                 ('{}', '{}', 'claude', 's', 1);
             INSERT INTO remote_agent_isolation_environments
                 (id, codebase_id, workflow_type, workflow_id, provider, working_path, branch_name, status) VALUES
                 ('{}', '{}', 'issue', '7', 'worktree', '{}', 'issue-7', 'active');",
            id(2), id(40), id(60), id(40), id(50), id(1), link.display(),
        ),
    )
    .await;
    let printed = text(&scene.import(&url, &["--dry-run"]).await.stdout);
    assert!(printed.contains(r"la\u202eb\u001b[2J") && !printed.contains(['\u{202e}', '\u{1b}']), "{printed}");
    let report = scene.report(&url, &["--dry-run"]).await;
    let link = format!("what is at {} is a link", link.display());
    for (number, way) in [
        (40, "`treewarden say --conversation 'my chat' …`"),
        (60, "only goes on when somebody speaks in it here"),
        (50, &link),
    ] {
        assert!(row(&report, number).1.contains(way), "{number}: {report}");
    }
}

#[tokio::test]
async fn what_cannot_be_imported_from_is_said_and_nothing_is_made() {
    let scene = Scene::new().await;
    let dir = scene.installation.dir.path();
    let named = |name: &str| format!("sqlite://{}", dir.join(name).display());
    fs::write(dir.join("text"), "just a text").unwrap();
    execute(&named("empty.db"), "CREATE TABLE other (id INTEGER);".to_owned()).await;
    execute(&named("half.db"), "CREATE TABLE remote_agent_codebases (id TEXT, repository_url TEXT);".to_owned()).await;
    let newer = schema(Stage::Environments, false)
        + "ALTER TABLE remote_agent_conversations ADD COLUMN isolation_workspace_id TEXT;";
    execute(&named("newer.db"), newer).await;
    let ours = named("home/treewarden.db");
    for (url, why) in [
        (named("nothing.db"), "there is no file"),
        (named("text"), "is not a SQLite database"),
        (named("empty.db"), "none of the older tables"),
        (ours, "none of the older tables"),
        (named("half.db"), "lacks the table remote_agent_conversations, the table remote_agent_sessions"),
        (named("newer.db"), "column isolation_workspace_id"),
        ("mysql://root:geheim@host/db".to_owned(), "Expected sqlite://"),
        ("postgres://root:geheim@host:port/db".to_owned(), "Expected sqlite://"),
        ("postgres://root:geheim@127.0.0.1:1/db".to_owned(), "cannot be read"),
    ] {
        let home = dir.join("fresh");
        let output =
            output_of(scene.installation.command(&["import", "--from", &url]).env("TREEWARDEN_HOME", &home)).await;
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{url}: {said}");
        assert!(!said.contains("geheim") && !home.exists(), "{url}: {said}");
    }
    assert!(!dir.join("nothing.db").exists());
}

#[tokio::test]
async fn beside_a_running_service_only_a_dry_run_is_done() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Paths).await;
    let serving = scene.installation.serve().await;
    let refused = scene.import(&url, &[]).await;
    assert!(!refused.status.success() && text(&refused.stderr).contains("Another Treewarden runs"), "{refused:?}");
    assert!(scene.import(&url, &["--dry-run"]).await.status.success());
    serving.stop().await;
    assert!(scene.import(&url, &[]).await.status.success());
}

#[tokio::test]
async fn a_repository_on_this_machine_comes_with_its_chats() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Environments).await;
    let clone = scene.installation.dir.path().canonicalize().unwrap().join("older/clone");
    execute(
        &url,
        format!(
            "INSERT INTO remote_agent_codebases (id, name, default_cwd) VALUES
                 ('{}', 'clone', '{}'), ('{}', 'gone', '/nowhere/at/all');
             INSERT INTO remote_agent_conversations (id, platform_type, platform_conversation_id, codebase_id) VALUES
                 ('{}', 'slack', 'C1', '{local}');
             INSERT INTO remote_agent_isolation_environments
                 (id, codebase_id, workflow_type, workflow_id, provider, working_path, branch_name, status) VALUES
                 ('{}', '{local}', 'issue', '7', 'worktree', '{}', 'issue-2', 'active');",
            id(2),
            scene.older.display(),
            id(3),
            id(40),
            id(50),
            scene.older.display(),
            local = id(2),
        ),
    )
    .await;
    let report = scene.report(&url, &[]).await;
    assert_eq!((row(&report, 2).0.as_str(), row(&report, 40).0.as_str()), ("taken", "taken"), "{report}");
    assert!(row(&report, 3).1.contains("no repository at /nowhere/at/all"), "{report}");
    let stays = row(&report, 50).1;
    assert!(stays.contains("its branch issue-2 is in the repository") && stays.contains("switch --detach"), "{stays}");
    let store = scene.store().await;
    let local = store.find_codebase_by_path(&clone).await.unwrap().unwrap();
    assert_eq!((local.name.to_string().as_str(), local.repository_dir.as_str()), ("_local/clone", "_local/clone.git"));
    let held = store.held_conversations().await.unwrap();
    assert!(held.iter().any(|held| held.thread == "C1" && held.codebase == Some(local.id)), "{held:?}");
    store.close().await;
    assert_eq!(row(&scene.report(&url, &[]).await, 2).0, "present");
}

#[tokio::test]
async fn backfill_makes_environments_and_forgets_what_can_never_become_one() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Paths).await;
    scene.report(&url, &[]).await;
    let store = scene.store().await;
    let now = Timestamp::from_unix(1_800_000_000);
    let codebase = store.list_codebases().await.unwrap().remove(0);
    let thread =
        async |at: usize| store.find_conversation(codebase.id, ThreadNumber(scene.issues[at])).await.unwrap().unwrap();
    let (one, three) = (thread(0).await, thread(2).await);
    let gone = scene.own.with_file_name("gone");
    for (key, path) in [(id(99), &scene.own), (three.id.to_string(), &gone)] {
        store.set_setting(&format!("legacy/{key}"), &serde_json::json!({"path": path}), now).await.unwrap();
    }
    store.set_setting("legacy/nonsense", &Value::Null, now).await.unwrap();
    fs::write(scene.own.join("begun.txt"), "begun").unwrap();
    let dry = scene.backfill(&["--dry-run"]).await;
    assert_eq!((store.legacy_paths().await.unwrap().len(), store.live_environments(None).await.unwrap().len()), (4, 0));
    assert_eq!((scene.lock(), scene.backfill(&[]).await), (None, dry.clone()));
    assert_eq!(scene.lock().as_deref(), Some(LOCK_REASON));
    let mut outcomes: Vec<&str> = dry.iter().map(|(outcome, _)| outcome.as_str()).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["forgotten", "forgotten", "forgotten", "taken"], "{dry:?}");
    assert!(dry.iter().any(|(_, note)| note.contains("no worktree at")), "{dry:?}");
    assert_eq!(store.legacy_paths().await.unwrap(), [], "nothing of old is left");

    let [environment] = &store.live_environments(None).await.unwrap()[..] else { panic!() };
    assert_eq!((&environment.path, environment.work.to_string()), (&scene.own, format!("issue-{}", scene.issues[0])));
    let EnvironmentMetadata { migrated, foreign_branch, adopted_from, untold, .. } = &environment.metadata;
    assert!(*migrated && *foreign_branch && *adopted_from == Some(AdoptedFrom::Legacy));
    assert!(untold[..].concat().contains("not committed yet"), "{untold:?}");
    assert_eq!(thread(0).await.environment, Some(environment.id));
    assert_eq!(one.environment, None);
    assert_eq!(scene.backfill(&[]).await, [], "twice is once");
    assert_eq!(store.live_environments(None).await.unwrap().len(), 1);
    store.close().await;
}

#[tokio::test]
async fn a_worktree_whose_row_is_refused_is_not_locked() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Paths).await;
    scene.report(&url, &[]).await;
    let store = scene.store().await;
    let codebase = store.list_codebases().await.unwrap().remove(0);
    let other = NewEnvironment {
        codebase: codebase.id,
        work: Work { kind: WorkKind::Task, id: "other".to_owned() },
        branch: BranchName::new("issue-1").unwrap(),
        path: scene.own.with_file_name("other"),
        base: None,
        provider: "worktree".to_owned(),
        metadata: EnvironmentMetadata::default(),
    };
    let now = Timestamp::from_unix(1_800_000_000);
    let Inserted::Created(other) = store.insert_environment(other, 25, now).await.unwrap() else { panic!() };
    let [(outcome, note)] = &scene.backfill(&[]).await[..] else { panic!() };
    assert!(outcome == "kept" && note.contains("something else is in its place here"), "{outcome} {note}");
    assert_eq!((scene.lock(), store.legacy_paths().await.unwrap().len()), (None, 1));
    store.destroy_environment(&other, None, now).await.unwrap();
    assert_eq!(scene.backfill(&[]).await, [("taken".to_owned(), String::new())]);
    assert_eq!(scene.lock().as_deref(), Some(LOCK_REASON));
    store.close().await;
}

/// Its `.git` was lost, and is brought back by hand.
#[tokio::test]
async fn a_broken_worktree_waits_until_it_is_mended() {
    for stage in STAGES {
        let scene = Scene::new().await;
        let url = scene.file();
        scene.fill(&url, stage).await;
        let link = fs::read(scene.own.join(".git")).unwrap();
        fs::remove_file(scene.own.join(".git")).unwrap();
        let (outcome, note) = row(&scene.report(&url, &[]).await, 10);
        assert!(outcome == "taken" && note.contains("is damaged, so it waits"), "{stage:?}: {outcome} {note}");
        let store = scene.store().await;
        let [(outcome, note)] = &scene.backfill(&[]).await[..] else { panic!() };
        assert!(outcome == "kept" && note.contains("is damaged"), "{outcome} {note}");
        assert!(store.live_environments(None).await.unwrap().is_empty());
        fs::write(scene.own.join(".git"), link).unwrap();
        assert_eq!(scene.backfill(&[]).await, [("taken".to_owned(), String::new())]);
        assert_eq!(store.live_environments(None).await.unwrap()[0].path, scene.own);
        store.close().await;
    }
}

/// The repository that work would be pushed to is only known by its name.
#[tokio::test]
async fn whether_work_is_on_a_remote_that_was_never_fetched_is_not_known() {
    let scene = Scene::new().await;
    let url = scene.file();
    scene.fill(&url, Stage::Paths).await;
    fs::remove_dir_all(scene.installation.dir.path().join("home/repos/octo")).unwrap();
    let (_, note) = row(&scene.report(&url, &[]).await, 11);
    assert!(note.contains("could not be asked") && !note.contains("are not on the remote"), "{note}");
}
