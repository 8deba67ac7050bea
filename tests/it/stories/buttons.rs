//! The buttons below check runs.

use crate::support::world::{ANN, REPO, World, git};
use serde_json::{Value, json};
use std::fs;
use treewarden::demo::github::CheckRunView;
use treewarden::model::*;

/// On the commit that a pull request is at.
fn check_run(world: &World, pull: i64) -> CheckRunView {
    let head = world.pull(pull).head_sha;
    let mut there = world.standin.check_runs(REPO).unwrap();
    there.retain(|check| check.head_sha == head);
    there.pop().unwrap_or_else(|| panic!("no check run on {head}"))
}

fn press(world: &World, who: &str, pull: i64, button: Button) {
    world.standin.press(REPO, who, check_run(world, pull).id, Some(button.as_str())).unwrap();
}

/// A pull request on which Ann asked for something, all done.
async fn worked_pull(world: &World, words: &str) -> i64 {
    let pull = world.pull_from("feature/x", "").await;
    world.ask(pull, words);
    world.settle().await;
    pull
}

/// What GitHub would say of a press, beside what it shows buttons for.
async fn press_on(world: &World, run: RunId, button: Button) -> Value {
    let codebase = world.store().find_codebase(&REPO.parse().unwrap()).await.unwrap().unwrap();
    let Host::Github { id, installation } = codebase.host else { panic!() };
    json!({
        "action": "requested_action",
        "requested_action": {"identifier": button},
        "check_run": {"id": 1, "external_id": run, "app": {"id": world.standin.app_id()}},
        "repository": {"id": id, "full_name": REPO},
        "installation": {"id": installation},
        "sender": {"id": world.standin.user_number(ANN), "login": ANN, "type": "User"},
    })
}

/// What led nowhere, with the reasons.
async fn ignored(world: &World) -> Vec<String> {
    let mut deliveries = world.store().list_deliveries(500, 0).await.unwrap();
    deliveries.retain(|delivery| delivery.event == "check_run" && delivery.state == InboxState::Ignored);
    deliveries.into_iter().map(|delivery| delivery.reason.unwrap_or_default()).collect()
}

#[tokio::test]
async fn stop_ends_a_live_run_whatever_waits_before_it() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    world.ask(pull, "agent:sleep=600");
    let run = world.until_agent_works().await;
    world.deliver("check_run", &press_on(&world, run.id, Button::Stop).await).await;
    world.deliver("check_run", &press_on(&world, run.id, Button::Stop).await).await;
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled]);
    assert!(world.status(pull).starts_with("⏹️ **Stopped**"), "{}", world.status(pull));
    assert_eq!(check_run(&world, pull).conclusion.as_deref(), Some("cancelled"));
    assert_eq!(world.answers(pull).len(), 1, "the status comment says it");
    world.end().await;
}

#[tokio::test]
async fn retry_asks_once_more_however_often_it_is_pressed_or_delivered() {
    let world = World::new().await;
    let pull = worked_pull(&world, "add a note").await;
    let first = check_run(&world, pull);
    world.standin.set_permission(REPO, "carol", Permission::Write).unwrap();
    world.standin.faults().duplicate_deliveries(2);
    for who in ["carol", ANN, "carol"] {
        world.standin.press(REPO, who, first.id, Some("retry")).unwrap();
    }
    world.settle().await;

    let runs = world.runs().await;
    assert_eq!(runs.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded; 2]);
    assert_eq!(runs[1].request, RunRequest { requester: runs[1].request.requester.clone(), ..runs[0].request.clone() });
    assert_eq!(runs[1].request.requester.login, "carol", "who pressed first");
    assert_eq!(world.statuses(pull).len(), 2);
    // The old one is spent; the new one is not, and GitHub's own button is the same.
    world.standin.press(REPO, ANN, first.id, Some("retry")).unwrap();
    world.settle().await;
    assert_eq!(world.runs().await.len(), 2);
    world.standin.press(REPO, ANN, check_run(&world, pull).id, None).unwrap();
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded; 3]);
    world.end().await;
}

#[tokio::test]
async fn retry_starts_nothing_beside_a_live_run_or_for_a_message_that_is_gone() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    let asked = world.ask(pull, "add a note");
    world.settle().await;
    let first = check_run(&world, pull);
    world.ask(pull, "agent:sleep=600");
    world.until_agent_works().await;
    world.standin.press(REPO, ANN, first.id, Some("retry")).unwrap();
    let told = || async { world.answers(pull).pop().filter(|one| one.body.contains("a run of this thread is")) };
    world.until("an answer", told).await;
    world.ask(pull, "/stop");
    world.settle().await;
    world.standin.delete_comment(REPO, ANN, asked).unwrap();
    world.settle().await;
    world.standin.press(REPO, ANN, first.id, Some("retry")).unwrap();
    world.settle().await;
    assert!(world.answer(pull).contains("has been deleted since"), "{}", world.answer(pull));
    assert_eq!(world.run_states().await, [RunState::Succeeded, RunState::Cancelled]);
    world.end().await;
}

