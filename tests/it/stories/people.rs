//! Who may ask, and who is not answered.

use crate::support::world::{ANN, REPO, World};
use std::time::Duration;
use treewarden::{decide::flood::MOST_MESSAGES, model::*};

#[tokio::test]
async fn without_write_permission_there_is_one_explanation_for_two_tries() {
    let world = World::new().await;
    world.standin.set_permission(REPO, "mallory", Permission::Read).unwrap();
    let issue = world.issue();
    let tries: Vec<i64> = ["do it", "do it now"]
        .map(|words| world.standin.comment(REPO, "mallory", issue, &world.mention(words)).unwrap())
        .into();
    world.settle().await;

    for comment in tries {
        assert_eq!(world.reactions(comment), ["confused"]);
    }
    assert_eq!(world.answers(issue).len(), 1);
    assert!(world.answer(issue).contains("needs write permission"), "{}", world.answer(issue));
    assert!(world.runs().await.is_empty() && world.all_environments().await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn the_operators_rules_widen_and_narrow_who_may_ask_for_what() {
    let world = World::new().await;
    let erin = world.standin.user_number("erin");
    let rules = format!("/worktree = maintain; /status = read; requests = triage, @Erin:{erin}; * = write");
    let world = world.restart_with(&[("TREEWARDEN_ALLOW", &rules)]).await;
    world.standin.set_permission(REPO, "carol", Permission::Read).unwrap();
    world.standin.set_permission(REPO, "dan", Permission::Triage).unwrap();
    let issue = world.issue();
    let answer_to = async |who: &str, words: &str| {
        let comment = world.standin.comment(REPO, who, issue, &world.mention(words)).unwrap();
        world.settle().await;
        world.reactions(comment)
    };
    assert_eq!(answer_to("carol", "/status").await, ["eyes"]);
    assert_eq!(answer_to("carol", "add a greeting").await, ["confused"]);
    let told = "this needs triage permission on the repository, or to be named in the settings of this service";
    assert!(world.answer(issue).contains(told), "{}", world.answer(issue));
    assert_eq!(answer_to("dan", "add a greeting").await, ["eyes"]);
    assert_eq!(answer_to("erin", "add a note").await, ["eyes"], "named, with no permission at all");
    assert_eq!(answer_to("erin", "/status").await, ["confused"]);
    assert_eq!(answer_to(ANN, "/worktree list").await, ["confused"], "to write is not enough");
    assert_eq!(answer_to(ANN, "/help").await, ["eyes"]);
    world.standin.set_permission(REPO, ANN, Permission::Maintain).unwrap();
    assert_eq!(answer_to(ANN, "/worktree list").await, ["eyes"]);
    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    world.end().await;
}

#[tokio::test]
async fn somebody_who_was_just_given_permission_is_heard_at_once() {
    let world = World::new().await;
    world.standin.set_permission(REPO, "carol", Permission::Read).unwrap();
    let issue = world.issue();
    world.standin.comment(REPO, "carol", issue, &world.mention("add a greeting")).unwrap();
    world.settle().await;
    assert!(world.runs().await.is_empty());
    world.standin.set_permission(REPO, "carol", Permission::Write).unwrap();
    world.standin.comment(REPO, "carol", issue, &world.mention("add a greeting")).unwrap();
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

/// BR-143: whoever copies the marker gains nothing by it.
#[tokio::test]
async fn bots_and_own_comments_are_ignored() {
    let world = World::new().await;
    let issue = world.issue();
    let words = world.mention("do it");
    world.standin.set_permission(REPO, "helper[bot]", Permission::Write).unwrap();
    let by_bot = world.standin.comment(REPO, "helper[bot]", issue, &words).unwrap();
    let by_itself = world.standin.comment(REPO, &world.standin.bot_login(), issue, &words).unwrap();
    let marked = format!("{words}\n\n<!-- treewarden:status/0 -->");
    let by_marker = world.standin.comment(REPO, ANN, issue, &marked).unwrap();
    world.settle().await;

    for comment in [by_bot, by_itself, by_marker] {
        assert_eq!(world.reactions(comment), [""; 0]);
    }
    assert!(world.runs().await.is_empty());
    assert_eq!(world.standin.comments(REPO, issue).unwrap().len(), 3);
    world.end().await;
}

#[tokio::test]
async fn an_edit_by_somebody_else_does_not_put_words_into_the_authors_mouth() {
    let world = World::new().await;
    world.standin.set_permission(REPO, "mallory", Permission::Triage).unwrap();
    let issue = world.issue();
    let comment = world.standin.comment(REPO, ANN, issue, "hello").unwrap();
    world.standin.edit_comment(REPO, "mallory", comment, &world.mention("do it")).unwrap();
    world.settle().await;
    assert!(world.runs().await.is_empty());
    world.end().await;
}

/// How often GitHub was asked what Ann may do.
fn asked_about_ann(world: &World) -> usize {
    let asked = world.standin.requests().into_iter().filter(|request| request.path.contains("/collaborators/ann/"));
    asked.count()
}

#[tokio::test]
async fn permission_is_asked_for_once_in_two_minutes() {
    let world = World::new().await;
    let issues = [world.issue(), world.issue()];
    for issue in issues {
        for words in ["agent:noop", "/status", "agent:noop"] {
            world.ask(issue, words);
            world.settle().await;
        }
    }
    assert_eq!(world.run_states().await, [RunState::Succeeded; 4]);
    assert_eq!(asked_about_ann(&world), 1);
    world.time_passes(Duration::from_secs(120));
    world.ask(issues[0], "/status");
    world.settle().await;
    assert_eq!(asked_about_ann(&world), 2);
    world.end().await;
}

#[tokio::test]
async fn a_permission_that_was_taken_away_counts_after_two_minutes() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    world.standin.set_permission(REPO, ANN, Permission::Read).unwrap();
    world.time_passes(Duration::from_secs(120));
    let comment = world.ask(issue, "agent:noop");
    world.settle().await;
    assert_eq!(world.reactions(comment), ["confused"]);
    assert!(world.answer(issue).contains("needs write permission"), "{}", world.answer(issue));
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

/// Within a minute, or on both sides of its end.
#[tokio::test]
async fn a_thousand_mentions_of_a_stranger_cost_little_and_hold_up_nobody() {
    let world = World::new().await;
    world.standin.set_permission(REPO, "mallory", Permission::Read).unwrap();
    let (flooded, other) = (world.issue(), world.issue());
    world.settle().await;
    for number in 0..1_000 {
        world.standin.comment(REPO, "mallory", flooded, &world.mention(&format!("do it {number}"))).unwrap();
    }
    let asked = world.ask(other, "agent:noop");
    world.until("eyes", || async { (world.reactions(asked) == ["eyes"]).then_some(()) }).await;
    world.settle().await;
    let most = 2 * MOST_MESSAGES as usize;
    assert_eq!(world.answers(flooded).len(), 1, "one explanation");
    let requests = world.standin.requests();
    let about_mallory = requests.iter().filter(|request| request.path.contains("/collaborators/mallory/")).count();
    assert!((MOST_MESSAGES as usize..=most).contains(&about_mallory), "{about_mallory}");
    let writes = requests.iter().filter(|request| request.method == "POST" && request.path.contains("/reactions"));
    assert!(writes.count() <= most + 1);
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn too_many_messages_of_a_writer_are_told_once_and_a_stop_is_heard() {
    let world = World::new().await;
    let issues = [world.worked_issue("agent:noop").await, world.issue()];
    let said = 3 * MOST_MESSAGES as usize;
    for number in 0..said {
        world.ask(issues[number % 2], "/help");
    }
    world.ask(issues[0], "/stop");
    world.settle().await;
    let answers = || issues.map(|issue| world.answers(issue)).concat();
    let told = |words: &str| answers().iter().filter(|answer| answer.body.contains(words)).count();
    assert!(told("treewarden:answer/") <= 2 * MOST_MESSAGES as usize + 1);
    let notices = told("more than 60 messages to me");
    // Two where the minute ended meanwhile.
    assert!(notices == 1 || notices == 2, "{notices}");
    assert_eq!(told("No run is live or queued"), 1);
    let left_alone = world.store().list_deliveries(500, 0).await.unwrap();
    let left_alone =
        left_alone.iter().filter(|line| line.reason.as_deref().is_some_and(|why| why.contains("within a minute")));
    assert!(left_alone.count() >= MOST_MESSAGES as usize);
    world.end().await;
}

#[tokio::test]
async fn a_thread_that_starts_run_after_run_is_told_once_and_takes_commands() {
    let world = World::new().await;
    let issue = world.issue();
    for _ in 0..23 {
        world.ask(issue, "agent:noop");
    }
    world.settle().await;
    assert_eq!(world.runs().await.len(), 20);
    let told = || world.answers(issue).iter().filter(|answer| answer.body.contains("looks like a loop")).count();
    assert_eq!(told(), 1);
    world.ask(issue, "/help");
    world.settle().await;
    assert!(world.answer(issue).contains("/status"), "{}", world.answer(issue));
    world.time_passes(Duration::from_secs(11 * 60));
    world.ask(issue, "agent:noop");
    world.settle().await;
    assert_eq!((world.runs().await.len(), told()), (21, 1));
    world.end().await;
}
