//! What is wanted, and what was sent.

use super::{at, claim_by, codebase, conversation, on_each_engine};
use futures::future::join_all;
use std::collections::HashSet;
use treewarden::{
    model::*,
    store::{NewCodebase, NewLocalCodebase, NewOutgoing, OutgoingEnd, Store},
};

fn wish(codebase: &Codebase, key: &str, body: &str, not_before: i64) -> NewOutgoing {
    let turn = if key.starts_with("react/") { Turn::Heard } else { Turn::Result };
    NewOutgoing {
        turn,
        key: key.to_owned(),
        codebase: codebase.id,
        conversation: None,
        outgoing: Outgoing::Comment { number: ThreadNumber(1), body: body.to_owned(), marker: key.to_owned() },
        not_before: at(not_before),
    }
}

/// Of another installation.
async fn elsewhere(store: &Store) -> Codebase {
    let new = NewCodebase {
        github_id: RepositoryId(20),
        installation: InstallationId(8),
        name: "else/where".parse().unwrap(),
        default_branch: None,
        reached: true,
    };
    store.upsert_codebase(new, at(0)).await.unwrap()
}

/// On this machine only.
async fn local(store: &Store) -> Codebase {
    let name = "_local/tools".parse().unwrap();
    let new = NewLocalCodebase { path: "/srv/tools".into(), name, default_branch: None };
    store.upsert_local_codebase(new, at(0)).await.unwrap()
}

async fn claim(store: &Store, now: i64) -> Option<OutboxRow> {
    claim_by("node", store, now).await
}

async fn sent(store: &Store, row: &OutboxRow, remote_id: i64) -> bool {
    let end = OutgoingEnd::Sent { remote_id: Some(remote_id) };
    store.finish_outgoing(row, "node", end, at(9)).await.unwrap()
}

#[tokio::test]
async fn what_is_for_github_waits_while_it_is_held() {
    on_each_engine(async |store| {
        let (app, here) = (codebase(&store, 1, "acme/app").await, local(&store).await);
        store.enqueue(wish(&app, "k", "one", 0), at(0)).await.unwrap();
        store.enqueue(wish(&here, "h", "two", 0), at(0)).await.unwrap();
        store.hold_github(true);
        assert_eq!(claim(&store, 1).await.map(|row| row.codebase), Some(here.id));
        assert_eq!(claim(&store, 1).await, None);
        store.hold_github(false);
        assert_eq!(claim(&store, 1).await.map(|row| row.codebase), Some(app.id));
    })
    .await;
}

#[tokio::test]
async fn the_same_wish_is_one_row_and_another_replaces_it() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let first = store.enqueue(wish(&app, "k", "one", 0), at(0)).await.unwrap();
        assert_eq!((first.version, first.sent_version, first.state), (1, 0, OutboxState::Pending));
        assert_eq!(store.enqueue(wish(&app, "k", "one", 5), at(1)).await.unwrap(), first);
        let second = store.enqueue(wish(&app, "k", "two", 5), at(2)).await.unwrap();
        assert_eq!((second.id, second.version, second.not_before), (first.id, 2, at(5)));
        assert_eq!(claim(&store, 4).await, None);
        let row = claim(&store, 5).await.unwrap();
        assert_eq!((row.outgoing.clone(), row.attempts), (second.outgoing, 1));
        assert!(sent(&store, &row, 77).await);
        let row = store.load_outgoing_by_key("k").await.unwrap().unwrap();
        assert_eq!((row.state, row.sent_version, row.remote_id), (OutboxState::Sent, 2, Some(77)));
        assert_eq!(store.enqueue(wish(&app, "k", "two", 9), at(9)).await.unwrap().state, OutboxState::Sent);
        let third = store.enqueue(wish(&app, "k", "three", 9), at(9)).await.unwrap();
        assert_eq!((third.state, third.remote_id), (OutboxState::Pending, Some(77)));
    })
    .await;
}

