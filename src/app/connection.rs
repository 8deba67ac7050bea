//! The App at the other end: who GitHub says we are, asked when a service or a command starts, and when one is set up.

use crate::config::{AppCredentials, Deliveries, GithubConfig};
use crate::github::{AppIdentity, Connection, Github, GithubError, GithubSettings};
use crate::model::Timestamp;
use crate::store::{Store, StoreError};

/// The connection of an App, or why GitHub does not say which one it is.
pub(super) async fn connected(
    at: &GithubConfig,
    app: &AppCredentials,
    store: &Store,
    now: Timestamp,
) -> Result<Result<Connection, GithubError>, StoreError> {
    let github = match client(at, app) {
        Ok(github) => github,
        Err(error) => return Ok(Err(error)),
    };
    let identity = who_we_are(&github, store, app.app_id, now).await?;
    let fetches = at.deliveries == Deliveries::Fetched;
    Ok(identity.map(|identity| Connection { github, identity, fetches }))
}

/// Asks nobody.
pub(super) fn client(at: &GithubConfig, app: &AppCredentials) -> Result<Github, GithubError> {
    Github::new(&GithubSettings {
        app_id: app.app_id,
        private_key_pem: app.private_key.clone(),
        api_url: at.api_url.clone(),
        web_url: at.web_url.clone(),
        timeout: None,
    })
}

/// What GitHub says, else what it said before: a GitHub that is down keeps nobody from taking its deliveries.
async fn who_we_are(
    github: &Github,
    store: &Store,
    app_id: u64,
    now: Timestamp,
) -> Result<Result<AppIdentity, GithubError>, StoreError> {
    let error = match github.app().await {
        Ok(identity) => {
            store.remember_identity(&identity, now).await?;
            return Ok(Ok(identity));
        }
        Err(error) if error.is_transient() => error,
        Err(error) => return Ok(Err(error)),
    };
    let known: Option<AppIdentity> = store.known_identity().await?;
    match known.filter(|identity| identity.app_id == app_id) {
        Some(identity) => {
            let safe = "GitHub does not answer; going on as the App it named before. Deliveries are kept, and what needs GitHub waits";
            tracing::warn!(app.slug = %identity.slug, %error, reason = error.advice(false), "{safe}");
            Ok(Ok(identity))
        }
        None => Ok(Err(error)),
    }
}
