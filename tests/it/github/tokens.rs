//! Who the client says it is: the App's JWT, installation tokens, their scope, cache and end.

use super::fake::{Answer, Fake, claims};
use super::*;
use secrecy::ExposeSecret;
use treewarden::github::{GithubError, NewPullRequest};

const MINT: &str = "POST /api/v3/app/installations/3/access_tokens";

#[tokio::test]
async fn ten_callers_at_once_share_one_minting() {
    let fake = Fake::start().await;
    let installation = fake.client().installation(InstallationId(3));
    let calls = (0..10).map(|_| installation.git_credential(REPOSITORY, true));
    let credentials = futures::future::try_join_all(calls).await.unwrap();
    assert!(credentials.iter().all(|credential| credential.token.expose_secret() == "token-1"));
    assert_eq!(credentials[0].host, fake.url.trim_start_matches("http://"));

    let minted = fake.seen(MINT);
    assert_eq!(minted.len(), 1);
    assert_eq!(minted[0].body["repository_ids"], json!([1]));
    assert_eq!(minted[0].body["permissions"], json!({"contents": "write", "metadata": "read"}));
    let claims = claims(&minted[0].auth).unwrap();
    let now = chrono::Utc::now().timestamp();
    assert_eq!(claims["iss"], 7);
    assert!(claims["iat"].as_i64().unwrap() <= now - 55);
    assert!(claims["exp"].as_i64().unwrap() <= now + 600);
}

#[tokio::test]
async fn each_use_has_a_token_of_its_own_repository_and_permissions() {
    let fake = Fake::start().await;
    let installation = fake.client().installation(InstallationId(3));
    installation.git_credential(REPOSITORY, false).await.unwrap();
    installation.git_credential(REPOSITORY, true).await.unwrap();
    installation.git_credential(RepositoryId(2), false).await.unwrap();
    installation.git_credential(REPOSITORY, false).await.unwrap();
    let scopes: Vec<(Value, Value)> = fake
        .seen(MINT)
        .into_iter()
        .map(|seen| (seen.body["repository_ids"][0].clone(), seen.body["permissions"]["contents"].clone()))
        .collect();
    assert_eq!(scopes, [(json!(1), json!("read")), (json!(1), json!("write")), (json!(2), json!("read"))]);
}

/// Whatever GitHub answers to the question itself.
#[tokio::test]
async fn a_question_or_a_word_has_no_more_than_it_needs() {
    let fake = Fake::start().await;
    let installation = fake.client().installation(InstallationId(3));
    let (name, number, branch) = (name(), ThreadNumber(5), BranchName::new("main").unwrap());
    let ann = Person { id: UserId(5), login: "ann".to_owned(), is_bot: false };
    let _ = installation.permission(REPOSITORY, &name, &ann).await;
    let _ = installation.repository(REPOSITORY, &name).await;
    let _ = installation.issue(REPOSITORY, &name, number).await;
    let _ = installation.create_comment(REPOSITORY, &name, number, "Hello").await;
    let new = NewPullRequest { head: &branch, base: &branch, title: "A", body: "B", draft: true };
    let _ = installation.create_pull_request(REPOSITORY, &name, &new).await;
    let _ = installation.branch_tip(REPOSITORY, &name, &branch).await;
    let minted: Vec<Value> = fake.seen(MINT).into_iter().map(|seen| seen.body["permissions"].clone()).collect();
    let expected = [
        json!({"metadata": "read"}),
        json!({"issues": "read", "pull_requests": "read", "metadata": "read"}),
        json!({"issues": "write", "pull_requests": "write", "metadata": "read"}),
        json!({"contents": "read", "pull_requests": "write", "metadata": "read"}),
        json!({"contents": "read", "metadata": "read"}),
    ];
    assert_eq!(minted, expected);
}

#[tokio::test]
async fn a_token_in_its_last_minutes_is_replaced() {
    let fake = Fake::start().await;
    let installation = fake.client().installation(InstallationId(3));
    fake.let_tokens_live(290);
    installation.git_credential(REPOSITORY, false).await.unwrap();
    fake.let_tokens_live(3600);
    let second = installation.git_credential(REPOSITORY, false).await.unwrap();
    let third = installation.git_credential(REPOSITORY, false).await.unwrap();
    assert_eq!((second.token.expose_secret(), third.token.expose_secret()), ("token-2", "token-2"));
}

#[tokio::test]
async fn a_clock_ten_minutes_off_is_told_by_github_and_made_up_for() {
    for ahead in [600, -600] {
        let fake = Fake::start().await;
        fake.set_clock_ahead(ahead);
        let client = fake.client();
        let installation = client.installation(InstallationId(3));
        installation.git_credential(REPOSITORY, false).await.unwrap();
        assert_eq!((fake.seen(MINT).len(), fake.minted()), (2, 1), "{ahead}: once more, and by its clock");
        installation.git_credential(REPOSITORY, true).await.unwrap();
        assert_eq!(fake.seen(MINT).len(), 3, "{ahead}: from then on at once");
        // Also the end of a token goes by GitHub's clock.
        installation.git_credential(REPOSITORY, true).await.unwrap();
        assert_eq!(fake.minted(), 2, "{ahead}");
        fake.let_tokens_live(290);
        for _ in 0..2 {
            installation.git_credential(RepositoryId(2), true).await.unwrap();
        }
        assert_eq!(fake.minted(), 4, "{ahead}");
        let off = client.by_its_clock(Timestamp::from_unix(10_000)).unix() - 10_000;
        assert!((off - ahead).abs() <= 5, "{ahead}: {off}");

        // And mended, whoever's was wrong.
        fake.set_clock_ahead(0);
        installation.git_credential(RepositoryId(9), true).await.unwrap();
        assert_eq!(client.by_its_clock(Timestamp::from_unix(10_000)).unix(), 10_000);
    }
}

