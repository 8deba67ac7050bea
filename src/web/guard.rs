//! Who may see the panel. Until people log in with GitHub it is reachable over loopback only, with a session that a
//! one-time link opened.

use super::{WebState, error::WebError};
use axum::{
    extract::{ConnectInfo, Request, State},
    http::{Method, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use std::net::SocketAddr;
use tower_sessions::Session;

/// Name of the signed-in person in a session.
pub const SIGNED_IN: &str = "signed_in";

/// Refuses requests from other machines, and requests for another host's name (DNS rebinding).
pub async fn loopback_and_host(State(state): State<WebState>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    if !peer.is_some_and(|ip| ip.to_canonical().is_loopback()) {
        return WebError::Forbidden("The panel answers on the machine it runs on only; use an SSH tunnel to reach it.")
            .into_response();
    }
    let host = request.headers().get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let known = state.inner.public_url.split("://").nth(1).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if host != known && !matches!(name, "127.0.0.1" | "localhost" | "[::1]") {
        return WebError::Forbidden("This host name is not the one the panel is configured for.").into_response();
    }
    next.run(request).await
}

/// Lets only signed-in browsers pass; others are led to the login page.
pub async fn signed_in(session: Session, request: Request, next: Next) -> Result<Response, WebError> {
    if session.get::<String>(SIGNED_IN).await?.is_some() {
        let mut response = next.run(request).await;
        response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        return Ok(response);
    }
    match *request.method() {
        Method::GET => Ok(Redirect::to("/login").into_response()),
        _ => Err(WebError::Unauthorized("you are not signed in".to_owned())),
    }
}

/// The name actions are recorded under.
pub async fn actor(session: &Session) -> Result<String, WebError> {
    Ok(session.get::<String>(SIGNED_IN).await?.unwrap_or_default())
}
