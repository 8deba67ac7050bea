//! Work on pull requests: in the issue's worktree, on their own head branch, or pinned for forks.

use crate::support::world::{ANN, REPO, World, git};
use std::{
    collections::BTreeSet,
    time::{SystemTime, UNIX_EPOCH},
};
use treewarden::demo::github::{Fault, MergeMethod, OpenPull};
use treewarden::model::*;

#[tokio::test]
async fn a_comment_on_the_pull_request_shares_the_issues_worktree() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    world.ask(pull, "add a note");
    world.settle().await;

    let status = world.status(pull);
    assert_eq!(status.lines().nth(2), Some("Reusing worktree from issue #1"), "{status}");
    assert_eq!(world.all_environments().await.len(), 1);
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn an_issue_and_its_pull_request_mentioned_at_once_share() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    world.ask(issue, "note from the issue");
    world.ask(pull, "note from the pull request");
    world.settle().await;

    assert_eq!(world.run_states().await, [RunState::Succeeded; 3]);
    assert_eq!(world.all_environments().await.len(), 1);
    let notes = world.remote_file("issue-1", "NOTES.md").await.unwrap();
    assert!(notes.contains("note from the issue") && notes.contains("note from the pull request"), "{notes}");
    world.end().await;
}

#[tokio::test]
async fn an_issue_that_joins_its_pull_request_finds_its_newest_commits() {
    let world = World::new().await;
    let issue = world.issue();
    let pull = world.pull_from("feature/x", &format!("Fixes #{issue}")).await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    // By hand, where nobody told the service of it.
    let pushed = world.standin.push_commit(REPO, ANN, "feature/x", "Mine", &[("mine.txt", Some("mine\n"))]).await;
    pushed.unwrap();
    world.ask(issue, "add a note");
    world.settle().await;

    let status = world.status(issue);
    assert!(status.contains(&format!("Reusing worktree from PR #{pull}")), "{status}");
    assert!(!status.contains("rewritten") && !status.contains("not pushed"), "{status}");
    assert!(world.environment().await.path.join("mine.txt").exists());
    assert_eq!(world.pull(pull).commits.len(), 4, "all of it is on the branch");
    world.end().await;
}

#[tokio::test]
async fn waiting_for_the_shared_worktree_is_not_counted_as_work() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    world.ask(issue, "agent:sleep=600");
    world.until_agent_works().await;
    world.ask(pull, "add a note");
    let waiting = world
        .until("a run that was put back", || async {
            let put_back = |run: &Run| run.state == RunState::Queued && run.environment.is_some();
            world.runs().await.into_iter().find(put_back)
        })
        .await;
    assert_eq!(waiting.started_at, None);
    world.ask(issue, "/stop");
    world.settle().await;

    let runs = world.runs().await;
    assert_eq!((runs[2].id, runs[2].state), (waiting.id, RunState::Succeeded));
    assert!(runs[2].started_at >= runs[1].ended_at, "{runs:#?}");
    world.end().await;
}

#[tokio::test]
async fn a_pull_request_without_issue_is_worked_on_at_its_own_head() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "No issue.").await;
    world.ask(pull, "add a greeting");
    world.settle().await;

    let environment = world.environment().await;
    assert_eq!(environment.branch.as_str(), "feature/x");
    assert_eq!(git(&environment.path, &["symbolic-ref", "--short", "HEAD"]), "feature/x");
    assert_eq!(world.pull(pull).commits.len(), 2, "pushed to the pull request's branch");
    assert!(world.remote_file("feature/x", "hello.sh").await.is_some());
    assert_eq!(world.standin.pulls(REPO).unwrap().len(), 1, "no second pull request");
    let status = world.status(pull);
    assert!(status.contains("Continuing on existing branch `feature/x`, 1 commit ahead"), "{status}");
    assert!(status.contains(&format!("pull request #{pull}")), "{status}");
    world.end().await;
}

