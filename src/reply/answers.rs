//! Short answers to a mention: first lines of a run, refusals, blocks, and how a run ended.

use super::{agent_text, cleanup::called, count, days, marker};
use crate::decide::resolve::{Apart, Lost};
use crate::model::*;
use std::{path::Path, time::Duration};

/// How much is shown of a text from git, GitHub or an agent.
pub(super) const FOREIGN: usize = 4_000;

/// How an environment was found or made: the first line of the status comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening<'a> {
    Created {
        branch: &'a BranchName,
    },
    /// The branch existed before; `ahead` of the base.
    Continuing {
        branch: &'a BranchName,
        ahead: u64,
    },
    ReviewingFork {
        sha: &'a CommitSha,
        branch: &'a BranchName,
    },
    Reusing {
        work: &'a Work,
    },
    Same {
        branch: &'a BranchName,
    },
}

pub fn opening(opening: &Opening) -> String {
    match opening {
        Opening::Created { branch } | Opening::Same { branch } => format!("Working in isolated branch `{branch}`"),
        Opening::Continuing { branch, ahead } => {
            format!("Continuing on existing branch `{branch}`, {} ahead", count(*ahead, "commit"))
        }
        Opening::ReviewingFork { sha, branch } => {
            format!("Reviewing PR at commit `{}` (branch: `{branch}`)", sha.short())
        }
        Opening::Reusing { work } => format!("Reusing worktree from {}", called(work)),
    }
}

/// Told when a row pointed to a worktree that is gone. Where the work goes on instead is told apart.
pub fn stale_reference(branch: &BranchName) -> String {
    format!(
        "Detected a stale worktree reference: the worktree of `{branch}` is no longer on disk. Commits of that branch are \
         safe; uncommitted files of the missing directory are not recoverable."
    )
}

/// Told when the files of a worktree are not of its branch when a run begins: somebody checked something else out.
pub fn head_elsewhere(branch: &BranchName, head: Option<&BranchName>) -> String {
    let at = head.map_or("detached".to_owned(), |head| format!("on `{}`", head.as_str().replace('`', "'")));
    format!(
        "HEAD of the worktree was {at} before this message, not on `{branch}`: what is done there is pushed only once it is on \
         `{branch}`."
    )
}

/// Told when a worktree that was there already became an environment.
pub fn adopted(branch: &BranchName) -> String {
    format!("Took over the worktree of `{branch}` that was there already; what it holds is part of this work now.")
}

/// Told when the place where an imported thread worked before became its environment with what was left there.
pub fn adopted_unclean(branch: &BranchName) -> String {
    format!(
        "Took over the worktree of `{branch}` in which this thread worked before it was imported. Something in it was not \
         committed yet: that is part of this work now, and goes along with the next commit."
    )
}

/// Told when work starts without asking the git server; `age`: of what is known of it.
pub fn offline(age: Option<Duration>) -> String {
    let age = age.map_or("nobody knows how long ago that was".to_owned(), |age| format!("{} ago", rough(age)));
    format!("The git server cannot be reached, so this goes on from what the last fetch brought ({age}).")
}

/// In the largest unit that it is at least two of.
fn rough(duration: Duration) -> String {
    let minutes = duration.as_secs() / 60;
    match minutes {
        0 => "less than a minute".to_owned(),
        1..120 => count(minutes, "minute"),
        120..2880 => count(minutes / 60, "hour"),
        _ => count(minutes / 1440, "day"),
    }
}

/// Told when the place where an imported thread worked before could not become its environment.
pub fn place_of_old_left() -> String {
    "The worktree in which this thread worked before it was imported is still there, but could not be taken over: it is on \
     another branch than this work needs, is locked, has a merge or the like under way, or could not be looked at. It was \
     left as it is."
        .to_owned()
}

