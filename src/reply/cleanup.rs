//! What people are told when an environment is removed, or why it is kept.

use super::{agent_text, count, days, marker, staged};
use crate::decide::cleanup::{Because, ByHand, Keep, Kind, MergeProof, Removal};
use crate::model::*;
use std::{collections::BTreeSet, path::Path, time::Duration};

/// One sentence: why removing was safe, and how many files of which kinds went to the trash.
pub fn proof(removal: &Removal, branch: &BranchName) -> String {
    let because = because(&removal.because, branch);
    let Removal { changed, untracked, rescued, .. } = *removal;
    let ignored = match rescued {
        0 => None,
        1 => Some("a file that git ignores".to_owned()),
        files => Some(format!("{files} files that git ignores")),
    };
    let kinds = [(changed, "changed file"), (untracked, "untracked file")];
    let mut files: Vec<String> =
        kinds.into_iter().filter(|(number, _)| *number > 0).map(|(number, what)| count(number, what)).collect();
    files.extend(ignored);
    let goes = if changed + untracked + rescued == 1 { "goes" } else { "go" };
    match files.split_last() {
        None => because,
        Some((last, [])) => format!("{because}; {last} {goes} to the trash"),
        Some((last, others)) => format!("{because}; {} and {last} {goes} to the trash", others.join(", ")),
    }
}

fn because(because: &Because, branch: &BranchName) -> String {
    match because {
        Because::Merged(MergeProof::Ancestor { base }) => format!("`{branch}` is merged into `{base}`"),
        Because::Merged(MergeProof::ContentInBase { base }) => {
            format!("everything `{branch}` changes is in `{base}`")
        }
        Because::Merged(MergeProof::PullRequest { number }) => {
            format!("pull request #{number} merged exactly this commit of `{branch}`")
        }
        Because::BranchKept => format!("the worktree was clean and every commit stays on `{branch}`, which is kept"),
        Because::NothingDone => format!("`{branch}` had no commit that its base lacks and the worktree was clean"),
        Because::WorkKept => format!("this was asked for, and every commit stays on `{branch}`, which is kept"),
    }
}

/// The same for one that was only let go of, in reports.
pub fn released(proof: &str) -> String {
    format!("{proof}; it was let go of, and stays where somebody else made it")
}

/// Why one stays that was of another class a moment ago.
pub fn changed_meanwhile() -> String {
    "it changed while it was looked at".to_owned()
}

/// The comment under which a removal is reported.
pub fn removed(work: &Work, details: &ReceiptDetails, key: &str) -> String {
    format!("{}\n\n{}", removed_line(work, details), marker(key))
}

/// What a thread hears whose environment made way for `successor`'s.
pub fn made_way(work: &Work, successor: &Work, details: &ReceiptDetails, key: &str) -> String {
    format!(
        "The worktree of this thread held nothing of its own, so it made way for that of {}; a mention here goes on there.{}\n\n{}",
        called(successor),
        kept_work(work, details),
        marker(key)
    )
}

/// A thread, as another one calls it.
pub fn thread(thread: &ThreadId) -> String {
    match thread {
        ThreadId::Numbered { number, .. } => format!("#{number}"),
        ThreadId::Named(name) => format!("the conversation `{name}`"),
    }
}

/// Work, as a thread calls it.
pub fn called(work: &Work) -> String {
    match work.kind {
        WorkKind::Issue => format!("issue #{}", work.id),
        WorkKind::PullRequest | WorkKind::Review => format!("PR #{}", work.id),
        WorkKind::Thread | WorkKind::Task => work.to_string(),
    }
}

/// One line: why it was safe, and where the work is.
pub fn removed_line(work: &Work, details: &ReceiptDetails) -> String {
    let tip = details.tip.as_ref().map(|tip| format!(" at `{}`", tip.short())).unwrap_or_default();
    let branch = match details.branch_deleted {
        true => {
            // What was only let go of is somebody else's to make anew.
            let way = if details.released { String::new() } else { format!("`{}`, or ", restore_by_name(work)) };
            format!(
                "The local branch `{}`{tip} was deleted; {way}`{}` in the service's repository brings it back",
                details.branch, details.restore
            )
        }
        false => {
            let way = match work.kind {
                // No thread goes on there by itself.
                WorkKind::Task => format!("`{}`", restore_by_name(work)),
                WorkKind::Issue | WorkKind::PullRequest | WorkKind::Review | WorkKind::Thread => {
                    "a mention in the thread it belongs to".to_owned()
                }
            };
            format!("The branch `{}`{tip} is kept; {way} goes on there", details.branch)
        }
    };
    match details.released {
        true => format!(
            "🧹 The worktree was let go of: {}. Somebody else made it, outside of my directory, so its files and its \
             registration stay where they are, and I unlocked it. {branch}.",
            details.proof
        ),
        false => format!("🧹 The worktree was removed: {}. {branch}.{}", details.proof, kept_work(work, details)),
    }
}

