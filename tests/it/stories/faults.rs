//! GitHub and its git server when they misbehave: everything is said once, and a retry succeeds when the cause is gone.

use crate::support::world::{ANN, REPO, World};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::time::Duration;
use treewarden::{demo::github::Fault, model::*};

const COMMENTS: &str = "/repos/octo/hello/issues/1/comments";

/// The first issue is worked on although requests go wrong in this way, and people see nothing of it.
async fn survives(method: &str, prefix: &str, times: u32, fault: Fault) {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().inject(Some(method), prefix, times, fault);
    world.ask(issue, "add a greeting");
    world.settle().await;

    assert_eq!(world.standin.faults().left(), 0, "the fault did not strike");
    assert_eq!(world.answers(issue).len(), 1, "said once: {:?}", world.answers(issue));
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.standin.pulls(REPO).unwrap().len(), 1);
    assert!(world.pull_of("issue-1").draft);
    world.end().await;
}

#[tokio::test]
async fn a_500_for_a_comment() {
    survives("POST", COMMENTS, 1, Fault::Status(500)).await;
}

#[tokio::test]
async fn a_secondary_limit_for_a_comment() {
    survives("POST", COMMENTS, 1, Fault::SecondaryLimit { retry_after: 1 }).await;
}

#[tokio::test]
async fn a_429_for_a_comment() {
    survives("POST", COMMENTS, 1, Fault::TooManyRequests { retry_after: 1 }).await;
}

#[tokio::test]
async fn a_page_for_people_for_a_comment() {
    survives("POST", COMMENTS, 1, Fault::Html { status: 200 }).await;
}

/// With a status that says that all is well.
#[tokio::test]
async fn json_that_ends_too_early_is_no_answer() {
    for (method, prefix) in [
        ("POST", COMMENTS),
        ("POST", "/repos/octo/hello/pulls"),
        ("POST", "/app/installations/"),
        ("GET", "/repos/octo/hello/collaborators/"),
        ("GET", "/repos/octo/hello$"),
        ("PATCH", "/repos/octo/hello/issues/comments/"),
    ] {
        survives(method, prefix, 1, Fault::Truncated { status: 200 }).await;
    }
}

/// It would count as done, and the thread say for ever that the work is under way.
#[tokio::test]
async fn a_page_for_people_or_nothing_for_an_edit_is_no_success() {
    for fault in [Fault::Html { status: 200 }, Fault::Empty { status: 200 }] {
        survives("PATCH", "/repos/octo/hello/issues/comments/", 3, fault).await;
    }
}

/// GitHub answers so while permissions, a rename or a suspension settle.
#[tokio::test]
async fn a_refusal_that_passes_leaves_no_comment_behind() {
    let edits = "/repos/octo/hello/issues/comments/";
    for (method, prefix, status) in [("POST", COMMENTS, 403), ("POST", COMMENTS, 404), ("PATCH", edits, 403)] {
        survives(method, prefix, 3, Fault::Status(status)).await;
    }
}

#[tokio::test]
async fn a_refusal_of_the_pull_request_that_passes_is_not_told() {
    survives("POST", "/repos/octo/hello/pulls", 1, Fault::Status(403)).await;
}

#[tokio::test]
async fn a_cut_connection_after_a_comment_was_made_does_not_double_it() {
    survives("POST", COMMENTS, 1, Fault::CutAfterApplying).await;
}

#[tokio::test]
async fn silence_after_a_comment_was_made_does_not_double_it() {
    survives("POST", COMMENTS, 1, Fault::HangAfterApplying(Duration::from_secs(1))).await;
}

#[tokio::test]
async fn a_cut_connection_after_the_pull_request_was_opened_does_not_double_it() {
    survives("POST", "/repos/octo/hello/pulls", 1, Fault::CutAfterApplying).await;
}

#[tokio::test]
async fn an_html_error_page_for_the_repository() {
    survives("GET", "/repos/octo/hello$", 1, Fault::Html { status: 502 }).await;
}

#[tokio::test]
async fn an_empty_answer_for_the_token() {
    survives("POST", "/app/installations/", 1, Fault::Empty { status: 200 }).await;
}

