//! The App loses its access to a repository and gets it back: work is kept, and goes on.

use crate::support::world::{ANN, REPO, World};
use treewarden::{decide::cleanup::Keep, demo::github::Standin, model::*, orchestrator::sweep::Swept};

const DISCONNECTED: &str = "disconnected: the App no longer reaches it";

/// Everything that was done before is still there after access was taken by `withdraw` and given back by `grant`.
async fn lost_and_regained(withdraw: impl Fn(&Standin), grant: impl Fn(&Standin)) {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let (environment, tip) = (world.environment().await, world.local_tip("issue-1").await);
    assert!(!world.page("/").await.contains(DISCONNECTED));

    withdraw(&world.standin);
    world.settle().await;
    assert!(!world.store().list_codebases().await.unwrap()[0].connected);
    let pages = ["/", "/environments", &format!("/environments/{}", environment.id)];
    for page in pages {
        assert!(world.page(page).await.contains(DISCONNECTED), "{page}: {}", world.page(page).await);
    }
    // Nobody takes what cannot be asked about for done with.
    world.pass().await;
    assert_eq!(world.environment().await.id, environment.id);
    assert!(environment.path.join("hello.sh").exists());
    assert_eq!(world.local_tip("issue-1").await, tip);
    let answers = world.answers(issue).len();

    grant(&world.standin);
    world.settle().await;
    assert!(world.store().list_codebases().await.unwrap()[0].connected);
    for page in pages {
        assert!(!world.page(page).await.contains(DISCONNECTED), "{page}");
    }
    assert_eq!(world.answers(issue).len(), answers, "people are told nothing they did not ask for");
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    assert_eq!(world.environment().await.id, environment.id, "the same worktree");
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_repository_that_is_withdrawn_and_granted_again_goes_on_where_it_was() {
    lost_and_regained(
        |standin| standin.withdraw_repository(REPO).unwrap(),
        |standin| standin.grant_repository(REPO).unwrap(),
    )
    .await;
}

#[tokio::test]
async fn an_installation_that_is_suspended_for_a_while_goes_on_where_it_was() {
    lost_and_regained(
        |standin| standin.suspend_installation(REPO, true).unwrap(),
        |standin| standin.suspend_installation(REPO, false).unwrap(),
    )
    .await;
}

/// Somebody who runs the service tidies up after a repository that the App reaches no more.
#[tokio::test]
async fn what_is_left_of_a_withdrawn_repository_can_be_taken_away_by_hand() {
    let world = World::new().await;
    let (clean, dirty) = (world.worked_issue("add a greeting").await, world.worked_issue("add a note").await);
    let environments = world.environments().await;
    let of = |issue: i64| environments.iter().find(|environment| environment.work.id == issue.to_string()).unwrap();
    std::fs::write(of(dirty).path.join("precious.txt"), "precious\n").unwrap();
    let tip = world.local_tip(of(clean).branch.as_str()).await;
    world.standin.withdraw_repository(REPO).unwrap();
    world.settle().await;

    let remove = async |id| world.service.orchestrator.remove(id, Trigger::Panel, "panel").await.unwrap();
    assert!(matches!(remove(of(clean).id).await, Swept::Removed(_)));
    let Swept::Kept(why) = remove(of(dirty).id).await else { panic!("uncommitted work was taken away") };
    assert_eq!(why, [Keep::UncommittedChanges { changed: 0, untracked: 1 }]);
    assert!(!of(clean).path.exists() && of(dirty).path.join("precious.txt").exists());
    assert_eq!(world.local_tip(of(clean).branch.as_str()).await, tip, "the branch stays");
    let receipt = world.store().receipt_of(of(clean).id).await.unwrap().unwrap();
    assert!(!receipt.details.branch_deleted);
    let unsent = world.store().list_outgoing(100).await.unwrap();
    assert!(unsent.iter().all(|row| row.state == OutboxState::Sent), "nothing is said where nobody can: {unsent:?}");

    world.standin.grant_repository(REPO).unwrap();
    world.ask(clean, "agent:noop");
    world.settle().await;
    let status = world.status(clean);
    assert!(status.contains("Continuing on existing branch"), "{status}");
    world.end().await;
}

/// Access goes while a run is live: it ends with a reason, its work is kept and delivered by the next one.
#[tokio::test]
async fn a_run_whose_repository_is_withdrawn_keeps_its_work() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "add a greeting agent:sleep=1");
    world.until_agent_works().await;
    world.standin.withdraw_repository(REPO).unwrap();
    let run =
        world.until("the run to end", || async { world.runs().await.pop().filter(|run| run.state.is_final()) }).await;
    assert_eq!(run.state, RunState::Failed, "{run:?}");
    assert!(run.reason.as_ref().is_some_and(|why| why.contains("it is kept here")), "{run:?}");
    let page = world.page(&format!("/runs/{}", run.id)).await;
    assert!(page.contains("Nothing is lost: it is kept here"), "{page}");
    assert!(world.environment().await.path.join("hello.sh").exists());

    // Its comment was tried, and given up.
    world.settle().await;
    let said_before = world.status(issue);
    assert!(!said_before.contains("Failed"), "nobody may write there: {said_before}");

    world.standin.grant_repository(REPO).unwrap();
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**") && status.contains("mention me again"), "{status}");
    world.standin.comment(REPO, ANN, issue, &world.mention("agent:noop")).unwrap();
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.pull_of("issue-1").commits.len(), 1);
    world.end().await;
}

/// BR-182: of a repository that was transferred, its former installation may say last that it is gone.
#[tokio::test]
async fn a_late_word_of_the_installation_before_disconnects_nothing() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    let body = serde_json::json!({
        "action": "removed",
        "installation": { "id": 4711 },
        "repositories_added": [],
        "repositories_removed": [{ "id": codebase.github_id().unwrap().0, "full_name": REPO }],
    });
    world.deliver("installation_repositories", &body).await;
    world.settle().await;
    assert!(world.store().list_codebases().await.unwrap()[0].connected);
    world.ask(issue, "add a note");
    world.settle().await;
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);
    world.end().await;
}
