//! REST, GraphQL and OAuth.

use super::{REPO, Stage};
use base64::Engine;
use serde_json::{Value, json};
use sha2::Digest;
use std::time::Duration;
use treewarden::{
    demo::github::{Fault, OpenPull, Refusal},
    model::Permission,
};

#[tokio::test]
async fn the_app_shows_itself_only_to_its_own_key() {
    let stage = Stage::new().await;
    let (status, app) = stage.call("GET", "/app", &stage.jwt(), None).await;
    assert_eq!((status, &app["slug"]), (200, &json!("treewarden-demo")));
    assert_eq!(app["permissions"]["contents"], "write");
    let (_, bot) = stage.call("GET", "/users/treewarden-demo%5Bbot%5D", &stage.jwt(), None).await;
    assert_eq!((&bot["type"], &bot["login"]), (&json!("Bot"), &json!("treewarden-demo[bot]")));
    assert_eq!(stage.call("GET", "/app", "a.b.c", None).await.0, 401);
    assert_eq!(stage.call("GET", "/app", &stage.token(json!({})).await, None).await.0, 401);
    let (_, installations) = stage.call("GET", "/app/installations", &stage.jwt(), None).await;
    assert_eq!(installations[0]["account"]["login"], "octo");
}

#[tokio::test]
async fn tokens_reach_what_they_were_made_for_until_they_end() {
    let stage = Stage::new().await;
    stage.standin.create_repository("octo/other", &[]).await.unwrap();
    let narrow = json!({ "repositories": ["hello"], "permissions": { "issues": "read" } });
    let token = stage.token(narrow).await;
    let issues = format!("/repos/{REPO}/issues");
    assert_eq!(stage.call("GET", &issues, &token, None).await.0, 200);
    assert_eq!(stage.call("POST", &issues, &token, Some(json!({ "title": "x" }))).await.0, 403);
    assert_eq!(stage.call("GET", &format!("/repos/{REPO}/branches"), &token, None).await.0, 403);
    assert_eq!(stage.call("GET", "/repos/octo/other", &token, None).await.0, 404);
    assert_eq!(stage.call("GET", &issues, "", None).await.0, 401);
    stage.standin.expire_tokens();
    assert_eq!(stage.call("GET", &issues, &token, None).await.0, 401);

    let installation = stage.standin.installation_id(REPO).unwrap();
    let path = format!("/app/installations/{installation}/access_tokens");
    for beyond in [json!({ "permissions": { "administration": "write" } }), json!({ "repositories": ["nowhere"] })] {
        assert_eq!(stage.call("POST", &path, &stage.jwt(), Some(beyond)).await.0, 422);
    }
}

#[tokio::test]
async fn comments_are_made_changed_and_listed_in_pages() {
    let stage = Stage::new().await;
    let number = stage.standin.open_issue(REPO, "ann", "Greet", "please").unwrap();
    for n in 0..5 {
        stage.standin.comment(REPO, "ann", number, &format!("comment {n}")).unwrap();
    }
    let token = stage.token(json!({})).await;
    let path = format!("/repos/{REPO}/issues/{number}/comments");
    let first = stage.send("GET", &format!("{path}?per_page=2"), &token, None).await;
    let link = first.headers()["link"].to_str().unwrap().to_owned();
    let expected = format!("<{}{path}?per_page=2&page=2>; rel=\"next\"", stage.standin.api_url());
    assert!(link.starts_with(&expected), "{link}");
    let last = stage.send("GET", &format!("{path}?per_page=2&page=3"), &token, None).await;
    assert!(!last.headers()["link"].to_str().unwrap().contains("next"));
    assert_eq!(last.json::<Vec<Value>>().await.unwrap().len(), 1);

    let (status, made) = stage.call("POST", &path, &token, Some(json!({ "body": "from the bot" }))).await;
    assert_eq!(status, 201);
    assert_eq!(made["performed_via_github_app"]["slug"], "treewarden-demo");
    assert_eq!(made["user"]["type"], "Bot");
    let one = format!("/repos/{REPO}/issues/comments/{}", made["id"]);
    assert_eq!(stage.call("PATCH", &one, &token, Some(json!({ "body": "changed" }))).await.0, 200);
    assert_eq!(stage.standin.comments(REPO, number).unwrap().last().unwrap().body, "changed");
    let long = json!({ "body": "x".repeat(65_537) });
    assert_eq!(stage.call("POST", &path, &token, Some(long)).await.0, 422);

    let reaction = json!({ "content": "eyes" });
    let reactions = format!("{one}/reactions");
    assert_eq!(stage.call("POST", &reactions, &token, Some(reaction.clone())).await.0, 201);
    assert_eq!(stage.call("POST", &reactions, &token, Some(reaction)).await.0, 200);
    let id = made["id"].as_i64().unwrap();
    assert_eq!(stage.standin.comment_reactions(REPO, id).unwrap().len(), 1);
}

