//! Reactions on issues, pull requests and both kinds of comments.

use super::{
    access::Scope,
    answer::{Answer, Input, Page, created, ok},
};
use crate::demo::github::{Hub, actions::threads::ReactionTarget};
use axum::{Router, extract::Path, routing::get};
use serde::Deserialize;
use std::sync::Arc;

const BOTH: [&str; 2] = ["issues", "pull_requests"];

pub(super) fn routes() -> Router<Arc<Hub>> {
    let thread = get(|scope, Path(Number { number }), page| list(scope, ReactionTarget::Thread(number), page))
        .post(|scope, Path(Number { number }), new| add(scope, ReactionTarget::Thread(number), new));
    let comment = get(|scope, Path(Id { id }), page| list(scope, ReactionTarget::Comment(id), page))
        .post(|scope, Path(Id { id }), new| add(scope, ReactionTarget::Comment(id), new));
    let line = get(|scope, Path(Id { id }), page| list(scope, ReactionTarget::ReviewComment(id), page))
        .post(|scope, Path(Id { id }), new| add(scope, ReactionTarget::ReviewComment(id), new));
    Router::new()
        .route("/repos/{owner}/{repo}/issues/{number}/reactions", thread)
        .route("/repos/{owner}/{repo}/issues/comments/{id}/reactions", comment)
        .route("/repos/{owner}/{repo}/pulls/comments/{id}/reactions", line)
}

#[derive(Deserialize)]
struct Number {
    number: i64,
}

#[derive(Deserialize)]
struct Id {
    id: i64,
}

#[derive(Deserialize)]
struct NewReaction {
    content: String,
}

async fn list(scope: Scope, target: ReactionTarget, page: Page) -> Answer {
    scope.read(&BOTH)?;
    let mut world = scope.hub.world();
    let reactions = world.reactions_mut(scope.repository, target)?.clone();
    page.answer(&world.base, reactions.iter().map(|reaction| world.reaction_json(reaction)).collect())
}

/// 201 for a new reaction, 200 when it was there.
async fn add(scope: Scope, target: ReactionTarget, Input(new): Input<NewReaction>) -> Answer {
    let actor = scope.write(&BOTH)?;
    let mut world = scope.hub.world();
    let (reaction, is_new) = world.react(scope.repository, target, actor, &new.content)?;
    let body = world.reaction_json(&reaction);
    if is_new { created(body) } else { ok(body) }
}
