//! Questions and requests: what goes over the wire, and how each kind of failure is told.

use super::fake::{Answer, Fake};
use super::*;
use std::time::Duration;
use treewarden::github::{GithubError, InstallationClient, LinkedThread, MergedHead};

const READ: &str = "GET /api/v3/repos/acme/app";
const WRITE: &str = "POST /api/v3/repos/acme/app/issues/5/comments";

async fn fake() -> (Fake, InstallationClient) {
    let fake = Fake::start().await;
    let installation = fake.client().installation(InstallationId(3));
    (fake, installation)
}

fn text(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
    Answer::Full(status, headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(), body.to_owned())
}

fn limited(seconds: u64) -> GithubError {
    GithubError::RateLimited { retry_after: Duration::from_secs(seconds) }
}

#[tokio::test]
async fn each_refusal_of_a_write_is_told_apart_and_never_repeated() {
    for (answer, expected) in [
        (text(403, &[("retry-after", "9")], "{}"), limited(9)),
        (text(429, &[("retry-after", "3")], ""), limited(3)),
        (text(429, &[], ""), limited(60)),
        (
            text(403, &[], r#"{"message": "Resource not accessible by integration"}"#),
            GithubError::Forbidden("Resource not accessible by integration".to_owned()),
        ),
        (text(404, &[], "{}"), GithubError::NotFound("acme/app#5".to_owned())),
        (
            text(422, &[], r#"{"message": "Validation Failed", "errors": [{"message": "body is too long"}]}"#),
            GithubError::Invalid("Validation Failed; body is too long".to_owned()),
        ),
        (text(500, &[], "<html>oops</html>"), GithubError::Server { status: 500 }),
        (text(502, &[], ""), GithubError::Server { status: 502 }),
    ] {
        let (fake, installation) = fake().await;
        fake.on(WRITE, [answer]);
        assert_eq!(installation.create_comment(REPOSITORY, &name(), ISSUE, "x").await, Err(expected));
        assert_eq!(fake.seen(WRITE).len(), 1);
    }
}

/// Somebody between here and GitHub, who can be mended.
#[tokio::test]
async fn what_only_a_proxy_says_is_no_verdict() {
    let said = r#"{"message": "Please wait"}"#;
    let own = [407, 408, 418, 421, 425, 499].map(|status| text(status, &[], said));
    let pages = [400, 401, 403, 404, 410, 413, 422].map(|status| text(status, &[], "<html>Blocked</html>"));
    for answer in own.into_iter().chain(pages) {
        let (fake, installation) = fake().await;
        fake.on(WRITE, [answer]);
        let error = installation.create_comment(REPOSITORY, &name(), ISSUE, "x").await.unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        assert_eq!(fake.seen(WRITE).len(), 1, "a write goes out once");
    }
}

#[tokio::test]
async fn pages_for_people_and_nothing_at_all_are_bad_answers() {
    for body in ["<!doctype html><title>Unicorn!</title>", "", "{}", "[]", "null"] {
        let (fake, installation) = fake().await;
        fake.on(READ, [text(200, &[], body)]);
        let error = installation.repository(REPOSITORY, &name()).await.unwrap_err();
        assert!(matches!(error, GithubError::BadAnswer(_)) && error.is_transient(), "{error:?}");
    }
}

/// Also to a write of which nothing has to be read: it would count as done.
#[tokio::test]
async fn a_success_that_is_not_githubs_is_none() {
    const EDIT: &str = "PATCH /api/v3/repos/acme/app/issues/comments/7";
    const REACTION: &str = "POST /api/v3/repos/acme/app/issues/comments/7/reactions";
    let (fake, installation) = fake().await;
    let edited = async || installation.update_comment(REPOSITORY, &name(), CommentId(7), "x").await;
    let source = MessageSource::IssueComment { id: CommentId(7) };
    let reacted = async || installation.react(REPOSITORY, &name(), ISSUE, &source, "eyes").await;
    for body in ["<!doctype html><title>Log in</title>", "", "{}", "null", r#"{"error": "log in"}"#] {
        for door in [EDIT, REACTION] {
            fake.on(door, [text(200, &[], body)]);
        }
        let outcomes = [edited().await, reacted().await];
        assert!(outcomes.iter().all(|one| matches!(one, Err(GithubError::BadAnswer(_)))), "{body}: {outcomes:?}");
    }
    fake.on(EDIT, [text(200, &[], r#"{"id": 8}"#), text(200, &[], r#"{"id": 7}"#)]);
    assert!(matches!(edited().await, Err(GithubError::BadAnswer(_))), "another comment");
    fake.on(REACTION, [text(200, &[], r#"{"id": 1}"#)]);
    assert_eq!((edited().await, reacted().await), (Ok(()), Ok(())));
}

#[tokio::test]
async fn a_read_survives_two_stumbles_and_not_three() {
    let (fake, installation) = fake().await;
    let stumble = || text(502, &[], "");
    fake.on(READ, [stumble(), stumble(), Answer::Json(200, repository_json())]);
    let info = installation.repository(REPOSITORY, &name()).await.unwrap();
    assert_eq!(info.clone_url, format!("{}/acme/app.git", fake.url), "never where an answer points");
    fake.on(READ, [stumble(), stumble(), stumble()]);
    assert_eq!(installation.repository(REPOSITORY, &name()).await, Err(GithubError::Server { status: 502 }));
    assert_eq!(fake.seen(READ).len(), 6);
}

#[tokio::test]
async fn a_write_without_an_answer_has_an_unknown_outcome() {
    let fake = Fake::start().await;
    let installation = fake.client_with_timeout(Some(Duration::from_secs(1))).installation(InstallationId(3));
    installation.create_comment(REPOSITORY, &name(), ISSUE, "warms the token").await.unwrap_err();
    fake.on(WRITE, [Answer::Silence]);
    let outcome = installation.create_comment(REPOSITORY, &name(), ISSUE, "x").await;
    assert_eq!(outcome, Err(GithubError::OutcomeUnknown));

    fake.on(READ, [Answer::Silence, Answer::Silence, Answer::Silence]);
    assert!(matches!(installation.repository(REPOSITORY, &name()).await, Err(GithubError::Unreachable(_))));
}

#[tokio::test]
async fn nobody_there_is_not_an_unknown_outcome() {
    let mut fake = Fake::start().await;
    let vacant = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    fake.url = format!("http://{vacant}");
    let installation = fake.client().installation(InstallationId(3));
    let error = installation.create_comment(REPOSITORY, &name(), ISSUE, "x").await.unwrap_err();
    assert!(matches!(error, GithubError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn all_pages_are_asked_of_the_configured_host_with_the_token() {
    let (fake, installation) = fake().await;
    let page = |ids: std::ops::Range<i64>, links: &str| {
        let comments: Vec<Value> = ids
            .map(|id| json!({"id": id, "user": null, "body": format!("c{id}"), "created_at": "2026-03-01T00:00:00Z"}))
            .collect();
        text(200, &[("link", links)], &json!(comments).to_string())
    };
    let path = "/repos/acme/app/issues/5/comments?per_page=100&page=";
    let links = r#"<http://elsewhere.example/api/v3/x?page=2>; rel="next", <http://elsewhere.example/api/v3/x?page=4>; rel="last""#;
    fake.on(&format!("GET /api/v3{path}1"), [page(0..100, links)]);
    fake.on(&format!("GET /api/v3{path}3"), [page(200..300, links)]);
    fake.on(&format!("GET /api/v3{path}4"), [page(300..310, "")]);
    let newest = installation.comments(REPOSITORY, &name(), ISSUE).await.unwrap();
    let ids: Vec<i64> = newest.iter().map(|comment| comment.id.0).collect();
    assert_eq!(ids, (210..310).collect::<Vec<i64>>());
    let asked = fake.seen("GET /api/v3/repos/acme/app/issues/5/comments");
    assert!(asked.len() == 3 && asked.iter().all(|seen| seen.auth == "Bearer token-1"));
}

#[tokio::test]
async fn what_reviews_say_is_read_from_its_newest_page() {
    let (fake, installation) = fake().await;
    let of_review =
        |id: i64, body: &str| json!({"id": id, "user": null, "body": body, "submitted_at": "2026-03-01T00:00:00Z"});
    let reviews = "GET /api/v3/repos/acme/app/pulls/5/reviews?per_page=100&page=";
    let links = r#"<http://elsewhere.example/api/v3/x?page=2>; rel="next", <http://elsewhere.example/api/v3/x?page=2>; rel="last""#;
    let first: Vec<Value> = (0..100).map(|id| of_review(id, if id % 2 == 0 { "x" } else { "" })).collect();
    fake.on(&format!("{reviews}1"), [text(200, &[("link", links)], &json!(first).to_string())]);
    fake.on(&format!("{reviews}2"), [Answer::Json(200, json!([of_review(100, "y")]))]);
    let texts = installation.review_texts(REPOSITORY, &name(), ISSUE).await.unwrap();
    assert_eq!((texts.len(), texts.last().unwrap().body.as_str()), (50, "y"), "those without a text are none");
    assert_eq!(texts[49].source, MessageSource::Review { id: CommentId(100) });

    let path = "GET /api/v3/repos/acme/app/pulls/5/comments?sort=created&direction=desc&per_page=100&page=1";
    let comment = json!({
        "id": 7, "pull_request_review_id": 6, "user": null, "body": "z", "path": "a.rs", "line": null,
        "original_line": 3, "diff_hunk": "@@", "created_at": "2026-03-01T00:00:00Z",
    });
    fake.on(path, [text(200, &[("link", links)], &json!([comment]).to_string())]);
    let on_lines = installation.line_comments(REPOSITORY, &name(), ISSUE).await.unwrap();
    let source = MessageSource::ReviewComment {
        id: CommentId(7),
        review: Some(CommentId(6)),
        path: "a.rs".to_owned(),
        line: Some(3),
        diff_hunk: "@@".to_owned(),
    };
    assert_eq!((on_lines.len(), &on_lines[0].source), (1, &source));
    assert!(on_lines[0].written_at.is_some() && on_lines[0].written_at == texts[0].written_at);
}

#[tokio::test]
async fn a_renamed_repository_is_followed_on_the_same_host_only() {
    let (fake, installation) = fake().await;
    let other = Fake::start().await;
    let to = |status: u16, target: String| text(status, &[("location", target.as_str())], "{}");
    let moved = format!("{}/api/v3/repositories/1/issues/5", fake.url);
    fake.on("GET /api/v3/repos/acme/app/issues/5", [to(301, moved)]);
    fake.on("GET /api/v3/repositories/1/issues/5", [Answer::Json(200, json!({"number": 5, "state": "open"}))]);
    assert_eq!(installation.issue(REPOSITORY, &name(), ISSUE).await.unwrap().state, ThreadState::Open);

    fake.on(WRITE, [to(307, "/api/v3/repositories/1/issues/5/comments".to_owned())]);
    fake.on("POST /api/v3/repositories/1/issues/5/comments", [Answer::Json(201, json!({"id": 9}))]);
    assert_eq!(installation.create_comment(REPOSITORY, &name(), ISSUE, "x").await, Ok(CommentId(9)));
    let followed = fake.seen("POST /api/v3/repositories/1/issues/5/comments");
    assert_eq!((followed[0].auth.as_str(), &followed[0].body), ("Bearer token-2", &json!({"body": "x"})));

    // Whoever leads elsewhere, or nowhere, is somebody on the way, who says nothing of the repository.
    let elsewhere = format!("{}/api/v3/repositories/1", other.url);
    for target in [&elsewhere, "//elsewhere.example/x", "http://[", ""] {
        for status in [301, 302, 307, 308] {
            fake.on(READ, [to(status, target.to_owned())]);
            let read = installation.repository(REPOSITORY, &name()).await.unwrap_err();
            fake.on(WRITE, [to(status, target.to_owned())]);
            let written = installation.create_comment(REPOSITORY, &name(), ISSUE, "x").await.unwrap_err();
            assert!(read.is_transient() && written.is_transient(), "{status} {target}: {read}; {written}");
        }
    }
    fake.on(WRITE, [to(301, "/api/v3/repositories/1/issues/5/comments".to_owned())]);
    let once = installation.create_comment(REPOSITORY, &name(), ISSUE, "x").await;
    assert!(matches!(once, Err(GithubError::NotFound(_))), "a write goes nowhere by chance: {once:?}");
    let circle = |_| to(302, format!("{}/api/v3/repos/acme/app/issues/5", fake.url));
    fake.on("GET /api/v3/repos/acme/app/issues/5", (0..9).map(circle));
    let nowhere = GithubError::NotFound("acme/app#5".to_owned());
    assert_eq!(installation.issue(REPOSITORY, &name(), ISSUE).await, Err(nowhere));
    assert!(other.seen("").is_empty());
}

#[tokio::test]
async fn a_repository_whose_name_another_one_has_is_found_among_all_that_are_reached() {
    const LIST: &str = "GET /api/v3/installation/repositories?per_page=100&page=";
    let (fake, installation) = fake().await;
    let called = |id: i64, name: &str| json!({"id": id, "full_name": name, "default_branch": "main"});
    let list = |repositories: Value| json!({"total_count": 101, "repositories": repositories}).to_string();
    let next = r#"<http://elsewhere.example/x?page=2>; rel="next""#;
    for other in [Answer::Json(200, called(2, "acme/app")), Answer::Json(404, json!({"message": "Not Found"}))] {
        fake.on(READ, [other]);
        fake.on(&format!("{LIST}1"), [text(200, &[("link", next)], &list(json!([called(2, "acme/app")])))]);
        fake.on(&format!("{LIST}2"), [text(200, &[], &list(json!([called(1, "acme/moved")])))]);
        let found = installation.repository(REPOSITORY, &name()).await.unwrap();
        assert_eq!((found.id, found.name.to_string()), (REPOSITORY, "acme/moved".to_owned()));
    }
    assert!(fake.seen(LIST).iter().all(|seen| seen.auth == "Bearer token-1"), "by its own token");

    fake.on(READ, [Answer::Json(200, called(2, "acme/app"))]);
    fake.on(LIST, [text(200, &[], &list(json!([called(2, "acme/app")])))]);
    let gone = installation.repository(REPOSITORY, &name()).await;
    assert_eq!(gone, Err(GithubError::NotFound("this repository".to_owned())));
    // What the list does not answer is not known.
    fake.on(READ, [Answer::Json(200, called(2, "acme/app"))]);
    fake.on(LIST, [text(403, &[("retry-after", "9")], "{}")]);
    assert_eq!(installation.repository(REPOSITORY, &name()).await, Err(limited(9)));
    // A refusal is no word on where it is.
    fake.on(READ, [text(403, &[], r#"{"message": "Resource not accessible by integration"}"#)]);
    let refused = installation.repository(REPOSITORY, &name()).await;
    assert!(matches!(refused, Err(GithubError::Forbidden(_))), "{refused:?}");
}

#[tokio::test]
async fn links_come_from_graphql_beside_the_rest_api() {
    let (fake, installation) = fake().await;
    let page = |nodes: Value, cursor: Option<&str>| {
        let connection = json!({"nodes": nodes, "pageInfo": {"hasNextPage": cursor.is_some(), "endCursor": cursor}});
        Answer::Json(200, json!({"data": {"repository": {"pullRequest": {"closingIssuesReferences": connection}}}}))
    };
    let node = |repository: i64, number: i64| json!({"number": number, "repository": {"databaseId": repository, "nameWithOwner": format!("acme/r{repository}")}});
    fake.on("POST /api/graphql", [page(json!([node(1, 5), null]), Some("c1")), page(json!([node(2, 6)]), None)]);
    let linked = installation.closing_issues(REPOSITORY, &name(), ThreadNumber(9)).await.unwrap();
    let name_of = |thread: &LinkedThread| thread.name.as_ref().map(RepoName::to_string).unwrap_or_default();
    let linked: Vec<_> = linked.iter().map(|thread| (thread.repository.0, thread.number.0, name_of(thread))).collect();
    assert_eq!(linked, [(1, 5, "acme/r1".to_owned()), (2, 6, "acme/r2".to_owned())]);
    let asked = fake.seen("POST /api/graphql");
    assert_eq!(asked[0].body["variables"], json!({"owner": "acme", "name": "app", "number": 9, "cursor": null}));
    assert_eq!(asked[1].body["variables"]["cursor"], "c1");

    for (kind, message) in [("NOT_FOUND", "gone"), ("FORBIDDEN", "no"), ("RATE_LIMITED", "slow"), ("OTHER", "odd")] {
        let refused = json!({"data": {"repository": null}, "errors": [{"type": kind, "message": message}]});
        fake.on("POST /api/graphql", [Answer::Json(200, refused)]);
        let error = installation.closing_pull_requests(REPOSITORY, &name(), ISSUE).await.unwrap_err();
        let expected = match kind {
            "NOT_FOUND" => GithubError::NotFound(message.to_owned()),
            "FORBIDDEN" => GithubError::Forbidden(message.to_owned()),
            "RATE_LIMITED" => limited(60),
            _ => GithubError::BadAnswer(message.to_owned()),
        };
        assert_eq!(error, expected);
    }
}

#[tokio::test]
async fn a_limit_that_a_question_met_is_kept_in_mind() {
    let wait = || text(403, &[("retry-after", "9")], "{}");
    let (fake, installation) = fake().await;
    fake.on(WRITE, [wait()]);
    installation.create_comment(REPOSITORY, &name(), ISSUE, "x").await.unwrap_err();
    assert_eq!(installation.limited_for(), None, "whoever writes keeps it in mind");
    fake.on(READ, [wait()]);
    assert_eq!(installation.repository(REPOSITORY, &name()).await, Err(limited(9)));
    let left = installation.limited_for().unwrap();
    assert!(left <= Duration::from_secs(9) && left > Duration::from_secs(4), "{left:?}");
    let slow = json!({"data": null, "errors": [{"type": "RATE_LIMITED", "message": "slow"}]});
    fake.on("POST /api/graphql", [Answer::Json(200, slow)]);
    assert_eq!(installation.closing_issues(REPOSITORY, &name(), ISSUE).await, Err(limited(60)));
    assert!(installation.limited_for().unwrap() > Duration::from_secs(50));
    fake.on(READ, [text(403, &[("retry-after", "1")], "{}")]);
    installation.repository(REPOSITORY, &name()).await.unwrap_err();
    assert!(installation.limited_for().unwrap() > Duration::from_secs(50), "the longer one counts");
}

#[tokio::test]
async fn permission_belongs_to_a_person_not_to_a_login() {
    let (fake, installation) = fake().await;
    let answer = |permission: &str, role: &str, id: i64| {
        Answer::Json(200, json!({"permission": permission, "role_name": role, "user": {"id": id, "login": "ann"}}))
    };
    let path = "GET /api/v3/repos/acme/app/collaborators/ann/permission";
    for (reply, expected) in [
        (answer("write", "maintain", 5), Permission::Maintain),
        (answer("read", "triage", 5), Permission::Triage),
        (answer("write", "our-own-role", 5), Permission::Write),
        (answer("admin", "admin", 6), Permission::None),
        (answer("none", "", 5), Permission::None),
    ] {
        fake.on(path, [reply]);
        assert_eq!(installation.permission(REPOSITORY, &name(), &ann()).await, Ok(expected));
    }
}

/// An answer that says nothing of the person is no "no".
#[tokio::test]
async fn permission_that_github_does_not_tell_is_not_known() {
    let (fake, installation) = fake().await;
    let path = "GET /api/v3/repos/acme/app/collaborators/ann/permission";
    let unknown = || json!({"message": "ann is not a user"});
    for reply in [
        Answer::Json(404, unknown()),
        Answer::Json(403, unknown()),
        Answer::Json(451, unknown()),
        Answer::Json(200, json!(null)),
        Answer::Json(200, json!({"permission": "admin", "user": null})),
    ] {
        fake.on(path, [reply]);
        assert!(installation.permission(REPOSITORY, &name(), &ann()).await.is_err());
    }
}

/// BR-018: a name that was used before proves nothing.
#[tokio::test]
async fn a_merge_proves_only_its_own_commit_and_base() {
    let (fake, installation) = fake().await;
    let branch = |text: &str| BranchName::new(text).unwrap();
    let sha = |digit: &str| CommitSha::new(&digit.repeat(40)).unwrap();
    let head = |head: &str, tip: &str, base: &str| MergedHead { head: branch(head), sha: sha(tip), base: branch(base) };
    let pull = |number: i64, tip: &str, cross: bool| json!({"number": number, "headRefOid": sha(tip), "baseRefName": "main", "isCrossRepository": cross});
    let pulls = json!({"nodes": [pull(9, "c", true), null, pull(8, "a", false)]});
    let repository = json!({"of0": pulls, "of1": pulls, "of2": pulls, "of3": pulls, "of4": {"nodes": []}});
    fake.on("POST /api/graphql", [Answer::Json(200, json!({"data": {"repository": repository}}))]);
    let wanted = [
        head("issue-5", "a", "main"),
        head("issue-5", "b", "main"),
        head("issue-5", "a", "dev"),
        head("issue-5", "c", "main"),
        head("issue-6", "a", "main"),
    ];
    let found = installation.merged_pull_requests(REPOSITORY, &name(), &wanted).await;
    assert_eq!(found, [Some(ThreadNumber(8)), None, None, None, None].map(Ok));
    // What is left out is no answer.
    fake.on("POST /api/graphql", [Answer::Json(200, json!({"data": {"repository": {"of0": pulls}}}))]);
    let found = installation.merged_pull_requests(REPOSITORY, &name(), &wanted[..2]).await;
    assert!(found[0] == Ok(Some(ThreadNumber(8))) && found[1].is_err(), "{found:?}");
    // A question that is too much for GitHub is asked in parts.
    let one = |pulls: &serde_json::Value| Answer::Json(200, json!({"data": {"repository": {"of0": pulls}}}));
    fake.on("POST /api/graphql", [Answer::Json(502, json!({})), one(&pulls), one(&json!({"nodes": []}))]);
    let found = installation.merged_pull_requests(REPOSITORY, &name(), &wanted[..2]).await;
    assert_eq!(found, [Ok(Some(ThreadNumber(8))), Ok(None)]);
}
