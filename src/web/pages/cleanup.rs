//! `/cleanup`: what the passes did and left, with reasons; receipts; and a pass at the press of a button.

use super::{Frame, answer, render};
use crate::model::*;
use crate::web::{
    WebState,
    error::WebError,
    format::{When, ago, bytes},
    guard,
};
use askama::Template;
use axum::{Form, extract::State, response::Response};
use serde::Deserialize;
use tower_sessions::Session;

const ROWS: u32 = 30;

struct ReportView {
    when: When,
    trigger: &'static str,
    dry_run: bool,
    removed: usize,
    kept: usize,
    failed: usize,
    lines: Vec<LineView>,
}

struct LineView {
    environment: EnvironmentId,
    branch: String,
    result: &'static str,
    words: String,
}

struct ReceiptRow {
    when: When,
    environment: EnvironmentId,
    branch: String,
    proof: String,
    freed: String,
}

#[derive(Template)]
#[template(path = "cleanup.html")]
struct Page {
    frame: Frame,
    reports: Vec<ReportView>,
    receipts: Vec<ReceiptRow>,
}

pub async fn show(State(state): State<WebState>, session: Session) -> Result<Response, WebError> {
    let now = state.now();
    let reports = state.inner.store.list_reports(ROWS).await?;
    let receipts = state.inner.store.list_receipts(ROWS).await?;
    let receipts = receipts.into_iter().map(|receipt| ReceiptRow {
        when: ago(receipt.created_at, now),
        environment: receipt.environment,
        branch: receipt.details.branch,
        proof: receipt.details.proof,
        freed: receipt.details.bytes_freed.map(bytes).unwrap_or_default(),
    });
    Ok(render(&Page {
        frame: Frame::load(&session, "cleanup").await?,
        reports: reports.into_iter().map(|report| view(report, now)).collect(),
        receipts: receipts.collect(),
    }))
}

fn view(report: CleanupReport, now: Timestamp) -> ReportView {
    let lines: Vec<LineView> = report
        .lines
        .into_iter()
        .map(|line| {
            let (result, words) = match line.result {
                ReportResult::Removed(why) => ("removed", why),
                ReportResult::Kept(reasons) => ("kept", reasons.join("; ")),
                ReportResult::Failed(why) => ("failed", why),
            };
            LineView { environment: line.environment, branch: line.branch, result, words }
        })
        .collect();
    let count = |result: &str| lines.iter().filter(|line| line.result == result).count();
    ReportView {
        when: ago(report.started_at, now),
        trigger: report.trigger.as_str(),
        dry_run: report.dry_run,
        removed: count("removed"),
        kept: count("kept"),
        failed: count("failed"),
        lines,
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
    Form(form): Form<PassForm>,
) -> Result<Response, WebError> {
    let actor = guard::actor(&session).await?;
    let report = state.inner.orchestrator.pass(Trigger::Schedule, form.dry_run, &actor).await?;
    let removed = report.lines.iter().filter(|line| matches!(line.result, ReportResult::Removed(_))).count();
    let message = match form.dry_run {
        true => format!("A real pass would remove {removed} of {} worktrees. Nothing was changed.", report.lines.len()),
        false => {
            format!("{removed} of {} worktrees removed; the others are kept, with reasons below.", report.lines.len())
        }
    };
    answer(&session, "/cleanup", message).await
}
