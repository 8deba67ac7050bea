//! `/deliveries`: the inbox, each delivery with what it led to.

use super::{Frame, PAGE, PageQuery, Pager, render};
use crate::web::{
    WebState,
    error::WebError,
    format::{When, ago},
};
use askama::Template;
use axum::{
    extract::{Query, State},
    response::Response,
};
use tower_sessions::Session;

struct DeliveryRow {
    when: When,
    guid: String,
    event: String,
    thread: String,
    state: &'static str,
    reason: String,
    attempts: i64,
}

#[derive(Template)]
#[template(path = "deliveries.html")]
struct Page {
    frame: Frame,
    rows: Vec<DeliveryRow>,
    pager: Pager,
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Query(page): Query<PageQuery>,
) -> Result<Response, WebError> {
    let now = state.now();
    let deliveries = state.inner.store.list_deliveries(PAGE + 1, page.offset()).await?;
    let mut rows: Vec<DeliveryRow> = deliveries
        .into_iter()
        .map(|delivery| DeliveryRow {
            when: ago(delivery.received_at, now),
            guid: delivery.guid,
            event: delivery.event,
            thread: delivery.conversation_key.unwrap_or_default(),
            state: delivery.state.as_str(),
            reason: delivery.reason.unwrap_or_default(),
            attempts: delivery.attempts,
        })
        .collect();
    let pager = page.cut(&mut rows);
    Ok(render(&Page { frame: Frame::load(&session, "deliveries").await?, rows, pager }))
}
