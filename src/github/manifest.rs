//! Registering an App from a manifest: what is sent to GitHub, where, and what comes back once somebody has agreed there.
//!
//! `app-manifest.yml` is the one source of permissions and events; only addresses and the name are added. Source:
//! "Registering a GitHub App from a manifest" and "Create a GitHub App from a manifest" of GitHub's documentation.

use super::client::as_stranger;
use super::error::GithubError;
use crate::model::is_loopback_host;
use reqwest::Url;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::LazyLock};

/// GitHub's limit, in characters. Source: "Registering a GitHub App".
const LONGEST_NAME: usize = 34;
const LONGEST_LOGIN: usize = 39;
/// Where nobody listens: no name below `invalid` ever leads anywhere. Source: RFC 6761.
pub const NOBODY: &str = "https://treewarden.invalid/webhooks/github";
/// Where the service takes deliveries.
const DOOR: &str = "/webhooks/github";
/// More than any code has.
const LONGEST_CODE: usize = 100;

/// What the file says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    description: String,
    public: bool,
    default_permissions: BTreeMap<String, String>,
    default_events: Vec<String>,
}

static WRITTEN: LazyLock<Written> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../../app-manifest.yml")).expect("the file of this program is well-formed")
});

/// What is sent. GitHub's documentation lists the parameters.
#[derive(Serialize)]
struct Manifest<'a> {
    name: &'a str,
    description: &'a str,
    public: bool,
    url: &'a str,
    hook_attributes: Hook<'a>,
    redirect_url: String,
    callback_urls: [String; 1],
    setup_url: String,
    default_permissions: &'a BTreeMap<String, String>,
    default_events: &'a [String],
}

#[derive(Serialize)]
struct Hook<'a> {
    url: &'a str,
    active: bool,
}

/// Where an App's owner, its visitors and GitHub find the service.
#[derive(Clone, Copy, Debug)]
pub struct Addresses<'a> {
    pub webhook: &'a WebhookUrl,
    /// As the browser of whoever sets it up reaches the panel, without a trailing slash.
    pub browser: &'a str,
    /// As everybody's does, without a trailing slash.
    pub public: &'a str,
}

/// The manifest as GitHub takes it, as JSON.
pub fn manifest(name: &AppName, at: Addresses<'_>) -> String {
    let Written { name: _, description, public, default_permissions, default_events } = &*WRITTEN;
    let manifest = Manifest {
        name: &name.0,
        description,
        public: *public,
        url: if at.webhook.is_nobodys() { at.public } else { &at.webhook.origin },
        hook_attributes: Hook { url: &at.webhook.url, active: true },
        redirect_url: format!("{}/setup/callback", at.browser),
        callback_urls: [format!("{}/auth/github/callback", at.public)],
        setup_url: format!("{}/setup", at.browser),
        default_permissions,
        default_events,
    };
    serde_json::to_string(&manifest).expect("plain data")
}

/// The name that is proposed for an App.
pub fn proposed_name() -> &'static str {
    &WRITTEN.name
}

/// Whose the App is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Whoever is signed in to GitHub.
    Person,
    Organization(Organization),
}

/// The page of GitHub that takes the manifest.
pub fn registration_page(web_url: &str, owner: &Owner, state: &str) -> String {
    let of = match owner {
        Owner::Person => String::new(),
        Owner::Organization(organization) => format!("/organizations/{}", organization.0),
    };
    format!("{web_url}{of}/settings/apps/new?state={state}")
}

/// The page on which an App is installed.
pub fn installation_page(web_url: &str, slug: &str) -> String {
    let apps = if web_url == "https://github.com" { "apps" } else { "github-apps" };
    format!("{web_url}/{apps}/{slug}/installations/new")
}

/// What was expected instead, fit to be shown to whoever typed it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(&'static str);

/// What an App is called; GitHub makes the name it is mentioned by from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppName(String);

impl AppName {
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        let text = text.trim();
        let fits = !text.is_empty() && text.chars().count() <= LONGEST_NAME && !text.chars().any(char::is_control);
        fits.then(|| Self(text.to_owned())).ok_or(Unfit("A name has 1 to 34 characters."))
    }
}

/// The login of an organization, fit to stand in an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Organization(String);

impl Organization {
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        let text = text.trim();
        // Enterprises with users of their own put a short name behind an underscore.
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        let fits = plain && !text.is_empty() && text.len() <= LONGEST_LOGIN && !text.starts_with('-');
        fits.then(|| Self(text.to_owned())).ok_or(Unfit(
            "The organization is named as in its address on GitHub: letters, digits and hyphens, without the @.",
        ))
    }
}

