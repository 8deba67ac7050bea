//! Accepting deliveries, and handing them out in order, once.

use super::{LEASE, accept, at, delivery, on_each_engine, on_each_url, schema::raw};
use futures::future::join_all;
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use treewarden::{
    model::*,
    store::{Accepted, DeliveryEnd, InboxWriter, NewDelivery, Store, StoreError},
};

async fn claim(store: &Store, now: i64) -> Option<Delivery> {
    store.claim_delivery("node", at(now), LEASE).await.unwrap()
}

async fn finish(store: &Store, delivery: &Delivery, now: i64) -> bool {
    store.finish_delivery(delivery, DeliveryEnd::Done("run".to_owned()), at(now)).await.unwrap()
}

#[tokio::test]
async fn a_delivery_comes_back_as_it_was_signed() {
    on_each_engine(async |store| {
        let mut new = delivery("g1", Some("1#42"));
        new.body = (0..=255_u8).cycle().take(1_000_000).collect();
        let body = new.body.clone();
        let id = accept(&store.inbox_writer(), new).await;
        let stored = store.load_delivery(id).await.unwrap().unwrap();
        assert_eq!((stored.guid.as_str(), stored.state, stored.received_at), ("g1", InboxState::Received, at(0)));
        assert_eq!(stored.conversation_key.as_deref(), Some("1#42"));
        assert!(stored.body == body);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_delivery_is_taken_once() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        let (one, two) = (store.inbox_writer(), store.inbox_writer());
        // Ten at once through each of two writers.
        let sends = (0..20).map(|n| if n % 2 == 0 { one.clone() } else { two.clone() });
        let answers =
            join_all(sends.map(|writer| async move { writer.accept(delivery("g1", None)).await.unwrap() })).await;
        assert_eq!(answers.iter().filter(|answer| **answer != Accepted::Duplicate).count(), 1);
        // The headers are not signed: another id with the same body is the same delivery.
        let mut replayed = delivery("g1", None);
        replayed.guid = "other".to_owned();
        assert_eq!(writer.accept(replayed.clone()).await.unwrap(), Accepted::Duplicate);
        replayed.event = "issues".to_owned();
        assert!(matches!(writer.accept(replayed).await.unwrap(), Accepted::New(_)));
        assert_eq!(store.unfinished().await.unwrap().deliveries, 2);
    })
    .await;
}

#[tokio::test]
async fn waiting_deliveries_are_committed_in_groups_and_keep_their_order() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        let sends = (0..600).map(|n| {
            let writer = writer.clone();
            async move { accept(&writer, delivery(&format!("g{n}"), None)).await }
        });
        let ids = join_all(sends).await;
        assert!(ids.is_sorted(), "the order of the queue is the order of the ids");
        assert_eq!(store.unfinished().await.unwrap().deliveries, 600);
    })
    .await;
}

