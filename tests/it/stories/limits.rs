//! The limit of worktrees: what is provably merged makes room, and nothing else is taken away for it.

use crate::support::world::{ANN, REPO, World, git};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::path::Path;
use treewarden::model::*;

const TWO: &[(&str, &str)] = &[("MAX_WORKTREES_PER_CODEBASE", "2")];

/// By what is left of it, in the order of the issues.
fn live_works(environments: &[Environment]) -> Vec<String> {
    environments.iter().map(|live| live.work.to_string()).collect()
}

/// A person puts what the issue's branch holds onto main by hand; its thread stays open.
async fn merged_by_hand(world: &World, branch: &str) {
    let notes = world.remote_file(branch, "NOTES.md").await.unwrap();
    let files = [("NOTES.md", Some(notes.as_str()))];
    world.standin.push_commit(REPO, ANN, "main", "Take notes", &files).await.unwrap();
}

#[tokio::test]
async fn merged_work_makes_room() {
    let world = World::with(TWO).await;
    let first = world.worked_issue("write this down").await;
    let second = world.worked_issue("add a greeting").await;
    merged_by_hand(&world, &format!("issue-{first}")).await;
    let third = world.worked_issue("add a greeting").await;

    let status = world.status(third);
    assert!(status.starts_with('✅') && status.contains("Cleaned up 1 merged worktree to make room."), "{status}");
    let live: Vec<String> = world.environments().await.iter().map(|live| live.work.to_string()).collect();
    assert_eq!(live, [format!("issue-{second}"), format!("issue-{third}")]);
    assert!(world.answer(first).contains("is in `main`"), "its thread is told: {}", world.answer(first));
    world.end().await;
}

#[tokio::test]
async fn nothing_that_is_kept_makes_room_and_the_reply_counts_it() {
    let world = World::with(TWO).await;
    let first = world.worked_issue("write this down").await;
    world.worked_issue("add a greeting").await;
    merged_by_hand(&world, &format!("issue-{first}")).await;
    let place = world.environments().await.remove(0).path;
    std::fs::write(place.join("precious.txt"), "precious\n").unwrap();
    let third = world.worked_issue("add a greeting").await;

    let status = world.status(third);
    assert!(status.contains("You have 2 active worktrees for **hello** (limit reached)."), "{status}");
    for line in ["• 0 merged (can auto-remove)", "• 0 stale (no activity in 14+ days)", "• 2 active"] {
        assert!(status.contains(line), "{line} in {status}");
    }
    assert!(place.join("precious.txt").exists());
    assert_eq!(world.environments().await.len(), 2);
    world.end().await;
}

/// Neither the count nor the room that others make depends on it.
#[tokio::test]
async fn a_thread_that_cannot_be_read_counts_as_active_and_keeps_nobody_from_making_room() {
    let world = World::with(TWO).await;
    let first = world.worked_issue("write this down").await;
    world.worked_issue("add a greeting").await;
    merged_by_hand(&world, &format!("issue-{first}")).await;
    let damaged = world.environments().await.remove(1).id;
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let damage = format!("UPDATE conversations SET state = 'banana' WHERE environment_id = '{damaged}'");
    let mut database = file.connect().await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(damage)).execute(&mut database).await.unwrap();
    let codebase = world.store().list_codebases().await.unwrap().remove(0);
    assert_eq!(world.orchestrator().census(&codebase).await.unwrap().all(), 2);

    let third = world.worked_issue("add a greeting").await;
    let status = world.status(third);
    assert!(status.starts_with('✅') && status.contains("Cleaned up 1 merged worktree to make room."), "{status}");
    world.end().await;
}

