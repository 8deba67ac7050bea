//! One-time links into the panel: random, kept as hashes in memory, used up by the first click on the button they show.

use super::{WebState, assets, error::WebError, guard, pages::render};
use crate::model::Timestamp;
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
    sync::{Arc, Mutex},
    time::Duration,
};
use tower_sessions::Session;
use uuid::Uuid;

const VALID_FOR: Duration = Duration::from_secs(3600);

/// Links that were handed out and not used yet.
#[derive(Clone, Default)]
pub struct LoginLinks {
    open: Arc<Mutex<HashMap<[u8; 32], Timestamp>>>,
}

impl LoginLinks {
    /// The path of a new link, good for an hour.
    pub fn issue(&self, now: Timestamp) -> String {
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        self.locked().insert(digest(&token), now.plus(VALID_FOR));
        format!("/login/one-time?token={token}")
    }

    /// Uses a token up; false when it is unknown, used or too old.
    fn redeem(&self, token: &str, now: Timestamp) -> bool {
        let mut open = self.locked();
        open.retain(|_, until| *until > now);
        open.remove(&digest(token)).is_some()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Timestamp>> {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
    css: String,
    token: Option<String>,
}

/// Says how to get in.
pub async fn ask() -> Response {
    render(&LoginPage { css: assets::url("treewarden.css"), token: None })
}

/// Shows the button; following the link alone (a preview, a prefetch) uses nothing up.
pub async fn confirm(Query(query): Query<Token>) -> Response {
    render(&LoginPage { css: assets::url("treewarden.css"), token: Some(query.token) })
}

pub async fn enter(
    State(state): State<WebState>,
    session: Session,
    Form(form): Form<Token>,
) -> Result<Response, WebError> {
    if !state.inner.links.redeem(&form.token, state.now()) {
        return Err(WebError::Forbidden(
            "This link was used already or is older than an hour. The service prints a new one at its next start.",
        ));
    }
    session.cycle_id().await?;
    session.insert(guard::SIGNED_IN, "operator").await?;
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
        assert!(!links.redeem("", start));
        assert!(links.redeem(&first, start));
        assert!(!links.redeem(&first, start));
        let late = token(links.issue(start));
        assert!(!links.redeem(&late, start.plus(VALID_FOR)));
    }
}
