//! Runs: who goes next, who may still write, what becomes of the runs of a dead owner.

use super::{
    LEASE, accept, at, codebase, conversation, delivery, environment, on_each_engine, on_each_store, queued_run,
    schema::raw, wish,
};
use futures::future::join_all;
use std::{collections::HashSet, time::Duration};
use treewarden::{
    model::*,
    store::{LeftBehind, NewOutgoing, NewRun, RunFilter, Store},
};

async fn claim(store: &Store, now: i64) -> Option<Run> {
    store.claim_run("node", at(now), LEASE, 4).await.unwrap()
}

async fn end(store: &Store, mut run: Run, state: RunState) {
    run.state = state;
    run.ended_at = Some(at(9));
    assert!(store.finish_run(&run, "node", None, at(9)).await.unwrap());
}

#[tokio::test]
async fn a_delivery_has_one_run() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let thread = conversation(&store, &app, 1).await;
        let run = queued_run(&store, &thread, 1).await;
        assert_eq!((run.state, run.attempts, run.cancel_requested), (RunState::Queued, 0, false));
        let again =
            NewRun { codebase: app.id, conversation: thread.id, delivery: run.delivery, request: run.request.clone() };
        assert_eq!(store.insert_run(again, at(5)).await.unwrap(), run);
        assert_eq!(store.load_run(run.id).await.unwrap(), Some(run));
    })
    .await;
}

#[tokio::test]
async fn runs_on_github_wait_while_it_is_held() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let run = queued_run(&store, &conversation(&store, &app, 1).await, 1).await;
        store.hold_github(true);
        assert_eq!(claim(&store, 1).await, None);
        store.hold_github(false);
        assert_eq!(claim(&store, 1).await.map(|claimed| claimed.id), Some(run.id));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_claims_take_each_run_once_and_never_pass_the_limit() {
    on_each_engine(async |store| {
        for number in 0..4 {
            let app = codebase(&store, number, &format!("acme/app{number}")).await;
            for thread in 0..3 {
                let thread = conversation(&store, &app, thread).await;
                queued_run(&store, &thread, 1).await;
            }
        }
        let claims = (0..12).map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.claim_run(&format!("node-{n}"), at(1), LEASE, 5).await.unwrap() })
        });
        let claimed: Vec<Run> = join_all(claims).await.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(claimed.len(), 5);
        assert_eq!(claimed.iter().map(|run| run.id).collect::<HashSet<_>>().len(), 5);
        // Fair: every codebase has one before any has two.
        assert_eq!(claimed.iter().map(|run| run.codebase).collect::<HashSet<_>>().len(), 4);
        assert!(store.run_counts().await.unwrap().contains(&(RunState::Preparing, 5)));
        assert_eq!(store.claim_run("late", at(1), LEASE, 5).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_conversation_has_one_run_at_a_time_in_order() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let thread = conversation(&store, &app, 1).await;
        let (first, second) = (queued_run(&store, &thread, 1).await, queued_run(&store, &thread, 2).await);
        assert_eq!(store.queue_place(second.id).await.unwrap(), 1);
        let run = claim(&store, 1).await.unwrap();
        assert_eq!((run.id, run.state, run.attempts), (first.id, RunState::Preparing, 1));
        assert_eq!(claim(&store, 1).await, None);
        assert_eq!(store.live_run_of(thread.id).await.unwrap().unwrap().id, first.id);
        end(&store, run, RunState::Failed).await;
        assert_eq!(store.live_run_of(thread.id).await.unwrap().unwrap().id, second.id);
        assert_eq!(claim(&store, 2).await.unwrap().id, second.id);
        assert_eq!(store.recent_runs(thread.id, at(0)).await.unwrap(), 2);
        assert_eq!(store.recent_runs(thread.id, at(1)).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn the_oldest_run_of_a_codebase_goes_first_whatever_its_thread() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let mut asked = Vec::new();
        // The threads were met in another order than they ask in.
        let mut threads = Vec::new();
        for number in [3, 1, 4, 2] {
            threads.push(conversation(&store, &app, number).await);
        }
        for (time, thread) in [(1, 2), (2, 0), (3, 3), (4, 1)] {
            asked.push(queued_run(&store, &threads[thread], time).await.id);
        }
        let mut claimed = Vec::new();
        while let Some(run) = claim(&store, 5).await {
            claimed.push(run.id);
        }
        assert_eq!(claimed, asked);
    })
    .await;
}

