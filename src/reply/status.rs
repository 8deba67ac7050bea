//! The status comment of a run: one comment, edited in place, state first, and at the end what the service verified.

use super::{
    agent_text::{self, parts},
    count, marker,
};
use crate::model::*;
use std::time::Duration;

/// Everything the comment shows.
#[derive(Clone, Debug)]
pub struct StatusView<'a> {
    pub run: &'a Run,
    pub repository: &'a RepoName,
    /// GitHub's pages, which links are relative to; absent for a repository that is on this machine only.
    pub web_url: Option<&'a str>,
    /// Link into the panel for this run.
    pub panel_url: String,
    pub branch: Option<&'a BranchName>,
    /// Runs ahead of this one, while it is queued.
    pub place: Option<u32>,
    /// What the agent said last about its progress.
    pub step: Option<&'a str>,
    pub elapsed: Option<Duration>,
}

/// The outbox key of a run's status comment.
pub fn key(run: RunId) -> String {
    format!("status/{run}")
}

/// The outbox key of the pull request that a run asks for.
pub fn pull_key(run: RunId) -> String {
    format!("{PULL}{run}")
}

/// The run that asks for the pull request with this key.
pub fn run_of_pull(key: &str) -> Option<RunId> {
    key.strip_prefix(PULL)?.parse().ok().map(RunId)
}

/// In front of the run, in the key of its pull request.
const PULL: &str = "pull/";

/// The outbox keys of the comments in which a run's answer may go on, after that of its status comment.
pub fn keys(run: RunId) -> impl Iterator<Item = String> {
    (1..=parts::MOST).map(move |number| parts::key(&key(run), number))
}

/// Whether it is the key of a comment in which an answer goes on: those are asked for once, with the end of the run.
pub fn goes_on(key: &str) -> bool {
    key.strip_prefix("status/").is_some_and(|rest| rest.contains('/'))
}

/// The run whose status comment has this key, or whose answer goes on in the comment that has it.
pub fn run_of(key: &str) -> Option<RunId> {
    key.strip_prefix("status/")?.split('/').next()?.parse().ok()
}

/// Runs ahead of one that waits, as far as its comment counts them: the comments of a long queue are not all edited
/// whenever it moves.
pub const MOST_AHEAD: u32 = 10;

/// Characters of the first lines, of each matter that is told as a fact, and of a reason.
pub(super) const OPENING: usize = 6_000;
const FACT: usize = 1_500;
pub(super) const REASON: usize = 12_000;

/// The status comment and, once the run is over, those in which its answer goes on, each with its outbox key.
pub fn comments(view: &StatusView) -> Vec<(String, String)> {
    let (frame, above) = frame(view);
    let rest: usize = frame.iter().map(|part| part.chars().count() + 2).sum();
    let answers = answers(view, agent_text::MAX_COMMENT.saturating_sub(rest + 2));
    let mut answers = answers.into_iter();
    let mut status = frame;
    if let Some(first) = answers.next() {
        status.insert(above, first);
    }
    let keys = keys(view.run.id).skip(1).zip(answers);
    let others = keys.map(|(key, answer)| (key.clone(), format!("{answer}\n\n{}", marker(&key))));
    [(key(view.run.id), status.join("\n\n"))].into_iter().chain(others).collect()
}

/// The answer in as many parts as it takes, the first within `room` characters.
fn answers(view: &StatusView, room: usize) -> Vec<String> {
    let Some(answer) = view.run.answer.as_deref().map(str::trim).filter(|answer| !answer.is_empty()) else {
        return Vec::new();
    };
    if view.run.state.is_final() && room >= parts::FIRST {
        return parts::of_answer(answer);
    }
    vec![agent_text::present(answer, room.min(parts::FIRST))]
}

/// All but the answer, and where that stands.
fn frame(view: &StatusView) -> (Vec<String>, usize) {
    let mut parts = vec![headline(view)];
    parts.extend(view.run.opening.as_deref().map(|opening| agent_text::foreign(opening, OPENING)));
    if !view.run.state.is_final() {
        parts.extend(view.step.map(|step| format!("› {}", agent_text::line(step, 300))));
    }
    // A reason may quote what the agent or git said last.
    parts.extend(view.run.reason.as_deref().map(|reason| agent_text::foreign(reason, REASON)));
    let above = parts.len();
    parts.push(links(view));
    // Last of what people see, so that nothing an agent wrote can look like it.
    if view.run.state.is_final() {
        parts.extend(put_back(&view.run.outcome).map(|what| format!("⚠️ {what}.")));
        parts.extend(truth_line(view));
    }
    parts.push(marker(&key(view.run.id)));
    (parts, above)
}

