//! Health, metrics, assets, and what surrounds every answer.

use super::*;
use serde_json::json;

#[tokio::test]
async fn health_is_told_without_a_session() {
    let stage = Stage::new().await;
    let alive = stage.request(Method::GET, "/healthz").send().await.unwrap();
    assert_eq!((alive.status().as_u16(), alive.text().await.unwrap().as_str()), (200, "ok\n"));
    let ready = stage.request(Method::GET, "/readyz").send().await.unwrap();
    assert_eq!(ready.status(), 200);
    assert_eq!(
        json(ready).await,
        json!({"database": "ok", "inbox": "ok", "git": "ok", "workers": "ok", "stopping": false})
    );
    let metrics = stage.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(metrics.headers()[header::CONTENT_TYPE], "text/plain; version=0.0.4");
    assert_eq!(metrics.text().await.unwrap(), "treewarden_up 1\n");
    stage.stopping.store(true, Ordering::Relaxed);
    let ready = stage.browse("/readyz").send().await.unwrap();
    assert_eq!(ready.status(), 503);
    assert_eq!(json(ready).await["stopping"], true, "machines read it, whatever they say they accept");
}

#[tokio::test]
async fn many_may_ask_whether_it_is_ready() {
    let stage = Stage::new().await;
    let ask = async || {
        let answer = stage.request(Method::GET, "/readyz").send().await.unwrap();
        (answer.status().as_u16(), json(answer).await["git"].as_str().unwrap().to_owned())
    };
    let answers = futures::future::join_all((0..64).map(|_| ask())).await;
    assert!(answers.iter().all(|answer| *answer == (200, "ok".to_owned())), "{answers:?}");
    stage.stopping.store(true, Ordering::Relaxed);
    assert_eq!(ask().await, (503, "ok".to_owned()), "only git's answer is remembered");
}

#[tokio::test]
async fn a_service_that_refuses_deliveries_is_not_ready_until_it_can_store_them() {
    let stage = Stage::new().await;
    let ready = async || {
        let answer = stage.request(Method::GET, "/readyz").send().await.unwrap();
        (answer.status().as_u16(), json(answer).await["inbox"].as_str().unwrap().to_owned())
    };
    let database = stage.dir.path().canonicalize().unwrap().join("home/treewarden.db");
    let elsewhere = sqlx::SqlitePool::connect(&format!("sqlite://{}", database.display())).await.unwrap();
    sqlx::query("ALTER TABLE inbox RENAME TO inbox_away").execute(&elsewhere).await.unwrap();
    assert_eq!(stage.delivery("g-1", "issues", b"{}").send().await.unwrap().status(), 503);
    assert_eq!(ready().await, (503, "failing".to_owned()));
    sqlx::query("ALTER TABLE inbox_away RENAME TO inbox").execute(&elsewhere).await.unwrap();
    assert_eq!(stage.delivery("g-1", "issues", b"{}").send().await.unwrap().status(), 202);
    assert_eq!(ready().await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn a_database_that_somebody_else_keeps_locked_is_told_and_recovered_from() {
    let stage = Stage::new().await;
    let database = stage.dir.path().canonicalize().unwrap().join("home/treewarden.db");
    let elsewhere = sqlx::SqlitePool::connect(&format!("sqlite://{}", database.display())).await.unwrap();
    let lock = elsewhere.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    assert_eq!(stage.delivery("g-1", "issues", b"{}").send().await.unwrap().status(), 503);
    let ready = stage.request(Method::GET, "/readyz").send().await.unwrap();
    assert_eq!(ready.status(), 503);
    assert_eq!(json(ready).await["inbox"], "failing");
    lock.rollback().await.unwrap();
    let recovered = async { while stage.request(Method::GET, "/readyz").send().await.unwrap().status() != 200 {} };
    tokio::time::timeout(Duration::from_secs(30), recovered).await.expect("it never gets ready again");
    assert_eq!(stage.delivery("g-1", "issues", b"{}").send().await.unwrap().status(), 202);
}

#[tokio::test]
async fn assets_are_kept_for_ever_under_the_hash_of_their_content() {
    let stage = Stage::new().await;
    let page = stage.browse("/login").send().await.unwrap().text().await.unwrap();
    let css = page.split('"').find(|part| part.ends_with("treewarden.css")).unwrap().to_owned();
    let answer = stage.request(Method::GET, &css).header(header::ACCEPT_ENCODING, "gzip").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/css");
    assert_eq!(answer.headers()[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
    assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
    let old = stage.request(Method::GET, "/assets/000000000000/treewarden.css").send().await.unwrap();
    assert_eq!((old.status().as_u16(), old.headers()[header::CACHE_CONTROL].to_str().unwrap()), (200, "no-cache"));
    let schema = stage.request(Method::GET, "/assets/latest/repo-settings.schema.json").send().await.unwrap();
    assert_eq!(schema.headers()[header::CONTENT_TYPE], "application/json");
    assert!(schema.json::<serde_json::Value>().await.unwrap()["properties"]["base"].is_object());
    for path in ["/assets/000000000000/none.css", "/assets/../Cargo.toml", "/assets/x/..%2F..%2FCargo.toml"] {
        assert_eq!(stage.request(Method::GET, path).send().await.unwrap().status(), 404, "{path}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_same_protection() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    for path in ["/", "/nowhere", "/environments/nonsense", "/healthz", "/login"] {
        let answer = browser.get(path).await;
        let headers = answer.headers();
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'self';") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::REFERRER_POLICY], "same-origin");
        assert_eq!(headers[header::X_FRAME_OPTIONS], "DENY");
        assert!(!headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
        let text = answer.text().await.unwrap();
        assert!(!text.contains("<script") && !text.contains(" style="), "{path} has something inline");
    }
    assert_eq!(browser.get("/").await.headers()[header::CACHE_CONTROL], "no-store");
}

#[tokio::test]
async fn errors_are_a_page_for_browsers_and_json_for_programs() {
    let stage = Stage::new().await;
    let page = stage.browse("/nowhere").send().await.unwrap();
    assert_eq!(page.status(), 404);
    assert_eq!(page.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
    assert!(page.text().await.unwrap().contains("mistyped"));
    let answer = stage.request(Method::GET, "/nowhere").send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(json(answer).await["error"].as_str().unwrap().contains("nothing here"));
    let answer = stage.request(Method::GET, "/webhooks/github").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()[header::ALLOW].to_str().unwrap()), (405, "POST"));
    assert!(json(answer).await["error"].as_str().unwrap().contains("cannot be used that way"));
}