/// What came from the base was not merged into it, and the thread is open: nothing is over.
#[tokio::test]
async fn a_branch_that_only_followed_its_base_makes_no_room() {
    let world = World::with(TWO).await;
    world.worked_issue("agent:noop").await;
    world.standin.push_commit(REPO, ANN, "main", "Move on", &[("more.txt", Some("more\n"))]).await.unwrap();
    world.worked_issue("add a greeting").await;
    let place = world.environments().await.remove(0).path;
    git(&place, &["merge", "--ff-only", "-q", "origin/main"]);
    assert!(place.join("more.txt").exists());
    let third = world.worked_issue("add a greeting").await;
    assert!(world.status(third).contains("• 0 merged (can auto-remove)"), "{}", world.status(third));
    let report = world.pass().await;
    assert!(report.lines.iter().all(|line| matches!(line.result, ReportResult::Kept(_))), "{report:?}");
    assert!(place.exists());
    world.end().await;
}

/// `git pull && git push` on the base puts its old tip beside the line of first parents: an untouched worktree that was
/// made from there has still nothing that could have been merged.
#[tokio::test]
async fn a_base_that_was_merged_aside_makes_no_room() {
    let world = World::with(TWO).await;
    world.standin.push_commit(REPO, ANN, "main", "Move on", &[("more.txt", Some("more\n"))]).await.unwrap();
    world.worked_issue("agent:noop").await;
    let remote = world.standin.git_dir(REPO).unwrap();
    let mine = git(&remote, &["commit-tree", "main~1^{tree}", "-p", "main~1", "-m", "Mine"]);
    let merge = git(&remote, &["commit-tree", "main^{tree}", "-p", &mine, "-p", "main", "-m", "Pull"]);
    git(&remote, &["update-ref", "refs/heads/main", &merge]);
    let report = world.pass().await;
    assert!(matches!(&report.lines[..], [line] if matches!(line.result, ReportResult::Kept(_))), "{report:?}");
    assert_eq!(world.environments().await.len(), 1);
    world.end().await;
}

#[tokio::test]
async fn cleaning_up_by_command_does_what_its_dry_run_says() {
    let world = World::new().await;
    let first = world.worked_issue("write this down").await;
    let second = world.worked_issue("add a greeting").await;
    merged_by_hand(&world, &format!("issue-{first}")).await;

    world.ask(second, "/worktree cleanup stale");
    world.settle().await;
    assert!(world.answer(second).contains("No worktree of this repository is stale"));
    world.ask(second, "/worktree cleanup merged --dry-run");
    world.settle().await;
    let answer = world.answer(second);
    assert!(answer.starts_with(&format!("- `issue-{first}` would be removed: everything")), "{answer}");
    assert_eq!(world.environments().await.len(), 2);
    world.ask(second, "/status");
    world.settle().await;
    let status = world.answer(second);
    assert!(
        status.contains(
            "2 worktrees of 25 in this repository: 1 merged, 0 stale (closed, or without activity for long), 1 active or kept"
        ),
        "{status}"
    );
    world.ask(second, "/worktree cleanup merged");
    world.settle().await;
    assert!(world.answer(second).starts_with(&format!("- `issue-{first}` was removed: everything")));
    let left = world.environment().await;
    assert_eq!((left.work.to_string(), left.state), (format!("issue-{second}"), EnvironmentState::Active));
    world.end().await;
}

#[tokio::test]
async fn a_worktree_that_is_gone_makes_room() {
    let world = World::with(TWO).await;
    let first = world.worked_issue("add a greeting").await;
    let second = world.worked_issue("add a greeting").await;
    let gone = world.environments().await.remove(0);
    std::fs::remove_dir_all(&gone.path).unwrap();
    let third = world.worked_issue("add a greeting").await;

    let status = world.status(third);
    assert!(status.starts_with('✅') && !status.contains("Cleaned up"), "{status}");
    let live = world.environments().await;
    assert_eq!(live_works(&live), [format!("issue-{second}"), format!("issue-{third}")]);
    assert!(world.local_tip(&format!("issue-{first}")).await.is_some(), "its commits are safe");
    let listed = git(&world.canonical().await, &["worktree", "list", "--porcelain"]);
    assert!(!listed.contains(&*gone.path.to_string_lossy()), "{listed}");
    world.end().await;
}

