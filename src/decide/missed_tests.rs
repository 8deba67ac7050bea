//! Tests of `missed`: what is fetched, when, how often, and what no history may lead to.

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
    let (stored, failed) = (stored.iter().map(|guid| (*guid).to_owned()).collect(), BTreeMap::new());
    missed(&facts(at(now), watch, attempts, &stored, &failed))
}

fn facts<'a>(
    now: Timestamp,
    watch: &'a MissedWatch,
    attempts: &'a [DeliveryAttempt],
    stored: &'a BTreeSet<String>,
    failed: &'a BTreeMap<String, Timestamp>,
) -> MissedFacts<'a> {
    MissedFacts { now, watch, attempts, all_known: true, stored, failed, are_sent: true, room: MOST_AT_ONCE }
}

fn fetched(plan: &MissedPlan) -> Vec<&str> {
    plan.fetch.iter().map(|wanted| wanted.guid.as_str()).collect()
}

/// Who answered is not known.
#[test]
fn what_is_not_in_the_inbox_is_fetched_whatever_an_attempt_was_answered() {
    let watch = MissedWatch::from(at(0));
    for status in [200, 202, 302, 400, 401, 404, 413, 415, 500, 502, 503, 0] {
        let attempts = [first("a", 10, status)];
        assert_eq!(fetched(&look(100, &watch, &attempts)), ["a"], "{status}");
        assert!(look_with(100, &watch, &attempts, &["a"]).fetch.is_empty(), "{status}");
    }
    assert_eq!(look(100, &watch, &[again("a", 20, 202), first("a", 10, 503)]).fetch[0].attempt, AttemptId(10));
}

#[test]
fn what_may_be_on_its_way_is_waited_for_and_not_forgotten() {
    let watch = MissedWatch::from(at(0));
    let attempts = [first("later", 5000, 202), first("a", 4990, 0)];
    let plan = look_with(5000, &watch, &attempts, &["later"]);
    assert!(plan.fetch.is_empty());
    assert_eq!(fetched(&look_with(5050, &plan.watch, &attempts, &["later"])), ["a"]);
    // A clock that is ahead of ours makes it wait a little longer.
    assert!(look(100, &watch, &[first("a", 700, 0)]).fetch.is_empty());
}

/// Nobody else would take it in.
#[test]
fn where_nothing_is_sent_nothing_is_waited_for() {
    let (watch, attempts) = (MissedWatch::from(at(0)), [first("a", 4990, 0)]);
    let (stored, failed) = (BTreeSet::new(), BTreeMap::new());
    let alone = MissedFacts { are_sent: false, ..facts(at(5000), &watch, &attempts, &stored, &failed) };
    assert_eq!(fetched(&missed(&alone)), ["a"]);
}

#[test]
fn what_was_given_up_is_fetched_again_where_somebody_has_it_sent_again_after_that() {
    let watch = MissedWatch::from(at(4000));
    let attempts = [first("new", 5000, 0), again("a", 4900, 0), again("a", 4500, 0)];
    let stored = BTreeSet::from(["a".to_owned(), "new".to_owned()]);
    for (ended, wanted) in [(4400, Some(4900)), (4600, Some(4900)), (4900, None), (4950, None)] {
        let failed = BTreeMap::from([("a".to_owned(), at(ended))]);
        let plan = missed(&facts(at(5100), &watch, &attempts, &stored, &failed));
        let attempt = plan.fetch.first().map(|wanted| wanted.attempt);
        assert_eq!((plan.fetch.len() <= 1, attempt), (true, wanted.map(AttemptId)), "{ended}");
    }
}

