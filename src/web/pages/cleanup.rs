//! `/cleanup`: what the passes did and left, with reasons; receipts; and a pass at the press of a button.

use super::{Frame, render, rows::Catalog};
use crate::model::*;
use crate::reply::{bytes, report};
use crate::web::view::{Mark, Prose, When, ago, of_result};
use crate::web::{WebState, error::WebError, guard::Actor, verbs};
use askama::Template;
use axum::{Form, extract::State, response::Response};
use serde::Deserialize;
use tower_sessions::Session;

/// Passes and receipts shown.
const ROWS: u32 = 30;
/// Lines of a pass shown; those of what was removed or failed come first.
const LINES: usize = 50;

struct Pass {
    when: When,
    trigger: String,
    dry_run: bool,
    lines: Vec<Line>,
    /// Lines that are not shown.
    more: usize,
    /// In numbers: how many went and stayed, in what time, and what that freed.
    outcome: String,
}

struct Line {
    /// Absent of what has none.
    environment: Option<EnvironmentId>,
    /// Of the environment, with its repository.
    name: String,
    mark: Mark,
    reasons: Vec<Prose>,
    freed: Option<String>,
}

struct ReceiptRow {
    when: When,
    environment: EnvironmentId,
    name: String,
    proof: Prose,
    freed: Option<String>,
}

#[derive(Template)]
#[template(path = "cleanup.html")]
struct Page {
    frame: Frame,
    passes: Vec<Pass>,
    receipts: Vec<ReceiptRow>,
    /// How much is on the disk that no environment has.
    orphans: usize,
    /// In directories of repositories that the database has not heard from.
    unheard: usize,
}

pub async fn show(State(state): State<WebState>, session: Session) -> Result<Response, WebError> {
    let store = &state.inner.store;
    let passes = store.list_reports(ROWS).await?.into_iter().map(|report| pass(&state, report)).collect();
    let catalog = Catalog::load(&state).await?;
    let mut receipts = Vec::new();
    for receipt in store.list_receipts(ROWS).await? {
        // A row that cannot be read takes no receipt away.
        let environment = store.load_environment(receipt.environment).await.ok().flatten();
        let repository = environment.map(|environment| catalog.name(environment.codebase));
        receipts.push(row(&state, repository, receipt));
    }
    let mut orphans = 0;
    for codebase in catalog.codebases() {
        // Where they cannot be counted, their own page says why.
        orphans += state.inner.orchestrator.count_orphans(codebase).await.unwrap_or(1);
    }
    let unheard = state.inner.orchestrator.unheard().await?.iter().map(|unheard| unheard.directories).sum();
    Ok(render(&Page { frame: Frame::load(&state, &session, "/cleanup").await?, passes, receipts, orphans, unheard }))
}

fn pass(state: &WebState, mut report: CleanupReport) -> Pass {
    report.lines.sort_by_key(|line| matches!(line.result, ReportResult::Kept(_)));
    let mut pass = Pass {
        when: ago(report.started_at, state.now()),
        trigger: report.trigger.as_str().replace('_', " "),
        dry_run: report.dry_run,
        lines: Vec::new(),
        more: report.lines.len().saturating_sub(LINES),
        outcome: report::outcome(&report),
    };
    for line in report.lines {
        let mark = of_result(&line.result, report.dry_run);
        let name = state.shown(&line.name());
        let notes = line.notes;
        let reasons = match line.result {
            ReportResult::Removed(why) | ReportResult::Failed(why) => vec![why],
            ReportResult::Kept(reasons) => reasons,
        };
        if pass.lines.len() < LINES {
            let reasons = reasons.iter().chain(&notes).map(|why| state.prose(why)).collect();
            let freed = line.bytes_freed.map(bytes);
            pass.lines.push(Line { environment: line.environment, name, mark, reasons, freed });
        }
    }
    pass
}

fn row(state: &WebState, repository: Option<String>, receipt: Receipt) -> ReceiptRow {
    let branch = &receipt.details.branch;
    let name = repository.map_or_else(|| branch.clone(), |repository| format!("{repository}#{branch}"));
    ReceiptRow {
        when: ago(receipt.created_at, state.now()),
        environment: receipt.environment,
        name: state.shown(&name),
        proof: state.prose(&receipt.details.proof),
        freed: receipt.details.bytes_freed.map(bytes),
    }
}

#[derive(Deserialize)]
pub struct PassForm {
    #[serde(default)]
    dry_run: bool,
}

pub async fn run(
    State(state): State<WebState>,
    session: Session,
    actor: Actor,
    Form(form): Form<PassForm>,
) -> Result<Response, WebError> {
    verbs::pass(&state, form.dry_run, actor).await?.on(&session, "/cleanup").await
}
