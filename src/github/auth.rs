//! Who we are on GitHub: the App's key and identity, and tokens of its installations.
//!
//! Tokens are minted for one repository and the least permissions an operation needs, kept in memory only, and renewed
//! five minutes before they end. Concurrent callers of the same token wait for one minting.

use super::client::{Github, InstallationClient};
use super::error::GithubError;
use crate::model::*;
use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tokio::sync::Mutex as AsyncMutex;

/// Tokens are not used in their last minutes.
const MARGIN_SECONDS: i64 = 300;

/// What the App signs is good for so long before and after it was signed: clocks differ, and GitHub grants ten minutes in all.
/// Source: "Generating a JSON Web Token (JWT) for a GitHub App".
const SECONDS_BEFORE: i64 = 60;
const SECONDS_AFTER: i64 = 540;

/// The App's number and private key, parsed.
pub(super) struct AppKey {
    app_id: u64,
    key: jsonwebtoken::EncodingKey,
}

impl AppKey {
    pub fn from_pem(app_id: u64, pem: &SecretString) -> Result<Self, GithubError> {
        // Keys often arrive with their line breaks written out, from environment variables.
        let text = pem.expose_secret().replace("\\n", "\n");
        let key = jsonwebtoken::EncodingKey::from_rsa_pem(text.as_bytes());
        key.map(|key| Self { app_id, key })
            .map_err(|_| GithubError::Settings("the App's private key is not an RSA key in PEM form".to_owned()))
    }

    /// Says that the App asks. `now`: by GitHub's clock, in seconds since 1970.
    pub fn sign(&self, now: i64) -> Result<SecretString, GithubError> {
        let claims = json!({"iss": self.app_id, "iat": now - SECONDS_BEFORE, "exp": now + SECONDS_AFTER});
        let header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::RS256);
        let signed = jsonwebtoken::encode(&header, &claims, &self.key);
        signed.map(SecretString::from).map_err(|error| GithubError::Settings(error.to_string()))
    }
}

/// What a token is good for. `None` as repository: for questions that are about none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Access {
    pub repository: Option<RepositoryId>,
    pub scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// Facts of accounts and repositories, and what GitHub lets a person do.
    Metadata,
    /// Read issues and pull requests.
    Read,
    /// Ask which pull request a commit was merged by.
    Merges,
    /// Write comments and reactions.
    Talk,
    /// Open pull requests.
    Propose,
    /// Write check runs.
    Check,
    /// git fetch, and where branches stand.
    Fetch,
    /// git push.
    Push,
}

impl Scope {
    fn permissions(self) -> serde_json::Value {
        match self {
            Scope::Metadata => json!({"metadata": "read"}),
            Scope::Read => json!({"issues": "read", "pull_requests": "read", "metadata": "read"}),
            Scope::Merges => json!({"contents": "read", "pull_requests": "read", "metadata": "read"}),
            Scope::Talk => json!({"issues": "write", "pull_requests": "write", "metadata": "read"}),
            Scope::Propose => json!({"contents": "read", "pull_requests": "write", "metadata": "read"}),
            Scope::Check => json!({"checks": "write", "metadata": "read"}),
            Scope::Fetch => json!({"contents": "read", "metadata": "read"}),
            Scope::Push => json!({"contents": "write", "metadata": "read"}),
        }
    }
}

type Slot = Arc<AsyncMutex<Option<Token>>>;

/// Tokens in memory, one slot for each installation and access.
#[derive(Default)]
pub(super) struct Tokens {
    slots: Mutex<HashMap<(InstallationId, Access), Slot>>,
}

struct Token {
    secret: SecretString,
    expires_at: i64,
}

#[derive(Deserialize)]
struct Minted {
    token: SecretString,
    expires_at: chrono::DateTime<chrono::Utc>,
}

impl Tokens {
    fn slot(&self, key: (InstallationId, Access)) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        slots.entry(key).or_default().clone()
    }
}

impl InstallationClient {
    pub(super) async fn token(&self, access: Access) -> Result<SecretString, GithubError> {
        let slot = self.github.tokens().slot((self.id, access));
        let mut slot = slot.lock().await;
        let now = self.github.clock().now();
        if let Some(token) = slot.as_ref().filter(|token| token.expires_at - MARGIN_SECONDS > now) {
            return Ok(token.secret.clone());
        }
        let mut body = json!({"permissions": access.scope.permissions()});
        if let Some(repository) = access.repository {
            body["repository_ids"] = json!([repository]);
        }
        let path = format!("/app/installations/{}/access_tokens", self.id);
        let minted = self.github.as_app(Method::POST, &path, Some(&body)).await.map_err(|error| match error {
            // Whether a token was made is no matter: what it was for has not been sent.
            GithubError::OutcomeUnknown => GithubError::Unreachable("no answer to the request for a token".to_owned()),
            // A repository or a permission that the installation does not have (any more, or yet).
            GithubError::Invalid(why) => GithubError::Forbidden(why),
            error => error,
        });
        let minted: Minted = minted?.json()?;
        let token = Token { secret: minted.token, expires_at: minted.expires_at.timestamp() };
        Ok(slot.insert(token).secret.clone())
    }