/// Told when linked work has an environment of its own that could not be shared.
pub fn not_shared(work: &Work, why: Apart) -> String {
    let why = match why {
        Apart::Fork => {
            "a fork's pull request is worked on in a worktree of its own, in which nothing else is worked on"
        }
        Apart::LacksHead => "it does not contain this pull request's head, so both stay apart",
        Apart::Doubt => "it is not whole, or could not be looked at just now, so both stay apart",
        Apart::Settings => "the repository's settings keep threads apart (`share_linked: never`)",
    };
    format!("Not sharing the worktree of {work}: {why}.")
}

/// What was wrong with the git server's answer, as the end of a sentence.
pub fn not_named(branch: &BranchName) -> String {
    format!("its answer does not name the branch {branch}, which GitHub knows; nothing was taken for deleted")
}

/// Told when a new branch takes the place of a merged one.
pub fn merged_before(merged: &BranchName, branch: &BranchName) -> String {
    format!("`{merged}` was merged already, so this begins at the newest base, on a branch of its own: `{branch}`.")
}

/// Told when a merged branch's worktree went before a run. `released`: somebody else had made it.
pub fn retired(branch: &BranchName, released: bool) -> String {
    match released {
        true => format!(
            "All that was on `{branch}` is merged, so I let go of its worktree, which stays where somebody else made it."
        ),
        false => format!("All that was on `{branch}` is merged, so its worktree was removed."),
    }
}

/// Told when a merged branch's worktree could not be left for a new one.
pub fn merged_but_kept(branch: &BranchName) -> String {
    format!(
        "`{branch}` was merged already, but its worktree holds something more, or another open thread uses it, so the work \
         goes on there: a new pull request may show merged commits once more. `/worktree remove` says what keeps it."
    )
}

/// Told in the thread of a pull request that is merged.
pub fn pull_merged(number: ThreadNumber) -> String {
    format!(
        "#{number} is merged already. The work goes on at its branch, and gets a pull request of its own, which may show \
         merged commits once more. To begin at the newest base, ask in an issue."
    )
}

/// Told with a worktree of its own that may have been shared.
pub fn links_unknown() -> String {
    "GitHub could not say just now which issues and pull requests this thread is linked with, so it gets a worktree of its \
     own. Where there is another one to go on in, `/worktree link` does that."
        .to_owned()
}

/// Told when linked work's environment made way for this one.
pub fn made_way(work: &Work, branch: &BranchName) -> String {
    format!(
        "The worktree of {} held nothing of its own, so both threads work on `{branch}` from here on.",
        called(work)
    )
}

/// Told when linked work's environment is shared although it lacks the pull request's head.
pub fn shared_apart(branch: &BranchName) -> String {
    format!(
        "`{branch}` does not contain this pull request's head, and is shared because the repository's settings say so \
         (`share_linked: always`)."
    )
}

/// The comment about a settings file that cannot be followed.
pub fn settings_broken(problem: &SettingsProblem, in_force: &RepoSettings, key: &str) -> String {
    let meanwhile = match *in_force == RepoSettings::default() {
        true => "the defaults apply",
        false => "what its last good version said stays in force",
    };
    format!(
        "`{REPO_SETTINGS_FILE}` on the default branch cannot be followed: {}.\n\nWork goes on; until the file is right, \
         {meanwhile}. I say this once for each version of the file.\n\n{}",
        agent_text::foreign(&problem.to_string(), FOREIGN),
        marker(key)
    )
}

/// Told when a pull request's own branch is not worked on.
pub fn lost_head(lost: Lost, head: &BranchName, branch: &BranchName) -> String {
    let why = match lost {
        Lost::Gone => format!("The head branch `{head}` is gone"),
        Lost::Unshowable => {
            "The head branch has a back-tick or a character that turns text around in its name, which no comment can show \
             safely"
                .to_owned()
        },
        Lost::Refused => "The head branch has a name that git takes for something else".to_owned(),
        Lost::Default => format!("The head `{head}` is the default branch, which I never push to"),
        Lost::Base => format!("The head `{head}` is the base of all new work, which I never push to"),
    };
    format!(
        "{why}, so the work starts at its last commit; the result goes to `{branch}` and a pull request of its own."
    )
}

