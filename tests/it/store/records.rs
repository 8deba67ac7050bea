//! Reports, the audit log, approvals, settings, browser sessions and numbers.

use super::{at, codebase, conversation, environment, on_each_engine, on_each_url, queued_run};
use ::time::OffsetDateTime;
use sqlx::{Connection, Executor, PgConnection, SqliteConnection, sqlite::SqliteConnectOptions};
use tower_sessions::{
    SessionStore,
    session::{Id, Record},
};
use treewarden::{
    model::*,
    store::{RunFilter, Store, Unfinished, WebSessions},
};
use uuid::Uuid;

#[tokio::test]
async fn reports_come_back_newest_first() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let env = environment(&store, &app, 1).await;
        let mut written = Vec::new();
        for dry_run in [true, false] {
            let result = ReportResult::Kept(vec!["it is pinned".to_owned()]);
            let report = CleanupReport {
                id: ReportId(Uuid::now_v7()),
                trigger: Trigger::Schedule,
                dry_run,
                lines: vec![ReportLine {
                    environment: Some(env.id),
                    repository: None,
                    branch: "issue-1".to_owned(),
                    result,
                    bytes_freed: Some(9),
                    bytes_reclaimed: 4,
                    notes: Vec::new(),
                }],
                started_at: at(1),
                ended_at: at(2),
            };
            store.insert_report(&report).await.unwrap();
            written.insert(0, report);
        }
        assert_eq!(store.list_reports(10).await.unwrap(), written);
    })
    .await;
}

