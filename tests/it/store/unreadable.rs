//! A row with a column that does not hold what it should stands in nobody's way.

use super::{
    LEASE, accept, at, claim_by, codebase, conversation, delivery, environment, on_each_store, queued_run,
    schema::{raw, raw_text},
};
use treewarden::{
    model::*,
    store::{EnvironmentFilter, LeftBehind, NewOutgoing, OutgoingEnd, RunFilter, Store},
};
use uuid::Uuid;

async fn claim_run(store: &Store, now: i64) -> Option<Run> {
    store.claim_run("node", at(now), LEASE, 4).await.unwrap()
}

#[tokio::test]
async fn a_delivery_with_a_damaged_body_fails_and_the_next_is_served() {
    on_each_store(async |store, url| {
        let writer = store.inbox_writer();
        for guid in ["g1", "g2"] {
            accept(&writer, delivery(guid, Some("1#1"))).await;
        }
        let sqlite = url.starts_with("sqlite");
        let damage =
            ["UPDATE inbox SET body = '\\x00' WHERE guid = 'g1'", "UPDATE inbox SET body = x'00' WHERE guid = 'g1'"];
        raw(url, damage[usize::from(sqlite)]).await;

        let next = store.claim_delivery("node", at(1), LEASE).await.unwrap().unwrap();
        assert_eq!(next.guid, "g2");
        let lines = store.list_deliveries(5, 0).await.unwrap();
        let failed = lines.iter().find(|line| line.guid == "g1").unwrap();
        assert_eq!((failed.state, failed.finished_at), (InboxState::Failed, Some(at(1))));
        assert!(failed.reason.as_ref().unwrap().contains("column body"), "{failed:?}");
        assert_eq!(store.claim_delivery("node", at(1), LEASE).await.unwrap(), None);
        // Sent again, it is whole again.
        let again = accept(&writer, delivery("g1", Some("1#1"))).await;
        assert_eq!(again, failed.id);
        assert_eq!(store.load_delivery(again).await.unwrap().unwrap().body, delivery("g1", None).body);
    })
    .await;
}

/// Only one of the engines keeps such a thing.
#[tokio::test]
async fn a_row_without_a_usable_id_is_given_up_as_well() {
    on_each_store(async |store, url| {
        if !url.starts_with("sqlite") {
            return;
        }
        let writer = store.inbox_writer();
        for guid in ["g1", "g2"] {
            accept(&writer, delivery(guid, None)).await;
        }
        raw(url, "UPDATE inbox SET id = '0 is no id' WHERE guid = 'g2'").await;
        assert_eq!(store.claim_delivery("node", at(1), LEASE).await.unwrap().unwrap().guid, "g1");
        let said = raw_text(url, "SELECT state || ': ' || reason FROM inbox WHERE guid = 'g2'").await;
        assert!(said.starts_with("failed: ") && said.contains("column id"), "{said}");
    })
    .await;
}

#[tokio::test]
async fn runs_that_cannot_be_read_do_not_stop_the_others() {
    on_each_store(async |store, url| {
        let app = codebase(&store, 1, "acme/app").await;
        let mut runs = Vec::new();
        for number in 1..=12 {
            runs.push(queued_run(&store, &conversation(&store, &app, number).await, number).await);
        }
        raw(url, "UPDATE runs SET request = '{}' WHERE source_comment = 1").await;
        raw(url, "UPDATE runs SET outcome = '[1]' WHERE source_comment > 1 AND source_comment < 11").await;
        assert_eq!(claim_run(&store, 1).await.unwrap().id, runs[10].id);
        assert_eq!(claim_run(&store, 1).await.unwrap().id, runs[11].id);
        assert_eq!(store.unfinished().await.unwrap().runs, 2);
        let said = raw_text(url, "SELECT state || ': ' || reason FROM runs WHERE source_comment = 1").await;
        assert!(said.starts_with("failed: ") && said.contains("column request"), "{said}");
        let free = "SELECT CAST(count(*) AS TEXT) FROM runs WHERE lease_owner IS NULL AND lease_until IS NULL
                    AND ended_at IS NOT NULL";
        assert_eq!(raw_text(url, free).await, "10");
    })
    .await;
}

#[tokio::test]
async fn one_damaged_run_hides_no_other_from_a_restart() {
    on_each_store(async |store, url| {
        let app = codebase(&store, 1, "acme/app").await;
        for number in 1..=4 {
            queued_run(&store, &conversation(&store, &app, number).await, number).await;
        }
        let mut runs = Vec::new();
        for _ in 0..4 {
            let mut run = claim_run(&store, 0).await.unwrap();
            run.state = RunState::Running;
            assert!(store.update_run(&run, "node").await.unwrap());
            runs.push(run);
        }
        raw(url, "UPDATE runs SET process = '\"gone\"' WHERE source_comment IN (1, 3)").await;
        // Somebody who holds it does not need to read it.
        assert_eq!(store.heartbeat_run(&runs[0], "node", at(60)).await.unwrap(), Some(false));

        raw(url, "UPDATE runs SET lease_owner = 'other' WHERE source_comment > 2").await;
        let left = store.release_runs_of("node", at(1)).await.unwrap();
        assert_eq!(left.unreadable, [runs[0].id]);
        assert_eq!(left.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [runs[1].id]);
        let expired = store.take_over_expired_runs("node", at(60)).await.unwrap();
        assert_eq!(expired.unreadable, [runs[2].id]);
        assert_eq!(expired.runs.len(), 2);
        for run in expired.runs {
            let ended = Run { state: RunState::Interrupted, ended_at: Some(at(61)), ..run };
            assert!(store.finish_run(&ended, "node", None, at(61)).await.unwrap());
        }
        assert_eq!(store.take_over_expired_runs("node", at(500)).await.unwrap(), LeftBehind::default());
        let said = raw_text(url, "SELECT state || ': ' || reason FROM runs WHERE source_comment = 3").await;
        assert!(said.starts_with("failed: ") && said.contains("column process"), "{said}");
    })
    .await;
}

