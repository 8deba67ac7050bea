//! Every route, in one table, and what stands around them.

use super::{WebState, assets, error, guard, health, login, pages, webhook};
use crate::store::WebSessions;
use axum::{
    Router,
    http::{HeaderName, HeaderValue},
    middleware::{from_fn, from_fn_with_state},
    routing::{get, post},
};
use std::time::Duration;
use tower::ServiceBuilder;
use tower_http::{
    catch_panic::CatchPanicLayer, compression::CompressionLayer, csrf::CsrfLayer, set_header::SetResponseHeaderLayer,
    timeout::TimeoutLayer,
};
use tower_sessions::{Expiry, SessionManagerLayer, cookie::SameSite};

/// A page or an action takes no longer than this.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A session ends after this long without a click that changes it.
const IDLE_HOURS: i64 = 8;

pub fn router(state: WebState) -> Router {
    // Browsers keep `Secure` cookies off plain HTTP, except when the panel is only reached over loopback.
    let secure = state.inner.public_url.starts_with("https://");
    let sessions = SessionManagerLayer::new(WebSessions::new(state.inner.store.clone()))
        .with_name(if secure { "__Host-treewarden" } else { "treewarden" })
        .with_secure(secure)
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_expiry(Expiry::OnInactivity(time::Duration::hours(IDLE_HOURS)));

    let panel = Router::new()
        .route("/", get(pages::overview::show))
        .route("/environments", get(pages::environments::list))
        .route("/environments/{id}", get(pages::environments::show))
        .route("/environments/{id}/remove", post(pages::environments::remove))
        .route("/environments/{id}/pin", post(pages::environments::pin))
        .route("/runs", get(pages::runs::list))
        .route("/runs/{id}", get(pages::runs::show))
        .route("/runs/{id}/stop", post(pages::runs::stop))
        .route("/cleanup", get(pages::cleanup::show).post(pages::cleanup::run))
        .route("/deliveries", get(pages::deliveries::show))
        .route("/audit", get(pages::audit::show))
        .route_layer(from_fn(guard::signed_in))
        .route("/login", get(login::ask))
        .route("/login/one-time", get(login::confirm).post(login::enter))
        .route("/logout", post(login::leave))
        .layer(
            ServiceBuilder::new()
                .layer(from_fn_with_state(state.clone(), guard::loopback_and_host))
                .layer(CsrfLayer::new())
                .layer(sessions),
        );

    let machines = Router::new()
        .route("/webhooks/github", post(webhook::receive))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/assets/{*name}", get(assets::serve));

    panel
        .merge(machines)
        .fallback(error::unknown_page)
        .layer(
            ServiceBuilder::new()
                .layer(from_fn(error::as_page_or_json))
                .layer(CatchPanicLayer::new())
                .layer(TimeoutLayer::with_status_code(axum::http::StatusCode::GATEWAY_TIMEOUT, TIMEOUT))
                .layer(CompressionLayer::new())
                .layer(header("content-security-policy", CONTENT_POLICY))
                .layer(header("x-content-type-options", "nosniff"))
                .layer(header("referrer-policy", "same-origin"))
                .layer(header("x-frame-options", "DENY")),
        )
        .with_state(state)
}

const CONTENT_POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

fn header(name: &'static str, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(HeaderName::from_static(name), HeaderValue::from_static(value))
}
