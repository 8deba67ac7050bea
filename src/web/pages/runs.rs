//! `/runs`: what the agent was asked, newest first.

use super::rows::{Catalog, RunRow};
use super::{Frame, LiveQuery, PageQuery, render};
use crate::store::RunFilter;
use crate::web::view::{PAGE, Pager, offset};
use crate::web::{WebState, error::WebError};
use askama::Template;
use axum::{
    extract::{Query, State},
    response::Response,
};
use tower_sessions::Session;

#[derive(Template)]
#[template(path = "runs.html")]
struct Page {
    frame: Frame,
    rows: Vec<RunRow>,
    pager: Pager,
}

pub async fn list(
    State(state): State<WebState>,
    session: Session,
    Query(PageQuery { page }): Query<PageQuery>,
    Query(live): Query<LiveQuery>,
) -> Result<Response, WebError> {
    let catalog = Catalog::load(&state).await?;
    let mut runs = state.inner.store.list_runs(RunFilter::default(), PAGE + 1, offset(page)).await?;
    let pager = Pager::cut(&mut runs, page, &[]);
    let rows = RunRow::load_all(&catalog, &runs).await?;
    let mut frame = Frame::load(&state, &session, "/runs").await?;
    frame.follow(rows.iter().any(|row| row.live) && pager.is_first(), live);
    Ok(render(&Page { frame, rows, pager }))
}
