//! How the App is registered and installed, beside what it needs: GitHub answers as if nothing were there where a
//! permission is missing, and is silent about events nobody asked for.

use super::client::Github;
use super::error::GithubError;
use super::payload::ASKED_FOR;
use super::rest::{MAX_PAGES, PAGE_SIZE, pages_of};
use crate::model::{DeliveryAttempt, InstallationId, Installed};
use reqwest::Method;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What the tokens of `auth::Scope` ask for, taken together; the same as in `app-manifest.yml`.
pub(super) const NEEDED: [(&str, &str); 5] =
    [("checks", "write"), ("contents", "write"), ("issues", "write"), ("metadata", "read"), ("pull_requests", "write")];

/// The App as it is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub slug: String,
    /// Its page for everybody; absent where GitHub does not say.
    pub page: Option<String>,
    /// Where its owner sets it up, below the address of GitHub's pages.
    pub settings: String,
    /// As people set them, like `issues: write`.
    pub missing_permissions: Vec<String>,
    pub missing_events: Vec<String>,
    /// Absent: GitHub does not say.
    pub webhook: Option<Webhook>,
    pub newest_delivery: Option<DeliveryAttempt>,
    pub installations: Vec<Installed>,
}

/// Where GitHub delivers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Empty where none is set.
    pub url: String,
    /// Else as a form.
    pub as_json: bool,
}

#[derive(Deserialize)]
struct AppAnswer {
    slug: String,
    html_url: Option<String>,
    owner: Option<AccountAnswer>,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
    #[serde(default)]
    events: Vec<String>,
}

#[derive(Deserialize)]
struct HookAnswer {
    url: Option<String>,
    content_type: Option<String>,
}

impl From<HookAnswer> for Webhook {
    fn from(hook: HookAnswer) -> Self {
        let as_json = hook.content_type.is_none_or(|kind| kind == "json");
        Webhook { url: hook.url.unwrap_or_default(), as_json }
    }
}

#[derive(Deserialize)]
struct InstallationAnswer {
    id: InstallationId,
    html_url: String,
    account: Option<AccountAnswer>,
    suspended_at: Option<String>,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct AccountAnswer {
    /// An enterprise has none.
    login: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Github {
    /// Source: "Get the authenticated app", "Get a webhook configuration for an app" and "List installations" of the REST
    /// reference.
    pub async fn registration(&self) -> Result<Registration, GithubError> {
        let app: AppAnswer = self.as_app(Method::GET, "/app", None).await?.json()?;
        let hook: Option<HookAnswer> = match self.as_app(Method::GET, "/app/hook/config", None).await {
            Ok(answer) => Some(answer.json()?),
            Err(GithubError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let unheard = ASKED_FOR.iter().filter(|event| !app.events.iter().any(|heard| heard == *event));
        let settings = match app.owner.map(|owner| (owner.kind, owner.login)) {
            Some((Some(kind), Some(owner))) if kind == "Organization" => {
                format!("organizations/{owner}/settings/apps/{}", app.slug)
            }
            _ => format!("settings/apps/{}", app.slug),
        };
        Ok(Registration {
            settings,
            slug: app.slug,
            page: app.html_url,
            missing_permissions: missing_permissions(&app.permissions),
            missing_events: unheard.map(|event| (*event).to_owned()).collect(),
            webhook: hook.map(Webhook::from),
            newest_delivery: self.newest_attempt().await?,
            installations: self.installations().await?,
        })
    }
}

impl Github {
    /// Everywhere the App is installed. Source: "List installations for the authenticated app".
    pub async fn installations(&self) -> Result<Vec<Installed>, GithubError> {
        let mut installed = Vec::new();
        for page in 1..=MAX_PAGES {
            let path = format!("/app/installations?per_page={PAGE_SIZE}&page={page}");
            let answer = self.as_app(Method::GET, &path, None).await?;
            installed.extend(answer.json::<Vec<InstallationAnswer>>()?.into_iter().map(Installed::from));
            if page >= pages_of(&answer, page) {
                return Ok(installed);
            }
        }
        Err(GithubError::BadAnswer("more installations than can be looked through".to_owned()))
    }
}

impl From<InstallationAnswer> for Installed {
    fn from(found: InstallationAnswer) -> Self {
        Installed {
            id: found.id,
            page: found.html_url,
            account: found.account.and_then(|account| account.login).unwrap_or_default(),
            suspended: found.suspended_at.is_some(),
            missing_permissions: missing_permissions(&found.permissions),
        }
    }
}

fn missing_permissions(granted: &BTreeMap<String, String>) -> Vec<String> {
    let enough = |area: &str, level: &str| match granted.get(area).map(String::as_str) {
        Some("write" | "admin") => true,
        Some(other) => other == level,
        None => false,
    };
    let missing = NEEDED.iter().filter(|(area, level)| !enough(area, level));
    missing.map(|(area, level)| format!("{area}: {level}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_needed_is_enough() {
        let granted = |given: &[(&str, &str)]| {
            given.iter().map(|(area, level)| ((*area).to_owned(), (*level).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let most = [
            ("checks", "write"),
            ("contents", "write"),
            ("issues", "admin"),
            ("metadata", "write"),
            ("pull_requests", "write"),
        ];
        assert_eq!(missing_permissions(&granted(&most)), Vec::<String>::new());
        assert_eq!(
            missing_permissions(&granted(&[("contents", "read"), ("issues", "write"), ("metadata", "read")])),
            ["checks: write", "contents: write", "pull_requests: write"]
        );
    }

    #[test]
    fn the_manifest_asks_for_what_is_needed_and_no_more() {
        let manifest = include_str!("../../app-manifest.yml");
        let inside = manifest.split("default_permissions:").nth(1).unwrap().split("default_events:").next().unwrap();
        let asked = inside.lines().filter_map(|line| line.split('#').next().unwrap().trim().split_once(':'));
        let asked: BTreeMap<&str, &str> = asked.map(|(area, level)| (area, level.trim())).collect();
        assert_eq!(asked, BTreeMap::from(NEEDED));
    }
}
