//! The panel's pages, one room each. Handlers turn rows into views; templates word them.

pub mod audit;
pub mod cleanup;
pub mod deliveries;
pub mod environments;
pub mod overview;
pub mod runs;

use super::{assets, error::WebError};
use askama::Template;
use axum::{
    http::StatusCode,
    response::{Html, IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use tower_sessions::Session;

const FLASH: &str = "flash";
/// Rows on a page of a list.
pub const PAGE: u32 = 50;

/// What surrounds every page.
pub struct Frame {
    pub css: String,
    /// Which entry of the navigation is current.
    pub section: &'static str,
    /// What the last action led to, shown once.
    pub flash: Option<String>,
    /// Seconds after which the page loads itself again, while something is going on.
    pub refresh: Option<u32>,
}

impl Frame {
    pub async fn load(session: &Session, section: &'static str) -> Result<Self, WebError> {
        let flash = session.remove::<String>(FLASH).await?;
        Ok(Self { css: assets::url("treewarden.css"), section, flash, refresh: None })
    }
}

pub fn render(page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => Html(html).into_response(),
        Err(error) => {
            tracing::error!(error = %error, "a page was not rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Back to a page, which will show `message` once.
pub async fn answer(session: &Session, to: &str, message: String) -> Result<Response, WebError> {
    session.insert(FLASH, message).await?;
    Ok(Redirect::to(to).into_response())
}

/// `?page=` of a list, from 1.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct PageQuery {
    page: Option<u32>,
}

/// Where a list stands, for its links.
pub struct Pager {
    pub page: u32,
    pub more: bool,
}

impl PageQuery {
    pub fn offset(self) -> u32 {
        self.number().saturating_sub(1).saturating_mul(PAGE)
    }

    fn number(self) -> u32 {
        self.page.unwrap_or(1).clamp(1, 1_000_000)
    }

    /// Cuts a list that was loaded with one row more than a page holds.
    pub fn cut<T>(self, rows: &mut Vec<T>) -> Pager {
        let more = rows.len() > PAGE as usize;
        rows.truncate(PAGE as usize);
        Pager { page: self.number(), more }
    }
}
