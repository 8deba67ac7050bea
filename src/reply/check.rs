//! The check run of a run on a pull request: the same as the status comment in short, and what can be asked of it by a
//! button.

use super::agent_text;
use super::status::{self, OPENING, REASON, StatusView};
use crate::model::*;

/// In front of the run, in the keys of its check runs.
const CHECK: &str = "check/";

/// The outbox key of a run's check run on the commit it was asked on.
pub fn key(run: RunId) -> String {
    format!("{CHECK}{run}")
}

/// The same on the commit that it pushed.
pub fn key_of_pushed(run: RunId, pushed: &CommitSha) -> String {
    format!("{CHECK}{run}/{pushed}")
}

/// The run whose check run has this key.
pub fn run_of(key: &str) -> Option<RunId> {
    key.strip_prefix(CHECK)?.split('/').next()?.parse().ok()
}

/// `slug`: by which people mention the bot.
pub fn render(view: &StatusView, slug: &str, head: CommitSha) -> CheckRun {
    let run = view.run;
    let (conclusion, title, summary, buttons) = match conclusion(run) {
        None => (None, working_on(run), live(run, slug), vec![Button::Stop]),
        Some(conclusion) => (
            Some(conclusion),
            status::headline(view).replace(['*', '`'], ""),
            over(view),
            vec![Button::Retry, Button::CleanUp],
        ),
    };
    let actions = buttons.into_iter().map(action).collect();
    CheckRun { head, run: run.id, conclusion, title, summary, details_url: view.panel_url.clone(), actions }
}

/// Where `Retry` was pressed while a run of the thread is live.
pub fn at_work() -> String {
    "**Retry** started nothing: a run of this thread is queued or at work. Press it again once that one is over, or write \
     `/stop` first."
        .to_owned()
}

/// Where it was pressed for a message that is not there any more.
pub fn taken_back() -> String {
    "**Retry** started nothing: the message that asked for this has been deleted since. Mention me with what is to be done."
        .to_owned()
}

/// Where `Clean up` was pressed for a worktree that its thread does not have any more.
pub fn no_worktree() -> String {
    "**Clean up** removed nothing: the worktree of that run is gone already, or this thread has another one by now. \
     `/worktree remove` removes the one that it has."
        .to_owned()
}

fn conclusion(run: &Run) -> Option<Conclusion> {
    match run.state {
        RunState::Queued | RunState::Preparing | RunState::Running | RunState::Delivering => None,
        RunState::Succeeded if run.outcome.not_pushed_because.is_some() => Some(Conclusion::Neutral),
        RunState::Succeeded => Some(Conclusion::Success),
        RunState::Failed => Some(Conclusion::Failure),
        RunState::Cancelled => Some(Conclusion::Cancelled),
        RunState::TimedOut => Some(Conclusion::TimedOut),
        RunState::Interrupted => Some(Conclusion::Neutral),
    }
}

/// The same in every stage, so that nothing is to be sent again.
fn working_on(run: &Run) -> String {
    format!("🤖 Working on the request of {}", run.request.requester.login)
}

fn live(run: &Run, slug: &str) -> String {
    let stop = format!(
        "To stop it, write `@{slug} /stop` in a comment, or use the run's page. What is done so far is kept. The comment in \
         the conversation says how far it is."
    );
    opening(run).into_iter().chain([stop]).collect::<Vec<_>>().join("\n\n")
}

fn over(view: &StatusView) -> String {
    let run = view.run;
    let mut parts = Vec::from_iter(opening(run));
    parts.extend(run.reason.as_deref().map(|reason| agent_text::foreign(reason, REASON)));
    parts.push("The answer is in the comment of this run in the conversation.".to_owned());
    parts.extend(status::put_back(&run.outcome).map(|what| format!("⚠️ {what}.")));
    parts.extend(status::truth_line(view));
    parts.join("\n\n")
}

fn opening(run: &Run) -> Option<String> {
    run.opening.as_deref().map(|opening| agent_text::foreign(opening, OPENING))
}

fn action(button: Button) -> CheckAction {
    let (label, description) = match button {
        Button::Stop => ("Stop", "End this run; its work is kept"),
        Button::Retry => ("Retry", "Ask for the same work once more"),
        Button::CleanUp => ("Clean up", "Remove the worktree if nothing is lost"),
    };
    CheckAction { button, label: label.to_owned(), description: description.to_owned() }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
