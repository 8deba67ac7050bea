//! Which deliveries are fetched from GitHub because they never came in.
//!
//! Only what the inbox holds has arrived. That an attempt was answered with a success proves nothing: a proxy may have given
//! the answer, or the service of before a backup was put back. So whatever else set out in the watched time is fetched,
//! however its attempts ended; sent once more, it would come to the same end. Fetching too much does no harm: the inbox knows
//! each delivery by its GUID. What cannot be fetched is tried again with growing pauses, and not for ever.

use crate::model::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// Between one try to fetch it and the next; after the last one it is given up. Together less than [`KEPT`].
const PAUSES: [Duration; 5] = [
    Duration::from_secs(5 * MINUTE),
    Duration::from_secs(30 * MINUTE),
    Duration::from_secs(3 * HOUR),
    Duration::from_secs(12 * HOUR),
    Duration::from_secs(24 * HOUR),
];
/// An attempt without an answer may be on its way for this long. GitHub gives a receiver ten seconds.
const IN_FLIGHT: Duration = Duration::from_secs(MINUTE);
/// How long GitHub keeps attempts. Source: "Viewing webhook deliveries".
const KEPT: Duration = Duration::from_secs(72 * HOUR);
/// Attempts may be listed later than others that ended after them.
const OVERLAP: Duration = Duration::from_secs(10 * MINUTE);
/// Deliveries fetched in one look, one after the other.
const MOST_AT_ONCE: usize = 100;
/// Deliveries fetched within [`WHILE`]: 3,000 an hour, of the 5,000 requests that GitHub grants an App at least. Source:
/// "Rate limits for GitHub Apps".
const MOST_IN_A_WHILE: usize = 1_000;
const WHILE: Duration = Duration::from_secs(20 * MINUTE);

/// Between two looks; [`SOON`] where one left something to fetch, or everything is to be fetched.
const SELDOM: Duration = Duration::from_secs(2 * MINUTE);
const SOON: Duration = Duration::from_secs(10);
/// So that the list itself takes at most 1,800 requests an hour.
const FOR_EACH_PAGE: Duration = Duration::from_secs(2);

pub struct MissedFacts<'a> {
    /// By GitHub's clock.
    pub now: Timestamp,
    pub watch: &'a MissedWatch,
    /// Attempts since [`look_back`], the newest without a gap, but those that are not [of use](is_of_use).
    pub attempts: &'a [DeliveryAttempt],
    /// False: older ones will be known later. Until then nothing of that time counts as settled.
    pub all_known: bool,
    /// GUIDs that are in the inbox.
    pub stored: &'a BTreeSet<String>,
    /// Those of them whose handling was given up, and when. Whoever has one sent again wants another try.
    pub failed: &'a BTreeMap<String, Timestamp>,
    /// GitHub may still bring here what is on its way.
    pub are_sent: bool,
    /// How many may be fetched: see [`room`].
    pub room: usize,
}

/// A delivery to fetch, and the attempt by which GitHub knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub guid: String,
    pub attempt: AttemptId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedPlan {
    /// Oldest first.
    pub fetch: Vec<Wanted>,
    /// There are more of them than may be fetched now.
    pub more: bool,
    /// To be kept, after what went wrong is counted in it.
    pub watch: MissedWatch,
    /// GUIDs that are not tried any more, named once.
    pub given_up: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Arrived,
    Wait,
    Fetch,
    GiveUp,
}

/// From which moment on attempts have to be known.
pub fn look_back(watch: &MissedWatch, now: Timestamp) -> Timestamp {
    watch.since.max(now.minus(KEPT))
}

/// From which moment on attempts may be new, when the newest that is known was made at `newest`.
pub fn news_from(since: Timestamp, newest: Option<Timestamp>) -> Timestamp {
    newest.map_or(since, |newest| newest.minus(OVERLAP).max(since))
}

/// Whether a later look has to know of an attempt. `is_stored`: its delivery is in the inbox. Those that will be listed once
/// more are kept, so that the inbox need not be asked about them again.
pub fn is_of_use(attempt: &DeliveryAttempt, is_stored: bool, since: Timestamp, newest: Option<Timestamp>) -> bool {
    attempt.at >= since && (!is_stored || attempt.at >= news_from(since, newest))
}

/// How many may be fetched in a look, after so many in each of those before it.
pub fn room(fetched: &[(Timestamp, usize)], now: Timestamp) -> usize {
    let lately: usize = fetched.iter().filter(|(at, _)| is_lately(*at, now)).map(|(_, count)| count).sum();
    MOST_IN_A_WHILE.saturating_sub(lately).min(MOST_AT_ONCE)
}

/// How long to rest after a look that read so many pages of the list. `more`: it left something to fetch.
pub fn rest_after(more: bool, pages: usize, are_sent: bool) -> Duration {
    let rest = if are_sent && !more { SELDOM } else { SOON };
    rest.max(FOR_EACH_PAGE.saturating_mul(u32::try_from(pages).unwrap_or(u32::MAX)))
}