#[tokio::test]
async fn permissions_are_told_in_old_and_new_words() {
    let stage = Stage::new().await;
    stage.standin.set_permission(REPO, "maud", Permission::Maintain).unwrap();
    stage.standin.user("mallory");
    let token = stage.token(json!({})).await;
    for (login, word, role) in [("octo", "admin", "admin"), ("maud", "write", "maintain"), ("mallory", "none", "none")]
    {
        let path = format!("/repos/{REPO}/collaborators/{login}/permission");
        let (_, body) = stage.call("GET", &path, &token, None).await;
        assert_eq!((&body["permission"], &body["role_name"]), (&json!(word), &json!(role)), "{login}");
    }
    let path = format!("/repos/{REPO}/collaborators/nobody/permission");
    assert_eq!(stage.call("GET", &path, &token, None).await.0, 404);
}

#[tokio::test]
async fn pull_requests_are_refused_as_on_github() {
    let stage = Stage::new().await;
    let token = stage.token(json!({})).await;
    let path = format!("/repos/{REPO}/pulls");
    let new = |head: &str| json!({ "title": "t", "head": head, "base": "main", "draft": true });
    let (status, body) = stage.call("POST", &path, &token, Some(new("main"))).await;
    assert_eq!(status, 422);
    assert_eq!(body["errors"][0]["message"], "No commits between main and main");
    stage.standin.push_commit(REPO, "ann", "work", "Work", &[("a.txt", Some("a\n"))]).await.unwrap();
    let (status, made) = stage.call("POST", &path, &token, Some(new("work"))).await;
    assert_eq!((status, &made["draft"]), (201, &json!(true)));
    let (status, body) = stage.call("POST", &path, &token, Some(new("octo:work"))).await;
    assert_eq!(status, 422);
    assert_eq!(body["errors"][0]["message"], "A pull request already exists for octo:work.");
    let (_, found) = stage.call("GET", &format!("{path}?head=octo:work&state=open"), &token, None).await;
    assert_eq!(found.as_array().unwrap().len(), 1);
    let (_, none) = stage.call("GET", &format!("{path}?head=octo:main"), &token, None).await;
    assert_eq!(none, json!([]));
    let merge = format!("{path}/{}/merge", made["number"]);
    assert_eq!(stage.call("PUT", &merge, &token, Some(json!({}))).await.0, 405, "a draft");
    let (_, of_commit) = stage
        .call("GET", &format!("/repos/{REPO}/commits/{}/pulls", made["head"]["sha"].as_str().unwrap()), &token, None)
        .await;
    assert_eq!(of_commit[0]["number"], made["number"]);
}

#[tokio::test]
async fn an_empty_repository_says_so() {
    let stage = Stage::new().await;
    stage.standin.create_repository("octo/empty", &[]).await.unwrap();
    let token = stage.token(json!({})).await;
    let (_, body) = stage.call("GET", "/repos/octo/empty", &token, None).await;
    assert_eq!((&body["size"], &body["default_branch"]), (&json!(0), &json!("main")));
    assert_eq!(stage.call("GET", "/repos/octo/empty/git/ref/heads/main", &token, None).await.0, 409);
}

#[tokio::test]
async fn a_renamed_repository_is_found_by_id_and_by_redirect() {
    let stage = Stage::new().await;
    let id = stage.standin.repository(REPO).unwrap();
    let token = stage.token(json!({})).await;
    stage.standin.rename_repository(REPO, "hullo").unwrap();
    let moved = stage.send("GET", &format!("/repos/{REPO}/branches?per_page=1"), &token, None).await;
    assert_eq!(moved.status(), 301);
    let location = moved.headers()["location"].to_str().unwrap();
    assert_eq!(location, format!("{}/repositories/{id}/branches", stage.standin.api_url()));
    let by_id = format!("/repositories/{id}");
    assert_eq!(stage.call("GET", &by_id, &token, None).await.0, 404, "no redirect led there");
    assert_eq!(stage.call("GET", &format!("/repos/{REPO}"), &token, None).await.0, 301);
    let (status, body) = stage.call("GET", &by_id, &token, None).await;
    assert_eq!((status, &body["full_name"]), (200, &json!("octo/hullo")));
    let (status, branches) = stage.call("GET", &format!("/repositories/{id}/branches"), &token, None).await;
    assert_eq!((status, &branches[0]["name"]), (200, &json!("main")));
    stage.standin.create_repository(REPO, &[]).await.unwrap();
    let (_, taken) = stage.call("GET", &format!("/repos/{REPO}"), &stage.token(json!({})).await, None).await;
    assert_ne!(taken["id"], json!(id));
}

