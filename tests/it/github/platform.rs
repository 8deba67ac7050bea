//! The outbox's side of GitHub: whatever happened to an earlier try, the wanted thing exists once.

use super::fake::{Answer, Fake};
use super::*;
use std::time::Duration;
use treewarden::github::{AppIdentity, Connection, Wire};
use treewarden::platform::{GithubPlatform, Platform, SendError};

const COMMENTS: &str = "/api/v3/repos/acme/app/issues/5/comments";
const BOT: i64 = 70;

fn platform(fake: &Fake) -> GithubPlatform {
    let bot = Person { id: UserId(BOT), login: "treewarden[bot]".to_owned(), is_bot: true };
    let identity = AppIdentity { app_id: 7, slug: "treewarden".to_owned(), name: "Treewarden".to_owned(), bot };
    GithubPlatform::new(Wire::connected(Connection { github: fake.client(), identity, fetches: false }))
}

fn codebase() -> Codebase {
    let now = Timestamp::from_unix(1_772_323_200);
    Codebase {
        id: CodebaseId(uuid::Uuid::nil()),
        host: Host::Github { id: REPOSITORY, installation: InstallationId(3) },
        name: name(),
        default_branch: None,
        repository_dir: "1".to_owned(),
        connected: true,
        reach: Reach::Whole,
        reach_since: None,
        mode: CodebaseMode::On,
        created_at: now,
        updated_at: now,
    }
}

fn row(outgoing: Outgoing, attempts: i64, remote_id: Option<i64>) -> OutboxRow {
    let now = Timestamp::from_unix(1_772_323_200);
    OutboxRow {
        id: OutboxId(uuid::Uuid::nil()),
        key: "status/1".to_owned(),
        codebase: CodebaseId(uuid::Uuid::nil()),
        conversation: None,
        outgoing,
        version: 1,
        sent_version: 0,
        remote_id,
        state: OutboxState::Sending,
        attempts,
        last_error: None,
        not_before: now,
        created_at: now,
        updated_at: now,
    }
}

fn comment() -> Outgoing {
    Outgoing::Comment { number: ISSUE, body: "done <!-- mark -->".to_owned(), marker: "<!-- mark -->".to_owned() }
}

fn pull() -> Outgoing {
    let branch = |text: &str| BranchName::new(text).unwrap();
    Outgoing::PullRequest {
        head: branch("issue-5"),
        base: branch("main"),
        title: "T".to_owned(),
        body: "Fixes #5".to_owned(),
        draft: true,
    }
}

#[tokio::test]
async fn a_first_comment_is_written_and_later_ones_edit_it() {
    let fake = Fake::start().await;
    fake.on(&format!("POST {COMMENTS}"), [Answer::Json(201, json!({"id": 11}))]);
    fake.on("PATCH /api/v3/repos/acme/app/issues/comments/11", [Answer::Json(200, json!({"id": 11}))]);
    let platform = platform(&fake);
    assert_eq!(platform.send(&codebase(), &row(comment(), 1, None)).await, Ok(Some(11)));
    assert_eq!(platform.send(&codebase(), &row(comment(), 2, Some(11))).await, Ok(Some(11)));
    assert!(fake.seen(&format!("GET {COMMENTS}")).is_empty(), "nothing to look for");
    assert_eq!(fake.seen("PATCH")[0].body, json!({"body": "done <!-- mark -->"}));
}

/// BR-143
#[tokio::test]
async fn a_comment_whose_answer_was_lost_is_found_by_its_marker_and_author() {
    let fake = Fake::start().await;
    let by = |id: i64, author: i64| {
        json!({"id": id, "user": {"id": author, "login": "x"}, "body": "old <!-- mark -->",
            "created_at": "2026-03-01T00:00:00Z"})
    };
    fake.on(
        &format!("GET {COMMENTS}?since=2026-02-28T23:00:00Z"),
        [Answer::Json(200, json!([by(20, 5), by(21, BOT)]))],
    );
    fake.on("PATCH /api/v3/repos/acme/app/issues/comments/21", [Answer::Json(200, json!({"id": 21}))]);
    assert_eq!(platform(&fake).send(&codebase(), &row(comment(), 2, None)).await, Ok(Some(21)));
    assert!(fake.seen(&format!("POST {COMMENTS}")).is_empty());
}

