//! The pages on which an App is registered from a manifest, and installed, by the visitor.

use super::{page, refused};
use crate::demo::github::{
    Hub, actions::registration::Manifest, auth::AppKey, model::AccountKind, refusal::Refusal, world::World,
};
use crate::model::percent_encoded;
use askama::Template;
use axum::{
    Form,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use std::{collections::BTreeSet, sync::Arc};

#[derive(Template)]
#[template(path = "demo/register.html")]
struct Register<'a> {
    title: &'static str,
    owner: &'a str,
    /// Where the form goes.
    action: String,
    name: &'a str,
    manifest: &'a str,
    state: &'a str,
}

#[derive(Template)]
#[template(path = "demo/install.html")]
struct Install<'a> {
    title: &'static str,
    app: &'a str,
    slug: &'a str,
    owner: &'a str,
    repositories: Vec<String>,
}

/// `/organizations/{organization}/…`; without it, the visitor's own.
#[derive(Deserialize)]
pub(super) struct Whose {
    organization: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Asked {
    state: String,
}

#[derive(Deserialize)]
pub(super) struct Sent {
    manifest: String,
}

#[derive(Deserialize)]
pub(super) struct Agreed {
    name: String,
    manifest: String,
    #[serde(default)]
    state: String,
}

type State_ = State<Arc<Hub>>;

/// Another site sends a manifest here: its visitor is shown what it would make.
pub(super) async fn propose(
    State(hub): State_,
    Path(whose): Path<Whose>,
    Query(asked): Query<Asked>,
    Form(sent): Form<Sent>,
) -> Response {
    let read = Manifest::parse(&sent.manifest);
    let owner = owner(&hub, &whose);
    match (read, owner) {
        (Ok(manifest), Ok((_, login))) => {
            let action = match whose.organization {
                Some(organization) => format!("/organizations/{organization}/settings/apps"),
                None => "/settings/apps".to_owned(),
            };
            page(
                StatusCode::OK,
                &Register {
                    title: "Register an App",
                    owner: &login,
                    action,
                    name: &manifest.name,
                    manifest: &sent.manifest,
                    state: &asked.state,
                },
            )
        }
        (Err(refusal), _) | (_, Err(refusal)) => refused(&refusal),
    }
}

/// The visitor agrees: the App is made, and the browser goes back with a code.
pub(super) async fn register(State(hub): State_, Path(whose): Path<Whose>, Form(agreed): Form<Agreed>) -> Response {
    let key = tokio::task::spawn_blocking(AppKey::generate).await;
    let registered = || -> Result<String, Refusal> {
        let manifest = Manifest::parse(&agreed.manifest)?;
        let (owner, _) = owner(&hub, &whose)?;
        let key = key.ok().and_then(Result::ok).ok_or_else(|| Refusal::Git("no RSA key could be made".to_owned()))?;
        let code = hub.world().register_app(owner, &agreed.name, &manifest, Arc::new(key))?;
        let joint = if manifest.redirect_url.contains('?') { '&' } else { '?' };
        let state = percent_encoded(&agreed.state);
        Ok(format!("{}{joint}code={code}&state={state}", manifest.redirect_url))
    };
    match registered() {
        Ok(target) => Redirect::to(&target).into_response(),
        Err(refusal) => refused(&refusal),
    }
}

fn owner(hub: &Hub, whose: &Whose) -> Result<(i64, String), Refusal> {
    let world = hub.world();
    let id = match &whose.organization {
        None => hub.visitor,
        Some(login) => {
            let found = world.find_account(login).filter(|account| account.kind == AccountKind::Organization);
            found.ok_or_else(|| Refusal::missing(format!("organization {login}")))?.id
        }
    };
    Ok((id, world.login(id).to_owned()))
}

pub(super) async fn choose(State(hub): State_, Path(slug): Path<String>) -> Response {
    let world = hub.world();
    match its_owner(&world, &slug) {
        Ok(owner) => {
            let here = world.repositories.values().filter(|repository| repository.owner == owner);
            page(
                StatusCode::OK,
                &Install {
                    title: "Install an App",
                    app: &world.app.name,
                    slug: &slug,
                    owner: world.login(owner),
                    repositories: here.map(|repository| world.full_name(repository)).collect(),
                },
            )
        }
        Err(refusal) => refused(&refusal),
    }
}

/// One field for each repository that was chosen.
pub(super) async fn install(
    State(hub): State_,
    Path(slug): Path<String>,
    Form(chosen): Form<Vec<(String, String)>>,
) -> Response {
    let mut world = hub.world();
    let installed = its_owner(&world, &slug).and_then(|owner| {
        let chosen = chosen.iter().filter(|(field, _)| field == "repository");
        let ids = chosen.map(|(_, name)| world.repository_named(name).map(|repository| repository.id));
        let ids = ids.collect::<Result<BTreeSet<i64>, Refusal>>()?;
        world.install_on(owner, ids)
    });
    match (installed, world.app.setup_url.clone()) {
        (Ok(id), Some(page)) => {
            Redirect::to(&format!("{page}?installation_id={id}&setup_action=install")).into_response()
        }
        (Ok(_), None) => Redirect::to("/").into_response(),
        (Err(refusal), _) => refused(&refusal),
    }
}

/// An App that is not public is its owner's alone.
fn its_owner(world: &World, slug: &str) -> Result<i64, Refusal> {
    let owner = world.app.owner.filter(|_| world.app.slug == slug && !world.app.public);
    owner.ok_or_else(|| Refusal::missing(format!("an App called {slug} that can be installed here")))
}
