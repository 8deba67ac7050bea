//! Every request of this room, held against what GitHub publishes about its APIs, and answered as GitHub does in its examples.
//!
//! Whatever is new in `src/github` is asked for once in [`ask_everything`].

use super::fake::{Answer, Fake, Seen};
use super::*;
use crate::support::published::{self, Asked, Description};
use std::{fs, path::Path};
use treewarden::github::manifest::{self, ConversionCode};
use treewarden::github::{AttemptLog, Github, MergedHead, NewPullRequest};

/// The repository of GitHub's examples.
const EXAMPLE: RepositoryId = RepositoryId(1_296_269);

/// Calls everything that asks GitHub for something, in each way that makes it another request.
async fn ask_everything(github: &Github, api_url: &str) {
    let name: RepoName = "octocat/Hello-World".parse().unwrap();
    let octocat = Person { id: UserId(1), login: "octocat".to_owned(), is_bot: false };
    let (number, now) = (ThreadNumber(1347), Timestamp::from_unix(1_772_323_200));
    let branch = |name: &str| BranchName::new(name).unwrap();

    manifest::convert(api_url, &ConversionCode::parse("a180b1a3d263c81bc6441d7b990bae27d4c10679").unwrap())
        .await
        .unwrap();
    github.app().await.unwrap();
    github.registration().await.unwrap();
    github.installations().await.unwrap();
    github.newest_attempt().await.unwrap();
    github.read_attempts(&mut AttemptLog::default(), now, now).await.unwrap();
    github.fetch_delivery(AttemptId(12_345_678)).await.unwrap();
    let (installation, _) = github.find_repository(&name).await.unwrap();

    let client = github.installation(installation);
    for push in [false, true] {
        let credential = client.git_credential(EXAMPLE, push).await.unwrap();
        client.forget_git_credential(EXAMPLE, push, &credential).await;
    }
    client.repositories().await.unwrap();
    client.repository(EXAMPLE, &name).await.unwrap();
    assert!(client.repository(RepositoryId(1), &name).await.is_err(), "the list is asked, too");
    client.issue(EXAMPLE, &name, number).await.unwrap();
    assert_eq!(client.permission(EXAMPLE, &name, &octocat).await, Ok(Permission::Admin));
    client.branch_tip(EXAMPLE, &name, &branch("feature/a")).await.unwrap();
    client.branches_like(EXAMPLE, &name, &branch("feature/a")).await.unwrap();

    let id = CommentId(1);
    let line =
        MessageSource::ReviewComment { id, review: None, path: "a".into(), line: None, diff_hunk: String::new() };
    for source in [MessageSource::ThreadBody, MessageSource::Review { id }, MessageSource::IssueComment { id }, line] {
        for content in ["eyes", "confused"] {
            client.react(EXAMPLE, &name, number, &source, content).await.unwrap();
        }
    }
    client.comments(EXAMPLE, &name, number).await.unwrap();
    client.create_comment(EXAMPLE, &name, number, "Me too").await.unwrap();
    client.update_comment(EXAMPLE, &name, id, "Me too").await.unwrap();
    client.find_comment(EXAMPLE, &name, number, "<!-- mark -->", UserId(1), now).await.unwrap();

    client.pull_request(EXAMPLE, &name, number).await.unwrap();
    client.find_open_pull_request(EXAMPLE, &name, &branch("feature/a")).await.unwrap();
    client.texts_of_open_pull_requests(EXAMPLE, &name).await.unwrap();
    client.find_pull_requests(EXAMPLE, &name, &branch("feature/a")).await.unwrap();
    let (head, base) = (branch("feature/a"), branch("main"));
    let new = NewPullRequest { head: &head, base: &base, title: "T", body: "Fixes #5", draft: true };
    client.create_pull_request(EXAMPLE, &name, &new).await.unwrap();
    client.review_parts(EXAMPLE, &name, number, CommentId(80)).await.unwrap();
    client.review_texts(EXAMPLE, &name, number).await.unwrap();
    client.line_comments(EXAMPLE, &name, number).await.unwrap();

    let head_sha = CommitSha::new(&"a".repeat(40)).unwrap();
    for conclusion in std::iter::once(None).chain(Conclusion::ALL.iter().copied().map(Some)) {
        let check = check_run(head_sha.clone(), conclusion);
        client.create_check_run(EXAMPLE, &name, &check).await.unwrap();
        client.update_check_run(EXAMPLE, &name, 4, &check).await.unwrap();
        client.find_check_run(EXAMPLE, &name, &check, 7).await.unwrap();
    }

    client.closing_issues(EXAMPLE, &name, number).await.unwrap();
    client.closing_pull_requests(EXAMPLE, &name, number).await.unwrap();
    let merged = MergedHead { head, sha: CommitSha::new(&"a".repeat(40)).unwrap(), base };
    for several in [1, 2, 100] {
        let answers = client.merged_pull_requests(EXAMPLE, &name, &vec![merged.clone(); several]).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
}

/// A request to the fake, as GitHub publishes them.
fn asked(seen: &Seen) -> Asked<'_> {
    let (method, target) = seen.line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    Asked { method, path: path.strip_prefix("/api/v3").unwrap_or(path), query, body: Some(&seen.body) }
}

