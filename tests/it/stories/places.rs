//! Repositories in odd states, limits, and worktrees that vanish.

use crate::support::world::{ANN, REPO, World, git};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use treewarden::{demo::github::MergeMethod, model::*};

/// BR-067
#[tokio::test]
async fn an_empty_repository_is_refused_clearly_and_works_after_its_first_commit() {
    let world = World::new().await;
    let empty = "octo/empty";
    world.standin.create_repository(empty, &[]).await.unwrap();
    world.standin.set_permission(empty, ANN, Permission::Write).unwrap();
    let issue = world.standin.open_issue(empty, ANN, "Start", "From nothing.").unwrap();
    let ask = || world.standin.comment(empty, ANN, issue, &world.mention("add a greeting")).unwrap();
    ask();
    world.settle().await;
    let status = world.standin.comments(empty, issue).unwrap().pop().unwrap().body;
    assert!(status.starts_with("❌ **Failed**") && status.contains("no commits yet"), "{status}");
    assert!(world.all_environments().await.is_empty());

    world.standin.push_commit(empty, ANN, "main", "First", &[("README.md", Some("# first\n"))]).await.unwrap();
    ask();
    world.settle().await;
    let status = world.standin.comments(empty, issue).unwrap().pop().unwrap().body;
    assert!(status.starts_with('✅'), "{status}");
    world.end().await;
}

/// BR-069
#[tokio::test]
async fn a_default_branch_of_another_name_is_the_base() {
    let world = World::new().await;
    world.standin.push_commit(REPO, ANN, "trunk", "Trunk", &[("trunk.txt", Some("trunk\n"))]).await.unwrap();
    world.standin.set_default_branch(REPO, "trunk").await.unwrap();
    world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1");
    assert_eq!((pull.base_branch.as_str(), pull.commits.len()), ("trunk", 1));
    assert!(world.environment().await.path.join("trunk.txt").exists());
    world.end().await;
}

#[tokio::test]
async fn a_default_branch_that_does_not_exist_is_named() {
    let world = World::new().await;
    let odd = "octo/odd";
    world.standin.create_repository(odd, &[]).await.unwrap();
    world.standin.set_permission(odd, ANN, Permission::Write).unwrap();
    world.standin.push_commit(odd, ANN, "dev", "First", &[("README.md", Some("# first\n"))]).await.unwrap();
    let issue = world.standin.open_issue(odd, ANN, "Start", "From dev.").unwrap();
    let ask = || world.standin.comment(odd, ANN, issue, &world.mention("add a greeting")).unwrap();
    let last = || world.standin.comments(odd, issue).unwrap().pop().unwrap().body;
    ask();
    world.settle().await;
    assert!(last().contains("has branches, but not `main`, its default one"), "{}", last());
    assert!(world.all_environments().await.is_empty());

    world.standin.set_default_branch(odd, "dev").await.unwrap();
    ask();
    world.settle().await;
    assert!(last().starts_with('✅'), "{}", last());
    world.end().await;
}

#[tokio::test]
async fn a_repository_that_is_deleted_takes_no_work_along() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let before = world.environment().await;
    world.ask(issue, "note this agent:sleep=5");
    let first = world.until_agent_works().await;
    world.ask(issue, "note that");
    world.until("the second run", || async { (world.runs().await.len() == 3).then_some(()) }).await;
    world.standin.delete_repository(REPO).await.unwrap();
    let over = || async { world.runs().await.iter().all(|run| run.state.is_final()).then_some(()) };
    world.until("the end of both", over).await;

    let runs = world.runs().await;
    let reason = |id: RunId| runs.iter().find(|run| run.id == id).and_then(|run| run.reason.clone()).unwrap();
    let worked = reason(first.id);
    assert!(
        worked.contains("Nothing is lost: it is kept here") || worked.contains("is kept in the worktree"),
        "{worked}"
    );
    let last = runs.iter().max_by_key(|run| run.id).unwrap();
    let refused = reason(last.id);
    assert!(refused.starts_with("The work could not begin: ") && refused.contains("Nothing was run"), "{refused}");
    assert!(!refused.contains("/repositories/"), "no address of an API: {refused}");
    world.pass().await;
    let environment = world.environment().await;
    assert_eq!((environment.id, environment.path.exists()), (before.id, true), "{environment:?}");
    let notes = std::fs::read_to_string(environment.path.join("NOTES.md")).unwrap();
    assert!(notes.contains("note this"), "{notes}");
    // There is no thread left to say it in.
    assert!(world.service.stop().await);
}