#[tokio::test]
async fn the_queue_is_in_the_order_of_the_claims() {
    on_each_engine(async |store| {
        let (busy, idle) = (codebase(&store, 1, "acme/busy").await, codebase(&store, 2, "acme/idle").await);
        let thread = async |app: &Codebase, number| conversation(&store, app, number).await;
        let talk = thread(&busy, 1).await;
        queued_run(&store, &talk, 1).await;
        let at_work = claim(&store, 1).await.unwrap();
        // Two wait for the one at work in their thread; the others may go at once.
        let mut asked = Vec::new();
        for comment in [2, 3] {
            asked.push(queued_run(&store, &talk, comment).await.id);
        }
        for (app, number) in [(&busy, 2), (&busy, 3), (&idle, 4), (&idle, 5), (&idle, 6)] {
            asked.push(queued_run(&store, &thread(app, number).await, 1).await.id);
        }
        let [held, held_too, busy_1, busy_2, idle_1, idle_2, idle_3] = asked[..] else { unreachable!() };
        let queue = store.queue().await.unwrap();
        assert_eq!(queue, [idle_1, busy_1, idle_2, busy_2, idle_3, held, held_too]);
        for (place, id) in (0..).zip(&queue) {
            assert_eq!(store.queue_place(*id).await.unwrap(), place);
        }
        let mut claimed = Vec::new();
        while let Some(run) = store.claim_run("node", at(1), LEASE, 100).await.unwrap() {
            claimed.push(run.id);
        }
        assert_eq!(claimed, queue[..5]);
        assert_eq!(store.queue().await.unwrap(), [held, held_too]);
        end(&store, at_work, RunState::Failed).await;
        assert_eq!(claim(&store, 2).await, None, "four are at work");
        assert_eq!(store.claim_run("node", at(2), LEASE, 100).await.unwrap().unwrap().id, held);
        assert_eq!(store.queue().await.unwrap(), [held_too]);
        assert_eq!(store.queue_place(held).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_is_said_of_a_run_that_waits_does_not_come_after_its_claim() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let thread = conversation(&store, &app, 1).await;
        let run = queued_run(&store, &thread, 1).await;
        let said = |body: &str| NewOutgoing {
            key: format!("status/{}", run.id),
            codebase: app.id,
            conversation: Some(thread.id),
            outgoing: Outgoing::Message { body: body.to_owned() },
            turn: Turn::Progress,
            not_before: at(1),
        };
        let row = async || store.load_outgoing_by_key(&said("").key).await.unwrap().unwrap();
        assert!(store.enqueue_while_queued(run.id, &said("2 ahead"), at(1)).await.unwrap());
        assert!(store.enqueue_while_queued(run.id, &said("2 ahead"), at(2)).await.unwrap());
        assert_eq!(row().await.version, 1, "nothing changed");
        claim(&store, 3).await.unwrap();
        assert!(!store.enqueue_while_queued(run.id, &said("1 ahead"), at(3)).await.unwrap());
        assert_eq!(row().await.outgoing, said("2 ahead").outgoing);
    })
    .await;
}

#[tokio::test]
async fn an_environment_has_one_run_at_a_time() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let env = environment(&store, &app, 1).await;
        for number in [1, 2] {
            queued_run(&store, &conversation(&store, &app, number).await, 1).await;
        }
        let mut first = claim(&store, 1).await.unwrap();
        let mut second = claim(&store, 1).await.unwrap();
        first.environment = Some(env.id);
        assert!(store.update_run(&first, "node").await.unwrap());
        second.started_at = Some(at(1));
        assert!(store.update_run(&second, "node").await.unwrap());
        second.environment = Some(env.id);
        assert!(store.update_run(&second, "node").await.unwrap_err().is_conflict());
        // Put back, it waits for the environment.
        assert!(store.requeue_run(&second, "node", env.id).await.unwrap());
        assert!(!store.update_run(&second, "node").await.unwrap(), "a queued run is nobody's");
        assert_eq!(claim(&store, 4).await, None);
        end(&store, first, RunState::Succeeded).await;
        assert!(store.environment_is_busy(env.id, None).await.unwrap(), "one is queued for it");
        let again = claim(&store, 10).await.unwrap();
        assert_eq!((again.id, again.started_at), (second.id, None), "waiting is no work");
    })
    .await;
}

