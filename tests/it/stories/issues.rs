//! Work on issues: from a mention to a draft pull request.

use crate::support::world::{ANN, REPO, World, git};
use treewarden::{demo::github::Fault, model::*};

#[tokio::test]
async fn a_mention_on_an_issue_becomes_a_draft_pull_request() {
    let world = World::new().await;
    let issue = world.issue();
    let asked = world.ask(issue, "add a greeting");
    world.settle().await;

    assert_eq!(world.reactions(asked), ["eyes"]);
    assert_eq!(world.answers(issue).len(), 1, "one status comment, edited in place");
    let status = world.status(issue);
    let lines: Vec<&str> = status.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines[0].starts_with("✅ **Done** for `ann`"), "{status}");
    assert_eq!(lines[1], "Working in isolated branch `issue-1`");
    assert!(status.contains("I added `hello.sh`"), "{status}");

    let pull = world.pull_of("issue-1");
    assert!(pull.draft && pull.body.starts_with("Fixes #1"), "{pull:?}");
    assert_eq!((pull.title.as_str(), pull.base_branch.as_str()), ("Greet people", "main"));
    assert_eq!(world.remote_tip("issue-1").await.as_ref(), Some(&pull.head_sha));
    let truth = lines.iter().find(|line| line.starts_with("**Verified by Treewarden:**")).unwrap();
    for fact in [&pull.head_sha[..7], "`issue-1` is at", "1 file changed", &format!("pull request #{}", pull.number)] {
        assert!(truth.contains(fact), "{fact} in {truth}");
    }

    let environment = world.environment().await;
    assert_eq!(git(&environment.path, &["status", "--porcelain", "--ignored"]), "");
    let [author, subject, body] =
        ["%an", "%s", "%b"].map(|format| git(&environment.path, &["log", "-1", &format!("--format={format}")]));
    assert_eq!((author, subject), (world.standin.bot_login(), "Add a greeting".to_owned()));
    assert!(body.contains("Co-authored-by: ann <"), "{body}");

    // What the comment and the pull request link to on GitHub is there.
    for page in [format!("issues/{issue}"), format!("pull/{}", pull.number)] {
        let page = fetch(&format!("{}/{REPO}/{page}", world.standin.web_url())).await;
        let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for link in links.filter(|link| link.starts_with(&world.standin.web_url())) {
            let (address, fragment) = link.split_once('#').unwrap_or((link, ""));
            assert!(fetch(address).await.contains(fragment), "{link}");
        }
    }
    world.end().await;
}

async fn fetch(address: &str) -> String {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.get(address).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{address}");
    answer.text().await.unwrap()
}

#[tokio::test]
async fn a_mention_in_the_body_counts_when_the_issue_is_opened() {
    let world = World::new().await;
    let body = world.mention("please add a greeting");
    let issue = world.standin.open_issue(REPO, ANN, "Greet people", &body).unwrap();
    world.settle().await;

    assert!(world.status(issue).starts_with('✅'));
    let reactions = world.standin.reactions(REPO, issue).unwrap();
    assert_eq!(reactions.iter().map(|reaction| reaction.content.as_str()).collect::<Vec<_>>(), ["eyes"]);
    assert!(world.remote_file("issue-1", "hello.sh").await.is_some());
    world.end().await;
}

#[tokio::test]
async fn two_mentions_at_once_are_two_runs_in_one_environment_in_order() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "first note");
    world.ask(issue, "second note");
    world.settle().await;

    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    assert_eq!(world.all_environments().await.len(), 1);
    let notes = world.remote_file("issue-1", "NOTES.md").await.unwrap();
    assert_eq!(notes, "# Notes\n\n- first note\n- second note\n");
    assert_eq!(world.statuses(issue).len(), 2);
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn two_issues_at_once_get_an_environment_each() {
    let world = World::new().await;
    let (one, two) = (world.issue(), world.issue());
    world.ask(one, "note one");
    world.ask(two, "note two");
    world.settle().await;

    let mut branches: Vec<_> = world.environments().await.into_iter().map(|e| e.branch.to_string()).collect();
    branches.sort();
    assert_eq!(branches, ["issue-1", "issue-2"]);
    assert_eq!(world.remote_file("issue-1", "NOTES.md").await.unwrap(), "# Notes\n\n- note one\n");
    assert_eq!(world.remote_file("issue-2", "NOTES.md").await.unwrap(), "# Notes\n\n- note two\n");
    world.end().await;
}

/// BR-125
#[tokio::test]
async fn an_edit_that_adds_a_mention_runs_once() {
    let world = World::new().await;
    let issue = world.issue();
    let comment = world.standin.comment(REPO, ANN, issue, "add a greeting").unwrap();
    world.settle().await;
    assert_eq!(world.runs().await.len(), 0);

    world.standin.edit_comment(REPO, ANN, comment, &world.mention("add a greeting")).unwrap();
    world.settle().await;
    let again = [world.mention("add a friendly greeting"), "nothing".to_owned(), world.mention("add a greeting")];
    for text in again {
        world.standin.edit_comment(REPO, ANN, comment, &text).unwrap();
        world.settle().await;
    }
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    world.end().await;
}

#[tokio::test]
async fn an_edit_of_the_body_that_adds_a_mention_runs_once() {
    let world = World::new().await;
    let issue = world.issue();
    world.standin.edit(REPO, ANN, issue, Some("Greet everybody"), Some("We should.")).unwrap();
    world.settle().await;
    assert!(world.runs().await.is_empty());
    for words in ["add a greeting", "add a friendly greeting"] {
        world.standin.edit(REPO, ANN, issue, None, Some(&world.mention(words))).unwrap();
        world.settle().await;
    }
    let runs = world.runs().await;
    assert_eq!(runs.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded]);
    assert_eq!((&runs[0].request.source, &*runs[0].request.text), (&MessageSource::ThreadBody, "add a greeting"));
    let reactions = world.standin.reactions(REPO, issue).unwrap();
    assert_eq!(reactions.iter().map(|reaction| reaction.content.as_str()).collect::<Vec<_>>(), ["eyes"]);
    world.end().await;
}