/// Where uncommitted work is, and how it comes back.
fn kept_work(work: &Work, details: &ReceiptDetails) -> String {
    let (Some(name), Some(until)) = (&details.safety_ref, details.kept_until) else { return String::new() };
    let what = match (details.only_ignored, details.rescued) {
        (true, 1) => "A file that git ignores".to_owned(),
        (true, files) => format!("{files} files that git ignores"),
        (false, 0) => "What was not committed".to_owned(),
        (false, files) => format!("What was not committed, and {} that git ignores,", count(files, "file")),
    };
    let is_one = if details.only_ignored { details.rescued == 1 } else { details.rescued == 0 };
    let is = if is_one { "is" } else { "are" };
    format!(
        " {what} {is} kept until {} (in `{name}` of the service's repository): `{}` brings that back as it was, \
         but for files that the branch changes until then.",
        until.date(),
        restore_by_name(work)
    )
}

/// What was found when the files of a removed worktree were looked at for the last time.
pub fn late(work: &Work, details: &ReceiptDetails, key: &str) -> String {
    format!(
        "🧹 Something was still written in the worktree of `{}` while it was removed.{}\n\n{}",
        details.branch,
        kept_work(work, details),
        marker(key)
    )
}

/// What holds up the files of a removed worktree until a person does something.
pub fn held_up(environment: EnvironmentId, details: &ReceiptDetails, key: &str) -> String {
    let why = agent_text::quoted(details.held_up.as_deref().unwrap_or_default());
    format!(
        "🧹 The files of the removed worktree of `{}` are not deleted yet: {why}. Nothing is lost: they are in the service's trash \
         directory, under `{environment}`. Whoever runs the service can move what is in the way out of there; I look again every hour, \
         and keep the rest.\n\n{}",
        details.branch,
        marker(key)
    )
}

/// The command for a thread of the repository.
pub fn restore_by_name(work: &Work) -> String {
    format!("/worktree restore {}", as_one_word(work).as_deref().unwrap_or("<name>"))
}

/// What a command calls the work; `None` where that is more than one word, as an older program may have called it.
fn as_one_word(work: &Work) -> Option<String> {
    Some(work.to_string()).filter(|name| !name.contains(|c: char| c.is_whitespace() || c == '`'))
}

/// The whole command that brings a deleted branch back, for whoever runs the service: comments name no places on its
/// machine. `None` when the branch is there.
pub fn restore_command(details: &ReceiptDetails, repository: &Path) -> Option<String> {
    let tip = details.tip.as_ref().filter(|_| details.branch_deleted)?;
    let repository = repository.display().to_string();
    shlex::try_join(["git", "-C", &repository, "branch", &details.branch, tip.as_str()]).ok()
}

/// Why a pass leaves one alone that failed in those before.
pub fn put_off(why: &str, times: u32, again: Timestamp) -> String {
    let often = if times == 1 { "once".to_owned() } else { format!("{times} times in a row") };
    format!(
        "it failed {often}, so passes leave it alone until {again}; `/worktree remove` and the panel try at once. The last \
         time: {why}"
    )
}

/// What a pass did not wait for.
pub fn endless(patience: Duration) -> String {
    format!(
        "looking at it took longer than {} minutes; the pass went on, and nothing was given up",
        patience.as_secs() / 60
    )
}

/// Of a removal that came to no end and gave no reason.
pub fn not_finished() -> String {
    "its removal could not be brought to its end; the service's log says why".to_owned()
}

