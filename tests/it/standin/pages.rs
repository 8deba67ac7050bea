//! The pages for people.

use super::{REPO, Stage};
use serde_json::json;
use treewarden::{demo::github::OpenPull, model::Permission};

impl Stage {
    async fn page(&self, path: &str) -> (u16, String) {
        let response = self.http.get(format!("{}{path}", self.standin.url())).send().await.unwrap();
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Follows every link of a page, which has to be there with the place its fragment names; answers the links.
    async fn crawl(&self, start: &str) -> Vec<String> {
        let found = links(&self.page(start).await.1);
        for link in &found {
            let local = link.strip_prefix(&self.standin.url()).unwrap_or(link);
            let (path, fragment) = local.split_once('#').unwrap_or((local, ""));
            let path = if path.is_empty() { start } else { path };
            let (status, page) = self.page(path).await;
            assert_eq!(status, 200, "{link}");
            assert!(fragment.is_empty() || page.contains(&format!("id=\"{fragment}\"")), "{link}");
        }
        found
    }

    async fn post(&self, path: &str, form: &[(&str, &str)]) -> u16 {
        let url = format!("{}{path}", self.standin.url());
        let request = self.http.post(url).header("origin", self.standin.url()).form(form);
        request.send().await.unwrap().status().as_u16()
    }
}

/// Addresses a page leads to.
fn links(page: &str) -> Vec<String> {
    let values = ["href=\"", "src=\""].map(|name| page.split(name).skip(1));
    let ends = |rest: &str| rest.split('"').next().unwrap_or_default().replace("&amp;", "&");
    values.into_iter().flatten().map(ends).filter(|link| !link.is_empty()).collect()
}

#[tokio::test]
async fn a_thread_shows_what_was_written_and_nothing_runs() {
    let stage = Stage::new().await;
    let number = stage.standin.open_issue(REPO, "ann", "A <b>title</b>", "**bold** <script>alert(1)</script>").unwrap();
    stage.standin.comment(REPO, "ann", number, "<!-- hidden -->\n[x](javascript:alert(1))").unwrap();
    let (status, page) = stage.page(&format!("/{REPO}/issues/{number}")).await;
    assert_eq!(status, 200);
    assert!(page.contains("A &#60;b&#62;title") || page.contains("A &lt;b&gt;title"), "{page}");
    assert!(page.contains("<strong>bold</strong>") && page.contains("&lt;script&gt;"));
    assert!(!page.contains("hidden") && !page.contains("javascript:"));
    let (_, home) = stage.page(&format!("/{REPO}")).await;
    assert!(home.contains(&format!("/{REPO}/issues/{number}")) && home.contains("README.md"));
    assert_eq!(stage.page("/octo/nothing").await.0, 404);
    assert_eq!(stage.page("/-/standin.css").await.0, 200);
}

#[tokio::test]
async fn every_link_that_comments_hold_leads_somewhere() {
    let stage = Stage::new().await;
    let files = [("a.txt", Some("<fresh> line\n")), ("raw.bin", Some("\0"))];
    let sha = stage.standin.push_commit(REPO, "ann", "feature/a#b", "Work <b>hard</b>\n\nWhy", &files).await.unwrap();
    let pull = OpenPull { title: "Work", head: "feature/a#b", ..OpenPull::default() };
    let number = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    let web = format!("{}/{REPO}", stage.standin.web_url());
    let first = stage.standin.comment(REPO, "ann", number, "hello").unwrap();
    let body = format!(
        "[it]({web}/commit/{sha}) [there]({web}/tree/feature/a%23b) [open]({web}/compare/main...feature/a%23b?expand=1)\n\n\
         Requested by ann in {web}/pull/{number}#issuecomment-{first}"
    );
    stage.standin.comment(REPO, "ann", number, &body).unwrap();
    let visited = stage.crawl(&format!("/{REPO}/pull/{number}")).await;
    for part in [format!("/commit/{sha}"), "/tree/feature/a%23b".into(), format!("#issuecomment-{first}")] {
        assert!(visited.iter().any(|link| link.contains(&part)), "{part} in {visited:?}");
    }
    let commit = stage.page(&format!("/{REPO}/commit/{sha}")).await.1;
    assert!(
        commit.contains("+&#60;fresh&#62; line") && commit.contains("Why") && !commit.contains("<b>hard"),
        "{commit}"
    );
    let root = stage.page(&format!("/{REPO}/tree/main")).await.1;
    assert!(root.contains("# Hello"), "{root}");
    let tree = stage.page(&format!("/{REPO}/tree/feature/a%23b")).await.1;
    assert!(tree.contains("&#60;fresh&#62; line") && tree.contains("raw.bin</code> <span"), "{tree}");
    assert!(stage.page(&format!("/{REPO}/compare/main...feature/a%23b")).await.1.contains("+&#60;fresh"));
    for nowhere in ["commit/main", "commit/HEAD", "commit/0000000", "tree/none", "tree/--all", "compare/main"] {
        assert_eq!(stage.page(&format!("/{REPO}/{nowhere}")).await.0, 404, "{nowhere}");
    }
}

#[tokio::test]
async fn the_visitor_writes_closes_and_merges_within_their_rights() {
    let stage = Stage::new().await;
    let issue = stage.standin.open_issue(REPO, "ann", "Greet", "").unwrap();
    let at = |action: &str| format!("/{REPO}/issues/{issue}/{action}");
    assert_eq!(stage.post(&at("comments"), &[("body", "hi")]).await, 403, "no permission yet");
    stage.standin.set_permission(REPO, "visitor", Permission::Write).unwrap();
    assert_eq!(stage.post(&at("comments"), &[("body", "one\r\ntwo")]).await, 303);
    assert_eq!(stage.standin.comments(REPO, issue).unwrap()[0].body, "one\ntwo");
    assert_eq!(stage.post(&at("comments"), &[("body", " ")]).await, 422);
    assert_eq!(stage.post(&at("close"), &[]).await, 303);
    assert!(!stage.standin.issue(REPO, issue).unwrap().open);
    assert_eq!(stage.post(&at("reopen"), &[]).await, 303);
    assert_eq!(stage.post(&format!("/{REPO}/issues"), &[("title", "New"), ("body", "")]).await, 303);

    stage.standin.push_commit(REPO, "ann", "work", "Work", &[("a.txt", Some("fresh line\n"))]).await.unwrap();
    let pull = OpenPull { title: "Work", head: "work", draft: true, ..OpenPull::default() };
    let number = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    let (_, page) = stage.page(&format!("/{REPO}/pull/{number}")).await;
    assert!(page.contains("+fresh line") && page.contains("Ready for review") && !page.contains("Squash and merge"));
    assert_eq!(stage.page(&format!("/{REPO}/issues/{number}")).await.0, 303);
    assert_eq!(stage.post(&format!("/{REPO}/issues/{number}/merge"), &[]).await, 409, "a draft");
    assert_eq!(stage.post(&format!("/{REPO}/issues/{number}/ready"), &[]).await, 303);
    assert_eq!(stage.post(&format!("/{REPO}/issues/{number}/merge"), &[]).await, 303);
    let (_, page) = stage.page(&format!("/{REPO}/pull/{number}")).await;
    assert!(page.contains("Merged") && page.contains("+fresh line"));
}

#[tokio::test]
async fn a_completed_check_run_has_buttons_for_writers() {
    let stage = Stage::new().await;
    let head = stage.standin.push_commit(REPO, "ann", "work", "Work", &[("a.txt", Some("a\n"))]).await.unwrap();
    let pull = OpenPull { title: "Work", head: "work", ..OpenPull::default() };
    let number = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    let token = stage.token(json!({})).await;
    let actions = json!([{ "label": "Go", "description": "Goes on", "identifier": "go" }]);
    let output = json!({ "title": "Working", "summary": "" });
    let new = json!({ "name": "x", "head_sha": head, "status": "in_progress", "output": output, "actions": actions });
    let (_, made) = stage.call("POST", &format!("/repos/{REPO}/check-runs"), &token, Some(new)).await;
    let (thread, id) = (format!("/{REPO}/pull/{number}"), made["id"].to_string());
    let page = stage.page(&thread).await.1;
    assert!(page.contains("x: Working") && page.contains("in progress") && !page.contains("value=\"go\""), "{page}");

    let done = json!({ "conclusion": "timed_out" });
    stage.call("PATCH", &format!("/repos/{REPO}/check-runs/{id}"), &token, Some(done)).await;
    let (press, form) = (format!("/{REPO}/issues/{number}/press"), [("check_run", id.as_str()), ("identifier", "go")]);
    assert!(!stage.page(&thread).await.1.contains("value=\"go\""), "a reader has none");
    assert_eq!(stage.post(&press, &form).await, 403);
    stage.standin.set_permission(REPO, "visitor", Permission::Write).unwrap();
    assert!(stage.page(&thread).await.1.contains("value=\"go\" title=\"Goes on\">Go</button>"));
    assert_eq!(stage.post(&press, &form).await, 303);
    assert_eq!(stage.post(&press, &[form[0], ("identifier", "stop")]).await, 422);
}

#[tokio::test]
async fn other_sites_cannot_write() {
    let stage = Stage::new().await;
    stage.standin.set_permission(REPO, "visitor", Permission::Write).unwrap();
    let issue = stage.standin.open_issue(REPO, "ann", "Greet", "").unwrap();
    let url = format!("{}/{REPO}/issues/{issue}/comments", stage.standin.url());
    let request = stage.http.post(url).header("origin", "https://evil.test").header("sec-fetch-site", "cross-site");
    assert_eq!(request.form(&[("body", "hi")]).send().await.unwrap().status(), 403);
    assert!(stage.standin.comments(REPO, issue).unwrap().is_empty());
}