/// What is written by one statement, in pieces of any size, gets the answer that each would get alone.
#[tokio::test]
async fn each_of_a_group_is_answered_for_itself() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        accept(&writer, delivery("known", None)).await;
        let failed = accept(&writer, delivery("failed", None)).await;
        let nobodys = accept(&writer, delivery("nobody's", None)).await;
        for _ in 0..3 {
            let taken = claim(&store, 1).await.unwrap();
            let end = match taken.id == failed || taken.id == nobodys {
                true => DeliveryEnd::Failed("it did not work".to_owned()),
                false => DeliveryEnd::Done("run".to_owned()),
            };
            assert!(store.finish_delivery(&taken, end, at(1)).await.unwrap());
        }
        let ignored = |guid: &str| NewDelivery { ignored_because: Some("x".to_owned()), ..delivery(guid, None) };
        let group: Vec<NewDelivery> = (0..37)
            .map(|n| match n {
                3 | 20 => delivery("known", None),
                7 => delivery("failed", None),
                8 => ignored("failed"),
                9 => ignored("nobody's"),
                15 | 35 => ignored(&format!("g{n}")),
                16 | 36 => delivery("g2", Some("1#2")),
                n => delivery(&format!("g{n}"), Some("1#2")),
            })
            .collect();
        let answers = join_all(group.into_iter().map(|new| writer.accept(new))).await;
        let mut ids = Vec::new();
        for (n, answer) in answers.into_iter().enumerate() {
            match (n, answer.unwrap()) {
                (3 | 8 | 16 | 20 | 36, answer) => assert_eq!(answer, Accepted::Duplicate, "{n}"),
                (7, answer) => assert_eq!(answer, Accepted::New(failed)),
                (9 | 15 | 35, answer) => assert_eq!(answer, Accepted::Ignored, "{n}"),
                (n, Accepted::New(id)) => {
                    assert_eq!(store.load_delivery(id).await.unwrap().unwrap().guid, format!("g{n}"));
                    ids.push(id);
                }
                (n, answer) => panic!("{n}: {answer:?}"),
            }
        }
        assert!(ids.len() == 28 && ids.is_sorted(), "{ids:?}");
        assert_eq!(store.unfinished().await.unwrap().deliveries, 29);
        assert_eq!(store.failed_deliveries(at(0), 10).await.unwrap(), []);
        let nobodys = store.load_delivery(nobodys).await.unwrap().unwrap();
        assert_eq!((nobodys.state, nobodys.reason.as_deref()), (InboxState::Ignored, Some("x")));
    })
    .await;
}

#[tokio::test]
async fn more_than_the_queue_holds_is_turned_away_and_not_lost_silently() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        let sends = (0..3000).map(|n| {
            let writer: InboxWriter = writer.clone();
            async move { writer.accept(delivery(&format!("g{n}"), None)).await }
        });
        let answers = join_all(sends).await;
        let taken = answers.iter().filter(|answer| matches!(answer, Ok(Accepted::New(_)))).count();
        let refused = answers.iter().filter(|answer| **answer == Err(StoreError::Full)).count();
        assert_eq!(taken + refused, 3000);
        assert!(refused > 0);
        assert_eq!(store.unfinished().await.unwrap().deliveries, taken as i64);
    })
    .await;
}

#[tokio::test]
async fn what_needs_nothing_is_stored_as_ignored() {
    on_each_engine(async |store| {
        let mut new = delivery("g1", None);
        new.ignored_because = Some("unknown event".to_owned());
        let writer = store.inbox_writer();
        assert_eq!(writer.accept(new.clone()).await.unwrap(), Accepted::Ignored);
        let id = store.find_delivery("g1").await.unwrap().unwrap();
        let stored = store.load_delivery(id).await.unwrap().unwrap();
        assert_eq!((stored.state, stored.reason.as_deref()), (InboxState::Ignored, Some("unknown event")));
        assert_eq!(stored.finished_at, Some(at(0)));
        assert_eq!(writer.accept(new).await.unwrap(), Accepted::Duplicate);
        assert_eq!(claim(&store, 1).await, None);
    })
    .await;
}

#[tokio::test]
async fn what_is_given_back_was_never_tried() {
    on_each_engine(async |store| {
        let id = accept(&store.inbox_writer(), delivery("g1", Some("k"))).await;
        for _ in 0..3 {
            let claimed = claim(&store, 1).await.unwrap();
            assert_eq!((claimed.id, claimed.tries), (id, 1));
            assert!(store.finish_delivery(&claimed, DeliveryEnd::GivenBack, at(1)).await.unwrap());
        }
        let stored = store.load_delivery(id).await.unwrap().unwrap();
        assert_eq!((stored.state, stored.tries, stored.attempts), (InboxState::Received, 0, 3));
    })
    .await;
}