#[tokio::test]
async fn the_audit_log_only_grows() {
    on_each_url(async |url| {
        let store = Store::open(&url).await.unwrap();
        store.migrate().await.unwrap();
        store.append_audit("ada", "environment.removed", "octo/hello#issue-42", "merged", at(1)).await.unwrap();
        for text in ["DELETE FROM audit_log", "UPDATE audit_log SET actor = 'nobody'"] {
            let refused = match url.strip_prefix("sqlite://") {
                Some(path) => {
                    let options = SqliteConnectOptions::new().filename(path);
                    SqliteConnection::connect_with(&options).await.unwrap().execute(text).await.is_err()
                }
                None => PgConnection::connect(&url).await.unwrap().execute(text).await.is_err(),
            };
            assert!(refused, "{text}");
        }
        let entry = store.list_audit(5).await.unwrap().remove(0);
        assert_eq!((entry.actor.as_str(), entry.action.as_str(), entry.at), ("ada", "environment.removed", at(1)));
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn settings_are_replaced() {
    on_each_engine(async |store| {
        assert_eq!(store.setting("mode").await.unwrap(), None);
        for value in [serde_json::json!({"mode": "staged", "n": 1.5}), serde_json::json!(123)] {
            store.set_setting("mode", &value, at(1)).await.unwrap();
            assert_eq!(store.setting("mode").await.unwrap(), Some(value));
        }
    })
    .await;
}

/// What was deleted is remembered for as long as it could still arrive.
#[tokio::test]
async fn deleted_messages_are_forgotten_in_time() {
    on_each_engine(async |store| {
        let comment = |id| MessageSource::IssueComment { id: CommentId(id) };
        let (repository, days) = (RepositoryId(1), |days: i64| at(days * 86_400));
        store.set_setting("mode", &serde_json::json!(1), days(0)).await.unwrap();
        store.note_deleted(repository, &comment(1), days(0)).await.unwrap();
        store.note_deleted(repository, &comment(2), days(29)).await.unwrap();
        assert!(store.was_deleted(repository, &comment(1)).await.unwrap());
        store.note_deleted(repository, &comment(3), days(31)).await.unwrap();
        assert!(!store.was_deleted(repository, &comment(1)).await.unwrap());
        assert!(store.was_deleted(repository, &comment(2)).await.unwrap());
        assert!(store.setting("mode").await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn web_sessions_live_until_they_expire_or_are_deleted() {
    on_each_engine(async |store| {
        let sessions = WebSessions::new(store.clone());
        let expiry_date = OffsetDateTime::from_unix_timestamp(4_000_000_000).unwrap();
        let data = [("login".to_owned(), serde_json::json!("ada"))].into();
        let mut record = Record { id: Id(1), data, expiry_date };
        sessions.create(&mut record).await.unwrap();
        assert_eq!(sessions.load(&Id(1)).await.unwrap(), Some(record.clone()));
        let mut second = Record { id: Id(1), ..record.clone() };
        sessions.create(&mut second).await.unwrap();
        assert_ne!(second.id, Id(1), "an id is given once");
        record.data.clear();
        sessions.save(&record).await.unwrap();
        assert_eq!(sessions.load(&Id(1)).await.unwrap(), Some(record.clone()));
        sessions.delete(&Id(1)).await.unwrap();
        sessions.save(&record).await.unwrap();
        assert_eq!(sessions.load(&Id(1)).await.unwrap(), None, "a logout is final");
        second.expiry_date = OffsetDateTime::from_unix_timestamp(1_000_000_000).unwrap();
        sessions.save(&second).await.unwrap();
        assert_eq!(sessions.load(&second.id).await.unwrap(), None, "it has expired");
        assert_eq!(sessions.prune(at(0)).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn numbers_count_what_is_there() {
    on_each_engine(async |store| {
        assert!(store.unfinished().await.unwrap().is_empty());
        let app = codebase(&store, 1, "acme/app").await;
        environment(&store, &app, 1).await;
        let thread = conversation(&store, &app, 1).await;
        queued_run(&store, &thread, 1).await;
        assert_eq!(store.unfinished().await.unwrap(), Unfinished { deliveries: 1, runs: 1, outgoing: 0 });
        assert_eq!(store.run_counts().await.unwrap(), [(RunState::Queued, 1)]);
        assert_eq!(store.environment_counts().await.unwrap(), [(EnvironmentState::Creating, 1)]);
        // What is over is not counted.
        let live = store.live_environments(None).await.unwrap().remove(0);
        store.destroy_environment(&live, None, at(1)).await.unwrap();
        let run = store.list_runs(RunFilter::All, 1, 0).await.unwrap().remove(0);
        store.request_cancel_of_run(run.id, "stopped", at(1)).await.unwrap();
        assert_eq!(store.run_counts().await.unwrap(), []);
        assert_eq!(store.environment_counts().await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn an_approval_takes_the_place_of_the_one_before_and_ends_by_its_commit() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let thread = conversation(&store, &app, 1).await;
        let sha = |digit: &str| CommitSha::new(&digit.repeat(40)).unwrap();
        assert_eq!(store.load_approval(thread.id).await.unwrap(), None);
        let given = |head, second| Approval {
            conversation: thread.id,
            head,
            approver: UserId(5),
            login: "ada".to_owned(),
            approved_at: at(second),
            ended_at: None,
        };
        for approval in [given(sha("a"), 1), given(sha("b"), 2)] {
            store.put_approval(&approval).await.unwrap();
            assert_eq!(store.load_approval(thread.id).await.unwrap(), Some(approval));
        }
        assert!(!store.end_approval(thread.id, &sha("a"), at(3)).await.unwrap(), "an older one");
        assert!(store.end_approval(thread.id, &sha("b"), at(4)).await.unwrap());
        assert!(!store.end_approval(thread.id, &sha("b"), at(5)).await.unwrap(), "ended before");
        assert_eq!(store.load_approval(thread.id).await.unwrap().unwrap().ended_at, Some(at(4)));
        store.put_approval(&given(sha("b"), 6)).await.unwrap();
        assert_eq!(store.load_approval(thread.id).await.unwrap(), Some(given(sha("b"), 6)), "given anew");
    })
    .await;
}
