//! `/`: what runs, what waits, what needs a person.

use super::rows::{Catalog, EnvironmentRow, RunRow, Thread};
use super::{Frame, LiveQuery, render, setup};
use crate::model::*;
use crate::reply::{access, check, cleanup::settles_itself, status, status::in_words};
use crate::store::{DeliveryLine, RunFilter};
use crate::web::health::PATIENCE;
use crate::web::view::{Prose, When, ago};
use crate::web::{WebState, error::WebError, guard::Actor, verbs};
use askama::Template;
use axum::{
    Form,
    extract::{Path, Query, State},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use std::{sync::atomic::Ordering, time::Duration};
use tower_sessions::Session;

/// How many rows of each kind the overview shows.
const ROWS: usize = 8;
/// What was given up is shown for so long.
const SHOWN_FOR: Duration = Duration::from_secs(30 * 86_400);

/// A delivery that was given up.
struct FailedDelivery {
    event: String,
    why: Prose,
    when: When,
}

/// A comment or pull request that could not be written.
struct FailedMessage {
    what: &'static str,
    /// Where it belongs, when that is known.
    thread: Option<Thread>,
    codebase: String,
    /// The run it is about.
    run: Option<String>,
    why: Prose,
    when: When,
}

/// A repository that was not packed, since when, and why.
struct Unkept {
    codebase: String,
    why: Prose,
    when: When,
}

/// Why the App cannot do in a repository what it should.
struct AccessView {
    codebase: String,
    cause: &'static str,
    way_out: &'static str,
    since: Option<When>,
    /// Where somebody ends that.
    page: Option<String>,
}

/// An installation whose owner has not granted what the App asks for.
struct Waiting {
    account: String,
    missing: String,
    page: String,
}

struct CodebaseRow {
    id: CodebaseId,
    name: String,
    connected: bool,
    access: Option<AccessView>,
    mode: CodebaseMode,
    live: usize,
    /// The last count by class, and when it was made.
    census: Option<(Census, When)>,
    limit: u32,
    /// What it takes on the disk, and whether that is more than it should.
    disk: Option<(Prose, bool)>,
    /// What its settings file says, where it has one.
    settings: Option<SettingsView>,
}

struct SettingsView {
    /// Why the file is not followed.
    problem: Option<Prose>,
    /// What is in force, by key.
    in_force: Vec<(&'static str, String)>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    /// There is an App.
    connected: bool,
    live: usize,
    at_work: i64,
    queued: i64,
    deliveries: i64,
    outgoing: i64,
    kept: Vec<EnvironmentRow>,
    /// How many there are, shown or not.
    kept_count: usize,
    failed: Vec<FailedDelivery>,
    unsent: Vec<FailedMessage>,
    /// How many more of both were given up.
    given_up_more: i64,
    /// What keeps Treewarden from working at this moment.
    trouble: Vec<&'static str>,
    /// Repositories whose upkeep comes to nothing.
    unkept: Vec<Unkept>,
    /// Repositories with worktrees that the App does not reach as it should.
    unreached: Vec<AccessView>,
    waiting: Vec<Waiting>,
    /// What is on the disk without an environment.
    orphans: usize,
    codebases: Vec<CodebaseRow>,
    runs: Vec<RunRow>,
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Query(live): Query<LiveQuery>,
) -> Result<Response, WebError> {
    let connected = state.inner.orchestrator.is_connected();
    if !connected && state.inner.local_token.is_none() {
        return Ok(Redirect::to(setup::PAGE).into_response());
    }
    let (store, catalog) = (&state.inner.store, Catalog::load(&state).await?);
    let environments = store.live_environments(None).await?;
    let waiting = store.unfinished().await?;
    let queued = store.run_counts().await?.into_iter().filter(|(state, _)| *state == RunState::Queued);
    let queued = queued.map(|(_, count)| count).sum();
    let needing: Vec<&Environment> = environments.iter().filter(|environment| needs_person(environment)).collect();
    let mut kept = Vec::new();
    for environment in needing.iter().take(ROWS) {
        kept.push(EnvironmentRow::load(&catalog, environment).await?);
    }
    let since = catalog.now.minus(SHOWN_FOR);
    let given_up = store.given_up(since).await?;
    let (failed, unsent) = (failed_deliveries(&catalog, since).await?, failed_messages(&catalog, since).await?);
    let shown = (failed.len() + unsent.len()) as i64;
    let runs = store.list_runs(RunFilter::default(), ROWS as u32, 0).await?;
    let mut frame = Frame::load(&state, &session, "/").await?;
    let codebases = codebases(&state, &catalog, &environments).await?;
    let counting = codebases.iter().any(|codebase| codebase.census.is_none());
    frame.follow(!waiting.is_empty() || counting, live);
    Ok(render(&Page {
        frame,
        connected,
        live: environments.len(),
        at_work: waiting.runs - queued,
        queued,
        deliveries: waiting.deliveries,
        outgoing: waiting.outgoing,
        kept,
        kept_count: needing.len(),
        given_up_more: (given_up.deliveries + given_up.outgoing - shown).max(0),
        failed,
        unsent,
        trouble: trouble(&state).await,
        unkept: unkept(&catalog).await?,
        unreached: unreached(&catalog, &environments).await?,
        waiting: without_permissions(&catalog).await?,
        orphans: orphans(&catalog).await?,
        codebases,
        runs: RunRow::load_all(&catalog, &runs).await?,
    }))
}

#[derive(Deserialize)]
pub struct ModeForm {
    mode: CodebaseMode,
}

pub async fn set_mode(
    State(state): State<WebState>,
    session: Session,
    actor: Actor,
    Path(id): Path<String>,
    Form(form): Form<ModeForm>,
) -> Result<Response, WebError> {
    let id: CodebaseId = id.parse().map_err(|_| WebError::NotFound)?;
    let codebase = state.inner.store.load_codebase(id).await?.ok_or(WebError::NotFound)?;
    verbs::set_mode(&state, codebase, form.mode, actor).await?.on(&session, "/").await
}

/// Some reason to keep it will not go away by itself.
fn needs_person(environment: &Environment) -> bool {
    environment.metadata.kept_because.iter().any(|why| !settles_itself(why))
}

async fn failed_deliveries(catalog: &Catalog<'_>, since: Timestamp) -> Result<Vec<FailedDelivery>, WebError> {
    let deliveries = catalog.store().failed_deliveries(since, ROWS as u32).await?.into_iter();
    let row = |delivery: DeliveryLine| FailedDelivery {
        event: delivery.event,
        why: delivery.reason.as_deref().map(|why| catalog.state.sentence(why)).unwrap_or_default(),
        when: ago(delivery.finished_at.unwrap_or(delivery.received_at), catalog.now),
    };
    Ok(deliveries.map(row).collect())
}

async fn failed_messages(catalog: &Catalog<'_>, since: Timestamp) -> Result<Vec<FailedMessage>, WebError> {
    let mut messages = Vec::new();
    for row in catalog.store().failed_outgoing(since, ROWS as u32).await? {
        let conversation = match row.conversation {
            Some(id) => match catalog.store().load_conversation(id).await {
                Err(error) if error.is_corrupt() => None,
                found => found?,
            },
            None => None,
        };
        let what = match row.outgoing {
            Outgoing::Comment { .. } => "comment",
            Outgoing::Message { .. } => "message",
            Outgoing::PullRequest { .. } => "pull request",
            Outgoing::CheckRun(_) => "check run",
            Outgoing::React { .. } => "reaction",
        };
        messages.push(FailedMessage {
            what,
            thread: conversation.map(|conversation| Thread::of_conversation(catalog, &conversation)),
            codebase: catalog.name(row.codebase),
            run: [status::run_of, status::run_of_pull, check::run_of]
                .into_iter()
                .find_map(|run_of| run_of(&row.key))
                .map(|run| run.to_string()),
            why: row.last_error.as_deref().map(|why| catalog.state.sentence(why)).unwrap_or_default(),
            when: ago(row.updated_at, catalog.now),
        });
    }
    Ok(messages)
}

async fn unkept(catalog: &Catalog<'_>) -> Result<Vec<Unkept>, WebError> {
    let mut unkept = Vec::new();
    for codebase in catalog.codebases() {
        if let Some(trouble) = catalog.store().load_maintained(codebase.id).await?.trouble {
            let why = catalog.state.sentence(&trouble.why);
            unkept.push(Unkept { codebase: codebase.name.to_string(), why, when: ago(trouble.since, catalog.now) });
        }
    }
    Ok(unkept)
}

async fn access_view(catalog: &Catalog<'_>, codebase: &Codebase) -> Result<Option<AccessView>, WebError> {
    let Some(cause) = access::cause(codebase.reach) else { return Ok(None) };
    Ok(Some(AccessView {
        codebase: codebase.name.to_string(),
        cause,
        way_out: access::way_out(codebase.reach),
        since: codebase.reach_since.map(|since| ago(since, catalog.now)),
        page: catalog.state.inner.orchestrator.access_page(codebase).await?,
    }))
}

async fn unreached(catalog: &Catalog<'_>, live: &[Environment]) -> Result<Vec<AccessView>, WebError> {
    let mut unreached = Vec::new();
    for codebase in catalog.codebases() {
        if live.iter().any(|environment| environment.codebase == codebase.id) {
            unreached.extend(access_view(catalog, codebase).await?);
        }
    }
    Ok(unreached)
}

async fn without_permissions(catalog: &Catalog<'_>) -> Result<Vec<Waiting>, WebError> {
    let all = catalog.store().load_installations().await?.all.into_iter();
    let lacking = all.filter(|installed| !installed.missing_permissions.is_empty());
    let waiting = lacking.map(|installed| Waiting {
        account: catalog.state.shown(&installed.account),
        missing: catalog.state.shown(&installed.missing_permissions.join(", ")),
        page: installed.page,
    });
    Ok(waiting.collect())
}

/// Also what lies in repositories that the database has not heard from.
async fn orphans(catalog: &Catalog<'_>) -> Result<usize, WebError> {
    let orchestrator = &catalog.state.inner.orchestrator;
    let unheard = orchestrator.unheard().await?;
    let mut all: usize = unheard.iter().map(|unheard| unheard.directories).sum();
    for codebase in catalog.codebases() {
        // Where they cannot be counted, their own page says why.
        all += orchestrator.count_waiting(codebase).await.unwrap_or(1);
    }
    Ok(all)
}

/// What a person has to mend before anything else goes on.
async fn trouble(state: &WebState) -> Vec<&'static str> {
    let takes = tokio::time::timeout(PATIENCE, state.inner.orchestrator.inbox().takes_deliveries(state.now())).await;
    let mut trouble = Vec::new();
    if !takes.unwrap_or(false) {
        trouble.push(
            "Deliveries cannot be stored, so GitHub is told to keep them. Look at the database and the space on its \
             disk; they are fetched from GitHub as soon as there is room.",
        );
    }
    if !state.inner.workers_healthy.load(Ordering::Relaxed) {
        trouble.push(
            "The workers do not get through to the database, so nothing goes on. They try again by themselves; \
             Treewarden's log says why.",
        );
    }
    trouble
}

async fn codebases(
    state: &WebState,
    catalog: &Catalog<'_>,
    environments: &[Environment],
) -> Result<Vec<CodebaseRow>, WebError> {
    let mut rows = Vec::new();
    for codebase in catalog.codebases() {
        let known = state.inner.store.load_repo_settings(codebase.id).await?.unwrap_or_default();
        let live = environments.iter().filter(|environment| environment.codebase == codebase.id).count();
        let census = state.inner.orchestrator.last_census(codebase, live);
        let disk = state.inner.orchestrator.told_of_disk(codebase.id).await?;
        let disk = disk.map(|(line, is_over)| (state.prose(&line), is_over));
        rows.push(CodebaseRow {
            id: codebase.id,
            name: codebase.name.to_string(),
            connected: codebase.connected,
            access: access_view(catalog, codebase).await?,
            mode: codebase.mode,
            live,
            disk,
            // The same numbers as `/status` gives.
            census: census.map(|(census, at)| (census, ago(at, catalog.now))),
            limit: known.in_force.worktree_limit(state.inner.environment_limit),
            settings: known.file.is_some().then(|| SettingsView::new(state, codebase, known)),
        });
    }
    Ok(rows)
}

impl SettingsView {
    fn new(state: &WebState, codebase: &Codebase, known: KnownSettings) -> Self {
        let settings = known.in_force;
        let default = codebase.default_branch.as_ref().map(BranchName::to_string).unwrap_or_default();
        let problem = known.problem.map(|problem| state.prose(&problem.to_string()));
        let in_force = vec![
            ("base", state.shown(&settings.base.as_ref().map_or(default, BranchName::to_string))),
            ("branch_prefix", settings.branch_prefix.as_ref().map_or("none".to_owned(), BranchPrefix::to_string)),
            ("share_linked", settings.share_linked.to_string()),
            ("pull_request", settings.pull_request.to_string()),
            ("max_worktrees", settings.worktree_limit(state.inner.environment_limit).to_string()),
            ("run_time_limit", in_words(settings.time_limit(state.inner.run_time_limit))),
        ];
        Self { problem, in_force }
    }
}