#[tokio::test]
async fn a_renamed_repository_keeps_its_environment_and_clone() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    world.standin.rename_repository(REPO, "hello2").unwrap();
    let renamed = "octo/hello2";
    world.standin.comment(renamed, ANN, issue, &world.mention("add a note")).unwrap();
    world.settle().await;

    let status = world.standin.comments(renamed, issue).unwrap().pop().unwrap().body;
    assert!(status.starts_with('✅'), "{status}");
    assert_eq!(world.environment().await.id, environment.id);
    let codebases = world.store().list_codebases().await.unwrap();
    assert_eq!(codebases.iter().map(|c| c.name.to_string()).collect::<Vec<_>>(), [renamed]);
    let owner = world.canonical().await.parent().unwrap().to_owned();
    assert_eq!(std::fs::read_dir(owner).unwrap().count(), 1, "no second clone");
    assert!(world.standin.file(renamed, "issue-1", "NOTES.md").await.unwrap().is_some());
    world.end().await;
}

/// The id decides, whatever a delivery calls the repository.
#[tokio::test]
async fn a_delivery_from_before_a_rename_takes_no_name_from_the_repository_that_has_it_now() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    world.standin.faults().drop_deliveries(1);
    world.ask(issue, "add a greeting");
    world.standin.settled().await;
    let late = world.standin.deliveries().iter().map(|delivery| delivery.id).max().unwrap();
    world.standin.rename_repository(REPO, "hello2").unwrap();
    world.standin.create_repository(REPO, &[("README.md", "# another\n")]).await.unwrap();
    world.standin.set_permission(REPO, ANN, Permission::Write).unwrap();
    let other = world.standin.open_issue(REPO, ANN, "Another", "In another repository.").unwrap();
    world.standin.comment(REPO, ANN, other, &world.mention("agent:noop")).unwrap();
    world.settle().await;

    world.standin.redeliver(late).unwrap();
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded; 3]);
    let status = world.standin.comments("octo/hello2", issue).unwrap().pop().unwrap().body;
    assert!(status.starts_with('✅'), "{status}");
    let codebases = world.store().list_codebases().await.unwrap();
    let named: Vec<_> = codebases.iter().map(|c| (c.name.to_string(), c.connected)).collect();
    assert_eq!(named, [(REPO.to_owned(), true), ("octo/hello2".to_owned(), true)]);
    world.end().await;
}

/// BR-185: what the operator keeps for a repository is for that one, whatever has its name now.
#[tokio::test]
async fn files_the_operator_keeps_do_not_go_to_whoever_takes_the_name_over() {
    let world = World::new().await;
    world.worked_issue("agent:noop").await;
    let kept = world.home().join("copy").join(REPO);
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::write(kept.join(".env"), "KEY=secret\n").unwrap();
    world.standin.rename_repository(REPO, "hello2").unwrap();
    world.standin.create_repository(REPO, &[(".worktreeinclude", "*\n")]).await.unwrap();
    world.standin.set_permission(REPO, ANN, Permission::Write).unwrap();
    let asks = [(REPO_SETTINGS_FILE, Some("copy: [.env]\n"))];
    for (repository, gets) in [(REPO, false), ("octo/hello2", true)] {
        world.standin.push_commit(repository, ANN, "main", "Ask for it", &asks).await.unwrap();
        let issue = world.standin.open_issue(repository, ANN, "Another", "In another worktree.").unwrap();
        world.standin.comment(repository, ANN, issue, &world.mention("agent:noop")).unwrap();
        world.settle().await;
        let codebase = world.store().find_codebase(&repository.parse().unwrap()).await.unwrap().unwrap();
        let all = world.environments().await;
        let newest = all.iter().rfind(|one| one.codebase == codebase.id).unwrap();
        assert_eq!(newest.path.join(".env").exists(), gets, "{repository}");
    }
    world.end().await;
}