/// Where GitHub is to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookUrl {
    url: String,
    /// Scheme, host and port of it.
    origin: String,
}

impl WebhookUrl {
    /// Of a service that GitHub does not reach.
    pub fn nobodys() -> Self {
        Self { url: NOBODY.to_owned(), origin: String::new() }
    }

    fn is_nobodys(&self) -> bool {
        self.url == NOBODY
    }

    /// HTTPS; plain HTTP, or this very machine, only where GitHub is a stand-in on it.
    pub fn parse(text: &str, web_url: &str) -> Result<Self, Unfit> {
        const EXPECTED: Unfit = Unfit(
            "GitHub delivers to an address that it reaches over HTTPS, like https://treewarden.example.org/webhooks/github. Where this \
             machine has none, tick that GitHub does not reach it.",
        );
        let mut url = Url::parse(text.trim()).map_err(|_| EXPECTED)?;
        // Of a name alone, this is what is meant: the service listens nowhere else.
        if url.path() == "/" {
            url.set_path(DOOR);
        }
        let here = |url: &Url| url.host_str().is_some_and(is_loopback_host);
        let beside = Url::parse(web_url).is_ok_and(|github| here(&github));
        let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let reached = url.scheme() == "https" && !here(&url) || beside && url.scheme() == "http";
        match bare && reached && url.host_str().is_some() {
            true => Ok(Self { origin: url.origin().ascii_serialization(), url: url.into() }),
            false => Err(EXPECTED),
        }
    }
}

/// What GitHub gives the browser for an App that somebody has agreed to; good for an hour, and once.
#[derive(Clone)]
pub struct ConversionCode(String);

impl ConversionCode {
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        (plain && (1..=LONGEST_CODE).contains(&text.len())).then(|| Self(text.to_owned()))
    }
}

/// Whoever has it gets the App's key.
impl fmt::Debug for ConversionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConversionCode")
    }
}

/// An App that was just registered.
#[derive(Clone, Debug)]
pub struct NewApp {
    pub app_id: u64,
    pub slug: String,
    pub client_id: String,
    /// PEM.
    pub private_key: SecretString,
    pub webhook_secret: SecretString,
    pub client_secret: SecretString,
}

#[derive(Deserialize)]
struct Converted {
    id: u64,
    slug: String,
    client_id: String,
    client_secret: SecretString,
    /// Absent where the manifest names no webhook.
    webhook_secret: Option<SecretString>,
    pem: SecretString,
}

/// Asks GitHub for the App of this code, which is used up by a success.
pub async fn convert(api_url: &str, code: &ConversionCode) -> Result<NewApp, GithubError> {
    let answer = as_stranger(api_url, &format!("/app-manifests/{}/conversions", code.0)).await;
    let answer = answer.map_err(|error| match error {
        // The address has the code in it.
        GithubError::NotFound(_) => GithubError::Invalid("its code is good once, and for an hour".to_owned()),
        error => error,
    })?;
    // What is secret in it is not quoted.
    let not_understood = |_| GithubError::BadAnswer("it does not tell of an App".to_owned());
    let converted: Converted = serde_json::from_str(&answer.body).map_err(not_understood)?;
    let Converted { id, slug, client_id, client_secret, webhook_secret, pem } = converted;
    let webhook_secret =
        webhook_secret.ok_or_else(|| GithubError::BadAnswer("the App has no webhook secret".to_owned()))?;
    if slug.is_empty() {
        return Err(GithubError::BadAnswer("the App has no slug".to_owned()));
    }
    Ok(NewApp { app_id: id, slug, client_id, private_key: pem, webhook_secret, client_secret })
}

#[cfg(test)]
mod tests {
    use super::super::{payload::ASKED_FOR, registration::NEEDED};
    use super::*;

    /// Parameters of "Registering a GitHub App from a manifest", with whether they have to be there.
    const DOCUMENTED: [(&str, bool); 13] = [
        ("name", false),
        ("url", true),
        ("hook_attributes", false),
        ("redirect_url", false),
        ("callback_urls", false),
        ("setup_url", false),
        ("description", false),
        ("public", false),
        ("default_events", false),
        ("default_permissions", false),
        ("request_oauth_on_install", false),
        ("setup_on_update", false),
        ("expire_user_tokens", false),
    ];

