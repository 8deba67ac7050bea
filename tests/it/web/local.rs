//! `/local/messages`: who is let in, what is refused, and that a message is stored before it is acknowledged.

use super::*;
use serde_json::{Value, json};
use treewarden::model::InboxState;

impl Stage {
    /// With the token, as a script asks.
    fn local(&self, method: Method, query: &str) -> RequestBuilder {
        self.request(method, &format!("/local/messages{query}")).bearer_auth(TOKEN)
    }

    async fn said(&self, message: Value) -> Response {
        self.local(Method::POST, "").json(&message).send().await.unwrap()
    }

    async fn refused(&self, message: Value) -> (u16, String) {
        let answer = self.said(message).await;
        (answer.status().as_u16(), json(answer).await["error"].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn only_who_holds_the_token_and_no_browser_is_let_in() {
    let stage = Stage::new().await;
    stage.codebase(REPO, 1).await;
    let message = json!({"conversation": "chat", "codebase": REPO, "text": "hello"});
    let ask = || stage.request(Method::POST, "/local/messages").json(&message);
    for (request, status, why) in [
        (ask(), 401, "The token is missing or wrong"),
        (ask().bearer_auth("another"), 401, "The token is missing or wrong"),
        (ask().bearer_auth(""), 401, "The token is missing or wrong"),
        (ask().basic_auth("x", Some(TOKEN)), 401, "The token is missing or wrong"),
        (ask().bearer_auth(TOKEN).header(header::ORIGIN, &stage.base), 403, "Pages in a browser"),
        (ask().bearer_auth(TOKEN).header(header::ORIGIN, "https://evil.example"), 403, "Pages in a browser"),
        (ask().bearer_auth(TOKEN).header("Sec-Fetch-Site", "same-origin"), 403, "Pages in a browser"),
        (ask().bearer_auth(TOKEN).header(header::HOST, "evil.example"), 403, "not known under that host name"),
        (ask().bearer_auth(TOKEN).header("X-Forwarded-For", "10.0.0.1"), 403, "on the machine it runs on only"),
    ] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{why}");
        assert!(json(answer).await["error"].as_str().unwrap().contains(why), "{why}");
    }
    for method in [Method::GET, Method::DELETE] {
        let answer = stage.request(method, "/local/messages?conversation=chat").send().await.unwrap();
        assert_eq!(answer.status(), 401);
    }
    assert!(stage.store.list_deliveries(10, 0).await.unwrap().is_empty(), "nothing was stored");
}

#[tokio::test]
async fn a_message_is_stored_before_it_is_acknowledged_and_once_for_each_id() {
    let stage = Stage::new().await;
    stage.codebase(REPO, 1).await;
    let first = stage.said(json!({"conversation": "chat", "codebase": "OCTO/hello", "text": "hello", "id": "1"})).await;
    assert_eq!(first.status(), 202);
    let first = json(first).await;
    assert_eq!((&first["status"], &first["conversation"]), (&json!("accepted"), &json!("chat")));
    assert_eq!(first["command"], false);
    let again =
        json(stage.said(json!({"conversation": "chat", "codebase": REPO, "text": "hello", "id": "1"})).await).await;
    assert_eq!((&again["status"], &again["id"]), (&json!("duplicate"), &first["id"]));
    // An id is of its conversation, and the same words may be said again.
    for message in [
        json!({"conversation": "other", "codebase": REPO, "text": "hello", "id": "1"}),
        json!({"conversation": "chat", "codebase": REPO, "text": "hello"}),
        json!({"conversation": "chat", "codebase": REPO, "text": "hello"}),
    ] {
        assert_eq!(json(stage.said(message).await).await["status"], "accepted");
    }
    let stored = stage.store.list_deliveries(10, 0).await.unwrap();
    let keys: Vec<_> = stored.iter().rev().map(|one| (one.event.as_str(), one.conversation_key.as_deref())).collect();
    let (chat, other) = (("local", Some("local chat")), ("local", Some("local other")));
    assert_eq!(keys, [chat, other, chat, chat]);
    assert!(stored.iter().all(|one| one.state == InboxState::Received));
    // Nobody has handled it yet; that it comes is known.
    let seen = json(stage.local(Method::GET, "?conversation=chat").send().await.unwrap()).await;
    assert_eq!((&seen["busy"], &seen["messages"]), (&json!(true), &json!([])));
    // A conversation without a name gets one.
    let named = json(stage.said(json!({"codebase": REPO, "text": "hello"})).await).await;
    assert!(named["conversation"].as_str().unwrap().starts_with("c-"), "{named}");
    let unnamed = async || json(stage.said(json!({"codebase": REPO, "text": "hello", "id": "2"})).await).await;
    let (first, again) = (unnamed().await, unnamed().await);
    assert_eq!((&again["status"], &again["conversation"]), (&json!("duplicate"), &first["conversation"]));
    // Waits for nothing else.
    stage.said(json!({"conversation": "chat", "codebase": REPO, "text": " /stop "})).await;
    let newest = stage.store.list_deliveries(1, 0).await.unwrap().remove(0);
    assert!(stage.store.load_delivery(newest.id).await.unwrap().unwrap().out_of_turn);
}

#[tokio::test]
async fn what_cannot_be_taken_says_why() {
    let stage = Stage::new().await;
    stage.codebase(REPO, 1).await;
    let nowhere = stage.dir.path().join("nowhere");
    std::fs::create_dir(&nowhere).unwrap();
    for (message, status, why) in [
        (json!({"codebase": REPO, "text": "  "}), 422, "there is no text"),
        (json!({"codebase": REPO, "text": "x".repeat(65_537)}), 422, "over 65,536 characters"),
        (json!({"codebase": REPO, "text": "x".repeat(1024 * 1024)}), 422, "over 1 MB"),
        (json!({"codebase": REPO, "text": "x", "conversation": "a\nb"}), 422, "not a valid name of a conversation"),
        (json!({"codebase": REPO, "text": "x", "conversation": "x".repeat(201)}), 422, "1 to 200 bytes"),
        (json!({"codebase": REPO, "text": "x", "id": ""}), 422, "an id has 1 to 200 bytes"),
        (json!({"codebase": REPO, "words": "x"}), 422, "a JSON object with \"text\""),
        (json!({"codebase": "octo/other", "text": "x"}), 404, "octo/other is not a repository that Treewarden knows"),
        (json!({"codebase": "hello", "text": "x"}), 404, "hello is not a repository that Treewarden knows"),
        (json!({"codebase": nowhere, "text": "x"}), 422, "there is no git repository at"),
        (json!({"conversation": "new", "text": "x"}), 404, "there is no conversation new yet"),
    ] {
        let (found, told) = stage.refused(message).await;
        assert_eq!(found, status, "{told}");
        assert!(told.contains(why) && told.starts_with("Nothing was done"), "{why} in {told}");
    }
    for method in [Method::GET, Method::DELETE] {
        let answer = stage.local(method, "?conversation=new").send().await.unwrap();
        assert_eq!(answer.status(), 404);
    }
    for (method, query, why) in [
        (Method::GET, "", "?conversation=<its name>"),
        (Method::DELETE, "?conversation", "not a valid name of a conversation"),
        (Method::GET, "?conversation=new&after=x", "after"),
    ] {
        let answer = stage.local(method, query).send().await.unwrap();
        assert_eq!(answer.status(), 422, "{why}");
        let told = json(answer).await["error"].as_str().unwrap().to_owned();
        assert!(told.starts_with("Nothing was done") && told.contains(why), "{why} in {told}");
    }
    assert!(stage.store.list_deliveries(10, 0).await.unwrap().is_empty(), "nothing was stored");
    // As much as there may be, with everything escaped.
    let most = json!({"codebase": REPO, "text": "\u{1}".repeat(65_536)});
    assert_eq!(stage.said(most).await.status(), 202);
}
