//! `/environments` and `/environments/{id}`: every isolated place, why it is kept, and how to go on in it by hand.

use super::{Frame, PAGE, PageQuery, Pager, answer, render, runs::RunRow};
use crate::model::*;
use crate::orchestrator::sweep::Swept;
use crate::reply::{answers, cleanup};
use crate::store::{EnvironmentFilter, RunFilter};
use crate::web::{
    WebState,
    error::WebError,
    format::{When, ago, bytes, percent_encode},
    guard,
};
use askama::Template;
use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use serde::Deserialize;
use tower_sessions::Session;

/// One environment in a list.
pub struct EnvironmentRow {
    pub id: EnvironmentId,
    pub codebase: String,
    pub work: String,
    /// The issue or pull request on GitHub.
    pub thread_url: Option<String>,
    pub branch: String,
    pub state: &'static str,
    pub pinned: bool,
    pub age: When,
    pub activity: When,
    pub kept_because: Vec<String>,
}

impl EnvironmentRow {
    pub async fn load(state: &WebState, environment: Environment) -> Result<Self, WebError> {
        let codebase = state.inner.store.load_codebase(environment.codebase).await?;
        let name = codebase.map(|codebase| codebase.name.to_string()).unwrap_or_default();
        let now = state.now();
        let thread = match environment.work.kind {
            WorkKind::Issue => Some("issues"),
            WorkKind::PullRequest | WorkKind::Review => Some("pull"),
            WorkKind::Thread | WorkKind::Task => None,
        };
        Ok(Self {
            id: environment.id,
            thread_url: thread.map(|kind| format!("{}/{name}/{kind}/{}", state.inner.web_url, environment.work.id)),
            codebase: name,
            work: environment.work.to_string(),
            branch: environment.branch.to_string(),
            state: environment.state.as_str(),
            pinned: environment.pinned,
            age: ago(environment.created_at, now),
            activity: ago(environment.last_activity_at, now),
            kept_because: match environment.state {
                EnvironmentState::Destroyed => Vec::new(),
                _ => environment.metadata.kept_because,
            },
        })
    }
}

#[derive(Deserialize)]
pub struct ListQuery {
    #[serde(default)]
    q: String,
    #[serde(default)]
    codebase: String,
    /// Also those that were removed.
    #[serde(default)]
    all: bool,
    page: Option<u32>,
}

#[derive(Template)]
#[template(path = "environments.html")]
struct ListPage {
    frame: Frame,
    slug: String,
    query: ListQuery,
    codebases: Vec<String>,
    rows: Vec<EnvironmentRow>,
    pager: Pager,
    /// The filter as a query string, for the links of the pager.
    link: String,
}

pub async fn list(
    State(state): State<WebState>,
    session: Session,
    Query(query): Query<ListQuery>,
) -> Result<Response, WebError> {
    let store = &state.inner.store;
    let codebases = store.list_codebases().await?;
    let page = PageQuery { page: query.page };
    let filter = EnvironmentFilter {
        codebase: codebases.iter().find(|codebase| codebase.name.to_string() == query.codebase).map(|c| c.id),
        live_only: !query.all,
        search: query.q.clone(),
    };
    let mut rows = Vec::new();
    for environment in store.list_environments(&filter, PAGE + 1, page.offset()).await? {
        rows.push(EnvironmentRow::load(&state, environment).await?);
    }
    let pager = page.cut(&mut rows);
    let codebases = codebases.iter().map(|codebase| codebase.name.to_string()).collect();
    let frame = Frame::load(&session, "environments").await?;
    let pair = |name: &str, value: &str| format!("{name}={}&", percent_encode(value));
    let link = pair("q", &query.q) + &pair("codebase", &query.codebase) + &pair("all", &query.all.to_string());
    Ok(render(&ListPage { frame, slug: state.inner.slug.clone(), query, codebases, rows, pager, link }))
}

struct ReceiptView {
    when: When,
    trigger: &'static str,
    proof: String,
    tip: String,
    branch_deleted: bool,
    freed: Option<String>,
    restore: String,
}

#[derive(Template)]
#[template(path = "environment.html")]
struct EnvironmentPage {
    frame: Frame,
    row: EnvironmentRow,
    path: String,
    base: String,
    start: String,
    links: Vec<String>,
    conversations: Vec<(String, String, &'static str)>,
    runs: Vec<RunRow>,
    receipt: Option<ReceiptView>,
}

async fn load(state: &WebState, id: &str) -> Result<Environment, WebError> {
    let id = id.parse().map_err(|_| WebError::NotFound)?;
    state.inner.store.load_environment(id).await?.ok_or(WebError::NotFound)
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    let environment = load(&state, &id).await?;
    let store = &state.inner.store;
    let mut runs = Vec::new();
    let filter = RunFilter { environment: Some(environment.id), ..RunFilter::default() };
    for run in store.list_runs(filter, PAGE, 0).await? {
        runs.push(RunRow::load(&state, run).await?);
    }
    let conversations = store.conversations_of(environment.id).await?;
    let receipt = store.receipt_of(environment.id).await?.map(|receipt| ReceiptView {
        when: ago(receipt.created_at, state.now()),
        trigger: receipt.trigger.as_str(),
        proof: receipt.details.proof,
        tip: receipt.details.tip.map(String::from).unwrap_or_default(),
        branch_deleted: receipt.details.branch_deleted,
        freed: receipt.details.bytes_freed.map(bytes),
        restore: receipt.details.restore,
    });
    let row = EnvironmentRow::load(&state, environment.clone()).await?;
    let thread = |c: &Conversation| {
        let kind = if c.kind == ThreadKind::Issue { "issues" } else { "pull" };
        let url = format!("{}/{}/{kind}/{}", state.inner.web_url, row.codebase, c.number);
        (url, format!("#{} {}", c.number, c.title), c.state.as_str())
    };
    Ok(render(&EnvironmentPage {
        frame: Frame::load(&session, "environments").await?,
        conversations: conversations.iter().map(thread).collect(),
        path: environment.path.display().to_string(),
        base: environment.base.map(String::from).unwrap_or_default(),
        start: environment.start.map(String::from).unwrap_or_default(),
        links: environment.metadata.links.iter().map(Work::to_string).collect(),
        runs,
        receipt,
        row,
    }))
}

pub async fn remove(
    State(state): State<WebState>,
    session: Session,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    let environment = load(&state, &id).await?;
    let actor = guard::actor(&session).await?;
    let message = match state.inner.orchestrator.remove(environment.id, Trigger::Panel, &actor).await? {
        Swept::Removed(details) => cleanup::removed_line(&details),
        Swept::Kept(reasons) => answers::kept_on_request(&environment.branch, &reasons),
        Swept::Gone => answers::removed_before(&environment.branch),
    };
    answer(&session, &format!("/environments/{}", environment.id), message).await
}

pub async fn pin(
    State(state): State<WebState>,
    session: Session,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    let environment = load(&state, &id).await?;
    let actor = guard::actor(&session).await?;
    let pinned = state.inner.orchestrator.set_pinned(environment.id, !environment.pinned, &actor).await?;
    let message = pinned.map_or_else(answers::no_environment, |environment| answers::pinned(&environment));
    answer(&session, &format!("/environments/{}", environment.id), message).await
}