    /// Drops a token GitHub no longer accepts, unless somebody replaced it already.
    pub(super) async fn forget_token(&self, access: Access, refused: &SecretString) {
        let slot = self.github.tokens().slot((self.id, access));
        let mut slot = slot.lock().await;
        if slot.as_ref().is_some_and(|token| token.secret.expose_secret() == refused.expose_secret()) {
            *slot = None;
        }
    }

    /// For one git operation on one repository.
    pub async fn git_credential(&self, repository: RepositoryId, push: bool) -> Result<Credential, GithubError> {
        let scope = if push { Scope::Push } else { Scope::Fetch };
        let token = self.token(Access { repository: Some(repository), scope }).await?;
        Ok(Credential { host: self.git_host(), token })
    }

    /// The git server no longer accepts this credential: the next one is made anew.
    pub async fn forget_git_credential(&self, repository: RepositoryId, push: bool, refused: &Credential) {
        let scope = if push { Scope::Push } else { Scope::Fetch };
        self.forget_token(Access { repository: Some(repository), scope }, &refused.token).await;
    }
}

/// The App and its bot account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppIdentity {
    pub app_id: u64,
    /// People write `@<slug>`.
    pub slug: String,
    pub name: String,
    /// The account its comments come from, `<slug>[bot]`.
    pub bot: Person,
}

impl AppIdentity {
    /// Where no App is connected: the name under which work is committed all the same.
    pub fn nobody() -> Self {
        let name = "treewarden";
        let bot = Person { id: UserId(0), login: name.to_owned(), is_bot: true };
        Self { app_id: 0, slug: name.to_owned(), name: name.to_owned(), bot }
    }
}

#[derive(Deserialize)]
struct AppAnswer {
    id: u64,
    slug: String,
    name: Option<String>,
}

#[derive(Deserialize)]
struct UserAnswer {
    id: i64,
    login: String,
}

#[derive(Deserialize)]
struct InstallationAnswer {
    id: i64,
    suspended_at: Option<String>,
}

impl Github {
    /// Asks GitHub who this App is: it is how own comments are recognised.
    pub async fn app(&self) -> Result<AppIdentity, GithubError> {
        let app: AppAnswer = self.as_app(Method::GET, "/app", None).await?.json()?;
        if app.slug.is_empty() {
            return Err(GithubError::BadAnswer("the App has no slug".to_owned()));
        }
        let bot = self.bot_account(&app.slug).await?;
        if bot.id <= 0 {
            return Err(GithubError::BadAnswer(format!("{}[bot] has no id", app.slug)));
        }
        let bot = Person { id: UserId(bot.id), login: bot.login, is_bot: true };
        Ok(AppIdentity { app_id: app.id, name: app.name.unwrap_or_else(|| app.slug.clone()), slug: app.slug, bot })
    }

    /// Accounts are shown to installations (a private Enterprise Server shows them to nobody else) and on github.com to
    /// anybody; only App endpoints are promised to take the App's own JWT, so it comes last.
    async fn bot_account(&self, slug: &str) -> Result<UserAnswer, GithubError> {
        let path = format!("/users/{slug}%5Bbot%5D");
        let known = self.as_app(Method::GET, "/app/installations?per_page=100", None).await?;
        let known: Vec<InstallationAnswer> = known.json()?;
        let mut refused = None;
        for installation in known.iter().filter(|installation| installation.suspended_at.is_none()) {
            let client = self.installation(InstallationId(installation.id));
            let access = Access { repository: None, scope: Scope::Metadata };
            match client.request(access, Method::GET, &path, None).await {
                // Suspended or removed since it was listed: that is no matter of the others.
                Err(error) if error.is_refusal() => refused = Some(error),
                answer => return answer?.json(),
            }
        }
        let answer = match self.as_anybody(&path).await {
            Err(GithubError::Unauthorized | GithubError::RateLimited { .. }) => {
                self.as_app(Method::GET, &path, None).await
            }
            answer => answer,
        };
        match (answer, refused) {
            (Err(error), Some(refused)) if !error.is_transient() => {
                let why =
                    format!("none of the App's installations may ask who {slug}[bot] is ({refused}), nor may others");
                Err(GithubError::Forbidden(why))
            }
            (answer, _) => answer?.json(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::registration::NEEDED;
    use super::*;

    #[test]
    fn tokens_never_ask_for_what_the_app_does_not_need() {
        use Scope::*;
        let scopes = [Metadata, Read, Merges, Talk, Propose, Check, Fetch, Push].map(Scope::permissions);
        for (area, level) in scopes.iter().flat_map(|scope| scope.as_object().unwrap()) {
            let most = NEEDED.iter().find(|(needed, _)| needed == area).unwrap_or_else(|| panic!("{area}")).1;
            assert!(most == "write" || level == most, "{area}: {level}");
        }
        for (area, level) in NEEDED {
            assert!(scopes.iter().any(|scope| scope[area] == level), "nothing uses {area}: {level}");
        }
    }
}