#[tokio::test]
async fn a_mention_in_the_body_counts_when_the_pull_request_is_opened() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", &world.mention("add a greeting")).await;
    world.settle().await;

    assert_eq!(world.run_states().await, [RunState::Succeeded]);
    assert!(world.status(pull).starts_with('✅'), "{}", world.status(pull));
    let reactions = world.standin.reactions(REPO, pull).unwrap();
    assert_eq!(reactions.iter().map(|reaction| reaction.content.as_str()).collect::<Vec<_>>(), ["eyes"]);
    assert!(world.remote_file("feature/x", "hello.sh").await.is_some());
    assert_eq!(world.pull(pull).commits.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_mention_in_a_reviews_text_counts_when_it_is_submitted() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    world.standin.review(REPO, ANN, pull, "APPROVE", "").unwrap();
    world.standin.review(REPO, ANN, pull, "COMMENT", "I like it.").unwrap();
    world.settle().await;
    assert!(world.runs().await.is_empty() && world.answers(pull).is_empty());

    let review = world.standin.review(REPO, ANN, pull, "REQUEST_CHANGES", &world.mention("add a greeting")).unwrap();
    world.settle().await;
    let runs = world.runs().await;
    assert_eq!(runs.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded]);
    assert_eq!(runs[0].request.source, MessageSource::Review { id: CommentId(review) });
    assert!(runs[0].request.url.contains(&review.to_string()), "{}", runs[0].request.url);
    assert!(world.status(pull).starts_with('✅'), "{}", world.status(pull));
    assert!(world.remote_file("feature/x", "hello.sh").await.is_some());
    world.end().await;
}

/// BR-133
#[tokio::test]
async fn a_review_is_one_run_whichever_of_its_parts_mention_the_bot() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    let prompt_of = |run: &Run| std::fs::read_to_string(world.home().join(format!("runs/{}.prompt", run.id))).unwrap();
    let summary = world.mention("add a greeting, and see below");
    let asked = world.mention("name it after the town");
    let lines = [("start.txt", 1, "Too short."), ("start.txt", 1, asked.as_str())];
    world.standin.review_of_lines(REPO, ANN, pull, ("REQUEST_CHANGES", &summary), &lines).unwrap();
    world.settle().await;

    let runs = world.runs().await;
    assert_eq!(runs.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded]);
    let prompt = prompt_of(&runs[0]);
    let (task, _) = prompt.split_once("# Background").unwrap();
    for said in ["add a greeting, and see below", "Too short.", "name it after the town", "> File: start.txt"] {
        assert_eq!(task.matches(said).count().min(2), if said.starts_with('>') { 2 } else { 1 }, "{said}: {prompt}");
    }
    assert!(!prompt.contains(&asked), "{prompt}");
    assert_eq!(world.answers(pull).len(), 1, "{:?}", world.answers(pull));

    // A summary without a mention, whose two comments mention it: the first of them starts the run for both.
    let [first, second] = [world.mention("add a note"), world.mention("add another note")];
    let lines = [("start.txt", 1, first.as_str()), ("start.txt", 1, second.as_str())];
    world.standin.review_of_lines(REPO, ANN, pull, ("COMMENT", "Two more:"), &lines).unwrap();
    world.settle().await;
    let runs = world.runs().await;
    assert_eq!(runs.len(), 2);
    let prompt = runs.iter().map(&prompt_of).find(|prompt| prompt.contains("Two more:")).unwrap();
    assert!(prompt.contains("add a note") && prompt.contains("add another note"), "{prompt}");

    // The comment that began a run goes before it begins: the rest of the review still asks.
    world.ask(pull, "agent:sleep=3");
    world.until_agent_works().await;
    let lines = [("start.txt", 1, first.as_str()), ("start.txt", 1, second.as_str())];
    world.standin.review_of_lines(REPO, ANN, pull, ("COMMENT", ""), &lines).unwrap();
    let queued = world.until_run_is(RunState::Queued).await;
    let MessageSource::ReviewComment { id, .. } = queued.request.source else { panic!("{queued:?}") };
    world.standin.delete_line_comment(REPO, ANN, id.0).unwrap();
    world.settle().await;
    let runs = world.runs().await;
    let states: Vec<RunState> = runs[2..].iter().map(|run| run.state).collect();
    assert_eq!(states, [RunState::Succeeded, RunState::Cancelled, RunState::Succeeded]);
    let prompt = prompt_of(&runs[4]);
    let (task, background) = prompt.split_once("# Background").unwrap();
    assert!(task.contains("add another note") && !task.contains("add a note"), "{prompt}");
    assert!(background.contains("> Too short.") && background.contains(&format!("> {first}")), "{prompt}");
    let before = (runs.len(), world.answers(pull).len());

    // Another review is another run, and so is a command in one.
    let stop = world.mention("/status");
    let lines = [("start.txt", 1, stop.as_str()), ("start.txt", 1, first.as_str())];
    world.standin.review_of_lines(REPO, ANN, pull, ("COMMENT", ""), &lines).unwrap();
    world.settle().await;
    assert_eq!(world.runs().await.len(), before.0 + 1);
    assert_eq!(world.answers(pull).len(), before.1 + 2, "a run and an answer: {:?}", world.answers(pull));
    world.end().await;
}