#[tokio::test]
async fn a_500_for_the_permission() {
    survives("GET", "/repos/octo/hello/collaborators/", 1, Fault::Status(500)).await;
}

/// GitHub answers so for a moment, too.
#[tokio::test]
async fn a_refused_question_is_asked_again() {
    for (method, prefix) in [
        ("GET", "/repos/octo/hello/collaborators/"),
        ("GET", "/repos/octo/hello$"),
        ("GET", "/repos/octo/hello/issues/1"),
        ("GET", "/repos/octo/hello/pulls"),
        ("GET", "/octo/hello.git/info/refs"),
    ] {
        for status in [403, 404] {
            survives(method, prefix, 1, Fault::Status(status)).await;
        }
    }
    survives("GET", "/repos/octo/hello/collaborators/", 1, Fault::Status(451)).await;
}

#[tokio::test]
async fn whoever_may_do_what_is_not_known_is_told_just_that_and_heard_later() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().inject(Some("GET"), "/repos/octo/hello/collaborators/", u32::MAX, Fault::Status(404));
    let tries = [world.ask(issue, "add a greeting"), world.ask(issue, "add a note")];
    world.settle().await;
    assert_eq!(tries.map(|comment| world.reactions(comment)), [["confused"], ["confused"]]);
    assert_eq!(world.answers(issue).len(), 1);
    let answer = world.answer(issue);
    assert!(answer.contains("could not find out whether you may ask for this"), "{answer}");
    assert!(!answer.contains("permission"), "{answer}");
    assert!(world.runs().await.is_empty());
    world.standin.faults().clear();
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    assert!(world.service.stop().await);
    world.standin.stop();
}

#[tokio::test]
async fn a_500_for_graphql() {
    survives("POST", "/api/graphql", 1, Fault::Status(500)).await;
}

#[tokio::test]
async fn a_500_from_the_git_server_once() {
    survives("GET", "/octo/hello.git/info/refs", 1, Fault::Status(500)).await;
}

#[tokio::test]
async fn a_500_while_pushing_once() {
    survives("POST", "/octo/hello.git/git-receive-pack", 1, Fault::Status(500)).await;
}

/// Git reports a push that the remote did not answer for as refused.
#[tokio::test]
async fn a_cut_connection_after_the_push_was_applied_is_read_back() {
    survives("POST", "/octo/hello.git/git-receive-pack", 1, Fault::CutAfterApplying).await;
}

#[tokio::test]
async fn silence_after_the_push_was_applied_is_read_back() {
    survives("POST", "/octo/hello.git/git-receive-pack", 1, Fault::HangAfterApplying(Duration::from_secs(1))).await;
}

#[tokio::test]
async fn a_git_server_that_stays_away_is_named_and_the_next_mention_works() {
    let world = World::new().await;
    let issue = world.issue();
    world.standin.faults().inject(None, "/octo/hello.git/", 1000, Fault::Status(500));
    world.ask(issue, "add a greeting");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**") && status.contains("git server could not be reached"), "{status}");
    assert!(world.all_environments().await.is_empty());

    world.standin.faults().clear();
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.end().await;
}

#[tokio::test]
async fn a_push_that_never_gets_through_keeps_the_work_and_the_next_mention_delivers_it() {
    let world = World::new().await;
    let issue = world.issue();
    world.standin.faults().inject(Some("POST"), "/octo/hello.git/git-receive-pack", 1000, Fault::Status(500));
    world.ask(issue, "add a greeting");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**") && status.contains("git server could not be reached"), "{status}");
    assert!(status.contains("kept"), "what is safe: {status}");
    assert!(world.local_tip("issue-1").await.is_some());

    world.standin.faults().clear();
    world.ask(issue, "agent:noop");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert!(world.remote_file("issue-1", "hello.sh").await.is_some());
    assert_eq!(world.pull_of("issue-1").commits.len(), 1);
    world.end().await;
}

/// BR-197
#[tokio::test]
async fn tokens_that_expire_during_a_run_are_renewed() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "note this agent:sleep=1");
    world.until_agent_works().await;
    world.standin.expire_tokens();
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert!(world.pull_of("issue-1").draft);
    world.end().await;
}

