//! The one door to GitHub's API: octocrab underneath, one place for time limits, retries, redirects and errors.
//!
//! Reads are repeated on server errors; writes never are, because the first try may have had its effect. Redirects are
//! not followed, so requests only ever reach the configured hosts.

use super::auth::{Access, AppKey, Tokens};
use super::error::GithubError;
use crate::model::*;
use octocrab::Octocrab;
use reqwest::{Method, StatusCode, header::HeaderMap};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Reads are tried this often in all, with growing pauses.
const READ_TRIES: u32 = 3;
const READ_PAUSE: Duration = Duration::from_millis(250);

/// How to reach GitHub as the App.
#[derive(Clone, Debug)]
pub struct GithubSettings {
    pub app_id: u64,
    pub private_key_pem: SecretString,
    /// `https://api.github.com`, or `https://<host>/api/v3`.
    pub api_url: String,
    /// `https://github.com`, or the Enterprise host.
    pub web_url: String,
    /// Time a single request may take; 30 s when absent.
    pub timeout: Option<Duration>,
}

/// GitHub as the App sees it. A cheap handle.
#[derive(Clone)]
pub struct Github {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    /// Signs each request with a fresh App JWT.
    app: Octocrab,
    /// Without credentials of its own; tokens are laid over it.
    bare: Octocrab,
    /// The same for the GraphQL endpoint, which has another base.
    bare_graphql: Octocrab,
    web_host: String,
    tokens: Tokens,
}

/// GitHub through one installation.
#[derive(Clone)]
pub struct InstallationClient {
    pub(super) github: Github,
    pub(super) id: InstallationId,
}

/// An answer that was a success.
pub(super) struct Answer {
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, GithubError> {
        serde_json::from_str(&self.body).map_err(|error| GithubError::BadAnswer(error.to_string()))
    }
}