/// The comment when closing a thread leaves its environment in place.
pub fn kept(work: &Work, branch: &BranchName, reasons: &[Keep], trash_for: Duration, key: &str) -> String {
    let is_about = |kind: Kind| reasons.iter().any(|reason| reason.kind() == kind);
    let (heading, way_out) = match is_about(Kind::Uncommitted) {
        true => (
            "Cannot remove worktree - you have uncommitted changes.".to_owned(),
            match is_about(Kind::OtherRepository) {
                // No commit of mine takes that in.
                true => "",
                false => "Mention me here and ask to commit the changes, or to discard them. ",
            },
        ),
        false => (format!("The worktree of `{branch}` is kept; nothing was removed."), ""),
    };
    let list: Vec<String> = reasons.iter().map(|reason| format!("- {}", sentence(reason))).collect();
    // Locks, paths and failures may be worded by an agent.
    let list = agent_text::foreign(&list.join("\n"), 4_000);
    let forced = by_force(work, reasons, trash_for).map(|way| format!("{way} ")).unwrap_or_default();
    let steps: String = next_steps(reasons).iter().map(|step| format!("{step} ")).collect();
    format!(
        "{heading}\n\n{}\n\nNothing was lost. {way_out}{steps}{forced}When the cause is gone, the next cleanup removes it; a mention here continues in it.\n\n{}",
        list,
        marker(key)
    )
}

/// The way out where only what is not committed keeps a worktree. It names that, whichever thread it is said in.
pub fn by_force(work: &Work, reasons: &[Keep], trash_for: Duration) -> Option<String> {
    let days = days(trash_for);
    let name = as_one_word(work).map(|name| format!(" {name}")).unwrap_or_default();
    reasons.iter().all(Keep::fits_the_trash).then(|| {
        format!("`/worktree remove{name} --force` removes it all the same; what is not committed is kept in the trash for {days} days.")
    })
}

/// What a person can do about a reason, where there is more to say than the reason itself says.
pub fn next_step(reason: &Keep) -> Option<&'static str> {
    Some(match reason.by_hand()? {
        ByHand::Unpin => "`/worktree unpin` in its thread ends the pin.",
        ByHand::EndOperation => {
            "What is in progress can be finished or given up in the worktree, also by me: say which."
        }
        ByHand::MoveRepositoryOut => {
            "What the repository inside holds has to be pushed from there, or moved away; no trash keeps the history of \
             another repository."
        }
        ByHand::Unlock => "`git worktree unlock` ends the lock, where its owner agrees.",
        ByHand::SwitchBack => "`git switch` in the worktree puts it back on its branch; I can do that, too.",
        ByHand::MoveAside => "Whoever put that there can move it away; the worktree's branch stays.",
        ByHand::ClearTheWay => {
            "Whoever runs this service can put the cause right; then ask again. What lies in the worktree stays as it is until then."
        }
    })
}

/// The same of several, each once.
pub fn next_steps(reasons: &[Keep]) -> Vec<String> {
    let mut steps: Vec<String> = reasons.iter().filter_map(next_step).map(str::to_owned).collect();
    let mut said = BTreeSet::new();
    steps.retain(|step| said.insert(step.clone()));
    steps
}

/// Files that a removal takes to the trash, as `/status` names them.
pub fn ignored(first: &str) -> String {
    format!("ignored files that exist nowhere else, such as `{}`: they go to the trash with the worktree", plain(first))
}

/// A row without a worktree.
pub fn ghost() -> String {
    "its worktree was gone already".to_owned()
}

/// In the place of [`Keep::Broken`], as long as nothing is to be changed.
pub fn would_be_mended() -> String {
    "its ties to its repository are broken; a removal mends them first, and then looks at what it holds".to_owned()
}

/// In the place of a reason, as long as there is none.
pub fn not_examined() -> String {
    "not examined yet: the next cleanup looks at it, or the closing of its thread".to_owned()
}

