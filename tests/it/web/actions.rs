//! What the buttons do, and that nobody else can press them.

use super::*;
use treewarden::git::{FetchRequest, Uncommitted};
use treewarden::isolation::{CreateRequest, Maker, Provider};
use treewarden::model::WorktreeStart;
use treewarden::store::RunFilter;

#[tokio::test]
async fn a_form_from_another_site_does_nothing() {
    // BR-193
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let environment = stage.environment(&codebase, 1, "issue-1").await;
    let remove = format!("/environments/{}/remove", environment.id);
    let press = |name: &'static str, value: &'static str| {
        let request = stage.request(Method::POST, &remove).header(header::COOKIE, &browser.cookie);
        request.header(header::CONTENT_TYPE, "text/plain").header(name, value).send()
    };
    for (name, value) in [
        ("Origin", "https://evil.test"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        let answer = press(name, value).await.unwrap();
        assert_eq!(answer.status(), 403, "{name}: {value}");
        assert!(json(answer).await["error"].as_str().unwrap().contains("nothing was done"));
    }
    assert_eq!(browser.get(&remove).await.status(), 405, "reading never changes anything");
    let stranger = stage.request(Method::POST, &remove).send().await.unwrap();
    assert_eq!(stranger.status(), 401);
    let kept = stage.store.load_environment(environment.id).await.unwrap().unwrap();
    assert_eq!((kept.state, kept.version), (environment.state, environment.version));
    assert!(stage.store.list_audit(10).await.unwrap().is_empty());
}

#[tokio::test]
async fn pinning_keeps_it_and_says_so_once() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let environment = stage.environment(&codebase, 1, "issue-1").await;
    let page = format!("/environments/{}", environment.id);
    assert_eq!(browser.press(&format!("{page}/pin"), &[]).await, page);
    assert!(browser.page(&page).await.contains("is pinned: cleanup leaves it alone"));
    assert!(!browser.page(&page).await.contains("cleanup leaves it alone"), "a message is shown once");
    browser.press(&format!("{page}/pin"), &[]).await;
    assert!(
        stage.store.load_environment(environment.id).await.unwrap().unwrap().pinned,
        "pinning twice is no unpinning"
    );
    browser.press(&format!("{page}/remove"), &[]).await;
    let told = browser.page(&page).await;
    assert!(told.contains("Nothing was removed.") && told.contains("it is pinned"), "{told}");
    browser.press(&format!("{page}/unpin"), &[]).await;
    assert!(!stage.store.load_environment(environment.id).await.unwrap().unwrap().pinned);
    let audit = stage.store.list_audit(10).await.unwrap();
    assert!(audit.iter().all(|entry| entry.actor == "operator"), "{audit:?}");
}

#[tokio::test]
async fn a_click_stages_a_repository_and_switches_it_on_again() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let mode = async || stage.store.load_codebase(codebase.id).await.unwrap().unwrap().mode;
    let address = format!("/codebases/{}/mode", codebase.id);
    let press = |name: &'static str, value: &'static str, cookie: &str| {
        let request = stage.request(Method::POST, &address).header(header::COOKIE, cookie);
        request.header(name, value).form(&[("mode", "staged")]).send()
    };
    assert_eq!(press("Origin", "https://evil.test", &browser.cookie).await.unwrap().status(), 403);
    assert_eq!(press("Sec-Fetch-Site", "same-origin", "").await.unwrap().status(), 401);
    assert_eq!(browser.get(&address).await.status(), 405, "reading never changes anything");
    assert_eq!(mode().await, CodebaseMode::On);
    for (wanted, told) in [("staged", "is staged."), ("off", "is switched off."), ("on", "is switched on.")] {
        let page = browser.page("/").await;
        assert!(page.contains(&format!("value=\"{wanted}\"")) && page.contains(&address), "{wanted}");
        assert_eq!(browser.press(&address, &[("mode", wanted)]).await, "/");
        assert!(browser.page("/").await.contains(told), "{wanted}");
        assert_eq!(mode().await.as_str(), wanted);
    }
    let audit = stage.store.list_audit(10).await.unwrap();
    let modes = audit.iter().filter(|entry| entry.action == "codebase.mode" && entry.actor == "operator");
    assert_eq!(modes.count(), 3, "{audit:?}");
    let unknown = format!("/codebases/{}/mode", uuid::Uuid::nil());
    for (address, form) in [(&*unknown, "off"), (&*address, "gone"), ("/codebases/-/mode", "off")] {
        let request = stage.request(Method::POST, address).header(header::COOKIE, &browser.cookie);
        let answer = request.header(header::ORIGIN, &stage.base).form(&[("mode", form)]).send().await.unwrap();
        assert!(answer.status().is_client_error(), "{address} {form}");
    }
    assert_eq!(mode().await, CodebaseMode::On);
}

#[tokio::test]
async fn what_no_button_asks_for_is_not_found() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let environment = stage.environment(&codebase, 1, "issue-1").await;
    for verb in ["destroy", "Pin", "remove-by-force%20"] {
        let address = format!("/environments/{}/{verb}", environment.id);
        let request = stage.request(Method::POST, &address).header(header::COOKIE, &browser.cookie);
        let answer = request.header(header::ORIGIN, &stage.base).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{verb}");
    }
    let kept = stage.store.load_environment(environment.id).await.unwrap().unwrap();
    assert_eq!((kept.state, kept.version), (environment.state, environment.version));
}