/// Passes, lists and pages look at worktrees and are no activity; two weeks without any, and one goes.
#[tokio::test]
async fn what_nobody_works_in_goes_after_two_weeks_and_its_branch_stays() {
    let world = World::new().await;
    let clean = world.worked_issue("add a greeting").await;
    let pinned = world.worked_issue("add a greeting").await;
    let dirty = world.worked_issue("add a greeting").await;
    world.ask(pinned, "/worktree pin");
    world.settle().await;
    let begun = world.environments().await;
    let [of_clean, of_pinned, of_dirty] = &begun[..] else { panic!("{begun:?}") };
    std::fs::write(of_dirty.path.join("precious.txt"), "precious\n").unwrap();
    let onlooker = world.issue();
    let look = async || {
        world.pass().await;
        for command in ["/worktree list", "/worktree orphans", "/worktree cleanup stale --dry-run"] {
            world.ask(onlooker, command);
        }
        world.ask(clean, "/status");
        world.settle().await;
        for page in ["/", "/environments", "/cleanup", &format!("/environments/{}", of_clean.id)] {
            world.page(page).await;
        }
        let seen = world.all_environments().await;
        for before in &begun {
            let after = seen.iter().find(|after| after.id == before.id).unwrap();
            assert_eq!(after.last_activity_at, before.last_activity_at, "{}", before.work);
        }
    };
    for _ in 0..2 {
        world.days_pass(6);
        look().await;
    }
    assert_eq!(live_works(&world.environments().await), live_works(&begun), "twelve days are not long");
    world.days_pass(2);
    look().await;
    assert_eq!(live_works(&world.environments().await), [format!("issue-{pinned}"), format!("issue-{dirty}")]);
    assert!(!of_clean.path.exists());
    let answers: Vec<String> = world.answers(clean).into_iter().map(|comment| comment.body).collect();
    let told = answers.iter().find(|body| body.starts_with("🧹")).unwrap_or_else(|| panic!("{answers:?}"));
    assert!(told.contains(&format!("The branch `issue-{clean}` at")) && told.contains("is kept"), "{told}");
    assert!(world.local_tip(&format!("issue-{clean}")).await.is_some());

    world.days_pass(16);
    let report = world.pass().await;
    let why: Vec<_> = report.lines.iter().map(|line| line.result.clone()).collect();
    let kept = |why: &str| ReportResult::Kept(vec![why.to_owned()]);
    assert_eq!(why, [kept("it is pinned"), kept("uncommitted work: 1 untracked file")]);
    assert!(of_pinned.path.join("hello.sh").exists() && of_dirty.path.join("precious.txt").exists());
    world.ask(clean, "add a note");
    world.settle().await;
    let status = world.status(clean);
    assert!(status.contains(&format!("Continuing on existing branch `issue-{clean}`, 1 commit ahead")), "{status}");
    world.end().await;
}

#[tokio::test]
async fn cleaning_up_what_is_stale_by_command() {
    let world = World::with(&[("STALE_THRESHOLD_DAYS", "3")]).await;
    let idle = world.worked_issue("add a greeting").await;
    let closed = world.worked_issue("add a greeting").await;
    let places = world.environments().await;
    let half_done = places[1].path.join("half-done.txt");
    std::fs::write(&half_done, "half\n").unwrap();
    world.standin.close(REPO, ANN, closed).unwrap();
    world.settle().await;
    assert!(half_done.exists(), "closing keeps it");
    let other = world.worked_issue("add a greeting").await;
    let clean_up = async || {
        world.ask(other, "/worktree cleanup stale");
        world.settle().await;
        world.answer(other)
    };
    let kept = format!("- `issue-{closed}` is kept: uncommitted work: 1 untracked file");
    assert!(clean_up().await.starts_with(&kept), "{}", world.answer(other));
    // Its thread is closed, so that it waits for no time.
    std::fs::remove_file(&half_done).unwrap();
    let removed = |issue: i64| format!("- `issue-{issue}` was removed: the worktree was clean");
    assert!(clean_up().await.starts_with(&removed(closed)), "{}", world.answer(other));
    assert!(!places[1].path.exists() && places[0].path.exists());
    world.days_pass(2);
    assert!(clean_up().await.contains("No worktree of this repository is stale"), "{}", world.answer(other));
    world.ask(other, "add a note");
    world.settle().await;
    world.days_pass(2);
    assert!(clean_up().await.starts_with(&removed(idle)), "{}", world.answer(other));
    assert!(!world.answer(other).contains(&format!("issue-{other}")), "{}", world.answer(other));
    assert_eq!(live_works(&world.environments().await), [format!("issue-{other}")]);
    for issue in [idle, closed] {
        assert!(world.local_tip(&format!("issue-{issue}")).await.is_some(), "the branch of #{issue} stays");
    }
    world.end().await;
}

