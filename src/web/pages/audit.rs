//! `/audit`: who did what, newest first; entries are never changed.

use super::{Frame, render};
use crate::web::view::{Prose, When, ago};
use crate::web::{WebState, error::WebError};
use askama::Template;
use axum::{extract::State, response::Response};
use tower_sessions::Session;

const ROWS: u32 = 200;

struct Row {
    when: When,
    actor: String,
    action: String,
    subject: String,
    detail: Prose,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    rows: Vec<Row>,
}

pub async fn show(State(state): State<WebState>, session: Session) -> Result<Response, WebError> {
    let now = state.now();
    let entries = state.inner.store.list_audit(ROWS).await?.into_iter();
    let rows = entries.map(|entry| Row {
        when: ago(entry.at, now),
        actor: entry.actor,
        action: entry.action.replace(['.', '_'], " "),
        subject: state.shown(&entry.subject),
        detail: state.prose(&entry.detail),
    });
    let rows = rows.collect();
    Ok(render(&Page { frame: Frame::load(&state, &session, "/audit").await?, rows }))
}