#[tokio::test]
async fn a_comment_somebody_deleted_is_said_again_once() {
    let fake = Fake::start().await;
    fake.on(&format!("GET {COMMENTS}"), [Answer::Json(200, json!([]))]);
    fake.on(&format!("POST {COMMENTS}"), [Answer::Json(201, json!({"id": 12}))]);
    assert_eq!(platform(&fake).send(&codebase(), &row(comment(), 3, Some(11))).await, Ok(Some(12)));
}

#[tokio::test]
async fn a_comment_that_github_does_not_know_for_a_moment_is_not_said_twice() {
    let fake = Fake::start().await;
    let here = json!({"id": 11, "user": {"id": BOT, "login": "x"}, "body": "old <!-- mark -->",
        "created_at": "2026-03-01T00:00:00Z"});
    fake.on(&format!("GET {COMMENTS}"), [Answer::Json(200, json!([here]))]);
    let edit = "PATCH /api/v3/repos/acme/app/issues/comments/11";
    fake.on(edit, [Answer::Json(404, json!({"message": "Not Found"})), Answer::Json(200, json!({"id": 11}))]);
    assert_eq!(platform(&fake).send(&codebase(), &row(comment(), 1, Some(11))).await, Ok(Some(11)));
    assert!(fake.seen(&format!("POST {COMMENTS}")).is_empty());
}

fn check(conclusion: Option<Conclusion>) -> Outgoing {
    Outgoing::CheckRun(check_run(CommitSha::new(&"a".repeat(40)).unwrap(), conclusion))
}

const CHECK_RUNS: &str = "/api/v3/repos/acme/app/check-runs";

#[tokio::test]
async fn a_check_run_is_made_on_its_commit_and_changed_later() {
    let fake = Fake::start().await;
    fake.on(&format!("POST {CHECK_RUNS}"), [Answer::Json(201, json!({"id": 9}))]);
    fake.on(&format!("PATCH {CHECK_RUNS}/9"), [Answer::Json(200, json!({"id": 9}))]);
    let platform = platform(&fake);
    assert_eq!(platform.send(&codebase(), &row(check(None), 1, None)).await, Ok(Some(9)));
    let over = check(Some(Conclusion::TimedOut));
    assert_eq!(platform.send(&codebase(), &row(over, 1, Some(9))).await, Ok(Some(9)));

    let (made, changed) = (&fake.seen("POST /api/v3/repos")[0].body, &fake.seen("PATCH")[0].body);
    assert_eq!((&made["head_sha"], &made["status"]), (&json!("a".repeat(40)), &json!("in_progress")));
    assert_eq!((&changed["status"], &changed["conclusion"]), (&json!("completed"), &json!("timed_out")));
    assert_eq!(made["external_id"], json!(uuid::Uuid::nil()));
    assert_eq!(made["actions"][2]["identifier"], json!("clean_up"));
}

#[tokio::test]
async fn a_check_run_whose_answer_was_lost_is_found_by_its_run_on_its_commit() {
    let fake = Fake::start().await;
    let list = format!(
        "GET /api/v3/repos/acme/app/commits/{}/check-runs?check_name=Treewarden&filter=all&app_id=7",
        "a".repeat(40)
    );
    let others = json!({"check_runs": [{"id": 20, "external_id": null}, {"id": 21, "external_id": uuid::Uuid::nil()}]});
    fake.on(&list, [Answer::Json(200, others)]);
    fake.on(&format!("PATCH {CHECK_RUNS}/21"), [Answer::Json(200, json!({"id": 21}))]);
    assert_eq!(platform(&fake).send(&codebase(), &row(check(None), 2, None)).await, Ok(Some(21)));
    assert!(fake.seen(&format!("POST {CHECK_RUNS}")).is_empty());
}

