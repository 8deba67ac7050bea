//! Registering the App from a manifest, and handing its secrets over for a code, once and within an hour.
//!
//! https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest

use crate::demo::github::{
    auth::{AppIdentity, AppKey, EVENTS, Level, random_text},
    model::{Account, AccountKind, Moment},
    post::Receiver,
    refusal::Refusal,
    world::World,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// GitHub's limit, in characters.
const LONGEST_NAME: usize = 34;
const CODE_LIVES: chrono::TimeDelta = chrono::TimeDelta::hours(1);

/// What a browser brings; GitHub's documentation lists the parameters, and others are refused here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::demo::github) struct Manifest {
    #[serde(default)]
    pub name: String,
    url: String,
    hook_attributes: Option<Hook>,
    pub redirect_url: String,
    #[serde(default)]
    callback_urls: Vec<String>,
    setup_url: Option<String>,
    #[serde(default, rename = "description")]
    _description: String,
    #[serde(default)]
    public: bool,
    #[serde(default)]
    default_events: BTreeSet<String>,
    #[serde(default)]
    default_permissions: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hook {
    url: String,
    active: Option<bool>,
}

/// A code that was handed out, and what it is good for.
pub(in crate::demo::github) struct Pending {
    pub app: i64,
    pub expires_at: Moment,
}

impl Manifest {
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let manifest: Self = serde_json::from_str(text)
            .map_err(|error| Refusal::invalid(format!("The manifest is invalid: {error}")))?;
        manifest.check().map(|()| manifest)
    }

    fn check(&self) -> Result<(), Refusal> {
        let addresses = [&self.url, &self.redirect_url].into_iter();
        let addresses = addresses.chain(self.hook_attributes.iter().map(|hook| &hook.url));
        let addresses = addresses.chain(&self.callback_urls).chain(&self.setup_url);
        for address in addresses {
            match reqwest::Url::parse(address) {
                Ok(url) if matches!(url.scheme(), "http" | "https") => {}
                Ok(_) | Err(_) => return Err(Refusal::invalid(format!("{address} must be a valid URL"))),
            }
        }
        for event in &self.default_events {
            let areas =
                areas_of(event).ok_or_else(|| Refusal::invalid(format!("Default events unsupported: {event}")))?;
            if !areas.iter().any(|area| self.default_permissions.contains_key(*area)) {
                let message = format!("Default events are not supported by permissions: {event}");
                return Err(Refusal::invalid(message));
            }
        }
        match self.default_permissions.iter().find(|(_, level)| Level::parse(level).is_none()) {
            Some((area, level)) => Err(Refusal::invalid(format!("Default permission {area}: {level} is not valid"))),
            None => Ok(()),
        }
    }
}

/// The permissions one of which an App needs to hear of an event; none for those that nobody asks for.
fn areas_of(event: &str) -> Option<&'static [&'static str]> {
    let areas: &[&str] = match event {
        "check_run" => &["checks"],
        "issue_comment" => &["issues", "pull_requests"],
        "issues" => &["issues"],
        "pull_request" | "pull_request_review" | "pull_request_review_comment" => &["pull_requests"],
        "push" => &["contents"],
        "repository" => &["metadata"],
        _ => return None,
    };
    EVENTS.contains(&event).then_some(areas)
}

impl World {
    /// The App of this manifest takes the place of the one that was there, and is installed nowhere. Answers with the code for
    /// its secrets.
    pub fn register_app(
        &mut self,
        owner: i64,
        name: &str,
        manifest: &Manifest,
        key: Arc<AppKey>,
    ) -> Result<String, Refusal> {
        let name = name.trim();
        let slug: String =
            name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        if name.is_empty() || name.chars().count() > LONGEST_NAME {
            return Err(Refusal::invalid("Name is too long (maximum is 34 characters)"));
        }
        if self.find_account(&format!("{slug}[bot]")).is_some() || self.find_account(&slug).is_some() {
            return Err(Refusal::invalid("Name is already taken"));
        }
        let (id, bot) = (self.new_id(), self.new_id());
        self.accounts.insert(bot, Account { id: bot, login: format!("{slug}[bot]"), kind: AccountKind::Bot });
        let levels = manifest.default_permissions.iter();
        let webhook_secret = random_text();
        self.app = AppIdentity {
            id,
            slug,
            name: name.to_owned(),
            bot,
            client_id: format!("Iv23{}", &random_text()[..16]),
            client_secret: random_text(),
            permissions: levels.filter_map(|(area, level)| Some((area.clone(), Level::parse(level)?))).collect(),
            events: manifest.default_events.clone(),
            key,
            owner: Some(owner),
            public: manifest.public,
            setup_url: manifest.setup_url.clone(),
            webhook_secret: Some(webhook_secret.clone()),
        };
        self.installations.clear();
        self.sessions.grants.clear();
        let hook = manifest.hook_attributes.as_ref().filter(|hook| hook.active.unwrap_or(true));
        self.post.receiver = hook.map(|hook| Receiver { url: hook.url.clone(), secret: webhook_secret.into() });
        self.ping();
        let code = random_text()[..40].to_owned();
        let expires_at = self.now() + CODE_LIVES;
        self.pending.insert(code.clone(), Pending { app: id, expires_at });
        Ok(code)
    }

    /// Sends what GitHub sends when a webhook is set up.
    pub fn ping(&mut self) {
        let app = self.app.id;
        let hook = json!({ "type": "App", "id": app, "app_id": app, "active": true });
        let body = json!({ "zen": "Keep it logically awesome.", "hook_id": app, "hook": hook });
        self.dispatch("ping", None, None, None, body);
    }

    /// The App with its secrets, for whoever has the code.
    pub fn convert(&mut self, code: &str) -> Result<Value, Refusal> {
        let now = self.now();
        let pending = self.pending.remove(code).filter(|pending| pending.expires_at > now);
        pending.filter(|pending| pending.app == self.app.id).ok_or_else(|| Refusal::missing("conversion"))?;
        let mut body = self.app_json();
        body["client_secret"] = json!(self.app.client_secret);
        body["webhook_secret"] = json!(self.app.webhook_secret);
        body["pem"] = json!(self.app.key.private_pem);
        Ok(body)
    }
}
