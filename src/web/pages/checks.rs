//! What was looked at, as lines of a list.

use crate::model::{Check, Examination};
use crate::web::WebState;
use crate::web::view::{Mark, Prose, When, of_check};
use std::time::Duration;

/// How long a page waits for an examination, which goes on nevertheless.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Line {
    pub what: &'static str,
    pub mark: Mark,
    pub seen: Prose,
    pub mend: Option<Mend>,
    pub when: Option<When>,
}

pub enum Mend {
    Run(String),
    Open(String),
}

/// Absent: it is not over yet.
pub async fn examined(state: &WebState) -> Option<Examination> {
    tokio::time::timeout(PATIENCE, state.inner.orchestrator.examine()).await.ok()
}

pub fn line(state: &WebState, check: Check) -> Line {
    let mend = check.mend.map(|mend| state.shown(&mend));
    let mend = mend.map(|mend| match mend.starts_with("https://") || mend.starts_with("http://") {
        true => Mend::Open(mend),
        false => Mend::Run(mend),
    });
    Line { what: check.what, mark: of_check(check.fine), seen: state.prose(&check.seen), mend, when: None }
}
