//! The whole product on PostgreSQL, where this machine has one: what the stories of the other files tell on SQLite.

use crate::support::{postgres::Database, world::World};
use sqlx::{Connection, Executor, PgConnection};
use std::time::Duration;
use treewarden::{
    demo::github::MergeMethod,
    model::*,
    store::{Store, StoreError},
};

#[tokio::test]
async fn from_a_mention_to_the_receipt_with_a_restart_in_between() {
    let Some(database) = Database::create().await else { return };
    let world = World::with(&[("DATABASE_URL", &database.url), ("MAX_CONCURRENT_RUNS", "2")]).await;
    let issue = world.worked_issue("add a greeting").await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    let environment = world.environment().await;
    let pull = world.pull_of("issue-1");
    assert!(pull.draft && world.page("/").await.contains("add a greeting"));

    // Several at once, in order within a thread, around a restart.
    let other = world.issue();
    world.ask(other, "first note agent:sleep=1");
    world.ask(other, "second note");
    world.ask(pull.number, "a note of the pull request");
    world.standin.settled().await;
    let world = world.restart(|_| ()).await;
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded; 4]);
    assert_eq!(world.environments().await.len(), 2);
    let notes = world.remote_file(&format!("issue-{other}"), "NOTES.md").await.unwrap();
    assert!(notes.find("first note") < notes.find("second note") && notes.contains("second note"), "{notes}");
    assert!(world.status(pull.number).contains("Reusing worktree from issue #1"), "{}", world.status(pull.number));

    world.merge(pull.number, MergeMethod::Squash).await;
    let receipt = world.store().receipt_of(environment.id).await.unwrap().expect("a receipt");
    assert!(receipt.details.branch_deleted && !environment.path.exists());
    assert!(!world.home().join("treewarden.db").exists(), "nothing of it is on SQLite");
    world.ask(other, "/status");
    world.settle().await;
    assert!(world.answer(other).contains("1 worktree of 25"), "{}", world.answer(other));
    world.end().await;
    database.drop().await;
}

/// Nothing here takes longer than this.
const PATIENCE: Duration = Duration::from_secs(60);
/// The sessions that hold a service's lock, and those that wait for it.
const HOLDERS: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 1953654133 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
const WAITING: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 1953654133 AND NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// Ends the connection that holds the database for the service.
async fn cut(connection: &mut PgConnection) -> i32 {
    let holder: i32 = sqlx::query_scalar(HOLDERS).fetch_one(&mut *connection).await.unwrap();
    let ended: bool =
        sqlx::query_scalar("SELECT pg_terminate_backend($1)").bind(holder).fetch_one(connection).await.unwrap();
    assert!(ended);
    holder
}

/// As after a stall: the server has not given the lock to anybody, and this session has it still.
#[tokio::test]
async fn a_connection_that_only_stood_still_holds_the_database_on() {
    let Some(database) = Database::create().await else { return };
    // The server keeps the first 63 letters of it, and of those only what is ASCII.
    let name = format!("process 1 on häßlich, home /{}", "long/".repeat(20));
    let mut alone = Store::take_alone(&database.url, &name).await.unwrap();
    tokio::time::timeout(PATIENCE, alone.take_again()).await.expect("it waits for itself").unwrap();
    assert!(matches!(Store::is_free(&database.url).await, Err(StoreError::InUse(_))));
    drop(alone);
    database.drop().await;
}

#[tokio::test]
async fn a_lost_connection_is_made_again_and_what_another_has_is_left_to_it() {
    let Some(database) = Database::create().await else { return };
    let mut world = World::with(&[("DATABASE_URL", &database.url)]).await;
    let mut outside = PgConnection::connect(&database.url).await.unwrap();
    let cut_off = cut(&mut outside).await;
    world
        .until("the database to be held again", || async {
            let mut look = PgConnection::connect(&database.url).await.unwrap();
            let holder: Option<i32> = sqlx::query_scalar(HOLDERS).fetch_optional(&mut look).await.unwrap();
            look.close().await.unwrap();
            holder.filter(|holder| *holder != cut_off)
        })
        .await;
    let issue = world.worked_issue("add a greeting").await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));

    // Another one waits for it, and has it in the same moment.
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    let schema = "SELECT oid::int4 FROM pg_namespace WHERE nspname = current_schema()";
    let schema: i32 = sqlx::query_scalar(schema).fetch_one(&mut other).await.unwrap();
    let waiting = tokio::spawn(async move {
        other.execute("SET application_name = 'process 7 on another'").await.unwrap();
        sqlx::query("SELECT pg_advisory_lock(1953654133, $1)").bind(schema).execute(&mut other).await.unwrap();
        other
    });
    world
        .until("somebody to wait for it", || async {
            let mut look = PgConnection::connect(&database.url).await.unwrap();
            let waits: Option<i32> = sqlx::query_scalar(WAITING).fetch_optional(&mut look).await.unwrap();
            look.close().await.unwrap();
            waits
        })
        .await;
    cut(&mut outside).await;
    let other = waiting.await.unwrap();
    let why = tokio::time::timeout(PATIENCE, world.service.displaced()).await.expect("it is not noticed").to_string();
    assert!(why.contains("process 7 on another"), "{why}");
    // Nothing more is begun, and what arrives waits for the other one.
    world.ask(issue, "write this down");
    world.standin.settled().await;
    let store = treewarden::store::Store::open(&database.url).await.unwrap();
    assert!(world.service.stop().await);
    let runs = store.list_runs(Default::default(), 10, 0).await.unwrap();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(store.unfinished().await.unwrap().deliveries, 1);
    store.close().await;
    outside.close().await.unwrap();
    other.close().await.unwrap();
    database.drop().await;
}