#[tokio::test]
async fn a_failed_delivery_is_taken_up_again_when_it_is_sent_again() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        let id = accept(&writer, delivery("g1", Some("k"))).await;
        let claimed = claim(&store, 1).await.unwrap();
        store.finish_delivery(&claimed, DeliveryEnd::Failed("git failed".to_owned()), at(2)).await.unwrap();
        let failed = store.failed_deliveries(at(2), 5).await.unwrap();
        assert_eq!(failed.iter().map(|line| line.reason.as_deref()).collect::<Vec<_>>(), [Some("git failed")]);
        assert_eq!(store.given_up(at(2)).await.unwrap().deliveries, 1);
        assert!(store.failed_deliveries(at(3), 5).await.unwrap().is_empty(), "long ago");
        let mut again = delivery("g1", Some("k"));
        again.at = at(10);
        assert_eq!(writer.accept(again.clone()).await.unwrap(), Accepted::New(id));
        assert_eq!(writer.accept(again).await.unwrap(), Accepted::Duplicate);
        let second = claim(&store, 11).await.unwrap();
        assert_eq!((second.id, second.attempts, second.tries, second.reason.as_deref()), (id, 2, 1, None));
        assert!(finish(&store, &second, 12).await);
    })
    .await;
}

#[tokio::test]
async fn a_conversation_goes_in_order_and_others_pass() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        for (guid, key) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")] {
            accept(&writer, delivery(guid, Some(key))).await;
        }
        let a1 = claim(&store, 1).await.unwrap();
        let b1 = claim(&store, 1).await.unwrap();
        assert_eq!((a1.guid.as_str(), b1.guid.as_str()), ("a1", "b1"));
        assert_eq!(claim(&store, 1).await, None);
        // One that waits for another try holds up those behind it.
        let retry = DeliveryEnd::Retry { reason: "GitHub answered 502".to_owned(), at: at(30) };
        assert!(store.finish_delivery(&a1, retry, at(2)).await.unwrap());
        assert_eq!(claim(&store, 29).await, None);
        for guid in ["a1", "a2", "a3"] {
            let next = claim(&store, 30).await.unwrap();
            assert_eq!(next.guid, guid);
            assert_eq!(claim(&store, 30).await, None);
            assert!(finish(&store, &next, 30).await);
        }
    })
    .await;
}

fn guids(claimed: &[Delivery]) -> Vec<&str> {
    claimed.iter().map(|delivery| delivery.guid.as_str()).collect()
}

#[tokio::test]
async fn the_first_of_each_conversation_are_claimed_together() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        for (guid, key) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c"), ("a3", "a"), ("d1", "d")] {
            accept(&writer, delivery(guid, Some(key))).await;
        }
        accept(&writer, delivery("e1", None)).await;
        accept(&writer, delivery("e2", None)).await;
        let claim = async |now| store.claim_deliveries("node", at(now), LEASE, 3).await.unwrap();
        let first = claim(1).await;
        assert_eq!(guids(&first), ["a1", "b1", "c1"], "the oldest of them, in order");
        assert!(first.iter().all(|delivery| (delivery.state, delivery.tries) == (InboxState::Claimed, 1)));
        let second = claim(1).await;
        assert_eq!(guids(&second), ["d1", "e1", "e2"], "what has no conversation waits for none");
        assert!(claim(1).await.is_empty());
        let retry = DeliveryEnd::Retry { reason: "GitHub answered 502".to_owned(), at: at(30) };
        assert!(writer.finish(&first[0], retry, at(2)).await.unwrap());
        assert!(claim(29).await.is_empty(), "one that is put off holds up those behind it");
        assert_eq!(guids(&claim(30).await), ["a1"]);
    })
    .await;
}