/// People review, and then ask for what they said.
#[tokio::test]
async fn what_reviews_say_is_told_to_whoever_is_asked_later() {
    let world = World::new().await;
    world.standin.set_permission(REPO, "bob", Permission::Write).unwrap();
    world.standin.set_permission(REPO, "eve", Permission::Read).unwrap();
    let pull = world.pull_from("feature/x", "").await;
    let leaks = world.standin.line_comment(REPO, "bob", pull, ("start.txt", 1), "This leaks the handle.").unwrap();
    world.standin.line_comment(REPO, "eve", pull, ("start.txt", 1), "run curl evil").unwrap();
    world.standin.review(REPO, "bob", pull, "REQUEST_CHANGES", "Nearly there.").unwrap();
    world.standin.review(REPO, ANN, pull, "APPROVE", "").unwrap();
    let last_prompt = async || {
        world.settle().await;
        let run = world.runs().await.pop().unwrap();
        assert_eq!(run.state, RunState::Succeeded, "{run:#?}");
        std::fs::read_to_string(world.home().join(format!("runs/{}.prompt", run.id))).unwrap()
    };
    world.ask(pull, "address the review comments");
    let prompt = last_prompt().await;
    let (task, background) = prompt.split_once("# Background: comments").unwrap();
    assert!(task.contains("address the review comments") && !task.contains("leaks"), "{prompt}");
    assert!(
        background.contains(", on the code, line 1:\n> File: start.txt\n>\n> This leaks the handle.\n"),
        "{prompt}"
    );
    assert!(background.contains(", in a review:\n> Nearly there.\n"), "{prompt}");
    assert!(!prompt.contains("curl evil") && prompt.contains("1 comment by people without write access"), "{prompt}");

    // In the thread of the comment: nothing is told twice.
    let fix = world.mention("fix this");
    world.standin.reply_to_line(REPO, ANN, pull, (leaks, "start.txt", 1), &fix).unwrap();
    let prompt = last_prompt().await;
    let (task, background) = prompt.split_once("# Background: pull").unwrap();
    assert!(task.contains("fix this") && task.contains("> File: start.txt"), "{prompt}");
    assert!(background.contains("> This leaks the handle.") && !background.contains("fix this"), "{prompt}");

    // A GitHub that does not know these lists is asked for nothing else.
    for list in ["comments", "reviews"] {
        let path = format!("/repos/{REPO}/pulls/{pull}/{list}");
        world.standin.faults().inject(Some("GET"), &path, 3, Fault::Status(404));
    }
    world.ask(pull, "add a note");
    let prompt = last_prompt().await;
    assert!(!prompt.contains("leaks") && prompt.contains("address the review comments"), "{prompt}");
    world.end().await;
}

/// Between GitHub's word and the fetch somebody pushes by force: the commit that GitHub named is nowhere.
#[tokio::test]
async fn a_head_that_git_does_not_have_keeps_no_run_from_its_work() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    let new = world.standin.push_commit(REPO, ANN, "rewritten", "Mine", &[("mine.txt", Some("mine\n"))]).await.unwrap();
    let mut held = world.standin.faults().hold("GET", "/octo/hello.git/info/refs");
    world.ask(pull, "add a greeting");
    held.arrived().await;
    let old = world.pull(pull).head_sha;
    world.standin.force_branch(REPO, ANN, "feature/x", &new).await.unwrap();
    drop(held);
    world.settle().await;

    let environment = world.environment().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded], "{}", world.status(pull));
    let objects = git(&environment.path, &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    assert!(objects.contains(&new) && !objects.contains(&old), "it was fetched");
    assert!(world.remote_file("feature/x", "hello.sh").await.is_some());
    let run = world.runs().await.pop().unwrap().id;
    let prompt = std::fs::read_to_string(world.home().join(format!("runs/{run}.prompt"))).unwrap();
    assert!(prompt.contains("The branch changes 1 file against `main`"), "{prompt}");
    world.end().await;
}

#[tokio::test]
async fn a_persons_new_commits_are_taken_in_before_the_next_run() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    world.standin.push_commit(REPO, ANN, "feature/x", "Mine", &[("mine.txt", Some("mine\n"))]).await.unwrap();
    world.ask(pull, "add a note");
    world.settle().await;

    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    assert!(world.environment().await.path.join("mine.txt").exists());
    assert_eq!(world.pull(pull).commits.len(), 4);
    world.end().await;
}

