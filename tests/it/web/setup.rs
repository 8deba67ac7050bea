//! `/setup`: which answers of GitHub are taken, and what the form that goes there holds.

use super::*;
use crate::support::browser::{Browser as Visitor, Page};
use treewarden::demo::github::Fault;

const APP: &str = "our-bot";

impl Stage {
    /// Without an App.
    async fn unconnected() -> Self {
        Self::build("http://127.0.0.1:3000", ServeLimits::of_this_process(), false).await
    }

    /// Somebody who came by a link, on the page that connects GitHub.
    async fn visitor(&self) -> (Visitor, Page) {
        let mut visitor = Visitor::new();
        let page = visitor.open(&format!("{}/login/one-time?token={}", self.base, self.token())).await;
        visitor.press(&page, "Open the panel", &[]).await;
        let page = visitor.open(&format!("{}/setup", self.base)).await;
        (visitor, page)
    }

    /// Up to the page whose form goes to GitHub.
    async fn on_the_way(&self) -> (Visitor, Page) {
        let (mut visitor, page) = self.visitor().await;
        let webhook = format!("{}/webhooks/github", self.base);
        let page = visitor.press(&page, "Go on to GitHub", &[("name", "our bot"), ("webhook", &webhook)]).await;
        assert_eq!(page.status, 200, "{}", page.text);
        (visitor, page)
    }

    /// How often GitHub was asked for an App's secrets.
    fn conversions(&self) -> usize {
        self.standin.requests().iter().filter(|request| request.path.starts_with("/app-manifests/")).count()
    }
}

/// The state that a page sends along.
fn state_of(page: &Page) -> String {
    page.form("Create the App on GitHub").action.split("state=").nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn the_form_goes_to_github_with_what_the_app_is_to_be() {
    let stage = Stage::unconnected().await;
    let (mut visitor, page) = stage.on_the_way().await;
    let form = page.form("Create the App on GitHub");
    let web_url = stage.standin.web_url();
    assert!(form.action.starts_with(&format!("{web_url}/settings/apps/new?state=")), "{}", form.action);
    assert_eq!(state_of(&page).len(), 64);
    let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.contains(&format!("form-action 'self' {web_url};")), "{policy}");
    let manifest: serde_json::Value = serde_json::from_str(form.field("manifest")).unwrap();
    assert_eq!(manifest["redirect_url"], format!("{}/setup/callback", stage.base));
    assert_eq!(manifest["hook_attributes"]["url"], format!("{}/webhooks/github", stage.base));
    assert_eq!(manifest["name"], "our bot");

    let page = visitor.open(&format!("{}/setup", stage.base)).await;
    let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.contains("form-action 'self';"), "{policy}");
    let page = visitor.press(&page, "Go on to GitHub", &[("organization", "octo-org")]).await;
    let action = page.form("Create the App on GitHub").action;
    assert!(action.starts_with(&format!("{web_url}/organizations/octo-org/settings/apps/new?state=")), "{action}");
    assert_eq!(stage.conversions(), 0);
}

/// For a machine that GitHub does not reach.
#[tokio::test]
async fn without_an_address_the_app_leads_to_nobody_and_everything_is_fetched() {
    let stage = Stage::unconnected().await;
    let (mut visitor, page) = stage.visitor().await;
    let page = visitor.press(&page, "Go on to GitHub", &[("name", "our bot"), ("webhook", "")]).await;
    assert_eq!(page.status, 422, "nobody said that nothing reaches it");
    let wish = [("name", "our bot"), ("webhook", ""), ("fetch", "on")];
    let page = visitor.press(&page, "Go on to GitHub", &wish).await;
    let manifest = page.form("Create the App on GitHub").field("manifest").to_owned();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let hook = serde_json::json!({"url": "https://treewarden.invalid/webhooks/github", "active": true});
    assert_eq!((&manifest["hook_attributes"], &manifest["url"]), (&hook, &serde_json::json!("http://127.0.0.1:3000")));
    let page = visitor.press(&page, "Create the App on GitHub", &[]).await;
    let page = visitor.press(&page, "Create GitHub App", &[]).await;
    assert!(page.text.contains(&format!("@{APP} is connected")), "{}", page.text);
    assert!(stage.orchestrator.fetches_deliveries());
    assert!(stage.store.load_app().await.unwrap().unwrap().fetches);
    let body = br#"{"zen":"Keep it logically awesome."}"#;
    let answer = stage.delivery("00000000-0000-0000-0000-000000000001", "ping", body).send().await.unwrap();
    assert_eq!(answer.status(), 404, "none is let in");
}

