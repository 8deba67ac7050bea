//! What goes wrong in a request: a page for browsers, `{"error": …}` for programs. Each says what to do.

use super::{assets, pages::render};
use askama::Template;
use axum::{
    Json,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}; nothing was stored")]
    Unauthorized(String),
    #[error("{0}")]
    Forbidden(&'static str),
    #[error("There is nothing here. It may have been removed, or the address is mistyped.")]
    NotFound,
    #[error("the body is over 25 MB, more than GitHub ever sends; nothing was stored")]
    TooLarge,
    #[error("set the webhook's content type to application/json; nothing was stored")]
    WrongContentType,
    #[error("{0}; nothing was stored, deliver it again")]
    Busy(String),
    #[error("Something went wrong here. Nothing was changed; the log of the service has the details.")]
    Internal(#[from] anyhow::Error),
}

impl From<crate::store::StoreError> for WebError {
    fn from(error: crate::store::StoreError) -> Self {
        WebError::Internal(error.into())
    }
}

impl From<crate::orchestrator::StepError> for WebError {
    fn from(error: crate::orchestrator::StepError) -> Self {
        WebError::Internal(error.into())
    }
}

impl From<tower_sessions::session::Error> for WebError {
    fn from(error: tower_sessions::session::Error) -> Self {
        WebError::Internal(error.into())
    }
}

impl WebError {
    fn status(&self) -> StatusCode {
        match self {
            WebError::BadRequest(_) => StatusCode::BAD_REQUEST,
            WebError::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            WebError::Forbidden(_) => StatusCode::FORBIDDEN,
            WebError::NotFound => StatusCode::NOT_FOUND,
            WebError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            WebError::WrongContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            WebError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            WebError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Carried beside the response, so that [`as_page_or_json`] can word it for whoever asked.
#[derive(Clone)]
struct Explanation(String);

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        if let WebError::Internal(error) = &self {
            tracing::error!(error = %format!("{error:#}"), "a request failed");
        }
        let text = self.to_string();
        let mut response = (self.status(), Json(json!({"error": text}))).into_response();
        if let WebError::Busy(_) = self {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("30"));
        }
        response.extensions_mut().insert(Explanation(text));
        response
    }
}

#[derive(Template)]
#[template(path = "message.html")]
struct ErrorPage {
    css: String,
    status: StatusCode,
    text: String,
}

pub async fn unknown_page() -> WebError {
    WebError::NotFound
}

/// Errors that know what they mean become a page when a browser asked.
pub async fn as_page_or_json(request: Request, next: Next) -> Response {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let browser = accept.is_some_and(|accept| accept.contains("text/html"));
    let response = next.run(request).await;
    let status = response.status();
    if !browser || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let text = match response.extensions().get::<Explanation>() {
        Some(Explanation(text)) => text.clone(),
        None => status.canonical_reason().unwrap_or("The request was refused").to_owned(),
    };
    let mut page = render(&ErrorPage { css: assets::url("treewarden.css"), status, text });
    *page.status_mut() = status;
    page
}
