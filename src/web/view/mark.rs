//! States as a word, a sign and a colour; never by colour alone. Matches are exhaustive: a new state needs a look of its own.

use crate::model::*;

/// How a state is shown. `tone` is the colour's class, `icon` a symbol of `icons.html`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub word: String,
    pub tone: &'static str,
    pub icon: &'static str,
}

const GOOD: &str = "good";
const BUSY: &str = "busy";
const WAIT: &str = "wait";
const BAD: &str = "bad";
const OVER: &str = "over";

fn mark(word: &str, (tone, icon): (&'static str, &'static str)) -> Mark {
    Mark { word: word.replace('_', " "), tone, icon }
}

impl From<RunState> for Mark {
    fn from(state: RunState) -> Self {
        let look = match state {
            RunState::Queued => (WAIT, "clock"),
            RunState::Preparing | RunState::Running | RunState::Delivering => (BUSY, "play"),
            RunState::Succeeded => (GOOD, "check"),
            RunState::Failed => (BAD, "cross"),
            RunState::Cancelled => (OVER, "stop"),
            RunState::TimedOut => (BAD, "clock"),
            RunState::Interrupted => (WAIT, "alert"),
        };
        mark(state.as_str(), look)
    }
}

impl From<EnvironmentState> for Mark {
    fn from(state: EnvironmentState) -> Self {
        let look = match state {
            EnvironmentState::Creating | EnvironmentState::Removing => (BUSY, "play"),
            EnvironmentState::Active => (GOOD, "dot"),
            EnvironmentState::Destroyed => (OVER, "check"),
        };
        mark(state.as_str(), look)
    }
}

impl From<ThreadState> for Mark {
    fn from(state: ThreadState) -> Self {
        let look = match state {
            ThreadState::Open => (GOOD, "dot"),
            ThreadState::Closed => (OVER, "cross"),
            ThreadState::Merged => (OVER, "merge"),
        };
        mark(state.as_str(), look)
    }
}

impl From<InboxState> for Mark {
    fn from(state: InboxState) -> Self {
        let look = match state {
            InboxState::Received => (WAIT, "clock"),
            InboxState::Claimed => (BUSY, "play"),
            InboxState::Done => (GOOD, "check"),
            InboxState::Ignored => (OVER, "skip"),
            InboxState::Failed => (BAD, "cross"),
        };
        mark(state.as_str(), look)
    }
}

/// What was looked at.
pub fn of_check(fine: bool) -> Mark {
    match fine {
        true => mark("works", (GOOD, "check")),
        false => mark("to do", (WAIT, "flag")),
    }
}

/// What a cleanup pass did to one environment, or would do.
pub fn of_result(result: &ReportResult, dry_run: bool) -> Mark {
    match result {
        ReportResult::Removed(_) if dry_run => mark("would go", (BUSY, "play")),
        ReportResult::Removed(_) => mark("removed", (GOOD, "check")),
        ReportResult::Kept(_) => mark("kept", (WAIT, "flag")),
        ReportResult::Failed(_) => mark("failed", (BAD, "cross")),
    }
}