/// Told when somebody rewrote the branch on the remote and the worktree moved along.
pub fn moved_along(branch: &BranchName, from: &CommitSha, to: &CommitSha) -> String {
    format!(
        "`{branch}` was rewritten on the remote (a forced push), so the worktree moved from `{}` to its new head `{}`. \
         The commit before is kept in the service's repository.",
        from.short(),
        to.short()
    )
}

/// Told when work on an earlier commit of a fork's pull request made room for the approved one.
pub fn set_aside(branch: &BranchName, from: &CommitSha, to: &CommitSha, keep: &str) -> String {
    format!(
        "`{branch}` moved from `{}` to the approved commit `{}`. What was made here on the commit before is not part of it \
         any more; it is kept in the service's repository, as `{keep}`.",
        from.short(),
        to.short()
    )
}

/// Told when the remote branch moved on in a way the worktree cannot follow.
pub fn cannot_follow(branch: &BranchName, why: &str) -> String {
    format!("`{branch}` on the remote has newer commits that were not taken in: {}.", agent_text::quoted(why))
}

/// The same for a pull request's head whose work goes to a branch of its own.
pub fn head_not_taken_in(why: &str) -> String {
    format!("The head of this pull request has newer commits that were not taken in: {}.", agent_text::quoted(why))
}

/// A run that could not begin, for a reason nobody worded.
pub fn not_begun(why: &str) -> String {
    format!(
        "The work could not begin: {}.\n\nNothing was run, and what was done before is kept. Mention me again when the \
         cause is gone.",
        agent_text::quoted(why)
    )
}

/// A run whose agent could not be looked after, for a reason nobody worded.
pub fn broken_off(why: &str) -> String {
    format!(
        "The work broke off: {}.\n\nWhatever the agent had done so far is kept in the worktree; mention me again to go on.",
        agent_text::quoted(why)
    )
}

/// The world changed under every decision; nothing was done.
pub fn kept_moving() -> String {
    "The worktree of this work changed while it was being prepared. Nothing was run; mention me again.".to_owned()
}

/// A mention of work whose worktree is half removed.
pub fn removal_stuck(why: &str) -> String {
    let why = agent_text::said(why, FOREIGN);
    format!(
        "The worktree of this work is being removed, and that does not come to its end: {why}. Nothing was run. It is tried \
         again by itself; mention me again when the cause is gone."
    )
}

/// Work on a repository on GitHub, where no App is connected.
pub fn no_app() -> String {
    "This repository is on GitHub, and no GitHub App is configured here. Nothing was run; work done before is kept. Whoever \
     runs this service sets the App up, then ask again."
        .to_owned()
}

/// A repository on this machine that was moved or deleted.
pub fn repository_not_here(path: &Path) -> String {
    format!(
        "There is no repository at {} any more. Nothing was run or changed, and work done before is kept. Put it back, or \
         name where it is now.",
        path.display()
    )
}

pub fn thread_unknown() -> String {
    "The thread or repository of this run is no longer known. Nothing was run; work done before is kept. Ask again in a new \
     thread."
        .to_owned()
}

pub fn archived(repository: &RepoName) -> String {
    format!(
        "**{repository}** is archived, so nothing can be pushed to it. Nothing was run; work done before is kept. Unarchive it on \
         GitHub, then mention me again."
    )
}

pub fn branch_taken(branch: &BranchName, work: &Work) -> String {
    format!(
        "The branch `{branch}` is in use by the worktree of {work}. Nothing was created. \
         Go on in that thread, or remove its worktree first."
    )
}

/// Work of this name is on another branch.
pub fn name_taken(work: &Work, branch: &BranchName) -> String {
    format!(
        "There is a worktree called {work} already, on `{branch}`. Nothing was created. Link this thread to that one, or \
         choose another name."
    )
}

/// Git keeps `a` and `a/b` in the same place; some disks keep `a` and `A` there.
pub fn branch_beside(branch: &BranchName, other: &str) -> String {
    let why = match branch.is_above(other) || branch.above().any(|above| above == other) {
        true => "",
        false => " (on this server's disk, names that differ in capital letters only are one)",
    };
    let other = other.replace('`', "'");
    format!(
        "git cannot have `{branch}` beside `{other}`, which exists{why}; rename or delete that one, then mention me again"
    )
}

