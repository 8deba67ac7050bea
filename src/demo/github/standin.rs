//! The handle by which tests and the demo start the stand-in, act on it as anybody and look at it.
//!
//! Repositories are named `owner/name`, people by login; an unknown login becomes a new user. Acting by this handle needs
//! no rights, but the same rules hold and the same events are sent as for the API.

mod people;
mod places;
mod threads;

pub use threads::OpenPull;

use super::{
    Hub,
    auth::{AppIdentity, Level},
    faults::Faults,
    git::Git,
    http::{self, RequestRecord},
    model::Actor,
    post::{self, DeliveryRecord, PostOffice, Receiver},
    refusal::Refusal,
    world::World,
};
use axum::serve::ListenerExt;
use secrecy::SecretString;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How a stand-in is set up.
#[derive(Clone, Debug)]
pub struct StandinOptions {
    /// Directory for the git repositories; made when missing.
    pub root: PathBuf,
    /// `127.0.0.1:0` picks a free port.
    pub listen: String,
    /// Address and secret of the App's webhook; without it no deliveries are made until `set_webhook`.
    pub webhook: Option<(String, SecretString)>,
    /// The App's slug, by which it is mentioned.
    pub slug: String,
    /// Login of the person in front of the pages.
    pub visitor: String,
    /// Nobody has the key of an App yet: one is registered from a manifest, and installed, on the pages.
    pub unregistered: bool,
}

impl StandinOptions {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            listen: "127.0.0.1:0".to_owned(),
            webhook: None,
            slug: "treewarden-demo".to_owned(),
            visitor: "visitor".to_owned(),
            unregistered: false,
        }
    }
}

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub enum StandinError {
    #[error("The stand-in cannot use {path} for its repositories: {source}")]
    Storage { path: PathBuf, source: std::io::Error },
    #[error("The stand-in cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("The stand-in could not prepare its App: {0}")]
    App(Refusal),
    #[error("The stand-in has no HTTP client for webhooks: {0}")]
    Client(reqwest::Error),
}

/// A running stand-in; clones are handles of the same one. It runs until `stop` (or the end of the runtime).
#[derive(Clone)]
pub struct Standin {
    hub: Arc<Hub>,
}