/// BR-183: nothing to fetch is no reason to stay at the old address.
#[tokio::test]
async fn work_goes_to_where_a_repository_was_renamed_to() {
    let world = World::new().await;
    world.worked_issue("agent:noop").await;
    world.standin.rename_repository(REPO, "hello2").unwrap();
    let renamed = "octo/hello2";
    let issue = world.standin.open_issue(renamed, ANN, "Another", "In the same repository.").unwrap();
    world.standin.comment(renamed, ANN, issue, &world.mention("add a greeting agent:sleep=2")).unwrap();
    world.until_agent_works().await;
    world.standin.rename_repository(renamed, "hello3").unwrap();
    world.settle().await;
    let status = world.standin.comments("octo/hello3", issue).unwrap().pop().unwrap().body;
    assert!(status.starts_with('✅'), "{status}");
    assert!(world.standin.file("octo/hello3", "issue-2", "hello.sh").await.unwrap().is_some(), "{status}");
    world.end().await;
}

#[tokio::test]
async fn an_archived_repository_is_refused_and_work_done_before_is_kept() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1");
    world.ask(issue, "add a note");
    world.until_run_is(RunState::Succeeded).await;
    world.settle().await;
    world.standin.archive(REPO, true).unwrap();
    let second = world.runs().await.len();
    // GitHub takes no comments on archived repositories; a message from just before is still on its way.
    let record = world.standin.deliveries().into_iter().rev().find(|record| record.event == "issue_comment").unwrap();
    let mut body: serde_json::Value = serde_json::from_slice(&record.body).unwrap();
    body["action"] = "created".into();
    body["comment"]["id"] = 987_654.into();
    body["comment"]["user"] = body["issue"]["user"].clone();
    body["sender"] = body["issue"]["user"].clone();
    body["comment"]["body"] = world.mention("add one more").into();
    world.standin.send_event("issue_comment", body);
    world
        .until("the third run to end", || async {
            let runs = world.runs().await;
            runs.get(second).filter(|run| run.state.is_final()).cloned()
        })
        .await;
    let refused = world.runs().await.pop().unwrap();
    assert_eq!(refused.state, RunState::Failed);
    assert!(refused.reason.unwrap().contains("is archived"));
    assert_eq!(world.environments().await.len(), 1);
    assert!(world.pull(pull.number).open);
}

/// Whatever an agent takes away of what says so: what its row calls finished is somebody's work.
#[tokio::test]
async fn a_worktree_that_looks_half_made_keeps_what_is_not_committed() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    std::fs::write(environment.path.join("keepme.txt"), "precious\n").unwrap();
    let entry = world.canonical().await.join("worktrees/issue-1");
    for name in ["treewarden-complete", "index"] {
        std::fs::remove_file(entry.join(name)).unwrap();
    }
    world.ask(issue, "/status");
    world.settle().await;
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.environment().await.id, environment.id);
    assert_eq!(world.remote_file("issue-1", "keepme.txt").await.as_deref(), Some("precious\n"));
    world.end().await;
}