#[tokio::test]
async fn a_run_keeps_busy_what_it_works_in_and_not_what_its_thread_points_to_since() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let (works_in, points_to) = (environment(&store, &app, 1).await, environment(&store, &app, 2).await);
        let thread = conversation(&store, &app, 1).await;
        let busy = async |one: &Environment| store.environment_is_busy(one.id, None).await.unwrap();
        queued_run(&store, &thread, 1).await;
        store.set_conversation_environment(thread.id, Some(points_to.id), at(1)).await.unwrap();
        assert!(busy(&points_to).await && !busy(&works_in).await, "it is yet to begin");
        let mut run = claim(&store, 1).await.unwrap();
        run.environment = Some(works_in.id);
        assert!(store.update_run(&run, "node").await.unwrap());
        assert!(busy(&points_to).await && busy(&works_in).await, "preparing begins anew after a crash");
        for state in [RunState::Running, RunState::Delivering] {
            run.state = state;
            assert!(store.update_run(&run, "node").await.unwrap());
            assert!(!busy(&points_to).await && busy(&works_in).await, "{state}");
        }
        queued_run(&store, &thread, 2).await;
        assert!(busy(&points_to).await, "the next one begins there");
    })
    .await;
}

#[tokio::test]
async fn what_is_written_comes_back() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let env = environment(&store, &app, 1).await;
        queued_run(&store, &conversation(&store, &app, 1).await, 1).await;
        let mut run = claim(&store, 1).await.unwrap();
        run.environment = Some(env.id);
        run.state = RunState::Running;
        run.opening = Some("Working in isolated branch `issue-1`".to_owned());
        run.answer = Some("done 🚀".to_owned());
        run.process = Some(AgentProcess { group: 4711, start_ticks: u64::MAX });
        run.outcome.pushed = Some(CommitSha::new(&"c".repeat(40)).unwrap());
        run.outcome.pull_request = Some(ThreadNumber(9));
        run.started_at = Some(at(1));
        assert!(store.update_run(&run, "node").await.unwrap());
        assert_eq!(store.load_run(run.id).await.unwrap(), Some(run.clone()));
        let by_environment = RunFilter::Environment(env.id);
        assert_eq!(store.list_runs(by_environment, 10, 0).await.unwrap(), [run.clone()]);
        assert_eq!(store.list_runs(RunFilter::default(), 10, 1).await.unwrap(), []);
        let elsewhere = RunFilter::Environment(EnvironmentId(run.id.0));
        assert_eq!(store.list_runs(elsewhere, 10, 0).await.unwrap(), []);
    })
    .await;
}

/// What an older version stored is read like what this one stores.
#[tokio::test]
async fn an_outcome_under_its_former_names_is_still_read() {
    on_each_store(async |store, url| {
        let app = codebase(&store, 1, "acme/app").await;
        let run = queued_run(&store, &conversation(&store, &app, 1).await, 1).await;
        let before = "UPDATE runs SET outcome = '{\"began_at\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",
                      \"ended_at\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\",\"commits\":2}'";
        raw(url, before).await;
        let outcome = store.load_run(run.id).await.unwrap().unwrap().outcome;
        let head = |letter: &str| CommitSha::new(&letter.repeat(40)).ok();
        assert_eq!((outcome.head_before, outcome.head_after, outcome.commits), (head("a"), head("b"), Some(2)));
    })
    .await;
}

#[tokio::test]
async fn the_end_and_its_message_are_written_together_and_once() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let thread = conversation(&store, &app, 1).await;
        queued_run(&store, &thread, 1).await;
        let mut run = claim(&store, 1).await.unwrap();
        run.state = RunState::Succeeded;
        run.ended_at = Some(at(2));
        let message = |body: &str| NewOutgoing {
            key: format!("status/{}", run.id),
            codebase: app.id,
            conversation: Some(thread.id),
            outgoing: Outgoing::Comment { number: ThreadNumber(1), body: body.to_owned(), marker: "m".to_owned() },
            turn: Turn::Result,
            not_before: at(2),
        };
        assert!(!store.finish_run(&run, "other", Some(message("stolen")), at(2)).await.unwrap());
        assert_eq!(store.load_outgoing_by_key(&format!("status/{}", run.id)).await.unwrap(), None);
        assert!(store.finish_run(&run, "node", Some(message("done")), at(2)).await.unwrap());
        assert!(!store.finish_run(&run, "node", Some(message("again")), at(3)).await.unwrap(), "an end is an end");
        let row = store.load_outgoing_by_key(&format!("status/{}", run.id)).await.unwrap().unwrap();
        assert_eq!((row.outgoing.clone(), row.version), (message("done").outgoing, 1));
        assert_eq!(store.load_run(run.id).await.unwrap().unwrap().state, RunState::Succeeded);
    })
    .await;
}

