//! What a repository asks for in `.github/treewarden.yml`: read from the default branch only, capped by the server, and
//! never a reason to stop working.

use crate::support::world::{ANN, REPO, World, git};
use treewarden::{
    demo::github::{MergeMethod, OpenPull},
    model::*,
};

/// Ann puts the settings file on a branch.
async fn put(world: &World, branch: &str, text: &str) {
    world.standin.push_commit(REPO, ANN, branch, "Settings", &[(REPO_SETTINGS_FILE, Some(text))]).await.unwrap();
}

async fn dev(world: &World) {
    world.standin.push_commit(REPO, ANN, "dev", "Develop", &[("dev.txt", Some("dev\n"))]).await.unwrap();
}

/// The comments about a broken file, in one thread.
fn told(world: &World, number: i64) -> Vec<String> {
    let bodies = world.answers(number).into_iter().map(|comment| comment.body);
    bodies.filter(|body| body.contains("cannot be followed")).collect()
}

#[tokio::test]
async fn a_repository_chooses_base_branch_names_and_kind_of_pull_request() {
    let world = World::new().await;
    dev(&world).await;
    put(&world, "main", "base: dev\nbranch_prefix: treewarden/\npull_request: open\n").await;
    let issue = world.worked_issue("add a greeting").await;

    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("Working in isolated branch `treewarden/issue-1`"), "{status}");
    let pull = world.pull_of("treewarden/issue-1");
    assert_eq!((pull.base_branch.as_str(), pull.draft, pull.commits.len()), ("dev", false, 1));
    let environment = world.environment().await;
    assert!(environment.path.join("dev.txt").exists());
    assert_eq!(environment.base.unwrap().as_str(), "dev");
    // The next one starts from where its base is by then.
    world.standin.push_commit(REPO, ANN, "dev", "More", &[("more.txt", Some("more\n"))]).await.unwrap();
    let second = world.worked_issue("agent:noop").await;
    let environments = world.environments().await;
    let second = environments.iter().find(|live| live.work.id == second.to_string()).unwrap();
    assert!(second.path.join("more.txt").exists());
    world.end().await;
}

#[tokio::test]
async fn a_base_that_does_not_exist_is_named_and_nothing_is_made() {
    let world = World::new().await;
    put(&world, "main", "base: dev\n").await;
    let issue = world.worked_issue("add a greeting").await;
    let status = world.status(issue);
    let said = "The base branch `dev`, which `.github/treewarden.yml` names, does not exist on the remote.";
    assert!(status.starts_with("❌ **Failed**") && status.contains(said), "{status}");
    assert!(world.all_environments().await.is_empty());

    dev(&world).await;
    world.ask(issue, "add a greeting");
    world.settle().await;
    assert_eq!(world.pull_of("issue-1").base_branch, "dev");
    world.end().await;
}

#[tokio::test]
async fn a_pull_request_that_changes_the_settings_changes_nothing() {
    let world = World::new().await;
    dev(&world).await;
    put(&world, "feature/x", "base: dev\nbranch_prefix: evil/\nmax_worktrees: 1\nbroken: yes\n").await;
    let pull = OpenPull { title: "Settings", body: "", head: "feature/x", ..OpenPull::default() };
    let pull = world.standin.open_pull(REPO, ANN, pull).await.unwrap();
    world.ask(pull, "add a greeting");
    world.settle().await;
    assert!(world.status(pull).starts_with('✅'), "{}", world.status(pull));
    assert!(told(&world, pull).is_empty());

    let issue = world.worked_issue("add a greeting").await;
    let branch = format!("issue-{issue}");
    assert_eq!(world.pull_of(&branch).base_branch, "main");
    // Nor does what an agent or a person leaves in a worktree.
    let environments = world.environments().await;
    let own = environments.iter().find(|live| live.branch.as_str() == branch).unwrap();
    std::fs::create_dir_all(own.path.join(".github")).unwrap();
    std::fs::write(own.path.join(REPO_SETTINGS_FILE), "broken: yes\n").unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅') && told(&world, issue).is_empty());
    let codebase = &world.store().list_codebases().await.unwrap()[0];
    assert_eq!(world.store().load_repo_settings(codebase.id).await.unwrap(), None);
    world.end().await;
}

