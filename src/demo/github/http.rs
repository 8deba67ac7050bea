//! The stand-in's faces: REST below `/api/v3`, GraphQL at `/api/graphql`, OAuth at `/login/oauth`, git and pages for
//! people at the top: the layout of a GitHub Enterprise Server.
//!
//! Here: the front door that every request passes (faults, the log of requests, addresses by repository id). Handlers
//! only translate between HTTP and the actions.

mod access;
mod answer;
mod app;
mod checks;
mod git;
mod graphql;
mod issues;
mod lfs;
mod oauth;
mod pulls;
mod reactions;
mod repos;

use super::{Hub, faults::Fault, pages};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, Uri, header},
    response::{Html, IntoResponse, Response},
    routing::post,
};
use chrono::Utc;
use serde_json::{Value, json};
use std::{sync::Arc, time::Instant};
use tower::ServiceExt;

pub(super) use oauth::Wish;

const API: &str = "/api/v3";

/// A request as it was asked for, before addresses by id were replaced.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    pub method: String,
    /// Without `/api/v3`, as in `Faults::inject`.
    pub path: String,
    pub query: Option<String>,
    /// Below `/api/v3`.
    pub is_rest: bool,
    /// What the API was told as JSON.
    pub body: Option<Value>,
    /// Status of the answer; 0 when the connection was cut.
    pub status: u16,
    /// When it came.
    pub at: Instant,
}

/// Path and query as the client wrote them, for links to further pages.
#[derive(Clone)]
struct Asked(Uri);

#[derive(Clone)]
struct Front {
    hub: Arc<Hub>,
    inner: Router,
}

pub(super) fn router(hub: Arc<Hub>) -> Router {
    let rest = Router::new()
        .merge(app::routes())
        .merge(checks::routes())
        .merge(issues::routes())
        .merge(oauth::api_routes())
        .merge(pulls::routes())
        .merge(reactions::routes())
        .merge(repos::routes());
    let inner = Router::new()
        .nest(API, rest)
        .route("/api/graphql", post(graphql::query))
        .merge(oauth::web_routes())
        .merge(git::routes())
        .merge(lfs::routes())
        .merge(pages::routes())
        .with_state(hub.clone());
    Router::new().fallback(enter).with_state(Front { hub, inner })
}

