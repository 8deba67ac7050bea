//! The web room over real HTTP: real axum on a free port, real SQLite, real git, the stand-in for GitHub. No workers run,
//! so what a request stored stays as it was stored.

mod actions;
mod local;
mod login;
mod machines;
mod pages;
mod serve;
mod setup;
mod webhook;

use axum::Router;
use futures::FutureExt;
use reqwest::{Method, RequestBuilder, Response, header};
use secrecy::SecretString;
use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use treewarden::agent::Limits;
use treewarden::demo::github::{Standin, StandinOptions};
use treewarden::git::{Git, GitSettings};
use treewarden::github::{AppIdentity, Connection, Github, GithubSettings, Wire, signature};
use treewarden::isolation::WorktreeProvider;
use treewarden::model::*;
use treewarden::orchestrator::{Orchestrator, Parts, SetUp, SetUpParts, Settings, Workers};
use treewarden::platform::{GithubPlatform, LocalPlatform, Platforms};
use treewarden::store::{
    DeliveryEnd, NewCodebase, NewConversation, NewDelivery, NewEnvironment, NewOutgoing, NewRun, OutgoingEnd, Sealer,
    Sender, Store,
};
use treewarden::web::{LoginLinks, ServeLimits, WebParts, WebState, router, serve};

const REPO: &str = "octo/hello";
/// A redactor that meets this panics.
const UNSPEAKABLE: &str = "what no redactor survives";
/// Opens `/local/messages`.
const TOKEN: &str = "a token of the test";

/// A served panel with everything behind it.
struct Stage {
    dir: TempDir,
    standin: Standin,
    git: Git,
    store: Store,
    orchestrator: Orchestrator,
    links: LoginLinks,
    stopping: Arc<AtomicBool>,
    workers_healthy: Arc<AtomicBool>,
    close: CancellationToken,
    server: tokio::task::JoinHandle<()>,
    routes: Router,
    http: reqwest::Client,
    base: String,
    /// By how many seconds the panel's clock is ahead.
    ahead: Arc<AtomicU64>,
}

fn now() -> Timestamp {
    Timestamp::new(chrono::Utc::now())
}

fn secret() -> SecretString {
    SecretString::from("it is a secret")
}

impl Stage {
    async fn new() -> Self {
        Self::with_public_url("http://127.0.0.1:3000").await
    }

    async fn with_public_url(public_url: &str) -> Self {
        Self::with(public_url, ServeLimits::of_this_process()).await
    }

    async fn with(public_url: &str, limits: ServeLimits) -> Self {
        Self::build(public_url, limits, true).await
    }

