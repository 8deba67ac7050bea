//! Rows from another installation: all or nothing, once, and never over what is here.

use super::{at, codebase, conversation, environment, on_each_engine};
use std::path::PathBuf;
use treewarden::model::*;

fn named(table: OldTable, id: &str) -> OldName {
    OldName { table, id: id.to_owned(), about: String::new() }
}

fn held_at(path: Option<&str>) -> ImportPlan {
    let place = match path {
        Some(path) => PlaceImport::Environment(path.into()),
        None => PlaceImport::Legacy("/w/chat".into()),
    };
    ImportPlan {
        environments: path.into_iter().map(environment_at).collect(),
        conversations: vec![ConversationImport {
            row: named(OldTable::Conversations, "1"),
            thread: ThreadImport::Held {
                platform: PlatformKind::Telegram,
                thread: "-100/7".to_owned(),
                repository: Some(RepositoryId(1)),
            },
            place,
            created_at: at(-100),
            last_activity_at: at(-50),
        }],
        ..ImportPlan::default()
    }
}

fn environment_at(path: &str) -> EnvironmentImport {
    EnvironmentImport {
        row: named(OldTable::IsolationEnvironments, path),
        repository: RepositoryId(1),
        work: Work { kind: WorkKind::Thread, id: "abc".to_owned() },
        branch: BranchName::new("thread-abc").unwrap(),
        path: path.into(),
        metadata: EnvironmentMetadata { migrated: true, ..EnvironmentMetadata::default() },
        created_at: at(-100),
        last_activity_at: at(-50),
    }
}

#[tokio::test]
async fn held_threads_let_go_of_an_environment_that_ends() {
    on_each_engine(async |store| {
        codebase(&store, 1, "octo/hello").await;
        let imported = store.import(&held_at(Some("/w/chat")), true, at(0)).await.unwrap();
        assert_eq!(
            (&imported.environments[..], &imported.conversations[..]),
            (&[Import::Taken][..], &[Import::Taken][..])
        );
        let live = store.live_environments(None).await.unwrap().remove(0);
        assert_eq!((live.created_at, live.last_activity_at, live.metadata.migrated), (at(-100), at(-50), true));
        assert_eq!(store.held_conversations_of(live.id).await.unwrap().len(), 1);
        store.destroy_environment(&live, None, at(1)).await.unwrap();
        let held = store.held_conversations().await.unwrap();
        assert_eq!((held.len(), held[0].environment), (1, None));
    })
    .await;
}

#[tokio::test]
async fn an_import_that_is_not_kept_leaves_nothing() {
    on_each_engine(async |store| {
        codebase(&store, 1, "octo/hello").await;
        let imported = store.import(&held_at(None), false, at(0)).await.unwrap();
        assert_eq!(imported.conversations, [Import::Taken]);
        assert!(store.held_conversations().await.unwrap().is_empty());
        assert!(store.legacy_paths().await.unwrap().is_empty() && store.list_audit(9).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_path_waits_until_it_is_cleared() {
    on_each_engine(async |store| {
        codebase(&store, 1, "octo/hello").await;
        store.import(&held_at(None), true, at(0)).await.unwrap();
        let held = store.held_conversations().await.unwrap().remove(0);
        assert_eq!(store.legacy_path(held.id).await.unwrap(), Some(PathBuf::from("/w/chat")));
        assert_eq!(store.import(&held_at(None), true, at(1)).await.unwrap().conversations, [Import::Present]);
        store.clear_legacy_path(held.id).await.unwrap();
        assert_eq!(store.legacy_path(held.id).await.unwrap(), None);
        store.set_setting("colour", &"green", at(2)).await.unwrap();
        store.clear_legacy("colour").await.unwrap();
        assert!(store.setting("colour").await.unwrap().is_some(), "only what waits is cleared");
    })
    .await;
}

#[tokio::test]
async fn what_lives_here_is_not_overwritten() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "octo/hello").await;
        let (thread, own) = (conversation(&store, &app, 1).await, environment(&store, &app, 1).await);
        store.set_conversation_environment(thread.id, Some(own.id), at(0)).await.unwrap();
        let before = store.load_conversation(thread.id).await.unwrap().unwrap();
        let mut other = environment_at("/w/other");
        other.work = own.work.clone();
        let github = GithubThread {
            repository: RepositoryId(1),
            number: ThreadNumber(1),
            kind: ThreadKind::PullRequest,
            title: "older".to_owned(),
            state: ThreadState::Closed,
        };
        let session = SessionImport {
            row: named(OldTable::Sessions, "1"),
            conversation: 0,
            agent: "claude".to_owned(),
            external_id: "memory".to_owned(),
            opened_at: at(-1),
        };
        let mut plan = ImportPlan { environments: vec![other], sessions: vec![session], ..held_at(None) };
        plan.conversations[0].thread = ThreadImport::Github(github);
        plan.conversations[0].place = PlaceImport::Environment("/w/other".into());
        let imported = store.import(&plan, true, at(1)).await.unwrap();
        assert!(matches!(&imported.environments[..], [Import::InTheWay(_)]), "{imported:?}");
        assert_eq!(
            (&imported.conversations[..], &imported.sessions[..]),
            (&[Import::Present][..], &[Import::Dangling][..])
        );
        assert_eq!(store.load_conversation(thread.id).await.unwrap(), Some(before));
        assert_eq!(store.live_environments(None).await.unwrap().len(), 1);
    })
    .await;
}