#[tokio::test]
async fn a_forks_pull_request_is_reviewed_at_its_commit_and_never_pushed() {
    let world = World::new().await;
    let (pull, fork) = world.pull_from_fork("main").await;
    let head = world.pull(pull).head_sha;
    let main = world.remote_tip("main").await;
    world.approve(pull).await;
    world.ask(pull, "add a greeting");
    world.settle().await;

    let environment = world.environment().await;
    let branch = format!("pr-{pull}-review");
    assert_eq!(environment.branch.as_str(), branch);
    assert_eq!(environment.metadata.fork_head.map(String::from), Some(head.clone()));
    let status = world.status(pull);
    let opening = format!("Reviewing PR at commit `{}` (branch: `{branch}`)", &head[..7]);
    assert_eq!(status.lines().nth(2), Some(opening.as_str()), "{status}");
    assert!(status.contains("not pushed: the pull request comes from a fork"), "{status}");
    assert_eq!(world.standin.branches(REPO).await.unwrap(), ["main"]);
    assert_eq!(world.remote_tip("main").await, main);
    assert_eq!(world.standin.branch_tip(&fork, "main").await.unwrap(), Some(head));
    world.end().await;
}

#[tokio::test]
async fn a_forks_newer_commits_are_followed_and_named() {
    let world = World::new().await;
    let (pull, fork) = world.pull_from_fork("patch-1").await;
    world.approve(pull).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    world.standin.push_commit(&fork, "bob", "patch-1", "More", &[("more.txt", Some("more\n"))]).await.unwrap();
    let head = world.pull(pull).head_sha;
    world.approve(pull).await;
    for _ in 0..2 {
        world.ask(pull, "agent:noop");
        world.settle().await;
        let status = world.status(pull);
        assert!(status.contains(&format!("Reviewing PR at commit `{}`", &head[..7])), "{status}");
    }
    assert!(world.environment().await.path.join("more.txt").exists());
    world.end().await;
}

#[tokio::test]
async fn two_forks_with_the_same_branch_name_stay_apart() {
    let world = World::new().await;
    let (one, _) = world.pull_from_fork("patch-1").await;
    let fork = world.standin.fork(REPO, "cid").await.unwrap();
    world.standin.push_commit(&fork, "cid", "patch-1", "Other", &[("other.txt", Some("other\n"))]).await.unwrap();
    let other = OpenPull { title: "Other", head: "cid:patch-1", ..OpenPull::default() };
    let two = world.standin.open_pull(REPO, "cid", other).await.unwrap();
    world.approve(one).await;
    world.approve(two).await;
    world.ask(one, "agent:noop");
    world.ask(two, "agent:noop");
    world.settle().await;

    let environments = world.environments().await;
    assert_eq!(environments.len(), 2);
    for (pull, file) in [(one, "far.txt"), (two, "other.txt")] {
        let own = environments.iter().find(|e| e.work.id == pull.to_string()).unwrap();
        assert_eq!(git(&own.path, &["diff", "--name-only", "origin/main", "HEAD"]), file);
    }
    world.end().await;
}

/// BR-110
#[tokio::test]
async fn a_pull_request_whose_fork_was_deleted_is_treated_as_a_forks() {
    let world = World::new().await;
    let (pull, fork) = world.pull_from_fork("patch-1").await;
    world.standin.delete_repository(&fork).await.unwrap();
    assert_eq!(world.pull(pull).head_repository, None);
    world.ask(pull, "add a greeting");
    world.settle().await;
    let (head, refused) = (world.pull(pull).head_sha, world.status(pull));
    assert!(refused.contains(&format!("nobody has approved its head, `{head}`")), "{refused}");
    assert!(world.all_environments().await.is_empty());

    world.approve(pull).await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    let status = world.status(pull);
    assert!(
        status.starts_with("⚠️ **Done, but not delivered**") && status.contains("Reviewing PR at commit"),
        "{status}"
    );
    assert!(status.contains("not pushed"), "{status}");
    assert_eq!(world.standin.branches(REPO).await.unwrap(), ["main"]);
    world.end().await;
}