#[tokio::test]
async fn a_comment_deleted_before_its_run_cancels_it() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "take your time agent:sleep=3");
    world.until_agent_works().await;
    let regretted = world.ask(issue, "note something foolish");
    world.until("the second run in the queue", || async { (world.runs().await.len() == 2).then_some(()) }).await;
    world.standin.delete_comment(REPO, ANN, regretted).unwrap();
    world.settle().await;

    assert_eq!(world.run_states().await, [RunState::Succeeded, RunState::Cancelled]);
    assert!(!world.remote_file("issue-1", "NOTES.md").await.unwrap().contains("foolish"));
    assert!(world.status(issue).starts_with("⏹️ **Stopped**"), "{}", world.status(issue));
    world.end().await;
}

#[tokio::test]
async fn a_deletion_that_arrives_before_its_comment_counts() {
    let world = World::new().await;
    let (known, unknown) = (world.worked_issue("agent:noop").await, world.issue());
    world.settle().await;
    let before = world.standin.deliveries().len();
    world.standin.faults().drop_deliveries(4);
    for issue in [known, unknown] {
        let regretted = world.ask(issue, "note something foolish");
        world.standin.delete_comment(REPO, ANN, regretted).unwrap();
    }
    world.standin.settled().await;
    let mut sent: Vec<i64> = world.standin.deliveries().iter().map(|delivery| delivery.id).collect();
    sent.sort();
    for id in sent.split_off(before).iter().rev() {
        world.standin.redeliver(*id).unwrap();
    }
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    assert!(world.answers(unknown).is_empty());
    world.end().await;
}

#[tokio::test]
async fn an_agent_that_commits_itself_has_its_commit_delivered() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:commit").await;
    let pull = world.pull_of("issue-1");
    assert_eq!(pull.commits.len(), 1);
    assert!(world.status(issue).contains("1 file changed"), "{}", world.status(issue));
    world.end().await;
}

/// What `agent:huge` answers, in comments of which each is there once, in order, whatever became of a request.
async fn huge_is_told_once(world: World, issue: i64) {
    let told: Vec<String> = world.answers(issue).into_iter().map(|comment| comment.body).collect();
    assert_eq!(told.len(), 4, "{:?}", told.iter().map(|body| body.len()).collect::<Vec<_>>());
    let run = world.runs().await.remove(0);
    let keys = ["", "/2", "/3", "/4"].map(|part| format!("<!-- treewarden:status/{}{part} -->", run.id));
    for ((body, key), number) in told.iter().zip(&keys).zip(1..) {
        assert!(body.ends_with(key), "{key}");
        assert!(body.contains(&format!("*Part {number} of 4")), "{key}");
        assert!(body.encode_utf16().count() < 65_536, "{key}");
        assert_eq!(body.matches("```").count(), 2, "{key}: its fence is closed");
    }
    // BR-189
    assert!(told[3].contains("the whole text is in the run's log"));
    assert!(told[..3].iter().all(|body| !body.contains("is cut here")));
    let status = world.status(issue);
    assert!(status == told[0] && status.contains("**Verified by Treewarden:**"), "{status}");
    assert!(status.contains(&format!("[Run and log](http://{}/runs/{})", world.service.address, run.id)));
    let log = world.page(&format!("/runs/{}", run.id)).await;
    assert!(log.contains("Größe 🌳 line of the log"), "{}", log.len());
    world.end().await;
}

#[tokio::test]
async fn an_answer_too_long_for_one_comment_goes_on_in_three_more() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:huge").await;
    huge_is_told_once(world, issue).await;
}

#[tokio::test]
async fn no_part_of_an_answer_is_doubled_when_githubs_answers_are_lost() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    let comments = format!("/repos/octo/hello/issues/{issue}/comments");
    // The first comment and two parts; of each, the second try finds what is there.
    world.standin.faults().inject(Some("POST"), &comments, 3, Fault::CutAfterApplying);
    world.ask(issue, "agent:huge");
    world.settle().await;
    assert_eq!(world.standin.faults().left(), 0, "the fault did not strike");
    huge_is_told_once(world, issue).await;
}

#[tokio::test]
async fn parts_of_an_answer_wait_for_the_ones_before_them() {
    let world = World::new().await;
    let issue = world.issue();
    world.settle().await;
    world.ask(issue, "agent:sleep=2 agent:huge");
    world.until_agent_works().await;
    let comments = format!("/repos/octo/hello/issues/{issue}/comments");
    world.standin.faults().inject(Some("POST"), &comments, 2, Fault::Status(502));
    world.settle().await;
    assert_eq!(world.standin.faults().left(), 0, "the fault did not strike");
    huge_is_told_once(world, issue).await;
}

#[tokio::test]
async fn thirty_mentions_on_thirty_issues_make_thirty_environments() {
    let world = World::with(&[("MAX_WORKTREES_PER_CODEBASE", "40"), ("MAX_CONCURRENT_RUNS", "30")]).await;
    let issues: Vec<i64> = (0..30).map(|_| world.issue()).collect();
    for issue in &issues {
        world.ask(*issue, "agent:noop");
    }
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded; 30]);
    let live = world.environments().await;
    let branches: std::collections::BTreeSet<_> = live.iter().map(|live| live.branch.as_str()).collect();
    assert_eq!((live.len(), branches.len()), (30, 30));
    world.end().await;
}