pub(super) fn headline(view: &StatusView) -> String {
    let elapsed = view.elapsed.map(|time| format!(" · {}", in_words(time))).unwrap_or_default();
    let requester = format!("`{}`", view.run.request.requester.login);
    match view.run.state {
        RunState::Queued => match view.place {
            Some(0) | None => format!("🕐 **Queued** for {requester}"),
            Some(place) if place > MOST_AHEAD => {
                format!("🕐 **Queued** for {requester} · more than {MOST_AHEAD} runs ahead")
            }
            Some(place) => format!("🕐 **Queued** for {requester} · {} ahead", count(place.into(), "run")),
        },
        RunState::Preparing => format!("🌱 **Preparing** the worktree for {requester}{elapsed}"),
        RunState::Running => format!("🤖 **Working** on the request of {requester}{elapsed}"),
        RunState::Delivering => format!("📦 **Delivering** the work for {requester}{elapsed}"),
        RunState::Succeeded if view.run.outcome.not_pushed_because.is_some() => {
            format!("⚠️ **Done, but not delivered** for {requester}{elapsed}")
        }
        RunState::Succeeded => format!("✅ **Done** for {requester}{elapsed}"),
        RunState::Failed => format!("❌ **Failed**{elapsed}"),
        RunState::Cancelled => format!("⏹️ **Stopped**{elapsed}"),
        RunState::TimedOut => format!("⌛ **Time limit reached**{elapsed}"),
        RunState::Interrupted => format!("⚡ **Interrupted** by a restart of the service{elapsed}"),
    }
}

/// What an agent changed that is not its own, without a full stop.
pub fn put_back(outcome: &RunOutcome) -> Option<String> {
    let files: Vec<String> = outcome.restored.iter().map(|name| format!("`{name}`")).collect();
    (!files.is_empty()).then(|| {
        format!(
            "While the agent was at work, something (this agent, or another one that worked in the same repository) changed \
             what only the service writes there, and it was put back: {}",
            files.join(", ")
        )
    })
}

/// What the service read back itself, apart from anything the agent claims.
pub(super) fn truth_line(view: &StatusView) -> Option<String> {
    let outcome = &view.run.outcome;
    let branch = view.branch.map(|b| format!("`{b}`")).unwrap_or_default();
    let mut facts = Vec::new();
    let unchanged = outcome.head_before.is_some() && outcome.head_before == outcome.head_after;
    let was_there = outcome.remote_before == outcome.pushed;
    if unchanged && outcome.commits.is_some() {
        facts.push(match outcome.pushed.is_some() && !was_there {
            true => "this run changed nothing, and delivered what was here before".to_owned(),
            false => "this run changed nothing".to_owned(),
        });
    }
    if let Some(sha) = &outcome.pushed {
        let stays = if unchanged && was_there { "is still" } else { "is" };
        let place = match view.web_url {
            Some(_) => "on the remote",
            None => "in the repository itself",
        };
        facts.push(format!("{branch} {stays} at {} {place}", commit_link(view, sha)));
        // A person or the server itself may have moved it since.
        if let Some(own) = outcome.head_after.as_ref().filter(|own| *own != sha) {
            facts.push(format!("what was pushed from here was `{}`", own.short()));
        }
    }
    if let Some(files) = outcome.files_changed {
        facts.push(format!("{} changed in all", count(files, "file")));
    }
    if let Some(number) = outcome.pull_request {
        facts.push(format!("pull request #{number}"));
    }
    if let Some(((base, branch), web_url)) = outcome.to_open_into.as_ref().zip(view.branch).zip(view.web_url) {
        let address = compare_address(web_url, view.repository, base, branch);
        facts.push(format!("[open a pull request into `{base}`]({address})"));
    }
    if let Some(why) = &outcome.not_pushed_because {
        facts.push(agent_text::line(why, FACT));
    }
    if facts.is_empty() {
        if view.run.state != RunState::Succeeded {
            return None;
        }
        facts.push("no file changed, nothing to push".to_owned());
    }
    let left = outcome.left_behind.as_ref();
    let left = left
        .map(|what| format!("⚠️ Not committed, and kept in the worktree only: {}.\n\n", agent_text::line(what, FACT)));
    let stashed = match outcome.stashed {
        0 => String::new(),
        number => format!(
            "⚠️ In no commit: {} of this branch that somebody put aside with `git stash`. The repository keeps them, whatever \
             becomes of the worktree (`git stash list` there shows them).\n\n",
            count(number, "change")
        ),
    };
    let left = left.unwrap_or_default();
    Some(format!("---\n{left}{stashed}**Verified by Treewarden:** {}.", facts.join(" · ")))
}

fn commit_link(view: &StatusView, sha: &CommitSha) -> String {
    match view.web_url {
        Some(web_url) => format!("[`{}`]({web_url}/{}/commit/{sha})", sha.short(), view.repository),
        None => format!("`{}`", sha.short()),
    }
}

/// GitHub's page with the form filled in. See "Using query parameters to create a pull request" in GitHub's documentation.
fn compare_address(web_url: &str, repository: &RepoName, base: &BranchName, branch: &BranchName) -> String {
    format!("{web_url}/{repository}/compare/{}...{}?expand=1", base.in_address(), branch.in_address())
}

fn links(view: &StatusView) -> String {
    format!("[Run and log]({}) (opens on the server itself)", view.panel_url)
}

/// `45 s`, `3 min 20 s`, `1 h 5 min`.
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
pub(super) mod tests;