/// Whether or not its row is there still: nothing of it keeps the branch from the next request.
#[tokio::test]
async fn a_checkout_that_was_killed_half_way_blocks_nobody() {
    for (has_row, change) in [
        (true, "UPDATE isolation_environments SET state = 'creating' WHERE branch = 'big'"),
        (
            false,
            "UPDATE isolation_environments SET state = 'destroyed', destroyed_at = created_at WHERE branch = 'big'",
        ),
    ] {
        let world = World::new().await;
        let issue = world.worked_issue("agent:noop").await;
        let big = async |world: &World| {
            world.environments().await.into_iter().find(|environment| environment.branch.as_str() == "big")
        };
        world.ask(issue, "/worktree create big");
        world.settle().await;
        let before = big(&world).await.unwrap();
        // As `kill -9` in the middle of the checkout leaves it, for which nobody waits.
        let entry = world.canonical().await.join("worktrees/big");
        for name in ["treewarden-complete", "index"] {
            std::fs::remove_file(entry.join(name)).unwrap();
        }
        std::fs::write(entry.join("index.lock"), "").unwrap();
        std::fs::remove_file(before.path.join("README.md")).unwrap();
        let mut database =
            SqliteConnectOptions::new().filename(world.home().join("treewarden.db")).connect().await.unwrap();
        for statement in ["UPDATE conversations SET environment_id = NULL", change] {
            sqlx::query(statement).execute(&mut database).await.unwrap();
        }
        let world = world.restart(|_| ()).await;
        if has_row {
            world.until("the row to be closed", || async { big(&world).await.is_none().then_some(()) }).await;
            assert!(!entry.exists() && !before.path.exists(), "and all that there was of it to be gone");
        }
        world.ask(issue, "/worktree create big");
        world.settle().await;
        assert!(world.answer(issue).contains("**task-big**"), "{}", world.answer(issue));
        let after = big(&world).await.unwrap();
        assert!(after.path == before.path && after.path.join("README.md").exists(), "{after:?}");
        assert_eq!(git(&after.path, &["status", "--porcelain"]), "");
        world.end().await;
    }
}

/// Also when nothing comes of the message that found it gone.
/// BR-056
#[tokio::test]
async fn a_service_with_an_empty_database_takes_away_no_worktree_of_the_one_before() {
    let world = World::new().await;
    for words in ["add a greeting", "agent:noop", "agent:commit"] {
        world.worked_issue(words).await;
    }
    let made = world.all_environments().await;
    std::fs::write(made[1].path.join("mine.txt"), "mine\n").unwrap();
    let before: Vec<_> = made.iter().map(|one| git(&one.path, &["status", "--porcelain", "--branch"])).collect();
    let world = world.in_new_home("new").await;
    for _ in 0..2 {
        world.pass().await;
        world.days_pass(60);
    }
    world.worked_issue("agent:noop").await;
    world.ask(1, "go on");
    world.settle().await;
    let status = world.status(1);
    assert!(status.contains("exists already and is not empty; it was left as it is"), "{status}");
    world.pass().await;
    for (one, before) in made.iter().zip(before) {
        assert_eq!(git(&one.path, &["status", "--porcelain", "--branch"]), before);
    }
    world.end().await;
}

#[tokio::test]
async fn a_worktree_that_vanished_is_told_when_the_run_is_refused() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    std::fs::remove_dir_all(world.environment().await.path).unwrap();
    let settings = async |text| {
        let file = [(REPO_SETTINGS_FILE, Some(text))];
        world.standin.push_commit(REPO, ANN, "main", "Settings", &file).await.unwrap();
    };
    settings("base: nope\nbranch_prefix: other/\n").await;
    world.standin.delete_branch(REPO, ANN, "issue-1").await.unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("Detected a stale worktree reference"), "{status}");
    assert!(status.contains("`nope`") && !status.contains("fresh"), "{status}");
    settings("base: main\n").await;
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && !status.contains("stale"), "{status}");
    world.end().await;
}