    /// `connected`: there is an App; else it is set up from here.
    async fn build(public_url: &str, limits: ServeLimits, connected: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("home");
        std::fs::create_dir_all(&home).unwrap();
        let options = StandinOptions { unregistered: !connected, ..StandinOptions::new(dir.path().join("github")) };
        let standin = Standin::start(options).await.unwrap();
        let store = Store::open(&format!("sqlite://{}", home.join("treewarden.db").display())).await.unwrap();
        store.migrate().await.unwrap();
        let git = Git::new(GitSettings::new("git", home.join("git"))).unwrap();
        let wire = if connected { wire(&standin) } else { Wire::default() };
        let orchestrator = orchestrator(&home, &standin, &store, &git, wire);
        let (links, stopping) = (LoginLinks::default(), Arc::new(AtomicBool::new(false)));
        let workers_healthy = Arc::new(AtomicBool::new(true));
        let webhook_secret = Arc::new(if connected { OnceLock::from(secret()) } else { OnceLock::new() });
        let ahead = Arc::new(AtomicU64::new(0));
        let clock = {
            let ahead = ahead.clone();
            move || now().plus(Duration::from_secs(ahead.load(Ordering::Relaxed)))
        };
        let set_up = SetUp::new(SetUpParts {
            orchestrator: orchestrator.clone(),
            api_url: standin.api_url(),
            web_url: standin.web_url(),
            sealer: Arc::new(|| Ok(Sealer::new(&SecretString::from("thirty-two characters or more of it")))),
            redactor: treewarden::telemetry::Redactor::new([]),
            webhook_secret: webhook_secret.clone(),
            fetches: None,
        });
        let parts = WebParts {
            store: store.clone(),
            orchestrator: orchestrator.clone(),
            webhook_secret,
            local_token: Some(SecretString::from(TOKEN)),
            links: links.clone(),
            metrics: Box::new(|| "treewarden_up 1\n".to_owned()),
            workers_healthy: workers_healthy.clone(),
            stopping: stopping.clone(),
            set_up,
            clock: Arc::new(clock),
            public_url: public_url.to_owned(),
            web_url: standin.web_url(),
            environment_limit: 25,
            run_time_limit: std::time::Duration::from_secs(3600),
            port: 3000,
        };
        let routes = router(WebState { inner: Arc::new(parts) });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let close = CancellationToken::new();
        let server = tokio::spawn(serve(listener, routes.clone(), limits, close.clone()));
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self {
            dir,
            standin,
            git,
            store,
            orchestrator,
            links,
            stopping,
            workers_healthy,
            close,
            server,
            routes,
            http,
            base,
            ahead,
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// As a browser asks for a page.
    fn browse(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path).header(header::ACCEPT, "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
    }

    /// A delivery as GitHub sends it, signed.
    fn delivery(&self, guid: &str, event: &str, body: &[u8]) -> RequestBuilder {
        self.request(Method::POST, "/webhooks/github")
            .header(header::CONTENT_TYPE, "application/json")
            .header("X-GitHub-Delivery", guid)
            .header("X-GitHub-Event", event)
            .header("X-Hub-Signature-256", signature::sign(&secret(), body))
            .body(body.to_owned())
    }

    /// Signs a browser in.
    async fn sign_in(&self) -> Browser<'_> {
        let token = self.token();
        let answer = self.request(Method::POST, "/login/one-time").form(&[("token", token)]).send().await.unwrap();
        assert_eq!(answer.status(), 303);
        assert_eq!(answer.headers()[header::LOCATION], "/");
        let cookie = cookie_of(&answer).expect("a session cookie");
        Browser { stage: self, cookie }
    }

    fn token(&self) -> String {
        let path = self.links.issue(now());
        path.strip_prefix("/login/one-time?token=").unwrap().to_owned()
    }

    async fn codebase(&self, name: &str, github_id: i64) -> Codebase {
        let new = NewCodebase {
            github_id: RepositoryId(github_id),
            installation: InstallationId(self.standin.installation_id(REPO).unwrap_or(1)),
            name: name.parse().unwrap(),
            default_branch: Some(branch("main")),
            reached: true,
        };
        self.store.upsert_codebase(new, now()).await.unwrap()
    }

    async fn conversation(&self, codebase: &Codebase, number: i64, title: &str) -> Conversation {
        let new = NewConversation {
            platform: PlatformKind::Github,
            codebase: codebase.id,
            kind: ThreadKind::Issue,
            number: ThreadNumber(number),
            title: title.to_owned(),
            state: ThreadState::Open,
        };
        self.store.upsert_conversation(new, now()).await.unwrap()
    }

    /// A row of an active environment for an issue.
    async fn environment(&self, codebase: &Codebase, number: i64, on: &str) -> Environment {
        let new = NewEnvironment {
            codebase: codebase.id,
            work: Work { kind: WorkKind::Issue, id: number.to_string() },
            branch: branch(on),
            path: self.worktrees().join(codebase.name.owner()).join(codebase.name.name()).join(branch(on).slug()),
            base: Some(branch("main")),
            provider: "worktree".to_owned(),
            metadata: EnvironmentMetadata::default(),
        };
        let inserted = self.store.insert_environment(new, 1000, now()).await.unwrap();
        let treewarden::store::Inserted::Created(mut environment) = inserted else { panic!("{inserted:?}") };
        environment.state = EnvironmentState::Active;
        self.store.update_environment(&environment).await.unwrap()
    }

    fn worktrees(&self) -> std::path::PathBuf {
        self.dir.path().canonicalize().unwrap().join("home/worktrees")
    }

    /// A queued run.
    async fn run(&self, codebase: &Codebase, conversation: &Conversation, text: &str) -> Run {
        let guid = uuid::Uuid::new_v4().to_string();
        let delivery = NewDelivery {
            guid: guid.clone(),
            event: "issue_comment".to_owned(),
            conversation_key: None,
            out_of_turn: false,
            body: b"{}".to_vec(),
            body_key: guid,
            ignored_because: None,
            at: now(),
        };
        let accepted = self.store.inbox_writer().accept(delivery).await.unwrap();
        let treewarden::store::Accepted::New(delivery) = accepted else { panic!("{accepted:?}") };
        let request = RunRequest {
            requester: Person { id: UserId(7), login: "ann".to_owned(), is_bot: false },
            text: text.to_owned(),
            source: MessageSource::IssueComment { id: CommentId(1) },
            url: "javascript:alert(1)".to_owned(),
            written_at: None,
            review: None,
        };
        let new = NewRun { codebase: codebase.id, conversation: conversation.id, delivery, request };
        self.store.insert_run(new, now()).await.unwrap()
    }
}

/// Somebody signed in.
struct Browser<'a> {
    stage: &'a Stage,
    cookie: String,
}