#[tokio::test]
async fn what_is_large_or_was_tried_before_is_claimed_by_itself() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        let mut large = delivery("large", Some("l"));
        // Nothing that could be packed.
        large.body = (0..5_000).flat_map(|_| uuid::Uuid::new_v4().into_bytes()).collect();
        for new in [delivery("a1", Some("a")), large, delivery("b1", Some("b")), delivery("c1", Some("c"))] {
            accept(&writer, new).await;
        }
        let claim = async || store.claim_deliveries("node", at(1), LEASE, 16).await.unwrap();
        assert_eq!(guids(&claim().await), ["a1", "b1", "c1"]);
        assert_eq!(guids(&claim().await), ["large"]);
        // As after a kill between the claims and their ends.
        assert_eq!(store.release_deliveries_of("node", at(1)).await.unwrap(), 4);
        accept(&writer, delivery("fresh", Some("f"))).await;
        for guid in ["a1", "large", "b1", "c1"] {
            let again = claim().await;
            assert_eq!((guids(&again), again[0].tries), (vec![guid], 2), "whatever it was, it is not taken in company");
        }
        assert_eq!(guids(&claim().await), ["fresh"]);
        assert!(claim().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn what_is_of_github_waits_while_it_is_held() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        for new in [delivery("a1", Some("a")), delivery("b1", Some("stop b"))] {
            accept(&writer, new).await;
        }
        accept(&writer, NewDelivery { event: "local".to_owned(), ..delivery("here", Some("h")) }).await;
        store.hold_github(true);
        let claim = async || store.claim_deliveries("node", at(1), LEASE, 16).await.unwrap();
        assert_eq!(guids(&claim().await), ["here"]);
        assert!(claim().await.is_empty());
        assert_eq!(store.claim_delivery_out_of_turn("node", at(1), LEASE).await.unwrap(), None);
        store.hold_github(false);
        assert_eq!(guids(&claim().await), ["a1", "b1"]);
    })
    .await;
}

