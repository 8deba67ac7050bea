//! Answers to commands.

use super::{
    FOREIGN,
    agent_text::{self, parts},
    cleanup, count, disk, marker, report,
    status::in_words,
};
use crate::command::grammar::Hint;
use crate::decide::cleanup::Keep;
use crate::model::*;
use std::{collections::BTreeSet, path::PathBuf, time::Duration};

pub fn removed_before(branch: &BranchName) -> String {
    format!("The worktree of `{branch}` was gone already.")
}

pub fn pinned(environment: &Environment) -> String {
    match environment.pinned {
        true => format!("The worktree of `{}` is pinned: cleanup leaves it alone.", environment.branch),
        false => format!("The worktree of `{}` is no longer pinned.", environment.branch),
    }
}

/// `/worktree cleanup`: what was, or would be, removed.
pub fn cleanup_report(kind: &str, report: &CleanupReport) -> String {
    if report.lines.is_empty() {
        return format!("No worktree of this repository is {kind}. Nothing was changed.");
    }
    let line = |line: &ReportLine| match &line.result {
        ReportResult::Removed(why) if report.dry_run => format!("- `{}` would be removed: {why}", line.branch),
        ReportResult::Removed(why) => format!("- `{}` was removed: {why}", line.branch),
        ReportResult::Kept(reasons) => format!("- `{}` is kept: {}", line.branch, reasons.join("; ")),
        ReportResult::Failed(why) => format!("- `{}` is kept, since it failed: {why}", line.branch),
    };
    let list = agent_text::foreign(&report.lines.iter().map(line).collect::<Vec<_>>().join("\n"), FOREIGN);
    let unchanged = if report.dry_run { " Nothing was changed." } else { "" };
    format!("{list}\n\nAll in all: {}.{unchanged}", report::outcome(report))
}

/// What a command that was only tried out would have been answered with.
pub fn only_foreseen(answer: &str) -> String {
    let quoted: Vec<String> = answer.trim().lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    format!("Nothing was changed. Without `--dry-run` the answer would be, as things are now:\n\n{}", quoted.join("\n"))
}

/// Characters of an unknown command that are repeated.
const SHOWN: usize = 40;

pub fn unknown_command(given: &str, hint: &Hint, key: &str) -> String {
    let clean: String = given.chars().filter(|c| *c != '`' && !c.is_control() && !reorders(*c)).collect();
    let mut given: String = clean.chars().take(SHOWN).collect();
    if given.len() < clean.len() {
        given.push('…');
    }
    let said = match hint {
        Hint::None => format!("I do not know `{given}`."),
        Hint::Nearest(name) => format!("I do not know `{given}`. Did you mean `{name}`?"),
        Hint::Usage(usages) => {
            let usages: Vec<String> = usages.iter().map(|usage| format!("- `{usage}`")).collect();
            format!("`{given}` is not how that is used:\n\n{}\n\n", usages.join("\n"))
        }
    };
    let said = if said.ends_with('\n') { said } else { format!("{said} ") };
    format!("{said}`/help` lists what I understand. Nothing was run.\n\n{}", marker(key))
}

/// The answer to a command, with its marker.
pub fn answer(text: &str, key: &str) -> String {
    format!("{}\n\n{}", text.trim(), marker(key))
}

/// Told where a message says more than a command.
pub fn nothing_else(name: &str) -> String {
    format!("Only `{name}` was read. What else this message says was not carried out: say it in one of its own.")
}

/// A reason not to do what a command asks; it may quote git, GitHub, or what was asked.
pub fn refused(why: &str) -> String {
    agent_text::foreign(why, FOREIGN)
}

/// A command about this thread's worktree, when there is none.
pub fn no_environment() -> String {
    "This thread has no worktree, so nothing was changed. A mention makes one.".to_owned()
}

/// `/worktree remove` in a thread that shares its worktree: only the thread lets go of it.
pub fn left_to_others(work: &Work, others: &[ThreadId], force: bool) -> String {
    let others: Vec<String> = others.iter().map(cleanup::thread).collect();
    let (option, then) = match force {
        true => (" --force", "and keeps what is not committed in the trash"),
        false => ("", "when nothing would be lost"),
    };
    format!(
        "This thread no longer works in **{work}**. The worktree stays, because {} {} it too; \
         `/worktree remove {work}{option}` removes it for all of them, {then}.",
        others.join(", "),
        if others.len() == 1 { "uses" } else { "use" }
    )
}