#[test]
fn the_oldest_come_first_and_a_crowd_comes_in_parts() {
    let attempts: Vec<_> = (0..250).rev().map(|n| first(&format!("{n:03}"), n, 503)).collect();
    let (mut watch, mut seen) = (MissedWatch::from(at(0)), Vec::new());
    for (now, more) in [(1000, true), (1010, true), (1020, false)] {
        let stored: Vec<&str> = seen.iter().map(String::as_str).collect();
        let plan = look_with(now, &watch, &attempts, &stored);
        assert_eq!(plan.more, more);
        seen.extend(plan.fetch.iter().map(|wanted| wanted.guid.clone()));
        watch = plan.watch;
    }
    assert_eq!(seen, (0..250).map(|n| format!("{n:03}")).collect::<Vec<_>>());
}

#[test]
fn a_thousand_come_within_two_minutes_and_no_more_than_github_grants_in_an_hour() {
    let (mut looks, mut now, mut in_two_minutes) = (Vec::new(), 0, 0);
    while now < 3600 {
        let count = room(&looks, at(now));
        looks.push((at(now), count));
        in_two_minutes += if now < 120 { count } else { 0 };
        now += 10;
    }
    assert_eq!(in_two_minutes, 1_000);
    assert_eq!(looks.iter().map(|(_, count)| count).sum::<usize>(), 3_000);
    assert_eq!(room(&[(at(5000), 900)], at(4000)), MOST_AT_ONCE, "of a clock that was wrong");
}

#[test]
fn looks_come_soon_where_there_is_something_to_fetch_and_never_ask_too_much() {
    let seconds = |rest: Duration| rest.as_secs();
    let rest = |more, pages, are_sent| seconds(rest_after(more, pages, are_sent));
    assert_eq!([rest(false, 1, true), rest(true, 1, true), rest(false, 1, false)], [120, 10, 10]);
    for pages in 1..=200 {
        let (an_hour, lists) = (3600, pages as u64);
        for are_sent in [true, false] {
            assert!(lists * (an_hour / rest(true, pages, are_sent)) + 3_000 < 5_000, "{pages}");
        }
    }
    let failed = |wait: Option<u64>, again, are_sent| {
        seconds(rest_after_failure(wait.map(Duration::from_secs), again, are_sent))
    };
    assert_eq!([failed(None, false, false), failed(None, true, false), failed(None, false, true)], [10, 120, 120]);
    assert_eq!([failed(Some(60), false, false), failed(Some(900), true, true)], [60, 900]);
}

#[test]
fn a_delivery_from_before_the_watch_is_not_fetched_whoever_has_it_sent_again() {
    let watch = MissedWatch::from(at(1000));
    assert_eq!(look_back(&watch, at(2000)), at(1000));
    assert!(look(2000, &watch, &[again("old", 1500, 503)]).fetch.is_empty());
}

#[test]
fn what_cannot_be_fetched_is_tried_six_times_with_growing_pauses_and_then_given_up_once() {
    let mut attempts = vec![first("a", 10, 503)];
    let (mut watch, mut tried_at, mut given_up) = (MissedWatch::from(at(0)), Vec::new(), 0);
    let mut others = Vec::new();
    for now in (120..4 * 24 * 3600).step_by(120) {
        let since = look_back(&watch, at(now));
        others.push(format!("other {now}"));
        attempts.push(first(&others[others.len() - 1], now - 5, 202));
        attempts.retain(|attempt| attempt.at >= since);
        let stored: Vec<&str> = others.iter().rev().take(2500).map(String::as_str).collect();
        let plan = look_with(now, &watch, &attempts, &stored);
        watch = plan.watch;
        given_up += plan.given_up.len();
        for wanted in &plan.fetch {
            tried_at.push(now);
            watch.count(&wanted.guid, at(now));
        }
    }
    assert_eq!((tried_at.len(), given_up), (PAUSES.len() + 1, 1));
    assert!(tried_at.windows(3).all(|w| w[2] - w[1] > w[1] - w[0]), "{tried_at:?}");
    assert_eq!(watch.tried, BTreeMap::new(), "nothing is remembered of it");
    assert!(watch.since > at(3 * 24 * 3600), "looks are short again");
}