/// As in GitHub's examples; for GraphQL there are none.
fn example(description: &Description, seen: &Seen) -> Option<Answer> {
    let request = asked(seen);
    if request.path == published::GRAPHQL {
        let page = json!({"nodes": [{"number": 5, "repository": {"databaseId": 1, "nameWithOwner": "a/b"}}], "pageInfo": {"hasNextPage": false, "endCursor": "c"}});
        let mut repository = json!({"pullRequest": {"closingIssuesReferences": page}, "issue": {"closedByPullRequestsReferences": page}});
        for number in 0..100 {
            repository[format!("of{number}")] = json!({"nodes": []});
        }
        return Some(Answer::Json(200, json!({"data": {"repository": repository}})));
    }
    let (status, body) = description.example(request.method, request.path)?;
    Some(Answer::Json(status, body))
}

fn source(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn files(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains('.')).map(|name| format!("{directory}/{name}")).collect()
}

#[tokio::test]
async fn every_request_is_one_that_github_describes() {
    let Some(description) = published::description() else { return };
    let fake = Fake::start().await;
    fake.otherwise(move |seen| example(description, seen));
    ask_everything(&fake.client(), &fake.api_url()).await;
    let everything = fake.seen("");
    let wrong: Vec<String> = everything.iter().filter_map(|seen| published::objection(&asked(seen))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for file in files("src/github/queries") {
        let text = source(&file);
        assert!(everything.iter().any(|seen| seen.body["query"] == text), "{file} was not asked");
    }
}

#[test]
fn nothing_that_asks_github_is_left_out() {
    let here = source("tests/it/github/published.rs");
    for file in files("src/github") {
        let text = source(&file);
        let asking = text.split("pub async fn ").skip(1).map(|rest| rest.split(['(', '<']).next().unwrap());
        for name in asking {
            let is_called = [".", "::"].iter().any(|by| here.contains(&format!("{by}{name}(")));
            assert!(is_called, "`ask_everything` does not call {name} of {file}");
        }
    }
}

/// What the other test would find.
#[test]
fn what_github_does_not_describe_is_objected_to() {
    if published::description().is_none() {
        return;
    }
    let objection = |line: &str, body: Value| {
        published::objection(&asked(&Seen { line: line.to_owned(), auth: String::new(), body })).unwrap_or_default()
    };
    let comments = "/repos/acme/app/issues/5/comments";
    let mint = "POST /app/installations/3/access_tokens";
    for (line, body, why) in [
        ("GET /repositories/1".to_owned(), json!(null), "not described"),
        ("PUT /app".to_owned(), json!(null), "not described"),
        ("GET /repos/acme/app/issues/five/comments".to_owned(), json!(null), "issue_number is not as type says"),
        (format!("GET {comments}?per_page=many"), json!(null), "per_page is not as type says"),
        (format!("GET {comments}?author=ann"), json!(null), "?author= is not described"),
        ("GET /repos/acme/app/pulls?state=merged".to_owned(), json!(null), "state is not as enum says"),
        (format!("POST {comments}"), json!(null), "the body is missing"),
        (format!("POST {comments}"), json!({}), "body is not as required says"),
        (format!("POST {comments}"), json!({"body": 1}), "body.body is not as type says"),
        (format!("POST {comments}"), json!({"body": "x", "draft": true}), "body.draft is not described"),
        (
            "POST /repos/acme/app/issues/5/reactions".to_owned(),
            json!({"content": "+2"}),
            "body.content is not as enum says",
        ),
        (mint.to_owned(), json!({"repository_ids": ["1"]}), "body.repository_ids[0] is not as type says"),
        (mint.to_owned(), json!({"permissions": {"issues": "admin"}}), "body.permissions.issues is not as enum says"),
        (mint.to_owned(), json!({"permissions": {"isues": "read"}}), "body.permissions.isues is not described"),
        ("GET /app".to_owned(), json!({}), "a body is not described"),
    ] {
        let said = objection(&line, body);
        assert!(said.contains(why), "{line}: {said:?}");
    }
    assert_eq!(objection(&format!("POST {comments}"), json!({"body": "x"})), "");

    let question = |text: &str, variables: Value| {
        let graphql = format!("POST {}", published::GRAPHQL);
        objection(&graphql, json!({"query": text, "variables": variables}))
    };
    let ask =
        |field: &str| format!("query($owner: String!) {{ repository(owner: $owner, name: \"app\") {{ {field} }} }}");
    let owner = || json!({"owner": "acme"});
    assert_eq!(question(&ask("databaseId"), owner()), "");
    for (text, variables, why) in [
        (ask("databaseNumber"), owner(), "databaseNumber"),
        (ask("issue(number: \"5\") { id }"), owner(), "Int"),
        (ask("id"), json!({}), "owner"),
        (ask("id"), json!({"owner": 5}), "owner"),
        (ask("id"), json!({"owner": "acme", "name": "app"}), "name is no variable"),
    ] {
        let said = question(&text, variables);
        assert!(said.contains(why), "{text}: {said:?}");
    }
}