#[tokio::test]
async fn what_was_given_up_is_sent_again_when_somebody_says_so_and_nothing_else_is() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        store.enqueue(wish(&app, "k", "said", 0), at(0)).await.unwrap();
        let row = claim(&store, 0).await.unwrap();
        assert_eq!(store.send_again(&row, at(1)).await, Ok(false), "it is being sent");
        let end = OutgoingEnd::Failed("not found".to_owned());
        assert!(store.finish_outgoing(&row, "node", end, at(1)).await.unwrap());
        assert_eq!(claim(&store, 5).await, None);
        let stale = OutboxRow { version: row.version + 1, ..row.clone() };
        assert_eq!(store.send_again(&stale, at(6)).await, Ok(false));
        assert_eq!(store.send_again(&row, at(6)).await, Ok(true));
        let again = claim(&store, 6).await.unwrap();
        assert_eq!((again.id, again.attempts, &again.outgoing), (row.id, 2, &row.outgoing));
        assert!(sent(&store, &again, 1).await);
        assert_eq!(store.send_again(&again, at(9)).await, Ok(false), "it was said");
    })
    .await;
}

#[tokio::test]
async fn a_wish_that_changes_while_it_is_sent_is_sent_again() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        store.enqueue(wish(&app, "k", "one", 0), at(0)).await.unwrap();
        let one = claim(&store, 0).await.unwrap();
        let changed = store.enqueue(wish(&app, "k", "two", 0), at(1)).await.unwrap();
        assert_eq!(changed.state, OutboxState::Sending);
        assert_eq!(claim(&store, 1).await, None, "one sender at a time");
        assert!(sent(&store, &one, 5).await);
        let two = claim(&store, 2).await.unwrap();
        assert_eq!((two.version, two.sent_version, two.remote_id), (2, 1, Some(5)));
        assert!(sent(&store, &two, 5).await);
        assert_eq!(store.unfinished().await.unwrap().outgoing, 0);
    })
    .await;
}

#[tokio::test]
async fn an_installation_is_served_in_order_one_at_a_time() {
    on_each_engine(async |store| {
        let (app, other) = (codebase(&store, 1, "acme/app").await, codebase(&store, 2, "acme/other").await);
        let elsewhere = elsewhere(&store).await;
        for (codebase, key) in [(&app, "a1"), (&other, "b1"), (&elsewhere, "c1"), (&app, "a2"), (&app, "a3")] {
            store.enqueue(wish(codebase, key, "x", 0), at(0)).await.unwrap();
        }
        let (a1, c1) = (claim(&store, 1).await.unwrap(), claim(&store, 1).await.unwrap());
        assert_eq!((a1.key.as_str(), c1.key.as_str()), ("a1", "c1"));
        assert_eq!(claim(&store, 1).await, None, "the other repository is of the same installation");
        // One that has to wait does not hold up the others.
        let retry = OutgoingEnd::Retry { error: "502".to_owned(), at: at(60) };
        assert!(store.finish_outgoing(&a1, "node", retry, at(2)).await.unwrap());
        for key in ["b1", "a2", "a3"] {
            let row = claim(&store, 3).await.unwrap();
            assert_eq!(row.key, key);
            assert!(sent(&store, &row, 1).await);
        }
        assert_eq!(claim(&store, 59).await, None);
        // Something else wanted meanwhile does not shorten the wait GitHub asked for.
        store.enqueue(wish(&app, "a1", "y", 5), at(5)).await.unwrap();
        assert_eq!(claim(&store, 59).await, None);
        let row = claim(&store, 60).await.unwrap();
        assert_eq!((row.key.as_str(), row.attempts, row.last_error.as_deref()), ("a1", 2, Some("502")));
    })
    .await;
}

#[tokio::test]
async fn telling_people_that_they_were_heard_waits_for_nothing_else() {
    on_each_engine(async |store| {
        let (app, other) = (codebase(&store, 1, "acme/app").await, codebase(&store, 2, "acme/other").await);
        store.enqueue(wish(&app, "answer/1", "x", 0), at(0)).await.unwrap();
        let slow = claim(&store, 0).await.unwrap();
        for (codebase, key) in [(&app, "react/2/eyes"), (&other, "react/3/eyes"), (&other, "answer/4")] {
            store.enqueue(wish(codebase, key, "x", 0), at(1)).await.unwrap();
        }
        let eyes = claim(&store, 1).await.unwrap();
        assert_eq!(eyes.key, "react/2/eyes");
        assert_eq!(claim(&store, 1).await, None, "one sender in each lane");
        assert!(sent(&store, &eyes, 1).await);
        assert_eq!(claim(&store, 1).await.unwrap().key, "react/3/eyes");
        assert!(sent(&store, &slow, 1).await);
        assert_eq!(claim(&store, 1).await.unwrap().key, "answer/4");
    })
    .await;
}

