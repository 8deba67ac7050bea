//! Issues and the comments of issues and pull requests.

use super::{
    access::Scope,
    answer::{Answer, Input, Page, created, no_content, ok},
};
use crate::demo::github::{Hub, actions::threads::ThreadEdit, refusal::Refusal};
use axum::{
    Router,
    extract::Path,
    routing::{delete, get, patch},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Comments and labels of a pull request need one of the two.
const BOTH: [&str; 2] = ["issues", "pull_requests"];

pub(super) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/repos/{owner}/{repo}/issues", get(list_issues).post(create_issue))
        .route("/repos/{owner}/{repo}/issues/{number}", get(show_issue).patch(edit_issue))
        .route("/repos/{owner}/{repo}/issues/{number}/comments", get(list_comments).post(create_comment))
        .route("/repos/{owner}/{repo}/issues/{number}/labels", get(list_labels).post(add_labels))
        .route("/repos/{owner}/{repo}/issues/{number}/labels/{label}", delete(remove_label))
        .route(
            "/repos/{owner}/{repo}/issues/comments/{id}",
            patch(edit_comment).get(show_comment).delete(delete_comment),
        )
}

#[derive(Deserialize)]
struct Numbered {
    number: i64,
}

#[derive(Deserialize)]
struct Identified {
    id: i64,
}

async fn list_issues(scope: Scope, page: Page) -> Answer {
    scope.read(&["issues"])?;
    let world = scope.hub.world();
    let place = world.repository(scope.repository)?;
    let state = page.parameter("state").unwrap_or("open");
    let wanted = |open: bool| state == "all" || (state == "open") == open;
    let newest_first = place.threads.values().rev().filter(|thread| wanted(thread.open));
    page.answer(&world.base, newest_first.map(|thread| world.issue_json(place, thread)).collect())
}

#[derive(Deserialize)]
struct NewIssue {
    title: String,
    body: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
}

async fn create_issue(scope: Scope, Input(new): Input<NewIssue>) -> Answer {
    let actor = scope.write(&["issues"])?;
    let mut world = scope.hub.world();
    let body = new.body.unwrap_or_default();
    let number = world.open_issue(scope.repository, actor, &new.title, &body, &new.labels)?;
    created(world.issue_json(world.repository(scope.repository)?, world.thread(scope.repository, number)?))
}

async fn show_issue(scope: Scope, Path(Numbered { number }): Path<Numbered>) -> Answer {
    scope.read(&BOTH)?;
    let world = scope.hub.world();
    ok(world.issue_json(world.repository(scope.repository)?, world.thread(scope.repository, number)?))
}

#[derive(Deserialize)]
struct IssueEdit {
    title: Option<String>,
    body: Option<String>,
    state: Option<String>,
    state_reason: Option<String>,
    labels: Option<Vec<String>>,
}

async fn edit_issue(scope: Scope, Path(Numbered { number }): Path<Numbered>, Input(edit): Input<IssueEdit>) -> Answer {
    let actor = scope.write(&BOTH)?;
    let edit = ThreadEdit {
        title: edit.title,
        body: edit.body,
        open: edit.state.as_deref().map(open_state).transpose()?,
        state_reason: edit.state_reason,
        labels: edit.labels,
    };
    let mut world = scope.hub.world();
    world.edit_thread(scope.repository, number, actor, edit)?;
    ok(world.issue_json(world.repository(scope.repository)?, world.thread(scope.repository, number)?))
}

/// Whether `open` or `closed` was asked for.
pub(super) fn open_state(text: &str) -> Result<bool, Refusal> {
    match text {
        "open" => Ok(true),
        "closed" => Ok(false),
        _ => Err(Refusal::invalid(format!("state {text} is not open or closed"))),
    }
}

async fn list_comments(scope: Scope, Path(Numbered { number }): Path<Numbered>, page: Page) -> Answer {
    scope.read(&BOTH)?;
    let world = scope.hub.world();
    let place = world.repository(scope.repository)?;
    world.thread(scope.repository, number)?;
    let since = page.parameter("since").and_then(|text| text.parse::<chrono::DateTime<chrono::Utc>>().ok());
    let recent = |at| since.is_none_or(|since| at >= since);
    let comments = place.comments.values().filter(|comment| comment.thread == number && recent(comment.updated_at));
    page.answer(&world.base, comments.map(|comment| world.comment_json(place, comment)).collect())
}

#[derive(Deserialize)]
struct Text {
    body: String,
}

async fn create_comment(
    scope: Scope,
    Path(Numbered { number }): Path<Numbered>,
    Input(Text { body }): Input<Text>,
) -> Answer {
    let actor = scope.write(&BOTH)?;
    let id = scope.hub.world().comment(scope.repository, number, actor, &body)?;
    created(comment_json(&scope, id)?)
}

async fn show_comment(scope: Scope, Path(Identified { id }): Path<Identified>) -> Answer {
    scope.read(&BOTH)?;
    ok(comment_json(&scope, id)?)
}

async fn edit_comment(
    scope: Scope,
    Path(Identified { id }): Path<Identified>,
    Input(Text { body }): Input<Text>,
) -> Answer {
    let actor = scope.write(&BOTH)?;
    scope.hub.world().edit_comment(scope.repository, id, actor, &body)?;
    ok(comment_json(&scope, id)?)
}

async fn delete_comment(scope: Scope, Path(Identified { id }): Path<Identified>) -> Answer {
    let actor = scope.write(&BOTH)?;
    scope.hub.world().delete_comment(scope.repository, id, actor)?;
    no_content()
}

fn comment_json(scope: &Scope, id: i64) -> Result<Value, Refusal> {
    let world = scope.hub.world();
    let place = world.repository(scope.repository)?;
    let comment = place.comments.get(&id).ok_or_else(|| Refusal::missing(format!("comment {id}")))?;
    Ok(world.comment_json(place, comment))
}

async fn list_labels(scope: Scope, Path(Numbered { number }): Path<Numbered>, page: Page) -> Answer {
    scope.read(&BOTH)?;
    let world = scope.hub.world();
    let labels = label_names(&scope_labels(&world, scope.repository, number)?);
    page.answer(&world.base, labels)
}

#[derive(Deserialize)]
struct Labels {
    labels: Vec<String>,
}

async fn add_labels(scope: Scope, Path(Numbered { number }): Path<Numbered>, Input(added): Input<Labels>) -> Answer {
    let actor = scope.write(&BOTH)?;
    let mut world = scope.hub.world();
    let mut names = scope_labels(&world, scope.repository, number)?;
    names.extend(added.labels);
    names.dedup();
    world.set_labels(scope.repository, number, actor, &names)?;
    ok(json!(label_names(&names)))
}

#[derive(Deserialize)]
struct OneLabel {
    number: i64,
    label: String,
}

async fn remove_label(scope: Scope, Path(one): Path<OneLabel>) -> Answer {
    let actor = scope.write(&BOTH)?;
    let mut world = scope.hub.world();
    let mut names = scope_labels(&world, scope.repository, one.number)?;
    names.retain(|name| *name != one.label);
    world.set_labels(scope.repository, one.number, actor, &names)?;
    ok(json!(label_names(&names)))
}

fn scope_labels(
    world: &crate::demo::github::world::World,
    repository: i64,
    number: i64,
) -> Result<Vec<String>, Refusal> {
    Ok(world.thread(repository, number)?.labels.iter().map(|label| label.name.clone()).collect())
}

fn label_names(names: &[String]) -> Vec<Value> {
    names.iter().map(|name| json!({ "name": name, "color": "ededed", "default": false })).collect()
}
