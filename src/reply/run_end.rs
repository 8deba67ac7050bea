//! How a run ended that did not come to its end by itself.

use super::agent_text;
use crate::model::*;
use std::time::Duration;

/// A run whose agent could not be looked after, for a reason nobody worded.
pub fn broken_off(why: &str) -> String {
    format!(
        "The work broke off: {}.\n\nWhatever the agent had done so far is kept in the worktree; mention me again to go on.",
        agent_text::quoted(why)
    )
}

pub fn stopped_before_work() -> String {
    "Stopped before the agent began.".to_owned()
}

pub fn stopped() -> String {
    "Stopped on request. Whatever the agent had done so far is kept in the worktree; mention me again to go on."
        .to_owned()
}

pub fn stopped_delivering() -> String {
    "Stopped on request while the work was being delivered. Everything the agent had done is kept; mention me again to \
     deliver it."
        .to_owned()
}

pub fn timed_out(limit: Duration) -> String {
    format!(
        "The agent was ended after {}. Whatever it had done so far is kept in the worktree; \
         mention me again to go on.",
        super::status::in_words(limit)
    )
}

pub fn agent_failed(why: &str) -> String {
    format!("{why}\n\nWhatever the agent had done so far is kept in the worktree; mention me again to go on.")
}

pub fn not_delivered(branch: &BranchName, why: &str) -> String {
    format!(
        "The work could not be delivered: {why}\n\nNothing is lost: it is kept here, in the worktree of `{branch}`; \
         mention me again to deliver it."
    )
}

pub fn interrupted() -> String {
    "The service was restarted while the agent was at work. Whatever it had done so far is kept in the \
     worktree; mention me again to go on."
        .to_owned()
}

pub fn environment_lost() -> String {
    "The worktree of this run was taken away while the run was live. What was committed is safe on its branch; files \
     that were not are gone with the directory. Mention me again for a fresh worktree."
        .to_owned()
}
