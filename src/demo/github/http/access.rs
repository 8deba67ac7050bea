//! Who calls and what they may: the `Authorization` header, and the check every handler makes before it acts.

use super::API;
use crate::{
    demo::github::{
        Hub,
        auth::{Grant, Level},
        model::Actor,
        refusal::Refusal,
        world::World,
    },
    model::Permission,
};
use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::sync::Arc;

const BAD: Refusal = Refusal::Unauthorized("Bad credentials");

/// Somebody who proved who they are.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// The App itself, with a JSON web token.
    App,
    /// An installation token.
    Grant(Grant),
    /// A person's OAuth token.
    Person(i64),
}

impl Caller {
    pub fn actor(&self, world: &World) -> Actor {
        match self {
            Caller::App | Caller::Grant(_) => world.bot(),
            Caller::Person(account) => Actor::person(*account),
        }
    }

    /// Whether this caller may do something in any of `areas`; what they cannot see does not exist for them.
    pub fn may(&self, world: &World, repository: i64, areas: &[&str], level: Level) -> Result<(), Refusal> {
        let place = world.repository(repository)?;
        let unseen = || Refusal::missing("repository");
        match self {
            Caller::App => return Err(BAD),
            Caller::Grant(grant) => {
                let installation = world.installations.get(&grant.installation).ok_or_else(unseen)?;
                let chosen = grant.repositories.as_ref().is_none_or(|chosen| chosen.contains(&repository));
                if !chosen || !installation.repositories.contains(&repository) {
                    return Err(unseen());
                }
                let granted = |area: &&str| grant.permissions.get(*area).is_some_and(|granted| *granted >= level);
                if !areas.contains(&"metadata") && !areas.iter().any(granted) {
                    return Err(Refusal::Forbidden("Resource not accessible by integration".to_owned()));
                }
            }
            Caller::Person(account) => {
                let permission = place.permission_of(*account);
                if permission < Permission::Read {
                    return Err(unseen());
                }
                if level == Level::Write && permission < Permission::Write {
                    return Err(Refusal::Forbidden("Must have write access to the repository".to_owned()));
                }
            }
        }
        if level == Level::Write && place.archived {
            return Err(Refusal::Forbidden("Repository was archived so is read-only.".to_owned()));
        }
        Ok(())
    }
}

impl Hub {
    /// Who the header speaks for.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (scheme, value) =
            header.and_then(|text| text.split_once(' ')).ok_or(Refusal::Unauthorized("Requires authentication"))?;
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" | "token" => self.caller_of(value.trim()),
            "basic" => self.caller_of(&basic(value).ok_or(BAD)?.1),
            _ => Err(BAD),
        }
    }

    fn caller_of(&self, token: &str) -> Result<Caller, Refusal> {
        let world = self.world();
        if token.matches('.').count() == 2 {
            return world.app.verify_jwt(token, world.clock()).map(|()| Caller::App);
        }
        if let Some(account) = world.sessions.people.get(token) {
            return Ok(Caller::Person(*account));
        }
        let grant = world.sessions.grants.get(token).filter(|grant| grant.expires_at > world.clock());
        let grant = grant.ok_or(BAD)?;
        match world.installations.get(&grant.installation) {
            None => Err(BAD),
            Some(installation) if installation.suspended => {
                Err(Refusal::Forbidden("This installation has been suspended".to_owned()))
            }
            Some(_) => Ok(Caller::Grant(grant.clone())),
        }
    }
}

/// User and password of a Basic header's value.
pub(super) fn basic(value: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

impl FromRequestParts<Arc<Hub>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, Refusal> {
        hub.caller(&parts.headers)
    }
}

/// A repository that was found under `/repos/{owner}/{repo}` and may be seen by its caller.
pub(super) struct Scope {
    pub hub: Arc<Hub>,
    pub repository: i64,
    caller: Caller,
}

impl Scope {
    /// Refuses unless the caller may read in one of these areas (`issues`, `contents`, …).
    pub fn read(&self, areas: &[&str]) -> Result<(), Refusal> {
        self.caller.may(&self.hub.world(), self.repository, areas, Level::Read)
    }

    /// Refuses unless the caller may write in one of these areas; returns who acts.
    pub fn write(&self, areas: &[&str]) -> Result<Actor, Refusal> {
        let world = self.hub.world();
        self.caller.may(&world, self.repository, areas, Level::Write)?;
        Ok(self.caller.actor(&world))
    }
}

impl FromRequestParts<Arc<Hub>> for Scope {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, Response> {
        let caller = hub.caller(&parts.headers).map_err(IntoResponse::into_response)?;
        let path = RawPathParams::from_request_parts(parts, hub).await.map_err(IntoResponse::into_response)?;
        let named = |name: &str| path.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value);
        let full_name = format!("{}/{}", named("owner"), named("repo"));
        let mut world = hub.world();
        let Some(place) = world.find_repository(&full_name) else {
            let former = world.former_names.get(&full_name.to_ascii_lowercase()).copied();
            return Err(match former {
                Some(id) => moved(&mut world, id, &full_name, parts),
                None => Refusal::missing(full_name).into_response(),
            });
        };
        let repository = place.id;
        caller.may(&world, repository, &["metadata"], Level::Read).map_err(IntoResponse::into_response)?;
        drop(world);
        Ok(Self { hub: hub.clone(), repository, caller })
    }
}

/// GitHub's redirect from a former name to the address by id: 301 for reads, 307 for anything else.
pub(super) fn moved(world: &mut World, id: i64, former: &str, parts: &Parts) -> Response {
    let rest = parts.uri.path().split_once(former).map_or("", |(_, rest)| rest);
    let path = format!("{API}/repositories/{id}{rest}");
    let location = format!("{}{path}", world.base);
    world.led_to.insert(path);
    let reading = parts.method == axum::http::Method::GET || parts.method == axum::http::Method::HEAD;
    let status = if reading { StatusCode::MOVED_PERMANENTLY } else { StatusCode::TEMPORARY_REDIRECT };
    let body = serde_json::json!({ "message": "Moved Permanently", "url": location });
    (status, [(header::LOCATION, location)], axum::Json(body)).into_response()
}