const LINKED: &str = "query($owner:String!,$name:String!,$number:Int!,$cursor:String){repository(owner:$owner,name:$name)\
    {pullRequest(number:$number){closingIssuesReferences(first:50,after:$cursor){nodes{number repository{databaseId nameWithOwner}} \
    pageInfo{hasNextPage endCursor}}}}}";
const CLOSERS: &str = "query($owner:String!,$name:String!,$number:Int!,$cursor:String){repository(owner:$owner,name:$name)\
    {issue(number:$number){closedByPullRequestsReferences(first:50,after:$cursor){nodes{number repository{databaseId nameWithOwner}} \
    pageInfo{hasNextPage endCursor}}}}}";

#[tokio::test]
async fn links_between_issues_and_pull_requests_are_told_by_graphql() {
    let stage = Stage::new().await;
    let (one, two) = (
        stage.standin.open_issue(REPO, "ann", "One", "").unwrap(),
        stage.standin.open_issue(REPO, "ann", "Two", "").unwrap(),
    );
    stage.standin.push_commit(REPO, "ann", "work", "Work", &[("a.txt", Some("a\n"))]).await.unwrap();
    let body = format!("Fixes #{one}, closes octo/hello#{two}");
    let pull = OpenPull { title: "Both", body: &body, head: "work", ..OpenPull::default() };
    let pull = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    let id = stage.standin.repository(REPO).unwrap();
    let token = stage.token(json!({})).await;
    let ask = |query: &str, number: i64, cursor: Value| json!({ "query": query, "variables": { "owner": "octo", "name": "hello", "number": number, "cursor": cursor } });

    stage.standin.limit_graphql_pages(1);
    let (_, first) = stage.call("POST", "/graphql", &token, Some(ask(LINKED, pull, Value::Null))).await;
    let connection = &first["data"]["repository"]["pullRequest"]["closingIssuesReferences"];
    assert_eq!(
        connection["nodes"],
        json!([{ "number": one, "repository": { "databaseId": id, "nameWithOwner": REPO } }])
    );
    assert_eq!(connection["pageInfo"]["hasNextPage"], true);
    let cursor = connection["pageInfo"]["endCursor"].clone();
    let (_, second) = stage.call("POST", "/graphql", &token, Some(ask(LINKED, pull, cursor))).await;
    let connection = &second["data"]["repository"]["pullRequest"]["closingIssuesReferences"];
    assert_eq!(connection["nodes"][0]["number"], two);
    assert_eq!(connection["pageInfo"]["hasNextPage"], false);

    let (_, closers) = stage.call("POST", "/graphql", &token, Some(ask(CLOSERS, one, Value::Null))).await;
    let connection = &closers["data"]["repository"]["issue"]["closedByPullRequestsReferences"];
    assert_eq!(
        connection["nodes"],
        json!([{ "number": pull, "repository": { "databaseId": id, "nameWithOwner": REPO } }])
    );
    let (status, missing) = stage.call("POST", "/graphql", &token, Some(ask(CLOSERS, 99, Value::Null))).await;
    assert_eq!((status, &missing["errors"][0]["type"]), (200, &json!("NOT_FOUND")));
}

