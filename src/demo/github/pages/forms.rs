//! What the visitor can do by a click: write, close, reopen, merge, press a button of a check run. Each form leads back to the thread it is on.

use super::refused;
use crate::{
    demo::github::{Hub, actions::merge::MergeMethod, model::Actor, refusal::Refusal},
    model::Permission,
};
use axum::{
    Form,
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use std::sync::Arc;

/// `/{owner}/{repo}/issues/{number}/…`
#[derive(Deserialize)]
pub(super) struct Place {
    owner: String,
    repo: String,
    #[serde(default)]
    number: i64,
}

#[derive(Deserialize)]
pub(super) struct NewIssue {
    title: String,
    body: String,
}

#[derive(Deserialize)]
pub(super) struct Text {
    body: String,
}

/// A button below a check run.
#[derive(Deserialize)]
pub(super) struct Press {
    check_run: i64,
    identifier: String,
}

type State_ = State<Arc<Hub>>;

pub(super) async fn open_issue(State(hub): State_, Path(place): Path<Place>, Form(new): Form<NewIssue>) -> Response {
    let opened = hub.visit(&place, Permission::Read).and_then(|(repository, visitor)| {
        hub.world().open_issue(repository, visitor, &new.title, &lines(&new.body), &[])
    });
    back(&place, opened)
}

pub(super) async fn comment(State(hub): State_, Path(place): Path<Place>, Form(text): Form<Text>) -> Response {
    let written = hub
        .visit(&place, Permission::Read)
        .and_then(|(repository, visitor)| hub.world().comment(repository, place.number, visitor, &lines(&text.body)));
    back(&place, written.map(|_| place.number))
}

pub(super) async fn close(State(hub): State_, Path(place): Path<Place>) -> Response {
    set_open(&hub, &place, false)
}

pub(super) async fn reopen(State(hub): State_, Path(place): Path<Place>) -> Response {
    set_open(&hub, &place, true)
}

pub(super) async fn ready(State(hub): State_, Path(place): Path<Place>) -> Response {
    let done = hub
        .visit(&place, Permission::Write)
        .and_then(|(repository, visitor)| hub.world().set_draft(repository, place.number, visitor, false));
    back(&place, done.map(|()| place.number))
}

pub(super) async fn merge(State(hub): State_, Path(place): Path<Place>) -> Response {
    let merged = match hub.visit(&place, Permission::Write) {
        Ok((repository, visitor)) => {
            hub.merge_pull(repository, place.number, visitor, MergeMethod::Squash, None).await.map(|_| place.number)
        }
        Err(refusal) => Err(refusal),
    };
    back(&place, merged)
}

pub(super) async fn press(State(hub): State_, Path(place): Path<Place>, Form(press): Form<Press>) -> Response {
    let Press { check_run, identifier } = press;
    let pressed = hub.visit(&place, Permission::Write).and_then(|(repository, visitor)| {
        hub.world().press_check_run(repository, check_run, visitor, Some(&identifier))
    });
    back(&place, pressed.map(|()| place.number))
}

fn set_open(hub: &Hub, place: &Place, open: bool) -> Response {
    let done = hub
        .visit(place, Permission::Triage)
        .and_then(|(repository, visitor)| hub.world().set_open(repository, place.number, visitor, open, None));
    back(place, done.map(|()| place.number))
}

impl Hub {
    /// The repository a form is about, and the visitor, if they have the permission it takes.
    fn visit(&self, place: &Place, needed: Permission) -> Result<(i64, Actor), Refusal> {
        let world = self.world();
        let repository = world.repository_named(&format!("{}/{}", place.owner, place.repo))?;
        if repository.permission_of(self.visitor) < needed {
            let login = world.login(self.visitor);
            return Err(Refusal::Forbidden(format!("{login} needs the permission {needed} for that.")));
        }
        Ok((repository.id, Actor::person(self.visitor)))
    }
}

fn back(place: &Place, done: Result<i64, Refusal>) -> Response {
    match done {
        Ok(number) => Redirect::to(&format!("/{}/{}/issues/{number}", place.owner, place.repo)).into_response(),
        Err(refusal) => refused(&refusal),
    }
}

/// Browsers send line ends as CR LF.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}
