//! `/setup`: a GitHub App by two forms, one here and one on GitHub, and then what is still missing until it works.
//!
//! GitHub leads the browser back to `/setup/callback` by GET, so what that changes is guarded by a state: random, known to this
//! session only, good for one answer and ten minutes.

use super::checks::{Line, Mend, examined, line};
use super::{Frame, LiveQuery, render};
use crate::github::manifest::{
    self, Addresses, AppName, ConversionCode, Organization, Owner, Unfit, WebhookUrl, registration_page,
};
use crate::model::Check;
use crate::orchestrator::{NotTakenUp, Stage};
use crate::web::flash::Flash;
use crate::web::view::{Prose, When, ago};
use crate::web::{WebState, error::WebError, guard, router::policy_with_forms_to, session};
use askama::Template;
use axum::{
    Form,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use std::time::Duration;
use tower_sessions::Session;

pub const PAGE: &str = "/setup";
/// What an App needs to work.
const SHOWN: [&str; 4] = ["github", "webhook", "git", "agent"];
/// How long the browser waits while GitHub hands over the App, which goes on nevertheless.
const PATIENCE: Duration = Duration::from_secs(45);

/// As it was filled in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Wishes {
    /// Empty for the person who is signed in to GitHub.
    organization: String,
    name: String,
    /// May be empty where deliveries are fetched.
    webhook: String,
    /// Ticked: GitHub does not reach this machine.
    fetch: Option<String>,
}

/// What an App is made by.
struct Understood {
    owner: Owner,
    name: AppName,
    webhook: WebhookUrl,
    fetches: bool,
}

#[derive(Template)]
#[template(path = "setup.html")]
struct Page {
    frame: Frame,
    /// GitHub's pages.
    web_url: String,
    step: Step,
}