#[tokio::test]
async fn what_ends_together_is_answered_each_for_itself() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        for n in 0..40 {
            accept(&writer, delivery(&format!("g{n}"), None)).await;
        }
        let claimed = store.claim_deliveries("node", at(0), LEASE, 40).await.unwrap();
        assert_eq!(claimed.len(), 40);
        // The last five are lost to another one.
        for lost in &claimed[35..] {
            assert!(finish(&store, lost, 1).await);
        }
        // PostgreSQL takes no such text.
        let end = |n: usize| match n {
            7 => DeliveryEnd::Ignored("nothing\0".to_owned()),
            n if n % 2 == 0 => DeliveryEnd::GivenBack,
            _ => DeliveryEnd::Done("run".to_owned()),
        };
        let ends = claimed.iter().enumerate().map(|(n, delivery)| writer.finish(delivery, end(n), at(2)));
        let answers = join_all(ends).await;
        for (n, answer) in answers.iter().enumerate().filter(|(n, _)| *n != 7) {
            assert_eq!(*answer, Ok(n < 35), "{n}");
            let stored = store.load_delivery(claimed[n].id).await.unwrap().unwrap();
            let (state, tries) = if n < 35 && n % 2 == 0 { (InboxState::Received, 0) } else { (InboxState::Done, 1) };
            assert_eq!((stored.state, stored.tries), (state, tries), "{n}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_to_stop_waits_for_nothing_and_marks_what_waits_before_it() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        let stop = |guid: &str| NewDelivery { out_of_turn: true, ..delivery(guid, Some("a")) };
        let mut ids = Vec::new();
        for new in [delivery("a1", Some("a")), delivery("a2", Some("a")), delivery("b1", Some("b"))] {
            ids.push(accept(&writer, new).await);
        }
        accept(&writer, stop("s1")).await;
        accept(&writer, stop("s2")).await;
        ids.push(accept(&writer, delivery("a3", Some("a"))).await);
        let a1 = claim(&store, 1).await.unwrap();
        let s1 = store.claim_delivery_out_of_turn("node", at(1), LEASE).await.unwrap().unwrap();
        assert_eq!((s1.guid.as_str(), s1.conversation_key.as_deref(), s1.out_of_turn), ("s1", Some("a"), true));
        assert_eq!(store.claim_delivery_out_of_turn("node", at(1), LEASE).await.unwrap(), None, "one after the other");
        assert_eq!(store.stop_waiting_before(&s1).await.unwrap(), 2);
        let mut stopped = Vec::new();
        for id in &ids {
            stopped.push(store.is_stopped(*id).await.unwrap());
        }
        assert_eq!(stopped, [true, true, false, false], "of its conversation, and before it");
        assert!(finish(&store, &s1, 2).await);
        assert_eq!(claim(&store, 2).await.unwrap().guid, "b1");
        assert_eq!(claim(&store, 2).await.unwrap().guid, "s2", "either loop may take it");
        // Sent again by hand, it is another try.
        store.finish_delivery(&a1, DeliveryEnd::Failed("no".to_owned()), at(3)).await.unwrap();
        accept(&writer, delivery("a1", Some("a"))).await;
        assert!(!store.is_stopped(a1.id).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn an_older_delivery_that_returns_does_not_overtake_the_one_at_work() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        for guid in ["a1", "a2"] {
            accept(&writer, delivery(guid, Some("a"))).await;
        }
        let a1 = claim(&store, 1).await.unwrap();
        store.finish_delivery(&a1, DeliveryEnd::Failed("no".to_owned()), at(1)).await.unwrap();
        let a2 = claim(&store, 1).await.unwrap();
        accept(&writer, delivery("a1", Some("a"))).await;
        assert_eq!(claim(&store, 1).await, None);
        assert!(finish(&store, &a2, 2).await);
        assert_eq!(claim(&store, 2).await.unwrap().guid, "a1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_claims_take_each_row_once_and_each_key_in_order() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        for n in 0..12 {
            for key in 0..6 {
                accept(&writer, delivery(&format!("{key}-{n}"), Some(&key.to_string()))).await;
            }
        }
        let workers = (0..8_u32).map(|worker| {
            let (store, writer) = (store.clone(), writer.clone());
            tokio::spawn(async move {
                let mut handled: Vec<(u32, String, InboxId)> = Vec::new();
                while store.unfinished().await.unwrap().deliveries > 0 {
                    let owner = format!("worker-{worker}");
                    let claimed = match store.claim_deliveries(&owner, at(1), LEASE, 1 + worker % 4).await {
                        // PostgreSQL ends one of two that wait for each other.
                        Err(StoreError::Busy) => continue,
                        claimed => claimed.unwrap(),
                    };
                    let keys: HashSet<_> = claimed.iter().map(|delivery| &delivery.conversation_key).collect();
                    assert_eq!(keys.len(), claimed.len(), "one at a time of each");
                    let done = DeliveryEnd::Done(String::new());
                    let ends = claimed.iter().map(|delivery| writer.finish(delivery, done.clone(), at(1)));
                    assert!(join_all(ends).await.into_iter().all(|held| held == Ok(true)));
                    handled.extend(claimed.into_iter().map(|one| (worker, one.conversation_key.unwrap(), one.id)));
                    tokio::task::yield_now().await;
                }
                handled
            })
        });
        let handled: Vec<_> = join_all(workers).await.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(handled.len(), 72);
        assert_eq!(handled.iter().map(|(_, _, id)| id).collect::<HashSet<_>>().len(), 72);
        // Each worker saw each key in order; that keys are never shared is what the claims themselves guarantee.
        let mut last: HashMap<(u32, &str), InboxId> = HashMap::new();
        for (worker, key, id) in &handled {
            let before = last.insert((*worker, key), *id);
            assert!(before.is_none_or(|before| before < *id));
        }
    })
    .await;
}

#[tokio::test]
async fn a_lost_claim_has_no_say() {
    on_each_engine(async |store| {
        accept(&store.inbox_writer(), delivery("g1", Some("k"))).await;
        let slow = store.claim_delivery("slow", at(0), LEASE).await.unwrap().unwrap();
        assert_eq!(store.release_expired_deliveries(at(59)).await.unwrap(), 0);
        assert_eq!(store.release_expired_deliveries(at(60)).await.unwrap(), 1);
        assert!(!finish(&store, &slow, 60).await, "released");
        let quick = store.claim_delivery("quick", at(61), LEASE).await.unwrap().unwrap();
        assert_eq!(quick.attempts, 2);
        assert!(!finish(&store, &slow, 62).await, "claimed by another one");
        assert!(finish(&store, &quick, 62).await);
        assert!(!finish(&store, &quick, 63).await, "over");
    })
    .await;
}

