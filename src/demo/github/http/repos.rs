//! Repositories: what they are, their branches, who may do what; and people.

use super::{
    access::{Caller, Scope},
    answer::{Answer, Page, no_content, ok},
};
use crate::demo::github::{Hub, refusal::Refusal};
use axum::{
    Router,
    extract::{Path, State},
    routing::{delete, get},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/users/{login}", get(show_user))
        .route("/repos/{owner}/{repo}", get(show_repository))
        .route("/repos/{owner}/{repo}/branches", get(list_branches))
        .route("/repos/{owner}/{repo}/branches/{*branch}", get(show_branch))
        .route("/repos/{owner}/{repo}/git/ref/{*reference}", get(show_ref))
        .route("/repos/{owner}/{repo}/git/matching-refs/{*reference}", get(list_refs))
        .route("/repos/{owner}/{repo}/git/refs/{*reference}", delete(delete_ref))
        .route("/repos/{owner}/{repo}/collaborators/{login}/permission", get(show_permission))
}

async fn show_user(State(hub): State<Arc<Hub>>, _caller: Caller, Path(login): Path<String>) -> Answer {
    let world = hub.world();
    let found = world.find_account(&login).ok_or_else(|| Refusal::missing(login))?;
    ok(world.account_json(found.id))
}

async fn show_repository(scope: Scope) -> Answer {
    let world = scope.hub.world();
    ok(world.repository_json(world.repository(scope.repository)?))
}

#[derive(Deserialize)]
struct Branch {
    branch: String,
}

async fn list_branches(scope: Scope, page: Page) -> Answer {
    scope.read(&["contents"])?;
    let branches = scope.hub.git.branches(scope.repository).await?;
    let world = scope.hub.world();
    let items = branches.iter().map(|(name, sha)| branch_json(&scope, &world, name, sha));
    page.answer(&world.base, items.collect::<Result<_, _>>()?)
}

async fn show_branch(scope: Scope, Path(Branch { branch }): Path<Branch>) -> Answer {
    scope.read(&["contents"])?;
    let sha = tip(&scope, &branch).await?.ok_or_else(|| Refusal::missing(&branch))?;
    ok(branch_json(&scope, &scope.hub.world(), &branch, &sha)?)
}

fn branch_json(
    scope: &Scope,
    world: &crate::demo::github::world::World,
    name: &str,
    sha: &str,
) -> Result<Value, Refusal> {
    let place = world.repository(scope.repository)?;
    let url = format!("{}/repos/{}/commits/{sha}", world.api(), world.full_name(place));
    Ok(json!({
        "name": name,
        "commit": { "sha": sha, "url": url },
        "protected": place.protected.contains(name),
    }))
}

#[derive(Deserialize)]
struct Reference {
    reference: String,
}

/// `GET …/git/ref/heads/<branch>`; an empty repository answers 409.
async fn show_ref(scope: Scope, Path(Reference { reference }): Path<Reference>) -> Answer {
    scope.read(&["contents"])?;
    if scope.hub.world().repository(scope.repository)?.empty {
        return Err(Refusal::Conflict("Git Repository is empty.".to_owned()));
    }
    let branch = reference.strip_prefix("heads/").ok_or_else(|| Refusal::missing(&reference))?;
    let sha = tip(&scope, branch).await?.ok_or_else(|| Refusal::missing(&reference))?;
    ok(ref_json(&scope, &scope.hub.world(), branch, &sha)?)
}

/// `GET …/git/matching-refs/heads/<beginning of names>`: all of them, in one page.
async fn list_refs(scope: Scope, Path(Reference { reference }): Path<Reference>) -> Answer {
    scope.read(&["contents"])?;
    if scope.hub.world().repository(scope.repository)?.empty {
        return Err(Refusal::Conflict("Git Repository is empty.".to_owned()));
    }
    let beginning = reference.strip_prefix("heads/").ok_or_else(|| Refusal::missing(&reference))?;
    let branches = scope.hub.git.branches(scope.repository).await?;
    let world = scope.hub.world();
    let found = branches.iter().filter(|(name, _)| name.starts_with(beginning));
    let items = found.map(|(name, sha)| ref_json(&scope, &world, name, sha));
    ok(Value::Array(items.collect::<Result<_, _>>()?))
}

fn ref_json(
    scope: &Scope,
    world: &crate::demo::github::world::World,
    branch: &str,
    sha: &str,
) -> Result<Value, Refusal> {
    let url = format!("{}/repos/{}/git", world.api(), world.full_name(world.repository(scope.repository)?));
    Ok(json!({
        "ref": format!("refs/heads/{branch}"),
        "node_id": world.node_id("REF", scope.repository),
        "url": format!("{url}/refs/heads/{branch}"),
        "object": { "sha": sha, "type": "commit", "url": format!("{url}/commits/{sha}") },
    }))
}

async fn delete_ref(scope: Scope, Path(Reference { reference }): Path<Reference>) -> Answer {
    let actor = scope.write(&["contents"])?;
    let branch = reference.strip_prefix("heads/").ok_or_else(|| Refusal::missing(&reference))?;
    if tip(&scope, branch).await?.is_none() {
        return Err(Refusal::invalid("Reference does not exist"));
    }
    scope.hub.reset_branch(scope.repository, actor, branch, None).await?;
    no_content()
}

async fn tip(scope: &Scope, branch: &str) -> Result<Option<String>, Refusal> {
    Ok(scope.hub.git.branches(scope.repository).await?.remove(branch))
}

#[derive(Deserialize)]
struct Login {
    login: String,
}

async fn show_permission(scope: Scope, Path(Login { login }): Path<Login>) -> Answer {
    let world = scope.hub.world();
    let account = world.find_account(&login).ok_or_else(|| Refusal::missing(format!("{login} is not a user")))?.id;
    let permission = world.repository(scope.repository)?.permission_of(account);
    ok(world.permission_json(account, permission))
}