#[tokio::test]
async fn a_delivery_that_arrives_twice_runs_once() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().duplicate_deliveries(1);
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);

    let record = world.standin.deliveries().into_iter().find(|record| record.event == "issue_comment").unwrap();
    world.standin.redeliver(record.id).unwrap();
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded], "a redelivery of what was done changes nothing");
    world.end().await;
}

#[tokio::test]
async fn a_delivery_that_was_dropped_runs_when_it_is_redelivered() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.standin.faults().drop_deliveries(1);
    world.standin.comment(REPO, ANN, issue, &world.mention("add a greeting")).unwrap();
    world.settle().await;
    assert!(world.runs().await.is_empty());
    let record = world.standin.deliveries().pop().unwrap();
    world.standin.redeliver(record.id).unwrap();
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

/// BR-150: The stand-in gives an answer ten seconds, as GitHub does; nothing that waits or works here may stand before it.
#[tokio::test]
async fn deliveries_are_answered_while_an_agent_works_and_hundreds_wait() {
    const MANY: usize = 200;
    let world = World::new().await;
    let (busy, waiting) = (world.issue(), world.issue());
    world.ask(busy, "agent:sleep=600");
    let run = world.until_agent_works().await;
    world
        .until("the deliveries so far to be handled", || async {
            (world.store().unfinished().await.unwrap().deliveries == 0).then_some(())
        })
        .await;
    // The first one asks GitHub who Bob is, gets no answer, and has the rest of its thread wait behind it.
    world.standin.set_permission(REPO, "bob", Permission::Write).unwrap();
    world.standin.faults().inject(Some("GET"), "/repos/octo/hello/collaborators/bob", u32::MAX, Fault::Status(500));
    world.standin.comment(REPO, "bob", waiting, &world.mention("add a greeting")).unwrap();
    for number in 1..MANY {
        let aside = format!("Thought {number}, not for `{}`", world.mention(""));
        world.standin.comment(REPO, ANN, waiting, &aside).unwrap();
    }
    world.standin.settled().await;

    // What the bot itself edits may be on its way already.
    let answered = world.standin.deliveries().into_iter().filter_map(|delivery| delivery.outcome);
    let answered: Vec<_> = answered.map(|outcome| outcome.status_code).collect();
    assert!(answered.len() > MANY && answered.iter().all(|code| *code == 202), "{answered:?}");
    let left = world.store().unfinished().await.unwrap();
    assert!(left.deliveries >= MANY as i64, "all of them wait: {left:?}");
    assert_eq!(
        world.runs().await.iter().map(|run| (run.id, run.state)).collect::<Vec<_>>(),
        [(run.id, RunState::Running)]
    );

    world.standin.faults().clear();
    world.ask(busy, "/stop");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled, RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn a_refused_pull_request_is_not_called_late() {
    let world = World::new().await;
    let issue = world.issue();
    world.standin.faults().inject(Some("POST"), "/repos/octo/hello/pulls", 2, Fault::Status(422));
    world.ask(issue, "add a greeting");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("GitHub refused its pull request") && status.contains("mention me again"), "{status}");
    assert!(!status.contains("as soon as"), "{status}");
    world.ask(issue, "add a note");
    world.settle().await;
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);
}

#[tokio::test]
async fn a_pull_request_that_opens_late_is_told_in_the_status_comment() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    let run = world.runs().await.remove(0);
    assert!(run.outcome.pull_request.is_some());
    // What a GitHub that did not take it in time leaves behind.
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let mut database = file.connect().await.unwrap();
    for late in [
        "UPDATE runs SET outcome = json_set(json_remove(outcome, '$.pull_request'), '$.not_pushed_because', 'not yet')",
        "UPDATE outbox SET outgoing = replace(outgoing, 'pull request #', 'none, not #') WHERE key LIKE 'status/%'",
        "UPDATE outbox SET state = 'pending', sent_version = 0, remote_id = NULL WHERE key LIKE 'pull/%'",
    ] {
        assert_eq!(sqlx::query(late).execute(&mut database).await.unwrap().rows_affected(), 1);
    }
    world
        .until("the run to know of it", || async {
            world.runs().await.into_iter().find(|now| now.outcome == run.outcome)
        })
        .await;
    world.settle().await;
    let rows = world.store().list_outgoing(50).await.unwrap();
    let status = rows.into_iter().find(|row| row.key.starts_with("status/")).unwrap();
    let Outgoing::Comment { body, .. } = status.outgoing else { panic!() };
    assert!(body.contains("pull request #"), "{body}");
    world.end().await;
}