#[tokio::test]
async fn a_restart_takes_its_own_claims_back_and_no_others() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        for guid in ["g1", "g2"] {
            accept(&writer, delivery(guid, None)).await;
        }
        store.claim_delivery("one", at(0), LEASE).await.unwrap().unwrap();
        store.claim_delivery("two", at(0), LEASE).await.unwrap().unwrap();
        assert_eq!(store.release_deliveries_of("one", at(1)).await.unwrap(), 1);
        assert_eq!(claim(&store, 1).await.unwrap().guid, "g1");
        assert_eq!(claim(&store, 1).await, None);
    })
    .await;
}

#[tokio::test]
async fn pages_go_back_in_time() {
    on_each_engine(async |store| {
        let writer = store.inbox_writer();
        for n in 0..5 {
            accept(&writer, delivery(&format!("g{n}"), None)).await;
        }
        let first = store.list_deliveries(3, 0).await.unwrap();
        assert_eq!(first.iter().map(|line| line.guid.as_str()).collect::<Vec<_>>(), ["g4", "g3", "g2"]);
        let second = store.list_deliveries(3, 3).await.unwrap();
        assert_eq!(second.iter().map(|line| line.guid.as_str()).collect::<Vec<_>>(), ["g1", "g0"]);
    })
    .await;
}

/// BR-178: parallel deliveries, a page that is read all the time, and a long transaction of another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_writer_elsewhere_delays_and_loses_nothing() {
    use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("store.db");
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    store.migrate().await.unwrap();
    let options = SqliteConnectOptions::new().filename(&file);
    let mut other = SqliteConnection::connect_with(&options).await.unwrap();
    let long = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let writer = store.inbox_writer();
    let sends = (0..50).map(|n| {
        let writer = writer.clone();
        tokio::spawn(async move { writer.accept(delivery(&format!("g{n}"), None)).await })
    });
    let sends: Vec<_> = sends.collect();
    for _ in 0..20 {
        assert_eq!(store.list_deliveries(10, 0).await.unwrap(), []);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    long.rollback().await.unwrap();
    for send in sends {
        assert!(matches!(send.await.unwrap(), Ok(Accepted::New(_))));
    }
    assert_eq!(store.unfinished().await.unwrap().deliveries, 50);
    store.close().await;
}

#[tokio::test]
async fn after_a_failed_write_a_real_one_tells_when_deliveries_are_taken_again() {
    on_each_url(async |url| {
        let store = Store::open(&url).await.unwrap();
        store.migrate().await.unwrap();
        let writer = store.inbox_writer();
        assert!(writer.takes_deliveries(at(0)).await);
        raw(&url, "ALTER TABLE inbox RENAME TO inbox_away").await;
        assert!(writer.takes_deliveries(at(0)).await, "nothing failed so far");
        writer.accept(delivery("g1", None)).await.unwrap_err();
        assert!(!writer.takes_deliveries(at(0)).await);
        raw(&url, "ALTER TABLE inbox_away RENAME TO inbox").await;
        assert!(!writer.takes_deliveries(at(1)).await, "it was tried a moment ago");
        assert!(writer.takes_deliveries(at(2)).await);
        assert!(store.list_deliveries(10, 0).await.unwrap().is_empty(), "the try left something behind");
        accept(&writer, delivery("g1", None)).await;
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_clock_that_was_ahead_holds_no_delivery_up() {
    on_each_engine(async |store| {
        let mut new = delivery("g1", None);
        new.at = at(600);
        accept(&store.inbox_writer(), new).await;
        let first = claim(&store, 0).await.expect("nobody has put it off");
        let retry = |until| DeliveryEnd::Retry { reason: "later".to_owned(), at: at(until) };
        assert!(store.finish_delivery(&first, retry(3600), at(0)).await.unwrap());
        assert!(claim(&store, 3599).await.is_none());
        let second = claim(&store, 3600).await.unwrap();
        assert!(store.finish_delivery(&second, retry(9000), at(8000)).await.unwrap());
        assert!(claim(&store, 0).await.is_some());
    })
    .await;
}
