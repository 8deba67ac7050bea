//! `POST /webhooks/github`: verified, understood well enough to put it in order, on disk, then acknowledged.

use super::{WebState, error::WebError};
use crate::github::{payload, signature};
use crate::store::{Accepted, NewDelivery, StoreError};
use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::json;
use sha2::{Digest, Sha256};

/// GitHub's own limit for a payload.
const MAX_BODY: usize = 25 * 1024 * 1024;

pub async fn receive(State(state): State<WebState>, headers: HeaderMap, body: Body) -> Result<Response, WebError> {
    let body = axum::body::to_bytes(body, MAX_BODY).await.map_err(|_| WebError::TooLarge)?;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Nothing of the body is looked at before this.
    let body = signature::verify(&state.inner.webhook_secret, text("x-hub-signature-256"), body)
        .map_err(|error| WebError::Unauthorized(error.to_string()))?
        .into_inner();
    if text(CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return Err(WebError::WrongContentType);
    }
    let required = |name: &str| {
        let value = text(name).filter(|value| !value.is_empty() && value.len() <= 200);
        value.map(str::to_owned).ok_or_else(|| WebError::BadRequest(format!("the {name} header is missing")))
    };
    let (guid, event) = (required("x-github-delivery")?, required("x-github-event")?);
    let conversation_key = payload::conversation_key(&body).map_err(|error| WebError::BadRequest(error.to_string()))?;
    let ignored_because =
        (!payload::is_known(&event)).then(|| format!("Treewarden does not act on the event {event:?}"));
    let delivery = NewDelivery {
        // The event is no part of what is signed, but the same body under another event is another delivery.
        body_key: hex::encode(Sha256::new().chain_update(&event).chain_update([0]).chain_update(&body).finalize()),
        guid,
        event,
        conversation_key,
        body: body.into(),
        ignored_because,
        at: state.now(),
    };
    let accepted = state.inner.inbox.accept(delivery).await.map_err(|error| {
        metrics::counter!("treewarden_webhooks_total", "result" => "refused").increment(1);
        match error {
            StoreError::Full => WebError::Busy("the inbox is full".to_owned()),
            error => WebError::Busy(error.to_string()),
        }
    })?;
    let status = match accepted {
        Accepted::New(_) => {
            state.inner.orchestrator.delivery_arrived();
            "accepted"
        }
        Accepted::Duplicate => "duplicate",
    };
    metrics::counter!("treewarden_webhooks_total", "result" => status).increment(1);
    Ok((StatusCode::ACCEPTED, Json(json!({"status": status}))).into_response())
}