#[tokio::test]
async fn a_wish_that_cannot_be_read_holds_up_no_other() {
    on_each_store(async |store, url| {
        let app = codebase(&store, 1, "acme/app").await;
        let wish = |key: &str, body: &str| NewOutgoing {
            key: key.to_owned(),
            codebase: app.id,
            conversation: None,
            outgoing: Outgoing::Comment { number: ThreadNumber(1), body: body.to_owned(), marker: key.to_owned() },
            turn: Turn::Result,
            not_before: at(0),
        };
        for key in ["k1", "k2"] {
            store.enqueue(wish(key, "hello"), at(0)).await.unwrap();
        }
        raw(url, "UPDATE outbox SET outgoing = '{\"kind\":\"fax\"}' WHERE key = 'k1'").await;
        let row = claim_by("node", &store, 1).await.unwrap();
        assert_eq!(row.key, "k2");
        let sent = OutgoingEnd::Sent { remote_id: None };
        assert!(store.finish_outgoing(&row, "node", sent, at(1)).await.unwrap());
        let said = raw_text(url, "SELECT state || ': ' || last_error FROM outbox WHERE key = 'k1'").await;
        assert!(said.starts_with("failed: ") && said.contains("column outgoing"), "{said}");
        assert!(store.unfinished().await.unwrap().is_empty());
        assert_eq!(store.list_outgoing(5).await.unwrap().len(), 1);
        // Something else wanted under its key is sent like any other.
        store.enqueue(wish("k1", "hello again"), at(2)).await.unwrap();
        assert_eq!(claim_by("node", &store, 2).await.unwrap().key, "k1");
    })
    .await;
}

#[tokio::test]
async fn a_list_leaves_out_what_it_cannot_read_and_is_as_long_as_ever() {
    on_each_store(async |store, url| {
        let app = codebase(&store, 1, "acme/app").await;
        let (mut runs, mut removed) = (Vec::new(), Vec::new());
        for number in 1..=4 {
            let live = environment(&store, &app, number).await;
            removed.push(live.id);
            let receipt = ReceiptDetails { branch: format!("issue-{number}"), ..ReceiptDetails::default() };
            store.destroy_environment(&live, Some((Trigger::Schedule, receipt)), at(1)).await.unwrap();
            runs.push(queued_run(&store, &conversation(&store, &app, number).await, number).await);
            let report = CleanupReport {
                id: ReportId(Uuid::now_v7()),
                trigger: Trigger::Schedule,
                dry_run: false,
                lines: Vec::new(),
                started_at: at(number),
                ended_at: at(9),
            };
            store.insert_report(&report).await.unwrap();
        }
        raw(url, "UPDATE runs SET outcome = '\"x\"' WHERE source_comment = 3").await;
        raw(url, "UPDATE inbox SET state = 'lost' WHERE id = (SELECT delivery_id FROM runs WHERE source_comment = 3)")
            .await;
        raw(url, "UPDATE isolation_environments SET metadata = '\"x\"' WHERE branch = 'issue-3'").await;
        raw(
            url,
            "UPDATE receipts SET details = '\"x\"'
             WHERE environment_id = (SELECT id FROM isolation_environments WHERE branch = 'issue-3')",
        )
        .await;
        raw(
            url,
            "UPDATE cleanup_reports SET lines = '\"x\"' WHERE CAST(id AS TEXT) = (SELECT max(CAST(id AS TEXT)) FROM cleanup_reports)",
        )
        .await;

        let ids = |runs: Vec<Run>| runs.iter().map(|run| run.id).collect::<Vec<_>>();
        // The page behind begins where this one would have ended.
        let page = ids(store.list_runs(RunFilter::default(), 3, 0).await.unwrap());
        assert_eq!(page, [runs[3].id, runs[1].id, runs[0].id]);
        assert_eq!(ids(store.list_runs(RunFilter::default(), 3, 1).await.unwrap()), page[1..]);
        assert_eq!(ids(store.list_runs(RunFilter::default(), 2, 0).await.unwrap()), page[..2]);
        assert_eq!(store.list_deliveries(3, 0).await.unwrap().len(), 3);
        let environments = store.list_environments(&EnvironmentFilter::default(), 3, 0).await.unwrap();
        assert_eq!(environments.iter().map(|one| one.work.id.as_str()).collect::<Vec<_>>(), ["4", "2", "1"]);
        let receipts = store.list_receipts(3).await.unwrap();
        assert_eq!(
            receipts.iter().map(|one| one.details.branch.as_str()).collect::<Vec<_>>(),
            ["issue-4", "issue-2", "issue-1"]
        );
        assert!(store.receipt_of(environments[0].id).await.unwrap().is_some());
        let reports = store.list_reports(3).await.unwrap();
        assert_eq!(reports.iter().map(|report| report.started_at).collect::<Vec<_>>(), [at(3), at(2), at(1)]);
        // What a decision rests on is whole, or an error.
        assert!(store.load_run(runs[2].id).await.is_err());
        assert!(store.receipt_of(removed[2]).await.unwrap_err().is_corrupt());
    })
    .await;
}