/// `/worktree remove` in a thread that shares its worktree, while another one's run is live or queued.
pub fn in_use_by(work: &Work, other: &ThreadId, run: RunId) -> String {
    format!(
        "**{work}** is in use by {} (run `{run}`), so nothing was changed. Ask again when that is over.",
        cleanup::thread(other)
    )
}

/// `/worktree create` and `/worktree link`: where this thread works from now on. `notes` tell how it was found or made.
pub fn works_there(environment: &Environment, notes: &[String]) -> String {
    let Environment { work, branch, .. } = environment;
    let there =
        format!("This thread goes on in the worktree **{work}** on branch `{branch}`: mention me with what to do.");
    // Notes quote git, file names and what a remote said.
    let notes = notes.iter().map(|note| agent_text::foreign(note, FOREIGN));
    notes.chain([there]).collect::<Vec<_>>().join("\n\n")
}

/// `/worktree restore` of something that is there.
pub fn nothing_to_restore(environment: &Environment) -> String {
    let work = &environment.work;
    if environment.state == EnvironmentState::Removing {
        return format!(
            "The worktree **{work}** is being removed at this moment, so nothing was changed. `/worktree list` says what holds it \
             up, if anything does; once it is gone, `/worktree restore {work}` brings it back."
        );
    }
    format!(
        "There is a worktree **{work}** now, so nothing was changed. `/worktree link {work}` lets this thread go on in it; to \
         bring an earlier one back, remove it first."
    )
}

/// `/worktree restore` of something that no receipt knows.
pub fn never_removed(name: &str) -> String {
    format!(
        "No worktree called {} was removed here, so there is nothing to bring back. Nothing was changed. A removed \
         one goes by its name or its branch: the comment on its removal has the branch, and the panel's page Environments has \
         both (with \"Removed ones too\"). `/worktree list` shows the worktrees that are there.",
        shown(name)
    )
}

/// What was not committed in a removed worktree is not kept any more.
pub fn trash_expired(until: Timestamp) -> String {
    format!("What was not committed then was kept until {}; only its commits are back.", until.date())
}

/// `/worktree restore` before the last look at the files.
pub fn files_wait() -> String {
    "What was written in the removed worktree at the very last may be missing: its files are in the service's trash directory, where \
     they could not be looked at yet (the page of the removed environment in the panel says why). Nothing is lost: it is tried again, \
     and what only they hold is kept, and told in the thread of the removal."
        .to_owned()
}

/// `/worktree restore` of something that is there, of which more was kept since.
pub fn kept_since(work: &Work) -> String {
    format!(
        "More was kept of the removed worktree since this one was made from it. To have that, too, remove this one \
         (`/worktree remove {work}`), and ask for it again."
    )
}

/// `/worktree link`, done.
pub fn linked(environment: &Environment, thread: &ThreadId) -> String {
    let there = works_there(environment, &[]);
    // Only an issue and a pull request can belong together by themselves.
    let is_pull = matches!(environment.work.kind, WorkKind::PullRequest | WorkKind::Review);
    if thread.number().is_none() || environment.work.thread().is_none() || thread.pull_request().is_some() == is_pull {
        return there;
    }
    format!(
        "{there}\n\nThreads that belong together are linked without being told where a pull request's text has a keyword right \
         before the number, such as `Fixes #12`; with a word between (`Fixes issue #12`) GitHub links nothing."
    )
}

/// `/worktree link` to one that is just being made or removed.
pub fn in_transition(name: &str) -> String {
    format!(
        "The worktree {} is being made or removed at this moment. Nothing was changed; ask again in a minute.",
        shown(name)
    )
}

/// `/worktree link` to one that somebody took away.
pub fn directory_gone(environment: &Environment) -> String {
    format!(
        "The directory of the worktree {} is gone. Nothing was changed, and this thread goes on where it was. Its commits are kept \
         on the branch `{}`: a message in its own thread makes it again from there, and then this one can be linked to it.",
        shown(&environment.work.to_string()),
        environment.branch
    )
}

