//! Who gets into the panel: this machine only, by links that work once, with sessions that end.

use super::*;
use axum::{body::Body, extract::ConnectInfo, http::Request};
use tower::ServiceExt;

#[tokio::test]
async fn without_a_session_every_page_leads_to_the_login() {
    let stage = Stage::new().await;
    for path in [
        "/",
        "/environments",
        "/runs",
        "/cleanup",
        "/deliveries",
        "/audit",
        "/doctor",
        "/setup",
        "/environments/x",
        "/runs/x",
    ] {
        let answer = stage.browse(path).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.headers()[header::LOCATION].to_str().unwrap()), (303, "/login"));
        assert!(cookie_of(&answer).is_none(), "no session for a stranger");
        let answer = stage.request(Method::GET, path).send().await.unwrap();
        assert_eq!(answer.status(), 401, "{path} for a program");
    }
    let page = stage.browse("/login").send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("one-time link"));
}

#[tokio::test]
async fn a_link_opens_one_session_and_looking_at_it_uses_nothing_up() {
    let stage = Stage::new().await;
    let token = stage.token();
    for _ in 0..2 {
        let page = stage.browse(&format!("/login/one-time?token={token}")).send().await.unwrap();
        assert_eq!(page.status(), 200);
        assert!(page.text().await.unwrap().contains(&token));
    }
    let enter = || stage.request(Method::POST, "/login/one-time").form(&[("token", token.as_str())]);
    let answer = enter().send().await.unwrap();
    assert_eq!(answer.status(), 303);
    let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("treewarden="), "{cookie}");
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=28800"] {
        assert!(cookie.contains(attribute), "{attribute} in {cookie}");
    }
    assert!(!cookie.contains("Secure"), "plain HTTP on this machine");
    let again = enter().header(header::ACCEPT, "text/html").send().await.unwrap();
    assert_eq!(again.status(), 403);
    assert!(again.text().await.unwrap().contains("used already"));
    let made_up = stage.request(Method::POST, "/login/one-time").form(&[("token", "00")]).send().await.unwrap();
    assert_eq!(made_up.status(), 403);
}

#[tokio::test]
async fn behind_https_the_cookie_is_bound_to_the_host() {
    let stage = Stage::with_public_url("https://tw.example.com").await;
    let there = |request: RequestBuilder| request.header(header::HOST, "tw.example.com");
    let enter = there(stage.request(Method::POST, "/login/one-time")).form(&[("token", stage.token())]);
    let answer = enter.send().await.unwrap();
    let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with("__Host-treewarden=") && cookie.contains("Secure"), "{cookie}");
    let kept = cookie_of(&answer).unwrap();
    assert_eq!(there(stage.browse("/")).header(header::COOKIE, &kept).send().await.unwrap().status(), 200);
    // What anybody in the network could have planted under that name by plain HTTP counts for nothing.
    let plain = kept.replace("__Host-", "");
    assert_eq!(there(stage.browse("/")).header(header::COOKIE, plain).send().await.unwrap().status(), 303);
}

#[tokio::test]
async fn on_this_machine_the_cookie_needs_no_https_whatever_the_public_url_is() {
    for public_url in ["https://tw.example.com", "http://127.0.0.1:3000"] {
        let stage = Stage::with_public_url(public_url).await;
        for host in ["localhost:3000", "127.0.0.1:3000", "[::1]:3000"] {
            let here = |request: RequestBuilder| request.header(header::HOST, host);
            let enter = here(stage.request(Method::POST, "/login/one-time")).form(&[("token", stage.token())]);
            let answer = enter.send().await.unwrap();
            let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
            assert!(cookie.starts_with("treewarden=") && cookie.contains("HttpOnly"), "{cookie}");
            assert!(!cookie.contains("Secure"), "{cookie}");
            let kept = cookie_of(&answer).unwrap();
            assert_eq!(here(stage.browse("/")).header(header::COOKIE, &kept).send().await.unwrap().status(), 200);
        }
        let made_up = stage.request(Method::POST, "/login/one-time").header(header::HOST, "localhost");
        let refused = made_up.form(&[("token", "00")]).send().await.unwrap();
        assert!(refused.status() == 403 && cookie_of(&refused).is_none(), "a name alone opens nothing");
    }
}

