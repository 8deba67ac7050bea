//! `POST /webhooks/github`: verified, understood well enough to put it in order, on disk, then acknowledged.
//!
//! What can be refused by its head is refused before the body is read, so that a stranger has to make up a whole head to
//! be listened to.

use super::{WebState, body, error::WebError};
use crate::github::signature::{self, BadSignature, Claim};
use crate::orchestrator::NotArrived;
use crate::store::Accepted;
use crate::telemetry::metric;
use axum::{
    Json,
    body::{Body, HttpBody},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use serde_json::json;
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// GitHub's own limit for a payload. Source: "Webhook events and payloads".
pub const MAX_BODY: usize = 25 * 1024 * 1024;
/// GitHub's delivery ids are UUIDs, its event names short words.
const MAX_HEADER: usize = 200;
/// Rejections are logged once in this time at most.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// How long a body that is not wanted may go on arriving.
const FAREWELL: Duration = Duration::from_secs(5);

/// What is known of a delivery before its body.
struct Head {
    claim: Claim,
    guid: String,
    event: String,
}

/// Until an App is connected there is nothing here, for anybody.
pub async fn is_open(State(state): State<WebState>, request: Request, next: Next) -> Result<Response, WebError> {
    match state.inner.webhook_secret.get() {
        Some(_) => Ok(next.run(request).await),
        None => Err(WebError::NotFound),
    }
}

pub async fn receive(State(state): State<WebState>, request: Request) -> Result<Response, WebError> {
    let head = match look_at(&request) {
        Ok(head) => head,
        Err(refusal) => {
            turn_away(request);
            return Err(rejected(refusal));
        }
    };
    let body = body::whole(request.into_body(), MAX_BODY).await.map_err(rejected)?;
    let Head { claim, guid, event } = head;
    // Nothing of the body is looked at before that.
    let secret = state.inner.webhook_secret.get().ok_or(WebError::NotFound)?;
    let verified = signature::verify(secret, claim, body.bytes.clone()).map_err(|error| rejected(error.into()))?;
    let accepted = match state.inner.orchestrator.arrive(guid.clone(), event, verified).await {
        Ok(accepted) => accepted,
        Err(NotArrived::Unreadable(error)) => return Err(rejected(error.into())),
        Err(NotArrived::NotStored(error)) => {
            tracing::error!({ delivery.guid = guid, error = %error }, "a delivery was not stored; GitHub was told so");
            count("refused");
            return Err(WebError::NotStored);
        }
    };
    let status = match accepted {
        Accepted::New(_) | Accepted::Ignored => "accepted",
        Accepted::Duplicate => "duplicate",
    };
    count(status);
    Ok((StatusCode::ACCEPTED, Json(json!({"status": status}))).into_response())
}

/// Anybody may send nonsense, as often as they like; that there was some is told once in a while, since a wrong secret looks
/// the same.
fn rejected(refusal: WebError) -> WebError {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    count("rejected");
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
        *told = Some(Instant::now());
        tracing::warn!(error = %refusal, "a webhook was rejected; more of that within a minute is only counted");
    }
    refusal
}

/// Everything that the head alone can show to be wrong.
fn look_at(request: &Request) -> Result<Head, WebError> {
    let headers = request.headers();
    // Of two signatures nobody could say which was meant.
    let mut signatures = headers.get_all("x-hub-signature-256").iter();
    let claim = Claim::parse(signatures.next().map(|signature| signature.to_str().unwrap_or_default()))?;
    if signatures.next().is_some() {
        return Err(BadSignature::Malformed.into());
    }
    let required = |name: &'static str| {
        let value = text(headers, name).filter(|value| !value.is_empty() && value.len() <= MAX_HEADER);
        value.map(str::to_owned).ok_or(WebError::Header(name))
    };
    let (guid, event) = (required("x-github-delivery")?, required("x-github-event")?);
    let kind = text(headers, header::CONTENT_TYPE.as_str());
    if kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return Err(WebError::FormEncoded);
    }
    // The announced length, where there is one.
    if request.body().size_hint().lower() > MAX_BODY as u64 {
        return Err(WebError::TooLarge);
    }
    Ok(Head { claim, guid, event })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Lets the body run past, kept nowhere, while the refusal is on its way: closing the connection on somebody who still
/// sends can destroy the answer, and GitHub shows it to whoever looks for what is wrong with the settings.
fn turn_away(request: Request) {
    // Who waits to be asked for the body is not.
    if !request.headers().contains_key(header::EXPECT) {
        tokio::spawn(tokio::time::timeout(FAREWELL, forget(request.into_body())));
    }
}

async fn forget(body: Body) {
    let mut pieces = body.into_data_stream();
    while let Some(Ok(_)) = pieces.next().await {}
}

fn count(result: &'static str) {
    metrics::counter!(metric::WEBHOOKS, "result" => result).increment(1);
}