/// `/reset`.
pub fn forgotten() -> String {
    "The agent has forgotten this thread: the next message starts anew. The worktree and all work in it are as they were."
        .to_owned()
}

/// `/reset` while a run is live or queued.
pub fn not_forgotten() -> String {
    "A run of this thread is at work or waiting, and its agent needs its memory. Nothing was changed. Ask again when it \
     is over; `/stop` ends it."
        .to_owned()
}

/// Something where worktrees are, or that git knows as one: its branch, its place below the directory for worktrees (`None`:
/// elsewhere), and whose it is.
pub struct Known {
    pub branch: Option<BranchName>,
    pub place: Option<String>,
    pub whose: Whose,
}

pub enum Whose {
    /// Of the environment for this work.
    Ours(Work),
    /// Of none: what it is, and why it stays. Without reasons: the next cleanup takes it away.
    Nobodys(&'static str, Vec<String>),
}

/// `/worktree orphans`.
pub fn known_to_git(worktrees: &[Known]) -> String {
    if worktrees.is_empty() {
        return "Git knows no worktree of this repository, and nothing is where its worktrees are.".to_owned();
    }
    let is_untracked = |known: &&Known| matches!(known.whose, Whose::Nobodys(..));
    let row = |known: &Known| {
        let branch = known.branch.as_ref().map_or("no branch".to_owned(), |branch| shown(branch.as_str()));
        let place = known.place.as_deref().map_or("outside of my directory".to_owned(), shown);
        let whose = match &known.whose {
            Whose::Ours(work) => format!(", {}", shown(&work.to_string())),
            Whose::Nobodys(kind, reasons) if reasons.is_empty() => {
                format!(" ← untracked ({kind}): the next cleanup takes it away")
            }
            Whose::Nobodys(kind, reasons) => format!(" ← untracked ({kind}): {}", reasons.join("; ")),
        };
        format!("- {branch} at {place}{whose}")
    };
    let untracked = worktrees.iter().filter(is_untracked).count();
    let sum = match untracked {
        0 => "All of them are mine.".to_owned(),
        many => format!(
            "{} no environment: left over, or made by somebody else. By myself I take away only what I made, what is merged and \
             clean, and what has been left alone for an hour. Whoever runs this service can adopt or remove the others in the panel, \
             under Cleanup.",
            if many == 1 { "1 has".to_owned() } else { format!("{many} have") }
        ),
    };
    let rows = worktrees.iter().map(row).collect::<Vec<_>>().join("\n");
    format!("{}\n\n{sum}", agent_text::foreign(&rows, parts::MAX_LIST))
}

/// A name from outside as a code span.
fn shown(name: &str) -> String {
    let name: String = name.chars().filter(|c| *c != '`' && !c.is_control() && !reorders(*c)).take(80).collect();
    format!("`{name}`")
}

/// `/worktree remove <name>` when nothing is called that.
pub fn nothing_called(name: &str) -> String {
    format!(
        "No worktree of this repository is called {}, so nothing was changed. `/worktree list` shows all.",
        shown(name)
    )
}

/// Answers `/stop`. `waiting`: something that came before is not looked at yet.
pub fn stopping(runs: usize, waiting: bool) -> String {
    let now = match runs {
        0 => "No run is live or queued in this thread now.".to_owned(),
        runs => format!(
            "Stopping {} of this thread. Whatever the agent had done so far is kept in the worktree.",
            count(runs as u64, "run")
        ),
    };
    match waiting {
        true => format!("{now} What was asked before this and is not taken up yet does not begin either."),
        false => now,
    }
}

pub fn kept_on_request(environment: &Environment, reasons: &[Keep], trash_for: Duration) -> String {
    let Environment { work, branch, .. } = environment;
    let list: Vec<String> = reasons.iter().map(|reason| format!("- {}", cleanup::sentence(reason))).collect();
    let list = agent_text::foreign(&list.join("\n"), FOREIGN);
    let end = match (reasons, cleanup::by_force(work, reasons, trash_for)) {
        ([Keep::RemovalStuck(_)], _) => String::new(),
        (_, Some(way)) => format!("\n\nNothing was removed. {way}"),
        (_, None) => {
            let steps: String = cleanup::next_steps(reasons).iter().map(|step| format!(" {step}")).collect();
            format!("\n\nNothing was removed.{steps}")
        }
    };
    format!("The worktree of `{branch}` is kept:\n\n{list}{end}")
}

/// What git says of a worktree at this moment.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Commits that the base lacks, and that it has beyond the branch; absent when one of them does not exist.
    pub ahead_behind: Probe<Option<(u64, u64)>>,
    /// Where it is not valid, what follows means nothing.
    pub validity: Probe<Validity>,
    /// Files that are not committed.
    pub dirty: Probe<u64>,
    /// Ignored files that keep it as well.
    pub ignored: Probe<Vec<PathBuf>>,
    /// Submodules that hold work of their own.
    pub submodules: Probe<Vec<String>>,
    /// Branch that HEAD is on; absent when detached.
    pub on_branch: Probe<Option<BranchName>>,
}