impl Standin {
    pub async fn start(options: StandinOptions) -> Result<Standin, StandinError> {
        let repositories = options.root.join("repositories");
        let storage = |source| StandinError::Storage { path: repositories.clone(), source };
        tokio::fs::create_dir_all(&repositories).await.map_err(storage)?;
        let root = tokio::fs::canonicalize(&repositories).await.map_err(storage)?;
        let unbound = |source| StandinError::Listen { address: options.listen.clone(), source };
        let listener = TcpListener::bind(&options.listen).await.map_err(unbound)?;
        let base = format!("http://{}", listener.local_addr().map_err(unbound)?);
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build();
        let client = client.map_err(StandinError::Client)?;
        let slug = options.slug.clone();
        let app = tokio::task::spawn_blocking(move || AppIdentity::generate(1001, 1002, &slug)).await;
        let app =
            app.map_err(|error| StandinError::App(Refusal::Git(error.to_string())))?.map_err(StandinError::App)?;

        let (mut post, orders) = PostOffice::new();
        post.receiver = options.webhook.map(|(url, secret)| Receiver { url, secret });
        let mut world = World::new(base, app, post);
        world.gives_itself = !options.unregistered;
        let visitor = world.ensure_account(&options.visitor);
        let hub = Arc::new(Hub {
            world: Mutex::new(world),
            git: Git::new(root),
            refs: tokio::sync::Mutex::new(()),
            faults: Faults::default(),
            requests: Mutex::default(),
            visitor,
            stop: CancellationToken::new(),
        });
        let (carrier, of_carrier) = (post::carry(hub.clone(), client, orders), hub.clone());
        tokio::spawn(async move {
            of_carrier.stop.run_until_cancelled(carrier).await;
            of_carrier.world().post.close();
        });
        // An answer of several parts does not wait for word of the first.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let server = axum::serve(listener, http::router(hub.clone()));
        let stop = hub.stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(server.into_future()).await });
        Ok(Standin { hub })
    }

    /// Stops listening and delivering.
    pub fn stop(&self) {
        self.hub.stop.cancel();
    }

    /// `http://127.0.0.1:<port>`: pages, git and OAuth.
    pub fn url(&self) -> String {
        self.hub.world().base.clone()
    }

    /// The same as `url`, under the name of the setting (`GITHUB_WEB_URL`).
    pub fn web_url(&self) -> String {
        self.url()
    }

    /// `…/api/v3`, as on a GitHub Enterprise Server (`GITHUB_API_URL`); GraphQL is at `…/api/graphql`.
    pub fn api_url(&self) -> String {
        self.hub.world().api()
    }

    pub fn app_id(&self) -> u64 {
        self.hub.world().app.id.unsigned_abs()
    }

    pub fn app_slug(&self) -> String {
        self.hub.world().app.slug.clone()
    }

    /// Login of the App's bot: `<slug>[bot]`.
    pub fn bot_login(&self) -> String {
        let world = self.hub.world();
        world.login(world.app.bot).to_owned()
    }

    /// Registers the App anew, with these permissions (like `("issues", "write")`) and events only.
    pub fn register(&self, permissions: &[(&str, &str)], events: &[&str]) {
        let mut world = self.hub.world();
        let known = permissions.iter().filter_map(|(area, level)| Some(((*area).to_owned(), Level::parse(level)?)));
        world.app.permissions = known.collect();
        world.app.events = events.iter().map(|event| (*event).to_owned()).collect();
    }

    /// Whether events are lost before anybody could hear of them.
    pub fn lose_events(&self, lost: bool) {
        self.hub.world().muted = lost;
    }

    /// The App's private key, PKCS #8.
    pub fn private_key_pem(&self) -> SecretString {
        self.hub.world().app.key.private_pem.as_str().into()
    }

    pub fn client_id(&self) -> String {
        self.hub.world().app.client_id.clone()
    }

    pub fn client_secret(&self) -> SecretString {
        self.hub.world().app.client_secret.clone().into()
    }

    /// Sends deliveries there from now on.
    pub fn set_webhook(&self, url: &str, secret: SecretString) {
        self.hub.world().post.receiver = Some(Receiver { url: url.to_owned(), secret });
    }

    pub fn faults(&self) -> &Faults {
        &self.hub.faults
    }

    /// The log of deliveries, oldest first.
    pub fn deliveries(&self) -> Vec<DeliveryRecord> {
        self.hub.world().post.log.values().cloned().collect()
    }

    /// Sends a delivery again, as the button on GitHub does; the new attempt has the same GUID.
    pub fn redeliver(&self, id: i64) -> Result<i64, Refusal> {
        let mut world = self.hub.world();
        let (again, now) = (world.new_id(), world.clock());
        if world.post.redeliver(id, again, now) { Ok(again) } else { Err(Refusal::missing(format!("delivery {id}"))) }
    }

    /// Waits until no delivery is on its way.
    pub async fn settled(&self) {
        let mut waiting = self.hub.world().post.waiting();
        // The sender lives as long as the hub, which `self` keeps.
        let _ = waiting.wait_for(|count| *count == 0).await;
    }

    /// Sends this body as a delivery of `event`, signed like any other: for events no action here makes.
    pub fn send_event(&self, event: &str, body: serde_json::Value) {
        let mut world = self.hub.world();
        let (installation, repository) = (body["installation"]["id"].as_i64(), body["repository"]["id"].as_i64());
        let action = body["action"].as_str().map(str::to_owned);
        world.dispatch(event, action.as_deref(), installation, repository, body);
    }

    /// Sends the `ping` GitHub sends when a webhook was set up.
    pub fn ping(&self) {
        self.hub.world().ping();
    }

    /// Requests that reached it, oldest first (the last 5000).
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.hub.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// GraphQL lists come in pages of at most this many from now on.
    pub fn limit_graphql_pages(&self, nodes: usize) {
        self.hub.world().graphql_page = nodes.max(1);
    }

    /// Ends all installation tokens now, as if their hour were over.
    pub fn expire_tokens(&self) {
        let mut world = self.hub.world();
        let now = world.clock();
        for grant in world.sessions.grants.values_mut() {
            grant.expires_at = grant.expires_at.min(now);
        }
    }

    /// Its clock is ahead of everybody else's by so many seconds from now on; behind, where they are negative.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.hub.world().ahead = chrono::TimeDelta::seconds(seconds);
    }

    /// How long installation tokens issued from now on live.
    pub fn set_token_lifetime(&self, lifetime: Duration) {
        self.hub.world().sessions.lifetime = chrono::TimeDelta::from_std(lifetime).ok();
    }

    fn repository_id(&self, full_name: &str) -> Result<i64, Refusal> {
        Ok(self.hub.world().repository_named(full_name)?.id)
    }

    fn person(&self, login: &str) -> Actor {
        let mut world = self.hub.world();
        let bot = world.bot();
        let account = world.ensure_account(login);
        if account == bot.account { bot } else { Actor::person(account) }
    }
}
