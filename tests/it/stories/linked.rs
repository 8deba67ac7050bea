//! An issue and a pull request of somebody's own that closes it: the issue's worktree makes way when it holds nothing, and
//! both rows know of each other when it does not.

use super::commands::answered;
use crate::support::world::{ANN, REPO, World, git};
use treewarden::{
    demo::github::{Fault, OpenPull},
    model::*,
};

/// Ann's pull request for the issue, on a branch of her own, in which she asks for something.
async fn asked_pull(world: &World, issue: i64, words: &str) -> i64 {
    let pull = world.pull_from("feature/x", &format!("Closes #{issue}")).await;
    world.ask(pull, words);
    world.settle().await;
    pull
}

/// The issue's worktree was left alone, and each row names the other's work.
async fn stayed_apart(world: &World, issue: i64, pull: i64) {
    let live = world.environments().await;
    let (issue, pull) = (work(WorkKind::Issue, issue), work(WorkKind::PullRequest, pull));
    let links: Vec<_> = live.iter().map(|live| (live.work.clone(), live.metadata.links.clone())).collect();
    assert_eq!(links, [(issue.clone(), vec![pull.clone()]), (pull.clone(), vec![issue.clone()])]);
    assert_eq!((live[0].branch.to_string(), live[1].branch.as_str()), (issue.to_string(), "feature/x"));
    let status = world.status(pull.id.parse().unwrap());
    assert!(
        status.contains(&format!("Not sharing the worktree of {issue}")) && !status.contains("made way"),
        "{status}"
    );
}

fn work(kind: WorkKind, number: i64) -> Work {
    Work { kind, id: number.to_string() }
}

fn commit(path: &std::path::Path, words: &str) {
    git(path, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", words]);
}

#[tokio::test]
async fn an_issues_worktree_that_holds_nothing_makes_way_for_the_pull_requests() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let before = world.environment().await;
    let pull = asked_pull(&world, issue, "add a greeting").await;

    let environment = world.environment().await;
    assert_eq!((environment.branch.as_str(), &environment.work), ("feature/x", &work(WorkKind::PullRequest, pull)));
    assert_eq!(environment.metadata.links, [work(WorkKind::Issue, issue)]);
    assert_eq!(environment.start.map(String::from), Some(world.pull(pull).commits[0].clone()));
    assert!(environment.path.ends_with("feature-x") || environment.path.display().to_string().contains("feature-x-"));
    assert!(environment.path.join("start.txt").exists() && !before.path.exists());
    assert_eq!(world.local_tip("issue-1").await, None, "the empty branch went with it");
    assert_eq!(world.pull(pull).commits.len(), 2, "pushed to the pull request's branch");
    let status = world.status(pull);
    let told = "The worktree of issue #1 held nothing of its own, so both threads work on `feature/x` from here on.";
    assert!(status.starts_with('✅') && status.contains(told) && !status.contains("Not sharing"), "{status}");
    let said = world.answer(issue);
    assert!(
        said.starts_with("The worktree of this thread held nothing of its own, so it made way for that of PR #2"),
        "{said}"
    );
    let receipt = world.store().receipt_of(before.id).await.unwrap().unwrap();
    assert_eq!(receipt.trigger, Trigger::MadeWay);

    // The issue goes on there.
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!((world.environments().await.len(), world.pull(pull).commits.len()), (1, 3));
    // Its own words are told once.
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(!world.status(pull).contains("held nothing"), "{}", world.status(pull));
    world.end().await;
}

