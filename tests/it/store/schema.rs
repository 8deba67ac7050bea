//! The tables: the same on both engines, reached step by step with data in them, and never from a newer schema down.

use super::{accept, delivery, on_each_engine, on_each_store, on_each_url};
use crate::support::postgres::Database;
use sqlx::{
    Connection, Executor, PgConnection, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use treewarden::{
    model::*,
    store::{Schema, Store, StoreError, statements},
};

/// Runs a text on the database behind a URL, past the store.
pub(super) async fn raw(url: &str, text: &'static str) {
    match url.strip_prefix("sqlite://") {
        Some(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
            connection.execute(sqlx::raw_sql(text)).await.unwrap();
            connection.close().await.unwrap();
        }
        None => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            connection.execute(sqlx::raw_sql(text)).await.unwrap();
            connection.close().await.unwrap();
        }
    }
}

/// What a text that selects one text answers with, past the store.
pub(super) async fn raw_text(url: &str, text: &'static str) -> String {
    match url.strip_prefix("sqlite://") {
        Some(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
            let found = sqlx::query_scalar(text).fetch_one(&mut connection).await.unwrap();
            connection.close().await.unwrap();
            found
        }
        None => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            let found = sqlx::query_scalar(text).fetch_one(&mut connection).await.unwrap();
            connection.close().await.unwrap();
            found
        }
    }
}

#[tokio::test]
async fn every_statement_prepares() {
    on_each_engine(async |store| {
        assert_eq!(store.check_statements().await, Vec::<String>::new());
    })
    .await;
}

/// What is not in the list is not prepared above: every text in the sources has to be there.
#[test]
fn every_statement_is_in_the_list() {
    let mut written = BTreeMap::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let statements = text.matches("sql!(").count();
            if statements > 0 {
                let file = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
                written.insert(file.to_str().unwrap().to_owned(), statements);
            }
        }
    }
    let mut listed = BTreeMap::new();
    for statement in statements() {
        *listed.entry(statement.file.to_owned()).or_insert(0) += 1;
    }
    assert_eq!(listed, written);
    assert!(listed.keys().all(|file| file.starts_with("src/store")), "SQL lives in the store only");
}

