//! From an empty home to an App that answers, with a browser and nothing else; and what a crash on the way leaves.

use super::*;
use crate::support::browser::{Browser, Page};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};
use treewarden::demo::github::Fault;

/// A home that is not there yet, and a GitHub on which there is no App.
struct Beginning {
    dir: TempDir,
    standin: Standin,
}

/// A service that was just started.
struct Started {
    serving: Serving,
    /// Whatever it printed until the link.
    said: String,
    link: String,
    /// What it logs.
    log: PathBuf,
}

impl Beginning {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = StandinOptions::new(dir.path().join("github"));
        options.visitor = "octo".to_owned();
        options.unregistered = true;
        let standin = Standin::start(options).await.unwrap();
        standin.create_repository(REPO, &[("README.md", "# hello\n")]).await.unwrap();
        standin.set_permission(REPO, ANN, Permission::Write).unwrap();
        Self { dir, standin }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn command(&self, arguments: &[&str], listen: &str) -> Command {
        let mut command = treewarden(arguments, &self.home());
        command.env("TREEWARDEN_LISTEN", listen).env("TREEWARDEN_SANDBOX", "off").env("TREEWARDEN_LOG", "debug");
        command.env("TREEWARDEN_AGENT_COMMAND", format!("'{PROGRAM}' demo-agent"));
        command.env("GITHUB_API_URL", self.standin.api_url()).env("GITHUB_WEB_URL", self.standin.web_url());
        command
    }

    async fn start(&self, listen: &str) -> Started {
        let mut command = self.command(&["serve"], listen);
        let log = self.dir.path().join("log");
        let errors = fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut process = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (mut said, mut url) = (String::new(), None);
        let link = loop {
            let line = timeout(PATIENCE, lines.next_line()).await.expect("it does not start").unwrap();
            let line = line.unwrap_or_else(|| panic!("it ended: {}", fs::read_to_string(&log).unwrap()));
            said.push_str(&format!("{line}\n"));
            url = url.or_else(|| line.strip_prefix("Treewarden listens on ").map(str::to_owned));
            if let Some((_, link)) = line.split_once("good for an hour): ") {
                break link.to_owned();
            }
        };
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Started { serving: Serving { process, url: url.unwrap() }, said, link, log }
    }

    async fn store(&self) -> Store {
        Store::open(&format!("sqlite://{}", self.home().join("treewarden.db").display())).await.unwrap()
    }

    /// Ann mentions the App, and is answered by an agent's work.
    async fn is_answered(&self, nth: usize) {
        let issue = self.standin.open_issue(REPO, ANN, "Greet people", "We should.").unwrap();
        let words = format!("@{} add a greeting", self.standin.app_slug());
        self.standin.comment(REPO, ANN, issue, &words).unwrap();
        until_succeeded(&self.store().await, nth).await;
        let comments = self.standin.comments(REPO, issue).unwrap();
        let own: Vec<&str> = comments.iter().filter(|comment| comment.via_app).map(|comment| &*comment.body).collect();
        assert!(own.len() == 1 && own[0].starts_with('✅'), "{own:?}");
    }
}

impl Started {
    /// By the printed link, up to the page that sends to GitHub.
    async fn enter(&self, browser: &mut Browser) -> Page {
        let page = browser.open(&self.link).await;
        let page = browser.press(&page, "Open the panel", &[]).await;
        assert!(page.url.path() == "/setup" && page.text.contains("Connect GitHub"), "{}", page.text);
        page
    }

    /// Both buttons; answers with where GitHub leads back to.
    async fn make_app(&self, browser: &mut Browser, organization: &str) -> Page {
        let page = self.enter(browser).await;
        let page =
            browser.press(&page, "Go on to GitHub", &[("organization", organization), ("name", "our bot")]).await;
        let page = browser.press(&page, "Create the App on GitHub", &[]).await;
        assert_eq!(page.status, 200, "{}", page.text);
        browser.press(&page, "Create GitHub App", &[]).await
    }

    async fn kill(mut self) {
        self.serving.signal(Signal::KILL);
        timeout(PATIENCE, self.serving.process.wait()).await.expect("it does not die").unwrap();
    }

    fn address(&self) -> String {
        self.serving.url.strip_prefix("http://").unwrap().to_owned()
    }
}

