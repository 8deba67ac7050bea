//! `/cleanup/orphans`: what is on the disk and no environment has, why it stays, and what can be done about it.

use super::{Frame, render, rows::Catalog};
use crate::model::*;
use crate::orchestrator::sweep::Orphan;
use crate::reply::orphans as words;
use crate::web::view::{Prose, When, ago};
use crate::web::{WebState, error::WebError, guard::Actor, verbs};
use askama::Template;
use axum::{
    Form,
    extract::{Path, State},
    response::Response,
};
use serde::Deserialize;
use std::str::FromStr;
use tower_sessions::Session;

pub const PAGE: &str = "/cleanup/orphans";

struct Row {
    codebase: CodebaseId,
    repository: String,
    kind: &'static str,
    /// As it is: a button has to find it again.
    place: String,
    shown: String,
    branch: Option<String>,
    touched: Option<When>,
    goes: bool,
    reasons: Vec<Prose>,
    may_be_adopted: bool,
    may_be_removed: bool,
    only_by_force: bool,
    /// Why neither button is there yet.
    later: Option<String>,
}

#[derive(Template)]
#[template(path = "orphans.html")]
struct Page {
    frame: Frame,
    rows: Vec<Row>,
    /// Those that are not looked at for this page.
    more: usize,
    /// Codebases that could not be looked at, with the reason.
    unseen: Vec<(String, Prose)>,
    /// Repositories that the database has not heard from, with what lies there.
    unheard: Vec<(String, Prose)>,
    /// For how many days the trash keeps what is not committed.
    trash_days: u64,
}

pub async fn show(State(state): State<WebState>, session: Session) -> Result<Response, WebError> {
    let catalog = Catalog::load(&state).await?;
    let (mut rows, mut more, mut unseen) = (Vec::new(), 0, Vec::new());
    for codebase in catalog.codebases() {
        match state.inner.orchestrator.orphans(codebase).await {
            Ok((orphans, further)) => {
                rows.extend(orphans.into_iter().map(|orphan| row(&state, codebase, orphan)));
                more += further;
            }
            Err(error) => unseen.push((codebase.name.to_string(), state.prose(&error.to_string()))),
        }
    }
    let unheard = state.inner.orchestrator.unheard().await?.into_iter().map(|unheard| {
        let words = words::unheard(unheard.directories, unheard.path.as_deref());
        (state.shown(&unheard.name), state.prose(&words))
    });
    let unheard = unheard.collect();
    let trash_days = crate::reply::days(state.inner.orchestrator.trash_for());
    let frame = Frame::load(&state, &session, "/cleanup").await?;
    Ok(render(&Page { frame, rows, more, unseen, unheard, trash_days }))
}

fn row(state: &WebState, codebase: &Codebase, orphan: Orphan) -> Row {
    Row {
        codebase: codebase.id,
        repository: codebase.name.to_string(),
        kind: orphan.kind,
        shown: state.shown(&orphan.place),
        place: orphan.place,
        branch: orphan.branch.map(|branch| state.shown(branch.as_str())),
        touched: orphan.touched.map(|at| ago(at, state.now())),
        goes: orphan.goes,
        reasons: orphan.reasons.iter().map(|why| state.prose(why)).collect(),
        may_be_adopted: orphan.may_be_adopted,
        may_be_removed: orphan.may_be_removed,
        only_by_force: orphan.only_by_force,
        later: words::later(orphan.removable_from, orphan.may_be_adopted && orphan.removable_once_adopted),
    }
}

/// What a button asks for: the end of its address.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Adopt,
    Remove,
    RemoveByForce,
}

impl FromStr for Verb {
    type Err = WebError;

    fn from_str(text: &str) -> Result<Self, WebError> {
        match text {
            "adopt" => Ok(Verb::Adopt),
            "remove" => Ok(Verb::Remove),
            "remove-by-force" => Ok(Verb::RemoveByForce),
            _ => Err(WebError::NotFound),
        }
    }
}

/// Which one: its place is looked for among those that are there, never gone to.
#[derive(Deserialize)]
pub struct Which {
    codebase: String,
    place: String,
}

pub async fn act(
    State(state): State<WebState>,
    session: Session,
    actor: Actor,
    Path(verb): Path<String>,
    Form(Which { codebase, place }): Form<Which>,
) -> Result<Response, WebError> {
    let verb: Verb = verb.parse()?;
    let id: CodebaseId = codebase.parse().map_err(|_| WebError::NotFound)?;
    let codebase = state.inner.store.load_codebase(id).await?.ok_or(WebError::NotFound)?;
    let (told, page) = match verb {
        Verb::Adopt => verbs::adopt_orphan(&state, codebase, place, actor).await?,
        Verb::Remove => verbs::remove_orphan(&state, codebase, place, false, actor).await?,
        Verb::RemoveByForce => verbs::remove_orphan(&state, codebase, place, true, actor).await?,
    };
    told.on(&session, &page).await
}