#[tokio::test]
async fn check_runs_are_made_and_completed() {
    let stage = Stage::new().await;
    let head = stage.standin.branch_tip(REPO, "main").await.unwrap().unwrap();
    let token = stage.token(json!({})).await;
    let path = format!("/repos/{REPO}/check-runs");
    let new = json!({ "name": "treewarden", "head_sha": head, "status": "in_progress" });
    let (status, made) = stage.call("POST", &path, &token, Some(new)).await;
    assert_eq!((status, &made["status"]), (201, &json!("in_progress")));
    let done = json!({ "conclusion": "success", "output": { "title": "ok", "summary": "fine" } });
    assert_eq!(stage.call("PATCH", &format!("{path}/{}", made["id"]), &token, Some(done)).await.0, 200);
    let runs = stage.standin.check_runs(REPO).unwrap();
    assert_eq!((runs[0].status.as_str(), runs[0].conclusion.as_deref()), ("completed", Some("success")));
    let unfinished = json!({ "name": "x", "head_sha": head, "status": "completed" });
    assert_eq!(stage.call("POST", &path, &token, Some(unfinished)).await.0, 422);
    assert_eq!(stage.standin.check_runs(REPO).unwrap().len(), 1);
}

#[tokio::test]
async fn check_runs_have_up_to_three_short_buttons_and_are_found_by_name() {
    let stage = Stage::new().await;
    let head = stage.standin.branch_tip(REPO, "main").await.unwrap().unwrap();
    let token = stage.token(json!({})).await;
    let path = format!("/repos/{REPO}/check-runs");
    let action = |length: usize| json!({ "label": "Go", "description": "Goes on", "identifier": "x".repeat(length) });
    let with = |actions: Vec<Value>| Some(json!({ "name": "a", "head_sha": head, "actions": actions }));
    for bad in [vec![action(1), action(2), action(3), action(4)], vec![action(21)], vec![action(0)]] {
        assert_eq!(stage.call("POST", &path, &token, with(bad)).await.0, 422);
    }
    let (status, made) = stage.call("POST", &path, &token, with(vec![action(20)])).await;
    assert_eq!(status, 201);
    let id = made["id"].as_i64().unwrap();
    assert!(stage.standin.press(REPO, "ann", id, Some("x")).is_err(), "it is not completed");
    let done = json!({ "conclusion": "success" });
    assert_eq!(stage.call("PATCH", &format!("{path}/{id}"), &token, Some(done)).await.0, 200);
    assert!(stage.standin.press(REPO, "ann", id, Some("y")).is_err(), "there is no such button");
    assert_eq!(stage.standin.press(REPO, "ann", id, Some(&"x".repeat(20))), Ok(()));

    let app = stage.standin.app_id();
    for (query, found) in [
        ("check_name=a".to_owned(), 1),
        ("check_name=b".to_owned(), 0),
        (format!("app_id={app}"), 1),
        ("app_id=1".to_owned(), 0),
    ] {
        let list = format!("/repos/{REPO}/commits/{head}/check-runs?{query}");
        let (_, listed) = stage.call("GET", &list, &token, None).await;
        assert_eq!(listed["check_runs"].as_array().unwrap().len(), found, "{query}");
    }
}