impl Browser<'_> {
    async fn get(&self, path: &str) -> Response {
        self.stage.browse(path).header(header::COOKIE, &self.cookie).send().await.unwrap()
    }

    /// The text of a page that has to be there.
    async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status(), 200, "{path}");
        answer.text().await.unwrap()
    }

    /// Presses a button of the page at `from`, and answers with where that led.
    async fn press(&self, path: &str, form: &[(&str, &str)]) -> String {
        let request = self.stage.request(Method::POST, path).header(header::COOKIE, &self.cookie);
        let request = request.header(header::ORIGIN, &self.stage.base).header("Sec-Fetch-Site", "same-origin");
        let answer = request.form(form).send().await.unwrap();
        assert_eq!(answer.status(), 303, "{path}");
        answer.headers()[header::LOCATION].to_str().unwrap().to_owned()
    }
}

/// `name=value` of the session cookie an answer sets.
fn cookie_of(answer: &Response) -> Option<String> {
    let cookie = answer.headers().get(header::SET_COOKIE)?.to_str().unwrap();
    Some(cookie.split(';').next().unwrap().to_owned())
}

fn branch(name: &str) -> BranchName {
    BranchName::new(name).unwrap()
}

async fn json(answer: Response) -> serde_json::Value {
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
    answer.json().await.unwrap()
}

fn examination() -> Examination {
    let check = |what, fine, seen: &str, mend: Option<&str>| {
        let (seen, mend) = (seen.to_owned(), mend.map(str::to_owned));
        Check { what, fine, seen, mend, account: None }
    };
    let checks = vec![
        check("home", true, "/srv/tw is ours alone", None),
        check("git", true, "git 2.39.5 <b>", None),
        check("agent", false, "`x` is not there", Some("apt install x")),
        check("github", false, "the App is installed nowhere", Some("https://ghe.example/apps/tw")),
    ];
    Examination { at: now(), checks }
}

fn wire(standin: &Standin) -> Wire {
    let github = Github::new(&GithubSettings {
        app_id: standin.app_id(),
        private_key_pem: standin.private_key_pem(),
        api_url: standin.api_url(),
        web_url: standin.web_url(),
        timeout: None,
    })
    .unwrap();
    let bot = Person { id: UserId(1), login: standin.bot_login(), is_bot: true };
    let (app_id, slug) = (standin.app_id(), standin.app_slug());
    let identity = AppIdentity { app_id, name: slug.clone(), slug, bot };
    Wire::connected(Connection { github, identity, fetches: false })
}

fn orchestrator(home: &std::path::Path, standin: &Standin, store: &Store, git: &Git, wire: Wire) -> Orchestrator {
    let worktree_base = home.join("worktrees");
    Orchestrator::new(Parts {
        settings: Settings {
            home: home.to_owned(),
            worktree_base: worktree_base.clone(),
            public_url: String::new(),
            web_url: standin.web_url(),
            environment_limit: 25,
            authority: Default::default(),
            offline_create: false,
            run_limit: 4,
            trash_for: Duration::from_secs(30 * 86_400),
            stale_after: Duration::from_secs(14 * 86_400),
            sweep_interval: Duration::from_secs(6 * 3600),
            retain_for: Duration::from_secs(90 * 86_400),
            disk_marks: Default::default(),
            reclaim_after: None,
            agent_limits: Limits::default(),
            node: "test".to_owned(),
            lease: Duration::from_secs(60),
            pacing: Pacing::default(),
        },
        store: store.clone(),
        inbox: store.inbox_writer(),
        git: git.clone(),
        platform: Arc::new(Platforms {
            github: GithubPlatform::new(wire.clone()),
            local: LocalPlatform::new(store.clone(), Arc::new(now)),
        }),
        provider: Arc::new(WorktreeProvider::new(&worktree_base, &home.join("trash")).unwrap()),
        wire,
        agent: None,
        clock: Arc::new(now),
        examine: Arc::new(|| futures::future::ready(examination()).boxed()),
        redact: Arc::new(|text| {
            assert!(!text.contains(UNSPEAKABLE));
            treewarden::telemetry::Redactor::new([]).redact(text)
        }),
    })
}