/// A run of the thread that waits or is at work.
#[derive(Clone, Debug)]
pub struct LiveRun {
    pub state: RunState,
    /// Runs ahead of one that waits.
    pub place: u32,
    /// Login of whoever asked for it.
    pub requester: String,
    /// Since it was asked for.
    pub age: Duration,
    pub panel_url: String,
}

/// Facts of `/status`.
#[derive(Clone, Debug)]
pub struct ThreadStatus<'a> {
    pub environment: Option<(&'a Environment, &'a Seen)>,
    /// The one that its work had last, where that was removed.
    pub removed: Option<&'a Environment>,
    pub run: Option<LiveRun>,
    pub census: Census,
    pub limit: u32,
    /// What the repository takes on the disk, in a line; absent while nobody knows.
    pub disk: Option<String>,
}

pub fn thread_status(status: &ThreadStatus) -> String {
    let mut lines = Vec::new();
    match status.environment {
        None => lines.push(no_worktree(status.removed)),
        Some((environment, seen)) => {
            let base = environment.base.as_ref().map(|b| format!(", based on `{b}`")).unwrap_or_default();
            lines.push(format!("Worktree **{}** on branch `{}`{base}", environment.work, environment.branch));
            match &seen.ahead_behind {
                Probe::Known(Some((ahead, behind))) => {
                    lines.push(format!("{} ahead, {behind} behind", count(*ahead, "commit")));
                }
                Probe::Known(None) => {}
                Probe::Unknown(why) => lines.push(format!("ahead/behind unknown: {}", agent_text::said(why, FOREIGN))),
            }
            match seen.validity {
                Probe::Known(Validity::Valid) | Probe::Unknown(_) => {
                    lines.extend(files_seen(seen, &environment.branch))
                }
                Probe::Known(Validity::Missing) => {
                    let next = match environment.work.kind {
                        // No thread goes on there by itself.
                        WorkKind::Task => "its commits are on the branch",
                        WorkKind::Issue | WorkKind::PullRequest | WorkKind::Review | WorkKind::Thread => {
                            "the next mention makes it anew, with all commits of the branch"
                        }
                    };
                    lines.push(format!("its directory is gone, or was never finished: {next}"));
                }
                Probe::Known(Validity::Broken) => lines.push(cleanup::sentence(&Keep::Broken)),
                Probe::Known(Validity::OwnRepository) => lines.push(cleanup::sentence(&Keep::OwnRepository)),
                Probe::Known(Validity::Foreign) => lines.push(cleanup::sentence(&Keep::ForeignPath)),
            }
            if environment.pinned {
                lines.push("pinned".to_owned());
            }
            lines.extend(linked_elsewhere(&environment.metadata.links_elsewhere));
            lines.extend(environment.metadata.disk.as_ref().map(disk::of_worktree));
            lines.extend(kept_at_the_last_look(&environment.metadata, &lines));
        }
    }
    lines.push(status.run.as_ref().map_or("no run is live".to_owned(), live_run));
    let Census { merged, stale, active } = status.census;
    let live = count(status.census.all() as u64, "worktree");
    let limit = status.limit;
    lines.push(format!(
        "{live} of {limit} in this repository: {merged} merged, {stale} stale (closed, or without activity for long), \
         {active} active or kept"
    ));
    lines.extend(status.disk.clone());
    let list = lines.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n");
    agent_text::foreign(&list, FOREIGN)
}

/// Links that are told of at most.
const ELSEWHERE: usize = 10;

