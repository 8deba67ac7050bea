//! Tests of `missed`: what is asked for, when, how often, and what no history may lead to.

use super::*;
use proptest::prelude::*;

const START: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(START + seconds)
}

fn first(guid: &str, seconds: i64, status: u16) -> DeliveryAttempt {
    DeliveryAttempt { id: AttemptId(seconds), guid: guid.to_owned(), at: at(seconds), status, redelivery: false }
}

fn again(guid: &str, seconds: i64, status: u16) -> DeliveryAttempt {
    DeliveryAttempt { redelivery: true, ..first(guid, seconds, status) }
}

fn look(now: i64, watch: &MissedWatch, attempts: &[DeliveryAttempt]) -> MissedPlan {
    look_with(now, watch, attempts, &[])
}

fn look_with(now: i64, watch: &MissedWatch, attempts: &[DeliveryAttempt], stored: &[&str]) -> MissedPlan {
    let stored = stored.iter().map(|guid| (*guid).to_owned()).collect();
    missed(&MissedFacts { now: at(now), watch, attempts, all_known: true, stored: &stored })
}

fn asked(plan: &MissedPlan) -> Vec<&str> {
    plan.ask.iter().map(|wanted| wanted.guid.as_str()).collect()
}

#[test]
fn the_answer_to_an_attempt_says_whether_it_is_asked_for() {
    let watch = MissedWatch::from(at(0));
    for (status, expected) in [
        (200, false),
        (202, false),
        (302, true),
        (400, false),
        (401, true),
        (404, true),
        (413, true),
        (415, false),
        (500, true),
        (502, true),
        (503, true),
        (0, true),
    ] {
        let plan = look(100, &watch, &[first("a", 10, status)]);
        assert_eq!(!plan.ask.is_empty(), expected, "{status}");
    }
}