/// BR-202
#[tokio::test]
async fn a_worktree_that_vanished_is_told_and_made_again_with_its_commits() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let before = world.environment().await;
    let tip = world.local_tip("issue-1").await.unwrap();
    std::fs::remove_dir_all(&before.path).unwrap();
    for (command, said) in [("/status", "its directory is gone"), ("/worktree list", "(its directory is gone)")] {
        world.ask(issue, command);
        world.settle().await;
        assert!(world.answer(issue).contains(said), "{}", world.answer(issue));
    }
    world.ask(issue, "add a note");
    world.settle().await;

    let status = world.status(issue);
    assert!(status.starts_with('✅'), "{status}");
    assert!(status.contains("Detected a stale worktree reference"), "{status}");
    assert!(status.contains("uncommitted files of the missing directory are not recoverable"), "{status}");
    let after = world.environment().await;
    assert!(after.id != before.id && after.path == before.path);
    assert_eq!(git(&after.path, &["merge-base", "HEAD", &tip]), tip, "commits are intact");
    assert!(after.path.join("hello.sh").exists());
    let log = git(&world.canonical().await, &["worktree", "list", "--porcelain"]);
    assert_eq!(log.matches("branch refs/heads/issue-1").count(), 1, "{log}");
    world.end().await;
}

#[tokio::test]
async fn something_foreign_at_the_place_is_never_touched() {
    let world = World::new().await;
    let first = world.worked_issue("add a greeting").await;
    assert_eq!(first, 1);
    let place = world.environment().await.path.parent().unwrap().join("issue-3");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("theirs.txt"), "theirs\n").unwrap();
    let issue = world.issue();
    assert_eq!(issue, 3, "the first issue's pull request is #2");
    world.ask(issue, "add a greeting");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**"), "{status}");
    assert_eq!(std::fs::read_to_string(place.join("theirs.txt")).unwrap(), "theirs\n");
    assert_eq!(world.environments().await.len(), 1);
    assert_eq!(world.local_tip("issue-3").await, None, "the failed creation left no branch");

    std::fs::remove_dir_all(&place).unwrap();
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.end().await;
}

/// BR-042
#[tokio::test]
async fn something_foreign_in_a_worktrees_place_is_removed_by_nobodys_word() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let place = world.environment().await.path;
    std::fs::rename(&place, world.dir.path().join("aside")).unwrap();
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("theirs.txt"), "theirs\n").unwrap();
    let other = world.issue();
    for force in ["", " --force"] {
        world.ask(other, &format!("/worktree remove issue-{issue}{force}"));
        world.settle().await;
        let answer = world.answer(other);
        assert!(answer.contains("something that Treewarden did not make stands at its path"), "{answer}");
        assert!(answer.contains("Nothing was removed.") && !answer.contains("all the same"), "{answer}");
        assert_eq!(std::fs::read_to_string(place.join("theirs.txt")).unwrap(), "theirs\n");
        assert_eq!(world.environments().await.len(), 1);
    }
    world.end().await;
}

