//! Every route, in one table, and what stands around them.

use super::{WebState, assets, error, guard, health, local, login, pages, session, webhook};
use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, MatchedPath, Request},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    response::IntoResponse,
    routing::{get, post},
};
use std::time::Duration;
use tower::ServiceBuilder;
use tower_http::{
    catch_panic::CatchPanicLayer, compression::CompressionLayer, csrf::CsrfLayer, set_header::SetResponseHeaderLayer,
    timeout::TimeoutLayer, trace::TraceLayer,
};

/// No request takes longer than this. What a button started goes on nevertheless: see [`super::verbs`].
const TIMEOUT: Duration = Duration::from_secs(60);
/// More than any form of the panel holds.
const MAX_FORM: usize = 64 * 1024;

pub fn router(state: WebState) -> Router {
    let panel = Router::new()
        .route("/", get(pages::overview::show))
        .route("/environments", get(pages::environments::list))
        .route("/environments/{id}", get(pages::environment::show))
        .route("/environments/{id}/{verb}", post(pages::environment::act))
        .route("/runs", get(pages::runs::list))
        .route("/runs/{id}", get(pages::run::show))
        .route("/runs/{id}/stop", post(pages::run::stop))
        .route("/codebases/{id}/mode", post(pages::overview::set_mode))
        .route("/cleanup", get(pages::cleanup::show).post(pages::cleanup::run))
        .route("/cleanup/orphans", get(pages::orphans::show))
        .route("/cleanup/orphans/{verb}", post(pages::orphans::act))
        .route("/deliveries", get(pages::deliveries::show))
        .route("/audit", get(pages::audit::show))
        .route("/doctor", get(pages::doctor::show))
        .route("/setup", get(pages::setup::show).post(pages::setup::propose))
        // Everything above needs a session.
        .route_layer(from_fn_with_state(state.clone(), guard::signed_in))
        // What it changes needs one that waits for it.
        .route("/setup/callback", get(pages::setup::take_up))
        .route("/login", get(login::ask))
        .route("/login/one-time", get(login::confirm).post(login::enter))
        .route("/logout", post(login::leave))
        .layer(
            ServiceBuilder::new()
                .layer(from_fn_with_state(state.clone(), guard::direct_and_local))
                .layer(CsrfLayer::new().with_rejection_response(|_| error::WebError::CrossSite.into_response()))
                .layer(set(header::CACHE_CONTROL, "no-store"))
                .layer(DefaultBodyLimit::max(MAX_FORM))
                .layer(from_fn_with_state(state.clone(), session::attach)),
        );

    let machines = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready).layer(Extension(health::Check::default())))
        .route("/metrics", get(health::metrics).route_layer(from_fn_with_state(state.clone(), guard::direct_and_local)))
        .route("/assets/{hash}/{name}", get(assets::serve));

    let mut doors = Router::new()
        .route("/webhooks/github", post(webhook::receive))
        .route_layer(from_fn_with_state(state.clone(), webhook::is_open));
    // What is not there is not routed: nobody can be told apart from a stranger.
    if state.inner.local_token.is_some() {
        let messages = get(local::read).post(local::say).delete(local::close);
        let around = ServiceBuilder::new()
            .layer(from_fn_with_state(state.clone(), guard::direct_and_local))
            .layer(set(header::CACHE_CONTROL, "no-store"))
            .layer(from_fn_with_state(state.clone(), local::holds_token));
        doors = doors.merge(Router::new().route("/local/messages", messages).route_layer(around));
    }

    panel
        .merge(machines)
        .merge(doors)
        .fallback(error::unknown_page)
        .layer(
            ServiceBuilder::new()
                .layer(TraceLayer::new_for_http().make_span_with(span).on_failure(()))
                .layer(set(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY))
                .layer(set(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
                .layer(set(header::REFERRER_POLICY, "same-origin"))
                .layer(set(header::X_FRAME_OPTIONS, "DENY"))
                .layer(set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
                .layer(CompressionLayer::new())
                .layer(from_fn(error::as_page_or_json))
                .layer(CatchPanicLayer::new())
                .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, TIMEOUT)),
        )
        .with_state(state)
}

const CONTENT_POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// The same for a page with a form that goes to GitHub.
pub(super) fn policy_with_forms_to(origin: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&CONTENT_POLICY.replace("form-action 'self'", &format!("form-action 'self' {origin}"))).ok()
}

fn set(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}

/// Names the route, not the address: queries carry one-time tokens.
fn span(request: &Request) -> tracing::Span {
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str);
    tracing::info_span!("http.request", http.method = %request.method(), http.route = route)
}