#[tokio::test]
async fn a_broken_file_is_told_once_and_the_last_good_one_stays_in_force() {
    let world = World::new().await;
    put(&world, "main", "branch_prefix: bot/\n").await;
    let issue = world.worked_issue("agent:noop").await;
    put(&world, "main", "branch_prefix: other/\n@ann: <!-- treewarden:x -->\n").await;
    world.ask(issue, "agent:noop");
    world.settle().await;
    let said = told(&world, issue);
    assert_eq!(said.len(), 1, "{said:?}");
    for part in ["line 2, column 1: ", "what its last good version said stays in force"] {
        assert!(said[0].contains(part), "{part} in {}", said[0]);
    }
    assert!(world.statuses(issue).iter().all(|status| status.starts_with('✅')));

    // Nothing more about the same version there; another thread hears of it once, and works under the last good ones.
    world.ask(issue, "agent:noop");
    let second = world.worked_issue("agent:noop").await;
    world.ask(second, "agent:noop");
    world.settle().await;
    assert_eq!((told(&world, issue).len(), told(&world, second).len()), (1, 1));
    let mut branches: Vec<String> = world.environments().await.iter().map(|live| live.branch.to_string()).collect();
    branches.sort();
    assert_eq!(branches, ["bot/issue-1", "bot/issue-2"]);

    // Another broken version is told again, also after a restart; a file that is gone asks for nothing.
    put(&world, "main", "base: [\n").await;
    let world = world.restart(|_| {}).await;
    world.ask(issue, "agent:noop");
    world.settle().await;
    assert_eq!(told(&world, issue).len(), 2);
    world.standin.push_commit(REPO, ANN, "main", "None", &[(REPO_SETTINGS_FILE, None)]).await.unwrap();
    let third = world.worked_issue("agent:noop").await;
    assert!(told(&world, third).is_empty());
    assert!(world.environments().await.iter().any(|live| live.branch.as_str() == format!("issue-{third}")));
    world.end().await;
}

#[tokio::test]
async fn a_file_that_was_never_good_leaves_the_defaults() {
    let world = World::new().await;
    put(&world, "main", "\"`@ann Fixes #1`\": 1\n").await;
    let issue = world.worked_issue("add a greeting").await;
    let said = told(&world, issue).pop().unwrap();
    assert!(said.contains("the defaults apply") && said.contains("`'@ann Fixes #1'`"), "{said}");
    let pull = world.pull_of("issue-1");
    assert_eq!((pull.base_branch.as_str(), pull.draft), ("main", true));
    world.end().await;
}

#[tokio::test]
async fn limits_go_down_and_never_above_the_servers() {
    let world = World::with(&[("MAX_WORKTREES_PER_CODEBASE", "2"), ("TREEWARDEN_RUN_TIME_LIMIT", "2s")]).await;
    put(&world, "main", "max_worktrees: 1\nrun_time_limit: 1s\n").await;
    let first = world.worked_issue("note this agent:sleep=60").await;
    let status = world.status(first);
    assert!(status.starts_with("⌛") && status.contains("ended after 1 s"), "{status}");
    let second = world.worked_issue("agent:noop").await;
    assert!(world.status(second).contains("You have 1 active worktrees for **hello** (limit reached)."));
    world.ask(first, "/status");
    world.settle().await;
    assert!(world.answer(first).contains("1 worktree of 1 in this repository"), "{}", world.answer(first));

    put(&world, "main", "max_worktrees: 100\nrun_time_limit: 7d\n").await;
    world.ask(second, "note this agent:sleep=60");
    world.settle().await;
    assert!(world.status(second).contains("ended after 2 s"), "{}", world.status(second));
    let third = world.worked_issue("agent:noop").await;
    assert!(world.status(third).contains("You have 2 active worktrees for **hello** (limit reached)."));
    world.end().await;
}

#[tokio::test]
async fn pull_requests_are_left_to_people_where_that_is_wished() {
    let world = World::new().await;
    put(&world, "main", "pull_request: link\n").await;
    let issue = world.worked_issue("add a greeting").await;
    let status = world.status(issue);
    let link = format!(
        "[open a pull request into `main`]({}/{REPO}/compare/main...issue-1?expand=1)",
        world.standin.web_url()
    );
    assert!(status.starts_with('✅') && status.contains(&link), "{status}");
    assert!(world.standin.pulls(REPO).unwrap().is_empty());

    // One that a person opened is named, and there is no second.
    let pull = OpenPull { title: "Mine", head: "issue-1", ..OpenPull::default() };
    let pull = world.standin.open_pull(REPO, ANN, pull).await.unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains(&format!("pull request #{pull}")) && !status.contains("compare"), "{status}");

    put(&world, "main", "pull_request: never\n").await;
    let quiet = world.worked_issue("write this down").await;
    let status = world.status(quiet);
    assert!(
        status.starts_with('✅') && status.contains("on the remote") && !status.contains("pull request"),
        "{status}"
    );
    assert_eq!(world.standin.pulls(REPO).unwrap().len(), 1);
    world.end().await;
}

