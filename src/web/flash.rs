//! What an action led to, shown once on the page after it. The sentences are in `flash.html`.

use super::view::Prose;
use super::{WebState, error::WebError};
use crate::model::{CodebaseMode, EnvironmentId};
use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tower_sessions::Session;

const KEY: &str = "flash";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Template)]
#[template(path = "flash.html")]
pub enum Flash {
    Removed {
        proof: String,
        /// A person wanted it, whatever was not committed.
        #[serde(default)]
        forced: bool,
    },
    Kept {
        branch: String,
        reasons: Vec<String>,
    },
    Gone {
        branch: String,
    },
    /// By an earlier press.
    ThereAlready {
        id: EnvironmentId,
    },
    Restored {
        /// The environment that is made anew.
        id: EnvironmentId,
        notes: Vec<String>,
    },
    /// Its work has another one.
    Occupied {
        work: String,
    },
    NothingToRestore,
    /// A worktree that no environment had is one now.
    Adopted {
        name: String,
    },
    /// Only a registration was left at a place.
    TakenOut {
        place: String,
    },
    /// What no environment has stays as it is.
    Stays {
        place: String,
        reasons: Vec<String>,
    },
    /// Nothing without an environment is at a place.
    NotThere {
        place: String,
    },
    Pinned {
        branch: String,
    },
    Unpinned {
        branch: String,
    },
    /// A codebase is switched on, staged or off.
    Mode {
        name: String,
        mode: CodebaseMode,
    },
    Stopping,
    OverAlready,
    Pass {
        dry_run: bool,
        /// In numbers.
        outcome: String,
        all_looked_at: bool,
    },
    /// What a removal would do.
    WouldGo {
        branch: String,
        proof: String,
        branch_deleted: bool,
        /// Until when the trash would keep what is not committed.
        kept_until: Option<String>,
    },
    WouldStay {
        branch: String,
        reasons: Vec<String>,
    },
    /// It takes longer than a page waits.
    GoesOn,
    /// An App that GitHub made, or was about to make.
    NotTakenUp {
        why: String,
    },
    Failed {
        why: String,
    },
}

impl Flash {
    /// Takes the message that waits in a session, as a page may show it.
    pub async fn take(state: &WebState, session: &Session) -> Result<Option<Self>, WebError> {
        let mut waiting = session.get::<Value>(KEY).await?;
        if let Some(waiting) = &mut waiting {
            session.remove_value(KEY).await?;
            shown(state, waiting);
        }
        // One that another version left is not shown.
        Ok(waiting.and_then(|waiting| serde_json::from_value(waiting).ok()))
    }

    /// Back to a page, which will show this.
    pub async fn on(self, session: &Session, page: &str) -> Result<Response, WebError> {
        session.insert(KEY, self).await?;
        Ok(Redirect::to(page).into_response())
    }

    fn tone(&self) -> &'static str {
        match self {
            Flash::Removed { .. } | Flash::Pinned { .. } | Flash::Unpinned { .. } | Flash::Gone { .. } => "good",
            Flash::Mode { .. } | Flash::Restored { .. } | Flash::Adopted { .. } | Flash::TakenOut { .. } => "good",
            Flash::Kept { .. }
            | Flash::Stays { .. }
            | Flash::NotThere { .. }
            | Flash::OverAlready
            | Flash::Occupied { .. }
            | Flash::NothingToRestore
            | Flash::ThereAlready { .. } => "wait",
            Flash::Stopping | Flash::GoesOn => "busy",
            Flash::Pass { all_looked_at: true, .. } | Flash::WouldGo { .. } => "good",
            Flash::WouldStay { .. } => "wait",
            Flash::Pass { all_looked_at: false, .. } | Flash::NotTakenUp { .. } | Flash::Failed { .. } => "bad",
        }
    }

    fn prose(text: &str) -> Prose {
        Prose::of_shown(text)
    }
}

/// Every text in it, wherever it stands.
fn shown(state: &WebState, value: &mut Value) {
    match value {
        Value::String(text) => *text = state.shown(text),
        Value::Array(values) => values.iter_mut().for_each(|value| shown(state, value)),
        Value::Object(fields) => fields.values_mut().for_each(|value| shown(state, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
