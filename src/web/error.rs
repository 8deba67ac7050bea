//! What goes wrong in a request: a page for browsers, `{"error": …}` for programs. Each says what to do.

use super::{assets, pages::render};
use crate::github::{payload::BadPayload, signature::BadSignature};
use crate::orchestrator::{NotTaken, NotTakenUp};
use askama::Template;
use axum::{
    Json,
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub enum WebError {
    // What GitHub is told.
    #[error("{0}; nothing was stored")]
    Signature(#[from] BadSignature),
    #[error("{0}; nothing was stored")]
    Payload(#[from] BadPayload),
    #[error("the {0} header is missing or too long; nothing was stored")]
    Header(&'static str),
    #[error("set the webhook's content type to application/json; nothing was stored")]
    FormEncoded,
    #[error("the body is over 25 MB, more than GitHub ever sends; nothing was stored")]
    TooLarge,
    #[error("the body did not arrive whole; nothing was stored, deliver it again")]
    Incomplete,
    #[error("the body took too long to arrive; nothing was stored, deliver it again")]
    TooSlow,
    #[error("too many large bodies arrive at once; nothing was stored, deliver it again in a minute")]
    TooManyBodies,
    #[error("the delivery could not be stored just now; deliver it again in a minute")]
    NotStored,
    // What is told to whoever speaks on this machine.
    #[error("Nothing was done: {0}.")]
    BadMessage(String),
    #[error("Nothing was done: {0}.")]
    NotTaken(NotTaken),
    #[error("The token is missing or wrong; nothing was done. It lies in the home of the service, in local.json.")]
    NoToken,
    #[error("Pages in a browser cannot be let in here; nothing was done. The panel is for those.")]
    NoBrowsers,
    // What people are told.
    #[error("This page answers on the machine it runs on only. Use an SSH tunnel to reach it from elsewhere.")]
    Elsewhere,
    #[error("This page is not known under that host name. Open it as localhost or at its configured address.")]
    ForeignHost,
    #[error("This was not sent from the panel itself, so nothing was done. Open the page and press the button there.")]
    CrossSite,
    #[error("You are not signed in, or your session has ended. Nothing was changed. Sign in, then try again.")]
    NotSignedIn,
    #[error(
        "This link was used already or is older than an hour. Restart the service for a fresh one: it prints one when it starts. \
         Work that is under way is not lost by that."
    )]
    UsedLink,
    #[error(
        "This answer of GitHub is none that this browser waits for: it is an old one, or the set-up was not begun here within the \
         last ten minutes. GitHub was not asked, and nothing was changed here. If an App was made just now, delete it on GitHub; then \
         begin again at /setup."
    )]
    UnawaitedAnswer,
    #[error("{0}")]
    NotTakenUp(NotTakenUp),
    #[error("There is nothing here. It may have been removed, or the address is mistyped.")]
    NotFound,
    #[error("Something went wrong here. Nothing was changed by this page; the log of the service has the details.")]
    Internal(#[source] anyhow::Error),
}

macro_rules! internal {
    ($($error:ty),*) => {$(
        impl From<$error> for WebError {
            fn from(error: $error) -> Self {
                WebError::Internal(error.into())
            }
        }
    )*};
}

impl From<NotTaken> for WebError {
    fn from(error: NotTaken) -> Self {
        match error {
            NotTaken::Store(error) => {
                tracing::error!(%error, "the database did not answer; who sent a message was told to send it again");
                WebError::NotStored
            }
            error => WebError::NotTaken(error),
        }
    }
}

internal!(crate::store::StoreError, tower_sessions::session::Error, tokio::task::JoinError);

impl WebError {
    fn status(&self) -> StatusCode {
        match self {
            WebError::Signature(_) | WebError::NotSignedIn | WebError::NoToken => StatusCode::UNAUTHORIZED,
            WebError::BadMessage(_) => StatusCode::UNPROCESSABLE_ENTITY,
            WebError::NotTaken(error) => match error {
                NotTaken::UnknownCodebase(_) | NotTaken::UnknownConversation(_) | NotTaken::NothingToBeginWith(_) => {
                    StatusCode::NOT_FOUND
                }
                NotTaken::OtherCodebase { .. } => StatusCode::CONFLICT,
                NotTaken::NoRepository { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                NotTaken::Store(_) | NotTaken::Unwritable(_) => StatusCode::INTERNAL_SERVER_ERROR,
            },
            WebError::Payload(_) | WebError::Header(_) | WebError::Incomplete => StatusCode::BAD_REQUEST,
            WebError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            WebError::FormEncoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            WebError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            WebError::NotStored | WebError::TooManyBodies => StatusCode::SERVICE_UNAVAILABLE,
            WebError::NoBrowsers
            | WebError::Elsewhere
            | WebError::ForeignHost
            | WebError::CrossSite
            | WebError::UnawaitedAnswer
            | WebError::UsedLink => StatusCode::FORBIDDEN,
            WebError::NotTakenUp(_) => StatusCode::CONFLICT,
            WebError::NotFound => StatusCode::NOT_FOUND,
            WebError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The sentence, carried beside the response until [`as_page_or_json`] words it for whoever asked.
#[derive(Clone)]
struct Explanation(String);

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        if let WebError::Internal(error) = &self {
            tracing::error!(error = %format!("{error:#}"), "a request failed");
        }
        let mut response = self.status().into_response();
        if let WebError::NotStored | WebError::TooManyBodies = self {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("30"));
        }
        response.extensions_mut().insert(Explanation(self.to_string()));
        response
    }
}

pub async fn unknown_page() -> WebError {
    WebError::NotFound
}

/// Whether a browser asks, for a person who reads pages.
pub fn is_browser(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

#[derive(Template)]
#[template(path = "message.html")]
struct ErrorPage {
    assets: assets::Urls,
    status: StatusCode,
    text: String,
}

/// Words every refusal, ours and the framework's, as a page or as JSON; answers that are worded already stay as they are.
pub async fn as_page_or_json(request: Request, next: Next) -> Response {
    let browser = is_browser(request.headers());
    let response = next.run(request).await;
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || is_worded(response.headers()) {
        return response;
    }
    let text = match response.extensions().get::<Explanation>() {
        Some(Explanation(text)) => text.clone(),
        None => of_the_framework(status).to_owned(),
    };
    let mut worded = match browser {
        true => render(&ErrorPage { assets: assets::Urls::new(), status, text }),
        false => Json(json!({"error": text})).into_response(),
    };
    *worded.status_mut() = status;
    for (name, value) in response.headers() {
        if ![header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name) {
            worded.headers_mut().append(name, value.clone());
        }
    }
    worded
}

/// The framework's own refusals are plain text.
fn is_worded(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    kind.starts_with(b"application/json") || kind.starts_with(b"text/html")
}

fn of_the_framework(status: StatusCode) -> &'static str {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => "This address cannot be used that way. Nothing was changed.",
        StatusCode::PAYLOAD_TOO_LARGE => "That is more than any form here holds. Nothing was changed.",
        StatusCode::SERVICE_UNAVAILABLE => "This took too long. Look at the page again before you repeat it.",
        status if status.is_client_error() => "The address or the form was not understood. Nothing was changed.",
        _ => "Something went wrong here. The log of the service has the details.",
    }
}
