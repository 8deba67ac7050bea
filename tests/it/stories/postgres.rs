//! The whole product on PostgreSQL, where this machine has one: what the stories of the other files tell on SQLite.

use crate::support::{postgres::Database, world::World};
use treewarden::{demo::github::MergeMethod, model::*};

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
