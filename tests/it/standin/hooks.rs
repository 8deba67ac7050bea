//! Webhook deliveries: who hears what, signed how, and what is in the log.

use super::{REPO, Stage, text};
use axum::{body::Bytes, extract::State, http::HeaderMap};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use treewarden::demo::github::{MergeMethod, OpenPull};

const SECRET: &str = "a secret for the tests";

#[derive(Clone, Debug)]
struct Heard {
    event: String,
    guid: String,
    body: Value,
}

impl Heard {
    /// `issues opened`, `push`.
    fn name(&self) -> String {
        format!("{} {}", self.event, self.body["action"].as_str().unwrap_or_default()).trim().to_owned()
    }
}

/// A receiver that checks signatures and remembers.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<Heard>>>);

impl Ear {
    /// Listens and makes the stand-in deliver here.
    async fn at(stage: &Stage) -> Ear {
        let ear = Ear::default();
        let router = axum::Router::new().fallback(hear).with_state(ear.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/webhooks/github", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        stage.standin.set_webhook(&url, SECRET.into());
        ear
    }

    /// Everything heard since the last call, once nothing is on its way any more.
    async fn heard(&self, stage: &Stage) -> Vec<Heard> {
        stage.standin.settled().await;
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    async fn names(&self, stage: &Stage) -> Vec<String> {
        self.heard(stage).await.iter().map(Heard::name).collect()
    }
}

async fn hear(State(ear): State<Ear>, headers: HeaderMap, body: Bytes) -> axum::http::StatusCode {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(&body);
    assert_eq!(header("x-hub-signature-256"), format!("sha256={}", hex::encode(mac.finalize().into_bytes())));
    let heard = Heard {
        event: header("x-github-event"),
        guid: header("x-github-delivery"),
        body: serde_json::from_slice(&body).unwrap(),
    };
    ear.0.lock().unwrap().push(heard);
    axum::http::StatusCode::ACCEPTED
}

#[tokio::test]
async fn a_comment_is_told_with_everything_a_service_needs() {
    let stage = Stage::new().await;
    let ear = Ear::at(&stage).await;
    let number = stage.standin.open_issue(REPO, "ann", "Greet", "please").unwrap();
    let comment = stage.standin.comment(REPO, "ann", number, "@treewarden-demo add a greeting").unwrap();
    stage.standin.edit_comment(REPO, "ann", comment, "never mind").unwrap();
    stage.standin.delete_comment(REPO, "ann", comment).unwrap();
    stage.standin.close(REPO, "ann", number).unwrap();
    stage.standin.reopen(REPO, "ann", number).unwrap();
    let heard = ear.heard(&stage).await;
    let names: Vec<_> = heard.iter().map(Heard::name).collect();
    assert_eq!(
        names,
        [
            "issues opened",
            "issue_comment created",
            "issue_comment edited",
            "issue_comment deleted",
            "issues closed",
            "issues reopened",
        ]
    );
    for one in &heard {
        let bytes = serde_json::to_vec(&one.body).unwrap();
        octocrab::models::webhook_events::WebhookEvent::try_from_header_and_body(&one.event, &bytes).unwrap();
    }
    let body = &heard[1].body;
    assert_eq!(body["repository"]["id"], stage.standin.repository(REPO).unwrap());
    assert_eq!(body["repository"]["full_name"], REPO);
    assert_eq!(body["repository"]["default_branch"], "main");
    assert_eq!(body["repository"]["owner"]["login"], "octo");
    assert_eq!(body["installation"]["id"], stage.standin.installation_id(REPO).unwrap());
    assert_eq!((&body["sender"]["login"], &body["sender"]["type"]), (&json!("ann"), &json!("User")));
    assert_eq!((&body["issue"]["number"], &body["comment"]["id"]), (&json!(number), &json!(comment)));
    assert_eq!(body["comment"]["author_association"], "NONE");
    assert_eq!(heard[2].body["changes"]["body"]["from"], "@treewarden-demo add a greeting");
}

#[tokio::test]
async fn a_merge_is_told_in_githubs_order() {
    let stage = Stage::new().await;
    let issue = stage.standin.open_issue(REPO, "ann", "Greet", "").unwrap();
    stage.standin.push_commit(REPO, "ann", "issue-1", "Work", &[("a.txt", Some("a\n"))]).await.unwrap();
    let body = format!("Fixes #{issue}");
    let pull = OpenPull { title: "Greeting", body: &body, head: "issue-1", ..OpenPull::default() };
    let ear = Ear::at(&stage).await;
    let number = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    let head = stage.standin.push_commit(REPO, "ann", "issue-1", "More", &[("b.txt", Some("b\n"))]).await.unwrap();
    stage.standin.merge(REPO, "octo", number, MergeMethod::Squash).await.unwrap();
    let heard = ear.heard(&stage).await;
    let names: Vec<_> = heard.iter().map(Heard::name).collect();
    let expected =
        ["pull_request opened", "push", "pull_request synchronize", "pull_request closed", "issues closed", "push"];
    assert_eq!(names, expected);
    assert_eq!(heard[2].body["after"], json!(head));
    let closed = &heard[3].body["pull_request"];
    assert_eq!((&closed["merged"], &closed["head"]["sha"]), (&json!(true), &json!(head)));
    assert_eq!(closed["merged_by"]["login"], "octo");
    assert_eq!(heard[4].body["issue"]["state_reason"], "completed");
    assert_eq!(heard[5].body["ref"], "refs/heads/main");
}

#[tokio::test]
async fn reviews_and_line_comments_are_told() {
    let stage = Stage::new().await;
    stage.standin.push_commit(REPO, "ann", "work", "Work", &[("a.txt", Some("a\n"))]).await.unwrap();
    let pull = OpenPull { title: "Work", head: "work", ..OpenPull::default() };
    let number = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    let ear = Ear::at(&stage).await;
    stage.standin.review(REPO, "octo", number, "APPROVE", "well done").unwrap();
    stage.standin.line_comment(REPO, "octo", number, ("a.txt", 1), "why?").unwrap();
    let heard = ear.heard(&stage).await;
    let names: Vec<_> = heard.iter().map(Heard::name).collect();
    let expected =
        ["pull_request_review submitted", "pull_request_review submitted", "pull_request_review_comment created"];
    assert_eq!(names, expected);
    assert_eq!(
        (&heard[0].body["review"]["state"], &heard[1].body["review"]["state"]),
        (&json!("approved"), &json!("commented"))
    );
    assert_eq!(heard[1].body["review"]["body"], Value::Null);
    let comment = &heard[2].body["comment"];
    assert_eq!((&comment["path"], &comment["line"]), (&json!("a.txt"), &json!(1)));
    assert_eq!(comment["pull_request_review_id"], heard[1].body["review"]["id"]);
}

#[tokio::test]
async fn installations_and_renames_are_told() {
    let stage = Stage::new().await;
    let ear = Ear::at(&stage).await;
    stage.standin.ping();
    stage.standin.create_repository("octo/second", &[]).await.unwrap();
    stage.standin.create_repository("else/where", &[]).await.unwrap();
    stage.standin.withdraw_repository("octo/second").unwrap();
    stage.standin.open_issue("octo/second", "ann", "Unheard", "").unwrap();
    stage.standin.rename_repository(REPO, "hullo").unwrap();
    stage.standin.uninstall("octo/hullo").unwrap();
    let heard = ear.heard(&stage).await;
    let names: Vec<_> = heard.iter().map(Heard::name).collect();
    let expected = [
        "ping",
        "installation_repositories added",
        "installation created",
        "installation_repositories removed",
        "repository renamed",
        "installation deleted",
    ];
    assert_eq!(names, expected);
    assert_eq!(heard[1].body["repositories_added"][0]["full_name"], "octo/second");
    assert_eq!(heard[2].body["repositories"][0]["full_name"], "else/where");
    assert_eq!(heard[4].body["changes"]["repository"]["name"]["from"], "hello");
    assert_eq!(heard[4].body["repository"]["full_name"], "octo/hullo");
}

#[tokio::test]
async fn lost_deliveries_can_be_found_and_sent_again() {
    let stage = Stage::new().await;
    let ear = Ear::at(&stage).await;
    stage.standin.faults().drop_deliveries(1);
    let number = stage.standin.open_issue(REPO, "ann", "Lost", "").unwrap();
    assert!(ear.names(&stage).await.is_empty());
    stage.standin.faults().duplicate_deliveries(1);
    stage.standin.comment(REPO, "ann", number, "twice").unwrap();
    let twice = ear.heard(&stage).await;
    assert_eq!(twice.len(), 2);
    assert_eq!(twice[0].guid, twice[1].guid);

    let jwt = stage.jwt();
    let (_, log) = stage.call("GET", "/app/hook/deliveries?per_page=1", &jwt, None).await;
    assert_eq!((&log[0]["event"], &log[0]["status"]), (&json!("issue_comment"), &json!("OK")));
    let first = stage.send("GET", "/app/hook/deliveries?per_page=1", &jwt, None).await;
    let link = first.headers()["link"].to_str().unwrap().to_owned();
    let next = link.strip_prefix('<').unwrap().split('>').next().unwrap();
    let path = next.strip_prefix(&stage.standin.api_url()).unwrap();
    let (_, log) = stage.call("GET", path, &jwt, None).await;
    let lost = &log[0];
    assert_eq!(
        (&lost["event"], &lost["status_code"], &lost["redelivery"]),
        (&json!("issues"), &json!(0), &json!(false))
    );
    let attempts = format!("/app/hook/deliveries/{}/attempts", lost["id"]);
    assert_eq!(stage.call("POST", &attempts, &jwt, None).await.0, 202);
    let found = ear.heard(&stage).await;
    assert_eq!((found[0].name().as_str(), json!(found[0].guid)), ("issues opened", lost["guid"].clone()));
    let (_, detail) = stage.call("GET", &format!("/app/hook/deliveries/{}", lost["id"]), &jwt, None).await;
    assert_eq!(detail["request"]["payload"]["issue"]["title"], "Lost");
}

#[tokio::test]
async fn the_bots_own_pushes_carry_its_name() {
    let stage = Stage::new().await;
    let ear = Ear::at(&stage).await;
    let token = stage.token(json!({})).await;
    let clone = stage.clone(&token).await;
    stage.git(&clone, &token, &["commit", "-q", "--allow-empty", "-m", "By the bot"]).await;
    let pushed = stage.git(&clone, &token, &["push", "-q", "origin", "HEAD:refs/heads/issue-1"]).await;
    assert!(pushed.status.success(), "{}", text(&pushed.stderr));
    let heard = ear.heard(&stage).await;
    assert_eq!(heard.len(), 1);
    let body = &heard[0].body;
    assert_eq!((&body["ref"], &body["created"]), (&json!("refs/heads/issue-1"), &json!(true)));
    assert_eq!(body["sender"]["login"], json!(stage.standin.bot_login()));
    assert_eq!(body["commits"][0]["message"], "By the bot");
}
