//! Repositories and threads: known by id, called by name.

use super::{at, codebase, conversation, environment, on_each_engine};
use treewarden::{
    model::*,
    store::{NewCodebase, NewConversation},
};

fn named(github_id: i64, name: &str) -> NewCodebase {
    NewCodebase {
        github_id: RepositoryId(github_id),
        installation: InstallationId(8),
        name: name.parse().unwrap(),
        default_branch: None,
        reached: true,
    }
}

#[tokio::test]
async fn a_renamed_repository_stays_itself() {
    on_each_engine(async |store| {
        let before = codebase(&store, 1, "acme/app").await;
        let after = store.upsert_codebase(named(1, "acme/app2"), at(5)).await.unwrap();
        assert_eq!(after.id, before.id);
        assert_eq!((after.name.to_string().as_str(), after.installation()), ("acme/app2", Some(InstallationId(8))));
        assert_eq!(after.default_branch, before.default_branch, "not said is not gone");
        assert_eq!((after.repository_dir.as_str(), after.updated_at), ("acme/app.git", at(5)));
        assert_eq!(store.find_codebase(&"ACME/App2".parse().unwrap()).await.unwrap(), Some(after.clone()));
        assert_eq!(store.find_codebase(&"acme/app".parse().unwrap()).await.unwrap(), None);
        // Nothing new is no write.
        assert_eq!(store.upsert_codebase(named(1, "acme/app2"), at(9)).await.unwrap(), after);
    })
    .await;
}

#[tokio::test]
async fn a_repository_starts_in_the_mode_of_the_day_and_stays_in_its_own() {
    on_each_engine(async |store| {
        let old = codebase(&store, 1, "acme/app").await;
        let store = store.starting_in(CodebaseMode::Staged);
        let new = codebase(&store, 2, "acme/lib").await;
        assert_eq!((old.mode, new.mode), (CodebaseMode::On, CodebaseMode::Staged));
        let renamed = store.upsert_codebase(named(1, "acme/app2"), at(5)).await.unwrap();
        assert_eq!(renamed.mode, CodebaseMode::On, "it was met before");
        assert!(store.set_codebase_mode(old.id, CodebaseMode::Off, at(6)).await.unwrap());
        assert!(!store.set_codebase_mode(old.id, CodebaseMode::Off, at(7)).await.unwrap());
        let now = store.upsert_codebase(named(1, "acme/app3"), at(8)).await.unwrap();
        assert_eq!(now.mode, CodebaseMode::Off, "what GitHub says of it changes no mode");
    })
    .await;
}

/// BR-185: the old name goes to another repository.
#[tokio::test]
async fn a_name_that_was_given_away_leads_to_its_new_owner_only() {
    on_each_engine(async |store| {
        let old = codebase(&store, 1, "acme/app").await;
        environment(&store, &old, 5).await;
        let new = codebase(&store, 2, "acme/App").await;
        assert_ne!(new.id, old.id);
        assert_ne!(new.repository_dir, old.repository_dir);
        assert_eq!(store.find_codebase(&old.name).await.unwrap().unwrap().id, new.id);
        assert_eq!(store.live_environments(Some(new.id)).await.unwrap(), []);
        let old = store.load_codebase(old.id).await.unwrap().unwrap();
        assert!(!old.connected);
        // It cannot come back under a name that is another one's by now …
        assert!(!store.set_reach(old.id, old.reach, Reach::Whole, at(2)).await.unwrap());
        assert!(!store.load_codebase(old.id).await.unwrap().unwrap().connected);
        // … but under its own.
        let old = store.upsert_codebase(named(1, "acme/app2"), at(3)).await.unwrap();
        assert!(old.connected && store.load_codebase(new.id).await.unwrap().unwrap().connected);
        assert_eq!(store.list_codebases().await.unwrap().len(), 2);
    })
    .await;
}

/// BR-182: taken out of the installation and put back.
#[tokio::test]
async fn a_disconnected_repository_keeps_its_environments() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let kept = environment(&store, &app, 5).await;
        assert!(store.set_reach(app.id, Reach::Whole, Reach::NotSelected, at(1)).await.unwrap());
        // Whoever read it before that decides by what is no longer so.
        assert!(!store.set_reach(app.id, Reach::Whole, Reach::Suspended, at(1)).await.unwrap());
        assert!(!store.find_codebase_by_github(RepositoryId(1)).await.unwrap().unwrap().connected);
        assert_eq!(store.live_environments(None).await.unwrap(), [kept]);
        assert!(store.set_reach(app.id, Reach::NotSelected, Reach::Whole, at(2)).await.unwrap());
        assert!(store.load_codebase(app.id).await.unwrap().unwrap().connected);
    })
    .await;
}

#[tokio::test]
async fn a_thread_is_one_row_whatever_is_heard_of_it() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let first = conversation(&store, &app, 42).await;
        let new = NewConversation {
            platform: PlatformKind::Github,
            codebase: app.id,
            kind: ThreadKind::PullRequest,
            number: ThreadNumber(42),
            title: "Renamed".to_owned(),
            state: ThreadState::Open,
        };
        let second = store.upsert_conversation(new, at(1)).await.unwrap();
        let pull = ThreadId::Numbered { kind: ThreadKind::PullRequest, number: ThreadNumber(42) };
        assert_eq!((second.id, second.title.as_str(), &second.thread), (first.id, "Renamed", &pull));
        assert_eq!(store.find_conversation(app.id, ThreadNumber(42)).await.unwrap(), Some(second));
        let head = CommitSha::new(&"a".repeat(40)).unwrap();
        store.set_conversation_state(first.id, ThreadState::Merged, Some(head.clone()), at(2)).await.unwrap();
        let env = environment(&store, &app, 42).await;
        store.set_conversation_environment(first.id, Some(env.id), at(3)).await.unwrap();
        let closed = store.closed_conversations_with_environment().await.unwrap();
        assert_eq!(closed.len(), 1);
        assert_eq!((closed[0].state, closed[0].merged_head.clone()), (ThreadState::Merged, Some(head)));
    })
    .await;
}