#[tokio::test]
async fn where_check_runs_may_not_be_written_there_is_none() {
    let fake = Fake::start().await;
    let mint = "POST /api/v3/app/installations/3/access_tokens";
    let refused =
        || Answer::Json(422, json!({"message": "The permissions requested are not granted to this installation."}));
    fake.on(mint, [refused(), refused(), refused()]);
    let platform = platform(&fake);
    for attempts in [1, 2] {
        assert_eq!(platform.send(&codebase(), &row(check(None), attempts, None)).await, Ok(None));
    }
    // One that is there is not left as it is without another try.
    let over = platform.send(&codebase(), &row(check(Some(Conclusion::Success)), 1, Some(9))).await;
    assert!(matches!(over, Err(SendError::Retry { after: None, .. })), "{over:?}");
}

#[tokio::test]
async fn a_pull_request_that_is_open_already_is_taken_as_ours() {
    let fake = Fake::start().await;
    let open = "GET /api/v3/repos/acme/app/pulls?state=open&head=acme%3Aissue-5";
    fake.on(open, [Answer::Json(200, json!([pull_json(8, "issue-5", "main")]))]);
    assert_eq!(platform(&fake).send(&codebase(), &row(pull(), 1, None)).await, Ok(Some(8)));
    assert_eq!(platform(&fake).send(&codebase(), &row(pull(), 2, Some(8))).await, Ok(Some(8)));
    assert!(fake.seen("POST /api/v3/repos/acme/app/pulls").is_empty());
}

/// The answer to the first try was lost, and somebody was quick.
#[tokio::test]
async fn a_pull_request_that_was_merged_before_its_answer_arrived_is_found() {
    let fake = Fake::start().await;
    let closed = |number: i64, body: &str| {
        let mut pull = pull_json(number, "issue-5", "main");
        pull["state"] = json!("closed");
        pull["merged_at"] = json!("2026-03-01T00:00:00Z");
        pull["body"] = json!(body);
        pull
    };
    let all = "GET /api/v3/repos/acme/app/pulls?state=all&head=acme%3Aissue-5";
    fake.on(all, [Answer::Json(200, json!([closed(7, "Fixes #4"), closed(8, "Fixes #5\r\n")]))]);
    assert_eq!(platform(&fake).send(&codebase(), &row(pull(), 2, None)).await, Ok(Some(8)));
    assert!(fake.seen("POST /api/v3/repos/acme/app/pulls").is_empty());
}

#[tokio::test]
async fn a_pull_request_that_is_seen_only_after_a_refusal_is_found() {
    let fake = Fake::start().await;
    let pulls = |state: &str| format!("GET /api/v3/repos/acme/app/pulls?state={state}&head=acme%3Aissue-5");
    fake.on(&pulls("open"), [Answer::Json(200, json!([]))]);
    let refused = || Answer::Json(422, json!({"message": "A pull request already exists for acme:issue-5."}));
    fake.on("POST /api/v3/repos/acme/app/pulls", [refused(), refused()]);
    fake.on(&pulls("all"), [Answer::Json(200, json!([pull_json(8, "issue-5", "main")]))]);
    assert_eq!(platform(&fake).send(&codebase(), &row(pull(), 1, None)).await, Ok(Some(8)));
}