/// The same after a look that failed. `again`: so did the one before.
pub fn rest_after_failure(wait: Option<Duration>, again: bool, are_sent: bool) -> Duration {
    let rest = if are_sent || again { SELDOM } else { SOON };
    rest.max(wait.unwrap_or_default())
}

/// Whether a look still counts for [`room`].
pub fn is_lately(look: Timestamp, now: Timestamp) -> bool {
    look <= now && now < look.plus(WHILE)
}

pub fn missed(facts: &MissedFacts<'_>) -> MissedPlan {
    let mut histories: BTreeMap<&str, Vec<&DeliveryAttempt>> = BTreeMap::new();
    for attempt in facts.attempts {
        histories.entry(&attempt.guid).or_default().push(attempt);
    }
    let mut tried = facts.watch.tried.clone();
    let (mut fetch, mut given_up) = (Vec::new(), Vec::new());
    let mut begun = BTreeMap::new();
    let mut unsettled = Vec::new();
    for (guid, history) in &histories {
        let wish = another_try(facts, guid, history);
        // What set out before the watched time was settled then, whoever has it sent again.
        let firsts = history.iter().filter(|attempt| !attempt.redelivery);
        let Some(first) = wish.or(firsts.copied().min_by_key(|first| (first.at, first.id))) else { continue };
        begun.insert(*guid, first.at);
        match verdict(facts, guid, history, wish.is_some()) {
            Verdict::Arrived => drop(tried.remove(*guid)),
            Verdict::Wait => unsettled.push(first.at),
            Verdict::Fetch => {
                unsettled.push(first.at);
                fetch.push(first);
            }
            Verdict::GiveUp => {
                let entry = tried.entry((*guid).to_owned());
                let entry = entry.or_insert(Tried { times: 0, last: facts.now, given_up: false });
                if !std::mem::replace(&mut entry.given_up, true) {
                    given_up.push((*guid).to_owned());
                }
            }
        }
    }
    fetch.sort_by_key(|first| (first.at, first.id));
    let more = fetch.len() > facts.room;
    fetch.truncate(facts.room);
    let since = watched_from(facts, &unsettled);
    tried.retain(|guid, _| begun.get(guid.as_str()).map_or(!facts.all_known, |at| *at >= since));
    let fetch = fetch.into_iter().map(|first| Wanted { guid: first.guid.clone(), attempt: first.id }).collect();
    MissedPlan { fetch, more, watch: MissedWatch { since, tried }, given_up }
}

/// The attempt by which somebody wants what was given up to be tried once more.
fn another_try<'a>(
    facts: &MissedFacts<'_>,
    guid: &str,
    history: &[&'a DeliveryAttempt],
) -> Option<&'a DeliveryAttempt> {
    let failed = facts.failed.get(guid)?;
    let wishes = history.iter().filter(|attempt| attempt.redelivery && attempt.at > *failed);
    wishes.copied().max_by_key(|wish| (wish.at, wish.id))
}

fn verdict(facts: &MissedFacts<'_>, guid: &str, history: &[&DeliveryAttempt], is_wished: bool) -> Verdict {
    if facts.stored.contains(guid) && !is_wished {
        return Verdict::Arrived;
    }
    let tried = facts.watch.tried.get(guid);
    if tried.is_some_and(|tried| tried.given_up) {
        return Verdict::GiveUp;
    }
    let may_be_on_its_way = |attempt: &&DeliveryAttempt| attempt.status == 0 && facts.now < attempt.at.plus(IN_FLIGHT);
    if facts.are_sent && history.iter().any(may_be_on_its_way) {
        return Verdict::Wait;
    }
    let Some(tried) = tried.filter(|tried| tried.times > 0) else { return Verdict::Fetch };
    let before = usize::try_from(tried.times - 1).unwrap_or(usize::MAX);
    match PAUSES.get(before) {
        Some(pause) if facts.now < tried.last.plus(*pause) => Verdict::Wait,
        Some(_) => Verdict::Fetch,
        None => Verdict::GiveUp,
    }
}

/// By GitHub's clock, so that ours may be wrong: shortly before the newest attempt, and not after anything unsettled or
/// unknown.
fn watched_from(facts: &MissedFacts<'_>, unsettled: &[Timestamp]) -> Timestamp {
    if !facts.all_known {
        return facts.watch.since;
    }
    let newest = facts.attempts.iter().map(|attempt| attempt.at.minus(OVERLAP)).max();
    let settled = newest.unwrap_or(facts.watch.since);
    unsettled.iter().copied().fold(settled, Timestamp::min).max(facts.watch.since)
}

#[cfg(test)]
#[path = "missed_tests.rs"]
mod tests;