#[tokio::test]
async fn clean_up_keeps_what_is_not_committed_and_says_so() {
    let world = World::new().await;
    let pull = worked_pull(&world, "add a greeting").await;
    let place = world.environment().await.path;
    fs::write(place.join("mine.txt"), "mine\n").unwrap();
    press(&world, ANN, pull, Button::CleanUp);
    world.settle().await;
    assert!(
        world.answer(pull).contains("mine.txt") || world.answer(pull).contains("not committed"),
        "{}",
        world.answer(pull)
    );
    assert!(place.join("mine.txt").exists());

    // The same press again, byte by byte, is another one.
    fs::remove_file(place.join("mine.txt")).unwrap();
    press(&world, ANN, pull, Button::CleanUp);
    world.settle().await;
    assert!(!place.exists(), "{}", world.answer(pull));
    assert_eq!(world.environments().await, []);
    let receipts = world.store().list_receipts(10).await.unwrap();
    assert_eq!(receipts.iter().map(|receipt| receipt.trigger).collect::<Vec<_>>(), [Trigger::Button]);
    assert!(world.answer(pull).contains("feature/x"), "{}", world.answer(pull));

    press(&world, ANN, pull, Button::CleanUp);
    world.settle().await;
    assert!(world.answer(pull).contains("**Clean up** removed nothing"), "{}", world.answer(pull));
    world.end().await;
}

#[tokio::test]
async fn clean_up_leaves_a_worktree_alone_that_the_thread_has_by_now() {
    let world = World::new().await;
    let pull = worked_pull(&world, "add a greeting").await;
    let first = check_run(&world, pull);
    press(&world, ANN, pull, Button::CleanUp);
    world.settle().await;
    world.ask(pull, "add a note");
    world.settle().await;
    let place = world.environment().await.path;
    world.standin.press(REPO, ANN, first.id, Some("clean_up")).unwrap();
    world.settle().await;
    assert!(place.exists() && world.answer(pull).contains("this thread has another one"), "{}", world.answer(pull));
    assert_eq!(git(&place, &["status", "--porcelain"]), "");
    world.end().await;
}

#[tokio::test]
async fn a_reader_is_refused_once() {
    let world = World::new().await;
    let pull = worked_pull(&world, "add a greeting").await;
    world.standin.set_permission(REPO, "mallory", Permission::Read).unwrap();
    for button in [Button::Retry, Button::CleanUp, Button::Retry] {
        press(&world, "mallory", pull, button);
    }
    let run = world.runs().await.remove(0);
    let mut stop = press_on(&world, run.id, Button::Stop).await;
    stop["sender"] = json!({"id": world.standin.user_number("mallory"), "login": "mallory", "type": "User"});
    world.deliver("check_run", &stop).await;
    world.settle().await;
    assert_eq!(world.answers(pull).len(), 2, "the run's, and one explanation");
    assert!(world.answer(pull).contains("Sorry `mallory`, this needs write permission"), "{}", world.answer(pull));
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    assert!(world.environment().await.path.exists());
    world.end().await;
}

#[tokio::test]
async fn what_no_person_pressed_on_a_run_of_ours_counts_for_nothing() {
    let world = World::new().await;
    let pull = worked_pull(&world, "add a greeting").await;
    let run = world.runs().await.remove(0);
    world.standin.create_repository("octo/other", &[("README.md", "# other\n")]).await.unwrap();
    world.standin.set_permission("octo/other", ANN, Permission::Write).unwrap();
    let issue = world.standin.open_issue("octo/other", ANN, "Other", &world.mention("add a note")).unwrap();
    world.settle().await;
    let other = world.runs().await.into_iter().find(|known| known.codebase != run.codebase).unwrap();
    let quiet = (world.answers(pull).len(), world.standin.comments("octo/other", issue).unwrap().len());

    press(&world, "robot[bot]", pull, Button::Retry);
    let genuine = press_on(&world, run.id, Button::Retry).await;
    let forged = |place: &[&str], value: Value| {
        let mut body = genuine.clone();
        let mut at = &mut body;
        for name in place {
            at = &mut at[*name];
        }
        *at = value;
        body
    };
    for (body, why) in [
        (forged(&["check_run", "app", "id"], json!(1)), "another App"),
        (forged(&["check_run", "app"], Value::Null), "no App"),
        (forged(&["check_run", "external_id"], json!("7")), "no run of Treewarden's"),
        (forged(&["check_run", "external_id"], json!(uuid::Uuid::now_v7())), "not known"),
        (forged(&["check_run", "external_id"], json!(other.id)), "of another repository"),
        (forged(&["requested_action", "identifier"], json!("deploy")), "no button of Treewarden's"),
        (forged(&["sender"], Value::Null), "no longer exists"),
        (forged(&["action"], json!("completed")), "nobody pressed"),
    ] {
        world.deliver("check_run", &body).await;
        world.settle().await;
        let reasons = ignored(&world).await;
        assert!(reasons[0].contains(why), "{why}: {reasons:#?}");
    }
    assert!(ignored(&world).await.iter().any(|reason| reason.contains("pressed by a bot")));
    assert_eq!(world.runs().await.len(), 2, "nothing was started");
    let now = (world.answers(pull).len(), world.standin.comments("octo/other", issue).unwrap().len());
    assert_eq!(now, quiet);
    world.end().await;
}