/// The key is another App's, or was deleted.
#[tokio::test]
async fn a_refusal_that_is_not_about_time_is_believed_at_once() {
    let fake = Fake::start().await;
    let refused = || Answer::Json(401, json!({"message": "A JSON web token could not be decoded"}));
    fake.on("GET /api/v3/app", [refused(), refused()]);
    assert_eq!(fake.client().app().await, Err(GithubError::Unauthorized));
    assert_eq!(fake.seen("GET /api/v3/app").len(), 1);
}

/// BR-197
#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let fake = Fake::start().await;
    let refused = || Answer::Json(401, json!({"message": "Bad credentials"}));
    fake.on("GET /api/v3/repos/acme/app", [refused(), Answer::Json(200, repository_json())]);
    let installation = fake.client().installation(InstallationId(3));
    installation.repository(REPOSITORY, &name()).await.unwrap();
    let asked: Vec<String> = fake.seen("GET /api/v3/repos/acme/app").into_iter().map(|seen| seen.auth).collect();
    assert_eq!(asked, ["Bearer token-1", "Bearer token-2"]);

    fake.on("GET /api/v3/repos/acme/app", [refused(), refused()]);
    assert_eq!(installation.repository(REPOSITORY, &name()).await, Err(GithubError::Unauthorized));
    assert_eq!(fake.minted(), 3);
}

#[tokio::test]
async fn the_app_knows_its_bot_through_an_installation_or_as_anybody() {
    let app = || Answer::Json(200, json!({"id": 7, "slug": "treewarden", "name": "Treewarden"}));
    let bot = || Answer::Json(200, json!({"id": 70, "login": "treewarden[bot]", "type": "Bot"}));
    for (installations, expected) in [
        (json!([{"id": 2, "suspended_at": "2026-01-01T00:00:00Z"}, {"id": 3, "suspended_at": null}]), "Bearer token-1"),
        (json!([]), ""),
    ] {
        let fake = Fake::start().await;
        fake.on("GET /api/v3/app/installations", [Answer::Json(200, installations)]);
        fake.on("GET /api/v3/app", [app()]);
        fake.on("GET /api/v3/users/treewarden%5Bbot%5D", [bot()]);
        let identity = fake.client().app().await.unwrap();
        assert_eq!((identity.slug.as_str(), identity.bot.id), ("treewarden", UserId(70)));
        assert_eq!(fake.seen("GET /api/v3/users/")[0].auth, expected);
    }
}

/// BR-141: without them nobody would know who is spoken to, and which comments are its own.
#[tokio::test]
async fn an_app_without_a_slug_or_a_bot_is_none() {
    for (slug, bot, why) in [("", 70, "the App has no slug"), ("treewarden", 0, "treewarden[bot] has no id")] {
        let fake = Fake::start().await;
        fake.on("GET /api/v3/app/installations", [Answer::Json(200, json!([]))]);
        fake.on("GET /api/v3/app", [Answer::Json(200, json!({"id": 7, "slug": slug, "name": "Treewarden"}))]);
        let account = json!({"id": bot, "login": "treewarden[bot]", "type": "Bot"});
        fake.on("GET /api/v3/users/treewarden%5Bbot%5D", [Answer::Json(200, account)]);
        assert_eq!(fake.client().app().await, Err(GithubError::BadAnswer(why.to_owned())));
    }
}

#[tokio::test]
async fn an_installation_that_gives_no_token_is_passed_over_and_none_at_all_is_said() {
    let installed = || Answer::Json(200, json!([{"id": 2, "suspended_at": null}, {"id": 3, "suspended_at": null}]));
    let refused = |status: u16, why: &str| Answer::Json(status, json!({"message": why}));
    let app = || Answer::Json(200, json!({"id": 7, "slug": "treewarden", "name": "Treewarden"}));
    let bot = || Answer::Json(200, json!({"id": 70, "login": "treewarden[bot]", "type": "Bot"}));
    let first = "POST /api/v3/app/installations/2/access_tokens";
    for (status, why) in [(403, "This installation has been suspended"), (404, "Not Found"), (422, "Not granted")] {
        let fake = Fake::start().await;
        fake.on(first, [refused(status, why)]);
        fake.on("GET /api/v3/app/installations", [installed()]);
        fake.on("GET /api/v3/app", [app()]);
        fake.on("GET /api/v3/users/treewarden%5Bbot%5D", [bot()]);
        assert_eq!(fake.client().app().await.unwrap().bot.id, UserId(70), "{status}");
        assert_eq!(fake.seen(MINT).len(), 1, "{status}");
    }
    let fake = Fake::start().await;
    for mint in [first, MINT] {
        fake.on(mint, [refused(403, "This installation has been suspended")]);
    }
    fake.on("GET /api/v3/app/installations", [installed()]);
    fake.on("GET /api/v3/app", [app()]);
    let error = fake.client().app().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "GitHub refused: none of the App's installations may ask who treewarden[bot] is (GitHub refused: This \
         installation has been suspended), nor may others"
    );
}
