//! `/audit`: who did what, newest first; entries are never changed.

use super::{Frame, render};
use crate::model::AuditEntry;
use crate::web::{WebState, error::WebError};
use askama::Template;
use axum::{extract::State, response::Response};
use tower_sessions::Session;

const ROWS: u32 = 200;

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    rows: Vec<AuditEntry>,
}

pub async fn show(State(state): State<WebState>, session: Session) -> Result<Response, WebError> {
    let rows = state.inner.store.list_audit(ROWS).await?;
    Ok(render(&Page { frame: Frame::load(&session, "audit").await?, rows }))
}