#[tokio::test]
async fn what_somebody_waits_for_goes_before_what_goes_on() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let goes_on = |key: &str| NewOutgoing { turn: Turn::Progress, ..wish(&app, key, "waiting", 0) };
        for new in [goes_on("status/1"), goes_on("status/2"), wish(&app, "answer/3", "x", 0)] {
            store.enqueue(new, at(0)).await.unwrap();
        }
        store.enqueue(wish(&app, "react/4/eyes", "x", 0), at(0)).await.unwrap();
        // Its run ended.
        store.enqueue(wish(&app, "status/2", "done", 0), at(0)).await.unwrap();
        for key in ["react/4/eyes", "status/2", "answer/3", "status/1"] {
            let row = claim(&store, 1).await.unwrap();
            assert_eq!(row.key, key);
            assert!(sent(&store, &row, 1).await);
        }
        // Taken up again: the run of the next attempt is at work.
        store.enqueue(goes_on("status/2"), at(2)).await.unwrap();
        store.enqueue(wish(&app, "answer/5", "x", 2), at(2)).await.unwrap();
        assert_eq!(claim(&store, 2).await.unwrap().key, "answer/5");
    })
    .await;
}

#[tokio::test]
async fn what_goes_on_is_told_every_fifteen_seconds_and_how_it_ended_at_once() {
    on_each_engine(async |store| {
        let (app, tools) = (codebase(&store, 1, "acme/app").await, local(&store).await);
        let said = async |codebase: &Codebase, body: &str, turn, now: i64| {
            let key = format!("status/{}", codebase.name);
            store.enqueue(NewOutgoing { turn, ..wish(codebase, &key, body, now) }, at(now)).await.unwrap();
        };
        let told = async |now: i64| {
            let row = claim(&store, now).await?;
            let end = OutgoingEnd::Sent { remote_id: Some(1) };
            assert!(store.finish_outgoing(&row, "node", end, at(now)).await.unwrap());
            Some((row.key, row.version))
        };
        let here = || Some(("status/acme/app".to_owned(), 1));
        said(&app, "queued", Turn::Progress, 0).await;
        assert_eq!(told(0).await, here());
        said(&app, "preparing", Turn::Progress, 1).await;
        said(&app, "running", Turn::Progress, 2).await;
        assert_eq!(told(14).await, None);
        assert_eq!(told(15).await, here().map(|(key, _)| (key, 3)), "the newest of them");
        said(&app, "delivering", Turn::Progress, 16).await;
        assert_eq!(told(17).await, None);
        said(&app, "done", Turn::Result, 17).await;
        assert_eq!(told(17).await, here().map(|(key, _)| (key, 5)));
        // The next attempt, by a clock that was put back.
        said(&app, "queued again", Turn::Progress, 10).await;
        assert_eq!(told(10).await, here().map(|(key, _)| (key, 6)));

        for (text, version) in [("queued", 1), ("running", 2)] {
            said(&tools, text, Turn::Progress, 20).await;
            assert_eq!(told(20).await, Some((format!("status/{}", tools.name), version)), "nobody counts here");
        }
    })
    .await;
}