/// One reason, as shown in comments, the panel and reports.
pub fn sentence(reason: &Keep) -> String {
    match reason {
        Keep::Busy => "a run is live or queued in it".to_owned(),
        Keep::StillUsedBy(user) => format!("still used by {}, which is open", thread(user)),
        Keep::UsedOn(platform) => format!("a thread on {} uses it, too", platform_name(*platform)),
        Keep::Persistent(platform) => {
            format!("it belongs to a chat on {}, and such work is never over", platform_name(*platform))
        }
        Keep::Pinned => "it is pinned".to_owned(),
        Keep::NotOn(mode) => {
            format!("its repository is {}: only people take anything away there", staged::in_words(*mode))
        }
        Keep::Transferred => {
            "its issue was transferred to another repository; the work stays here until somebody removes it".to_owned()
        }
        Keep::LockedBySomeoneElse(why) if why.is_empty() => "somebody else locked it".to_owned(),
        Keep::LockedBySomeoneElse(why) => format!("somebody else locked it: {why}"),
        Keep::UncommittedChanges { changed, untracked } => {
            let kinds = [(*changed, "changed file"), (*untracked, "untracked file")];
            let some = kinds.into_iter().filter(|(number, _)| *number > 0).map(|(number, what)| count(number, what));
            format!("uncommitted work: {}", some.collect::<Vec<_>>().join(" and "))
        }
        Keep::OperationInProgress(what) => format!("a {what} is in progress"),
        Keep::HiddenChanges => "edits hidden from git status (skip-worktree or assume-unchanged)".to_owned(),
        Keep::SubmoduleWork(path) => format!(
            "the submodule `{path}` holds work of its own that is on no remote (push it from there, I do not push submodules)",
            path = plain(path)
        ),
        Keep::NestedRepository(path) => format!("another repository lies inside, at `{path}`", path = plain(path)),
        Keep::IgnoredFiles { bytes, most, largest } => format!(
            "{} of files that git ignores, more than the {} that go to the trash with a worktree; the largest is `{}`. What is \
             not needed can be deleted, what is can be moved away",
            megabytes(*bytes),
            megabytes(*most),
            plain(largest)
        ),
        Keep::Stashed(number) => format!(
            "{} of its branch in the repository's stash, where `--force` leaves that, too (whoever runs this service finds it with \
             `git stash list`)",
            count(*number, "change")
        ),
        Keep::BranchDrift { recorded, actual: Some(actual) } => {
            format!("it was made for `{recorded}` but stands on `{actual}`", actual = plain(actual.as_str()))
        }
        Keep::BranchDrift { recorded, actual: None } => {
            format!("it was made for `{recorded}` but its HEAD is detached")
        }
        Keep::ForeignPath => "something that Treewarden did not make stands at its path".to_owned(),
        Keep::Broken => "its files are there, but git no longer knows the worktree".to_owned(),
        Keep::OwnRepository => {
            "somebody made a repository of its own in it (its `.git` is a directory now); it is left as \
                                it is until that `.git` is moved away"
                .to_owned()
        }
        Keep::TrashCannotHold(why) => format!("the trash cannot hold all that is not committed: {why}"),
        Keep::Obstructed(why) => why.clone(),
        Keep::CannotVerify(why) => format!("it could not be checked: {why}"),
        Keep::GithubSilent(why) => {
            format!("GitHub could not be asked what is merged: {why}; the next cleanup asks again")
        }
        Keep::StillActive => "work goes on: it is neither merged nor stale".to_owned(),
        Keep::InTransition => "it is being created or removed at this moment".to_owned(),
        Keep::RemovalStuck(why) => why.clone(),
    }
}

pub fn platform_name(platform: PlatformKind) -> &'static str {
    match platform {
        PlatformKind::Github => "GitHub",
        PlatformKind::Local => "this machine",
        PlatformKind::Slack => "Slack",
        PlatformKind::Discord => "Discord",
        PlatformKind::Telegram => "Telegram",
    }
}

/// Rounded up.
fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1024 * 1024))
}

/// What an agent named, fit for a code span.
fn plain(name: &str) -> String {
    name.replace('`', "'").chars().filter(|c| !c.is_control() && !reorders(*c)).take(200).collect()
}

