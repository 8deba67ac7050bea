//! Check runs.

use super::{
    access::Scope,
    answer::{Answer, Input, Page, created, ok},
};
use crate::demo::github::{Hub, actions::checks::CheckRunChange, model::CheckRun, refusal::Refusal};
use axum::{
    Router,
    extract::Path,
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

const AREA: [&str; 1] = ["checks"];

pub(super) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/repos/{owner}/{repo}/check-runs", post(create))
        .route("/repos/{owner}/{repo}/check-runs/{id}", get(show).patch(update))
        .route("/repos/{owner}/{repo}/commits/{sha}/check-runs", get(list))
}

#[derive(Deserialize)]
struct Id {
    id: i64,
}

#[derive(Deserialize)]
struct Commit {
    sha: String,
}

async fn create(scope: Scope, Input(new): Input<CheckRunChange>) -> Answer {
    let actor = scope.write(&AREA)?;
    let sha = new.head_sha.clone().unwrap_or_default();
    if scope.hub.git.commit_of(scope.repository, &sha).await?.is_none() {
        return Err(Refusal::invalid(format!("No commit found for SHA: {sha}")));
    }
    let id = scope.hub.world().create_check_run(scope.repository, actor, new)?;
    created(check_run(&scope, id)?)
}

async fn show(scope: Scope, Path(Id { id }): Path<Id>) -> Answer {
    scope.read(&AREA)?;
    ok(check_run(&scope, id)?)
}

async fn update(scope: Scope, Path(Id { id }): Path<Id>, Input(change): Input<CheckRunChange>) -> Answer {
    let actor = scope.write(&AREA)?;
    scope.hub.world().update_check_run(scope.repository, id, actor, change)?;
    ok(check_run(&scope, id)?)
}

async fn list(scope: Scope, Path(Commit { sha }): Path<Commit>, page: Page) -> Answer {
    scope.read(&AREA)?;
    // A branch name stands for its commit.
    let sha = scope.hub.git.commit_of(scope.repository, &sha).await?.unwrap_or(sha);
    let world = scope.hub.world();
    let place = world.repository(scope.repository)?;
    let is_called = |check: &CheckRun| page.parameter("check_name").is_none_or(|name| check.name == name);
    // All of them are this App's.
    let is_ours = page.parameter("app_id").is_none_or(|app| app == world.app.id.to_string());
    let runs = place.check_runs.values().filter(|check| is_ours && is_called(check) && check.head_sha == sha);
    page.answer_in(&world.base, "check_runs", runs.map(|check| world.check_run_json(place, check)).collect())
}

fn check_run(scope: &Scope, id: i64) -> Result<Value, Refusal> {
    let world = scope.hub.world();
    let place = world.repository(scope.repository)?;
    let check = place.check_runs.get(&id).ok_or_else(|| Refusal::missing(format!("check run {id}")))?;
    Ok(world.check_run_json(place, check))
}
