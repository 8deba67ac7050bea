//! A database that was lost: what lies in the home is seen, adopted, and gone on with.

use super::local::{ON, Script, repository, text};
use super::orphans::{press, said};
use crate::support::{
    postgres::Database,
    world::{World, git},
};
use treewarden::{demo::github::Standin, model::*};

/// The same home with an empty database, on the engine that it had.
async fn loses_its_database(world: World, new: Option<&Database>) -> World {
    match new {
        Some(new) => world.restart_with(&[("DATABASE_URL", &new.url)]).await,
        None => {
            let home = world.home();
            world.restart(move |_| remove_database(&home)).await
        }
    }
}

fn remove_database(home: &std::path::Path) {
    for file in std::fs::read_dir(home).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("treewarden.db") {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
}

async fn conversations_go_on(databases: Option<[Database; 2]>) {
    let (old, new) = (databases.as_ref().map(|both| &both[0]), databases.as_ref().map(|both| &both[1]));
    let url = old.map(|old| ("DATABASE_URL", old.url.as_str()));
    let settings: Vec<_> = [ON].into_iter().chain(url).collect();
    let world = World::with(&settings).await;
    let tools = repository(&world.dir.path().join("people"), "tools");
    let script = Script::new(&world.home());
    for conversation in ["chat", "other"] {
        script.say(conversation, text(&tools), "add a greeting").await;
    }
    world.settle().await;
    let before = world.environments().await;
    assert_eq!(before.len(), 2);

    let world = loses_its_database(world, new).await;
    let report = said(&world.pass().await);
    for environment in &before {
        let ReportResult::Kept(why) = &report[environment.branch.as_str()] else { panic!("{report:?}") };
        assert!(why[0].starts_with("an orphan") && !why.iter().any(|why| why.contains("no base")), "{why:?}");
    }
    assert!(world.page("/").await.contains("2 on the disk without an environment"));
    let list = world.page("/cleanup/orphans").await;
    let [chat, other] = ["chat", "other"].map(|id| Work { kind: WorkKind::Thread, id: id.to_owned() }.to_string());
    assert!(
        list.contains(&format!("_local/tools/{chat}")) && list.contains(&format!("_local/tools/{other}")),
        "{list}"
    );
    assert!(!list.contains("no base branch is known"), "{list}");

    let told = press(&world, "adopt", &format!("_local/tools/{chat}")).await;
    assert!(told.contains("It is an environment now."), "{told}");
    // Either goes on in its own worktree, adopted or not.
    let script = Script::new(&world.home());
    for conversation in ["chat", "other"] {
        script.say(conversation, text(&tools), "write this down").await;
        world.settle().await;
        assert!(script.last(conversation).await.starts_with("✅ **Done**"), "{}", script.last(conversation).await);
    }
    let after = world.environments().await;
    let places = |all: &[Environment]| {
        let mut places: Vec<_> = all.iter().map(|one| (one.branch.to_string(), one.path.clone())).collect();
        places.sort();
        places
    };
    assert_eq!(places(&after), places(&before));
    assert!(world.page("/cleanup").await.contains("Every worktree on the disk has its environment."));
    world.end().await;
    for database in databases.into_iter().flatten() {
        database.drop().await;
    }
}

#[tokio::test]
async fn a_repository_on_this_machine_is_met_again_and_its_conversations_go_on() {
    conversations_go_on(None).await;
}

#[tokio::test]
async fn the_same_on_postgres() {
    if let (Some(old), Some(new)) = (Database::create().await, Database::create().await) {
        conversations_go_on(Some([old, new])).await;
    }
}

#[tokio::test]
async fn who_adopts_without_a_base_hears_why() {
    let world = World::with(&[ON]).await;
    let tools = repository(&world.dir.path().join("people"), "tools");
    Script::new(&world.home()).say("chat", text(&tools), "add a greeting").await;
    world.settle().await;
    let place = format!("_local/tools/{}", world.environment().await.branch);
    git(&tools, &["checkout", "--quiet", "--detach"]);
    let world = loses_its_database(world, None).await;
    world.pass().await;
    let told = press(&world, "adopt", &place).await;
    assert!(told.contains("none is checked out in it") && !told.contains("no commits yet"), "{told}");
    assert!(!told.contains("again.."), "{told}");
    assert!(world.environments().await.is_empty());
    git(&tools, &["checkout", "--quiet", "main"]);
    let told = press(&world, "adopt", &place).await;
    assert!(told.contains("It is an environment now."), "{told}");
    assert_eq!(world.environment().await.base.unwrap().as_str(), "main");
    world.end().await;
}

/// What its own files do not prove is not believed.
#[tokio::test]
async fn a_repository_that_was_changed_or_moved_is_only_counted() {
    let world = World::with(&[ON]).await;
    let people = world.dir.path().join("people");
    let (tools, other) = (repository(&people, "tools"), repository(&people, "other"));
    Script::new(&world.home()).say("chat", text(&tools), "add a greeting").await;
    world.settle().await;
    let config = world.canonical().await.join("config");
    let written = std::fs::read_to_string(&config).unwrap();
    let (home, changed) = (world.home(), written.replace(text(&tools), text(&other)));
    let of_another = config.clone();
    let meanwhile = move |_: &Standin| {
        remove_database(&home);
        std::fs::write(&of_another, changed).unwrap();
    };
    let world = world.restart(meanwhile).await;
    let report = said(&world.pass().await);
    let ReportResult::Kept(why) = &report["_local/tools"] else { panic!("{report:?}") };
    assert!(why[0].starts_with("1 directory lies where its worktrees are made"), "{why:?}");
    assert!(world.store().list_codebases().await.unwrap().is_empty());
    std::fs::write(&config, written).unwrap();
    world.pass().await;
    assert_eq!(world.store().list_codebases().await.unwrap().len(), 1);
    world.end().await;
}

#[tokio::test]
async fn of_a_repository_on_github_it_is_said_how_much_lies_there_until_it_is_heard_from() {
    let world = World::new().await;
    let issue = world.worked_issue("add a greeting").await;
    let before = world.environment().await;
    let world = loses_its_database(world, None).await;
    let report = said(&world.pass().await);
    let ReportResult::Kept(why) = &report["octo/hello"] else { panic!("{report:?}") };
    assert!(why[0].contains("has not heard from it") && why[0].contains("Mention me in it"), "{why:?}");
    let dry = said(&world.dry_run().await);
    assert_eq!(dry, report);
    assert!(world.page("/").await.contains("1 on the disk without an environment"));
    assert!(world.page("/cleanup").await.contains("1 in repositories that this database has not heard from"));
    let list = world.page("/cleanup/orphans").await;
    assert!(list.contains("octo/hello") && list.contains("Mention me in it"), "{list}");

    world.ask(issue, "/status");
    world.settle().await;
    let list = world.page("/cleanup/orphans").await;
    assert!(list.contains("octo/hello/issue-1") && !list.contains("has not heard from"), "{list}");
    let told = press(&world, "adopt", "octo/hello/issue-1").await;
    assert!(told.contains("It is an environment now."), "{told}");
    let adopted = world.environment().await;
    assert_eq!((&adopted.path, &adopted.work, &adopted.base), (&before.path, &before.work, &before.base));
    world.end().await;
}

/// Its branches are all that is left of it; another repository of the same name does not get them.
#[tokio::test]
async fn a_repository_without_worktrees_keeps_its_directory() {
    let world = World::with(&[ON]).await;
    let [tools, others] = ["people", "others"].map(|who| repository(&world.dir.path().join(who), "tools"));
    Script::new(&world.home()).say("chat", text(&tools), "add a greeting").await;
    world.settle().await;
    let (branch, canonical) = (world.environment().await.branch, world.canonical().await);
    Script::new(&world.home()).say("chat", text(&tools), "/worktree remove").await;
    world.settle().await;
    assert!(world.environments().await.is_empty());
    let world = loses_its_database(world, None).await;
    world.pass().await;
    Script::new(&world.home()).say("chat", text(&others), "add a greeting").await;
    world.settle().await;
    let heads = git(&canonical, &["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert!(heads.contains(branch.as_str()), "{heads}");
    assert_eq!(git(&canonical, &["config", "remote.origin.url"]).trim(), text(&tools));
    assert_eq!(world.store().list_codebases().await.unwrap().len(), 2);
    world.end().await;
}
