//! Threads, messages and repositories of this machine.

use super::{
    Accepted, NewDelivery, at, codebase, conversation, delivery, environment, issue, on_each_engine, queued_run,
};
use std::path::Path;
use treewarden::{
    model::*,
    store::{LocalActivity, NewLocalCodebase, NewLocalMessage, NewNamedThread, NewOutgoing, Store},
};
use uuid::Uuid;

fn name(text: &str) -> ThreadName {
    ThreadName::new(text).unwrap()
}

async fn thread(store: &Store, codebase: &Codebase, text: &str) -> Conversation {
    let new = NewNamedThread {
        platform: PlatformKind::Local,
        codebase: codebase.id,
        name: name(text),
        title: format!("About {text}"),
    };
    store.upsert_named_thread(new, at(0)).await.unwrap()
}

fn message(conversation: &Conversation, id: u128, author: Option<&str>, body: &str) -> NewLocalMessage {
    NewLocalMessage {
        id: LocalMessageId(Uuid::from_u128(id)),
        conversation: conversation.id,
        author: author.map(str::to_owned),
        answers: None,
        body: body.to_owned(),
    }
}

async fn at_path(store: &Store, path: &str, called: &str) -> Codebase {
    let new = NewLocalCodebase { path: path.into(), name: called.parse().unwrap(), default_branch: None };
    store.upsert_local_codebase(new, at(1)).await.unwrap()
}

#[tokio::test]
async fn a_named_thread_is_one_row_beside_the_numbered_ones() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let first_issue = conversation(&store, &app, 1).await;
        let chat = thread(&store, &app, "chat").await;
        assert_eq!((&chat.thread, chat.thread.number()), (&ThreadId::Named(name("chat")), None));
        assert_eq!(Work::of_thread(&chat.thread).kind, WorkKind::Thread);
        let other = codebase(&store, 2, "acme/other").await;
        let again = thread(&store, &other, "chat").await;
        assert_eq!((again.id, again.codebase), (chat.id, app.id), "a name is one thread, wherever it is said");
        assert_ne!(thread(&store, &app, "Chat").await.id, chat.id);
        // Numbers of issues are no names.
        assert_eq!(
            store.find_conversation(app.id, ThreadNumber(1)).await.unwrap().map(|one| one.id),
            Some(first_issue.id)
        );
        assert_eq!(store.find_conversation(app.id, ThreadNumber(2)).await.unwrap(), None);
        assert_eq!(store.find_named_thread(PlatformKind::Local, &name("1")).await.unwrap(), None);
        // Together for one environment.
        let env = environment(&store, &app, 1).await;
        for conversation in [&first_issue, &chat] {
            store.set_conversation_environment(conversation.id, Some(env.id), at(2)).await.unwrap();
        }
        let users = store.conversations_of(env.id).await.unwrap();
        assert_eq!(users.iter().map(|user| user.id).collect::<Vec<_>>(), [first_issue.id, chat.id]);
        assert_eq!(env.work, issue(1));
    })
    .await;
}

#[tokio::test]
async fn threads_that_begin_at_once_are_one_each() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let names = ["a", "b", "a", "b", "c", "a"];
        let made = futures::future::join_all(names.map(|text| thread(&store, &app, text))).await;
        let mut ids: Vec<_> = made.iter().map(|thread| thread.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 3, "{made:?}");
    })
    .await;
}

#[tokio::test]
async fn what_is_edited_keeps_its_id_and_is_new_to_whoever_read_before() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let chat = thread(&store, &app, "chat").await;
        let read = async |after| {
            let read = store.local_messages(chat.id, after, 10).await.unwrap();
            read.into_iter().map(|one| (one.id.0.as_u128(), one.body, one.written)).collect::<Vec<_>>()
        };
        store.write_local_message(&message(&chat, 1, Some("local"), "please"), at(1)).await.unwrap();
        store.write_local_message(&message(&chat, 2, None, "working"), at(2)).await.unwrap();
        assert_eq!(read(0).await, [(1, "please".to_owned(), 1), (2, "working".to_owned(), 2)]);
        // The same again is nothing new.
        store.write_local_message(&message(&chat, 2, None, "working"), at(3)).await.unwrap();
        assert!(read(2).await.is_empty());
        store.write_local_message(&message(&chat, 2, None, "done"), at(4)).await.unwrap();
        assert_eq!(read(2).await, [(2, "done".to_owned(), 3)]);
        let edited = store.local_messages(chat.id, 2, 10).await.unwrap().remove(0);
        assert_eq!((edited.created_at, edited.updated_at, edited.author), (at(2), at(4), None));
        // What is forgotten is gone, and numbers go on: nobody who read before misses anything.
        store.forget_local_messages(chat.id).await.unwrap();
        assert!(read(0).await.is_empty());
        store.write_local_message(&message(&chat, 3, None, "later"), at(5)).await.unwrap();
        assert_eq!(read(3).await, [(3, "later".to_owned(), 4)]);
    })
    .await;
}