/// `/status` and the panel's bar show the same numbers.
#[tokio::test]
async fn everybody_counts_alike() {
    let world = World::with(&[("MAX_WORKTREES_PER_CODEBASE", "4")]).await;
    let idle = world.worked_issue("add a greeting").await;
    world.days_pass(20);
    let merged = world.worked_issue("write this down").await;
    let (active, other) = (world.worked_issue("add a greeting").await, world.worked_issue("add a greeting").await);
    let places = world.environments().await;
    merged_by_hand(&world, &format!("issue-{merged}")).await;
    world.ask(active, "agent:noop");
    world.settle().await;
    world.ask(active, "/status");
    world.settle().await;
    let counts = "1 merged, 1 stale (closed, or without activity for long), 2 active";
    let status = world.answer(active);
    assert!(status.contains(&format!("4 worktrees of 4 in this repository: {counts} or kept")), "{status}");
    let bar = world.until("the panel's count", || async {
        let page = world.page("/").await;
        (!page.contains("being counted")).then_some(page)
    });
    let bar = bar.await;
    assert!(bar.contains(&format!("4 of 4 worktrees: {counts}; counted")), "{bar}");
    assert_eq!(live_works(&places), [idle, merged, active, other].map(|issue| format!("issue-{issue}")));
    world.end().await;
}

#[tokio::test]
async fn at_the_limit_stale_worktrees_are_counted_and_go_when_asked() {
    let world = World::with(TWO).await;
    world.worked_issue("add a greeting").await;
    world.worked_issue("add a greeting").await;
    world.days_pass(20);
    let third = world.worked_issue("add a greeting").await;
    let status = world.status(third);
    for line in [
        "• 0 merged (can auto-remove)",
        "• 2 stale (no activity in 14+ days)",
        "• 0 active",
        "• `/worktree cleanup stale` - Remove stale worktrees (2)",
    ] {
        assert!(status.contains(line), "{line} in {status}");
    }
    assert_eq!(world.environments().await.len(), 2);
    world.ask(third, "/worktree cleanup stale");
    world.settle().await;
    world.ask(third, "add a greeting");
    world.settle().await;
    assert!(world.status(third).starts_with('✅'), "{}", world.status(third));
    assert_eq!(live_works(&world.environments().await), [format!("issue-{third}")]);
    world.end().await;
}

