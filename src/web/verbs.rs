//! What people can do from the panel: the orchestrator's verbs, each carried to its end even when the browser has gone,
//! and told as a message. Half a removal would wait for whoever goes on with it, so no request may cut one short.

use super::{WebState, error::WebError, flash::Flash, guard::Actor, pages::orphans};
use crate::model::*;
use crate::orchestrator::{
    StepError,
    restore::Restored,
    sweep::{ByHand, Pass, Swept},
};
use crate::reply::{cleanup, report};
use std::time::Duration;

/// How long a page waits for a verb; it goes on nevertheless.
const PATIENCE: Duration = Duration::from_secs(20);

/// Removes an environment when nothing would be lost; `force`: what is not committed goes to the trash.
pub async fn remove(state: &WebState, environment: Environment, force: bool, actor: Actor) -> Result<Flash, WebError> {
    let orchestrator = state.inner.orchestrator.clone();
    carry_out(async move {
        let branch = environment.branch.to_string();
        let swept = match force {
            true => orchestrator.remove_by_force(environment.id, Trigger::Panel, &actor.0).await?,
            false => orchestrator.remove(environment.id, Trigger::Panel, &actor.0).await?,
        };
        Ok(match swept {
            Swept::Removed(details) => Flash::Removed { proof: details.proof, forced: force },
            Swept::Kept(reasons) => Flash::Kept { branch, reasons: reasons.iter().map(cleanup::sentence).collect() },
            Swept::Gone => Flash::Gone { branch },
        })
    })
    .await
}

/// What [`remove`] would do; changes nothing.
pub async fn foresee(state: &WebState, environment: Environment, force: bool, actor: Actor) -> Result<Flash, WebError> {
    let orchestrator = state.inner.orchestrator.clone();
    carry_out(async move {
        let branch = environment.branch.to_string();
        Ok(match orchestrator.foresee(environment.id, force, Trigger::Panel, &actor.0).await? {
            Swept::Removed(details) => {
                let ReceiptDetails { proof, branch_deleted, kept_until, .. } = *details;
                Flash::WouldGo { branch, proof, branch_deleted, kept_until: kept_until.map(Timestamp::date) }
            }
            Swept::Kept(reasons) => {
                Flash::WouldStay { branch, reasons: reasons.iter().map(cleanup::sentence).collect() }
            }
            Swept::Gone => Flash::Gone { branch },
        })
    })
    .await
}

/// Brings a removed environment back.
pub async fn restore(state: &WebState, environment: Environment, actor: Actor) -> Result<Flash, WebError> {
    let orchestrator = state.inner.orchestrator.clone();
    carry_out(async move {
        Ok(match orchestrator.restore(environment.id, &actor.0).await? {
            Restored::Back(environment, notes) => Flash::Restored { id: environment.id, notes },
            Restored::Before(environment) => Flash::ThereAlready { id: environment.id },
            Restored::Occupied(environment) => Flash::Occupied { work: environment.work.to_string() },
            Restored::NeverRemoved => Flash::NothingToRestore,
        })
    })
    .await
}

/// Protects an environment from cleanup, or ends that.
pub async fn pin(state: &WebState, environment: Environment, pinned: bool, actor: Actor) -> Result<Flash, WebError> {
    let orchestrator = state.inner.orchestrator.clone();
    carry_out(async move {
        let branch = environment.branch.to_string();
        let found = orchestrator.set_pinned(environment.id, pinned, &actor.0).await?;
        Ok(match (found, pinned) {
            (None, _) => Flash::Gone { branch },
            (Some(_), true) => Flash::Pinned { branch },
            (Some(_), false) => Flash::Unpinned { branch },
        })
    })
    .await
}

/// Switches a codebase on, stages it, or switches it off.
pub async fn set_mode(
    state: &WebState,
    codebase: Codebase,
    mode: CodebaseMode,
    actor: Actor,
) -> Result<Flash, WebError> {
    let orchestrator = state.inner.orchestrator.clone();
    carry_out(async move {
        orchestrator.set_mode(&codebase, mode, &actor.0).await?;
        Ok(Flash::Mode { name: codebase.name.to_string(), mode })
    })
    .await
}

