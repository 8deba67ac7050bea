//! Statements find their rows by an index that leaves out the history, however long that is.

use sqlx::{AssertSqlSafe, ConnectOptions, Row, sqlite::SqliteConnectOptions};
use treewarden::store::{Store, statements};

/// Tables that keep growing, and the names statements give them.
const LONG: [&str; 9] =
    ["inbox", "runs", "outbox", "isolation_environments", "conversations", "sessions", "next", "other", "earlier"];

/// Indexes that hold only rows that are not over.
const SHORT: [&str; 19] = [
    "codebases_connected_name",
    "conversations_environment",
    "environments_live",
    "environments_live_work",
    "environments_live_branch",
    "environments_live_path",
    "inbox_unfinished",
    "inbox_received",
    "inbox_one_claim_per_key",
    "inbox_failed",
    "outbox_conversation",
    "outbox_failed",
    "outbox_one_writer",
    "outbox_waiting",
    "runs_live_codebase",
    "runs_one_live_per_environment",
    "runs_queued",
    "runs_unfinished",
    "sessions_live",
];

/// Steps through an index that holds the history as well, each with the reason why that is fine.
const FINE: [&str; 14] = [
    // The environments that one piece of work has had.
    "environments_work (codebase_id=? AND workflow_type=? AND workflow_id=?)",
    // Those that have one name.
    "environments_work_name (<expr>=? AND codebase_id=?)",
    "environments_branch_name (<expr>=? AND codebase_id=?)",
    // A unique key, all of it.
    "conversations_thread (platform=? AND thread=?)",
    // What was asked within an hour.
    "runs_asked (conversation_id=? AND created_at>?)",
    // A person stops a conversation, or deletes a comment: once in a while, and its own runs only.
    "runs_asked (conversation_id=?)",
    // The runs of one review.
    "runs_review (conversation_id=? AND review=?)",
    // A page of an environment's runs, in the order of the index.
    "runs_environment (environment_id=?)",
    // An environment has few sessions, and is destroyed once.
    "sessions_environment (environment_id=?)",
    // What is old goes in pieces, once for each pass of the schedule.
    "sqlite_autoindex_inbox_1 (id>? AND id<?)",
    "sqlite_autoindex_outbox_1 (id>? AND id<?)",
    "sqlite_autoindex_sessions_1 (id>? AND id<?)",
    "sqlite_autoindex_local_messages_1 (id>? AND id<?)",
    "sqlite_autoindex_cleanup_reports_1 (id>? AND id<?)",
];

/// How a statement looks that a person turns pages with. It walks an index in its order until the page is full.
const PAGES: &str = "ORDER BY id DESC LIMIT";

/// What is wrong with a step of SQLite's plan for a statement. `None` also for a step that reads no long table.
fn objection(statement: &str, step: &str) -> Option<&'static str> {
    // `SCAN <table or alias>`, `SCAN <table> USING [COVERING] INDEX <index>`, `SEARCH … USING INDEX <index> (<by what>)`
    let mut words = step.split(' ');
    let (verb, name) = (words.next()?, words.next()?);
    let (_, used) = step.split_once("INDEX ").unwrap_or_default();
    let (index, by) = used.split_once(' ').unwrap_or((used, ""));
    if step.starts_with("USE TEMP B-TREE FOR ORDER BY") && statement.contains(PAGES) {
        return Some("a page is sorted, not walked");
    }
    // A table that is not named refers to the one written; it is read when a reference is broken only.
    let aliased = statement.contains(&format!("AS {name}"));
    if !LONG.contains(&name) || !(aliased || statement.contains(name)) || SHORT.contains(&index) {
        return None;
    }
    match verb {
        // With an index of all rows, in its order.
        "SCAN" if statement.contains(PAGES) && index.starts_with("sqlite_autoindex") => None,
        "SCAN" => Some("the history is read"),
        // A unique key, all of it.
        "SEARCH" if index.starts_with("sqlite_autoindex") && !by.contains(['<', '>']) => None,
        "SEARCH" if FINE.contains(&used) => None,
        "SEARCH" => Some("a part of the history is read"),
        _ => None,
    }
}

#[tokio::test]
async fn no_statement_reads_the_history() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("store.db");
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    store.migrate().await.unwrap();
    store.close().await;
    let mut connection = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let (mut scans, mut searches, mut reading) = (0, 0, Vec::new());
    for statement in statements() {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", statement.text));
        for step in sqlx::query(explain).fetch_all(&mut connection).await.unwrap() {
            let step: String = step.get("detail");
            scans += usize::from(step.starts_with("SCAN "));
            searches += usize::from(step.starts_with("SEARCH "));
            if let Some(why) = objection(statement.text, &step) {
                reading.push(format!("{}:{}: {why}: {step}", statement.file, statement.line));
            }
        }
    }
    assert!(reading.is_empty(), "{reading:#?}");
    assert!(scans > 5 && searches > 20, "SQLite words its plans differently now");
}

#[test]
fn a_plan_that_reads_the_history_is_seen() {
    let long = [
        ("SELECT * FROM runs WHERE ($1 OR environment_id = $2)", "SCAN runs"),
        ("SELECT * FROM runs WHERE $1 OR state = $2 ORDER BY id", "SCAN runs USING INDEX sqlite_autoindex_runs_1"),
        ("SELECT count(*) FROM runs WHERE id < $1", "SEARCH runs USING INDEX sqlite_autoindex_runs_1 (id<?)"),
        ("SELECT 1 FROM runs AS other", "SEARCH other USING INDEX runs_codebase (codebase_id=?)"),
        ("SELECT * FROM runs ORDER BY id DESC LIMIT $1", "USE TEMP B-TREE FOR ORDER BY"),
    ];
    for (statement, step) in long {
        assert!(objection(statement, step).is_some(), "{step}");
    }
}