/// Somebody else's worktrees among ours: one that is old and merged, and one whose directory is away at this moment.
#[tokio::test]
async fn cleaning_up_leaves_worktrees_of_others_alone() {
    let world = World::new().await;
    let merged = world.worked_issue("write this down").await;
    world.worked_issue("add a greeting").await;
    let canonical = world.canonical().await;
    let beside = world.environments().await[0].path.parent().unwrap().to_owned();
    let theirs = |name: &str| beside.join(name);
    for name in ["theirs", "away"] {
        let path = theirs(name);
        git(
            &canonical,
            &["worktree", "add", "--quiet", "-b", name, path.to_str().unwrap(), &format!("issue-{merged}")],
        );
    }
    std::fs::rename(theirs("away"), world.dir.path().join("elsewhere")).unwrap();
    let registered = |path: &Path| {
        let listed = git(&canonical, &["worktree", "list", "--porcelain", "-z"]);
        let entry = format!("worktree {}\0", path.display());
        listed.split("\0\0").filter(|one| format!("{one}\0").contains(&entry)).map(str::to_owned).collect::<Vec<_>>()
    };
    let before: Vec<_> = ["theirs", "away"].map(|name| registered(&theirs(name))).into();
    assert!(before.iter().all(|entries| entries.len() == 1), "{before:?}");
    merged_by_hand(&world, &format!("issue-{merged}")).await;
    world.days_pass(30);
    let other = world.issue();
    for command in ["/worktree cleanup merged", "/worktree cleanup stale"] {
        world.ask(other, command);
        world.settle().await;
        assert!(world.answer(other).contains("was removed"), "{}", world.answer(other));
        assert!(!world.answer(other).contains("theirs"), "{}", world.answer(other));
    }
    let report = world.pass().await;
    // Both of ours are gone.
    let kept = |line: &ReportLine| line.environment.is_none() && matches!(line.result, ReportResult::Kept(_));
    assert!(report.lines.len() == 2 && report.lines.iter().all(kept), "{report:?}");
    assert!(world.environments().await.is_empty());
    let after: Vec<_> = ["theirs", "away"].map(|name| registered(&theirs(name))).into();
    assert_eq!(after, before);
    for name in ["theirs", "away"] {
        assert!(world.local_tip(name).await.is_some(), "{name}");
    }
    assert!(theirs("theirs").join("NOTES.md").exists() && world.dir.path().join("elsewhere/NOTES.md").exists());
    world.end().await;
}

/// The next free place goes to a repository that has none, although its request is newer.
#[tokio::test]
async fn a_busy_repository_does_not_keep_the_others_waiting() {
    const OTHER: &str = "octo/other";
    let world = World::with(&[("MAX_CONCURRENT_RUNS", "2")]).await;
    world.standin.create_repository(OTHER, &[("README.md", "# other\n")]).await.unwrap();
    world.standin.set_permission(OTHER, ANN, Permission::Write).unwrap();
    let busy = [world.issue(), world.issue()];
    for issue in busy {
        world.ask(issue, "agent:sleep=600");
    }
    let at_work = || async { world.run_states().await.iter().filter(|state| **state == RunState::Running).count() };
    world.until("two agents at work", || async { (at_work().await == 2).then_some(()) }).await;
    let waits = world.issue();
    world.ask(waits, "add a greeting");
    world.until("its place", || async { world.statuses(waits).pop().filter(|status| status.starts_with("🕐")) }).await;
    let elsewhere = world.standin.open_issue(OTHER, ANN, "Greet people", "").unwrap();
    world.standin.comment(OTHER, ANN, elsewhere, &world.mention("agent:sleep=600")).unwrap();
    world.until("all to be asked for", || async { (world.run_states().await.len() == 4).then_some(()) }).await;
    world.ask(busy[0], "/stop");
    let run = async |number: i64, repository: &str| {
        let codebase = world.store().find_codebase(&repository.parse().unwrap()).await.unwrap().unwrap();
        let thread = world.store().find_conversation(codebase.id, ThreadNumber(number)).await.unwrap().unwrap();
        world.runs().await.into_iter().find(|run| run.conversation == thread.id).unwrap()
    };
    let over = || async { run(busy[0], REPO).await.state.is_final().then_some(()) };
    world.until("a place that is free", over).await;
    world.until("the next one at work", || async { (at_work().await == 2).then_some(()) }).await;
    assert_eq!(run(elsewhere, OTHER).await.state, RunState::Running);
    assert_eq!(run(waits, REPO).await.state, RunState::Queued);
    world.ask(busy[1], "/stop");
    world.standin.comment(OTHER, ANN, elsewhere, &world.mention("/stop")).unwrap();
    world.settle().await;
    assert_eq!(run(waits, REPO).await.state, RunState::Succeeded);
    world.end().await;
}
