//! One-time links into the panel: random, kept as hashes in memory, used up by the first click on the button they show.

use super::{WebState, assets, error::WebError, pages::render, session};
use crate::model::Timestamp;
use crate::store::WebSessions;
use askama::Template;
use axum::{
    Form,
    extract::{Query, State},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tower_sessions::Session;

const VALID_FOR: Duration = Duration::from_secs(3600);
/// Who somebody is who came by a one-time link: whoever can read the service's output.
const OPERATOR: &str = "operator";

/// Links that were handed out and not used yet.
#[derive(Clone, Default)]
pub struct LoginLinks {
    open: Arc<Mutex<HashMap<[u8; 32], Timestamp>>>,
}

impl LoginLinks {
    /// The path of a new link, good for an hour.
    pub fn issue(&self, now: Timestamp) -> String {
        let mut token = [0; 32];
        // The system's random source does not fail once the process runs; without randomness there is no link to give.
        aws_lc_rs::rand::fill(&mut token).expect("the system gives random bytes");
        let token = hex::encode(token);
        let mut open = self.locked();
        open.retain(|_, until| *until > now);
        open.insert(digest(&token), now.plus(VALID_FOR));
        format!("/login/one-time?token={token}")
    }

    /// Uses a token up; false when it is unknown, used or too old.
    fn redeem(&self, token: &str, now: Timestamp) -> bool {
        self.locked().remove(&digest(token)).is_some_and(|until| until > now)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<[u8; 32], Timestamp>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[derive(Deserialize)]
pub struct Token {
    #[serde(default)]
    token: String,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    assets: assets::Urls,
    /// From the link; absent when somebody came without one.
    token: Option<String>,
    port: u16,
}

/// Says how to get in.
pub async fn ask(State(state): State<WebState>) -> Response {
    render(&LoginPage { assets: assets::Urls::new(), token: None, port: state.inner.port })
}

/// Shows the button; following the link alone (a preview, a prefetch) uses nothing up.
pub async fn confirm(State(state): State<WebState>, Query(query): Query<Token>) -> Response {
    let token = Some(query.token).filter(|token| !token.is_empty());
    render(&LoginPage { assets: assets::Urls::new(), token, port: state.inner.port })
}

pub async fn enter(
    State(state): State<WebState>,
    session: Session,
    Form(form): Form<Token>,
) -> Result<Response, WebError> {
    let now = state.now();
    if !state.inner.links.redeem(&form.token, now) {
        return Err(WebError::UsedLink);
    }
    session::open(&session, OPERATOR, now).await?;
    if let Err(error) = WebSessions::new(state.inner.store.clone()).prune(now).await {
        tracing::warn!(error = %error, "sessions that have ended were not removed from the database");
    }
    Ok(Redirect::to("/").into_response())
}

pub async fn leave(session: Session) -> Result<Response, WebError> {
    session.flush().await?;
    Ok(Redirect::to("/login").into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once_and_for_an_hour() {
        let links = LoginLinks::default();
        let start = Timestamp::from_unix(1000);
        let token = |path: String| path.split('=').nth(1).unwrap().to_owned();
        let first = token(links.issue(start));
        assert_eq!(first.len(), 64);
        assert!(!links.redeem("", start));
        assert!(links.redeem(&first, start));
        assert!(!links.redeem(&first, start));
        let late = token(links.issue(start));
        assert!(!links.redeem(&late, start.plus(VALID_FOR)));
    }

    #[test]
    fn links_that_ended_are_forgotten() {
        let links = LoginLinks::default();
        links.issue(Timestamp::from_unix(0));
        links.issue(Timestamp::from_unix(3600));
        assert_eq!(links.locked().len(), 1);
    }
}
