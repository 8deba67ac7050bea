//! The one door to GitHub's API: octocrab underneath, one place for time limits, retries, redirects and errors.
//!
//! Reads are repeated on server errors; writes never are, because the first try may have had its effect. Redirects are
//! followed on the configured API host only (a renamed repository), so credentials never reach another one.

use super::auth::{Access, AppKey, Tokens};
use super::clock::{Clock, date};
use super::error::GithubError;
use crate::model::*;
use octocrab::Octocrab;
use reqwest::{Method, StatusCode, Url, header::HeaderMap};
use secrecy::SecretString;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Reads are tried this often in all, with growing pauses.
const READ_TRIES: u32 = 3;
const READ_PAUSE: Duration = Duration::from_millis(250);
const MAX_REDIRECTS: u32 = 3;
/// When GitHub asks for patience without saying how much. Source: "Rate limits for the REST API".
pub(super) const UNNAMED_WAIT: Duration = Duration::from_secs(60);
const LONGEST_WAIT: i64 = 3600;

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
    key: AppKey,
    clock: Clock,
    /// Without credentials of its own; those of each request are laid over it.
    bare: Octocrab,
    /// The same for the GraphQL endpoint, which has another base.
    bare_graphql: Octocrab,
    api_url: Url,
    web_url: Url,
    tokens: Tokens,
    /// Until when GitHub wants nothing of an installation: so it answered to a question.
    limited_until: Mutex<HashMap<InstallationId, Instant>>,
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
    /// Checks the settings; asks nobody. Has to be called inside a Tokio runtime.
    pub fn new(settings: &GithubSettings) -> Result<Self, GithubError> {
        let api_url = parse_url(&settings.api_url)?;
        let web_url = parse_url(&settings.web_url)?;
        let transport = transport(&api_url, settings.timeout)?;
        let key = AppKey::from_pem(settings.app_id, &settings.private_key_pem)?;
        let bare_graphql = bare(&graphql_base(&settings.api_url), transport.clone())?;
        let bare = bare(api_url.as_str(), transport)?;
        let (clock, tokens, limited_until) = (Clock::default(), Tokens::default(), Mutex::default());
        let inner = Inner { key, clock, bare, bare_graphql, api_url, web_url, tokens, limited_until };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Where git finds a repository, without credentials. Built from the configured host: no answer can point elsewhere.
    pub fn clone_url(&self, name: &RepoName) -> String {
        format!("{}/{name}.git", self.inner.web_url.as_str().trim_end_matches('/'))
    }

    pub fn installation(&self, id: InstallationId) -> InstallationClient {
        InstallationClient { github: self.clone(), id }
    }

    /// A request signed as the App itself, by GitHub's clock. Refused, it is made once more where the refusal tells another time.
    pub(super) async fn as_app(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, GithubError> {
        let Inner { key, clock, bare, .. } = &*self.inner;
        for retried in [false, true] {
            let client = bare.user_access_token(key.sign(clock.now())?).map_err(settings_error)?;
            let refused = match self.send(&client, method.clone(), path, body).await {
                Ok(answer) => {
                    clock.learn(date(&answer.headers));
                    return Ok(answer);
                }
                Err(refused) => refused,
            };
            // No other refusal is for sure GitHub's own.
            let is_about_time = refused.error == GithubError::Unauthorized && clock.learn(refused.date);
            if retried || !is_about_time {
                return Err(refused.error);
            }
        }
        Err(GithubError::Unauthorized)
    }

    /// A question anybody may ask.
    pub(super) async fn as_anybody(&self, path: &str) -> Result<Answer, GithubError> {
        Ok(self.send(&self.inner.bare, Method::GET, path, None).await?)
    }

    /// A moment of this machine's clock, as GitHub's had it.
    pub fn by_its_clock(&self, ours: Timestamp) -> Timestamp {
        self.inner.clock.translate(ours)
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    pub(super) fn tokens(&self) -> &Tokens {
        &self.inner.tokens
    }

    /// Reads are tried again when GitHub or the way to it stumbles; writes go out once.
    async fn send(
        &self,
        client: &Octocrab,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Refused> {
        let tries = if method == Method::GET { READ_TRIES } else { 1 };
        let mut tried = 1;
        loop {
            match self.send_following(client, &method, path, body).await {
                Err(refused) if refused.is_a_stumble() && tried < tries => {
                    tokio::time::sleep(READ_PAUSE * 2u32.pow(tried - 1)).await;
                    tried += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn send_following(
        &self,
        client: &Octocrab,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Refused> {
        let mut place = path.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            match send_once(client, method, &place, body).await {
                Ok(Reply::Answer(answer)) => return Ok(answer),
                Ok(Reply::Moved { target, repeatable }) => {
                    let here = self.on_this_host(&target).ok_or_else(|| of_a_proxy("a redirect to elsewhere"))?;
                    if !repeatable {
                        break;
                    }
                    place = here;
                }
                // Called what it was asked for as, wherever that led.
                Err(Refused { error: GithubError::NotFound(_), .. }) => break,
                Err(refused) => return Err(refused),
            }
        }
        Err(gone(path).into())
    }

    /// Path and query of a redirect's target, if there is one and it stays on the configured API host.
    fn on_this_host(&self, target: &str) -> Option<String> {
        if target.is_empty() {
            return None;
        }
        let target = self.inner.api_url.join(target).ok()?;
        (target.origin() == self.inner.api_url.origin()).then(|| match target.query() {
            Some(query) => format!("{}?{query}", target.path()),
            None => target.path().to_owned(),
        })
    }
}

impl InstallationClient {
    pub fn id(&self) -> InstallationId {
        self.id
    }

    /// The host that git over HTTPS talks to, with its port when it is not the default one.
    pub(super) fn git_host(&self) -> String {
        let url = &self.github.inner.web_url;
        let host = url.host_str().unwrap_or_default();
        match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// A request with a token of this installation. A token that is no longer accepted is replaced once.
    pub(super) async fn request(
        &self,
        access: Access,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, GithubError> {
        let reading = method == Method::GET;
        let outcome = self.with_token(&self.github.inner.bare, access, method, path, body).await;
        if reading { self.noted(outcome) } else { outcome }
    }

    pub(super) async fn graphql_request(&self, access: Access, body: &Value) -> Result<Answer, GithubError> {
        self.noted(self.with_token(&self.github.inner.bare_graphql, access, Method::POST, "/graphql", Some(body)).await)
    }

    /// For how long GitHub wants nothing more of this installation, as it answered to a question.
    pub fn limited_for(&self) -> Option<Duration> {
        let limited = self.github.inner.limited_until.lock().unwrap_or_else(PoisonError::into_inner);
        let left = limited.get(&self.id)?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// The outcome of a question, which others learn from. Whoever writes is asked to wait by the answer itself.
    pub(super) fn noted<T>(&self, outcome: Result<T, GithubError>) -> Result<T, GithubError> {
        if let Err(GithubError::RateLimited { retry_after }) = &outcome {
            let mut limited = self.github.inner.limited_until.lock().unwrap_or_else(PoisonError::into_inner);
            let until = Instant::now() + *retry_after;
            let known = limited.entry(self.id).or_insert(until);
            *known = until.max(*known);
        }
        outcome
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
            match self.github.send(&client, method.clone(), path, body).await {
                Err(refused) if refused.error == GithubError::Unauthorized && !retried => {
                    self.forget_token(access, &token).await;
                }
                outcome => return Ok(outcome?),
            }
        }
        Err(GithubError::Unauthorized)
    }
}

/// A question of whoever has no App yet, and no credentials. It is asked once, and followed nowhere.
pub(super) async fn as_stranger(api_url: &str, path: &str) -> Result<Answer, GithubError> {
    let api_url = parse_url(api_url)?;
    let transport = transport(&api_url, None)?;
    match send_once(&bare(api_url.as_str(), transport)?, &Method::POST, path, None).await? {
        Reply::Answer(answer) => Ok(answer),
        Reply::Moved { .. } => Err(of_a_proxy("a redirect")),
    }
}

fn transport(api_url: &Url, timeout: Option<Duration>) -> Result<reqwest::Client, GithubError> {
    let transport = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(timeout.unwrap_or(REQUEST_TIMEOUT))
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("treewarden/", env!("CARGO_PKG_VERSION")));
    // A proxy cannot reach this machine's own loopback.
    let transport = if is_loopback(api_url) { transport.no_proxy() } else { transport };
    transport.build().map_err(settings_error)
}

/// Without credentials of its own.
fn bare(base: &str, transport: reqwest::Client) -> Result<Octocrab, GithubError> {
    let builder = Octocrab::builder().base_uri(base).map_err(settings_error)?;
    builder.build_with_reqwest(transport).map_err(settings_error)
}

fn settings_error(error: impl std::fmt::Display) -> GithubError {
    GithubError::Settings(error.to_string())
}

fn parse_url(text: &str) -> Result<Url, GithubError> {
    let wrong = |why: &str| GithubError::Settings(format!("{text:?} is not the address of a GitHub: {why}"));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if url.host_str().is_none() || !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("expected https://<host>"));
    }
    Ok(url)
}

/// GraphQL lives beside the REST API of an Enterprise Server (`/api/graphql`), and below it elsewhere.
fn graphql_base(api_url: &str) -> String {
    let api_url = api_url.trim_end_matches('/');
    match api_url.strip_suffix("/api/v3") {
        Some(server) => format!("{server}/api"),
        None => api_url.to_owned(),
    }
}

fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback_host)
}

enum Reply {
    Answer(Answer),
    /// It is to be asked there; the same request, where it is one that may be made again.
    Moved {
        target: String,
        repeatable: bool,
    },
}

/// An error, and when GitHub gave that answer, if it was one.
struct Refused {
    error: GithubError,
    date: Option<i64>,
}

impl Refused {
    /// Of GitHub, or of the way to it.
    fn is_a_stumble(&self) -> bool {
        matches!(self.error, GithubError::Server { .. } | GithubError::Unreachable(_))
    }
}

impl From<GithubError> for Refused {
    fn from(error: GithubError) -> Self {
        Self { error, date: None }
    }
}

impl From<Refused> for GithubError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

async fn send_once(client: &Octocrab, method: &Method, path: &str, body: Option<&Value>) -> Result<Reply, Refused> {
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
        return match body.is_empty() || serde_json::from_str::<IgnoredAny>(&body).is_ok() {
            true => Ok(Reply::Answer(Answer { headers, body })),
            false => Err(of_a_proxy("a success without JSON").into()),
        };
    }
    if matches!(status.as_u16(), 301 | 302 | 307 | 308) {
        let target = headers.get("location").and_then(|target| target.to_str().ok()).unwrap_or_default().to_owned();
        // 301 and 302 do not say whether a write keeps its method; 307 and 308 do.
        let repeatable = reading || matches!(status.as_u16(), 307 | 308);
        return Ok(Reply::Moved { target, repeatable });
    }
    Err(Refused { error: refusal(status, &headers, &body, path), date: date(&headers) })
}

/// What GitHub does not say: a login page in front of it does.
fn of_a_proxy(what: &str) -> GithubError {
    GithubError::BadAnswer(format!("{what}, perhaps of a proxy on the way"))
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
    let asked = wait_asked_for(headers, body);
    match (status.as_u16(), asked) {
        (403 | 429, Some(retry_after)) => GithubError::RateLimited { retry_after },
        (429, None) => GithubError::RateLimited { retry_after: UNNAMED_WAIT },
        (status @ 500..=599, _) => GithubError::Server { status },
        (status, _) if !is_verdict(status, body) => of_a_proxy(&format!("status {status}")),
        (401, _) => GithubError::Unauthorized,
        (403, _) => GithubError::Forbidden(message()),
        (404 | 410 | 451, _) => gone(path),
        _ => GithubError::Invalid(message()),
    }
}

/// Whether GitHub itself refused what was asked, which asking again does not change. Proxies refuse as well (407, 408, 421,
/// 425, 499, or any status with a page for people), and can be mended.
fn is_verdict(status: u16, body: &str) -> bool {
    let is_githubs = serde_json::from_str::<Value>(body).is_ok_and(|answer| answer.is_object());
    is_githubs && matches!(status, 400 | 401 | 403..=406 | 409..=415 | 422 | 451)
}

/// Says what people call the thing that is not there.
fn gone(path: &str) -> GithubError {
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    GithubError::NotFound(match parts.as_slice() {
        ["installation", "repositories"] => "this repository".to_owned(),
        ["repos", owner, name] | ["repos", owner, name, "installation"] => format!("the repository {owner}/{name}"),
        ["repos", owner, name, "issues", "comments", ..] => format!("that comment in {owner}/{name}"),
        ["repos", owner, name, "issues" | "pulls", number, ..] => format!("{owner}/{name}#{number}"),
        ["repos", owner, name, "collaborators", login, ..] => format!("{login} in {owner}/{name}"),
        _ => path.to_owned(),
    })
}

fn wait_asked_for(headers: &HeaderMap, body: &str) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<i64>().ok();
    let wait = |seconds: i64| Duration::from_secs(seconds.clamp(1, LONGEST_WAIT).unsigned_abs());
    if let Some(seconds) = number("retry-after") {
        return Some(wait(seconds));
    }
    if number("x-ratelimit-remaining") == Some(0) {
        // By GitHub's own clock: ours may be wrong.
        let left = number("x-ratelimit-reset").zip(date(headers)).map(|(reset, now)| wait(reset - now));
        return Some(left.unwrap_or(UNNAMED_WAIT));
    }
    // Secondary limits without a header are told apart from other refusals only by the page they point to.
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let page = parsed.as_ref().and_then(|answer| answer["documentation_url"].as_str()).unwrap_or_default();
    page.contains("rate-limit").then_some(UNNAMED_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphql_has_its_own_base_on_an_enterprise_server() {
        assert_eq!(graphql_base("https://api.github.com"), "https://api.github.com");
        assert_eq!(graphql_base("https://ghe.example/api/v3/"), "https://ghe.example/api");
        assert_eq!(graphql_base("http://127.0.0.1:1/v3"), "http://127.0.0.1:1/v3");
    }

    #[test]
    fn addresses_are_checked() {
        for bad in ["", "github.com", "ftp://github.com", "file:///x", "https://"] {
            assert!(matches!(parse_url(bad), Err(GithubError::Settings(_))), "{bad}");
        }
        assert!(is_loopback(&parse_url("http://127.0.0.1:9").unwrap()));
        assert!(!is_loopback(&parse_url("https://api.github.com").unwrap()));
    }

    #[test]
    fn waits_follow_githubs_headers_and_clock() {
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
        let seconds = |pairs: &[_], body: &str| wait_asked_for(&headers(pairs), body).map(|wait| wait.as_secs());
        assert_eq!(seconds(&[("retry-after", "7")], ""), Some(7));
        assert_eq!(seconds(&[("retry-after", "-7")], ""), Some(1));
        assert_eq!(seconds(&[("retry-after", "999999")], ""), Some(3600));
        let reset = ("x-ratelimit-reset", "1772323230");
        let date = ("date", "Sun, 01 Mar 2026 00:00:00 GMT");
        assert_eq!(seconds(&[("x-ratelimit-remaining", "0"), reset, date], ""), Some(30));
        assert_eq!(seconds(&[("x-ratelimit-remaining", "0"), reset], ""), Some(60));
        assert_eq!(seconds(&[("x-ratelimit-remaining", "4"), reset, date], ""), None);
        let page = r#"{"documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}"#;
        assert_eq!(seconds(&[], page), Some(60));
        assert_eq!(seconds(&[], "<html>"), None);
    }
}
