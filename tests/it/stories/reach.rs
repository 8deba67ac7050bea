//! Why the App does not reach a repository is understood, shown and found out again; work is kept meanwhile.

use crate::support::world::{ANN, REPO, World};
use treewarden::{demo::github::Standin, model::*};

async fn codebase(world: &World) -> Codebase {
    let mut all = world.store().list_codebases().await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Something that happens on GitHub and of which no event tells.
fn unheard(standin: &Standin, happens: impl FnOnce(&Standin)) {
    standin.lose_events(true);
    happens(standin);
    standin.lose_events(false);
}

async fn look(world: &World) {
    world.orchestrator().look_at_access().await.unwrap();
}

/// The worktree of the first issue is there, and what was done in it is in its place.
async fn work_is_kept(world: &World) {
    world.pass().await;
    assert!(world.environment().await.path.join("hello.sh").exists());
}

async fn goes_on(world: &World, issue: i64) {
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
}

#[tokio::test]
async fn what_no_event_told_is_found_by_a_look() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    unheard(&world.standin, |standin| standin.withdraw_repository(REPO).unwrap());
    assert_eq!(codebase(&world).await.reach, Reach::Whole, "nobody has said so");
    look(&world).await;
    let lost = codebase(&world).await;
    assert_eq!((lost.reach, lost.connected, lost.reach_since.is_some()), (Reach::NotSelected, false, true));
    let page = world.page("/").await;
    for words in [
        "octo/hello has worktrees here and cannot be worked on",
        "the App's installation does not include it",
        "adds it on the page of the installation",
        "Open it on GitHub",
        "What was done here is kept.",
    ] {
        assert!(page.contains(words), "{words} in {page}");
    }
    work_is_kept(&world).await;
    unheard(&world.standin, |standin| standin.grant_repository(REPO).unwrap());
    look(&world).await;
    assert_eq!(codebase(&world).await.reach, Reach::Whole);
    assert!(!world.page("/").await.contains("cannot be worked on"));
    let audit = world.store().list_audit(50).await.unwrap();
    let access: Vec<_> = audit.iter().rev().filter(|entry| entry.action == "codebase.access").collect();
    let access: Vec<_> = access.iter().map(|entry| entry.detail.as_str()).collect();
    assert_eq!(access, ["not_selected", "reached"]);
    goes_on(&world, issue).await;
    world.end().await;
}

#[tokio::test]
async fn a_suspension_while_the_service_was_down_is_known_when_it_starts() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let suspend = |suspended| move |standin: &Standin| standin.suspend_installation(REPO, suspended).unwrap();
    let world = world.restart(|standin| unheard(standin, suspend(true))).await;
    assert_eq!(codebase(&world).await.reach, Reach::Suspended);
    assert!(world.page("/").await.contains("the installation of the App is suspended"));
    work_is_kept(&world).await;
    let world = world.restart(|standin| unheard(standin, suspend(false))).await;
    assert_eq!(codebase(&world).await.reach, Reach::Whole);
    goes_on(&world, issue).await;
    world.end().await;
}

#[tokio::test]
async fn an_app_that_is_removed_and_installed_anew_goes_on() {
    for is_told in [true, false] {
        let world = World::new().await;
        let issue = world.worked_issue("add a greeting").await;
        let before = codebase(&world).await.installation();
        world.standin.lose_events(!is_told);
        world.standin.uninstall(REPO).unwrap();
        world.settle().await;
        look(&world).await;
        assert_eq!(codebase(&world).await.reach, Reach::Uninstalled, "{is_told}");
        let page = world.page("/").await;
        assert!(
            page.contains("the App is not installed there any more") && page.contains("installs the App again"),
            "{page}"
        );
        work_is_kept(&world).await;
        world.standin.grant_repository(REPO).unwrap();
        world.standin.lose_events(false);
        world.settle().await;
        look(&world).await;
        let after = codebase(&world).await;
        assert_eq!(after.reach, Reach::Whole, "{is_told}");
        assert_ne!(after.installation(), before);
        goes_on(&world, issue).await;
        world.end().await;
    }
}