#[tokio::test]
async fn signing_in_gives_a_new_session_id() {
    let stage = Stage::new().await;
    let first = stage.sign_in().await;
    let form = [("token", stage.token())];
    let request = stage.request(Method::POST, "/login/one-time").header(header::COOKIE, &first.cookie);
    let answer = request.form(&form).send().await.unwrap();
    assert_ne!(cookie_of(&answer).unwrap(), first.cookie);
    assert_eq!(first.get("/").await.status(), 303, "the old id is worth nothing");
    let planted =
        stage.request(Method::POST, "/login/one-time").header(header::COOKIE, "treewarden=AAAAAAAAAAAAAAAAAAAAAA");
    let answer = planted.form(&[("token", stage.token())]).send().await.unwrap();
    assert!(!cookie_of(&answer).unwrap().contains("AAAAAAAAAAAAAAAAAAAAAA"));
}

#[tokio::test]
async fn signing_out_ends_the_session_on_the_server() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    assert_eq!(browser.get("/").await.status(), 200);
    assert_eq!(browser.press("/logout", &[]).await, "/login");
    assert_eq!(browser.get("/").await.headers()[header::LOCATION], "/login");
    assert_eq!(stage.browse("/logout").send().await.unwrap().status(), 405);
}

#[tokio::test]
async fn a_session_that_has_ended_opens_nothing() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let database = stage.dir.path().canonicalize().unwrap().join("home/treewarden.db");
    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}", database.display())).await.unwrap();
    sqlx::query("UPDATE web_sessions SET expires_at = replace(expires_at, '20', '19')").execute(&pool).await.unwrap();
    assert_eq!(browser.get("/").await.headers()[header::LOCATION], "/login");
    // The next one who signs in clears it away.
    stage.sign_in().await;
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM web_sessions").fetch_one(&pool).await.unwrap();
    assert_eq!(kept, 1);
}

#[tokio::test]
async fn only_this_machine_and_only_directly() {
    let stage = Stage::new().await;
    let ask = |path: &str, peer: &str, header: Option<&'static str>| {
        let mut request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(format!("{peer}:5000").parse::<SocketAddr>().unwrap()));
        if let Some(name) = header {
            request.headers_mut().insert(name, "10.0.0.7".parse().unwrap());
        }
        stage.routes.clone().oneshot(request)
    };
    for path in ["/login", "/metrics"] {
        for peer in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
            assert_eq!(ask(path, peer, None).await.unwrap().status(), 200, "{path} {peer}");
        }
        for peer in ["10.0.0.7", "[2001:db8::1]", "[::ffff:10.0.0.7]"] {
            assert_eq!(ask(path, peer, None).await.unwrap().status(), 403, "{path} {peer}");
        }
        for header in ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "x-real-ip", "via"] {
            assert_eq!(ask(path, "127.0.0.1", Some(header)).await.unwrap().status(), 403, "{path} {header}");
        }
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(ask(path, "10.0.0.7", Some("x-forwarded-for")).await.unwrap().status(), 200, "{path}");
    }
}

#[tokio::test]
async fn a_foreign_host_name_is_refused() {
    let stage = Stage::with_public_url("https://tw.example.com").await;
    let browser = stage.sign_in().await;
    let ask = |host: &'static str| stage.browse("/login").header(header::HOST, host).send();
    for host in ["localhost:3000", "tw.example.com", "127.0.0.1"] {
        assert_eq!(ask(host).await.unwrap().status(), 200, "{host}");
    }
    for host in ["evil.test", "tw.example.com.evil.test"] {
        assert_eq!(ask(host).await.unwrap().status(), 403, "{host}");
        let metrics = stage.request(Method::GET, "/metrics").header(header::HOST, host).send();
        assert_eq!(metrics.await.unwrap().status(), 403, "{host}");
    }
    assert_eq!(browser.get("/").await.status(), 200);
}
