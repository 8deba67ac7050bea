//! Statements that run all the time find their rows by an index that leaves out the history, however long that is.

use sqlx::{AssertSqlSafe, ConnectOptions, Row, sqlite::SqliteConnectOptions};
use treewarden::store::{Store, statements};

/// Tables that keep growing.
const LONG: [&str; 5] = ["inbox", "runs", "outbox", "isolation_environments", "conversations"];

/// May read all there is: what a person looks at page by page, and what only a start or a pass asks.
const RARE: [&str; 4] = [
    "ORDER BY id DESC LIMIT",
    "GROUP BY state",
    "environment_id IS NOT NULL AND state <> $1",
    "FROM runs WHERE state IN ('preparing', 'running', 'delivering') ORDER BY id",
];

/// Indexes that hold only rows that are not over.
const SHORT: [&str; 9] = [
    "environments_live",
    "environments_live_path",
    "inbox_unfinished",
    "inbox_received",
    "inbox_one_claim_per_key",
    "runs_unfinished",
    "runs_one_live_per_conversation",
    "outbox_waiting",
    "outbox_one_at_a_time",
];

#[tokio::test]
async fn no_statement_of_every_day_reads_the_history() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("store.db");
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    store.migrate().await.unwrap();
    store.close().await;
    let mut connection = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let (mut seen, mut reading) = (0, Vec::new());
    for statement in statements().filter(|statement| !RARE.iter().any(|rare| statement.text.contains(rare))) {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", statement.text));
        for step in sqlx::query(explain).fetch_all(&mut connection).await.unwrap() {
            // `SCAN <table or alias>`, `SCAN <table> USING INDEX <index>`, `SEARCH …`
            let step: String = step.get("detail");
            let words: Vec<&str> = step.split(' ').collect();
            let ["SCAN", name, ..] = words[..] else { continue };
            let alias = ["next", "other"].contains(&name);
            // A table that is not named refers to the one written; it is read when a reference is broken only.
            let long = alias || LONG.contains(&name) && statement.text.contains(name);
            let index = words.last().copied().unwrap_or_default();
            seen += 1;
            if long && !SHORT.contains(&index) {
                reading.push(format!("{}:{}: {step}", statement.file, statement.line));
            }
        }
    }
    assert!(reading.is_empty(), "{reading:#?}");
    assert!(seen > 0, "SQLite words its plans differently now");
}
