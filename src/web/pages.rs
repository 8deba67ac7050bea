//! The panel's pages, one file each. Handlers turn rows into views; templates word them.

pub mod audit;
mod checks;
pub mod cleanup;
pub mod deliveries;
pub mod doctor;
pub mod environment;
pub mod environments;
pub mod orphans;
pub mod overview;
mod rows;
pub mod run;
pub mod runs;
pub mod setup;

use super::{WebState, assets::Urls, error::WebError, flash::Flash};
use askama::Template;
use axum::{
    http::StatusCode,
    response::{Html, IntoResponse, Response},
};
use serde::Deserialize;
use tower_sessions::Session;

/// The entries of the navigation: address and name.
const SECTIONS: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/environments", "Environments"),
    ("/runs", "Runs"),
    ("/cleanup", "Cleanup"),
    ("/deliveries", "Deliveries"),
    ("/audit", "Audit"),
    ("/doctor", "Doctor"),
];

/// What surrounds every page.
pub struct Frame {
    pub assets: Urls,
    /// Which entry of the navigation is current, by its address.
    pub section: &'static str,
    /// What the last action led to, shown once.
    pub flash: Option<Flash>,
    /// People write `@<slug>`.
    pub slug: String,
    /// Something is going on: the page loads itself again after so many seconds.
    pub refresh: Option<u32>,
    /// It would, but was told not to.
    pub paused: bool,
}

impl Frame {
    pub async fn load(state: &WebState, session: &Session, section: &'static str) -> Result<Self, WebError> {
        let flash = Flash::take(state, session).await?;
        Ok(Self {
            assets: Urls::new(),
            section,
            flash,
            slug: state.inner.orchestrator.identity().slug.clone(),
            refresh: None,
            paused: false,
        })
    }

    /// The page loads itself again while `going_on`, unless the address says not to. A message stays long enough to be read.
    pub fn follow(&mut self, going_on: bool, choice: LiveQuery) {
        let off = matches!(choice.live, Some(LiveChoice::Off));
        self.paused = going_on && off;
        self.refresh = (going_on && !off).then_some(if self.flash.is_some() { 15 } else { 4 });
    }

    fn sections(&self) -> &'static [(&'static str, &'static str)] {
        &SECTIONS
    }
}

/// `?live=off`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct LiveQuery {
    live: Option<LiveChoice>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LiveChoice {
    Off,
}

/// `?page=` of a list.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct PageQuery {
    page: Option<u32>,
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
