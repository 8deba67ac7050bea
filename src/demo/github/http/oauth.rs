//! Signing in with the App: the page that asks for consent, the exchange of the code (with PKCE), the user behind a token
//! and its revocation.
//!
//! https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app

use super::{
    access::{Caller, basic},
    answer::{Answer, Input, no_content, ok},
};
use crate::demo::github::{
    Hub,
    auth::{LoginCode, random_text},
    model::AccountKind,
    pages,
    refusal::Refusal,
    world::World,
};
use crate::model::percent_encoded;
use axum::{
    Form, Json, Router,
    extract::{FromRequest, Path, Query, Request, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Redirect, Response},
    routing::{delete, get, post},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;

pub(super) fn api_routes() -> Router<Arc<Hub>> {
    Router::new().route("/user", get(show_user)).route("/applications/{client_id}/token", delete(revoke))
}

pub(super) fn web_routes() -> Router<Arc<Hub>> {
    let consent =
        Router::new().route("/login/oauth/authorize", get(ask).post(consent)).layer(tower_http::csrf::CsrfLayer::new());
    consent.route("/login/oauth/access_token", post(exchange))
}

async fn show_user(State(hub): State<Arc<Hub>>, caller: Caller) -> Answer {
    match caller {
        Caller::Person(account) => ok(hub.world().account_json(account)),
        Caller::App | Caller::Grant(_) => Err(Refusal::Forbidden("Resource not accessible by integration".to_owned())),
    }
}

/// What a client sends the browser with.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::demo::github) struct Wish {
    pub client_id: String,
    pub redirect_uri: String,
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub code_challenge: String,
    #[serde(default)]
    pub code_challenge_method: String,
}

fn check(world: &World, wish: &Wish) -> Result<(), Refusal> {
    if wish.client_id != world.app.client_id {
        return Err(Refusal::missing("an App with this client id"));
    }
    let loopback = ["http://127.0.0.1", "http://localhost", "http://[::1]"].iter().any(|host| {
        let rest = wish.redirect_uri.strip_prefix(host);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
    });
    if !loopback {
        return Err(Refusal::invalid("The redirect_uri is not associated with this application."));
    }
    if !wish.code_challenge.is_empty() && wish.code_challenge_method != "S256" {
        return Err(Refusal::invalid("code_challenge_method must be S256"));
    }
    Ok(())
}

async fn ask(State(hub): State<Arc<Hub>>, Query(wish): Query<Wish>) -> Response {
    let world = hub.world();
    if let Err(refused) = check(&world, &wish) {
        return pages::refused(&refused);
    }
    let people = world.accounts.values().filter(|account| account.kind == AccountKind::User);
    pages::consent(&world.app.name, &wish, people.map(|account| account.login.clone()).collect())
}

#[derive(Deserialize)]
struct Consent {
    login: String,
    #[serde(flatten)]
    wish: Wish,
}

async fn consent(State(hub): State<Arc<Hub>>, Form(Consent { login, wish }): Form<Consent>) -> Response {
    let mut world = hub.world();
    let account = match check(&world, &wish).and_then(|()| person(&world, &login)) {
        Ok(account) => account,
        Err(refused) => return pages::refused(&refused),
    };
    let code = random_text()[..20].to_owned();
    let login = LoginCode {
        account,
        redirect_uri: wish.redirect_uri.clone(),
        challenge: (!wish.code_challenge.is_empty()).then(|| wish.code_challenge.clone()),
        expires_at: world.clock() + chrono::TimeDelta::minutes(10),
    };
    world.sessions.codes.insert(code.clone(), login);
    let joint = if wish.redirect_uri.contains('?') { '&' } else { '?' };
    let target = format!("{}{joint}code={code}&state={}", wish.redirect_uri, percent_encoded(&wish.state));
    Redirect::to(&target).into_response()
}

fn person(world: &World, login: &str) -> Result<i64, Refusal> {
    let account = world.find_account(login).filter(|account| account.kind == AccountKind::User);
    account.map(|account| account.id).ok_or_else(|| Refusal::missing(format!("user {login}")))
}

#[derive(Deserialize)]
struct Exchange {
    client_id: String,
    client_secret: String,
    code: String,
    redirect_uri: Option<String>,
    code_verifier: Option<String>,
}

/// The exchange as a form or as JSON.
impl FromRequest<Arc<Hub>> for Exchange {
    type Rejection = Response;

    async fn from_request(request: Request, hub: &Arc<Hub>) -> Result<Self, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("application/json")) {
            return Input::from_request(request, hub).await.map(|Input(exchange)| exchange);
        }
        Form::from_request(request, hub).await.map(|Form(exchange)| exchange).map_err(IntoResponse::into_response)
    }
}

/// Errors come with status 200, as GitHub sends them; as a form unless JSON is accepted.
async fn exchange(State(hub): State<Arc<Hub>>, headers: HeaderMap, exchange: Exchange) -> Response {
    let mut world = hub.world();
    let answer = match take_code(&mut world, &exchange) {
        Ok(account) => {
            let token = world.sessions.issue_person(account);
            [("access_token", token), ("scope", String::new()), ("token_type", "bearer".to_owned())].to_vec()
        }
        Err((error, description)) => {
            [("error", error.to_owned()), ("error_description", description.to_owned())].to_vec()
        }
    };
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("json") {
        let object: serde_json::Map<String, Value> =
            answer.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        return Json(object).into_response();
    }
    let pairs: Vec<String> = answer.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
    ([(header::CONTENT_TYPE, "application/x-www-form-urlencoded")], pairs.join("&")).into_response()
}

fn take_code(world: &mut World, exchange: &Exchange) -> Result<i64, (&'static str, &'static str)> {
    if exchange.client_id != world.app.client_id || exchange.client_secret != world.app.client_secret {
        return Err(("incorrect_client_credentials", "The client_id and/or client_secret passed are incorrect."));
    }
    let bad = ("bad_verification_code", "The code passed is incorrect or expired.");
    let login = world.sessions.codes.remove(&exchange.code).ok_or(bad)?;
    let fits = login.expires_at > world.clock() && pkce_fits(&login, exchange.code_verifier.as_deref());
    if !fits {
        return Err(bad);
    }
    if exchange.redirect_uri.as_ref().is_some_and(|uri| *uri != login.redirect_uri) {
        return Err(("redirect_uri_mismatch", "The redirect_uri MUST match the registered callback URL."));
    }
    Ok(login.account)
}

fn pkce_fits(login: &LoginCode, verifier: Option<&str>) -> bool {
    let Some(challenge) = &login.challenge else { return true };
    verifier.is_some_and(|verifier| URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())) == *challenge)
}

#[derive(Deserialize)]
struct Revocation {
    access_token: String,
}

async fn revoke(
    State(hub): State<Arc<Hub>>,
    Path(client_id): Path<String>,
    headers: HeaderMap,
    Input(revocation): Input<Revocation>,
) -> Answer {
    let mut world = hub.world();
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let credentials = value.and_then(|value| value.strip_prefix("Basic ")).and_then(basic);
    let ours = (world.app.client_id.clone(), world.app.client_secret.clone());
    if client_id != ours.0 || credentials != Some(ours) {
        return Err(Refusal::missing("application"));
    }
    match world.sessions.people.remove(&revocation.access_token) {
        Some(_) => no_content(),
        None => Err(Refusal::invalid("token is unknown")),
    }
}
