//! What is over has an end, and what later proofs rest on has none.

use super::{LEASE, accept, at, claim_by, codebase, conversation, delivery, environment, on_each_engine, queued_run};
use treewarden::{
    model::*,
    store::{
        Accepted, DeliveryEnd, Edge, NewDelivery, NewOutgoing, NewSession, OutgoingEnd, Outlived, RunFilter, Store,
    },
};
use uuid::Uuid;

const DAY: i64 = 86_400;

/// All pieces; how many rows that were.
async fn forget(store: &Store, what: Outlived, before: Timestamp) -> u64 {
    let (mut from, mut all) = (Some(Edge::START), 0);
    while let Some(edge) = from {
        let (forgotten, next) = store.forget_piece(what, edge, before).await.unwrap();
        (all, from) = (all + forgotten, next);
    }
    all
}

/// Nothing is left to be forgotten.
async fn forget_all(store: &Store, before: Timestamp) -> Vec<u64> {
    let mut all = Vec::new();
    for what in Outlived::ALL {
        all.push(forget(store, what, before).await);
        assert_eq!(forget(store, what, before).await, 0, "{what:?}");
    }
    all
}

async fn handle(store: &Store, end: DeliveryEnd, now: i64) -> InboxId {
    let taken = store.claim_delivery("node", at(now), LEASE).await.unwrap().unwrap();
    assert!(store.finish_delivery(&taken, end, at(now)).await.unwrap());
    taken.id
}

#[tokio::test]
async fn deliveries_go_and_those_of_runs_only_lose_their_body() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let writer = store.inbox_writer();
        let run = queued_run(&store, &conversation(&store, &app, 1).await, 1).await;
        let of_run = handle(&store, DeliveryEnd::Done("a run".to_owned()), 1).await;
        assert_eq!(of_run, run.delivery);
        let mut over = Vec::new();
        for (guid, end) in [
            ("done", DeliveryEnd::Done("answered".to_owned())),
            ("ignored", DeliveryEnd::Ignored("nobody is meant".to_owned())),
            ("failed", DeliveryEnd::Failed("no".to_owned())),
        ] {
            accept(&writer, delivery(guid, None)).await;
            over.push(handle(&store, end, 1).await);
        }
        accept(&writer, delivery("late", None)).await;
        let late = handle(&store, DeliveryEnd::Done("x".to_owned()), 10 * DAY).await;
        let waiting = accept(&writer, delivery("waiting", None)).await;

        assert_eq!(forget_all(&store, at(1)).await, [0; 6], "it was over at that moment, not before");
        assert_eq!(forget_all(&store, at(10 * DAY)).await, [3, 1, 0, 0, 0, 0]);
        for id in over {
            assert_eq!(store.load_delivery(id).await.unwrap(), None);
        }
        let left = store.load_delivery(of_run).await.unwrap().unwrap();
        assert_eq!((left.body, left.state, left.reason.as_deref()), (Vec::new(), InboxState::Done, Some("a run")));
        assert_eq!(store.load_run(run.id).await.unwrap().unwrap().delivery, of_run);
        assert!(!store.load_delivery(late).await.unwrap().unwrap().body.is_empty());
        assert!(!store.load_delivery(waiting).await.unwrap().unwrap().body.is_empty());
        // What is here is known by its GUID and by its body, also without that.
        let again = |guid: &str| NewDelivery { at: at(11 * DAY), ..delivery(guid, None) };
        assert!(store.knows_delivery(&left.guid).await.unwrap());
        for guid in [&left.guid, "late", "waiting"] {
            assert_eq!(writer.accept(again(guid)).await.unwrap(), Accepted::Duplicate);
        }
        let other_guid = NewDelivery { guid: "other".to_owned(), ..again("late") };
        assert_eq!(writer.accept(other_guid).await.unwrap(), Accepted::Duplicate);
    })
    .await;
}

#[tokio::test]
async fn many_go_in_pieces() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        for number in 0..450 {
            let new = NewDelivery { ignored_because: Some("x".to_owned()), ..delivery(&format!("d{number}"), None) };
            assert_eq!(writer.accept(new).await.unwrap(), Accepted::Ignored);
        }
        let kept = accept(&writer, delivery("kept", None)).await;
        let (first, next) = store.forget_piece(Outlived::Deliveries, Edge::START, at(DAY)).await.unwrap();
        assert!(first == 201 && next.is_some(), "{first}");
        assert_eq!(forget(&store, Outlived::Deliveries, at(DAY)).await, 249);
        assert_eq!(store.list_deliveries(10, 0).await.unwrap().len(), 1);
        assert!(store.load_delivery(kept).await.unwrap().is_some());
    })
    .await;
}