#[tokio::test]
async fn a_thread_hears_things_in_order_unless_one_cannot_be_said_for_long() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let (thread, other) = (conversation(&store, &app, 1).await, conversation(&store, &app, 2).await);
        let said_in = |thread: &Conversation, key: &str, turn| NewOutgoing {
            conversation: Some(thread.id),
            turn,
            ..wish(&app, key, "x", 0)
        };
        for (thread, key, turn) in [
            (&thread, "status/1", Turn::Progress),
            (&thread, "answer/2", Turn::Result),
            (&thread, "pull/3", Turn::Result),
            (&other, "answer/4", Turn::Result),
        ] {
            store.enqueue(said_in(thread, key, turn), at(0)).await.unwrap();
        }
        let refused = async |key: &str, now: i64| {
            let row = claim(&store, now).await.unwrap();
            assert_eq!(row.key, key);
            let retry = OutgoingEnd::Retry { error: "403".to_owned(), at: at(now + 10) };
            assert!(store.finish_outgoing(&row, "node", retry, at(now)).await.unwrap());
        };
        for key in ["pull/3", "answer/4"] {
            let row = claim(&store, 1).await.unwrap();
            assert_eq!(row.key, key);
            assert!(sent(&store, &row, 1).await);
        }
        // An edit of what was said is in nobody's way, and waits for nobody.
        let edited = wish(&app, "answer/4", "edit", 0).outgoing;
        store
            .enqueue(NewOutgoing { outgoing: edited, ..said_in(&other, "answer/4", Turn::Result) }, at(1))
            .await
            .unwrap();
        let edit = claim(&store, 1).await.unwrap();
        assert_eq!(edit.key, "answer/4");
        assert!(sent(&store, &edit, 1).await);
        refused("status/1", 1).await;
        assert_eq!(claim(&store, 10).await, None, "the answer waits for the comment before it");
        // Access came back: what was refused is due at once.
        assert_eq!(store.hurry_outgoing(app.id, at(2)).await, Ok(1));
        let mut now = 2;
        for _ in 0..10 {
            refused("status/1", now).await;
            now += 10;
        }
        let answer = claim(&store, now - 5).await.unwrap();
        assert_eq!(answer.key, "answer/2", "it was held up long enough");
        // Its sender dies, and what is before it is due again: neither waits for the other.
        assert_eq!(store.hurry_outgoing(app.id, at(now - 5)).await, Ok(1));
        assert_eq!(store.release_expired_outgoing(at(now + 59)).await, Ok(1));
        for key in ["status/1", "answer/2"] {
            let row = claim(&store, now + 59).await.unwrap();
            assert_eq!(row.key, key);
            assert!(sent(&store, &row, 1).await);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_senders_take_each_row_once() {
    on_each_engine(async |store| {
        for number in 1..6 {
            // Four of one installation, and one of another.
            let app = match number {
                2 => elsewhere(&store).await,
                _ => codebase(&store, number, &format!("acme/app{number}")).await,
            };
            for row in 0..6 {
                store.enqueue(wish(&app, &format!("{number}/{row}"), "x", 0), at(0)).await.unwrap();
            }
        }
        let senders = (0..8).map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let (owner, mut keys) = (format!("node-{n}"), Vec::new());
                while store.unfinished().await.unwrap().outgoing > 0 {
                    if let Some(row) = claim_by(&owner, &store, 1).await {
                        let under_way = store.list_outgoing(50).await.unwrap();
                        let under_way = under_way.iter().filter(|row| row.state == OutboxState::Sending);
                        assert!(under_way.count() <= 2, "one for each installation");
                        let end = OutgoingEnd::Sent { remote_id: None };
                        assert!(store.finish_outgoing(&row, &owner, end, at(1)).await.unwrap());
                        keys.push(row.key);
                    }
                    tokio::task::yield_now().await;
                }
                keys
            })
        });
        let keys: Vec<String> = join_all(senders).await.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(keys.len(), 30);
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 30);
    })
    .await;
}

#[tokio::test]
async fn a_sender_that_died_leaves_a_row_that_was_tried() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        for key in ["k1", "k2"] {
            store.enqueue(wish(&app, key, "x", 0), at(0)).await.unwrap();
        }
        let dead = claim_by("dead", &store, 0).await.unwrap();
        assert_eq!(store.release_expired_outgoing(at(59)).await.unwrap(), 0);
        assert_eq!(claim(&store, 60).await, None, "its sender may be alive");
        assert_eq!(store.release_expired_outgoing(at(60)).await.unwrap(), 1);
        let row = claim(&store, 60).await.unwrap();
        assert_eq!((row.id, row.attempts, row.remote_id), (dead.id, 2, None), "look first whether it is there already");
        let end = OutgoingEnd::Sent { remote_id: Some(1) };
        assert!(!store.finish_outgoing(&dead, "dead", end, at(61)).await.unwrap());
        assert_eq!(store.release_outgoing_of("dead", at(61)).await.unwrap(), 0);
        assert_eq!(store.release_outgoing_of("node", at(61)).await.unwrap(), 1);
        assert_eq!(claim(&store, 61).await.unwrap().attempts, 3);
    })
    .await;
}