#[tokio::test]
async fn an_issue_joins_its_pull_requests_worktree() {
    let world = World::new().await;
    let issue = world.issue();
    let pull = asked_pull(&world, issue, "agent:noop").await;
    world.ask(issue, "add a note");
    world.settle().await;

    let status = world.status(issue);
    assert!(status.contains(&format!("Reusing worktree from PR #{pull}")), "{status}");
    assert_eq!(world.environment().await.branch.as_str(), "feature/x");
    assert_eq!(world.pull(pull).commits.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_worktree_with_anything_in_it_makes_no_way() {
    for file in ["untracked.txt", "README.md"] {
        let world = World::new().await;
        let issue = world.worked_issue("agent:noop").await;
        let place = world.environment().await.path.join(file);
        std::fs::write(&place, "precious\n").unwrap();
        let pull = asked_pull(&world, issue, "add a greeting").await;
        stayed_apart(&world, issue, pull).await;
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "precious\n");
        world.end().await;
    }
}

#[tokio::test]
async fn files_that_git_ignores_are_kept_of_a_worktree_that_makes_way() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let place = world.environment().await.path.join("debug.log");
    std::fs::write(&place, "precious\n").unwrap();
    asked_pull(&world, issue, "add a greeting").await;
    assert!(!place.exists());
    let told = world.answers(issue).into_iter().any(|answer| {
        answer.body.contains("made way for that of PR") && answer.body.contains("A file that git ignores is kept until")
    });
    assert!(told, "{:?}", world.answers(issue));
    world.end().await;
}

#[tokio::test]
async fn a_branch_with_commits_of_its_own_makes_no_way() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    commit(&world.environment().await.path, "Mine");
    let tip = world.local_tip("issue-1").await;
    let pull = asked_pull(&world, issue, "add a greeting").await;
    stayed_apart(&world, issue, pull).await;
    assert_eq!(world.local_tip("issue-1").await, tip);
    // Nothing is recorded twice.
    let world = world.restart(|_| {}).await;
    world.ask(pull, "agent:noop");
    world.ask(issue, "agent:noop");
    world.settle().await;
    let links: Vec<_> = world.environments().await.into_iter().map(|live| live.metadata.links).collect();
    assert_eq!(links, [[work(WorkKind::PullRequest, pull)], [work(WorkKind::Issue, issue)]]);
    let page = world.page(&format!("/environments/{}", world.environments().await[0].id)).await;
    assert!(page.contains("belongs together with") && page.contains(&format!("#{pull}")), "{page}");
    world.end().await;
}

#[tokio::test]
async fn commits_that_are_only_on_the_remote_make_no_way() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    world.standin.push_commit(REPO, ANN, "issue-1", "Mine", &[("mine.txt", Some("mine\n"))]).await.unwrap();
    let pull = asked_pull(&world, issue, "add a greeting").await;
    stayed_apart(&world, issue, pull).await;
    world.end().await;
}

#[tokio::test]
async fn a_pinned_worktree_makes_no_way() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    world.ask(issue, "/worktree pin");
    world.settle().await;
    let pull = asked_pull(&world, issue, "add a greeting").await;
    stayed_apart(&world, issue, pull).await;
    world.end().await;
}

#[tokio::test]
async fn a_worktree_that_a_run_is_in_or_waits_for_makes_no_way() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    world.ask(issue, "agent:sleep=600");
    world.until_agent_works().await;
    world.ask(issue, "agent:noop");
    let pull = world.pull_from("feature/x", &format!("Closes #{issue}")).await;
    let asked = world.ask(pull, "agent:noop");
    world
        .until("the pull request's run to end", || async {
            let runs = world.runs().await;
            let done = runs.into_iter().find(|run| run.request.url.contains(&asked.to_string()));
            done.filter(|run| run.state == RunState::Succeeded)
        })
        .await;
    world.ask(issue, "/stop");
    world.settle().await;
    stayed_apart(&world, issue, pull).await;
    world.end().await;
}