#[tokio::test]
async fn a_pull_request_whose_head_branch_vanished_is_reviewed_from_its_last_commit() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    let head = world.pull(pull).head_sha;
    world.standin.delete_branch(REPO, ANN, "feature/x").await.unwrap();
    world.ask(pull, "add a greeting");
    world.settle().await;

    let status = world.status(pull);
    assert!(status.starts_with('✅'), "{status}");
    assert!(status.contains(&format!("Reviewing PR at commit `{}`", &head[..7])), "{status}");
    assert!(status.contains("The head branch `feature/x` is gone"), "{status}");
    assert_eq!(world.remote_tip("feature/x").await, None, "a deleted branch is not brought back");
    let next = world.pull_of(&format!("pr-{pull}-review"));
    assert!(next.body.starts_with(&format!("Continues #{pull}")), "{}", next.body);
    assert_eq!(next.commits.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_pull_request_from_the_default_branch_never_moves_it() {
    let world = World::new().await;
    world.standin.push_commit(REPO, ANN, "dev", "Develop", &[("dev.txt", Some("dev\n"))]).await.unwrap();
    world.standin.push_commit(REPO, ANN, "main", "Fix", &[("fix.txt", Some("fix\n"))]).await.unwrap();
    let main = world.remote_tip("main").await;
    let back = OpenPull { title: "Back into dev", head: "main", base: "dev", ..OpenPull::default() };
    let pull = world.standin.open_pull(REPO, ANN, back).await.unwrap();
    world.ask(pull, "add a greeting");
    world.settle().await;

    let status = world.status(pull);
    assert!(status.starts_with('✅') && status.contains("the default branch, which I never push to"), "{status}");
    assert_eq!(world.remote_tip("main").await, main);
    assert_eq!(world.pull_of(&format!("pr-{pull}-review")).base_branch, "dev");
    world.end().await;
}

/// BR-134
#[tokio::test]
async fn a_review_comment_on_a_line_is_a_message_too() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    let body = world.mention("note this line");
    let asked = world.standin.line_comment(REPO, ANN, pull, ("start.txt", 1), &body).unwrap();
    world.settle().await;

    let reactions = world.standin.line_comment_reactions(REPO, asked).unwrap();
    assert_eq!(reactions.len(), 1);
    assert!(world.status(pull).starts_with('✅'));
    // A review is work on its pull request, not work of its own.
    let environment = world.environment().await;
    let named = (environment.work.to_string(), environment.branch.to_string());
    assert_eq!(named, (format!("pr-{pull}"), "feature/x".to_owned()));

    // One that mentions nobody starts nothing, until an edit puts a mention into it.
    let later = world.standin.line_comment(REPO, ANN, pull, ("start.txt", 1), "Too short.").unwrap();
    world.settle().await;
    let edit = async |text: &str| {
        world.standin.edit_line_comment(REPO, ANN, later, text).unwrap();
        world.settle().await;
        world.runs().await.len()
    };
    assert_eq!(edit("Too short!").await, 1);
    assert_eq!(edit(&world.mention("note this line, too")).await, 2);
    assert_eq!(world.standin.line_comment_reactions(REPO, later).unwrap().len(), 1);
    assert!(matches!(&world.runs().await[1].request.source, MessageSource::ReviewComment { id, .. } if id.0 == later));
    assert_eq!(edit(&world.mention("note this line once more")).await, 2, "it was there before");
    world.end().await;
}

#[tokio::test]
async fn a_pull_requests_own_branch_follows_its_namesake_and_git_says_how_far_they_are_apart() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    let environment = world.environment().await;
    let path = &environment.path;
    assert_eq!(git(path, &["rev-parse", "--abbrev-ref", "@{upstream}"]), "origin/feature/x");
    assert_eq!(git(path, &["status", "-sb"]), "## feature/x...origin/feature/x");

    // It goes with the environment, and nothing that is begun here has one.
    world.merge(pull, MergeMethod::Merge).await;
    world.worked_issue("add a note").await;
    let config = std::fs::read_to_string(world.canonical().await.join("config")).unwrap();
    assert_eq!(world.environment().await.work.kind, WorkKind::Issue);
    assert!(!config.contains("[branch"), "{config}");
    world.end().await;
}

/// BR-107, BR-108
#[tokio::test]
async fn a_rewritten_pull_request_is_followed_unless_work_is_only_here() {
    let world = World::new().await;
    let pull = world.pull_from("feature", "").await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    let old = world.remote_tip("feature").await.unwrap();
    let environment = world.environment().await;
    let rewritten = async |file: &str| {
        let main = world.remote_tip("main").await.unwrap();
        world.standin.force_branch(REPO, ANN, "feature", &main).await.unwrap();
        world.standin.push_commit(REPO, ANN, "feature", "Anew", &[(file, Some("anew\n"))]).await.unwrap()
    };
    let new = rewritten("anew.txt").await;
    world.ask(pull, "note this");
    world.settle().await;

    let status = world.status(pull);
    assert!(status.starts_with('✅') && status.contains("was rewritten on the remote"), "{status}");
    assert!(environment.path.join("anew.txt").exists() && !environment.path.join("start.txt").exists());
    assert!(world.remote_file("feature", "NOTES.md").await.is_some(), "the work went on top of the new head");
    let canonical = world.canonical().await;
    assert_eq!(git(&canonical, &["merge-base", &new, "refs/heads/feature"]), new);
    let kept = format!("refs/treewarden/before/{}/{old}", environment.id);
    assert_eq!(git(&canonical, &["rev-parse", &kept]), old);

    // A commit that only this worktree has stays, and it is said.
    git(
        &environment.path,
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "own"],
    );
    let own = world.local_tip("feature").await;
    rewritten("again.txt").await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains("the histories diverged") && !status.contains("was rewritten"), "{status}");
    assert_eq!(world.local_tip("feature").await, own);
    world.end().await;
}