#[tokio::test]
async fn a_clean_worktree_is_removed_for_real_and_leaves_a_receipt() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let id = stage.standin.create_repository(REPO, &[("README.md", "# Hello\n")]).await.unwrap();
    let codebase = stage.codebase(REPO, id).await;
    let environment = stage.environment(&codebase, 1, "issue-1").await;
    let home = stage.dir.path().canonicalize().unwrap().join("home");
    let repository = stage.git.repository(home.join("repos").join(&codebase.repository_dir));
    repository.ensure(&stage.standin.clone_url(REPO)).await.unwrap();
    let token = stage.standin.installation_token(REPO).unwrap();
    let host = stage.standin.web_url().trim_start_matches("http://").to_owned();
    let credential = Credential { host, token: SecretString::from(token) };
    let everything = FetchRequest { branches: true, extra: Vec::new() };
    repository.fetch(&everything, Some(&credential)).await.unwrap();
    let tip = repository.tip("refs/remotes/origin/main").await.unwrap().unwrap();
    let provider = WorktreeProvider::new(&stage.worktrees(), &home.join("trash")).unwrap();
    let (path, branch) = (environment.path.clone(), environment.branch.clone());
    let request = CreateRequest {
        path,
        maker: Maker::Us,
        uncommitted: Uncommitted::Refuse,
        branch,
        start: WorktreeStart::NewBranch(tip.clone()),
        furnishing: Default::default(),
    };
    provider.create(&repository, &request).await.unwrap();
    let made = Environment { start: Some(tip), ..environment.clone() };
    stage.store.update_environment(&made).await.unwrap();

    let page = format!("/environments/{}", environment.id);
    let foreseen = async |verb: &str| {
        let before = stage.store.load_environment(environment.id).await.unwrap();
        assert_eq!(browser.press(&format!("{page}/{verb}"), &[]).await, page);
        assert_eq!(stage.store.load_environment(environment.id).await.unwrap(), before);
        browser.page(&page).await
    };
    let told = foreseen("foresee-removal").await;
    assert!(told.contains("Nothing was changed.") && told.contains("would be removed: "), "{told}");
    assert!(told.contains("Its local branch would be deleted."), "{told}");
    std::fs::write(environment.path.join("precious"), "work\n").unwrap();
    let told = foreseen("foresee-removal").await;
    assert!(told.contains("would be kept:") && told.contains("uncommitted work: 1 untracked file"), "{told}");
    let told = foreseen("foresee-removal-by-force").await;
    assert!(told.contains("would be kept, and what is not committed kept in the trash until "), "{told}");
    assert!(environment.path.join("precious").exists() && stage.store.list_audit(50).await.unwrap().is_empty());
    browser.press(&format!("{page}/remove"), &[]).await;
    let told = browser.page(&page).await;
    assert!(told.contains("Nothing was removed.") && told.contains("1 untracked file"), "{told}");
    assert!(environment.path.join("precious").exists());

    browser.press(&format!("{page}/remove-by-force"), &[]).await;
    let told = browser.page(&page).await;
    assert!(told.contains("<dt>What was not committed</dt><dd>kept until "), "{told}");
    assert!(told.contains("this was asked for") && !told.contains("It was safe"), "{told}");
    assert!(told.contains("the button below, or <code>/worktree restore "), "{told}");
    assert!(!environment.path.exists());
    browser.press(&format!("{page}/restore"), &[]).await;
    let told = browser.page(&page).await;
    assert!(told.contains("It is back.") && told.contains("What went to the trash is there again"), "{told}");
    assert_eq!(std::fs::read_to_string(environment.path.join("precious")).unwrap(), "work\n");
    browser.press(&format!("{page}/restore"), &[]).await;
    assert!(browser.page(&page).await.contains("there already"), "a second press changes nothing");
    let restored = stage.store.list_audit(50).await.unwrap();
    assert_eq!(restored.iter().filter(|entry| entry.action == "environment.restored").count(), 1);
    let environment = stage.store.live_environments(None).await.unwrap().remove(0);
    let page = format!("/environments/{}", environment.id);

    std::fs::remove_file(environment.path.join("precious")).unwrap();
    browser.press(&format!("{page}/remove"), &[]).await;
    let told = browser.page(&page).await;
    assert!(told.contains("The worktree was removed.") && told.contains("Receipt"), "{told}");
    let restore =
        format!("<code>git -C {} branch issue-1 ", home.join("repos").join(&codebase.repository_dir).display());
    assert!(told.contains(&restore), "{restore} in {told}");
    assert!(!told.contains("Remove if nothing would be lost"), "there is nothing left to press");
    assert!(!environment.path.exists());
    assert!(browser.page("/cleanup").await.contains(">octo/hello#issue-1</a></td>"));
    assert!(browser.page("/environments?all=true").await.contains("destroyed"));
}

#[tokio::test]
async fn a_queued_run_is_stopped_at_once() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let conversation = stage.conversation(&codebase, 1, "x").await;
    let run = stage.run(&codebase, &conversation, "go").await;
    let page = format!("/runs/{}", run.id);
    assert_eq!(browser.press(&format!("{page}/stop"), &[]).await, page);
    assert!(browser.page(&page).await.contains("cancelled"));
    assert_eq!(stage.store.list_runs(RunFilter::default(), 1, 0).await.unwrap()[0].state, RunState::Cancelled);
    browser.press(&format!("{page}/stop"), &[]).await;
    assert!(browser.page(&page).await.contains("over already"));
}

#[tokio::test]
async fn a_dry_pass_reports_and_changes_nothing() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let environment = stage.environment(&codebase, 1, "issue-1").await;
    assert_eq!(browser.press("/cleanup", &[("dry_run", "true")]).await, "/cleanup");
    let page = browser.page("/cleanup").await;
    assert!(page.contains("Nothing was changed.") && page.contains("dry run") && page.contains("issue-1"), "{page}");
    let kept = stage.store.load_environment(environment.id).await.unwrap().unwrap();
    assert_eq!(kept.state, EnvironmentState::Active);
}
