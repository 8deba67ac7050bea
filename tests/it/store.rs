//! The store, on SQLite always and on PostgreSQL where there is one.

mod codebases;
mod environments;
mod imports;
mod inbox;
mod local;
mod outbox;
mod plans;
mod records;
mod retention;
mod runs;
mod schema;
mod secrets;
mod unreadable;

use crate::support::postgres::Database;
use std::time::Duration;
use treewarden::{
    model::*,
    store::{
        Accepted, InboxWriter, Inserted, NewCodebase, NewConversation, NewDelivery, NewEnvironment, NewRun, Sender,
        Store,
    },
};

const LEASE: Duration = Duration::from_secs(60);

/// Runs a test against an empty, migrated store on each engine.
async fn on_each_engine(test: impl AsyncFn(Store)) {
    on_each_store(async |store, _| test(store).await).await;
}

/// The same, for a test that also needs the URL.
async fn on_each_store(test: impl AsyncFn(Store, &str)) {
    on_each_url(async |url| {
        let store = Store::open(&url).await.unwrap();
        store.migrate().await.unwrap();
        test(store.clone(), &url).await;
        store.close().await;
    })
    .await;
}

/// Runs a test against the URL of an empty database on each engine.
async fn on_each_url(test: impl AsyncFn(String)) {
    let home = tempfile::tempdir().unwrap();
    test(format!("sqlite://{}", home.path().join("store.db").display())).await;
    if let Some(database) = Database::create().await {
        test(database.url.clone()).await;
        database.drop().await;
    }
}

/// `seconds` after the beginning of these tests' time.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(1_800_000_000 + seconds)
}

fn delivery(guid: &str, key: Option<&str>) -> NewDelivery {
    NewDelivery {
        guid: guid.to_owned(),
        event: "issue_comment".to_owned(),
        conversation_key: key.map(str::to_owned),
        out_of_turn: false,
        body: format!("{{\"guid\":\"{guid}\"}}").into_bytes(),
        body_key: format!("sha-{guid}"),
        ignored_because: None,
        at: at(0),
    }
}

async fn accept(writer: &InboxWriter, new: NewDelivery) -> InboxId {
    match writer.accept(new).await.unwrap() {
        Accepted::New(id) => id,
        other => panic!("expected a new delivery, not {other:?}"),
    }
}

/// The next row to be sent, whichever lane it is in.
async fn claim_by(owner: &str, store: &Store, now: i64) -> Option<OutboxRow> {
    for lane in [Lane::Heard, Lane::Content] {
        let sender = Sender { owner, lane, lease: LEASE, apart: Pacing::default().status };
        if let Some(row) = store.claim_outgoing(&sender, at(now)).await.unwrap() {
            return Some(row);
        }
    }
    None
}

async fn codebase(store: &Store, github_id: i64, name: &str) -> Codebase {
    let new = NewCodebase {
        github_id: RepositoryId(github_id),
        installation: InstallationId(7),
        name: name.parse().unwrap(),
        default_branch: Some(BranchName::new("main").unwrap()),
        reached: true,
    };
    store.upsert_codebase(new, at(0)).await.unwrap()
}

async fn conversation(store: &Store, codebase: &Codebase, number: i64) -> Conversation {
    let new = NewConversation {
        platform: PlatformKind::Github,
        codebase: codebase.id,
        kind: ThreadKind::Issue,
        number: ThreadNumber(number),
        title: format!("Issue {number}"),
        state: ThreadState::Open,
    };
    store.upsert_conversation(new, at(0)).await.unwrap()
}

fn issue(number: i64) -> Work {
    Work { kind: WorkKind::Issue, id: number.to_string() }
}

fn new_environment(codebase: &Codebase, number: i64) -> NewEnvironment {
    NewEnvironment {
        codebase: codebase.id,
        work: issue(number),
        branch: BranchName::new(&format!("issue-{number}")).unwrap(),
        path: format!("/worktrees/{}/issue-{number}", codebase.name).into(),
        base: Some(BranchName::new("main").unwrap()),
        provider: "worktree".to_owned(),
        metadata: EnvironmentMetadata::default(),
    }
}

async fn environment(store: &Store, codebase: &Codebase, number: i64) -> Environment {
    match store.insert_environment(new_environment(codebase, number), 25, at(0)).await.unwrap() {
        Inserted::Created(environment) => environment,
        other => panic!("expected a new environment, got {other:?}"),
    }
}

/// A queued run that answers comment `comment` of a conversation, asked for by a delivery of its own.
async fn queued_run(store: &Store, conversation: &Conversation, comment: i64) -> Run {
    let new = wish(store, conversation, comment).await;
    store.insert_run(new, at(0)).await.unwrap()
}

/// A run that a comment asks for, with its delivery.
async fn wish(store: &Store, conversation: &Conversation, comment: i64) -> NewRun {
    let guid = format!("{}-{comment}", conversation.id);
    let delivery = accept(&store.inbox_writer(), delivery(&guid, None)).await;
    NewRun {
        codebase: conversation.codebase,
        conversation: conversation.id,
        delivery,
        request: RunRequest {
            requester: Person { id: UserId(1), login: "ada".to_owned(), is_bot: false },
            text: "add a greeting".to_owned(),
            source: MessageSource::IssueComment { id: CommentId(comment) },
            url: "https://github.test/octo/hello/issues/1#c".to_owned(),
            written_at: None,
            review: None,
        },
    }
}