/// Told before a run on a branch that people deleted after it had been pushed.
pub fn deleted_on_the_remote(branch: &BranchName) -> String {
    format!(
        "`{branch}` was deleted on the remote. Its commits are still here; as soon as something new is on top of them, it is \
         pushed there anew."
    )
}

/// Told before a run, about commits that people took off a branch and work that rests on them.
pub fn not_moved_back(branch: &BranchName) -> String {
    format!(
        "Somebody took commits off `{branch}` on the remote, and work that is only here rests on them: nothing was moved, and \
         nothing is pushed until a person decides what of it is to stay."
    )
}

/// Both sides have commits the other lacks.
pub fn diverged(local: u64, remote: u64) -> String {
    format!("the histories diverged ({local} local, {remote} remote)")
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

pub fn no_agent() -> String {
    "No agent is configured, so nothing was run. Whoever runs this service sets `TREEWARDEN_AGENT_COMMAND` \
     (see `treewarden doctor`)."
        .to_owned()
}

pub fn environment_lost() -> String {
    "The worktree of this run was taken away while the run was live. What was committed is safe on its branch; files \
     that were not are gone with the directory. Mention me again for a fresh worktree."
        .to_owned()
}

/// `exists`: the former base is still there.
pub fn other_base(before: &BranchName, base: &BranchName, exists: bool) -> String {
    match exists {
        true => {
            format!("The pull request goes into `{base}` now, no longer into `{before}`; work goes on against that.")
        }
        false => format!("The base branch `{before}` is gone from the remote, so work goes on against `{base}`."),
    }
}

/// The limit message; `live` and the census are of live environments.
pub fn limit_reached(codebase: &RepoName, live: u32, census: &Census, stale_after: Duration) -> String {
    let Census { merged, stale, active } = census;
    let stale_days = days(stale_after);
    format!(
        "You have {live} active worktrees for **{}** (limit reached).\n\n\
         📊 Worktree status:\n\
         • {merged} merged (can auto-remove)\n\
         • {stale} stale (no activity in {stale_days}+ days)\n\
         • {active} active\n\n\
         Options:\n\
         • `/worktree cleanup merged` - Remove merged worktrees ({merged})\n\
         • `/worktree cleanup stale` - Remove stale worktrees ({stale})\n\
         • `/worktree list` - See all worktrees\n\
         • `/worktree remove <name>` - Remove specific worktree\n\n\
         Nothing was created. Mention me again when there is room.",
        codebase.name()
    )
}

pub fn made_room(merged: usize) -> String {
    format!("Cleaned up {} to make room.", count(merged as u64, "merged worktree"))
}

/// The one explanation for people who may not ask for this.
pub fn refusal(login: &str, needs: &Needs, key: &str) -> String {
    format!(
        "Sorry `{login}`, this needs {}. Nothing was run. Ask somebody who may to mention me.\n\n{}",
        needed(needs),
        marker(key)
    )
}

/// The same for what is said on this machine.
pub fn refusal_here(key: &str) -> String {
    format!(
        "The settings of this service (`TREEWARDEN_ALLOW`) leave this to people with a login on GitHub, and nobody has one here. \
         Nothing was run. Ask for it on GitHub, or let a permission do as well there.\n\n{}",
        marker(key)
    )
}

/// For people of whom GitHub does not say what they may do.
pub fn permission_unknown(login: &str, why: &str, key: &str) -> String {
    format!(
        "Sorry `{login}`, I could not find out whether you may ask for this: {}. Nothing was started; mention me again in a \
         while.\n\n{}",
        agent_text::said(why, FOREIGN),
        marker(key)
    )
}

/// As in "this needs …".
pub fn needed(needs: &Needs) -> String {
    let named = "to be named in the settings of this service";
    match (needs.permission, needs.logins.is_empty()) {
        (Some(permission), true) => format!("{permission} permission on the repository"),
        (Some(permission), false) => format!("{permission} permission on the repository, or {named}"),
        (None, _) => named.to_owned(),
    }
}

pub fn too_many_runs(key: &str) -> String {
    format!(
        "This thread started too many runs within ten minutes, which looks like a loop. Nothing was run; \
         mention me again in a while.\n\n{}",
        marker(key)
    )
}

/// A delivery that was given up after several tries.
pub fn gave_up(why: &str, key: &str) -> String {
    format!(
        "I could not handle this request to its end: {}. No work is lost. Mention me again when the cause is gone.\n\n{}",
        agent_text::said(why, FOREIGN),
        marker(key)
    )
}

/// A delivery whose tries all ended without a word.
pub fn cut_short(tries: i64) -> String {
    format!("all {tries} tries to handle it were cut short")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BR-078
    #[test]
    fn a_branch_that_is_another_only_in_its_case_is_told_to_be_one_on_this_disk() {
        let beside = |branch: &str, other: &str| branch_beside(&BranchName::new(branch).unwrap(), other);
        assert_eq!(
            beside("fix/a", "Fix/A"),
            "git cannot have `fix/a` beside `Fix/A`, which exists (on this server's disk, names that differ in capital \
             letters only are one); rename or delete that one, then mention me again"
        );
        for (branch, other) in [("fix", "fix/a"), ("fix/a", "fix")] {
            let told = beside(branch, other);
            assert!(
                told.starts_with(&format!("git cannot have `{branch}` beside `{other}`, which exists; rename")),
                "{told}"
            );
        }
    }

    #[test]
    fn what_work_without_the_server_starts_from_has_an_age() {
        let minutes = |minutes: u64| offline(Some(Duration::from_secs(minutes * 60)));
        insta::assert_snapshot!(minutes(1439), @"The git server cannot be reached, so this goes on from what the last fetch brought (23 hours ago).");
        for (age, words) in
            [(0, "less than a minute ago"), (1, "1 minute ago"), (119, "119 minutes ago"), (2880, "2 days ago")]
        {
            assert!(minutes(age).contains(words), "{words}: {}", minutes(age));
        }
        assert!(offline(None).contains("nobody knows"));
    }

    #[test]
    fn at_the_limit_there_are_ways_out() {
        let name: RepoName = "acme/myproject".parse().unwrap();
        let census = Census { merged: 3, stale: 2, active: 20 };
        insta::assert_snapshot!(limit_reached(&name, 25, &census, Duration::from_secs(14 * 86_400)), @"
        You have 25 active worktrees for **myproject** (limit reached).

        📊 Worktree status:
        • 3 merged (can auto-remove)
        • 2 stale (no activity in 14+ days)
        • 20 active

        Options:
        • `/worktree cleanup merged` - Remove merged worktrees (3)
        • `/worktree cleanup stale` - Remove stale worktrees (2)
        • `/worktree list` - See all worktrees
        • `/worktree remove <name>` - Remove specific worktree

        Nothing was created. Mention me again when there is room.
        ");
    }

    #[test]
    fn first_lines_are_exact() {
        let branch = BranchName::new("issue-42").unwrap();
        let feature = BranchName::new("feature/x").unwrap();
        let sha = CommitSha::new(&format!("abc1234{}", "0".repeat(33))).unwrap();
        let issue = Work { kind: WorkKind::Issue, id: "42".into() };
        assert_eq!(opening(&Opening::Created { branch: &branch }), "Working in isolated branch `issue-42`");
        assert_eq!(
            opening(&Opening::ReviewingFork { sha: &sha, branch: &feature }),
            "Reviewing PR at commit `abc1234` (branch: `feature/x`)"
        );
        assert_eq!(opening(&Opening::Reusing { work: &issue }), "Reusing worktree from issue #42");
        assert_eq!(
            opening(&Opening::Continuing { branch: &branch, ahead: 3 }),
            "Continuing on existing branch `issue-42`, 3 commits ahead"
        );
        assert_eq!(
            made_way(&issue, &feature),
            "The worktree of issue #42 held nothing of its own, so both threads work on `feature/x` from here on."
        );
    }
}