#[tokio::test]
async fn linked_threads_stay_apart_or_come_together_as_wished() {
    let world = World::new().await;
    put(&world, "main", "share_linked: never\n").await;
    let issue = world.worked_issue("add a greeting").await;
    // The one case in which git leaves no choice.
    let own = world.pull_of(&format!("issue-{issue}")).number;
    world.ask(own, "add a note");
    world.settle().await;
    assert!(world.status(own).contains("Reusing worktree from issue #1"), "{}", world.status(own));

    let apart = world.pull_from("feature/x", "Fixes #1").await;
    world.ask(apart, "agent:noop");
    world.settle().await;
    let said = "Not sharing the worktree of issue-1: the repository's settings keep threads apart";
    assert!(world.status(apart).contains(said), "{}", world.status(apart));
    assert_eq!(world.environments().await.len(), 2);

    put(&world, "main", "share_linked: always\n").await;
    let together = world.pull_from("feature/y", "Fixes #1").await;
    world.ask(together, "add a note");
    world.settle().await;
    let status = world.status(together);
    assert!(status.contains("Reusing worktree from issue #1"), "{status}");
    assert!(status.contains("`issue-1` does not contain this pull request's head"), "{status}");
    assert_eq!(world.environments().await.len(), 2);
    // A fork's code comes into nobody's worktree.
    let fork = world.standin.fork(REPO, "bob").await.unwrap();
    world.standin.push_commit(&fork, "bob", "z", "From afar", &[("far.txt", Some("far\n"))]).await.unwrap();
    let pull = OpenPull { title: "From a fork", body: "Fixes #1", head: "bob:z", ..OpenPull::default() };
    let pull = world.standin.open_pull(REPO, "bob", pull).await.unwrap();
    world.approve(pull).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.status(pull).contains("Reviewing PR at commit"), "{}", world.status(pull));
    assert_eq!(world.environments().await.len(), 3);
    world.end().await;
}

#[tokio::test]
async fn the_base_of_new_work_is_pushed_to_by_nobody_here() {
    let world = World::new().await;
    dev(&world).await;
    let release = OpenPull { title: "Release", head: "dev", ..OpenPull::default() };
    let release = world.standin.open_pull(REPO, ANN, release).await.unwrap();
    world.ask(release, "agent:noop");
    world.settle().await;
    assert_eq!(world.environment().await.branch.as_str(), "dev", "a branch like any other");

    put(&world, "main", "base: dev\n").await;
    let before = world.remote_tip("dev").await;
    world.ask(release, "add a greeting");
    world.settle().await;
    let status = world.status(release);
    assert!(status.contains("not pushed: `dev` is the base of all new work"), "{status}");
    assert_eq!(world.remote_tip("dev").await, before);
    assert!(git(&world.environment().await.path, &["log", "--format=%s"]).contains("Add a greeting"), "kept here");
    world.end().await;
}

#[tokio::test]
async fn work_that_began_under_another_prefix_goes_on_where_it_was() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    put(&world, "main", "branch_prefix: bot/\n").await;
    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.contains("Continuing on existing branch `issue-1`, 1 commit ahead"), "{status}");
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);

    // Merged, it is over, and the next one is called as the settings say now.
    let pull = world.pull_of("issue-1").number;
    world.merge(pull, MergeMethod::Squash).await;
    world.standin.reopen(REPO, ANN, issue).unwrap();
    world.ask(issue, "add a word");
    world.settle().await;
    assert_eq!(world.environment().await.branch.as_str(), "bot/issue-1", "{}", world.status(issue));
    world.end().await;
}

#[tokio::test]
async fn work_whose_base_the_settings_name_goes_on_against_the_default_branch_when_that_is_gone() {
    let world = World::new().await;
    world.standin.push_commit(REPO, ANN, "develop", "Start", &[("start.txt", Some("start\n"))]).await.unwrap();
    let file = [(".github/treewarden.yml", Some("base: develop\n"))];
    world.standin.push_commit(REPO, ANN, "main", "Settings", &file).await.unwrap();
    let issue = world.worked_issue("add a greeting").await;
    assert_eq!(world.environment().await.base.unwrap().as_str(), "develop");
    world.standin.delete_branch(REPO, ANN, "develop").await.unwrap();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && !status.contains("not pushed"), "{status}");
    assert_eq!(world.environment().await.base.unwrap().as_str(), "main");
    assert_eq!(world.local_tip("issue-1").await, world.remote_tip("issue-1").await);
    world.end().await;
}