async fn say(store: &Store, codebase: &Codebase, key: &str, end: Option<OutgoingEnd>) {
    let outgoing = Outgoing::Comment { number: ThreadNumber(1), body: "said".to_owned(), marker: key.to_owned() };
    let (key, conversation) = (key.to_owned(), None);
    let new = NewOutgoing { key, codebase: codebase.id, conversation, outgoing, turn: Turn::Result, not_before: at(0) };
    store.enqueue(new, at(0)).await.unwrap();
    let Some(end) = end else { return };
    let row = claim_by("node", store, 1).await.unwrap();
    assert!(store.finish_outgoing(&row, "node", end, at(1)).await.unwrap());
}

#[tokio::test]
async fn what_was_said_goes_unless_it_is_how_that_is_known() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let thread = conversation(&store, &app, 1).await;
        let live = queued_run(&store, &thread, 1).await;
        let sent = || Some(OutgoingEnd::Sent { remote_id: Some(7) });
        let over = format!("status/{}", Uuid::now_v7());
        for key in ["react/1/eyes", &over, "pull/2", "loop/1/2"] {
            say(&store, &app, key, sent()).await;
        }
        say(&store, &app, "status/given-up", Some(OutgoingEnd::Failed("no".to_owned()))).await;
        // A message is answered once, whenever it is edited; the others are said once to somebody.
        let stay = [
            "answer/1/comment/2".to_owned(),
            "refusal/1/2".to_owned(),
            "cleanup/1/2".to_owned(),
            format!("status/{}", live.id),
        ];
        for key in &stay {
            say(&store, &app, key, sent()).await;
        }
        say(&store, &app, "react/2/eyes", None).await;
        assert_eq!(forget(&store, Outlived::Outgoing, at(1)).await, 0);
        assert_eq!(forget(&store, Outlived::Outgoing, at(2)).await, 5);
        let mut left: Vec<_> = store.list_outgoing(20).await.unwrap().into_iter().map(|row| row.key).collect();
        left.reverse();
        assert_eq!(left[..4], stay);
        assert_eq!(left[4..], ["react/2/eyes"]);
    })
    .await;
}

#[tokio::test]
async fn sessions_and_reports_go_and_what_proves_something_stays() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let (env, thread) = (environment(&store, &app, 1).await, conversation(&store, &app, 1).await);
        let session = |id: &str| NewSession {
            conversation: thread.id,
            environment: env.id,
            agent: "toy".to_owned(),
            external_id: id.to_owned(),
        };
        store.open_session(session("old"), at(0)).await.unwrap();
        store.close_sessions_of(thread.id, "reset", at(1)).await.unwrap();
        let open = store.open_session(session("open"), at(1)).await.unwrap();
        for (ended, dry_run) in [(1, true), (1, false), (9, false)] {
            let id = ReportId(Uuid::now_v7());
            let trigger = Trigger::Schedule;
            let report =
                CleanupReport { id, trigger, dry_run, lines: Vec::new(), started_at: at(0), ended_at: at(ended) };
            store.insert_report(&report).await.unwrap();
        }
        let run = queued_run(&store, &thread, 1).await;
        store.append_audit("ada", "environment.removed", "x", "merged", at(0)).await.unwrap();
        assert_eq!(forget_all(&store, at(5)).await, [0, 0, 0, 1, 2, 0]);
        assert_eq!(store.live_session(thread.id, env.id).await.unwrap(), Some(open));
        assert_eq!(store.list_reports(9).await.unwrap().len(), 1);
        assert_eq!(store.list_audit(9).await.unwrap().len(), 1);
        assert_eq!(store.list_runs(RunFilter::All, 9, 0).await.unwrap()[0].id, run.id);
        assert!(store.load_environment(env.id).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn how_a_repository_was_looked_after_is_remembered() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        assert_eq!(store.load_maintained(app.id).await.unwrap(), Maintained::default());
        let trouble = Some(MaintenanceTrouble { since: at(1), tried_at: at(2), why: "no room".to_owned() });
        let known = Maintained { packed_at: Some(at(1)), repacked_at: None, trouble };
        store.save_maintained(app.id, &known, at(2)).await.unwrap();
        assert_eq!(store.load_maintained(app.id).await.unwrap(), known);
        let key = format!("maintenance/{}", app.id);
        store.set_setting(&key, &serde_json::json!(["of another version"]), at(3)).await.unwrap();
        assert_eq!(store.load_maintained(app.id).await.unwrap(), Maintained::default());
    })
    .await;
}