#[tokio::test]
async fn messages_that_are_written_at_once_have_numbers_of_their_own() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let chat = thread(&store, &app, "chat").await;
        let write = async |id| store.write_local_message(&message(&chat, id, None, "x"), at(1)).await.unwrap();
        futures::future::join_all((1..=8).map(write)).await;
        let all = store.local_messages(chat.id, 0, 100).await.unwrap();
        assert_eq!(all.iter().map(|one| one.written).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_thread_is_busy_from_the_delivery_to_the_last_message() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let chat = thread(&store, &app, "chat").await;
        let busy = async || store.local_activity("local chat", Some(chat.id)).await.unwrap();
        assert!(busy().await.is_over());
        let writer = store.inbox_writer();
        for (guid, out_of_turn) in [("one", false), ("two", true)] {
            let new = NewDelivery { out_of_turn, ..delivery(guid, Some("local chat")) };
            assert!(matches!(writer.accept(new).await.unwrap(), Accepted::New(_)));
        }
        assert_eq!(busy().await, LocalActivity { deliveries: 2, ..LocalActivity::default() });
        assert!(
            store.find_delivery("one").await.unwrap().is_some() && store.find_delivery("no").await.unwrap().is_none()
        );
        let run = queued_run(&store, &chat, 5).await;
        let outgoing = Outgoing::Message { body: "hello".to_owned() };
        let (key, conversation) = ("k".to_owned(), Some(chat.id));
        let new = NewOutgoing { key, codebase: app.id, conversation, turn: Turn::Result, outgoing, not_before: at(0) };
        store.enqueue(new, at(0)).await.unwrap();
        assert_eq!(busy().await, LocalActivity { deliveries: 2, runs: 1, outgoing: 1 });
        assert!(store.local_activity("local cha", None).await.unwrap().is_over());
        // A message tells the state of the run it asked for.
        store.write_local_message(&message(&chat, run.delivery.0.as_u128(), Some("local"), "x"), at(1)).await.unwrap();
        assert_eq!(store.local_messages(chat.id, 0, 1).await.unwrap()[0].run, Some(RunState::Queued));
    })
    .await;
}

#[tokio::test]
async fn a_repository_is_known_by_its_path() {
    on_each_engine(async |store| {
        let first = at_path(&store, "/home/ann/hello", "_local/hello").await;
        let Host::Local { path } = &first.host else { panic!("{first:?}") };
        assert_eq!((path.as_path(), first.repository_dir.as_str()), (Path::new("/home/ann/hello"), "_local/hello.git"));
        assert_eq!((first.github_id(), first.installation(), first.connected), (None, None, true));
        assert_eq!(at_path(&store, "/home/ann/hello", "_local/hello").await, first, "nothing new is no write");
        // Another one of this name.
        let second = at_path(&store, "/home/bob/Hello", "_local/Hello").await;
        assert_ne!((second.id, &second.name), (first.id, &first.name));
        assert!(second.name.to_string().starts_with("_local/Hello-"), "{}", second.name);
        assert_eq!(at_path(&store, "/home/bob/Hello", "_local/Hello").await.name, second.name);
        let main = NewLocalCodebase {
            path: "/home/ann/hello".into(),
            name: first.name.clone(),
            default_branch: BranchName::new("main").ok(),
        };
        let renewed = store.upsert_local_codebase(main, at(2)).await.unwrap();
        assert_eq!((renewed.id, renewed.default_branch.is_some()), (first.id, true));
        assert_eq!(at_path(&store, "/home/ann/hello", "_local/hello").await.default_branch, renewed.default_branch);
        // GitHub's are no concern of theirs, and the other way round.
        codebase(&store, 1, "acme/app").await;
        store.set_reach(second.id, second.reach, Reach::Whole, at(3)).await.unwrap();
        assert_eq!(store.list_codebases().await.unwrap().len(), 3);
        assert_eq!(
            store.find_codebase(&"_local/hello".parse().unwrap()).await.unwrap().map(|one| one.id),
            Some(first.id)
        );
    })
    .await;
}

/// What came from another installation before there was an adapter.
#[tokio::test]
async fn a_held_thread_is_taken_over_once_under_its_id() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "octo/hello").await;
        let other = codebase(&store, 2, "octo/other").await;
        let plan = |text: &str| ImportPlan {
            conversations: vec![ConversationImport {
                row: OldName { table: OldTable::Conversations, id: "1".to_owned(), about: String::new() },
                thread: ThreadImport::Held {
                    platform: PlatformKind::Local,
                    thread: text.to_owned(),
                    repository: Some(RepositoryId(1)),
                },
                place: PlaceImport::Legacy("/w/chat".into()),
                created_at: at(-100),
                last_activity_at: at(-50),
            }],
            ..ImportPlan::default()
        };
        for text in ["chat", "else"] {
            store.import(&plan(text), true, at(0)).await.unwrap();
        }
        let held = store.held_conversations().await.unwrap();
        let chat = thread(&store, &app, "chat").await;
        assert_eq!((chat.id, chat.created_at, chat.codebase), (held[0].id, at(-100), app.id));
        assert_eq!(store.legacy_path(chat.id).await.unwrap(), Some("/w/chat".into()));
        // The other one is about another repository.
        assert_ne!(thread(&store, &other, "else").await.id, held[1].id);
        assert_eq!(store.held_conversations().await.unwrap(), held[1..]);
        // It does not come again.
        assert_eq!(store.import(&plan("chat"), true, at(1)).await.unwrap().conversations, [Import::Present]);
        assert_eq!(store.held_conversations().await.unwrap().len(), 1);
    })
    .await;
}