    fn sent() -> serde_json::Value {
        let webhook = WebhookUrl::parse("https://tw.example.org/webhooks/github", "https://github.com").unwrap();
        let at = Addresses { webhook: &webhook, browser: "http://localhost:3000", public: "https://tw.example.org" };
        serde_json::from_str(&manifest(&AppName::parse("our bot").unwrap(), at)).unwrap()
    }

    #[test]
    fn the_manifest_has_the_documented_parameters_and_what_the_file_says() {
        let sent = sent();
        for name in sent.as_object().unwrap().keys() {
            assert!(DOCUMENTED.iter().any(|(known, _)| known == name), "{name} is no parameter");
        }
        for (name, _) in DOCUMENTED.iter().filter(|(_, needed)| *needed) {
            assert!(!sent[name].is_null(), "{name}");
        }
        for name in sent["hook_attributes"].as_object().unwrap().keys() {
            assert!(["url", "active"].contains(&name.as_str()), "{name}");
        }
        let permissions: BTreeMap<&str, &str> = NEEDED.into();
        assert_eq!(sent["default_permissions"], serde_json::json!(permissions));
        let events: Vec<&str> =
            sent["default_events"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
        assert!(events.len() == ASKED_FOR.len() && events.iter().all(|event| ASKED_FOR.contains(event)), "{events:?}");
        assert_eq!((&sent["public"], &sent["name"]), (&false.into(), &"our bot".into()));
    }

    #[test]
    fn each_address_is_the_one_of_whoever_uses_it() {
        let sent = sent();
        assert_eq!(sent["hook_attributes"]["url"], "https://tw.example.org/webhooks/github");
        assert_eq!(sent["url"], "https://tw.example.org");
        assert_eq!(sent["redirect_url"], "http://localhost:3000/setup/callback");
        assert_eq!(sent["setup_url"], "http://localhost:3000/setup");
        assert_eq!(sent["callback_urls"], serde_json::json!(["https://tw.example.org/auth/github/callback"]));
    }

    #[test]
    fn people_and_organizations_register_on_pages_of_their_own() {
        let organization = Owner::Organization(Organization::parse(" octo-org ").unwrap());
        let page = |web_url: &str, owner: &Owner| registration_page(web_url, owner, "5e");
        assert_eq!(page("https://github.com", &Owner::Person), "https://github.com/settings/apps/new?state=5e");
        let of = "https://ghe.example.org/organizations/octo-org/settings/apps/new?state=5e";
        assert_eq!(page("https://ghe.example.org", &organization), of);
        assert_eq!(installation_page("https://github.com", "tw"), "https://github.com/apps/tw/installations/new");
        let there = "https://ghe.example.org/github-apps/tw/installations/new";
        assert_eq!(installation_page("https://ghe.example.org", "tw"), there);
    }

    #[test]
    fn nothing_else_gets_into_an_address() {
        for bad in ["", "a/b", "..", "a b", "a?b", "a#b", "ä", "-a", "@octo", &"a".repeat(40)] {
            assert!(Organization::parse(bad).is_err(), "{bad}");
        }
        for bad in ["", "../x", "a/b", "a?b", "a%2fb", "a.b", "ä", &"a".repeat(101)] {
            assert!(ConversionCode::parse(bad).is_none(), "{bad}");
        }
        assert!(ConversionCode::parse("a180b1a3d263c81bc6441d7b990bae27d4c10679").is_some());
        for bad in ["", " ", "a\nb", &"a".repeat(35)] {
            assert!(AppName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn deliveries_come_over_https_from_a_github_that_is_elsewhere() {
        let there = |text: &str| WebhookUrl::parse(text, "https://github.com").is_ok();
        assert!(there("https://tw.example.org/webhooks/github") && there("https://smee.example/abc?x=1"));
        for bad in [
            "http://tw.example.org/webhooks/github",
            "https://127.0.0.1:3000/webhooks/github",
            "https://localhost/webhooks/github",
            "https://ann:pw@tw.example.org/",
            "https://tw.example.org/#x",
            "javascript:alert(1)",
            "tw.example.org",
        ] {
            assert!(!there(bad), "{bad}");
        }
        let here = |text: &str| WebhookUrl::parse(text, "http://127.0.0.1:9").is_ok();
        let completed = WebhookUrl::parse("https://tw.example.org", "https://github.com").unwrap();
        assert_eq!(completed.url, "https://tw.example.org/webhooks/github");
        assert!(here("http://127.0.0.1:3000/webhooks/github") && !here("ftp://127.0.0.1/"));
    }

    #[test]
    fn a_code_is_not_shown() {
        assert!(!format!("{:?}", ConversionCode::parse("abc123").unwrap()).contains("abc123"));
    }
}