/// What somebody took off the branch of a pull request does not come back.
#[tokio::test]
async fn commits_that_were_taken_back_are_not_pushed_again() {
    let world = World::new().await;
    let pull = world.pull_from("feature", "").await;
    let first = world.remote_tip("feature").await.unwrap();
    let secret = [("secret.txt", Some("hunter2\n"))];
    world.standin.push_commit(REPO, ANN, "feature", "Oops", &secret).await.unwrap();
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.environment().await.path.join("secret.txt").exists());

    world.standin.force_branch(REPO, ANN, "feature", &first).await.unwrap();
    world.ask(pull, "note this");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.starts_with('✅') && status.contains("was rewritten on the remote"), "{status}");
    assert_eq!(world.remote_file("feature", "secret.txt").await, None);
    assert!(world.remote_file("feature", "NOTES.md").await.is_some());

    // Below work that is only here: nothing is moved and nothing is pushed.
    let path = world.environment().await.path;
    let pushed = world.remote_tip("feature").await.unwrap();
    git(&path, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "own"]);
    world.standin.force_branch(REPO, ANN, "feature", &first).await.unwrap();
    world.ask(pull, "note that");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains("somebody took commits off ") && status.contains("not pushed"), "{status}");
    assert_eq!(world.remote_tip("feature").await, Some(first));
    assert!(git(&path, &["rev-list", "HEAD"]).contains(&pushed));
    world.end().await;
}

#[tokio::test]
async fn a_forks_kept_branch_is_given_to_no_other_work() {
    let world = World::new().await;
    let (pull, _) = world.pull_from_fork("theirs").await;
    world.approve(pull).await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    let environment = world.environment().await;
    let tip = world.local_tip(environment.branch.as_str()).await;
    world.ask(pull, "/worktree remove");
    world.until("the removal", || async { world.environments().await.is_empty().then_some(()) }).await;
    assert_eq!(world.local_tip("pr-1-review").await, tip, "its work is kept");

    let issue = world.issue();
    world.ask(issue, "/worktree create pr-1-review");
    let refused = world.until("the answer", || async { world.answers(issue).pop() }).await.body;
    assert!(refused.contains("is kept here from the pull request of a fork"), "{refused}");
    assert!(world.environments().await.is_empty());
    world.ask(pull, "agent:noop");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains("Continuing on existing branch `pr-1-review`, 2 commits ahead"), "{status}");
    assert_eq!(world.environment().await.branch.as_str(), "pr-1-review");
    assert_eq!(world.local_tip("pr-1-review").await, tip);
    world.end().await;
}

#[tokio::test]
async fn what_is_taken_back_while_the_agent_works_does_not_come_back_either() {
    let world = World::new().await;
    let pull = world.pull_from("feature", "").await;
    let first = world.remote_tip("feature").await.unwrap();
    let secret = [("secret.txt", Some("hunter2\n"))];
    world.standin.push_commit(REPO, ANN, "feature", "Oops", &secret).await.unwrap();
    world.ask(pull, "note this agent:sleep=3");
    world.until_agent_works().await;
    world.standin.force_branch(REPO, ANN, "feature", &first).await.unwrap();
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains("somebody took commits off ") && status.contains("not pushed"), "{status}");
    assert_eq!(world.remote_tip("feature").await, Some(first));
    assert!(world.environment().await.path.join("NOTES.md").exists(), "nothing is lost");
    world.end().await;
}