#[tokio::test]
async fn a_lease_is_kept_by_heartbeats_and_lost_without() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let env = environment(&store, &app, 1).await;
        queued_run(&store, &conversation(&store, &app, 1).await, 1).await;
        let slow = claim(&store, 0).await.unwrap();
        assert_eq!(store.heartbeat_run(&slow, "node", at(100)).await.unwrap(), Some(false));
        assert_eq!(store.take_over_expired_runs("other", at(99)).await.unwrap(), LeftBehind::default());
        assert_eq!(store.claim_run("other", at(100), LEASE, 4).await.unwrap(), None, "its owner may be alive");
        assert_eq!(store.take_over_expired_runs("other", at(100)).await.unwrap().runs.len(), 1);
        let quick = store.claim_run("other", at(100), LEASE, 4).await.unwrap().unwrap();
        assert_eq!((quick.id, quick.attempts, quick.state), (slow.id, 3, RunState::Preparing));
        assert_eq!(store.heartbeat_run(&slow, "node", at(200)).await.unwrap(), None);
        assert!(!store.update_run(&slow, "node").await.unwrap());
        assert!(!store.requeue_run(&slow, "node", env.id).await.unwrap());
        assert!(store.update_run(&quick, "other").await.unwrap());
    })
    .await;
}

/// BR-170: the owner dies; each stage goes its own way.
#[tokio::test]
async fn a_restart_takes_over_what_was_left() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        for number in 1..=3 {
            queued_run(&store, &conversation(&store, &app, number).await, 1).await;
        }
        let preparing = claim(&store, 0).await.unwrap();
        let mut running = claim(&store, 0).await.unwrap();
        running.state = RunState::Running;
        store.update_run(&running, "node").await.unwrap();
        let mut delivering = claim(&store, 0).await.unwrap();
        delivering.state = RunState::Delivering;
        store.update_run(&delivering, "node").await.unwrap();

        assert_eq!(store.release_runs_of("elsewhere", at(1)).await.unwrap(), LeftBehind::default());
        let mut left = store.release_runs_of("node", at(1)).await.unwrap().runs;
        left.sort_by_key(|run| run.id);
        assert_eq!(
            left.iter().map(|run| run.state).collect::<Vec<_>>(),
            [RunState::Preparing, RunState::Running, RunState::Delivering]
        );
        assert!(!store.update_run(&running, "node").await.unwrap(), "the dead have no say");
        // Who died before it was written down finds the interrupted one again, and only that one.
        let again = store.release_runs_of("node", at(1)).await.unwrap().runs;
        assert_eq!(again.iter().map(|run| run.id).collect::<Vec<_>>(), [running.id]);
        let mut interrupted = again[0].clone();
        interrupted.state = RunState::Interrupted;
        assert!(store.finish_run(&interrupted, "node", None, at(2)).await.unwrap());
        assert_eq!(store.take_over_expired_runs("node", at(500)).await.unwrap(), LeftBehind::default());
        let resumed = [claim(&store, 3).await.unwrap(), claim(&store, 3).await.unwrap()];
        assert_eq!(resumed.each_ref().map(|run| run.id), [preparing.id, delivering.id]);
        assert_eq!(resumed[1].state, RunState::Delivering);
        assert_eq!(claim(&store, 3).await, None);
    })
    .await;
}