#[tokio::test]
async fn a_permission_that_is_not_accepted_yet_is_named_with_its_page() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let pushed = world.remote_tip("issue-1").await;
    let some = [
        ("checks", "write"),
        ("contents", "read"),
        ("issues", "write"),
        ("metadata", "read"),
        ("pull_requests", "write"),
    ];
    world.standin.limit_permissions(REPO, &some).unwrap();
    world.standin.expire_tokens();
    world.ask(issue, "add a note");
    world.settle().await;
    let status = world.status(issue);
    for words in
        ["lacks a permission that it asks for: `contents: write`", "/settings/installations/", "it is kept here"]
    {
        assert!(status.contains(words), "{words} in {status}");
    }
    assert_eq!(world.remote_tip("issue-1").await, pushed);
    let page = world.page("/").await;
    assert!(page.contains("The App on octo lacks what it asks for: contents: write"), "{page}");
    world.standin.accept_permissions(REPO).unwrap();
    world.settle().await;
    assert!(!world.page("/").await.contains("lacks what it asks for"));
    world.ask(issue, "agent:noop");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    assert_eq!(world.remote_tip("issue-1").await, world.local_tip("issue-1").await);
    world.end().await;
}

#[tokio::test]
async fn a_transferred_repository_is_followed_where_the_app_is_installed() {
    let world = World::new().await;
    world.standin.create_repository("acme/other", &[("README.md", "# Other\n")]).await.unwrap();
    let issue = world.worked_issue("add a greeting").await;
    let before = codebase(&world).await;
    unheard(&world.standin, |standin| standin.transfer_repository(REPO, "acme").unwrap());
    look(&world).await;
    let after = codebase(&world).await;
    assert_eq!((after.id, after.name.to_string().as_str(), after.reach), (before.id, "acme/hello", Reach::Whole));
    assert_ne!(after.installation(), before.installation());
    work_is_kept(&world).await;
    world.standin.set_permission("acme/hello", ANN, Permission::Write).unwrap();
    world.standin.comment("acme/hello", ANN, issue, &world.mention("add a note")).unwrap();
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);

    // To where the App is not installed.
    world.standin.transfer_repository("acme/hello", "elsewhere").unwrap();
    look(&world).await;
    assert_eq!(codebase(&world).await.reach, Reach::NotSelected);
    work_is_kept(&world).await;
    world.end().await;
}

#[tokio::test]
async fn an_archived_repository_says_so_and_goes_on_once_it_is_not() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    world.standin.archive(REPO, true).unwrap();
    world.settle().await;
    let archived = codebase(&world).await;
    assert_eq!((archived.reach, archived.connected), (Reach::Archived, true));
    let page = world.page("/").await;
    assert!(page.contains("it is archived on GitHub") && page.contains("unarchives it in its settings"), "{page}");
    look(&world).await;
    assert_eq!(codebase(&world).await.reach_since, archived.reach_since, "nothing new");
    work_is_kept(&world).await;
    world.standin.archive(REPO, false).unwrap();
    world.settle().await;
    assert_eq!(codebase(&world).await.reach, Reach::Whole);
    goes_on(&world, issue).await;
    world.end().await;
}

#[tokio::test]
async fn a_deleted_repository_is_told_apart_from_a_withdrawn_one() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    world.standin.delete_repository(REPO).await.unwrap();
    world.settle().await;
    look(&world).await;
    assert_eq!(codebase(&world).await.reach, Reach::Deleted);
    assert!(world.page("/").await.contains("it was deleted on GitHub"));
    assert!(world.environment().await.path.join("hello.sh").exists());
    world.end().await;
}

/// One list that cannot be read, and nothing is taken for lost.
#[tokio::test]
async fn a_github_that_does_not_answer_loses_nothing() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    unheard(&world.standin, |standin| standin.withdraw_repository(REPO).unwrap());
    let fault = treewarden::demo::github::Fault::Status(404);
    world.standin.faults().inject(Some("GET"), "/installation/repositories", 1, fault);
    look(&world).await;
    assert_eq!(codebase(&world).await.reach, Reach::Whole);
    world.standin.faults().clear();
    world.standin.grant_repository(REPO).unwrap();
    world.settle().await;
    goes_on(&world, issue).await;
    world.end().await;
}
