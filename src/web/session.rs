//! The session cookie. A session holds who signed in, when that was last used, one message to show, and what an answer of
//! GitHub has to bring back; nothing else.

use super::{WebState, error::WebError, guard};
use crate::model::Timestamp;
use crate::store::WebSessions;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;
use tower::{Layer, ServiceExt};
use tower_sessions::{Expiry, Session, SessionManagerLayer, cookie::SameSite};

/// A session ends after this long without a request.
const IDLE: time::Duration = time::Duration::hours(8);
/// Use is written down this often at most, so that looking at pages does not write to the database each time.
const NOTED_EVERY: Duration = Duration::from_secs(300);
const SIGNED_IN: &str = "signed_in";
const LAST_USE: &str = "last_use";
/// An answer of GitHub that is waited for.
const AWAITED: &str = "awaited";
/// For so long.
const AWAITED_FOR: Duration = Duration::from_secs(600);

/// Gives each request its session, by the kind of cookie that fits the way it came.
pub async fn attach(State(state): State<WebState>, request: Request, next: Next) -> Response {
    // Safari keeps no `Secure` cookie of plain HTTP. No page can choose its browser's Host, and who makes one up by hand only
    // weakens a cookie of their own, which still takes a one-time link to get.
    let plain = guard::is_plain_loopback(&state.inner.public_url)
        || guard::names_this_machine(request.headers(), request.uri());
    let Ok(response) = layer(&state, !plain).layer(next).oneshot(request).await;
    response
}

fn layer(state: &WebState, secure: bool) -> SessionManagerLayer<WebSessions> {
    SessionManagerLayer::new(WebSessions::new(state.inner.store.clone()))
        .with_name(if secure { "__Host-treewarden" } else { "treewarden" })
        .with_secure(secure)
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_expiry(Expiry::OnInactivity(IDLE))
}

/// Signs somebody in, under a new session id: one that was known before is worth nothing afterwards.
pub async fn open(session: &Session, who: &str, now: Timestamp) -> Result<(), WebError> {
    session.cycle_id().await?;
    session.insert(SIGNED_IN, who).await?;
    session.insert(LAST_USE, now).await?;
    Ok(())
}

/// Who is signed in, if anybody; counts as use.
pub async fn who(session: &Session, now: Timestamp) -> Result<Option<String>, WebError> {
    let who = session.get::<String>(SIGNED_IN).await?;
    if who.is_some() {
        let last = session.get::<Timestamp>(LAST_USE).await?;
        if last.is_none_or(|last| now.since(last) >= NOTED_EVERY) {
            // Any change moves the session's end.
            session.insert(LAST_USE, now).await?;
        }
    }
    Ok(who)
}

/// An answer of GitHub that is waited for, and what was wished for when it was asked.
#[derive(Serialize, Deserialize)]
pub struct Awaited {
    /// SHA-256 of the state, in hex.
    state: String,
    since: Timestamp,
    /// That deliveries are fetched.
    pub fetches: bool,
}

/// What GitHub has to bring back with its answer, known to this session only: one answer is waited for at a time.
pub async fn await_answer(session: &Session, fetches: bool, now: Timestamp) -> Result<String, WebError> {
    let mut state = [0; 32];
    // The system's random source does not fail once the process runs; without randomness anybody could answer.
    aws_lc_rs::rand::fill(&mut state).expect("the system gives random bytes");
    let state = hex::encode(state);
    session.insert(AWAITED, Awaited { state: digest(&state), since: now, fetches }).await?;
    Ok(state)
}

/// What the session waits for, if this is its answer. Whatever comes, it waits for none after that.
pub async fn take_awaited(session: &Session, state: &str, now: Timestamp) -> Result<Option<Awaited>, WebError> {
    let Some(awaited) = session.remove::<Awaited>(AWAITED).await? else { return Ok(None) };
    // Not only once this one is answered: another may come before.
    session.save().await?;
    let same = verify_slices_are_equal(digest(state).as_bytes(), awaited.state.as_bytes()).is_ok();
    Ok(Some(awaited).filter(|awaited| same && now.since(awaited.since) < AWAITED_FOR))
}

fn digest(state: &str) -> String {
    hex::encode(Sha256::digest(state.as_bytes()))
}