fn linked_elsewhere(links: &[Elsewhere]) -> Option<String> {
    let named: Vec<String> = links.iter().take(ELSEWHERE).map(Elsewhere::to_string).collect();
    let more = links.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("belongs together with {}{more}, which is worked on apart", named.join(", ")))
}

fn no_worktree(removed: Option<&Environment>) -> String {
    let removed = removed.and_then(|removed| Some((&removed.work, removed.destroyed_at?)));
    match removed {
        None => "This thread has no worktree yet; a mention makes one.".to_owned(),
        Some((work, at)) => format!(
            "This thread has no worktree now: it was removed on {}. `{}` brings it back as it was; a mention makes one, too.",
            at.date(),
            cleanup::restore_by_name(work)
        ),
    }
}

/// Why cleanup left it alone, as far as it is not `said` already.
fn kept_at_the_last_look(metadata: &EnvironmentMetadata, said: &[String]) -> Option<String> {
    let pinned = cleanup::sentence(&Keep::Pinned);
    let reasons = metadata.kept_because.iter().filter(|why| **why != pinned && !said.contains(why));
    let reasons: Vec<&str> = reasons.map(String::as_str).collect();
    (!reasons.is_empty()).then(|| format!("kept when cleanup last looked: {}", reasons.join("; ")))
}

fn live_run(run: &LiveRun) -> String {
    let LiveRun { state, place, requester, age, panel_url } = run;
    let ahead = if *place > 0 { format!(", {} ahead", count((*place).into(), "run")) } else { String::new() };
    format!("run {state}{ahead}, asked for by `{requester}` {} ago: {panel_url}", in_words(*age))
}

fn files_seen(seen: &Seen, branch: &BranchName) -> Vec<String> {
    let mut lines = Vec::new();
    match &seen.dirty {
        Probe::Known(0) => match &seen.submodules {
            Probe::Known(work) if work.is_empty() => lines.push("clean".to_owned()),
            Probe::Known(_) | Probe::Unknown(_) => {}
        },
        Probe::Known(files) => lines.push(count(*files, "uncommitted file")),
        Probe::Unknown(why) => lines.push(format!("working tree unknown: {}", agent_text::said(why, FOREIGN))),
    }
    match &seen.ignored {
        Probe::Known(files) => lines.extend(files.first().map(|first| cleanup::ignored(&first.display().to_string()))),
        Probe::Unknown(why) => lines.push(format!("ignored files unknown: {}", agent_text::said(why, FOREIGN))),
    }
    match &seen.submodules {
        Probe::Known(work) => {
            lines.extend(work.iter().map(|path| cleanup::sentence(&Keep::SubmoduleWork(path.clone()))))
        }
        Probe::Unknown(why) => lines.push(format!("submodules unknown: {}", agent_text::said(why, FOREIGN))),
    }
    match &seen.on_branch {
        Probe::Known(Some(on)) if on == branch => {}
        Probe::Known(Some(other)) => lines.push(format!("HEAD is on {} instead", shown(other.as_str()))),
        Probe::Known(None) => lines.push("HEAD is detached, on no branch".to_owned()),
        Probe::Unknown(why) => lines.push(format!("HEAD unknown: {}", agent_text::said(why, FOREIGN))),
    }
    lines
}

