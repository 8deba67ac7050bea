//! `/deliveries`: the inbox, each delivery with what it led to.

use super::rows::Catalog;
use super::{Frame, PageQuery, render};
use crate::model::{RepositoryId, RunId};
use crate::web::view::{Mark, PAGE, Pager, Prose, When, ago, offset};
use crate::web::{WebState, error::WebError};
use askama::Template;
use axum::{
    extract::{Query, State},
    response::Response,
};
use tower_sessions::Session;

struct Row {
    when: When,
    guid: String,
    event: String,
    /// Repository and number, where they are known.
    about: String,
    mark: Mark,
    /// The run it led to.
    run: Option<RunId>,
    result: Prose,
    tries: i64,
}

#[derive(Template)]
#[template(path = "deliveries.html")]
struct Page {
    frame: Frame,
    rows: Vec<Row>,
    pager: Pager,
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Query(PageQuery { page }): Query<PageQuery>,
) -> Result<Response, WebError> {
    let catalog = Catalog::load(&state).await?;
    let mut deliveries = state.inner.store.list_deliveries(PAGE + 1, offset(page)).await?;
    let pager = Pager::cut(&mut deliveries, page, &[]);
    let rows = deliveries.into_iter().map(|delivery| Row {
        when: ago(delivery.received_at, catalog.now),
        guid: delivery.guid,
        event: delivery.event,
        about: delivery.conversation_key.map(|key| state.shown(&in_names(&catalog, key))).unwrap_or_default(),
        mark: delivery.state.into(),
        run: delivery.reason.as_deref().and_then(|reason| reason.strip_prefix("run ")?.parse().ok()),
        result: delivery.reason.as_deref().map(|why| state.prose(why)).unwrap_or_default(),
        tries: delivery.tries,
    });
    let rows = rows.collect();
    Ok(render(&Page { frame: Frame::load(&state, &session, "/deliveries").await?, rows, pager }))
}

/// A key names the repository by its id: `1296269#42`. People know it by its name.
fn in_names(catalog: &Catalog, key: String) -> String {
    let (repository, number) = match key.split_once('#') {
        Some((repository, number)) => (repository, format!("#{number}")),
        None => (key.as_str(), String::new()),
    };
    let known = repository.parse().ok().and_then(|id| catalog.by_github(RepositoryId(id)));
    known.map(|codebase| format!("{}{number}", codebase.name)).unwrap_or(key)
}