/// Asks a run to stop.
pub async fn stop(state: &WebState, run: RunId, actor: Actor) -> Result<Flash, WebError> {
    let orchestrator = state.inner.orchestrator.clone();
    carry_out(async move {
        let asked = orchestrator.stop_run(run, &actor.0).await?;
        Ok(if asked { Flash::Stopping } else { Flash::OverAlready })
    })
    .await
}

/// A pass over all environments, by the rules of the scheduled ones.
pub async fn pass(state: &WebState, dry_run: bool, actor: Actor) -> Result<Flash, WebError> {
    let orchestrator = state.inner.orchestrator.clone();
    carry_out(async move {
        let report = orchestrator.pass(&Pass::everywhere(Trigger::Panel, dry_run, &actor.0)).await?;
        let outcome = report::outcome(&report);
        Ok(Flash::Pass { dry_run, outcome, all_looked_at: report.sums().failed == 0 })
    })
    .await
}

/// Makes an environment of a worktree that has none. Answers with the page that shows what became of it, too.
pub async fn adopt_orphan(
    state: &WebState,
    codebase: Codebase,
    place: String,
    actor: Actor,
) -> Result<(Flash, String), WebError> {
    let orchestrator = state.inner.orchestrator.clone();
    carry_out_on(orphans::PAGE, async move {
        Ok(by_hand(orchestrator.adopt_orphan(&codebase, &place, &actor.0).await?, place, false))
    })
    .await
}

/// Removes a worktree that no environment has, as an environment is removed.
pub async fn remove_orphan(
    state: &WebState,
    codebase: Codebase,
    place: String,
    force: bool,
    actor: Actor,
) -> Result<(Flash, String), WebError> {
    let orchestrator = state.inner.orchestrator.clone();
    carry_out_on(orphans::PAGE, async move {
        let done = orchestrator.remove_orphan(&codebase, &place, force, Trigger::Panel, &actor.0).await?;
        Ok(by_hand(done, place, force))
    })
    .await
}

fn by_hand(done: ByHand, place: String, forced: bool) -> (Flash, String) {
    let list = || orphans::PAGE.to_owned();
    let of = |id: EnvironmentId| format!("/environments/{id}");
    match done {
        ByHand::Adopted(environment) => (Flash::Adopted { name: environment.work.to_string() }, of(environment.id)),
        ByHand::Removed(id, details) => (Flash::Removed { proof: details.proof, forced }, of(id)),
        ByHand::Kept(environment, reasons) => {
            (Flash::Kept { branch: environment.branch.to_string(), reasons }, of(environment.id))
        }
        ByHand::TakenOut => (Flash::TakenOut { place }, list()),
        ByHand::Stays(reasons) => (Flash::Stays { place, reasons }, list()),
        ByHand::Gone => (Flash::NotThere { place }, list()),
    }
}

async fn carry_out(verb: impl Future<Output = Result<Flash, StepError>> + Send + 'static) -> Result<Flash, WebError> {
    let told = carry_out_on("", async move { Ok((verb.await?, String::new())) }).await?;
    Ok(told.0)
}

/// Its own task: the request may end before it does. `page` is where a failure is told.
async fn carry_out_on(
    page: &str,
    verb: impl Future<Output = Result<(Flash, String), StepError>> + Send + 'static,
) -> Result<(Flash, String), WebError> {
    let task = tokio::spawn(async move {
        verb.await.inspect_err(|error| tracing::error!(error = %error, "an action of the panel failed"))
    });
    match tokio::time::timeout(PATIENCE, task).await {
        Ok(told) => Ok(told?.unwrap_or_else(|error| (Flash::Failed { why: error.to_string() }, page.to_owned()))),
        Err(_) => Ok((Flash::GoesOn, page.to_owned())),
    }
}
