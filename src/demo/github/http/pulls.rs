//! Pull requests, their merging, their reviews and line comments.

use super::{
    access::Scope,
    answer::{Answer, Input, Page, created, ok},
    issues::open_state,
};
use crate::demo::github::{
    Hub,
    actions::{merge::MergeMethod, pulls::NewPull, reviews::LineComment, threads::ThreadEdit},
    model::Review,
    refusal::Refusal,
    world::World,
};
use axum::{
    Router,
    extract::Path,
    routing::{get, put},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

const AREA: [&str; 1] = ["pull_requests"];

pub(super) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/repos/{owner}/{repo}/pulls", get(list_pulls).post(create_pull))
        .route("/repos/{owner}/{repo}/pulls/{number}", get(show_pull).patch(edit_pull))
        .route("/repos/{owner}/{repo}/pulls/{number}/merge", put(merge_pull))
        .route("/repos/{owner}/{repo}/pulls/{number}/reviews", get(list_reviews).post(create_review))
        .route("/repos/{owner}/{repo}/pulls/{number}/reviews/{review}", get(show_review))
        .route("/repos/{owner}/{repo}/pulls/{number}/reviews/{review}/comments", get(list_comments_of_review))
        .route("/repos/{owner}/{repo}/pulls/{number}/comments", get(list_comments).post(create_comment))
        .route("/repos/{owner}/{repo}/commits/{sha}/pulls", get(pulls_of_commit))
}

#[derive(Deserialize)]
struct Numbered {
    number: i64,
}

fn pull_json(world: &World, repository: i64, number: i64) -> Result<Value, Refusal> {
    let (thread, pull) = world.pull(repository, number)?;
    Ok(world.pull_json(world.repository(repository)?, thread, pull))
}

/// The list shows less of each than the single one does.
fn listed(mut pull: Value) -> Value {
    const SINGLE_ONLY: [&str; 11] = [
        "merged",
        "mergeable",
        "rebaseable",
        "mergeable_state",
        "merged_by",
        "comments",
        "review_comments",
        "commits",
        "additions",
        "deletions",
        "changed_files",
    ];
    if let Some(fields) = pull.as_object_mut() {
        fields.retain(|name, _| !SINGLE_ONLY.contains(&name.as_str()));
    }
    pull
}

async fn list_pulls(scope: Scope, page: Page) -> Answer {
    scope.read(&AREA)?;
    let world = scope.hub.world();
    let place = world.repository(scope.repository)?;
    let state = page.parameter("state").unwrap_or("open");
    let pulls = place.threads.values().filter_map(|thread| Some((thread, thread.pull.as_ref()?)));
    let mut found: Vec<Value> = pulls
        .filter(|(thread, _)| state == "all" || (state == "open") == thread.open)
        .filter(|(_, pull)| page.parameter("base").is_none_or(|base| base == pull.base_branch))
        .filter(|(_, pull)| {
            let label = format!("{}:{}", world.login(pull.head_owner), pull.head_branch);
            page.parameter("head").is_none_or(|head| head.eq_ignore_ascii_case(&label))
        })
        .map(|(thread, pull)| listed(world.pull_json(place, thread, pull)))
        .collect();
    if page.parameter("direction") != Some("asc") {
        found.reverse();
    }
    page.answer(&world.base, found)
}

#[derive(Deserialize)]
struct PullRequest {
    title: String,
    head: String,
    base: String,
    body: Option<String>,
    #[serde(default)]
    draft: bool,
}

async fn create_pull(scope: Scope, Input(new): Input<PullRequest>) -> Answer {
    let actor = scope.write(&AREA)?;
    let body = new.body.unwrap_or_default();
    let new = NewPull { title: new.title, body, head: new.head, base: new.base, draft: new.draft };
    let number = scope.hub.open_pull(scope.repository, actor, new).await?;
    created(pull_json(&scope.hub.world(), scope.repository, number)?)
}

async fn show_pull(scope: Scope, Path(Numbered { number }): Path<Numbered>) -> Answer {
    scope.read(&AREA)?;
    ok(pull_json(&scope.hub.world(), scope.repository, number)?)
}

#[derive(Deserialize)]
struct PullEdit {
    title: Option<String>,
    body: Option<String>,
    state: Option<String>,
}

async fn edit_pull(scope: Scope, Path(Numbered { number }): Path<Numbered>, Input(edit): Input<PullEdit>) -> Answer {
    let actor = scope.write(&AREA)?;
    let open = edit.state.as_deref().map(open_state).transpose()?;
    let edit = ThreadEdit { title: edit.title, body: edit.body, open, ..ThreadEdit::default() };
    let mut world = scope.hub.world();
    world.pull(scope.repository, number)?;
    world.edit_thread(scope.repository, number, actor, edit)?;
    ok(pull_json(&world, scope.repository, number)?)
}

#[derive(Deserialize)]
struct Merge {
    merge_method: Option<MergeMethod>,
    sha: Option<String>,
}

async fn merge_pull(scope: Scope, Path(Numbered { number }): Path<Numbered>, Input(merge): Input<Merge>) -> Answer {
    let actor = scope.write(&["contents"])?;
    let method = merge.merge_method.unwrap_or(MergeMethod::Merge);
    let commit = scope.hub.merge_pull(scope.repository, number, actor, method, merge.sha.as_deref()).await?;
    ok(json!({ "sha": commit, "merged": true, "message": "Pull Request successfully merged" }))
}

