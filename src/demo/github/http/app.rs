//! The App's own endpoints: itself, its installations and their tokens, the log of its deliveries.

use super::{
    access::{Caller, moved},
    answer::{Answer, Input, Page, created, ok},
};
use crate::demo::github::{
    Hub,
    auth::{Grant, Level, Permissions},
    refusal::Refusal,
    world::World,
};
use axum::{
    Json, Router,
    extract::{Path, Query, Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/app", get(show_app))
        .route("/app/installations", get(list_installations))
        .route("/app/installations/{id}", get(show_installation))
        .route("/app/installations/{id}/access_tokens", post(issue_token))
        .route("/repos/{owner}/{repo}/installation", get(show_installation_of))
        .route("/app/hook/config", get(show_webhook))
        .route("/app/hook/deliveries", get(list_deliveries))
        .route("/app/hook/deliveries/{id}", get(show_delivery))
        .route("/app/hook/deliveries/{id}/attempts", post(redeliver))
        .route("/installation/repositories", get(list_repositories))
        .route("/app-manifests/{code}/conversions", post(convert))
}

fn app_only(caller: &Caller) -> Result<(), Refusal> {
    match caller {
        Caller::App => Ok(()),
        Caller::Grant(_) | Caller::Person(_) => Err(Refusal::Unauthorized("A JSON web token could not be decoded")),
    }
}

async fn show_app(State(hub): State<Arc<Hub>>, caller: Caller) -> Answer {
    app_only(&caller)?;
    ok(hub.world().app_json())
}

/// Whoever has the code, without credentials.
async fn convert(State(hub): State<Arc<Hub>>, Path(code): Path<String>) -> Answer {
    created(hub.world().convert(&code)?)
}

async fn show_webhook(State(hub): State<Arc<Hub>>, caller: Caller) -> Answer {
    app_only(&caller)?;
    let url = hub.world().post.receiver.as_ref().map(|receiver| receiver.url.clone()).unwrap_or_default();
    ok(json!({ "content_type": "json", "insecure_ssl": "0", "secret": "********", "url": url }))
}

async fn list_installations(State(hub): State<Arc<Hub>>, caller: Caller, page: Page) -> Answer {
    app_only(&caller)?;
    let world = hub.world();
    page.answer(&world.base, world.installations.values().map(|i| world.installation_json(i)).collect())
}

async fn show_installation(State(hub): State<Arc<Hub>>, caller: Caller, Path(id): Path<i64>) -> Answer {
    app_only(&caller)?;
    let world = hub.world();
    let found = world.installations.get(&id).ok_or_else(|| Refusal::missing("installation"))?;
    ok(world.installation_json(found))
}

#[derive(Deserialize)]
struct Named {
    owner: String,
    repo: String,
}

async fn show_installation_of(
    State(hub): State<Arc<Hub>>,
    caller: Caller,
    Path(Named { owner, repo }): Path<Named>,
    request: Request,
) -> Result<Response, Refusal> {
    app_only(&caller)?;
    let (name, mut world) = (format!("{owner}/{repo}"), hub.world());
    let Some(place) = world.find_repository(&name) else {
        let former = world.former_names.get(&name.to_ascii_lowercase()).copied();
        let former = former.ok_or_else(|| Refusal::missing(&name))?;
        return Ok(moved(&mut world, former, &name, &request.into_parts().0));
    };
    let found = world.installation_of(place.id).ok_or_else(|| Refusal::missing("installation"))?;
    Ok(Json(world.installation_json(found)).into_response())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenRequest {
    repositories: Option<Vec<String>>,
    repository_ids: Option<Vec<i64>>,
    permissions: Option<BTreeMap<String, Value>>,
}

async fn issue_token(
    State(hub): State<Arc<Hub>>,
    caller: Caller,
    Path(id): Path<i64>,
    Input(wanted): Input<TokenRequest>,
) -> Answer {
    app_only(&caller)?;
    let mut world = hub.world();
    let grant = grant(&world, id, wanted)?;
    let token = world.sessions.issue_grant(grant.clone());
    created(world.grant_json(&token, &grant))
}

/// What is asked for, if the installation has it.
fn grant(world: &World, installation: i64, wanted: TokenRequest) -> Result<Grant, Refusal> {
    let found = world.installations.get(&installation).ok_or_else(|| Refusal::missing("installation"))?;
    if found.suspended {
        return Err(Refusal::Forbidden("This installation has been suspended".to_owned()));
    }
    let outside = || {
        let message =
            "There is at least one repository that does not exist or is not accessible to the parent installation.";
        Refusal::invalid(message)
    };
    let mut chosen: Option<BTreeSet<i64>> = wanted.repository_ids.map(|ids| ids.into_iter().collect());
    if let Some(names) = wanted.repositories {
        let ids = names.iter().map(|name| {
            let named = |id: &&i64| world.repositories.get(*id).is_some_and(|r| r.name.eq_ignore_ascii_case(name));
            found.repositories.iter().find(named).copied().ok_or_else(outside)
        });
        chosen.get_or_insert_default().extend(ids.collect::<Result<Vec<_>, _>>()?);
    }
    if chosen.as_ref().is_some_and(|chosen| !chosen.is_subset(&found.repositories)) {
        return Err(outside());
    }
    let lifetime = world.sessions.lifetime.unwrap_or(chrono::TimeDelta::hours(1));
    Ok(Grant {
        installation,
        repositories: chosen,
        permissions: narrowed(world.granted_to(found), wanted.permissions)?,
        expires_at: world.clock() + lifetime,
    })
}

/// The permissions asked for, none of them beyond what the App has.
fn narrowed(all: &Permissions, wanted: Option<BTreeMap<String, Value>>) -> Result<Permissions, Refusal> {
    let Some(wanted) = wanted else { return Ok(all.clone()) };
    let beyond = || Refusal::invalid("The permissions requested are not granted to this installation.");
    let mut granted = Permissions::from([("metadata".to_owned(), Level::Read)]);
    for (area, level) in wanted.into_iter().filter(|(_, level)| !level.is_null()) {
        let level = level.as_str().and_then(Level::parse).ok_or_else(beyond)?;
        if all.get(&area).is_none_or(|most| *most < level) {
            return Err(beyond());
        }
        granted.insert(area, level);
    }
    Ok(granted)
}

async fn list_repositories(State(hub): State<Arc<Hub>>, caller: Caller, page: Page) -> Answer {
    let Caller::Grant(grant) = caller else {
        return Err(Refusal::Forbidden("You must authenticate with an installation access token".to_owned()));
    };
    let world = hub.world();
    let reached = world.installations.get(&grant.installation).map(|i| i.repositories.clone()).unwrap_or_default();
    let chosen = reached.iter().filter(|id| grant.repositories.as_ref().is_none_or(|chosen| chosen.contains(id)));
    let items = chosen.filter_map(|id| world.repositories.get(id)).map(|r| world.repository_json(r)).collect();
    page.answer_in(&world.base, "repositories", items)
}

#[derive(Deserialize)]
struct Cursor {
    per_page: Option<usize>,
    /// Names the first delivery of this page; only the `Link` header says how.
    cursor: Option<String>,
}

/// Newest first, by cursor, as this list alone is paged on GitHub.
async fn list_deliveries(State(hub): State<Arc<Hub>>, caller: Caller, Query(part): Query<Cursor>) -> Answer {
    app_only(&caller)?;
    let size = part.per_page.unwrap_or(30).clamp(1, 100);
    let world = hub.world();
    let upper = match part.cursor.as_deref() {
        None => i64::MAX,
        Some(cursor) => {
            let id = cursor.strip_prefix("v1_").and_then(|id| id.parse().ok());
            id.ok_or_else(|| Refusal::invalid("Invalid cursor"))?
        }
    };
    let mut rest = world.post.log.range(..=upper).rev().map(|(_, record)| record);
    let items: Vec<Value> = rest.by_ref().take(size).map(|record| world.delivery_json(record, false)).collect();
    let next = rest.next().map(|record| record.id);
    let mut response = Json(items).into_response();
    if let Some(next) = next {
        let url = format!("{}/app/hook/deliveries?per_page={size}&cursor=v1_{next}", world.api());
        if let Ok(link) = HeaderValue::from_str(&format!("<{url}>; rel=\"next\"")) {
            response.headers_mut().insert(header::LINK, link);
        }
    }
    Ok(response)
}

async fn show_delivery(State(hub): State<Arc<Hub>>, caller: Caller, Path(id): Path<i64>) -> Answer {
    app_only(&caller)?;
    let world = hub.world();
    let record = world.post.log.get(&id).ok_or_else(|| Refusal::missing("delivery"))?;
    ok(world.delivery_json(record, true))
}

async fn redeliver(State(hub): State<Arc<Hub>>, caller: Caller, Path(id): Path<i64>) -> Answer {
    app_only(&caller)?;
    let mut world = hub.world();
    let (again, now) = (world.new_id(), world.clock());
    if !world.post.redeliver(id, again, now) {
        return Err(Refusal::missing("delivery"));
    }
    Ok((StatusCode::ACCEPTED, Json(json!({}))).into_response())
}