#[tokio::test]
async fn where_drafts_are_refused_an_open_pull_request_is_made() {
    let fake = Fake::start().await;
    fake.on("GET /api/v3/repos/acme/app/pulls", [Answer::Json(200, json!([]))]);
    let refused = Answer::Json(422, json!({"message": "Draft pull requests are not supported in this repository."}));
    fake.on("POST /api/v3/repos/acme/app/pulls", [refused, Answer::Json(201, pull_json(8, "issue-5", "main"))]);
    assert_eq!(platform(&fake).send(&codebase(), &row(pull(), 1, None)).await, Ok(Some(8)));
    let drafts: Vec<Value> =
        fake.seen("POST /api/v3/repos/acme/app/pulls").into_iter().map(|seen| seen.body["draft"].clone()).collect();
    assert_eq!(drafts, [json!(true), json!(false)]);
}

#[tokio::test]
async fn each_source_takes_its_own_reaction() {
    let fake = Fake::start().await;
    let id = CommentId(4);
    let line =
        MessageSource::ReviewComment { id, review: None, path: "a".into(), line: None, diff_hunk: String::new() };
    for (source, place) in [
        (MessageSource::ThreadBody, "issues/5"),
        (MessageSource::Review { id }, "issues/5"),
        (MessageSource::IssueComment { id }, "issues/comments/4"),
        (line, "pulls/comments/4"),
    ] {
        let path = format!("POST /api/v3/repos/acme/app/{place}/reactions");
        fake.on(&path, [Answer::Json(201, json!({"id": 1}))]);
        let outgoing = Outgoing::React { number: ISSUE, source, content: "eyes".to_owned() };
        assert_eq!(platform(&fake).send(&codebase(), &row(outgoing, 1, None)).await, Ok(None));
        assert_eq!(fake.seen(&path).last().unwrap().body, json!({"content": "eyes"}));
    }
}

#[tokio::test]
async fn what_can_pass_is_tried_again_and_the_rest_is_not() {
    let cases = [
        (503, json!({}), Some(None)),
        (429, json!({}), Some(Some(60))),
        (401, json!({"message": "Bad credentials"}), Some(Some(300))),
        (422, json!({"message": "Validation Failed"}), None),
        (403, json!({"message": "Resource not accessible by integration"}), Some(None)),
        (404, json!({"message": "Not Found"}), Some(None)),
        (410, json!({"message": "Issues are disabled"}), Some(None)),
        (451, json!({"message": "Repository access blocked"}), Some(None)),
    ];
    for (status, body, expected) in cases {
        let fake = Fake::start().await;
        fake.on(&format!("POST {COMMENTS}"), [Answer::Json(status, body.clone()), Answer::Json(status, body)]);
        let error = platform(&fake).send(&codebase(), &row(comment(), 1, None)).await.unwrap_err();
        let wait = match error {
            SendError::Retry { after, .. } => Some(after.as_ref().map(Duration::as_secs)),
            SendError::Limited { after, .. } => Some(Some(after.as_secs())),
            SendError::Permanent(_) => None,
        };
        assert_eq!(wait, expected, "{status}");
    }
}

/// A repository or permission that its installation does not have: GitHub calls the request for a token invalid.
#[tokio::test]
async fn a_token_that_is_refused_may_be_given_later_unless_the_app_lost_the_repository() {
    let fake = Fake::start().await;
    let mint = "POST /api/v3/app/installations/3/access_tokens";
    let refusals = [
        (422, "The permissions requested are not granted to this installation."),
        (403, "This installation has been suspended"),
        (404, "Not Found"),
    ];
    for (status, message) in refusals {
        for connected in [true, false] {
            fake.on(mint, [Answer::Json(status, json!({"message": message}))]);
            let codebase = Codebase { connected, ..codebase() };
            let error = platform(&fake).send(&codebase, &row(comment(), 1, None)).await.unwrap_err();
            assert_eq!(matches!(error, SendError::Retry { after: None, .. }), connected, "{status}: {error:?}");
            assert_eq!(matches!(error, SendError::Permanent(_)), !connected, "{status}: {error:?}");
        }
    }
    assert!(fake.seen(&format!("POST {COMMENTS}")).is_empty());
}