async fn from_nothing_to_the_first_answer(organization: &str) {
    let beginning = Beginning::new().await;
    if !organization.is_empty() {
        beginning.standin.make_organization(organization);
    }
    let (started, mut browser) = (beginning.start("127.0.0.1:0").await, Browser::new());
    assert!(started.said.contains("No GitHub App is connected yet"), "{}", started.said);
    assert_eq!(started.serving.get("/webhooks/github").await.0, 404, "nobody can deliver yet");
    // Its ping could be here before the page is.
    beginning.standin.lose_events(true);
    let page = started.make_app(&mut browser, organization).await;
    assert_eq!((page.url.path(), page.url.query()), ("/setup", None), "{}", page.text);
    assert!(page.text.contains("@our-bot is connected"), "{}", page.text);
    for words in ["is installed nowhere", "every permission that it needs", "nothing has come from GitHub yet"] {
        assert!(page.text.contains(words), "{words} in {}", page.text);
    }
    beginning.standin.lose_events(false);
    let install = format!("{}/github-apps/our-bot/installations/new", beginning.standin.web_url());
    assert!(page.text.contains(&install), "{}", page.text);
    let page = browser.open(&install).await;
    let page = browser.press(&page, "Install", &[]).await;
    assert!(page.url.path() == "/setup" && page.text.contains("is connected"), "{}", page.text);
    beginning.is_answered(1).await;
    let page = browser.open(&format!("{}/setup", started.serving.url)).await;
    assert!(page.text.contains("deliveries come in") && !page.text.contains("nothing has come"), "{}", page.text);

    // Nothing secret lies about: not in the database, not in the log, and the key is nobody else's.
    let app = beginning.standin.private_key_pem();
    let line = app.expose_secret().lines().nth(3).unwrap().to_owned();
    let secrets = [line, beginning.standin.client_secret().expose_secret().to_owned()];
    for name in ["home/treewarden.db", "home/treewarden.db-wal", "log"] {
        let bytes = fs::read(beginning.dir.path().join(name)).unwrap();
        for secret in &secrets {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "a secret in {name}");
        }
    }
    let key = beginning.home().join("secret.key");
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);

    let address = started.address();
    started.kill().await;
    let started = beginning.start(&address).await;
    assert!(started.said.contains("GitHub delivers to"), "{}", started.said);
    beginning.is_answered(2).await;
    let mut browser = Browser::new();
    let page = browser.open(&started.link).await;
    browser.press(&page, "Open the panel", &[]).await;
    same_findings(&beginning, &address, &browser.open(&format!("{}/doctor", started.serving.url)).await).await;
    started.serving.stop().await;
    let log = fs::read_to_string(&started.log).unwrap();
    assert!(!log.contains(" ERROR "), "{log}");
}

/// The panel's doctor says what the one of the command line says.
async fn same_findings(beginning: &Beginning, address: &str, page: &Page) {
    let output = output_of(beginning.command(&["doctor", "--json"], address)).await;
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let shown = page.text.replace("<code>", "").replace("</code>", "");
    let text = |finding: &serde_json::Value, field: &str| finding[field].as_str().unwrap_or_default().replace('`', "");
    for finding in &findings {
        let line = format!("<strong>{}</strong>: {}", text(finding, "what"), text(finding, "seen"));
        let line = line.replace('\'', "&#39;").replace('"', "&#34;");
        assert!(shown.contains(&line), "{line} in {shown}");
        assert_eq!(finding["fine"], true, "{finding}");
    }
    assert_eq!(shown.matches("<strong>").count(), findings.len(), "{shown}");
    for (what, seen) in
        [("git", "octo/hello is read with a token of its own"), ("deliveries", "what GitHub tells comes in")]
    {
        assert!(findings.iter().any(|one| one["what"] == what && one["seen"] == seen), "{seen} in {findings:?}");
    }
}

#[tokio::test]
async fn from_nothing_to_the_first_answer_of_a_persons_app() {
    from_nothing_to_the_first_answer("").await;
}

#[tokio::test]
async fn from_nothing_to_the_first_answer_of_an_organizations_app() {
    from_nothing_to_the_first_answer("octo").await;
}

