//! `POST /webhooks/github`: verified, understood well enough to put it in order, on disk, then acknowledged.

use super::{WebState, error::WebError};
use crate::github::{payload, signature};
use crate::store::{Accepted, NewDelivery};
use crate::telemetry::metric;
use axum::{
    Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::json;
use sha2::{Digest, Sha256};

/// GitHub's own limit for a payload. Source: "Webhook events and payloads".
pub const MAX_BODY: usize = 25 * 1024 * 1024;
/// GitHub's delivery ids are UUIDs, its event names short words.
const MAX_HEADER: usize = 200;

pub async fn receive(
    State(state): State<WebState>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, WebError> {
    let delivery = examine(&state, &headers, body?)?;
    let guid = delivery.guid.clone();
    let accepted = state.inner.inbox.accept(delivery).await.map_err(|error| {
        tracing::error!({ delivery.guid = guid, error = %error }, "a delivery was not stored; GitHub was told so");
        count("refused");
        WebError::NotStored
    })?;
    let status = match accepted {
        Accepted::New(_) => {
            state.inner.orchestrator.delivery_arrived();
            "accepted"
        }
        Accepted::Duplicate => "duplicate",
    };
    count(status);
    Ok((StatusCode::ACCEPTED, Json(json!({"status": status}))).into_response())
}

/// Nothing of the body is looked at before its signature was checked.
fn examine(state: &WebState, headers: &HeaderMap, body: Bytes) -> Result<NewDelivery, WebError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let body = signature::verify(&state.inner.webhook_secret, text("x-hub-signature-256"), body)?.into_inner();
    if text(CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return Err(WebError::FormEncoded);
    }
    let required = |name: &'static str| {
        let value = text(name).filter(|value| !value.is_empty() && value.len() <= MAX_HEADER);
        value.map(str::to_owned).ok_or(WebError::Header(name))
    };
    let (guid, event) = (required("x-github-delivery")?, required("x-github-event")?);
    let conversation_key = payload::conversation_key(&body)?;
    let ignored_because =
        (!payload::is_known(&event)).then(|| format!("Treewarden does not act on the event {event:?}"));
    Ok(NewDelivery {
        // The event is no part of what is signed, but the same body under another event is another delivery.
        body_key: hex::encode(Sha256::new().chain_update(&event).chain_update([0]).chain_update(&body).finalize()),
        guid,
        event,
        conversation_key,
        body: body.into(),
        ignored_because,
        at: state.now(),
    })
}

fn count(result: &'static str) {
    metrics::counter!(metric::WEBHOOKS, "result" => result).increment(1);
}