/// `/worktree list`; of those that are gone, there is no directory, and no thread points to those that are left.
pub fn environment_list(
    environments: &[Environment],
    current: Option<EnvironmentId>,
    gone: &BTreeSet<EnvironmentId>,
    left: &BTreeSet<EnvironmentId>,
) -> String {
    if environments.is_empty() {
        return "This repository has no worktrees.".to_owned();
    }
    let row = |environment: &Environment| {
        let mark = if Some(environment.id) == current { " ← active" } else { "" };
        let pin = if environment.pinned { " 📌" } else { "" };
        let state = match environment.state {
            _ if gone.contains(&environment.id) => " (its directory is gone)".to_owned(),
            // What all of them are as a rule needs no word, least of all beside the mark of the thread's own.
            EnvironmentState::Active => String::new(),
            other @ (EnvironmentState::Creating | EnvironmentState::Removing | EnvironmentState::Destroyed) => {
                format!(" ({other})")
            }
        };
        let unused = if left.contains(&environment.id) { ", used by no thread" } else { "" };
        let Environment { work, branch, last_activity_at, .. } = environment;
        let size = environment.metadata.disk.as_ref().map(|used| format!(", {}", disk::size(used))).unwrap_or_default();
        format!("- **{work}** `{branch}`{state}{pin}{mark}{unused}, last activity {}{size}", last_activity_at.date())
    };
    agent_text::foreign(&environments.iter().map(row).collect::<Vec<_>>().join("\n"), parts::MAX_LIST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_fit_into_four_comments() {
        let reasons = || vec!["it is somebody else's".to_owned()];
        let known = |n: usize| Known {
            branch: BranchName::new(&format!("issue-{n}")).ok(),
            place: None,
            whose: Whose::Nobodys("orphan", reasons()),
        };
        let text = answer(&known_to_git(&(0..5_000).map(known).collect::<Vec<_>>()), "answer/1");
        let comments = parts::of_comment("answer/1", text);
        assert!(comments.len() <= parts::MOST && comments.last().unwrap().1.contains("5000 have no environment"));
        assert!(comments.iter().all(|(_, comment)| comment.chars().count() <= agent_text::MAX_COMMENT));
    }

    #[test]
    fn a_reason_is_told_once() {
        let because = ["it is pinned", "said above", "a run is live or queued in it", "somebody else locked it"];
        let metadata =
            EnvironmentMetadata { kept_because: because.map(str::to_owned).into(), ..EnvironmentMetadata::default() };
        let said = ["said above".to_owned()];
        let line = kept_at_the_last_look(&metadata, &said);
        insta::assert_snapshot!(line.unwrap(), @"kept when cleanup last looked: a run is live or queued in it; somebody else locked it");
        assert_eq!(kept_at_the_last_look(&EnvironmentMetadata::default(), &said), None);
    }

    #[test]
    fn the_status_of_a_thread_says_how_far_it_is() {
        let branch = |name: &str| BranchName::new(name).unwrap();
        let environment = Environment {
            id: EnvironmentId(uuid::Uuid::nil()),
            codebase: CodebaseId(uuid::Uuid::nil()),
            provider: "worktree".to_owned(),
            work: Work { kind: WorkKind::Issue, id: "1".to_owned() },
            branch: branch("issue-1"),
            path: "/w/issue-1".into(),
            base: Some(branch("main")),
            start: None,
            state: EnvironmentState::Active,
            pinned: true,
            metadata: EnvironmentMetadata::default(),
            created_at: Timestamp::from_unix(0),
            last_activity_at: Timestamp::from_unix(0),
            destroyed_at: None,
            version: 0,
        };
        let seen = Seen {
            ahead_behind: Probe::Known(Some((1, 12))),
            validity: Probe::Known(Validity::Valid),
            dirty: Probe::Known(2),
            ignored: Probe::Known(vec![".env".into(), "local.db".into()]),
            submodules: Probe::Known(vec!["lib".to_owned()]),
            on_branch: Probe::Known(Some(branch("other"))),
        };
        let census = Census { merged: 1, stale: 2, active: 3 };
        let run = |state, place| LiveRun {
            state,
            place,
            requester: "ann".to_owned(),
            age: Duration::from_secs(65),
            panel_url: "http://127.0.0.1:3000/runs/1".to_owned(),
        };
        let status = |seen, run| {
            let environment = Some((&environment, seen));
            thread_status(&ThreadStatus { environment, removed: None, run, census, limit: 25, disk: None })
        };
        insta::assert_snapshot!(status(&seen, Some(run(RunState::Queued, 3))), @"
        - Worktree **issue-1** on branch `issue-1`, based on `main`
        - 1 commit ahead, 12 behind
        - 2 uncommitted files
        - ignored files that exist nowhere else, such as `.env`: they go to the trash with the worktree
        - the submodule `lib` holds work of its own that is on no remote (push it from there, I do not push submodules)
        - HEAD is on `other` instead
        - pinned
        - run queued, 3 runs ahead, asked for by `ann` 1 min 5 s ago: http://127.0.0.1:3000/runs/1
        - 6 worktrees of 25 in this repository: 1 merged, 2 stale (closed, or without activity for long), 3 active or kept
        ");
        let clean = Seen {
            ahead_behind: Probe::Known(None),
            validity: Probe::Known(Validity::Valid),
            dirty: Probe::Known(0),
            ignored: Probe::Known(Vec::new()),
            submodules: Probe::Known(Vec::new()),
            on_branch: Probe::Known(None),
        };
        insta::assert_snapshot!(status(&clean, Some(run(RunState::Running, 0))), @"
        - Worktree **issue-1** on branch `issue-1`, based on `main`
        - clean
        - HEAD is detached, on no branch
        - pinned
        - run running, asked for by `ann` 1 min 5 s ago: http://127.0.0.1:3000/runs/1
        - 6 worktrees of 25 in this repository: 1 merged, 2 stale (closed, or without activity for long), 3 active or kept
        ");
        let unfit = [Validity::Missing, Validity::Broken, Validity::OwnRepository, Validity::Foreign]
            .map(|validity| Seen { validity: Probe::Known(validity), ..clean.clone() });
        insta::assert_snapshot!(status(&unfit[0], None), @"
        - Worktree **issue-1** on branch `issue-1`, based on `main`
        - its directory is gone, or was never finished: the next mention makes it anew, with all commits of the branch
        - pinned
        - no run is live
        - 6 worktrees of 25 in this repository: 1 merged, 2 stale (closed, or without activity for long), 3 active or kept
        ");
        for seen in &unfit[1..] {
            let told = status(seen, None);
            assert!(!told.contains("clean") && told.lines().count() == 5, "{told}");
        }
        let doubt = || "git did not answer".to_owned();
        let unknown = Seen {
            ahead_behind: Probe::Unknown(doubt()),
            validity: Probe::Unknown(doubt()),
            dirty: Probe::Unknown(doubt()),
            ignored: Probe::Unknown(doubt()),
            submodules: Probe::Unknown(doubt()),
            on_branch: Probe::Unknown(doubt()),
        };
        insta::assert_snapshot!(status(&unknown, Some(run(RunState::Queued, 0))), @"
        - Worktree **issue-1** on branch `issue-1`, based on `main`
        - ahead/behind unknown: git did not answer
        - working tree unknown: git did not answer
        - ignored files unknown: git did not answer
        - submodules unknown: git did not answer
        - HEAD unknown: git did not answer
        - pinned
        - run queued, asked for by `ann` 1 min 5 s ago: http://127.0.0.1:3000/runs/1
        - 6 worktrees of 25 in this repository: 1 merged, 2 stale (closed, or without activity for long), 3 active or kept
        ");
        let census = Census::default();
        let nothing = ThreadStatus { environment: None, removed: None, run: None, census, limit: 25, disk: None };
        insta::assert_snapshot!(thread_status(&nothing), @"
        - This thread has no worktree yet; a mention makes one.
        - no run is live
        - 0 worktrees of 25 in this repository: 0 merged, 0 stale (closed, or without activity for long), 0 active or kept
        ");
        let gone = Environment { destroyed_at: Some(Timestamp::from_unix(0)), ..environment.clone() };
        let told = thread_status(&ThreadStatus { removed: Some(&gone), ..nothing });
        insta::assert_snapshot!(told.lines().next().unwrap(), @"- This thread has no worktree now: it was removed on 1970-01-01. `/worktree restore issue-1` brings it back as it was; a mention makes one, too.");
    }

    #[test]
    fn a_name_that_was_never_removed_leads_on() {
        insta::assert_snapshot!(never_removed("issue-`9"), @r#"No worktree called `issue-9` was removed here, so there is nothing to bring back. Nothing was changed. A removed one goes by its name or its branch: the comment on its removal has the branch, and the panel's page Environments has both (with "Removed ones too"). `/worktree list` shows the worktrees that are there."#);
    }

    #[test]
    fn an_unknown_command_cannot_break_the_comment() {
        let text = unknown_command("/x`@everyone`\n", &Hint::Nearest("/help"), "answer/1");
        assert!(text.starts_with("I do not know `/x@everyone`. Did you mean `/help`?"));
        let long = unknown_command(&format!("/worktree {}", "x".repeat(40)), &Hint::None, "answer/1");
        assert!(long.starts_with(&format!("I do not know `/worktree {}…`.", "x".repeat(30))), "{long}");
        assert!(unknown_command(&"x".repeat(40), &Hint::None, "answer/1").contains("x`."));
    }
}