#[tokio::test]
async fn nothing_makes_way_for_a_fork_or_where_threads_stay_apart() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let (pull, _) = world.pull_from_fork("patch-1").await;
    world.standin.link(REPO, pull, issue).unwrap();
    world.approve(pull).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    let branches = async || world.environments().await.iter().map(|live| live.branch.to_string()).collect::<Vec<_>>();
    assert_eq!(branches().await, ["issue-1".to_owned(), format!("pr-{pull}-review")]);
    let why = |thread: i64, other: String, why: &str| {
        let status = world.status(thread);
        assert!(status.contains(&format!("Not sharing the worktree of {other}: {why}.")), "{status}");
    };
    let alone = "a fork's pull request is worked on in a worktree of its own, in which nothing else is worked on";
    why(pull, format!("issue-{issue}"), alone);
    // Nor does an issue that it closes join it.
    let closed_by_it = world.issue();
    world.standin.link(REPO, pull, closed_by_it).unwrap();
    world.ask(closed_by_it, "agent:noop");
    world.settle().await;
    why(closed_by_it, format!("pr-{pull}"), alone);

    let file = [(REPO_SETTINGS_FILE, Some("share_linked: never\n"))];
    world.standin.push_commit(REPO, ANN, "main", "Settings", &file).await.unwrap();
    let apart = asked_pull(&world, issue, "agent:noop").await;
    why(apart, format!("issue-{issue}"), "the repository's settings keep threads apart (`share_linked: never`)");
    let all = ["issue-1", &format!("pr-{pull}-review"), &format!("issue-{closed_by_it}"), "feature/x"];
    assert_eq!(branches().await, all);
    world.end().await;
}

/// What could not be looked at is not called another line of work.
#[tokio::test]
async fn a_worktree_in_doubt_is_not_shared_and_said_to_be() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let link = world.environment().await.path.join(".git");
    std::fs::remove_file(&link).unwrap();
    std::fs::create_dir(&link).unwrap();
    std::fs::write(link.join("HEAD"), "ref: refs/heads/theirs\n").unwrap();
    let pull = asked_pull(&world, issue, "add a greeting").await;
    stayed_apart(&world, issue, pull).await;
    let status = world.status(pull);
    assert!(status.contains("it is not whole, or could not be looked at just now, so both stay apart"), "{status}");
    assert!(link.join("HEAD").is_file());
    world.end().await;
}

/// The worktree that makes way makes room, too.
#[tokio::test]
async fn making_way_works_at_the_limit() {
    let world = World::with(&[("MAX_WORKTREES_PER_CODEBASE", "1")]).await;
    let issue = world.worked_issue("agent:noop").await;
    let pull = asked_pull(&world, issue, "add a greeting").await;
    assert!(world.status(pull).starts_with('✅'), "{}", world.status(pull));
    assert_eq!(world.environment().await.branch.as_str(), "feature/x");
    world.end().await;
}

/// Git has a branch in one worktree: whoever asks about a pull request goes on where its branch is, and nothing makes way.
#[tokio::test]
async fn a_pull_request_is_worked_on_where_its_branch_is() {
    let world = World::new().await;
    let issue = world.worked_issue("agent:noop").await;
    let pull = world.pull_from("feature/x", &format!("Closes #{issue}")).await;
    let other = world.issue();
    world.ask(other, "/worktree create feature/x");
    world.settle().await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    let told = "Reusing worktree from task-feature/x";
    assert!(world.status(pull).contains(told), "{}", world.status(pull));
    let branches: Vec<_> = world.environments().await.iter().map(|live| live.branch.to_string()).collect();
    assert_eq!(branches, ["issue-1", "feature/x"]);
    // Also one that the service opened itself, and that closes no issue.
    let task = world.issue();
    world.ask(task, "/worktree create dark");
    world.settle().await;
    world.ask(task, "add a greeting");
    world.settle().await;
    let own = world.pull_of("dark").number;
    world.ask(own, "add a note");
    world.settle().await;
    assert!(world.status(own).starts_with('✅'), "{}", world.status(own));
    assert_eq!((world.pull_of("dark").commits.len(), world.environments().await.len()), (2, 3));
    world.end().await;
}