#[tokio::test]
async fn what_was_given_up_is_taken_up_by_another_wish() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        store.enqueue(wish(&app, "k", "one", 0), at(0)).await.unwrap();
        for _ in 0..3 {
            let row = claim(&store, 0).await.unwrap();
            let retry = OutgoingEnd::Retry { error: "502".to_owned(), at: at(0) };
            store.finish_outgoing(&row, "node", retry, at(0)).await.unwrap();
        }
        let row = claim(&store, 0).await.unwrap();
        store.finish_outgoing(&row, "node", OutgoingEnd::Failed("403".to_owned()), at(1)).await.unwrap();
        assert_eq!(claim(&store, 100).await, None);
        store.enqueue(wish(&app, "react/1/eyes", "no loss", 0), at(1)).await.unwrap();
        let reaction = claim(&store, 1).await.unwrap();
        store.finish_outgoing(&reaction, "node", OutgoingEnd::Failed("403".to_owned()), at(1)).await.unwrap();
        let failed = store.failed_outgoing(at(1), 5).await.unwrap();
        assert_eq!(failed.iter().map(|row| row.last_error.as_deref()).collect::<Vec<_>>(), [Some("403")]);
        assert_eq!((store.given_up(at(1)).await.unwrap().outgoing, failed[0].key.as_str()), (1, "k"));
        assert!(store.failed_outgoing(at(2), 5).await.unwrap().is_empty(), "long ago");
        store.enqueue(wish(&app, "k", "two", 2), at(2)).await.unwrap();
        assert!(store.failed_outgoing(at(1), 5).await.unwrap().is_empty());
        let row = claim(&store, 2).await.unwrap();
        assert_eq!((row.version, row.attempts), (2, 2), "an earlier try may have had its effect");
    })
    .await;
}

#[tokio::test]
async fn a_pause_is_of_one_installation_and_one_of_content_is_of_what_is_new() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let elsewhere = elsewhere(&store).await;
        let next = async |now: i64| {
            let row = claim(&store, now).await?;
            assert!(sent(&store, &row, 1).await);
            Some(row.key)
        };
        store.enqueue(wish(&app, "k1", "one", 0), at(0)).await.unwrap();
        store.enqueue(wish(&elsewhere, "k2", "two", 0), at(0)).await.unwrap();
        store.enqueue(wish(&app, "react/1/eyes", "three", 0), at(0)).await.unwrap();
        store.pause_content(app.installation().unwrap(), at(10), at(0)).await.unwrap();
        assert_eq!(next(1).await.as_deref(), Some("react/1/eyes"));
        assert_eq!(next(1).await.as_deref(), Some("k2"));
        assert_eq!(next(9).await, None);
        assert_eq!(next(10).await.as_deref(), Some("k1"));

        store.pause_content(app.installation().unwrap(), at(20), at(10)).await.unwrap();
        for key in ["k3", "k1"] {
            store.enqueue(wish(&app, key, "edited", 10), at(10)).await.unwrap();
        }
        assert_eq!(next(11).await.as_deref(), Some("k1"), "it is there already");
        assert_eq!(next(19).await, None);
        assert_eq!(next(20).await.as_deref(), Some("k3"));

        store.enqueue(wish(&app, "react/2/eyes", "four", 0), at(0)).await.unwrap();
        store.pause_sending(app.installation().unwrap(), at(30), at(10)).await.unwrap();
        store.pause_sending(app.installation().unwrap(), at(20), at(10)).await.unwrap();
        assert_eq!(next(29).await, None);
        assert_eq!(next(30).await.as_deref(), Some("react/2/eyes"));
    })
    .await;
}

/// A machine's clock may be put back: after a wrong start, or when it was resumed.
#[tokio::test]
async fn what_waits_for_longer_than_anybody_asks_for_is_due() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let installation = app.installation().unwrap();
        store.enqueue(wish(&app, "k1", "one", 7200), at(7200)).await.unwrap();
        store.pause_content(installation, at(7202), at(7200)).await.unwrap();
        let row = claim(&store, 3600).await.expect("the clock was put back by an hour");
        let end = OutgoingEnd::Retry { error: "later".to_owned(), at: at(3900) };
        assert!(store.finish_outgoing(&row, "node", end, at(3600)).await.unwrap());
        assert!(claim(&store, 3899).await.is_none());
        let row = claim(&store, 10).await.expect("and again");
        assert!(sent(&store, &row, 10).await);

        store.enqueue(wish(&app, "k2", "two", 20), at(20)).await.unwrap();
        store.pause_sending(installation, at(9000), at(8000)).await.unwrap();
        assert!(claim(&store, 8999).await.is_none());
        store.pause_sending(installation, at(40), at(20)).await.unwrap();
        assert!(claim(&store, 39).await.is_none(), "what is asked for now counts");
        assert!(claim(&store, 40).await.is_some());
    })
    .await;
}