/// GitHub means all that an installation writes, not the one request it answered.
#[tokio::test]
async fn a_secondary_limit_holds_back_every_thread() {
    let world = World::new().await;
    let (limited, other) = (world.issue(), world.issue());
    world.settle().await;
    let limit = Fault::SecondaryLimit { retry_after: 600 };
    world.standin.faults().inject(Some("POST"), "/repos/octo/hello/", 10, limit);
    world.ask(limited, "agent:sleep=30");
    world.until("the limit", || async { (world.standin.faults().left() < 10).then_some(()) }).await;
    world.until_agent_works().await;
    // The eyes met it, and perhaps the comment that was under way beside them.
    let left = world.standin.faults().left();
    assert!(left >= 8, "{left}");
    world.ask(other, "agent:sleep=30");
    world.until("both to be worked on", || async { (world.runs().await.len() == 2).then_some(()) }).await;
    world.until_agent_works().await;
    assert_eq!(world.standin.faults().left(), left, "something was sent although GitHub asked to wait");
}

const GIT: &str = "/octo/hello.git/";

#[tokio::test]
async fn a_git_server_that_is_away_does_not_keep_work_from_beginning_where_the_settings_say_so() {
    let world = World::with(&[("TREEWARDEN_OFFLINE_CREATE", "on")]).await;
    world.worked_issue("agent:noop").await;
    // Something new, so that a fetch is due.
    world.standin.push_commit(REPO, ANN, "main", "News", &[("news.txt", Some("n\n"))]).await.unwrap();
    world.standin.faults().inject(None, GIT, 10_000, Fault::Status(500));
    let issue = world.issue();
    world.ask(issue, "add a greeting");
    world.settle().await;
    let status = world.status(issue);
    assert!(
        status.contains(
            "The git server cannot be reached, so this goes on from what the last fetch brought (less than a minute ago)."
        ),
        "{status}"
    );
    // What was done is not called delivered.
    assert!(status.starts_with("❌ **Failed**") && status.contains("kept"), "{status}");
    assert!(!status.contains("on the remote") && !status.contains(" is at "), "{status}");
    let environment = world.environments().await.pop().unwrap();
    assert_eq!(environment.branch.as_str(), format!("issue-{issue}"));
    assert!(!environment.path.join("news.txt").exists());

    // By command, too.
    world.ask(issue, "/worktree create offline");
    world.settle().await;
    let answer = world.answer(issue);
    assert!(answer.contains("The git server cannot be reached") && answer.contains("**task-offline**"), "{answer}");
    world.ask(issue, &format!("/worktree link issue-{issue}"));
    world.settle().await;

    world.standin.faults().clear();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && !status.contains("cannot be reached"), "{status}");
    assert_eq!(world.remote_tip(environment.branch.as_str()).await, world.local_tip(environment.branch.as_str()).await);
    world.end().await;
}

