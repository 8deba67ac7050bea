//! What to do after a failure: try again at once, later, or give up. Facts only; the wording is `reply`'s.

use super::StepError;
use crate::isolation::IsolationError;
use crate::model::*;
use crate::store::StoreError;
use std::time::Duration;

/// Deliveries are given up after this many tries: over about half an hour, longer where GitHub asked to wait longer.
const DELIVERY_TRIES: i64 = 14;
/// One that GitHub refuses, or knows nothing of, may pass as well, and is given up much sooner (over some seconds).
const REFUSED_TRIES: i64 = 4;
/// Outgoing rows are given up after this many tries: over about a day and a half.
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
        StepError::Occupied(_)
        | StepError::LeaseLost
        | StepError::Stopping
        | StepError::Stopped
        | StepError::Panicked => None,
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
        StepError::Occupied(_)
        | StepError::LeaseLost
        | StepError::Stopping
        | StepError::Stopped
        | StepError::Panicked => false,
    }
}

/// Whether somebody else has written what was to be written: it is read again, and decided anew.
pub(super) fn is_conflict(error: &StepError) -> bool {
    matches!(error, StepError::Store(error) if error.is_conflict())
}

/// Whether a delivery is worth another try. One whose tries all ended without a word (the process died, or was killed for
/// want of memory) is given up, so that it cannot take the service down for ever.
pub(super) fn may_be_handled(delivery: &Delivery) -> bool {
    delivery.tries <= DELIVERY_TRIES
}

/// Whether somebody is told of a delivery that is given up. Where even that takes the process down, it is given up in silence.
pub(super) fn may_be_told(delivery: &Delivery) -> bool {
    delivery.tries <= DELIVERY_TRIES + 1
}

/// When a delivery that failed is tried again; `None`: never.
pub(super) fn delivery_again(delivery: &Delivery, error: &StepError, now: Timestamp) -> Option<Timestamp> {
    let (asked, most) = match is_refusal(error) || is_conflict(error) {
        true => (None, REFUSED_TRIES),
        false => (passing(error)?, DELIVERY_TRIES),
    };
    (delivery.tries < most).then(|| now.plus(pause(asked, backoff(delivery.tries, 300))))
}

/// When an outgoing row that failed is tried again; `None`: never.
pub(super) fn outgoing_again(row: &OutboxRow, asked: Option<Duration>, now: Timestamp) -> Option<Timestamp> {
    (row.attempts < OUTGOING_TRIES).then(|| now.plus(pause(asked, backoff(row.attempts, 3600))))
}

/// What was asked for makes the growing pause longer, never shorter: a GitHub that says "in a second" for an hour must not
/// use up all tries.
fn pause(asked: Option<Duration>, growing: Duration) -> Duration {
    asked.map_or(growing, |asked| asked.max(growing))
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
        let wait = asked.map(|asked| pause(asked, Duration::from_millis(400) * 3u32.pow(tried)));
        match wait.filter(|wait| tried < STEP_TRIES && *wait <= LONGEST_WAIT) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::github::GithubError;
    use uuid::Uuid;

    const HOUR: u64 = 3600;

    /// How long something is tried that always fails: `again` is asked with the number of tries so far.
    fn tried_for(again: impl Fn(i64, Timestamp) -> Option<Timestamp>) -> Duration {
        let start = Timestamp::from_unix(1_800_000_000);
        let mut now = start;
        for tries in 1.. {
            let Some(next) = again(tries, now) else { break };
            now = next;
        }
        now.since(start)
    }

    fn row(attempts: i64) -> OutboxRow {
        let at = Timestamp::from_unix(0);
        OutboxRow {
            id: OutboxId(Uuid::nil()),
            key: "k".to_owned(),
            codebase: CodebaseId(Uuid::nil()),
            conversation: None,
            outgoing: Outgoing::Message { body: String::new() },
            version: 1,
            sent_version: 0,
            remote_id: None,
            state: OutboxState::Sending,
            attempts,
            last_error: None,
            not_before: at,
            created_at: at,
            updated_at: at,
        }
    }

    fn delivery(tries: i64) -> Delivery {
        Delivery {
            id: InboxId(Uuid::nil()),
            guid: "g".to_owned(),
            event: "issues".to_owned(),
            conversation_key: None,
            out_of_turn: false,
            body: Vec::new(),
            state: InboxState::Claimed,
            reason: None,
            attempts: tries,
            tries,
            received_at: Timestamp::from_unix(0),
            finished_at: None,
        }
    }

    #[test]
    fn the_wait_that_github_asks_for_shortens_no_patience() {
        for asked in [None, Some(1), Some(60), Some(HOUR)] {
            let asked = asked.map(Duration::from_secs);
            let sending = tried_for(|tries, now| outgoing_again(&row(tries), asked, now));
            assert!(sending > Duration::from_secs(36 * HOUR), "{asked:?}: {sending:?}");
            let error = StepError::Github(match asked {
                Some(retry_after) => GithubError::RateLimited { retry_after },
                None => GithubError::Server { status: 502 },
            });
            let handling = tried_for(|tries, now| delivery_again(&delivery(tries), &error, now));
            assert!(handling > Duration::from_secs(25 * 60), "{asked:?}: {handling:?}");
        }
        let now = Timestamp::from_unix(0);
        let conflict = StepError::Store(StoreError::Conflict("environment".to_owned()));
        assert!(delivery_again(&delivery(1), &conflict, now).is_some(), "it is decided anew");
        assert_eq!(delivery_again(&delivery(REFUSED_TRIES), &conflict, now), None);
        let longer = outgoing_again(&row(1), Some(Duration::from_secs(60)), now);
        assert_eq!(longer, Some(Timestamp::from_unix(60)), "and is kept to");
    }
}