#[tokio::test]
async fn migrating_again_changes_nothing() {
    on_each_engine(async |store| {
        store.migrate().await.unwrap();
        store.ping().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn processes_that_start_together_migrate_once() {
    on_each_url(async |url| {
        let (one, two) = (Store::open(&url).await.unwrap(), Store::open(&url).await.unwrap());
        let (first, second) = tokio::join!(one.migrate(), two.migrate());
        assert_eq!((first, second), (Ok(()), Ok(())));
        one.close().await;
        two.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    on_each_url(async |url| {
        let store = Store::open(&url).await.unwrap();
        store.migrate().await.unwrap();
        let text = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                    VALUES (9000, 'from the future', true, '', 0)";
        let sqlite = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                      VALUES (9000, 'from the future', true, x'', 0)";
        raw(&url, if url.starts_with("sqlite") { sqlite } else { text }).await;
        let known = *Store::schema_versions().last().unwrap();
        assert_eq!(store.migrate().await, Err(StoreError::NewerSchema { found: 9000, known }));
        assert_eq!(Store::schema(&url).await.unwrap(), Schema::Newer { found: 9000, known });
        store.close().await;
    })
    .await;
}

/// What the schema was filled with right after each step, in the words of that step. A new migration adds its own line;
/// the older ones never change.
const FILLED: &[(i64, &str)] = &[
    (
        1,
        "INSERT INTO codebases (id, github_id, installation_id, name, repository_dir, connected, created_at, updated_at)
         VALUES ('01900000-0000-7000-8000-000000000001', 1, 7, 'octo/hello', 'octo/hello.git', true,
                 '2026-11-28T00:00:00.000000Z', '2026-11-28T00:00:00.000000Z');
         INSERT INTO isolation_environments (id, codebase_id, workflow_type, workflow_id, branch, path, state, pinned,
                 provider, metadata, version, created_at, last_activity_at)
         VALUES ('01900000-0000-7000-8000-000000000002', '01900000-0000-7000-8000-000000000001', 'issue', '42', 'issue-42',
                 '/w/issue-42', 'active', true, 'worktree', '{}', 3, '2026-11-28T00:00:00.000000Z',
                 '2026-11-28T00:00:00.000000Z');
         INSERT INTO conversations (id, platform, codebase_id, kind, number, title, state, environment_id, created_at,
                 updated_at)
         VALUES ('01900000-0000-7000-8000-000000000003', 'github', '01900000-0000-7000-8000-000000000001', 'issue', 42,
                 'Greeting', 'open', '01900000-0000-7000-8000-000000000002', '2026-11-28T00:00:00.000000Z',
                 '2026-11-28T00:00:00.000000Z');",
    ),
    (
        2,
        "INSERT INTO outbox (id, key, codebase_id, outgoing, version, sent_version, state, attempts, not_before,
                 created_at, updated_at)
         VALUES ('01900000-0000-7000-8000-000000000004', 'greeting', '01900000-0000-7000-8000-000000000001',
                 '{\"kind\":\"comment\",\"number\":42,\"body\":\"hello\",\"marker\":\"m\"}', 1, 0, 'pending', 0,
                 '2026-11-28T00:00:00.000000Z', '2026-11-28T00:00:00.000000Z', '2026-11-28T00:00:00.000000Z');",
    ),
    (3, "INSERT INTO settings (key, value, updated_at) VALUES ('colour', '\"green\"', '2026-11-28T00:00:00.000000Z');"),
    (4, "UPDATE inbox SET tries = tries + 1;"),
    (5, "UPDATE runs SET attempts = attempts + 1;"),
    (
        6,
        "INSERT INTO held_conversations (id, platform, thread, environment_id, created_at, last_activity_at)
         VALUES ('01900000-0000-7000-8000-000000000005', 'telegram', '-100/7', '01900000-0000-7000-8000-000000000002',
                 '2026-11-28T00:00:00.000000Z', '2026-11-28T00:00:00.000000Z');",
    ),
    (7, "UPDATE outbox SET attempts = attempts + 1;"),
    (8, "UPDATE inbox SET stopped = true;"),
    (9, "INSERT INTO outbox_pauses (installation_id, everything_until) VALUES (8, '2026-11-28T00:00:00.000000Z');"),
    (
        10,
        "INSERT INTO approvals (conversation_id, head, approver_id, approver, approved_at)
         VALUES ('01900000-0000-7000-8000-000000000003', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 5, 'ada',
                 '2026-11-28T00:00:00.000000Z');",
    ),
    (
        11,
        "INSERT INTO codebases (id, github_id, installation_id, name, repository_dir, connected, local_path, created_at,
                 updated_at)
         VALUES ('01900000-0000-7000-8000-000000000006', -1, 0, '_local/tools', '_local/tools.git', true, '/srv/tools',
                 '2026-11-28T00:00:00.000000Z', '2026-11-28T00:00:00.000000Z');
         INSERT INTO conversations (id, platform, codebase_id, kind, number, thread, title, state, created_at, updated_at)
         VALUES ('01900000-0000-7000-8000-000000000007', 'local', '01900000-0000-7000-8000-000000000006', 'named', 1,
                 'chat', 'Tidy up', 'open', '2026-11-28T00:00:00.000000Z', '2026-11-28T00:00:00.000000Z');
         INSERT INTO local_messages (id, conversation_id, body, written, created_at, updated_at)
         VALUES ('01900000-0000-7000-8000-000000000008', '01900000-0000-7000-8000-000000000007', 'hello', 1,
                 '2026-11-28T00:00:00.000000Z', '2026-11-28T00:00:00.000000Z');",
    ),
    (12, "UPDATE isolation_environments SET version = version + 1;"),
    (13, "UPDATE runs SET review = 9;"),
    (14, "UPDATE outbox SET turn = 2;"),
    (15, "UPDATE isolation_environments SET version = version + 1;"),
    (16, "UPDATE receipts SET details = details;"),
    (17, "UPDATE outbox SET lane = '7', sent_at = updated_at;"),
    (20, "UPDATE codebases SET mode = 'staged';"),
    (21, "UPDATE codebases SET access_since = updated_at;"),
];

#[tokio::test]
async fn data_survives_every_step() {
    let steps: Vec<i64> = FILLED.iter().map(|(version, _)| *version).collect();
    assert_eq!(steps, Store::schema_versions(), "each migration has a line in FILLED");
    on_each_url(async |url| {
        let store = Store::open(&url).await.unwrap();
        for (version, text) in FILLED {
            store.migrate_to(*version).await.unwrap();
            raw(&url, text).await;
        }
        let mut codebases = store.list_codebases().await.unwrap();
        let here = codebases.remove(0);
        assert_eq!((here.host.clone(), here.installation()), (Host::Local { path: "/srv/tools".into() }, None));
        let codebase = codebases.remove(0);
        assert_eq!((codebase.name.to_string().as_str(), codebase.connected), ("octo/hello", true));
        assert_eq!(codebase.host, Host::Github { id: RepositoryId(1), installation: InstallationId(7) });
        let chat =
            store.find_named_thread(PlatformKind::Local, &ThreadName::new("chat").unwrap()).await.unwrap().unwrap();
        assert_eq!((chat.codebase, chat.title.as_str()), (here.id, "Tidy up"));
        assert_eq!(store.local_messages(chat.id, 0, 10).await.unwrap()[0].body, "hello");
        let environment = store.live_environments(Some(codebase.id)).await.unwrap().remove(0);
        assert_eq!((environment.work.to_string().as_str(), environment.pinned), ("issue-42", true));
        let threads = store.conversations_of(environment.id).await.unwrap();
        assert_eq!(threads.len(), 1);
        let approval = store.load_approval(threads[0].id).await.unwrap().unwrap();
        assert_eq!((approval.approver, approval.login.as_str(), approval.ended_at), (UserId(5), "ada", None));
        let issue = ThreadId::Numbered { kind: ThreadKind::Issue, number: ThreadNumber(42) };
        assert_eq!(threads.into_iter().map(|thread| thread.thread).collect::<Vec<_>>(), [issue]);
        assert_eq!(store.held_conversations_of(environment.id).await.unwrap()[0].platform, PlatformKind::Telegram);
        assert!(store.load_outgoing_by_key("greeting").await.unwrap().is_some());
        assert_eq!(store.setting("colour").await.unwrap(), Some("green".into()));
        assert!(store.update_environment(&environment).await.is_ok());
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn receipts_of_before_are_found_by_their_request() {
    const BEFORE: &str = "INSERT INTO isolation_environments (id, codebase_id, workflow_type, workflow_id, branch, path, state, pinned,
                 provider, metadata, version, created_at, last_activity_at, destroyed_at)
         VALUES ('01900000-0000-7000-8000-000000000009', '01900000-0000-7000-8000-000000000001', 'issue', '9', 'issue-9',
                 '/w/issue-9', 'destroyed', false, 'worktree', '{}', 3, '2026-11-28T00:00:00.000000Z',
                 '2026-11-28T00:00:00.000000Z', '2026-11-28T00:00:00.000000Z');
         INSERT INTO receipts (id, environment_id, trigger_kind, details, created_at)
         VALUES ('01900000-0000-7000-8000-00000000000a', '01900000-0000-7000-8000-000000000009', 'command',
                 '{\"asked_in\":\"01900000-0000-7000-8000-00000000000b\"}', '2026-11-28T00:00:00.000000Z');";
    on_each_url(async |url| {
        let store = Store::open(&url).await.unwrap();
        store.migrate_to(15).await.unwrap();
        raw(&url, FILLED[0].1).await;
        raw(&url, BEFORE).await;
        store.migrate().await.unwrap();
        let delivery = "01900000-0000-7000-8000-00000000000b".parse().unwrap();
        assert_eq!(store.receipts_for(delivery).await.unwrap().len(), 1);
        store.close().await;
    })
    .await;
}

/// Column name → (kind, may be NULL), by table.
type Tables = BTreeMap<String, BTreeMap<String, (String, bool)>>;

#[tokio::test]
async fn both_engines_have_the_same_tables() {
    let Some(database) = Database::create().await else { return };
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("store.db");
    for url in [format!("sqlite://{}", file.display()), database.url.clone()] {
        let store = Store::open(&url).await.unwrap();
        store.migrate().await.unwrap();
        store.close().await;
    }
    let sqlite = SqlitePoolOptions::new().connect_with(SqliteConnectOptions::new().filename(&file)).await.unwrap();
    let rows = sqlx::query(
        "SELECT m.name AS t, c.name AS c, c.type AS k, c.\"notnull\" = 0 AS n
         FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'",
    )
    .fetch_all(&sqlite)
    .await
    .unwrap();
    let mut in_sqlite = Tables::new();
    for row in rows.iter().filter(|row| {
        !row.get::<&str, _>("t").starts_with(['_', 's']) || matches!(row.get("t"), "sessions" | "settings")
    }) {
        in_sqlite.entry(row.get("t")).or_default().insert(row.get("c"), (row.get("k"), row.get("n")));
    }
    sqlite.close().await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let rows = sqlx::query(
        "SELECT table_name::text AS t, column_name::text AS c, data_type::text AS k, is_nullable = 'YES' AS n
         FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE '\\_%'",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let mut in_postgres = Tables::new();
    for row in &rows {
        let kind = match row.get("k") {
            "uuid" | "text" | "jsonb" | "timestamp with time zone" => "TEXT",
            "bigint" | "boolean" => "INTEGER",
            "bytea" => "BLOB",
            other => panic!("no counterpart for {other}"),
        };
        in_postgres.entry(row.get("t")).or_default().insert(row.get("c"), (kind.to_owned(), row.get("n")));
    }
    connection.close().await.unwrap();
    assert_eq!(in_sqlite, in_postgres);
    let expected = "approvals audit_log cleanup_reports codebases conversations held_conversations inbox isolation_environments local_messages outbox \
                    outbox_pauses receipts runs sessions settings web_sessions workstreams";
    assert_eq!(in_sqlite.keys().map(String::as_str).collect::<Vec<_>>().join(" "), expected);
    database.drop().await;
}

#[tokio::test]
async fn the_file_is_private_and_durable() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("a b%20c?.db");
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    store.migrate().await.unwrap();
    for name in fs::read_dir(home.path()).unwrap() {
        let entry = name.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
    store.close().await;
    let reopened = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    reopened.ping().await.unwrap();
    reopened.close().await;
}

/// A killed process loses nothing either way; only the engine can say what a loss of power would take.
#[tokio::test]
async fn what_was_answered_is_on_the_disk() {
    on_each_store(async |store, url| {
        let expected = if url.starts_with("sqlite:") { "wal 2" } else { "on" };
        // Also on the connections that come later.
        for _ in 0..3 {
            assert_eq!(store.flushing().await.as_deref(), Ok(expected));
            accept(&store.inbox_writer(), delivery(url, None)).await;
            raw(url, "DELETE FROM inbox").await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    // Its own memory of migrations has the same name and form as ours.
    const MIGRATED: &str = "CREATE TABLE _sqlx_migrations (version BIGINT, success BOOLEAN, checksum TEXT);
        INSERT INTO _sqlx_migrations VALUES (1, true, 'x');";
    const MIGRATED_THERE: &str = "CREATE TABLE _sqlx_migrations (version BIGINT, success BOOLEAN, checksum BYTEA);
        INSERT INTO _sqlx_migrations VALUES (1, true, 'x');";
    on_each_url(async |url| {
        let is_file = url.starts_with("sqlite");
        for (text, names) in [
            ("CREATE TABLE orders (id INTEGER); CREATE TABLE people (id INTEGER)", vec!["orders", "people"]),
            ("DROP TABLE orders; DROP TABLE people", vec![]),
            (if is_file { MIGRATED } else { MIGRATED_THERE }, vec![]),
        ] {
            if is_file {
                fs::OpenOptions::new().create(true).append(true).open(url.strip_prefix("sqlite://").unwrap()).unwrap();
            }
            raw(&url, text).await;
            let bytes = || url.strip_prefix("sqlite://").map(|file| fs::read(file).unwrap());
            let before = bytes();
            if text.starts_with("DROP") {
                assert_eq!(Store::schema(&url).await, Ok(Schema::Missing));
                continue;
            }
            let refused = StoreError::OtherProgram(names.into_iter().map(str::to_owned).collect());
            assert_eq!(Store::schema(&url).await, Err(refused.clone()), "{text}");
            assert_eq!(Store::open(&url).await.unwrap_err(), refused, "{text}");
            assert_eq!(bytes(), before, "{text}");
        }
        raw(&url, "DROP TABLE _sqlx_migrations; CREATE TABLE remote_agent_sessions (id TEXT)").await;
        let store = Store::open(&url).await.expect("the older schema may lie beside ours");
        store.migrate().await.unwrap();
        raw(&url, "CREATE TABLE somebody_elses (id TEXT)").await;
        assert_eq!(Store::schema(&url).await, Ok(Schema::Current), "beside ours");
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn tables_elsewhere_on_the_server_are_nobodys_business() {
    on_each_url(async |url| {
        if url.starts_with("sqlite") {
            return;
        }
        let made = "CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.orders (id INTEGER)";
        raw(&url, made).await;
        assert_eq!(Store::schema(&url).await, Ok(Schema::Missing));
        raw(&url, "DROP SCHEMA elsewhere CASCADE").await;
    })
    .await;
}

#[tokio::test]
async fn a_url_that_leads_nowhere_says_so() {
    for url in [
        "mysql://x/y",
        "",
        "sqlite://",
        "sqlite::memory:",
        "sqlite:///tmp",
        "sqlite:///dev/null",
        "sqlite:///dev/null/x",
    ] {
        assert!(matches!(Store::open(url).await, Err(StoreError::Url(_))), "{url}");
    }
    let error = Store::open("sqlite:///no/such/directory/store.db").await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("/no/such/directory"), "{error}");
    let error = Store::open("postgres://someone:hunter2@127.0.0.1:1/none").await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)) && !error.to_string().contains("hunter2"), "{error}");
}

#[tokio::test]
async fn the_schema_is_told_without_touching_the_database() {
    on_each_url(async |url| {
        let newest = *Store::schema_versions().last().unwrap();
        let file = url.strip_prefix("sqlite://").map(PathBuf::from);
        let beside = || file.as_ref().map(|file| fs::read_dir(file.parent().unwrap()).unwrap().count());
        assert_eq!(Store::schema(&url).await.unwrap(), Schema::Missing);
        assert_eq!(beside().unwrap_or_default(), 0);

        let store = Store::open(&url).await.unwrap();
        assert_eq!(Store::schema(&url).await.unwrap(), Schema::Missing);
        store.migrate_to(1).await.unwrap();
        assert_eq!(Store::schema(&url).await.unwrap(), Schema::Older { found: 1, known: newest });
        store.migrate().await.unwrap();
        assert_eq!(Store::schema(&url).await.unwrap(), Schema::Current);
        store.close().await;
        let before = beside();
        assert_eq!(Store::schema(&url).await.unwrap(), Schema::Current);
        assert_eq!(beside(), before);
    })
    .await;
}
