//! Pages of the stand-in for people: enough of GitHub to watch the demo and to take part in it as its visitor, also
//! without JavaScript (a small script only keeps an open thread up to date).
//!
//! Everything here goes through the same actions as the API. Text of people is Markdown with raw HTML shown as text.

mod apps;
mod code;
mod diff;
mod forms;
mod markdown;
mod show;

use super::{Hub, http::Wish, refusal::Refusal};
use askama::Template;
use axum::{
    Router,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use std::sync::Arc;
use tower_http::{csrf::CsrfLayer, set_header::SetResponseHeaderLayer};

const STYLE: &str = include_str!("../../../templates/demo/standin.css");
const SCRIPT: &str = include_str!("../../../templates/demo/standin.js");
/// Everybody's picture.
const AVATAR: &str =
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'><circle cx='4' cy='4' r='4' fill='#98a2b0'/></svg>";
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'",
);

pub(super) fn routes() -> Router<Arc<Hub>> {
    let own = Router::new()
        .route("/", get(show::home))
        .route("/-/standin.css", get(|| asset("text/css; charset=utf-8", STYLE)))
        .route("/-/standin.js", get(|| asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/-/avatar.svg", get(|| asset("image/svg+xml", AVATAR)))
        .route("/{owner}/{repo}", get(show::repository))
        .route("/{owner}/{repo}/commit/{sha}", get(code::commit))
        .route("/{owner}/{repo}/tree/{*revision}", get(code::tree))
        .route("/{owner}/{repo}/compare/{*range}", get(code::compare))
        .route("/{owner}/{repo}/issues", post(forms::open_issue))
        .route("/{owner}/{repo}/issues/{number}", get(show::thread))
        .route("/{owner}/{repo}/pull/{number}", get(show::thread))
        .route("/{owner}/{repo}/issues/{number}/comments", post(forms::comment))
        .route("/{owner}/{repo}/issues/{number}/close", post(forms::close))
        .route("/{owner}/{repo}/issues/{number}/reopen", post(forms::reopen))
        .route("/{owner}/{repo}/issues/{number}/ready", post(forms::ready))
        .route("/{owner}/{repo}/issues/{number}/merge", post(forms::merge))
        .route("/{owner}/{repo}/issues/{number}/press", post(forms::press))
        .route("/settings/apps", post(apps::register))
        .route("/organizations/{organization}/settings/apps", post(apps::register))
        .route("/apps/{slug}/installations/new", get(apps::choose))
        .route("/github-apps/{slug}/installations/new", get(apps::choose))
        .route("/github-apps/{slug}/installations", post(apps::install))
        .layer(CsrfLayer::new());
    // Manifests come from other sites.
    own.route("/settings/apps/new", post(apps::propose))
        .route("/organizations/{organization}/settings/apps/new", post(apps::propose))
        .layer(SetResponseHeaderLayer::overriding(header::CONTENT_SECURITY_POLICY, POLICY))
        .layer(SetResponseHeaderLayer::overriding(
            HeaderName::from_static("referrer-policy"),
            HeaderValue::from_static("same-origin"),
        ))
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}

#[derive(Template)]
#[template(path = "demo/message.html")]
struct Message {
    title: &'static str,
    text: String,
}

#[derive(Template)]
#[template(path = "demo/consent.html")]
struct Consent<'a> {
    title: &'static str,
    app: &'a str,
    wish: &'a Wish,
    people: Vec<String>,
}

/// The page that asks a person to sign in with the App.
pub(super) fn consent(app: &str, wish: &Wish, people: Vec<String>) -> Response {
    page(StatusCode::OK, &Consent { title: "Sign in", app, wish, people })
}

/// A refusal as a page.
pub(super) fn refused(refusal: &Refusal) -> Response {
    let status = match refusal {
        Refusal::NotFound(_) => StatusCode::NOT_FOUND,
        Refusal::Unauthorized(_) | Refusal::Forbidden(_) => StatusCode::FORBIDDEN,
        Refusal::NotAllowed(_) | Refusal::Conflict(_) => StatusCode::CONFLICT,
        Refusal::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::Git(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    page(status, &Message { title: "That did not work", text: refusal.to_string() })
}

fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
