//! What to do after a failure: try again at once, later, or give up. Facts only; the wording is `reply`'s.

use super::StepError;
use crate::isolation::IsolationError;
use crate::model::*;
use crate::store::StoreError;
use std::time::Duration;

/// Deliveries are given up after this many tries (over about half an hour, or as long as GitHub asked to wait).
const DELIVERY_TRIES: i64 = 14;
/// One that GitHub refuses, or knows nothing of, may pass as well, and is given up much sooner (over some seconds).
const REFUSED_TRIES: i64 = 4;
/// Outgoing rows are given up after this many tries (over about a day and a half).
const OUTGOING_TRIES: i64 = 48;
/// Within a run, a step that failed for a passing reason is repeated this often.
const STEP_TRIES: u32 = 3;
/// Between two looks at a database that is away.
const DATABASE_PAUSE: Duration = Duration::from_secs(1);
/// A run does not wait longer than this for GitHub.
const LONGEST_WAIT: Duration = Duration::from_secs(90);

/// Whether the same step may succeed later without anybody changing anything, and how long to wait when that is known.
pub(super) fn passing(error: &StepError) -> Option<Option<Duration>> {
    match error {
        StepError::Github(error) => error.is_transient().then(|| error.retry_after()),
        StepError::Store(error) => error.is_transient().then_some(None),
        StepError::Git(error) | StepError::Isolation(IsolationError::Git(error)) => {
            error.is_transient().then_some(None)
        }
        StepError::Isolation(_) | StepError::Agent(_) | StepError::Refused(_) | StepError::PermissionUnknown { .. } => {
            None
        }
        StepError::Occupied(_) | StepError::LeaseLost | StepError::Stopping | StepError::Panicked => None,
    }
}

/// Whether GitHub or the git server refused, or knew nothing of what was asked for. Most mean it; but both also say so for
/// a moment, where a permission, a rename or a new branch is about to settle: only what they say again counts.
fn is_refusal(error: &StepError) -> bool {
    match error {
        StepError::PermissionUnknown { .. } => true,
        StepError::Github(error) => error.is_refusal(),
        StepError::Git(error) => error.is_refusal(),
        StepError::Store(_) | StepError::Isolation(_) | StepError::Agent(_) | StepError::Refused(_) => false,
        StepError::Occupied(_) | StepError::LeaseLost | StepError::Stopping | StepError::Panicked => false,
    }
}

/// Whether a delivery is worth another try. One whose tries all ended without a word (the process died, or was killed for
/// want of memory) is given up, so that it cannot take the service down for ever.
pub(super) fn may_be_handled(delivery: &Delivery) -> bool {
    delivery.tries <= DELIVERY_TRIES
}

/// When a delivery that failed is tried again; `None`: never.
pub(super) fn delivery_again(delivery: &Delivery, error: &StepError, now: Timestamp) -> Option<Timestamp> {
    let (asked, most) = match is_refusal(error) {
        true => (None, REFUSED_TRIES),
        false => (passing(error)?, DELIVERY_TRIES),
    };
    (delivery.tries < most).then(|| now.plus(asked.unwrap_or_else(|| backoff(delivery.tries, 300))))
}

/// When an outgoing row that failed is tried again; `None`: never.
pub(super) fn outgoing_again(row: &OutboxRow, asked: Option<Duration>, now: Timestamp) -> Option<Timestamp> {
    let pause = asked.unwrap_or_else(|| backoff(row.attempts, 3600));
    (row.attempts < OUTGOING_TRIES).then(|| now.plus(pause))
}

/// 1 s, 2 s, 4 s, … up to `most` seconds.
fn backoff(attempts: i64, most: u64) -> Duration {
    Duration::from_secs((1u64 << attempts.clamp(1, 20).saturating_sub(1)).min(most))
}

/// The answer of a repeatable step, asked for again and again while the database is away: that must not end work which is
/// otherwise well, nor leave what is done to wait for the end of a lease. (A macro, since the step borrows anew each time.)
macro_rules! outlasting {
    ($step:expr) => {
        loop {
            match $step.await {
                Err(error) => match StepError::from(error) {
                    StepError::Store(error) if error.is_transient() => retry::pause_for_database(&error).await,
                    error => break Err(error),
                },
                Ok(answer) => break Ok(answer),
            }
        }
    };
}
pub(super) use outlasting;

pub(super) async fn pause_for_database(error: &StoreError) {
    tracing::warn!(%error, "waiting for the database");
    tokio::time::sleep(DATABASE_PAUSE).await;
}

/// Carries out a repeatable step, again after failures that may pass.
pub(super) async fn patiently<T, F>(mut step: impl FnMut() -> F) -> Result<T, StepError>
where
    F: Future<Output = Result<T, StepError>>,
{
    let mut tried = 0;
    loop {
        tried += 1;
        let error = match step().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let asked = passing(&error).or_else(|| is_refusal(&error).then_some(None));
        let wait = asked.map(|asked| asked.unwrap_or(Duration::from_millis(400) * 3u32.pow(tried)));
        match wait.filter(|wait| tried < STEP_TRIES && *wait <= LONGEST_WAIT) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(error),
        }
    }
}