/// GitHub says of no pull request into another base than the default branch that it closes an issue.
#[tokio::test]
async fn a_pull_request_into_another_base_shares_with_its_issue_whoever_is_asked_first() {
    for pull_first in [true, false] {
        let world = World::new().await;
        world.standin.push_commit(REPO, ANN, "dev", "Dev", &[("dev.txt", Some("dev\n"))]).await.unwrap();
        let issue = world.issue();
        if !pull_first {
            world.ask(issue, "agent:noop");
            world.settle().await;
        }
        world.standin.push_commit(REPO, ANN, "feature/x", "Begin", &[("begin.txt", Some("begin\n"))]).await.unwrap();
        let body = format!("Closes #{issue}");
        let pull = OpenPull { title: "Mine", body: &body, head: "feature/x", base: "dev", ..OpenPull::default() };
        let pull = world.standin.open_pull(REPO, ANN, pull).await.unwrap();
        world.ask(pull, "add a greeting");
        world.settle().await;
        world.ask(issue, "add a note");
        world.settle().await;
        let environment = world.environment().await;
        assert_eq!(environment.branch.as_str(), "feature/x", "{}", world.status(issue));
        assert_eq!(world.pull(pull).commits.len(), 3);
        // BR-163: GitHub will not close it.
        for said in world.answers(issue).into_iter().chain(world.answers(pull)) {
            let said = said.body.to_lowercase();
            assert!(
                !["will be closed", "will close", "closes #", "fixes #"].iter().any(|claim| said.contains(claim)),
                "{said}"
            );
        }
        world.end().await;
    }
}

/// What the text says does not count where GitHub knows better: there it can be taken back.
#[tokio::test]
async fn a_link_that_github_does_not_know_does_not_share() {
    let world = World::new().await;
    let issue = world.issue();
    world.ask(issue, "add a greeting");
    world.settle().await;
    let body = format!("Closes [#{issue}](https://github.com/octo/hello/issues/{issue})");
    let pull = world.pull_from("feature/x", &body).await;
    world.ask(pull, "add a note");
    world.settle().await;
    assert_eq!(world.environments().await.len(), 2, "{}", world.status(pull));

    // BR-161: how it would have been, told to whoever links by hand an issue and a pull request, and to nobody else.
    let other = world.issue();
    for (thread, hinted) in [(pull, true), (other, false)] {
        world.ask(thread, "/worktree link issue-1");
        world.settle().await;
        let told = world.answer(thread);
        assert!(told.contains("**issue-1** on branch `issue-1`"), "{told}");
        assert_eq!(told.contains("with a word between (`Fixes issue #12`) GitHub links nothing"), hinted, "{told}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_thread_lets_go_of_a_shared_worktree_and_the_last_one_removes_it() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    world.ask(pull, "add a note");
    world.settle().await;
    let environment = world.environment().await;
    world.ask(issue, "/worktree remove");
    world.settle().await;
    let answer = world.answer(issue);
    assert!(answer.contains(&format!("The worktree stays, because #{pull} uses it too")), "{answer}");
    assert_eq!(world.environment().await.id, environment.id);
    world.ask(pull, "/worktree remove");
    world.settle().await;
    assert!(world.answer(pull).starts_with("🧹"), "{}", world.answer(pull));
    assert!(world.environments().await.is_empty() && !environment.path.exists());

    // By its name it goes for all of them.
    world.ask(pull, "add a note");
    world.ask(issue, "add a note");
    world.settle().await;
    let shared = world.environment().await.work;
    world.ask(issue, &format!("/worktree remove {shared}"));
    world.settle().await;
    assert!(world.answer(issue).starts_with("🧹"), "{}", world.answer(issue));
    world.end().await;
}

/// BR-160
#[tokio::test]
async fn a_link_that_is_a_mistake_is_undone_by_a_command() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = world.pull_of("issue-1").number;
    world.ask(pull, "add a note");
    world.settle().await;
    assert_eq!(world.environments().await.len(), 1, "shared");
    world.ask(issue, "/worktree create apart");
    world.settle().await;
    assert!(world.answer(issue).contains("on branch `apart`"), "{}", world.answer(issue));
    for number in [issue, pull] {
        world.ask(number, "write this down");
        world.settle().await;
    }
    let runs = world.runs().await;
    let [.., of_issue, of_pull] = runs.as_slice() else { panic!("{runs:?}") };
    assert_ne!(of_issue.environment, of_pull.environment);
    let live = world.environments().await;
    let branches: Vec<_> = live.iter().map(|live| (live.branch.as_str(), Some(live.id))).collect();
    assert_eq!(branches, [("issue-1", of_pull.environment), ("apart", of_issue.environment)]);
    assert_ne!(world.pull_of("apart").number, pull, "a pull request of its own");
    world.end().await;
}

/// Whatever the branch of the pull request is called.
#[tokio::test]
async fn a_pull_request_of_commits_that_the_issues_worktree_has_goes_on_there() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let remote = std::fs::read_dir(world.dir.path().join("github/repositories")).unwrap().next().unwrap().unwrap();
    let tip = world.remote_tip("issue-1").await.unwrap();
    git(&remote.path(), &["update-ref", "refs/heads/feature/x", &tip]);
    let pull = OpenPull { title: "By hand", body: "Closes #1", head: "feature/x", ..OpenPull::default() };
    let pull = world.standin.open_pull(REPO, ANN, pull).await.unwrap();
    world.ask(pull, "agent:noop");
    world.settle().await;
    let status = world.status(pull);
    assert!(status.contains(&format!("Reusing worktree from issue #{issue}")), "{status}");
    assert_eq!(world.environment().await.branch.as_str(), "issue-1");
    world.end().await;
}