#[test]
fn what_is_in_the_inbox_or_came_with_another_attempt_is_not_asked_for() {
    let watch = MissedWatch::from(at(0));
    assert!(look_with(100, &watch, &[first("a", 10, 0)], &["a"]).ask.is_empty());
    assert!(look(100, &watch, &[again("a", 20, 202), first("a", 10, 503)]).ask.is_empty());
    assert!(look(100, &watch, &[again("a", 20, 503), first("a", 10, 202)]).ask.is_empty());
    let attempts = [first("a", 10, 0), again("a", 20, 202), first("b", 30, 503)];
    assert_eq!(unanswered(&attempts).into_iter().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn what_may_be_on_its_way_is_waited_for_and_not_forgotten() {
    let watch = MissedWatch::from(at(0));
    let attempts = [first("later", 5000, 202), first("a", 4990, 0)];
    let plan = look(5000, &watch, &attempts);
    assert!(plan.ask.is_empty());
    assert_eq!(asked(&look(5050, &plan.watch, &attempts)), ["a"]);
    // A clock that is ahead of ours makes it wait a little longer.
    assert!(look(100, &watch, &[first("a", 700, 0)]).ask.is_empty());
}

#[test]
fn the_oldest_come_first_and_a_crowd_comes_in_parts() {
    let attempts: Vec<_> = (0..250).rev().map(|n| first(&format!("{n:03}"), n, 503)).collect();
    let (mut watch, mut seen) = (MissedWatch::from(at(0)), Vec::new());
    for now in [1000, 1010, 1020] {
        let plan = look(now, &watch, &attempts);
        seen.extend(plan.ask.iter().map(|wanted| wanted.guid.clone()));
        watch = plan.watch;
        plan.ask.iter().for_each(|wanted| watch.count(&wanted.guid, at(now)));
    }
    assert_eq!(seen, (0..250).map(|n| format!("{n:03}")).collect::<Vec<_>>());
}

#[test]
fn a_delivery_from_before_the_watch_is_not_asked_for_whoever_sends_it_again() {
    let watch = MissedWatch::from(at(1000));
    assert_eq!(look_back(&watch, at(2000)), at(1000));
    assert!(look(2000, &watch, &[again("old", 1500, 503)]).ask.is_empty());
}

/// What GitHub shows, looked at every two minutes, while every attempt fails in the same way.
fn keep_failing(remembers: bool, arrives: bool) -> (Vec<i64>, usize, MissedWatch) {
    let mut attempts = vec![first("a", 10, 503)];
    let (mut watch, mut asked_at, mut given_up) = (MissedWatch::from(at(0)), Vec::new(), 0);
    for now in (120..4 * 24 * 3600).step_by(120) {
        let since = look_back(&watch, at(now));
        attempts.push(first(&format!("other {now}"), now - 5, 202));
        let listed: Vec<_> = attempts.iter().filter(|attempt| attempt.at >= since).cloned().collect();
        let plan = look(now, &watch, &listed);
        let before = watch.clone();
        watch = plan.watch;
        given_up += plan.given_up.len();
        for wanted in &plan.ask {
            asked_at.push(now);
            watch.count(&wanted.guid, at(now));
            if arrives {
                attempts.push(again(&wanted.guid, now + 1, 503));
            }
        }
        if !remembers && !plan.ask.is_empty() {
            watch = before;
        }
    }
    (asked_at, given_up, watch)
}

#[test]
fn what_keeps_failing_is_asked_for_six_times_with_growing_pauses_and_then_given_up_once() {
    let (asked_at, given_up, watch) = keep_failing(true, true);
    assert_eq!(asked_at.len(), PAUSES.len() + 1);
    assert!(asked_at.windows(3).all(|w| w[2] - w[1] > w[1] - w[0]), "{asked_at:?}");
    assert_eq!(given_up, 1);
    assert_eq!(watch.asked, BTreeMap::new(), "nothing is remembered of it");
    assert!(watch.since > at(3 * 24 * 3600), "looks are short again");
}

#[test]
fn neither_a_github_that_never_sends_nor_a_memory_that_is_lost_makes_it_go_on_for_ever() {
    for (remembers, arrives) in [(true, false), (false, true)] {
        let (asked_at, given_up, _) = keep_failing(remembers, arrives);
        assert_eq!((asked_at.len(), given_up), (PAUSES.len() + 1, 1), "{remembers} {arrives}");
    }
}

#[test]
fn what_comes_after_it_was_asked_for_is_counted_once() {
    let mut watch = MissedWatch::from(at(0));
    watch.count("a", at(100));
    let attempts = [again("a", 101, 202), first("a", 10, 503)];
    let plan = look(200, &watch, &attempts);
    assert_eq!((plan.arrived, plan.watch.asked.len()), (1, 0));
    assert_eq!(look(300, &plan.watch, &attempts).arrived, 0);
}

#[test]
fn what_is_not_known_yet_stays_to_be_looked_at() {
    let mut watch = MissedWatch::from(at(0));
    watch.count("unknown", at(50));
    let (new, stored) = ([first("c", 9_000, 202), first("b", 8_000, 503)], BTreeSet::new());
    let facts = MissedFacts { now: at(9_100), watch: &watch, attempts: &new, all_known: false, stored: &stored };
    let plan = missed(&facts);
    assert_eq!(asked(&plan), ["b"], "what is known is asked for");
    assert_eq!(plan.watch, watch, "and nothing is forgotten of the rest");
    let all = [new.to_vec(), vec![first("a", 10, 503)]].concat();
    let plan = look(9_200, &plan.watch, &all);
    assert_eq!((asked(&plan), plan.watch.since), (vec!["a", "b"], at(10)));
    assert_eq!(plan.watch.asked, BTreeMap::new(), "it was not asked for in the watched time");
}

#[test]
fn what_is_not_kept_changes_no_plan() {
    let watch = MissedWatch::from(at(0));
    let attempts = [
        first("new", 9_000, 202),
        again("came", 5_000, 202),
        first("lost", 4_000, 503),
        first("at once", 3_000, 202),
        first("came", 2_000, 503),
    ];
    let kept: Vec<_> = attempts.iter().filter(|attempt| is_of_use(attempt, at(0), Some(at(9_000)))).cloned().collect();
    assert_eq!(kept.len(), 4);
    assert_eq!(look(9_100, &watch, &kept), look(9_100, &watch, &attempts));
    assert_eq!((news_from(at(0), Some(at(9_000))), news_from(at(0), None)), (at(8_400), at(0)));
}

#[test]
fn the_pauses_fit_into_the_time_that_github_keeps_attempts() {
    assert!(PAUSES.iter().sum::<Duration>() < KEPT);
}

fn any_attempts() -> impl Strategy<Value = Vec<DeliveryAttempt>> {
    let status = proptest::sample::select(vec![0, 202, 400, 401, 404, 413, 502, 503]);
    let one = (0..6_u8, 0..300_000_i64, status);
    let one = one.prop_map(|(guid, seconds, status)| first(&guid.to_string(), seconds, status));
    // Nothing is delivered again before it was delivered: the oldest attempt of a delivery is its first, and the only one.
    proptest::collection::vec(one, 0..30).prop_map(|mut attempts| {
        attempts.sort_by_key(|attempt| attempt.at);
        let mut begun = BTreeSet::new();
        for attempt in &mut attempts {
            attempt.redelivery = !begun.insert(attempt.guid.clone());
        }
        // GitHub lists the newest first.
        attempts.reverse();
        attempts
    })
}

proptest! {
    #[test]
    fn no_history_leads_astray(
        attempts in any_attempts(), now in 0..400_000_i64, since in 0..300_000_i64, known in 0..6_u8,
        before in proptest::collection::btree_map(0..6_u8, (0..8_u32, 0..300_000_i64, any::<bool>()), 0..6),
    ) {
        let entry = |(guid, (times, last, given_up)): (u8, (u32, i64, bool))| {
            (guid.to_string(), AskedAgain { times, last: at(last), given_up })
        };
        let watch = MissedWatch { since: at(since), asked: before.into_iter().map(entry).collect() };
        let since = look_back(&watch, at(now));
        let listed: Vec<_> = attempts.iter().filter(|attempt| attempt.at >= since).cloned().collect();
        let known = known.to_string();
        let plan = look_with(now, &watch, &listed, &[&known]);
        prop_assert!(plan.watch.since >= watch.since, "it never looks further back");
        let guids: BTreeSet<_> = asked(&plan).into_iter().collect();
        prop_assert_eq!(guids.len(), plan.ask.len(), "once each");
        for wanted in &plan.ask {
            let history: Vec<_> = listed.iter().filter(|attempt| attempt.guid == wanted.guid).collect();
            prop_assert!(wanted.guid != known);
            prop_assert!(history.iter().all(|attempt| !is_success(attempt)));
            prop_assert!(history.iter().any(|attempt| attempt.id == wanted.attempt && !attempt.redelivery));
            prop_assert!(history.iter().filter(|attempt| attempt.redelivery).count() <= PAUSES.len());
            prop_assert!(watch.asked.get(&wanted.guid).is_none_or(|asked| asked.times as usize <= PAUSES.len()));
            prop_assert!(history.iter().any(|attempt| attempt.at >= plan.watch.since), "the next look sees it");
        }
        // The order in which GitHub lists them does not matter, nor does looking twice.
        let mut turned = listed.clone();
        turned.sort_by_key(|attempt| (attempt.at, attempt.id, attempt.guid.clone(), attempt.redelivery));
        let other = look_with(now, &watch, &turned, &[&known]);
        prop_assert_eq!(&other.watch, &plan.watch);
        prop_assert_eq!(&other.given_up, &plan.given_up);
        let since = look_back(&plan.watch, at(now));
        let listed: Vec<_> = listed.into_iter().filter(|attempt| attempt.at >= since).collect();
        let twice = look_with(now, &plan.watch, &listed, &[&known]);
        prop_assert!(twice.given_up.is_empty() && twice.arrived == 0);
    }
}