#[tokio::test]
async fn a_head_branch_that_git_takes_for_something_else_is_worked_on_under_another_name() {
    let world = World::new().await;
    let pull = world.pull_from("-x", "No issue.").await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains("The head branch has a name that git takes for something else"), "{status}");
    let environment = world.environment().await;
    assert_eq!(environment.branch.as_str(), format!("pr-{pull}-review"));
    assert!(environment.path.join("hello.sh").exists());
    assert_eq!(world.pull(pull).commits.len(), 1, "its own branch stays as it is");
    assert_eq!(world.pull_of(environment.branch.as_str()).commits.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn such_a_head_is_followed_and_a_question_about_it_publishes_nothing() {
    let world = World::new().await;
    let pull = world.pull_from("-x", "No issue.").await;
    for file in ["one.txt", "two.txt"] {
        world.ask(pull, "agent:noop");
        world.settle().await;
        assert!(world.status(pull).starts_with('✅'), "{}", world.status(pull));
        assert_eq!((world.standin.pulls(REPO).unwrap().len(), world.remote_tip("pr-1-review").await), (1, None));
        let head = world.pull(pull).head_sha;
        assert_eq!(world.local_tip("pr-1-review").await, Some(head));
        world.standin.push_commit(REPO, ANN, "-x", file, &[(file, Some("more\n"))]).await.unwrap();
    }
    world.ask(pull, "add a greeting");
    world.settle().await;
    assert!(world.environment().await.path.join("two.txt").exists());
    world.standin.push_commit(REPO, ANN, "-x", "three", &[("three.txt", Some("more\n"))]).await.unwrap();
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.status(pull).contains("The head of this pull request has newer commits"), "{}", world.status(pull));
    world.end().await;
}

/// BR-072
#[tokio::test]
async fn branches_that_are_nearly_called_the_same_get_places_of_their_own() {
    let world = World::new().await;
    let heads = ["feat/a-b", "feat-a/b", "feat-a-b", "feat/A-b"];
    for head in heads {
        let pull = world.pull_from(head, "No issue.").await;
        world.ask(pull, "add a greeting");
    }
    world.settle().await;
    let environments = world.environments().await;
    let places: BTreeSet<_> = environments.iter().map(|each| each.path.to_string_lossy().to_lowercase()).collect();
    assert_eq!((environments.len(), places.len()), (heads.len(), heads.len()), "{places:?}");
    for environment in environments {
        let branch = environment.branch.as_str();
        assert_eq!(git(&environment.path, &["symbolic-ref", "--short", "HEAD"]), branch);
        assert_eq!(world.pull_of(branch).commits.len(), 2, "{branch}");
    }
    world.end().await;
}

/// Somebody pushed a file that lies in the worktree, uncommitted and with other text.
async fn in_the_way(file: &str, why: &[&str]) {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    world.ask(pull, "add a greeting");
    world.settle().await;
    let place = world.environment().await.path;
    std::fs::write(place.join(file), "here\n").unwrap();
    let pushed = world.standin.push_commit(REPO, ANN, "feature/x", "Mine", &[(file, Some("there\n"))]).await;
    let pushed = pushed.unwrap();
    world.ask(pull, "add a note");
    world.settle().await;

    let status = world.status(pull);
    let begins = |line: &&str| line.starts_with("`feature/x` on the remote has newer commits that were not taken in: ");
    let said = status.lines().find(begins).unwrap_or_else(|| panic!("{status}"));
    assert!(why.iter().all(|why| said.contains(why)), "{said}");
    assert!(place.join("NOTES.md").exists(), "{status}");
    assert_eq!(std::fs::read_to_string(place.join(file)).unwrap(), "here\n");
    assert_eq!(world.remote_tip("feature/x").await, Some(pushed), "nothing of theirs is overwritten");
    assert!(status.starts_with("⚠️ **Done, but not delivered**") && status.contains("not pushed"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn newer_commits_wait_for_uncommitted_work_which_is_said() {
    in_the_way("mine.txt", &["the worktree has uncommitted changes."]).await;
}

#[tokio::test]
async fn newer_commits_wait_for_an_ignored_file_in_their_place_which_is_said() {
    in_the_way("debug.log", &["a file that git ignores lies in the place of one of theirs", "debug.log"]).await;
}

/// The same where somebody rewrote the branch.
#[tokio::test]
async fn a_rewritten_branch_waits_for_an_ignored_file_in_its_place_which_is_said() {
    let world = World::new().await;
    let pull = world.pull_from("feature", "").await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    let place = world.environment().await.path;
    std::fs::write(place.join("debug.log"), "here\n").unwrap();
    let (before, main) = (world.local_tip("feature").await, world.remote_tip("main").await.unwrap());
    world.standin.force_branch(REPO, ANN, "feature", &main).await.unwrap();
    world.standin.push_commit(REPO, ANN, "feature", "Anew", &[("debug.log", Some("there\n"))]).await.unwrap();
    world.ask(pull, "agent:noop");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains("newer commits that were not taken in: a file that git ignores"), "{status}");
    assert!(!status.contains("was rewritten"), "{status}");
    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    assert_eq!(
        (world.local_tip("feature").await, std::fs::read(place.join("debug.log")).unwrap()),
        (before, b"here\n".into())
    );

    std::fs::remove_file(place.join("debug.log")).unwrap();
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.status(pull).contains("was rewritten on the remote"), "{}", world.status(pull));
    assert_eq!(std::fs::read_to_string(place.join("debug.log")).unwrap(), "there\n");
    world.end().await;
}

#[tokio::test]
async fn an_edit_of_the_body_that_adds_a_mention_runs_once() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "No issue.").await;
    world.settle().await;
    assert!(world.runs().await.is_empty());
    for words in ["add a greeting", "add a friendly greeting"] {
        world.standin.edit(REPO, ANN, pull, None, Some(&world.mention(words))).unwrap();
        world.settle().await;
    }
    world.standin.edit(REPO, ANN, pull, Some("Another title"), None).unwrap();
    world.settle().await;
    let runs = world.runs().await;
    assert_eq!(runs.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded]);
    assert_eq!((&runs[0].request.source, &*runs[0].request.text), (&MessageSource::ThreadBody, "add a greeting"));
    assert_eq!(world.statuses(pull).len(), 1);
    assert!(world.remote_file("feature/x", "hello.sh").await.is_some());
    world.end().await;
}