#[tokio::test]
async fn an_issue_with_work_of_its_own_goes_on_with_that_after_its_worktree_is_gone() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pull = asked_pull(&world, issue, "add a note").await;
    stayed_apart(&world, issue, pull).await;
    let gone = answered(&world, issue, "/worktree remove").await;
    assert!(gone.starts_with("🧹") && gone.contains("is kept"), "{gone}");
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    let told = format!("Not sharing the worktree of pr-{pull}: it does not contain what is kept on `issue-1`");
    assert!(status.starts_with('✅') && status.contains(&told), "{status}");
    assert_eq!((world.pull_of("issue-1").commits.len(), world.pull(pull).commits.len()), (2, 2));
    world.end().await;
}

#[tokio::test]
async fn an_issue_goes_on_where_its_branch_is_though_the_pull_request_is_closed() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let own = world.pull_of("issue-1").number;
    answered(&world, issue, "/worktree remove").await;
    world.ask(own, "agent:noop");
    world.settle().await;
    std::fs::write(world.environment().await.path.join("mine.txt"), "mine\n").unwrap();
    world.standin.close(REPO, ANN, own).unwrap();
    world.settle().await;
    world.ask(issue, "agent:noop");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains(&format!("Reusing worktree from PR #{own}")), "{status}");
    world.end().await;
}