#[tokio::test]
async fn what_is_filled_in_wrongly_is_said_and_leads_nowhere() {
    let stage = Stage::unconnected().await;
    let (mut visitor, page) = stage.visitor().await;
    for (field, bad) in [
        ("organization", "../settings"),
        ("organization", "octo\"><script>"),
        ("name", "a name that has far more characters than any"),
        ("webhook", "javascript:alert(1)"),
        ("webhook", "http://tw.example.org:notaport/"),
    ] {
        let answer = visitor.press(&page, "Go on to GitHub", &[(field, bad)]).await;
        assert_eq!(answer.status, 422, "{bad}");
        assert!(answer.text.contains("Not yet:") && !answer.text.contains("<script>"), "{}", answer.text);
        assert_eq!(answer.form("Go on to GitHub").field(field), bad, "what was typed is still there");
    }
}

#[tokio::test]
async fn nobody_sets_up_without_a_session_or_from_another_site() {
    let stage = Stage::unconnected().await;
    let answer = stage.browse("/setup").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()[header::LOCATION]), (303, &"/login".parse().unwrap()));
    assert_eq!(stage.request(Method::POST, "/setup").form(&[("name", "x")]).send().await.unwrap().status(), 401);
    let browser = stage.sign_in().await;
    let request = stage.request(Method::POST, "/setup").header(header::COOKIE, &browser.cookie);
    let request = request.header(header::ORIGIN, "https://evil.test").header("Sec-Fetch-Site", "cross-site");
    assert_eq!(request.form(&[("name", "x")]).send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn of_answers_that_come_at_once_one_is_taken() {
    let stage = Stage::unconnected().await;
    for round in 1..=5 {
        let (visitor, page) = stage.on_the_way().await;
        let address = format!("{}/setup/callback?code=abc&state={}", stage.base, state_of(&page));
        let answers = futures::future::join_all((0..10).map(|_| visitor.ask(&address))).await;
        let taken = answers.into_iter().filter(|answer| *answer != 403).count();
        assert_eq!((taken, stage.conversions()), (1, round));
    }
}

/// BR-190, BR-191: an answer that no browser here waits for is refused, and GitHub is not asked.
#[tokio::test]
async fn only_the_answer_that_this_browser_waits_for_is_taken_and_once() {
    let stage = Stage::unconnected().await;
    let callback = |query: &str| format!("{}/setup/callback?{query}", stage.base);
    let (mut waiting, page) = stage.on_the_way().await;
    let state = state_of(&page);
    let (mut signed_in, _) = stage.visitor().await;
    let mut stranger = Visitor::new();
    for query in [
        "",
        "code=abc",
        "state=abc",
        &*format!("code=abc&state={}", "0".repeat(64)),
        &*format!("code=abc&state={state}"),
    ] {
        for (who, visitor) in [("a stranger", &mut stranger), ("another browser", &mut signed_in)] {
            let answer = visitor.open(&callback(query)).await;
            assert_eq!(answer.status, 403, "{who}: {query}");
            assert!(answer.text.contains("GitHub was not asked"), "{}", answer.text);
        }
    }
    // A guess uses up what was waited for.
    assert_eq!(waiting.open(&callback("code=abc&state=0")).await.status, 403);
    assert_eq!(waiting.open(&callback(&format!("code=abc&state={state}"))).await.status, 403);
    // Nor does it wait for ever.
    let (mut late, page) = stage.on_the_way().await;
    stage.ahead.fetch_add(600, Ordering::Relaxed);
    assert_eq!(late.open(&callback(&format!("code=abc&state={}", state_of(&page)))).await.status, 403);
    // What is no code of GitHub stands in no address.
    let (mut hostile, page) = stage.on_the_way().await;
    let query = format!("code=..%2F..%2Fapp&state={}", state_of(&page));
    assert_eq!(hostile.open(&callback(&query)).await.status, 403);
    assert_eq!(stage.conversions(), 0);

    let (mut visitor, page) = stage.on_the_way().await;
    let state = state_of(&page);
    let page = visitor.press(&page, "Create the App on GitHub", &[]).await;
    let page = visitor.press(&page, "Create GitHub App", &[]).await;
    assert!(page.text.contains(&format!("@{APP} is connected")), "{}", page.text);
    assert_eq!(stage.conversions(), 1);
    assert_eq!(visitor.open(&callback(&format!("code=abc&state={state}"))).await.status, 403);
    assert_eq!(stage.conversions(), 1);
}

#[tokio::test]
async fn from_then_on_everything_goes_by_that_app() {
    let stage = Stage::unconnected().await;
    let body = br#"{"zen":"Keep it logically awesome."}"#;
    let knock = || stage.delivery("00000000-0000-0000-0000-000000000001", "ping", body);
    assert_eq!(knock().send().await.unwrap().status(), 404);
    assert_eq!(stage.request(Method::GET, "/webhooks/github").send().await.unwrap().status(), 404);
    let (mut other, other_page) = stage.on_the_way().await;
    let (mut visitor, page) = stage.on_the_way().await;
    let page = visitor.press(&page, "Create the App on GitHub", &[]).await;
    // GitHub's ping could be here before the page is.
    stage.standin.lose_events(true);
    let page = visitor.press(&page, "Create GitHub App", &[]).await;
    stage.standin.lose_events(false);
    for words in [&*format!("@{APP} is connected"), "git 2.39.5 &#60;b&#62;", "nothing has come from GitHub yet"] {
        assert!(page.text.contains(words), "{words} in {}", page.text);
    }
    let stored = stage.store.load_app().await.unwrap().unwrap();
    assert_eq!((stored.app_id, &*stored.slug), (stage.standin.app_id(), APP));
    assert_eq!(stage.orchestrator.identity().slug, APP);
    let audit = stage.store.list_audit(1).await.unwrap().remove(0);
    assert_eq!((&*audit.actor, &*audit.action, &*audit.subject), ("operator", "app.connected", APP));
    assert_eq!(knock().send().await.unwrap().status(), 401, "the door is there, and that is not its secret");
    stage.standin.ping();
    stage.standin.settled().await;
    assert_eq!(stage.standin.deliveries().last().unwrap().outcome.as_ref().unwrap().status_code, 202);
    let page = visitor.open(&format!("{}/setup", stage.base)).await;
    assert!(page.text.contains("deliveries come in"), "{}", page.text);

    // Another one that was on its way is told so, and GitHub is not asked for it.
    let answer = other.open(&format!("{}/setup/callback?code=abc&state={}", stage.base, state_of(&other_page))).await;
    assert_eq!(answer.status, 409);
    assert!(answer.text.contains("has its App already"), "{}", answer.text);
    assert_eq!(stage.conversions(), 1);
}

#[tokio::test]
async fn an_app_that_github_does_not_hand_over_is_told_of_and_the_set_up_stays_open() {
    let stage = Stage::unconnected().await;
    let faults = [
        (Fault::Status(404), 1, "good once, and for an hour"),
        (Fault::Status(500), 9, "an error of its own (status 500)"),
        (Fault::Html { status: 200 }, 1, "was not understood"),
        (Fault::CutAfterApplying, 1, "may have had its effect"),
    ];
    for (fault, times, told) in faults {
        let (mut visitor, page) = stage.on_the_way().await;
        let name = format!("bot {times} {}", stage.conversions());
        let page = visitor.press(&page, "Create the App on GitHub", &[]).await;
        stage.standin.faults().inject(Some("POST"), "/app-manifests/", times, fault.clone());
        let page = visitor.press(&page, "Create GitHub App", &[("name", &name)]).await;
        stage.standin.faults().clear();
        for words in ["The App was not connected.", told, "delete it there", "Connect GitHub"] {
            assert!(page.text.contains(words), "{fault:?}: {words} in {}", page.text);
        }
        assert_eq!(stage.store.load_app().await.unwrap(), None);
        assert!(!stage.orchestrator.is_connected());
    }
}

#[tokio::test]
async fn an_app_that_github_no_longer_knows_is_told_how_to_be_forgotten() {
    let stage = Stage::unconnected().await;
    let (mut visitor, page) = stage.on_the_way().await;
    let page = visitor.press(&page, "Create the App on GitHub", &[]).await;
    stage.standin.faults().inject(Some("GET"), "/app", u32::MAX, Fault::Status(401));
    let page = visitor.press(&page, "Create GitHub App", &[("name", "our bot")]).await;
    for words in ["its secrets are kept here", "does not accept the App", "treewarden disconnect"] {
        assert!(page.text.contains(words), "{words} in {}", page.text);
    }
    assert!(!stage.orchestrator.is_connected());
}