#[tokio::test]
async fn another_node_takes_over_what_a_dead_one_held() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        for number in [1, 2] {
            queued_run(&store, &conversation(&store, &app, number).await, 1).await;
        }
        let lease = Duration::from_secs(5);
        let mut running = store.claim_run("dead", at(0), lease, 4).await.unwrap().unwrap();
        let preparing = store.claim_run("dead", at(0), lease, 4).await.unwrap().unwrap();
        running.state = RunState::Running;
        store.update_run(&running, "dead").await.unwrap();
        assert_eq!(store.take_over_expired_runs("alive", at(4)).await.unwrap(), LeftBehind::default());
        assert_eq!(store.take_over_expired_runs("alive", at(5)).await.unwrap().runs.len(), 2);
        // Until its end is written it is answered again, should whoever took it over die as well.
        let mut left = store.take_over_expired_runs("alive", at(6)).await.unwrap().runs;
        assert_eq!(left.iter().map(|run| run.id).collect::<Vec<_>>(), [running.id]);
        let mut interrupted = left.remove(0);
        interrupted.state = RunState::Interrupted;
        assert!(!store.update_run(&running, "dead").await.unwrap(), "the dead have no say");
        assert!(store.finish_run(&interrupted, "alive", None, at(6)).await.unwrap());
        assert_eq!(store.take_over_expired_runs("alive", at(7)).await.unwrap(), LeftBehind::default());
        let resumed = store.claim_run("alive", at(7), lease, 4).await.unwrap().unwrap();
        assert_eq!((resumed.id, resumed.state), (preparing.id, RunState::Preparing));
    })
    .await;
}

#[tokio::test]
async fn stopping_ends_queued_runs_and_tells_the_live_one() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let thread = conversation(&store, &app, 1).await;
        let (first, second) = (queued_run(&store, &thread, 1).await, queued_run(&store, &thread, 2).await);
        let live = claim(&store, 1).await.unwrap();
        let stop = accept(&store.inbox_writer(), delivery("stop", None)).await;
        let later = queued_run(&store, &thread, 3).await;
        let asked = store.request_cancel_of_conversation(thread.id, stop, "stopped", at(2)).await.unwrap();
        assert_eq!(asked, [first.id, second.id], "what was asked for later is not meant");
        assert_eq!(store.request_cancel_of_run(later.id, "stopped", at(2)).await.unwrap(), [later.id]);
        assert_eq!(store.heartbeat_run(&live, "node", at(60)).await.unwrap(), Some(true));
        let ended = store.load_run(second.id).await.unwrap().unwrap();
        assert_eq!((ended.state, ended.ended_at), (RunState::Cancelled, Some(at(2))));
        assert_eq!(ended.reason.as_deref(), Some("stopped"));
        assert_eq!(store.load_run(first.id).await.unwrap().unwrap().reason, None, "it says so itself");
        end(&store, live, RunState::Cancelled).await;
        assert_eq!(store.request_cancel_of_run(first.id, "stopped", at(3)).await.unwrap(), []);
        assert!(store.unfinished().await.unwrap().runs == 0);
    })
    .await;
}

#[tokio::test]
async fn a_deleted_comment_takes_its_queued_run_along() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let thread = conversation(&store, &app, 1).await;
        let (first, second) = (queued_run(&store, &thread, 11).await, queued_run(&store, &thread, 12).await);
        let live = claim(&store, 1).await.unwrap();
        assert_eq!(live.id, first.id);
        let next = wish(&store, &thread, 13).await;
        let replaced = store.replace_queued_run(first.id, "stopped", Some(&next), at(2)).await.unwrap();
        assert!(!replaced, "one at work goes on");
        assert_eq!(
            store.runs_of_message(thread.id, &MessageSource::IssueComment { id: CommentId(13) }).await.unwrap(),
            [],
            "and nothing takes its place"
        );
        assert!(store.replace_queued_run(second.id, "stopped", Some(&next), at(2)).await.unwrap());
        let gone = store
            .runs_of_message(thread.id, &MessageSource::IssueComment { id: CommentId(12) })
            .await
            .unwrap()
            .remove(0);
        assert_eq!((gone.state, gone.reason.as_deref()), (RunState::Cancelled, Some("stopped")));
        let waiting = store
            .runs_of_message(thread.id, &MessageSource::IssueComment { id: CommentId(13) })
            .await
            .unwrap()
            .remove(0);
        assert_eq!(waiting.state, RunState::Queued);
        assert!(!store.replace_queued_run(second.id, "again", None, at(3)).await.unwrap(), "it was over");
        let review = MessageSource::Review { id: CommentId(13) };
        assert_eq!(store.runs_of_message(thread.id, &review).await.unwrap(), [], "which is numbered apart");
    })
    .await;
}
