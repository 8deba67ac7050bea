//! `/environments`: every isolated place, and why it is kept.

use super::rows::{Catalog, EnvironmentRow};
use super::{Frame, render};
use crate::store::EnvironmentFilter;
use crate::web::view::{PAGE, Pager, offset};
use crate::web::{WebState, error::WebError};
use askama::Template;
use axum::{
    extract::{Query, State},
    response::Response,
};
use serde::Deserialize;
use tower_sessions::Session;

/// What is shown; all of it stands in the address.
#[derive(Deserialize)]
pub struct ListQuery {
    #[serde(default)]
    q: String,
    #[serde(default)]
    codebase: String,
    /// Also those that were removed.
    #[serde(default)]
    all: bool,
    page: Option<u32>,
}

impl ListQuery {
    fn is_narrow(&self) -> bool {
        !self.q.is_empty() || !self.codebase.is_empty()
    }
}

#[derive(Template)]
#[template(path = "environments.html")]
struct ListPage {
    frame: Frame,
    query: ListQuery,
    codebases: Vec<String>,
    rows: Vec<EnvironmentRow>,
    pager: Pager,
}

pub async fn list(
    State(state): State<WebState>,
    session: Session,
    Query(query): Query<ListQuery>,
) -> Result<Response, WebError> {
    let catalog = Catalog::load(&state).await?;
    let mut rows = Vec::new();
    // A codebase that is not known has no environments.
    if let Some(filter) = filter(&catalog, &query) {
        for environment in state.inner.store.list_environments(&filter, PAGE + 1, offset(query.page)).await? {
            rows.push(EnvironmentRow::load(&catalog, &environment).await?);
        }
    }
    let all = if query.all { "true" } else { "" };
    let chosen = [("q", query.q.as_str()), ("codebase", query.codebase.as_str()), ("all", all)];
    let pager = Pager::cut(&mut rows, query.page, &chosen);
    let codebases = catalog.codebases().iter().map(|codebase| codebase.name.to_string()).collect();
    let frame = Frame::load(&state, &session, "/environments").await?;
    Ok(render(&ListPage { frame, query, codebases, rows, pager }))
}

fn filter(catalog: &Catalog, query: &ListQuery) -> Option<EnvironmentFilter> {
    let codebase = match query.codebase.as_str() {
        "" => None,
        name => Some(catalog.named(name)?.id),
    };
    Some(EnvironmentFilter { codebase, live_only: !query.all, search: query.q.clone() })
}