enum Step {
    /// `fetches`: as far as the settings say it.
    Fill {
        wishes: Wishes,
        fetches: Option<bool>,
        complaint: Option<String>,
    },
    Wait {
        slug: String,
        why: Option<(Prose, &'static str)>,
    },
    /// `when` it was looked at, once that is over.
    Finish {
        install: String,
        lines: Vec<Line>,
        when: Option<When>,
    },
}

#[derive(Template)]
#[template(path = "setup_send.html")]
struct SendPage {
    frame: Frame,
    web_url: String,
    /// GitHub's page that takes it.
    page: String,
    manifest: String,
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Query(live): Query<LiveQuery>,
) -> Result<Response, WebError> {
    let mut frame = Frame::load(&state, &session, PAGE).await?;
    let (step, going_on) = match state.inner.set_up.stage() {
        Stage::Open => {
            let fetches = state.inner.set_up.fetches();
            (Step::Fill { wishes: proposed(&state), fetches, complaint: None }, false)
        }
        Stage::Waiting(waiting) => {
            let why = waiting.why.map(|(why, advice)| (state.sentence(&why), advice));
            (Step::Wait { slug: waiting.slug, why }, true)
        }
        Stage::Connected => finish(&state).await?,
    };
    frame.follow(going_on, live);
    Ok(render(&Page { frame, web_url: state.inner.web_url.clone(), step }))
}

/// What of it works, and whether nothing has come from GitHub yet.
async fn finish(state: &WebState) -> Result<(Step, bool), WebError> {
    // What came before this App was made is another one's.
    let app = state.inner.orchestrator.identity().app_id;
    let since = state.inner.store.load_missed_watch(app).await?.map(|watch| watch.since);
    let delivered = state.inner.store.last_delivered().await?.filter(|at| since.is_none_or(|since| *at >= since));
    let seen = match delivered {
        Some(_) => "GitHub's deliveries come in",
        None => "nothing has come from GitHub yet; installing the App makes it tell something",
    };
    let arrives =
        Check { what: "webhook", fine: delivered.is_some(), seen: seen.to_owned(), mend: None, account: None };
    let mut lines = vec![Line { when: delivered.map(|at| ago(at, state.now())), ..line(state, arrives) }];
    let found = examined(state).await;
    let when = found.as_ref().map(|found| ago(found.at, state.now()));
    let checks = found.into_iter().flat_map(|found| found.checks);
    lines.extend(checks.filter(|check| SHOWN.contains(&check.what)).map(|check| line(state, check)));
    let install = manifest::installation_page(&state.inner.web_url, &state.inner.orchestrator.identity().slug);
    Ok((Step::Finish { install, lines, when }, delivered.is_none()))
}

/// What the form shows at first.
fn proposed(state: &WebState) -> Wishes {
    let webhook = format!("{}/webhooks/github", state.inner.public_url);
    let reached = WebhookUrl::parse(&webhook, &state.inner.web_url).is_ok();
    Wishes {
        organization: String::new(),
        name: manifest::proposed_name().to_owned(),
        webhook: if reached && state.inner.set_up.fetches() != Some(true) { webhook } else { String::new() },
        fetch: None,
    }
}

/// Shows the form that goes to GitHub, and waits for its answer from then on.
pub async fn propose(
    State(state): State<WebState>,
    session: Session,
    uri: Uri,
    headers: HeaderMap,
    Form(wishes): Form<Wishes>,
) -> Result<Response, WebError> {
    let set_up = &state.inner.set_up;
    if set_up.stage() != Stage::Open {
        return Ok(Redirect::to(PAGE).into_response());
    }
    let Understood { owner, name, webhook, fetches } = match understood(&wishes, set_up.fetches(), &state) {
        Ok(understood) => understood,
        Err(unfit) => return complain(&state, &session, wishes, &unfit).await,
    };
    // Before there is an App whose secrets could not be kept.
    if let Err(error) = set_up.make_ready() {
        return Flash::NotTakenUp { why: error.to_string() }.on(&session, PAGE).await;
    }
    let browser = guard::browser_url(&headers, &uri, &state.inner.public_url);
    let at = Addresses { webhook: &webhook, browser: &browser, public: &state.inner.public_url };
    let manifest = manifest::manifest(&name, at);
    let frame = Frame::load(&state, &session, PAGE).await?;
    let awaited = session::await_answer(&session, fetches, state.now()).await?;
    let web_url = state.inner.web_url.clone();
    let page = registration_page(&web_url, &owner, &awaited);
    let policy = policy_with_forms_to(&web_url);
    let mut response = render(&SendPage { frame, web_url, page, manifest });
    if let Some(policy) = policy {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}

fn understood(wishes: &Wishes, fetches: Option<bool>, state: &WebState) -> Result<Understood, Unfit> {
    let owner = match wishes.organization.trim() {
        "" => Owner::Person,
        organization => Owner::Organization(Organization::parse(organization)?),
    };
    let fetches = fetches.unwrap_or(wishes.fetch.is_some());
    let webhook = match wishes.webhook.trim() {
        "" if fetches => WebhookUrl::nobodys(),
        address => WebhookUrl::parse(address, &state.inner.web_url)?,
    };
    Ok(Understood { owner, name: AppName::parse(&wishes.name)?, webhook, fetches })
}

async fn complain(state: &WebState, session: &Session, wishes: Wishes, unfit: &Unfit) -> Result<Response, WebError> {
    let frame = Frame::load(state, session, PAGE).await?;
    let step = Step::Fill { wishes, fetches: state.inner.set_up.fetches(), complaint: Some(unfit.to_string()) };
    let page = Page { frame, web_url: state.inner.web_url.clone(), step };
    Ok((StatusCode::UNPROCESSABLE_ENTITY, render(&page)).into_response())
}

/// What GitHub sends the browser back with.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Answer {
    code: String,
    state: String,
}

pub async fn take_up(
    State(state): State<WebState>,
    session: Session,
    Query(answer): Query<Answer>,
) -> Result<Response, WebError> {
    let now = state.now();
    let awaited = session::take_awaited(&session, &answer.state, now).await?;
    // Requests that come at once find the same in their session.
    let awaited = awaited.filter(|_| state.inner.set_up.is_first_answer(&answer.state));
    let actor = if awaited.is_some() { session::who(&session, now).await? } else { None };
    let (Some(awaited), Some(actor), Some(code)) = (awaited, actor, ConversionCode::parse(&answer.code)) else {
        return Err(WebError::UnawaitedAnswer);
    };
    let set_up = state.inner.set_up.clone();
    // In a task of its own: the browser may go before GitHub has answered.
    let task = tokio::spawn(async move {
        let taken = set_up.take_up(code, awaited.fetches, actor).await;
        taken.inspect_err(|error| tracing::error!(%error, "an App was not connected"))
    });
    match tokio::time::timeout(PATIENCE, task).await {
        Ok(taken) => match taken? {
            Ok(()) => Ok(Redirect::to(PAGE).into_response()),
            Err(error @ NotTakenUp::ThereAlready) => Err(WebError::NotTakenUp(error)),
            Err(error) => Flash::NotTakenUp { why: error.to_string() }.on(&session, PAGE).await,
        },
        Err(_) => Flash::GoesOn.on(&session, PAGE).await,
    }
}