#[tokio::test]
async fn without_the_server_no_work_begins_on_a_head_that_is_not_here_nor_after_a_refusal() {
    let world = World::with(&[("TREEWARDEN_OFFLINE_CREATE", "on")]).await;
    world.worked_issue("agent:noop").await;
    let pull = world.pull_from("feature", "Please look.").await;
    let (forks, _) = world.pull_from_fork("far").await;
    world.settle().await;
    world.approve(forks).await;
    world.standin.faults().inject(None, GIT, 10_000, Fault::Status(500));
    for pull in [pull, forks] {
        world.ask(pull, "agent:noop");
        world.settle().await;
        let status = world.status(pull);
        assert!(status.starts_with("❌ **Failed**") && status.contains("could not be reached"), "{status}");
    }
    world.standin.faults().clear();
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.status(pull).starts_with('✅'), "{}", world.status(pull));

    // Here by now: it is gone on with. A push moves it out of sight again.
    world.standin.faults().inject(None, GIT, 10_000, Fault::Status(500));
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.status(pull).contains("The git server cannot be reached, so this goes on"), "{}", world.status(pull));
    world.standin.push_commit(REPO, ANN, "feature", "More", &[("more.txt", Some("m\n"))]).await.unwrap();
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.status(pull).contains("could not be reached"), "{}", world.status(pull));
    world.standin.faults().clear();

    // Somebody who answers was reached.
    world.standin.push_commit(REPO, ANN, "main", "News", &[("news.txt", Some("n\n"))]).await.unwrap();
    world.standin.faults().inject(None, GIT, 10_000, Fault::Status(403));
    let issue = world.issue();
    world.ask(issue, "add a greeting");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**") && status.contains("did not accept the access token"), "{status}");
    world.standin.faults().clear();
    world.end().await;
}

#[tokio::test]
async fn one_bad_answer_about_links_costs_no_sharing_and_more_are_said() {
    let world = World::new().await;
    let issue = world.issue();
    let pull = world.pull_from("feature/x", &format!("Fixes #{issue}")).await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    world.standin.faults().inject(Some("POST"), "/api/graphql", 1, Fault::Status(502));
    world.ask(issue, "add a note");
    world.settle().await;
    assert_eq!(world.standin.faults().left(), 0, "the fault did not strike");
    assert!(world.status(issue).contains(&format!("Reusing worktree from PR #{pull}")), "{}", world.status(issue));

    let other = world.issue();
    world.standin.faults().inject(Some("POST"), "/api/graphql", u32::MAX, Fault::Status(502));
    world.ask(other, "add a note");
    world.settle().await;
    world.standin.faults().clear();
    let status = world.status(other);
    assert!(status.starts_with('✅') && status.contains("GitHub could not say just now which"), "{status}");
    world.end().await;
}

/// A login page, or nothing, with status 200 looks to git like a repository without branches.
#[tokio::test]
async fn a_page_for_people_instead_of_the_first_fetch() {
    survives("GET", "/octo/hello.git/info/refs", 1, Fault::Html { status: 200 }).await;
}

#[tokio::test]
async fn nothing_at_all_instead_of_the_first_fetch() {
    survives("GET", "/octo/hello.git/info/refs", 1, Fault::Empty { status: 200 }).await;
}

#[tokio::test]
async fn a_page_for_people_while_work_is_delivered_deletes_no_branch() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    // The branch is where the last fetch left it, so that the next questions to the git server are those of the delivery.
    for times in 1..=2 {
        world.standin.faults().inject(Some("GET"), "/octo/hello.git/info/refs", times, Fault::Html { status: 200 });
        world.ask(issue, "add a note");
        world.settle().await;
        assert_eq!(world.standin.faults().left(), 0, "the fault did not strike");
        let status = world.status(issue);
        assert!(status.starts_with('✅') && !status.contains("deleted on the remote"), "{status}");
    }
    assert_eq!(world.pull_of("issue-1").commits.len(), 3);
    world.end().await;
}

/// This machine's, by ten minutes: nothing that it signs would be good.
#[tokio::test]
async fn a_service_whose_clock_is_wrong_works() {
    for ahead in [600, -600] {
        let world = World::new().await;
        world.standin.set_clock_ahead(ahead);
        let world = world.in_new_home("elsewhere").await;
        let issue = world.worked_issue("add a greeting").await;
        assert_eq!(world.run_states().await, [RunState::Succeeded], "{ahead}");
        assert_eq!(world.pull_of("issue-1").base_branch, "main");
        // What did not come is fetched when it is due by GitHub's clock, and nothing of before the first start.
        world.standin.faults().drop_deliveries(1);
        world.ask(issue, "also greet in French");
        world.standin.settled().await;
        let later = Timestamp::new(chrono::Utc::now()).plus(Duration::from_secs(120));
        world.orchestrator().look_for_missed(later).await.unwrap();
        world.settle().await;
        assert_eq!(world.run_states().await, [RunState::Succeeded; 2], "{ahead}");
        world.end().await;
    }
}