/// Whether a reason goes away by itself: a person has nothing to do about it.
pub fn settles_itself(words: &str) -> bool {
    Keep::PASSING.iter().any(|reason| sentence(reason) == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncommitted_work_is_named_first() {
        let branch = BranchName::new("issue-1").unwrap();
        let text = kept(
            &Work { kind: WorkKind::Issue, id: "1".into() },
            &branch,
            &[Keep::UncommittedChanges { changed: 1, untracked: 2 }, Keep::Pinned],
            Duration::ZERO,
            "cleanup/1",
        );
        insta::assert_snapshot!(text, @"
        Cannot remove worktree - you have uncommitted changes.

        - uncommitted work: 1 changed file and 2 untracked files
        - it is pinned

        Nothing was lost. Mention me here and ask to commit the changes, or to discard them. `/worktree unpin` in its thread ends the pin. When the cause is gone, the next cleanup removes it; a mention here continues in it.

        <!-- treewarden:cleanup/1 -->
        ");
        let nested = [Keep::NestedRepository("a".into()), Keep::NestedRepository("b".into())];
        let text = kept(&Work { kind: WorkKind::Issue, id: "1".into() }, &branch, &nested, Duration::ZERO, "cleanup/1");
        assert_eq!(text.matches("has to be pushed from there, or moved away").count(), 1, "{text}");
    }

    #[test]
    fn what_goes_to_the_trash_is_counted() {
        let said = |changed, untracked, rescued| {
            let (tip, because) = (CommitSha::new(&"a".repeat(40)).unwrap(), Because::WorkKept);
            let removal = Removal { tip, delete_branch: false, keep_work: true, changed, untracked, rescued, because };
            let told = proof(&removal, &BranchName::new("issue-1").unwrap());
            told.strip_prefix("this was asked for, and every commit stays on `issue-1`, which is kept")
                .unwrap()
                .to_owned()
        };
        assert_eq!(said(0, 0, 0), "");
        assert_eq!(said(0, 0, 1), "; a file that git ignores goes to the trash");
        assert_eq!(said(0, 1, 0), "; 1 untracked file goes to the trash");
        assert_eq!(said(2, 0, 2), "; 2 changed files and 2 files that git ignores go to the trash");
        assert_eq!(said(1, 1, 2), "; 1 changed file, 1 untracked file and 2 files that git ignores go to the trash");
    }

    #[test]
    fn the_way_out_by_force_names_the_worktree() {
        let dirty = [Keep::UncommittedChanges { changed: 1, untracked: 0 }];
        let way =
            |kind, id: &str| by_force(&Work { kind, id: id.to_owned() }, &dirty, Duration::from_secs(30 * 86_400));
        insta::assert_snapshot!(way(WorkKind::Issue, "1").unwrap(), @"`/worktree remove issue-1 --force` removes it all the same; what is not committed is kept in the trash for 30 days.");
        assert!(way(WorkKind::Task, "add dark mode").unwrap().starts_with("`/worktree remove --force` "));
        assert_eq!(by_force(&Work { kind: WorkKind::Issue, id: "1".into() }, &[Keep::Pinned], Duration::ZERO), None);
    }

    #[test]
    fn a_thread_whose_worktree_made_way_hears_where_to_go_on() {
        let pull = Work { kind: WorkKind::PullRequest, id: "99".into() };
        let issue = Work { kind: WorkKind::Issue, id: "1".into() };
        insta::assert_snapshot!(made_way(&issue, &pull, &ReceiptDetails::default(), "cleanup/1"), @"
        The worktree of this thread held nothing of its own, so it made way for that of PR #99; a mention here goes on there.

        <!-- treewarden:cleanup/1 -->
        ");
    }

    #[test]
    fn a_removal_says_where_the_work_is() {
        let work = Work { kind: WorkKind::Issue, id: "1".into() };
        let details = ReceiptDetails {
            proof: because(
                &Because::Merged(MergeProof::ContentInBase { base: BranchName::new("main").unwrap() }),
                &BranchName::new("issue-1").unwrap(),
            ),
            branch: "issue-1".into(),
            tip: CommitSha::new(&"a".repeat(40)).ok(),
            branch_deleted: true,
            restore: format!("git branch issue-1 {}", "a".repeat(40)),
            ..Default::default()
        };
        let let_go = ReceiptDetails { branch_deleted: false, released: true, ..details.clone() };
        insta::assert_snapshot!(removed_line(&work, &let_go), @"🧹 The worktree was let go of: everything `issue-1` changes is in `main`. Somebody else made it, outside of my directory, so its files and its registration stay where they are, and I unlocked it. The branch `issue-1` at `aaaaaaa` is kept; a mention in the thread it belongs to goes on there.");
        insta::assert_snapshot!(removed(&work, &details, "cleanup/1"), @"
        🧹 The worktree was removed: everything `issue-1` changes is in `main`. The local branch `issue-1` at `aaaaaaa` was deleted; `/worktree restore issue-1`, or `git branch issue-1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` in the service's repository brings it back.

        <!-- treewarden:cleanup/1 -->
        ");
        let forced = ReceiptDetails {
            branch_deleted: false,
            safety_ref: Some("refs/treewarden/trash/1".into()),
            kept_until: Some(Timestamp::from_unix(0)),
            ..details
        };
        let told = removed_line(&work, &forced);
        assert!(told.contains(": `/worktree restore issue-1` brings that back as it was"), "{told}");
        let rescued = ReceiptDetails { only_ignored: true, rescued: 2, ..forced.clone() };
        let told = removed_line(&work, &rescued);
        assert!(told.contains("2 files that git ignores are kept until 1970-01-01"), "{told}");
        let told = removed_line(&Work { kind: WorkKind::Task, id: "dark-mode".into() }, &forced);
        assert!(told.contains("is kept; `/worktree restore task-dark-mode` goes on there"), "{told}");
    }
}
