//! `/local/messages`: the platform of this machine, for people and scripts without GitHub. Only there when it is switched on,
//! for whoever shows the token that lies in the service's home; never for a browser.
//!
//! A message is on disk before it is acknowledged, like every delivery, and is handled like every other.

use super::{WebState, body, error::WebError};
use crate::model::*;
use crate::orchestrator::NotTaken;
use crate::store::{Accepted, NewDelivery};
use axum::{
    Json,
    extract::{Query, Request, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

/// As many characters as GitHub takes in a comment.
const MAX_TEXT: usize = 65_536;
/// What that may be as JSON, with everything escaped.
const MAX_BODY: usize = 1024 * 1024;
/// An id that a caller gives a message.
const MAX_ID: usize = 200;
/// Messages in one answer.
const PAGE: u32 = 200;
/// What a browser says about where a request comes from; no other program does.
const BROWSERS_SAY: [&str; 2] = ["origin", "sec-fetch-site"];

/// What a message has to look like.
const FORM: &str = "the body has to be a JSON object with \"text\", and beside that only \"conversation\", \"codebase\" and \
                    \"id\", each a string";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    text: String,
    /// Absent: a new conversation.
    conversation: Option<String>,
    /// Name or absolute path; may be left out once the conversation is there.
    codebase: Option<String>,
    /// The same id again is the same message again.
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    conversation: String,
    /// Only what was written after this.
    #[serde(default)]
    after: i64,
}

/// A message as it can be read.
#[derive(Serialize)]
struct Shown {
    id: LocalMessageId,
    /// `treewarden`, or who spoke.
    author: String,
    /// Id of the message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<LocalMessageId>,
    text: String,
    /// What to ask `after` next.
    written: i64,
    /// State of the run that it asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunState>,
    /// How far the handling of what was asked is.
    #[serde(skip_serializing_if = "Option::is_none")]
    handling: Option<InboxState>,
    at: Timestamp,
    edited_at: Timestamp,
}

impl From<LocalMessage> for Shown {
    fn from(message: LocalMessage) -> Self {
        let LocalMessage { id, author, answers, body, written, run, handling, created_at, updated_at } = message;
        let author = author.unwrap_or_else(|| "treewarden".to_owned());
        Self { id, author, answers, text: body, written, run, handling, at: created_at, edited_at: updated_at }
    }
}

/// Lets pass who shows the token. Pages in a browser never do, and are not even told whether they guessed it.
pub async fn holds_token(State(state): State<WebState>, request: Request, next: Next) -> Response {
    if BROWSERS_SAY.iter().any(|name| request.headers().contains_key(*name)) {
        return WebError::NoBrowsers.into_response();
    }
    let shown = bearer(request.headers());
    let expected = state.inner.local_token.as_ref();
    match shown.zip(expected).is_some_and(|(shown, expected)| is_same(shown, expected)) {
        true => next.run(request).await,
        false => WebError::NoToken.into_response(),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// Of hashes, so that how long it takes tells nothing.
fn is_same(shown: &str, expected: &SecretString) -> bool {
    Sha256::digest(shown) == Sha256::digest(expected.expose_secret())
}

pub async fn say(State(state): State<WebState>, request: Request) -> Result<Response, WebError> {
    let whole = body::whole(request.into_body(), MAX_BODY).await.map_err(|error| match error {
        WebError::TooLarge => WebError::BadMessage("it is over 1 MB".to_owned()),
        error => error,
    })?;
    let said: Said = serde_json::from_slice(&whole.bytes).map_err(|_| WebError::BadMessage(FORM.to_owned()))?;
    let too_long = said.text.chars().count() > MAX_TEXT;
    if said.text.trim().is_empty() || too_long {
        let why = if too_long { "the text is over 65,536 characters" } else { "there is no text" };
        return Err(WebError::BadMessage(why.to_owned()));
    }
    if said.id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_ID) {
        return Err(WebError::BadMessage("an id has 1 to 200 bytes".to_owned()));
    }
    let name = match &said.conversation {
        Some(name) => named(name)?,
        None => named(&new_name(&said))?,
    };
    let orchestrator = &state.inner.orchestrator;
    let (codebase, id) = (said.codebase.as_deref(), said.id.as_deref());
    let is_command = orchestrator.is_command_here(&said.text);
    let delivery = orchestrator.message_from_here(name.clone(), codebase, said.text, id).await?;
    let (status, id) = accept(&state, delivery).await?;
    let answer = json!({"status": status, "id": id, "conversation": name.as_str(), "command": is_command});
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

pub async fn read(
    State(state): State<WebState>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, WebError> {
    let Asked { conversation, after } = understood(asked)?;
    let (name, orchestrator) = (named(&conversation)?, &state.inner.orchestrator);
    let Some(seen) = orchestrator.look_at_conversation(&name, after, PAGE).await? else {
        return Err(NotTaken::UnknownConversation(name).into());
    };
    let after = seen.messages.last().map_or(after, |message| message.written);
    let messages: Vec<Shown> = seen.messages.into_iter().map(Shown::from).collect();
    Ok(Json(json!({
        "conversation": name.as_str(),
        "codebase": seen.codebase.map(|codebase| codebase.to_string()),
        "state": seen.state,
        "busy": seen.busy || messages.len() >= PAGE as usize,
        "after": after,
        "messages": messages,
    }))
    .into_response())
}

pub async fn close(
    State(state): State<WebState>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, WebError> {
    let name = named(&understood(asked)?.conversation)?;
    let delivery = state.inner.orchestrator.closing_from_here(name.clone()).await?;
    let (status, _) = accept(&state, delivery).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({"status": status, "conversation": name.as_str()}))).into_response())
}

/// Of a conversation that is begun. The same message leads to the same one.
fn new_name(said: &Said) -> String {
    let name = match &said.id {
        Some(id) => {
            let codebase = said.codebase.as_deref().unwrap_or_default();
            hex::encode(Sha256::new().chain_update(codebase).chain_update([0]).chain_update(id).finalize())
        }
        None => uuid::Uuid::new_v4().simple().to_string(),
    };
    format!("c-{}", &name[..12])
}

fn understood(asked: Result<Query<Asked>, QueryRejection>) -> Result<Asked, WebError> {
    let form = "it has to be asked with ?conversation=<its name>, and beside that only &after=<a number>";
    asked.map(|Query(asked)| asked).map_err(|_| WebError::BadMessage(form.to_owned()))
}

fn named(name: &str) -> Result<ThreadName, WebError> {
    ThreadName::new(name).map_err(|error| WebError::BadMessage(error.to_string()))
}

async fn accept(state: &WebState, delivery: NewDelivery) -> Result<(&'static str, Option<InboxId>), WebError> {
    let (guid, out_of_turn) = (delivery.guid.clone(), delivery.out_of_turn);
    let accepted = state.inner.orchestrator.inbox().accept(delivery).await.map_err(|error| {
        tracing::error!({ delivery.guid = guid, error = %error }, "a message was not stored; who sent it was told so");
        WebError::NotStored
    })?;
    let (status, id) = match accepted {
        Accepted::New(id) => {
            state.inner.orchestrator.delivery_arrived(out_of_turn);
            ("accepted", Some(id))
        }
        Accepted::Ignored | Accepted::Duplicate => ("duplicate", state.inner.store.find_delivery(&guid).await?),
    };
    Ok((status, id))
}