async fn enter(State(front): State<Front>, request: Request) -> Response {
    let (method, at) = (request.method().to_string(), Instant::now());
    let asked = request.uri().clone();
    let below = asked.path().strip_prefix(API);
    let path = below.unwrap_or(asked.path()).to_owned();
    let (mut request, body) = match asked.path().starts_with("/api/") {
        true => read(request).await,
        false => (request, None),
    };
    let (query, is_rest) = (asked.query().map(str::to_owned), below.is_some());
    let record = |status| {
        let (method, path, query, body) = (method.clone(), path.clone(), query.clone(), body.clone());
        RequestRecord { method, path, query, is_rest, body, status, at }
    };
    if let Some(plain) = front.hub.without_id(&asked) {
        *request.uri_mut() = plain;
    }
    request.extensions_mut().insert(Asked(asked));
    if let Some(hold) = front.hub.faults.holds(&method, &path) {
        hold.wait().await;
    }
    let apply = || run(front.inner.clone(), request);
    let mut response = match front.hub.faults.strike(&method, &path) {
        None => apply().await,
        Some(Fault::Status(status)) => broken(status, &json!({ "message": "Server Error" }).to_string()),
        Some(Fault::SecondaryLimit { retry_after }) => limited(403, retry_after),
        Some(Fault::TooManyRequests { retry_after }) => limited(429, retry_after),
        Some(Fault::PrimaryLimit { reset }) => used_up(reset),
        Some(Fault::Html { status }) => {
            let page = Html("<!doctype html><title>Unicorn!</title><p>We had issues producing the response.");
            (status_of(status), page).into_response()
        }
        Some(Fault::Empty { status }) => status_of(status).into_response(),
        Some(Fault::Truncated { status }) => broken(status, r#"{"id": 1, "number": 1, "body": "so f"#),
        Some(Fault::CutAfterApplying) => cut(apply().await).await,
        Some(Fault::HangAfterApplying(time)) => {
            drain(apply().await).await;
            // Noted before the wait: a client that gives up takes this future with it.
            front.hub.note_request(record(504));
            tokio::time::sleep(time).await;
            return broken(504, "");
        }
    };
    front.hub.date(&mut response);
    let cut = response.extensions().get::<Cut>().is_some();
    let status = if cut { 0 } else { response.status().as_u16() };
    front.hub.note_request(record(status));
    response
}

/// The same request, and its body as JSON.
async fn read(request: Request) -> (Request, Option<Value>) {
    let (parts, body) = request.into_parts();
    // A body that breaks off is none to its handler, either.
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let json = serde_json::from_slice(&bytes).ok();
    (Request::from_parts(parts, Body::from(bytes)), json)
}

/// Handles a request in a task of its own: what was begun is finished, also when the client hangs up.
async fn run(inner: Router, request: Request) -> Response {
    let handled = tokio::spawn(async move {
        match inner.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    });
    match handled.await {
        Ok(response) => response,
        Err(panicked) => broken(500, &json!({ "message": panicked.to_string() }).to_string()),
    }
}

/// Marks an answer that breaks off.
#[derive(Clone)]
struct Cut;

/// Promises a body and breaks the connection instead.
async fn cut(applied: Response) -> Response {
    drain(applied).await;
    let breaking = futures::stream::once(async { Err::<Vec<u8>, _>(std::io::Error::other("cut on purpose")) });
    let mut response = Body::from_stream(breaking).into_response();
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("1024"));
    response.extensions_mut().insert(Cut);
    response
}

/// Waits until an answer is complete: git's effects end with its last byte.
async fn drain(response: Response) {
    // Whatever goes wrong in the answer, nobody is to hear of it.
    let _ = axum::body::to_bytes(response.into_body(), usize::MAX).await;
}

fn limited(status: u16, retry_after: u64) -> Response {
    let message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
    let url = "https://docs.github.com/free-pro-team@latest/rest/overview/rate-limits-for-the-rest-api";
    let mut response = broken(status, &json!({ "message": message, "documentation_url": url }).to_string());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
    response
}

fn used_up(reset: u64) -> Response {
    let message = "API rate limit exceeded for installation.";
    let url = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api";
    let mut response = broken(403, &json!({ "message": message, "documentation_url": url }).to_string());
    let headers = response.headers_mut();
    headers.insert("x-ratelimit-limit", HeaderValue::from_static("5000"));
    headers.insert("x-ratelimit-remaining", HeaderValue::from_static("0"));
    headers.insert("x-ratelimit-reset", HeaderValue::from(Utc::now().timestamp().unsigned_abs() + reset));
    response
}

fn broken(status: u16, body: &str) -> Response {
    (status_of(status), [(header::CONTENT_TYPE, "application/json")], body.to_owned()).into_response()
}

fn status_of(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl Hub {
    /// Every answer tells the time.
    fn date(&self, response: &mut Response) {
        let now = self.world().clock().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if let Ok(now) = HeaderValue::from_str(&now) {
            response.headers_mut().insert(header::DATE, now);
        }
    }

    /// `/repositories/{id}/…` as `/repos/{owner}/{name}/…`, where a redirect led there: GitHub's description of its API knows
    /// no such address.
    fn without_id(&self, asked: &Uri) -> Option<Uri> {
        let rest = asked.path().strip_prefix(API)?.strip_prefix("/repositories/")?;
        let (id, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let world = self.world();
        if !world.led_to.contains(asked.path()) {
            return None;
        }
        let full_name = world.full_name(world.repository(id.parse().ok()?).ok()?);
        let query = asked.query().map_or(String::new(), |query| format!("?{query}"));
        format!("{API}/repos/{full_name}{tail}{query}").parse().ok()
    }
}