impl Github {
    pub fn new(settings: &GithubSettings) -> Result<Self, GithubError> {
        let transport = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(settings.timeout.unwrap_or(REQUEST_TIMEOUT))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("treewarden/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(settings_error)?;
        let key = AppKey::from_pem(&settings.private_key_pem)?;
        let api_url = settings.api_url.trim_end_matches('/');
        let graphql_base = api_url.strip_suffix("/v3").unwrap_or(api_url);
        let builder = |base: &str| Octocrab::builder().base_uri(base).map_err(settings_error);
        let app = builder(api_url)?
            .app(settings.app_id.into(), key.0)
            .build_with_reqwest(transport.clone())
            .map_err(settings_error)?;
        let bare = builder(api_url)?.build_with_reqwest(transport.clone()).map_err(settings_error)?;
        let bare_graphql = builder(graphql_base)?.build_with_reqwest(transport).map_err(settings_error)?;
        let web_host = host_of(&settings.web_url)?;
        let inner = Inner { app, bare, bare_graphql, web_host, tokens: Tokens::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub fn installation(&self, id: InstallationId) -> InstallationClient {
        InstallationClient { github: self.clone(), id }
    }

    /// A request signed as the App itself.
    pub(super) async fn as_app(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, GithubError> {
        send(&self.inner.app, method, path, body).await
    }

    pub(super) fn tokens(&self) -> &Tokens {
        &self.inner.tokens
    }
}

impl InstallationClient {
    /// The host that git over HTTPS talks to, with its port when it is not the default one.
    pub(super) fn git_host(&self) -> &str {
        &self.github.inner.web_host
    }

    /// A request with a token of this installation. A token that is no longer accepted is replaced once.
    pub(super) async fn request(
        &self,
        access: Access,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, GithubError> {
        self.with_token(&self.github.inner.bare, access, method, path, body).await
    }

    pub(super) async fn graphql_request(&self, access: Access, body: &Value) -> Result<Answer, GithubError> {
        self.with_token(&self.github.inner.bare_graphql, access, Method::POST, "/graphql", Some(body)).await
    }

    async fn with_token(
        &self,
        octocrab: &Octocrab,
        access: Access,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, GithubError> {
        for retried in [false, true] {
            let token = self.token(access).await?;
            let client = octocrab.user_access_token(token.clone()).map_err(settings_error)?;
            match send(&client, method.clone(), path, body).await {
                Err(GithubError::Unauthorized) if !retried => self.forget_token(access, &token).await,
                outcome => return outcome,
            }
        }
        Err(GithubError::Unauthorized)
    }
}

fn settings_error(error: impl std::fmt::Display) -> GithubError {
    GithubError::Settings(error.to_string())
}

fn host_of(url: &str) -> Result<String, GithubError> {
    let parsed = reqwest::Url::parse(url).map_err(settings_error)?;
    let host = parsed.host_str().ok_or_else(|| GithubError::Settings(format!("{url} names no host")))?;
    Ok(match parsed.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

async fn send(client: &Octocrab, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, GithubError> {
    let tries = if method == Method::GET { READ_TRIES } else { 1 };
    let mut last = GithubError::OutcomeUnknown;
    for attempt in 0..tries {
        if attempt > 0 {
            tokio::time::sleep(READ_PAUSE * 2u32.pow(attempt - 1)).await;
        }
        match send_once(client, &method, path, body).await {
            Err(error @ (GithubError::Server { .. } | GithubError::Unreachable(_) | GithubError::BadAnswer(_))) => {
                last = error;
            }
            outcome => return outcome,
        }
    }
    Err(last)
}

async fn send_once(
    client: &Octocrab,
    method: &Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Answer, GithubError> {
    let sent = match *method {
        Method::GET => client._get(path).await,
        Method::POST => client._post(path, body).await,
        Method::PATCH => client._patch(path, body).await,
        Method::PUT => client._put(path, body).await,
        _ => client._delete(path, body).await,
    };
    let reading = *method == Method::GET;
    let response = sent.map_err(|error| transport_error(&error, reading))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = client.body_to_string(response).await.map_err(|error| transport_error(&error, reading))?;
    if status.is_success() {
        return Ok(Answer { headers, body });
    }
    Err(refusal(status, &headers, &body, path))
}

fn transport_error(error: &octocrab::Error, reading: bool) -> GithubError {
    let mut text = error.to_string();
    let mut connecting = false;
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        connecting |= inner.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect);
        text = inner.to_string();
        source = inner.source();
    }
    match reading || connecting {
        true => GithubError::Unreachable(text),
        false => GithubError::OutcomeUnknown,
    }
}

/// Sorts an answer that is no success. Source: GitHub's "Rate limits for the REST API" and "Troubleshooting".
fn refusal(status: StatusCode, headers: &HeaderMap, body: &str, path: &str) -> GithubError {
    let message = || {
        let parsed: Option<Value> = serde_json::from_str(body).ok();
        let text = parsed.as_ref().and_then(|v| v["message"].as_str()).unwrap_or("no reason given");
        let details = parsed.as_ref().and_then(|v| v["errors"].as_array()).into_iter().flatten();
        let details: Vec<&str> = details.filter_map(|e| e["message"].as_str()).collect();
        [&[text], details.as_slice()].concat().join("; ")
    };
    match status.as_u16() {
        401 => GithubError::Unauthorized,
        403 | 429 => match wait_asked_for(headers, body) {
            Some(retry_after) => GithubError::RateLimited { retry_after },
            None if status.as_u16() == 429 => GithubError::RateLimited { retry_after: Duration::from_secs(60) },
            None => GithubError::Forbidden(message()),
        },
        404 | 410 | 451 => GithubError::NotFound(path.split('?').next().unwrap_or_default().to_owned()),
        301 | 302 | 307 | 308 => GithubError::NotFound(format!("{path} under this name any more")),
        500..=599 => GithubError::Server { status: status.as_u16() },
        _ => GithubError::Invalid(message()),
    }
}

fn wait_asked_for(headers: &HeaderMap, body: &str) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
    if let Some(seconds) = number("retry-after") {
        return Some(Duration::from_secs(seconds.clamp(1, 3600) as u64));
    }
    if number("x-ratelimit-remaining") == Some(0) {
        let reset = number("x-ratelimit-reset").unwrap_or_default() - chrono::Utc::now().timestamp();
        return Some(Duration::from_secs(reset.clamp(1, 3600) as u64));
    }
    body.contains("secondary rate limit").then_some(Duration::from_secs(60))
}