/// BR-156: in both repositories there is a thread of that very number, and nobody takes it for the one that is meant.
#[tokio::test]
async fn a_link_to_another_repository_is_recorded_and_shared_with_nobody() {
    const OTHER: &str = "octo/other";
    let world = World::new().await;
    world.standin.create_repository(OTHER, &[("README.md", "# other\n")]).await.unwrap();
    world.standin.set_permission(OTHER, ANN, Permission::Write).unwrap();
    let ask = |number: i64| world.standin.comment(OTHER, ANN, number, &world.mention("agent:noop")).unwrap();
    let meant = world.standin.open_issue(OTHER, ANN, "Elsewhere", "").unwrap();
    world.standin.push_commit(OTHER, ANN, "feature/y", "Start", &[("start.txt", Some("start\n"))]).await.unwrap();
    let beside = OpenPull { title: "Beside", head: "feature/y", ..OpenPull::default() };
    let beside = world.standin.open_pull(OTHER, ANN, beside).await.unwrap();
    ask(beside);
    let issue = world.worked_issue("agent:noop").await;
    let pull = world.pull_from("feature/x", &format!("Closes {OTHER}#{meant}")).await;
    assert_eq!((issue, pull), (meant, beside), "the numbers are the same");
    world.ask(pull, "agent:noop");
    world.settle().await;
    ask(meant);
    world.settle().await;

    let live = world.environments().await;
    let told = |branch: &str, codebase: &str| {
        let of =
            |one: &&Environment| one.branch.as_str() == branch && one.path.display().to_string().contains(codebase);
        let found: Vec<&Environment> = live.iter().filter(of).collect();
        assert_eq!(found.len(), 1, "{branch} of {codebase} in {live:?}");
        let elsewhere = &found[0].metadata.links_elsewhere;
        (found[0].metadata.links.len(), elsewhere.iter().map(Elsewhere::to_string).collect::<Vec<_>>())
    };
    assert_eq!(live.len(), 4, "each of them has its own: {live:?}");
    assert_eq!(told("feature/x", REPO), (0, vec![format!("{OTHER}#{meant}")]));
    assert_eq!(told("issue-1", OTHER), (0, vec![format!("{REPO}#{pull}")]));
    assert_eq!((told("issue-1", REPO), told("feature/y", OTHER)), ((0, vec![]), (0, vec![])));

    let status = answered(&world, pull, "/status").await;
    let words = format!("belongs together with {OTHER}#{meant}, which is worked on apart");
    assert!(status.contains(&words), "{status}");
    let of_pull = live.iter().find(|one| one.branch.as_str() == "feature/x").unwrap();
    let page = world.page(&format!("/environments/{}", of_pull.id)).await;
    assert!(page.contains(&words), "{page}");

    // A GitHub that says nothing takes nothing back.
    world.standin.faults().inject(Some("POST"), "/api/graphql", u32::MAX, Fault::Status(502));
    world.ask(pull, "agent:noop");
    world.settle().await;
    world.standin.faults().clear();
    let environment = world.store().load_environment(of_pull.id).await.unwrap().unwrap();
    assert_eq!(environment.metadata.links_elsewhere, of_pull.metadata.links_elsewhere);
    world.end().await;
}

#[tokio::test]
async fn without_graphql_the_text_decides_on_both_sides() {
    let world = World::new().await;
    world.standin.faults().inject(Some("POST"), "/api/graphql", u32::MAX, Fault::Status(502));
    let issue = world.worked_issue("agent:noop").await;
    let pull = asked_pull(&world, issue, "agent:noop").await;
    let environment = world.environment().await;
    assert_eq!(environment.branch.as_str(), "feature/x", "the issue's made way: {}", world.status(pull));
    assert_eq!(environment.metadata.links, [work(WorkKind::Issue, issue)]);

    let other = world.issue();
    let body = format!("Resolves https://github.invalid/octo/hello/issues/{other}\n\nFixes #{other}");
    let pull = world.pull_from("feature/y", &body).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    world.ask(other, "agent:noop");
    world.settle().await;
    let status = world.status(other);
    assert!(status.contains(&format!("Reusing worktree from PR #{pull}")), "{status}");
    world.standin.faults().clear();
    world.end().await;
}

#[tokio::test]
async fn all_pages_of_what_closes_an_issue_are_read() {
    let world = World::new().await;
    world.standin.limit_graphql_pages(1);
    let issue = world.issue();
    let (_first, second) = (
        world.pull_from("feature/a", &format!("Fixes #{issue}")).await,
        world.pull_from("feature/b", &format!("Fixes #{issue}")).await,
    );
    world.ask(second, "agent:noop");
    world.settle().await;
    world.ask(issue, "agent:noop");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains(&format!("Reusing worktree from PR #{second}")), "{status}");
    world.end().await;
}