#[tokio::test]
async fn a_person_signs_in_once_per_code_and_with_their_verifier() {
    let stage = Stage::new().await;
    stage.standin.user("ann");
    let verifier = "a-verifier-that-is-long-enough-for-the-rule-of-43-characters";
    let encoder = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let challenge = encoder.encode(sha2::Sha256::digest(verifier.as_bytes()));
    let client_id = stage.standin.client_id();
    let redirect = "http://127.0.0.1:1/auth/github/callback";
    let authorize = format!("{}/login/oauth/authorize", stage.standin.url());
    let wish = [
        ("client_id", client_id.as_str()),
        ("redirect_uri", redirect),
        ("state", "s t"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let page = stage.http.get(&authorize).query(&wish).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("Continue as ann"));
    let consent: Vec<_> = wish.into_iter().chain([("login", "ann")]).collect();
    let answer = stage.http.post(&authorize).form(&consent).send().await.unwrap();
    let target = answer.headers()["location"].to_str().unwrap().to_owned();
    let code = target.strip_prefix(&format!("{redirect}?code=")).unwrap().strip_suffix("&state=s%20t").unwrap();

    use secrecy::ExposeSecret;
    let secret = stage.standin.client_secret();
    let exchange = async |code: &str, verifier: &str| -> Value {
        let body = json!({
            "client_id": client_id, "client_secret": secret.expose_secret(), "code": code,
            "redirect_uri": redirect, "code_verifier": verifier,
        });
        let url = format!("{}/login/oauth/access_token", stage.standin.url());
        let request = stage.http.post(url).header("accept", "application/json").json(&body);
        request.send().await.unwrap().json().await.unwrap()
    };
    let token = exchange(code, verifier).await["access_token"].as_str().unwrap().to_owned();
    assert_eq!(exchange(code, verifier).await["error"], "bad_verification_code", "a code works once");
    let (_, user) = stage.call("GET", "/user", &token, None).await;
    assert_eq!(user["login"], "ann");
    let revoke = format!("{}/applications/{client_id}/token", stage.standin.api_url());
    let request = stage.http.delete(revoke).basic_auth(&client_id, Some(secret.expose_secret()));
    assert_eq!(request.json(&json!({ "access_token": token })).send().await.unwrap().status(), 204);
    assert_eq!(stage.call("GET", "/user", &token, None).await.0, 401);

    let answer = stage.http.post(&authorize).form(&consent).send().await.unwrap();
    let target = answer.headers()["location"].to_str().unwrap().to_owned();
    let code = target.split_once("code=").unwrap().1.split('&').next().unwrap();
    assert_eq!(exchange(code, "another verifier").await["error"], "bad_verification_code");
}

#[tokio::test]
async fn faults_strike_where_and_as_often_as_they_are_told() {
    let stage = Stage::new().await;
    let number = stage.standin.open_issue(REPO, "ann", "Greet", "").unwrap();
    let token = stage.token(json!({})).await;
    let path = format!("/repos/{REPO}/issues/{number}/comments");
    let body = Some(json!({ "body": "hello" }));
    let faults = stage.standin.faults();

    faults.inject(Some("POST"), &path, 2, Fault::Status(502));
    assert_eq!(stage.call("GET", &path, &token, None).await.0, 200, "other methods are spared");
    for _ in 0..2 {
        assert_eq!(stage.call("POST", &path, &token, body.clone()).await.0, 502);
    }
    faults.inject(None, "/repos/octo", 1, Fault::SecondaryLimit { retry_after: 7 });
    let limited = stage.send("POST", &path, &token, body.clone()).await;
    assert_eq!((limited.status().as_u16(), limited.headers()["retry-after"].to_str().unwrap()), (403, "7"));
    faults.inject(None, "/repos", 1, Fault::TooManyRequests { retry_after: 1 });
    assert_eq!(stage.call("POST", &path, &token, body.clone()).await.0, 429);
    faults.inject(None, "/repos", 1, Fault::Html { status: 200 });
    let page = stage.send("POST", &path, &token, body.clone()).await;
    assert!(page.text().await.unwrap().starts_with("<!doctype html>"));
    faults.inject(None, "/repos", 1, Fault::Empty { status: 200 });
    assert_eq!(stage.send("POST", &path, &token, body.clone()).await.bytes().await.unwrap().len(), 0);
    assert!(stage.standin.comments(REPO, number).unwrap().is_empty(), "nothing was applied so far");

    faults.inject(None, "/repos", 1, Fault::CutAfterApplying);
    let url = format!("{}{path}", stage.standin.api_url());
    let post = || stage.http.post(&url).bearer_auth(&token).json(&json!({ "body": "hello" }));
    let cut = async { post().send().await?.bytes().await };
    assert!(cut.await.is_err());
    assert_eq!(stage.standin.comments(REPO, number).unwrap().len(), 1);
    faults.inject(None, "/repos", 1, Fault::HangAfterApplying(Duration::from_secs(60)));
    let hung = post().timeout(Duration::from_millis(300)).send().await;
    assert!(hung.unwrap_err().is_timeout());
    assert_eq!(stage.standin.comments(REPO, number).unwrap().len(), 2);
    assert_eq!(faults.left(), 0);
    let broken = stage.standin.requests().iter().filter(|request| request.status == 502).count();
    assert_eq!(broken, 2);
}

#[tokio::test]
async fn a_suspended_or_removed_installation_gives_no_access() {
    let stage = Stage::new().await;
    let token = stage.token(json!({})).await;
    let path = format!("/repos/{REPO}");
    stage.standin.suspend_installation(REPO, true).unwrap();
    assert_eq!(stage.call("GET", &path, &token, None).await.0, 403);
    stage.standin.suspend_installation(REPO, false).unwrap();
    stage.standin.withdraw_repository(REPO).unwrap();
    assert_eq!(stage.call("GET", &path, &token, None).await.0, 404);
    stage.standin.grant_repository(REPO).unwrap();
    assert_eq!(stage.call("GET", &path, &token, None).await.0, 200);
    stage.standin.uninstall(REPO).unwrap();
    assert_eq!(stage.call("GET", &path, &token, None).await.0, 401);
    assert!(matches!(stage.standin.installation_id(REPO), Err(Refusal::NotFound(_))));
}

#[tokio::test]
async fn comments_on_lines_come_in_the_order_that_is_asked_for() {
    let stage = Stage::new().await;
    stage.standin.push_commit(REPO, "ann", "work", "Work", &[("a.txt", Some("a\n"))]).await.unwrap();
    let pull = OpenPull { title: "Work", head: "work", ..OpenPull::default() };
    let pull = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    for body in ["one", "two", "three"] {
        stage.standin.line_comment(REPO, "ann", pull, ("a.txt", 1), body).unwrap();
    }
    let token = stage.token(json!({})).await;
    let listed = async |query: &str| {
        let (status, list) = stage.call("GET", &format!("/repos/{REPO}/pulls/{pull}/{query}"), &token, None).await;
        assert_eq!(status, 200);
        list.as_array()
            .unwrap()
            .iter()
            .map(|one| one["body"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed("comments").await, ["one", "two", "three"]);
    assert_eq!(listed("comments?direction=desc").await, ["one", "two", "three"], "of no order");
    assert_eq!(listed("comments?sort=created&direction=desc&per_page=2").await, ["three", "two"]);
    assert_eq!(listed("comments?sort=updated&direction=desc&per_page=2&page=2").await, ["one"]);
    assert_eq!(listed("reviews").await.len(), 3, "each is in a review of its own");
}

/// What the library decodes, with all the fields it insists on, is what GitHub sends.
#[tokio::test]
async fn answers_have_githubs_shape() {
    use octocrab::models;
    fn check<T: serde::de::DeserializeOwned>(what: &str, body: &Value) {
        if let Err(error) = serde_json::from_value::<T>(body.clone()) {
            panic!("{what}: {error}\n{body:#}");
        }
    }
    let stage = Stage::new().await;
    let issue = stage.standin.open_issue(REPO, "ann", "Greet", "please").unwrap();
    let comment = stage.standin.comment(REPO, "ann", issue, "hello").unwrap();
    let head = stage.standin.push_commit(REPO, "ann", "work", "Work", &[("a.txt", Some("a\n"))]).await.unwrap();
    let pull = OpenPull { title: "Work", head: "work", ..OpenPull::default() };
    let pull = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    let (jwt, token) = (stage.jwt(), stage.token(json!({})).await);
    let installation = stage.standin.installation_id(REPO).unwrap();

    check::<models::App>("app", &stage.call("GET", "/app", &jwt, None).await.1);
    let path = format!("/app/installations/{installation}");
    check::<models::Installation>("installation", &stage.call("GET", &path, &jwt, None).await.1);
    let scope = Some(json!({ "repositories": ["hello"] }));
    let (_, grant) = stage.call("POST", &format!("{path}/access_tokens"), &jwt, scope).await;
    check::<models::InstallationToken>("token", &grant);
    let get = async |path: String| stage.call("GET", &format!("/repos/{REPO}{path}"), &token, None).await.1;
    check::<models::Repository>("repository", &get(String::new()).await);
    check::<models::issues::Issue>("issue", &get(format!("/issues/{issue}")).await);
    check::<models::issues::Issue>("pull request as issue", &get(format!("/issues/{pull}")).await);
    check::<Vec<models::issues::Issue>>("issues", &get("/issues".to_owned()).await);
    check::<models::issues::Comment>("comment", &get(format!("/issues/comments/{comment}")).await);
    check::<models::pulls::PullRequest>("pull request", &get(format!("/pulls/{pull}")).await);
    check::<Vec<models::pulls::PullRequest>>("pull requests", &get("/pulls".to_owned()).await);
    check::<models::repos::Ref>("ref", &get("/git/ref/heads/work".to_owned()).await);
    check::<Vec<models::repos::Ref>>("matching refs", &get("/git/matching-refs/heads/wo".to_owned()).await);
    let path = format!("/repos/{REPO}/issues/{issue}/reactions");
    let (_, reaction) = stage.call("POST", &path, &token, Some(json!({ "content": "eyes" }))).await;
    check::<models::reactions::Reaction>("reaction", &reaction);
    let check_run = Some(json!({ "name": "treewarden", "head_sha": head }));
    let (_, check_run) = stage.call("POST", &format!("/repos/{REPO}/check-runs"), &token, check_run).await;
    check::<models::checks::CheckRun>("check run", &check_run);
}