#[tokio::test]
async fn thirty_issues_at_once_get_what_the_limit_allows_and_no_failure() {
    // An agent that is as quick as can be: the story is about the limit.
    let world = World::with(&[("TREEWARDEN_AGENT_COMMAND", "cat")]).await;
    let issues: Vec<i64> = (0..30).map(|_| world.issue()).collect();
    for issue in &issues {
        world.ask(*issue, "add a greeting");
    }
    world.settle().await;

    let live = world.environments().await;
    assert_eq!(live.len(), 25);
    let (mut done, mut blocked) = (0, 0);
    for issue in issues {
        let status = world.status(issue);
        assert_eq!(world.answers(issue).len(), 1);
        if status.starts_with('✅') {
            done += 1;
        } else {
            assert!(status.contains("You have 25 active worktrees for **hello** (limit reached)."), "{status}");
            blocked += 1;
        }
    }
    assert_eq!((done, blocked), (25, 5));
    let worktrees = git(&world.canonical().await, &["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("branch refs/heads/issue-").count(), 25);
    world.end().await;
}

#[tokio::test]
async fn a_branch_beside_which_the_new_one_cannot_be_is_named_before_anything_runs() {
    let world = World::new().await;
    let issue = world.issue();
    let child = format!("issue-{issue}/older");
    world.standin.push_commit(REPO, ANN, &child, "Older", &[("o.txt", Some("o\n"))]).await.unwrap();
    world.ask(issue, "add a greeting");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**") && status.contains(&format!("beside `{child}`")), "{status}");
    assert!(world.environments().await.is_empty() && world.runs().await[0].process.is_none());

    world.standin.delete_branch(REPO, ANN, &child).await.unwrap();
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.end().await;
}

/// Where nothing else changed since the last fetch, the branches are not fetched again.
#[tokio::test]
async fn a_branch_that_came_beside_it_since_the_last_fetch_is_named_too() {
    let world = World::new().await;
    let refused = async |other: &str| {
        let issue = world.issue();
        let other = other.replace("<name>", &format!("issue-{issue}"));
        world.standin.push_commit(REPO, ANN, &other, "Other", &[("o.txt", Some("o\n"))]).await.unwrap();
        world.ask(issue, "add a note");
        world.settle().await;
        let status = world.status(issue);
        assert!(status.starts_with("❌ **Failed**") && status.contains(&format!("beside `{other}`")), "{status}");
        world.standin.delete_branch(REPO, ANN, &other).await.unwrap();
        world.ask(issue, "agent:noop");
        world.settle().await;
        assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    };
    world.worked_issue("add a greeting").await;
    refused("<name>/older").await;

    let prefix = [(REPO_SETTINGS_FILE, Some("branch_prefix: work/\n"))];
    world.standin.push_commit(REPO, ANN, "main", "Settings", &prefix).await.unwrap();
    world.ask(world.issue(), "agent:noop");
    world.settle().await;
    refused("work").await;
    world.end().await;
}

/// BR-090
#[tokio::test]
async fn a_home_that_was_moved_keeps_its_worktrees_and_what_is_not_committed() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let before = world.environment().await;
    std::fs::write(before.path.join("draft.txt"), "mine\n").unwrap();

    let world = world.moved_to("moved").await;
    let now = world.environment().await;
    assert_eq!((now.id, &now.branch), (before.id, &before.branch));
    assert!(now.path.starts_with(world.home()) && !before.path.exists(), "{}", now.path.display());
    assert!(git(&now.path, &["status", "--porcelain"]).contains("draft.txt"));
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("Working in isolated branch `issue-1`"), "{status}");
    assert!(world.remote_file("issue-1", "draft.txt").await.is_some(), "nothing was lost on the way");

    let world = world.moved_to("home").await;
    world.merge(world.pull_of("issue-1").number, MergeMethod::Squash).await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(world.environments().await.is_empty(), "and it goes like any other");
    world.end().await;
}

/// BR-186
#[tokio::test]
async fn a_transferred_issue_leaves_its_work_where_it_is_and_marks_it() {
    let world = World::new().await;
    world.standin.create_repository("octo/other", &[("README.md", "# other\n")]).await.unwrap();
    world.standin.set_permission("octo/other", ANN, Permission::Write).unwrap();
    let issue = world.worked_issue("add a greeting").await;
    let before = world.environment().await;
    let there = world.standin.transfer(REPO, ANN, issue, "octo/other").unwrap();
    world.settle().await;

    let now = world.environment().await;
    assert_eq!(now.metadata.transferred_to, Some(format!("octo/other#{there}")));
    let why = "its issue was transferred to another repository; the work stays here until somebody removes it";
    assert_eq!(now.metadata.kept_because, [why]);
    assert!(world.runs().await.len() == 1 && now.path == before.path, "nothing begins there by itself");
    world.days_pass(400);
    world.pass().await;
    assert!(world.environment().await.path.exists(), "however long it lies there");

    let asked = world.mention("add a note");
    world.standin.comment("octo/other", ANN, there, &asked).unwrap();
    world.settle().await;
    assert_eq!(world.all_environments().await.len(), 2, "a person asked for it there");
    world.end().await;
}