#[test]
fn what_nobody_can_read_is_given_up_at_once_and_forgotten_when_its_time_is_over() {
    let mut watch = MissedWatch::from(at(0));
    watch.give_up("a", at(100));
    let attempts = [first("later", 5000, 202), first("a", 10, 400)];
    let plan = look_with(5100, &watch, &attempts, &["later"]);
    assert_eq!((fetched(&plan).len(), plan.given_up.len()), (0, 0), "it was named when it was fetched");
    assert_eq!(plan.watch, MissedWatch::from(at(5000 - 600)));
}

#[test]
fn what_is_not_known_yet_stays_to_be_looked_at() {
    let mut watch = MissedWatch::from(at(0));
    watch.count("unknown", at(50));
    let (new, stored) = ([first("c", 9_000, 202), first("b", 8_000, 503)], BTreeSet::from(["c".to_owned()]));
    let failed = BTreeMap::new();
    let part = MissedFacts { all_known: false, ..facts(at(9_100), &watch, &new, &stored, &failed) };
    let plan = missed(&part);
    assert_eq!(fetched(&plan), ["b"], "what is known is fetched");
    assert_eq!(plan.watch, watch, "and nothing is forgotten of the rest");
    let all = [new.to_vec(), vec![first("a", 10, 503)]].concat();
    let plan = look_with(9_200, &plan.watch, &all, &["c"]);
    assert_eq!((fetched(&plan), plan.watch.since), (vec!["a", "b"], at(10)));
    assert_eq!(plan.watch.tried, BTreeMap::new(), "it did not set out in the watched time");
}

#[test]
fn what_is_not_kept_changes_no_plan() {
    let watch = MissedWatch::from(at(0));
    let attempts = [
        first("new", 9_000, 202),
        first("listed again", 8_500, 202),
        again("came", 5_000, 202),
        first("lost", 4_000, 503),
        first("swallowed", 3_500, 200),
        first("at once", 3_000, 202),
        first("came", 2_000, 503),
    ];
    let stored = ["new", "listed again", "came", "at once"];
    let is_kept = |attempt: &&DeliveryAttempt| {
        is_of_use(attempt, stored.contains(&attempt.guid.as_str()), at(0), Some(at(9_000)))
    };
    let kept: Vec<_> = attempts.iter().filter(is_kept).cloned().collect();
    assert_eq!(kept.len(), 4);
    assert_eq!(look_with(9_100, &watch, &kept, &stored), look_with(9_100, &watch, &attempts, &stored));
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
            (guid.to_string(), Tried { times, last: at(last), given_up })
        };
        let watch = MissedWatch { since: at(since), tried: before.into_iter().map(entry).collect() };
        let since = look_back(&watch, at(now));
        let listed: Vec<_> = attempts.iter().filter(|attempt| attempt.at >= since).cloned().collect();
        let known = known.to_string();
        let plan = look_with(now, &watch, &listed, &[&known]);
        prop_assert!(plan.watch.since >= watch.since, "it never looks further back");
        let guids: BTreeSet<_> = fetched(&plan).into_iter().collect();
        prop_assert_eq!(guids.len(), plan.fetch.len(), "once each");
        for wanted in &plan.fetch {
            let history: Vec<_> = listed.iter().filter(|attempt| attempt.guid == wanted.guid).collect();
            prop_assert!(wanted.guid != known, "what is stored is never fetched");
            prop_assert!(history.iter().any(|attempt| attempt.id == wanted.attempt && !attempt.redelivery));
            prop_assert!(watch.tried.get(&wanted.guid).is_none_or(|tried| tried.times as usize <= PAUSES.len()));
            prop_assert!(history.iter().any(|attempt| attempt.at >= plan.watch.since), "the next look sees it");
        }
        for begun in listed.iter().filter(|attempt| !attempt.redelivery && attempt.guid != known) {
            let before = watch.tried.get(&begun.guid).is_some_and(|tried| tried.given_up);
            let is_given_up = before || plan.given_up.contains(&begun.guid);
            prop_assert!(is_given_up || begun.at >= plan.watch.since, "nothing is passed over");
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
        prop_assert!(twice.given_up.is_empty());
    }
}
