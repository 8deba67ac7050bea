//! By which App's credentials this service works: those of the settings, all of them, else those that the set-up stored. A
//! stored App that cannot be opened is never passed over: it is the one that people mention.

use super::StartError;
use super::secret_key::{self, KeyError, Place, sealer};
use crate::config::{AppCredentials, Config, Deliveries, OauthCredentials};
use crate::store::{AppSecrets, Schema, Store, StoreError, StoredApp, Unopened};
use crate::telemetry::Redactor;
use secrecy::{ExposeSecret, SecretString};

/// Why the stored App's credentials are of no use. Every sentence names the App and where its key is looked for.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("{}: {error}", of(slug))]
    Key { slug: String, error: KeyError },
    #[error("{}: they were sealed with another key than that of {place}", of(slug))]
    OtherKey { slug: String, place: String },
    #[error("{}: they are not as they were stored, though the key of {place} is the right one", of(slug))]
    Damaged { slug: String, place: String },
}

fn of(slug: &str) -> String {
    format!("the credentials of the App @{slug}, which the set-up stored in the database, cannot be opened")
}

/// The settings, with what counts of the App by them and by what is stored.
pub(super) fn completed(config: &Config, stored: Option<&StoredApp>) -> Result<Config, CredentialsError> {
    let mut config = config.clone();
    if let (None, Some(stored)) = (&config.github.app, stored) {
        config.github.app = Some(opened(&config, stored)?);
        if stored.fetches && deliveries(&config).is_none() {
            config.github.deliveries = Deliveries::Fetched;
        }
    }
    Ok(config)
}

/// How deliveries come, where the settings say it.
pub(super) fn deliveries(config: &Config) -> Option<Deliveries> {
    config.origin("TREEWARDEN_WEBHOOK").map(|_| config.github.deliveries)
}

/// The same by an open database, which is not asked where the settings say it all.
/// What is secret of it, the redactor knows before anything can print it.
pub(super) async fn load(config: &Config, store: &Store, redactor: &Redactor) -> Result<Config, StartError> {
    let stored = match config.github.app {
        Some(_) => None,
        None => store.load_app().await?,
    };
    redactor.learn(&secret_key::in_file(config));
    let config = completed(config, stored.as_ref())?;
    redactor.learn(config.github.app.iter().flat_map(secrets));
    Ok(config)
}

/// Whether there are any, without opening or making anything.
pub(super) async fn are_there(config: &Config) -> Result<bool, StoreError> {
    Ok(config.github.app.is_some() || stored(config).await?.is_some())
}

/// What the database holds; changes nothing.
pub(super) async fn stored(config: &Config) -> Result<Option<StoredApp>, StoreError> {
    let url = config.database_url.expose_secret();
    match Store::schema(url).await? {
        Schema::Missing => Ok(None),
        Schema::Older { .. } | Schema::Current | Schema::Newer { .. } => Store::stored_app(url).await,
    }
}

fn opened(config: &Config, stored: &StoredApp) -> Result<AppCredentials, CredentialsError> {
    let (slug, place) = (stored.slug.clone(), Place::of(config).to_string());
    let sealer = match sealer(config) {
        Ok(sealer) => sealer,
        Err(error) => return Err(CredentialsError::Key { slug, error }),
    };
    match stored.open(&sealer) {
        Ok(secrets) => Ok(credentials(stored, secrets)),
        Err(Unopened::OtherKey) => Err(CredentialsError::OtherKey { slug, place }),
        Err(Unopened::Damaged) => Err(CredentialsError::Damaged { slug, place }),
    }
}

fn credentials(stored: &StoredApp, secrets: AppSecrets) -> AppCredentials {
    AppCredentials {
        app_id: stored.app_id,
        private_key: secrets.private_key,
        private_key_file: None,
        webhook_secret: Some(secrets.webhook_secret),
        oauth: Some(OauthCredentials { client_id: stored.client_id.clone(), client_secret: secrets.client_secret }),
    }
}

/// Every secret among them, for redaction.
fn secrets(app: &AppCredentials) -> Vec<&SecretString> {
    let client = app.oauth.as_ref().map(|oauth| &oauth.client_secret);
    [&app.private_key].into_iter().chain(&app.webhook_secret).chain(client).collect()
}