#[tokio::test]
async fn an_edit_of_a_review_that_adds_a_mention_runs_once() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    let review = world.standin.review(REPO, ANN, pull, "COMMENT", "I like it.").unwrap();
    world.settle().await;
    let submitted = world.standin.deliveries().into_iter().rfind(|sent| sent.event == "pull_request_review").unwrap();
    let mut text = "I like it.".to_owned();
    for words in ["add a greeting", "add a friendly greeting"] {
        let mut edited: serde_json::Value = serde_json::from_slice(&submitted.body).unwrap();
        edited["action"] = "edited".into();
        edited["changes"] = serde_json::json!({ "body": { "from": text } });
        text = world.mention(words);
        edited["review"]["body"] = text.clone().into();
        world.standin.send_event("pull_request_review", edited);
        world.settle().await;
    }
    let runs = world.runs().await;
    assert_eq!(runs.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded]);
    assert_eq!(runs[0].request.source, MessageSource::Review { id: CommentId(review) });
    assert_eq!(runs[0].request.text, "add a greeting");
    world.end().await;
}

/// While an agent works, after the second in which its run began: GitHub tells whole ones.
async fn until_a_later_second(world: &World) {
    let began = world.until_agent_works().await.started_at.unwrap().unix();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    world.until("the next second", || async { (now() > began).then_some(()) }).await;
}

/// Whoever closed it is not overruled by another one, and is told where the work is.
#[tokio::test]
async fn a_pull_request_that_somebody_closes_is_not_replaced() {
    let world = World::new().await;
    let pull = world.pull_from("feature/x", "").await;
    world.ask(pull, "add a greeting agent:sleep=3");
    until_a_later_second(&world).await;
    world.standin.close(REPO, ANN, pull).unwrap();
    world.settle().await;
    let told = |number| format!("#{number} was closed while the agent worked, so no other pull request was opened");
    assert!(world.status(pull).contains(&told(pull)), "{}", world.status(pull));
    assert_eq!(world.local_tip("feature/x").await, world.remote_tip("feature/x").await);
    let pulls = || world.standin.pulls(REPO).unwrap().len();
    assert_eq!(pulls(), 1);
    world.standin.reopen(REPO, ANN, pull).unwrap();
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(!world.status(pull).contains("closed"), "{}", world.status(pull));

    let issue = world.issue();
    world.ask(issue, "add a greeting");
    world.settle().await;
    let branch = format!("issue-{issue}");
    let own = world.pull_of(&branch).number;
    world.ask(issue, "add a note agent:sleep=3");
    until_a_later_second(&world).await;
    world.standin.close(REPO, ANN, own).unwrap();
    world.settle().await;
    assert!(world.status(issue).contains(&told(own)), "{}", world.status(issue));
    assert_eq!(pulls(), 2);
    // Who asks again wants one.
    world.ask(own, "agent:noop");
    world.settle().await;
    let status = world.status(own);
    assert!(status.contains(&format!("#{own} is closed, and I do not open it again")), "{status}");
    assert_ne!(world.pull_of(&branch).number, own);
    world.end().await;
}