/// On a machine that GitHub does not reach.
#[tokio::test]
async fn from_nothing_to_the_first_answer_without_an_inbound_port() {
    let beginning = Beginning::new().await;
    let (started, mut browser) = (beginning.start("127.0.0.1:0").await, Browser::new());
    let page = started.enter(&mut browser).await;
    let wish = [("name", "our bot"), ("webhook", ""), ("fetch", "on")];
    let page = browser.press(&page, "Go on to GitHub", &wish).await;
    let page = browser.press(&page, "Create the App on GitHub", &[]).await;
    let page = browser.press(&page, "Create GitHub App", &[]).await;
    for words in ["@our-bot is connected", "GitHub is asked for deliveries every ten seconds"] {
        assert!(page.text.contains(words), "{words} in {}", page.text);
    }
    let page = browser.open(&format!("{}/github-apps/our-bot/installations/new", beginning.standin.web_url())).await;
    browser.press(&page, "Install", &[]).await;
    beginning.is_answered(1).await;
    assert_eq!(started.serving.get("/webhooks/github").await.0, 404, "nobody can deliver");

    let address = started.address();
    started.kill().await;
    let started = beginning.start(&address).await;
    assert!(started.said.contains("GitHub is asked for deliveries every ten seconds"), "{}", started.said);
    beginning.is_answered(2).await;
    started.serving.stop().await;
}

/// Killed while GitHub hands over the secrets: there is an App that nobody has the key of, and the set-up is as it was.
#[tokio::test]
async fn a_crash_before_the_app_is_stored_leaves_the_set_up_open() {
    let beginning = Beginning::new().await;
    let started = beginning.start("127.0.0.1:0").await;
    let mut held = beginning.standin.faults().hold("POST", "/app-manifests/");
    let mut browser = Browser::new();
    let page = started.enter(&mut browser).await;
    let page = browser.press(&page, "Go on to GitHub", &[("name", "first bot")]).await;
    let page = browser.press(&page, "Create the App on GitHub", &[]).await;
    let agreed = tokio::spawn(async move {
        tokio::time::timeout(PATIENCE, browser.press(&page, "Create GitHub App", &[])).await.map(drop)
    });
    timeout(PATIENCE, held.arrived()).await.expect("GitHub is not asked");
    let address = started.address();
    started.kill().await;
    drop(held);
    // Its service is gone.
    assert!(agreed.await.is_err());

    let started = beginning.start(&address).await;
    let page = started.make_app(&mut Browser::new(), "").await;
    assert!(page.text.contains("@our-bot is connected"), "{}", page.text);
    started.serving.stop().await;
}

/// Killed while GitHub is asked who the App is: its secrets are here, and the next start goes by them.
#[tokio::test]
async fn a_crash_after_the_app_is_stored_loses_nothing() {
    let beginning = Beginning::new().await;
    let started = beginning.start("127.0.0.1:0").await;
    let mut held = beginning.standin.faults().hold("GET", "/app");
    let mut browser = Browser::new();
    let page = started.enter(&mut browser).await;
    let page = browser.press(&page, "Go on to GitHub", &[("name", "our bot")]).await;
    let page = browser.press(&page, "Create the App on GitHub", &[]).await;
    let agreed = tokio::spawn(async move { browser.press(&page, "Create GitHub App", &[]).await.status });
    timeout(PATIENCE, held.arrived()).await.expect("GitHub is not asked");
    let address = started.address();
    started.kill().await;
    drop(held);
    assert!(agreed.await.is_err());

    let started = beginning.start(&address).await;
    assert!(started.said.contains("GitHub delivers to"), "{}", started.said);
    let mut browser = Browser::new();
    let page = browser.open(&started.link).await;
    let page = browser.press(&page, "Open the panel", &[]).await;
    assert_eq!(page.url.path(), "/", "there is nothing left to be set up");
    let page = browser.open(&format!("{}/github-apps/our-bot/installations/new", beginning.standin.web_url())).await;
    browser.press(&page, "Install", &[]).await;
    beginning.is_answered(1).await;
    started.serving.stop().await;
}

/// The secrets are safe by then, so that it only takes longer.
#[tokio::test]
async fn a_github_that_stumbles_is_asked_again_who_the_app_is() {
    let beginning = Beginning::new().await;
    let started = beginning.start("127.0.0.1:0").await;
    beginning.standin.faults().inject(Some("POST"), "/app-manifests/", 2, Fault::Status(502));
    beginning.standin.faults().inject(Some("GET"), "/app", 4, Fault::Status(503));
    let mut browser = Browser::new();
    started.make_app(&mut browser, "").await;
    let connected = async {
        while !browser.open(&format!("{}/setup", started.serving.url)).await.text.contains("@our-bot is connected") {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    timeout(PATIENCE, connected).await.expect("it is not connected");
    assert_eq!(beginning.standin.faults().left(), 0);
    started.serving.stop().await;
}
