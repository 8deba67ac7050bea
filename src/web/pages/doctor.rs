//! `/doctor`: everything that has to be right, as it was looked at last, and what mends the rest.

use super::checks::{Line, Mend, examined, line};
use super::{Frame, LiveQuery, render};
use crate::web::view::{When, ago};
use crate::web::{WebState, error::WebError};
use askama::Template;
use axum::{
    extract::{Query, State},
    response::Response,
};
use tower_sessions::Session;

#[derive(Template)]
#[template(path = "doctor.html")]
struct Page {
    frame: Frame,
    /// Absent while it is looked at.
    found: Option<Found>,
}

struct Found {
    when: When,
    wrong: usize,
    lines: Vec<Line>,
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Query(live): Query<LiveQuery>,
) -> Result<Response, WebError> {
    let mut frame = Frame::load(&state, &session, "/doctor").await?;
    let found = examined(&state).await.map(|found| Found {
        when: ago(found.at, state.now()),
        wrong: found.checks.iter().filter(|check| !check.fine).count(),
        lines: found.checks.into_iter().map(|check| line(&state, check)).collect(),
    });
    frame.follow(found.is_none(), live);
    Ok(render(&Page { frame, found }))
}