async fn list_reviews(scope: Scope, Path(Numbered { number }): Path<Numbered>, page: Page) -> Answer {
    scope.read(&AREA)?;
    let world = scope.hub.world();
    world.pull(scope.repository, number)?;
    let place = world.repository(scope.repository)?;
    let reviews = place.reviews.values().filter(|review| review.thread == number);
    page.answer(&world.base, reviews.map(|review| world.review_json(place, review, false)).collect())
}

#[derive(Deserialize)]
struct NewReview {
    event: Option<String>,
    body: Option<String>,
    #[serde(default)]
    comments: Vec<LineComment>,
}

async fn create_review(
    scope: Scope,
    Path(Numbered { number }): Path<Numbered>,
    Input(new): Input<NewReview>,
) -> Answer {
    let actor = scope.write(&AREA)?;
    let mut world = scope.hub.world();
    let (event, body) = (new.event.as_deref().unwrap_or("COMMENT"), new.body.unwrap_or_default());
    let id = world.review(scope.repository, number, actor, event, &body, new.comments)?;
    let place = world.repository(scope.repository)?;
    ok(place.reviews.get(&id).map_or(Value::Null, |review| world.review_json(place, review, false)))
}

#[derive(Deserialize)]
struct Reviewed {
    number: i64,
    review: i64,
}

fn find_review<'a>(world: &'a World, scope: &Scope, wanted: &Reviewed) -> Result<&'a Review, Refusal> {
    let found = world.repository(scope.repository)?.reviews.get(&wanted.review);
    found.filter(|review| review.thread == wanted.number).ok_or_else(|| Refusal::missing("review"))
}

async fn show_review(scope: Scope, Path(wanted): Path<Reviewed>) -> Answer {
    scope.read(&AREA)?;
    let world = scope.hub.world();
    let review = find_review(&world, &scope, &wanted)?;
    ok(world.review_json(world.repository(scope.repository)?, review, false))
}

/// GitHub leaves out on which lines these comments stand.
async fn list_comments_of_review(scope: Scope, Path(wanted): Path<Reviewed>, page: Page) -> Answer {
    scope.read(&AREA)?;
    let world = scope.hub.world();
    let (review, place) = (find_review(&world, &scope, &wanted)?, world.repository(scope.repository)?);
    let comments = place.review_comments.values().filter(|comment| comment.review == review.id);
    let shown = comments.map(|comment| {
        let mut shown = world.review_comment_json(place, comment);
        if let Some(fields) = shown.as_object_mut() {
            fields.retain(|name, _| !["line", "original_line", "side", "start_line"].contains(&name.as_str()));
        }
        shown
    });
    page.answer(&world.base, shown.collect())
}

async fn list_comments(scope: Scope, Path(Numbered { number }): Path<Numbered>, page: Page) -> Answer {
    scope.read(&AREA)?;
    let world = scope.hub.world();
    world.pull(scope.repository, number)?;
    let place = world.repository(scope.repository)?;
    let since = page.parameter("since").and_then(|text| text.parse::<chrono::DateTime<chrono::Utc>>().ok());
    let comments = place.review_comments.values().filter(|comment| comment.thread == number);
    let mut found: Vec<_> = comments.filter(|comment| since.is_none_or(|since| comment.updated_at >= since)).collect();
    // By number, as they are kept; a direction counts only for what is asked for in an order.
    match page.parameter("sort") {
        Some("updated") => found.sort_by_key(|comment| (comment.updated_at, comment.id)),
        Some(_) => found.sort_by_key(|comment| (comment.created_at, comment.id)),
        None => {}
    }
    if page.parameter("sort").is_some() && page.parameter("direction") == Some("desc") {
        found.reverse();
    }
    page.answer(&world.base, found.into_iter().map(|comment| world.review_comment_json(place, comment)).collect())
}

async fn create_comment(
    scope: Scope,
    Path(Numbered { number }): Path<Numbered>,
    Input(new): Input<LineComment>,
) -> Answer {
    let actor = scope.write(&AREA)?;
    let mut world = scope.hub.world();
    let id = world.line_comment(scope.repository, number, actor, new)?;
    let place = world.repository(scope.repository)?;
    created(place.review_comments.get(&id).map_or(Value::Null, |comment| world.review_comment_json(place, comment)))
}

#[derive(Deserialize)]
struct Commit {
    sha: String,
}

/// Pull requests that brought this commit or contain it.
async fn pulls_of_commit(scope: Scope, Path(Commit { sha }): Path<Commit>, page: Page) -> Answer {
    scope.read(&AREA)?;
    let exists = scope.hub.git.commit_of(scope.repository, &sha).await?.is_some();
    if !exists {
        return Err(Refusal::invalid(format!("No commit found for SHA: {sha}")));
    }
    let world = scope.hub.world();
    let place = world.repository(scope.repository)?;
    let pulls = place.threads.values().filter_map(|thread| Some((thread, thread.pull.as_ref()?)));
    let found = pulls.filter(|(_, pull)| {
        pull.commits.contains(&sha) || pull.merged.as_ref().is_some_and(|merged| merged.commit == sha)
    });
    page.answer(&world.base, found.map(|(thread, pull)| listed(world.pull_json(place, thread, pull))).collect())
}
