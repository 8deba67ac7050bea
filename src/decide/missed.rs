//! Which deliveries GitHub is asked for once more.
//!
//! Asking for too much does no harm: the inbox knows each delivery by its GUID. So whatever no attempt brought here is asked
//! for, with growing pauses and not for ever. That includes what was answered with 401 (the secrets may be made equal), 404
//! or 413 (a proxy in between says so, and can be mended; GitHub sends nothing that is too large for the service itself).
//! Only 400 and 415 are final: this service says so of what it cannot read, and the same bytes come again.

use crate::model::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// Between one time it is asked for and the next; after the last one it is given up. Together less than [`KEPT`].
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
/// Deliveries asked for in one look: with a look every two minutes far below GitHub's secondary limits.
const MOST_AT_ONCE: usize = 100;

pub struct MissedFacts<'a> {
    pub now: Timestamp,
    pub watch: &'a MissedWatch,
    /// Attempts since [`look_back`], the newest without a gap, but those that are not [of use](is_of_use).
    pub attempts: &'a [DeliveryAttempt],
    /// False: older ones will be known later. Until then nothing of that time counts as settled.
    pub all_known: bool,
    /// GUIDs that are in the inbox; those of [`unanswered`] are enough.
    pub stored: &'a BTreeSet<String>,
}

/// A delivery to ask for, and the attempt by which GitHub knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub guid: String,
    pub attempt: AttemptId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedPlan {
    /// Oldest first.
    pub ask: Vec<Wanted>,
    /// To be kept, after what was asked for is counted in it.
    pub watch: MissedWatch,
    /// How many that were asked for have come.
    pub arrived: u64,
    /// GUIDs that are not asked for any more, named once.
    pub given_up: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Arrived,
    /// Asking would bring the same again.
    Final,
    Wait,
    Ask,
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

/// Whether a later look has to know of an attempt. What came at once is settled: the first attempt is the oldest.
pub fn is_of_use(attempt: &DeliveryAttempt, since: Timestamp, newest: Option<Timestamp>) -> bool {
    attempt.at >= since && (attempt.redelivery || !is_success(attempt) || Some(attempt.at) == newest)
}

/// GUIDs of which no attempt was answered with a success. The inbox may have them all the same: an answer can come too late.
pub fn unanswered(attempts: &[DeliveryAttempt]) -> BTreeSet<&str> {
    let taken: BTreeSet<&str> = attempts.iter().filter(|a| is_success(a)).map(|a| a.guid.as_str()).collect();
    attempts.iter().map(|attempt| attempt.guid.as_str()).filter(|guid| !taken.contains(guid)).collect()
}

pub fn missed(facts: &MissedFacts<'_>) -> MissedPlan {
    let mut histories: BTreeMap<&str, Vec<&DeliveryAttempt>> = BTreeMap::new();
    for attempt in facts.attempts {
        histories.entry(&attempt.guid).or_default().push(attempt);
    }
    let mut asked = facts.watch.asked.clone();
    let (mut ask, mut given_up, mut arrived) = (Vec::new(), Vec::new(), 0);
    let mut begun = BTreeMap::new();
    let mut unsettled = Vec::new();
    for (guid, history) in &histories {
        // What set out before the watched time was settled then, whoever asks for it now.
        let firsts = history.iter().filter(|attempt| !attempt.redelivery);
        let Some(first) = firsts.min_by_key(|first| (first.at, first.id)) else { continue };
        begun.insert(*guid, first.at);
        match verdict(facts, guid, history) {
            Verdict::Arrived => arrived += u64::from(asked.remove(*guid).is_some()),
            Verdict::Final => {}
            Verdict::Wait => unsettled.push(first.at),
            Verdict::Ask => {
                unsettled.push(first.at);
                ask.push(*first);
            }
            Verdict::GiveUp => {
                let entry = asked.entry((*guid).to_owned());
                let entry = entry.or_insert(AskedAgain { times: 0, last: facts.now, given_up: false });
                if !std::mem::replace(&mut entry.given_up, true) {
                    given_up.push((*guid).to_owned());
                }
            }
        }
    }
    ask.sort_by_key(|first| (first.at, first.id));
    ask.truncate(MOST_AT_ONCE);
    let since = watched_from(facts, &unsettled);
    asked.retain(|guid, _| begun.get(guid.as_str()).map_or(!facts.all_known, |at| *at >= since));
    let ask = ask.into_iter().map(|first| Wanted { guid: first.guid.clone(), attempt: first.id }).collect();
    MissedPlan { ask, watch: MissedWatch { since, asked }, arrived, given_up }
}

fn verdict(facts: &MissedFacts<'_>, guid: &str, history: &[&DeliveryAttempt]) -> Verdict {
    if facts.stored.contains(guid) || history.iter().any(|attempt| is_success(attempt)) {
        return Verdict::Arrived;
    }
    if history.iter().any(|attempt| matches!(attempt.status, 400 | 415)) {
        return Verdict::Final;
    }
    let asked = facts.watch.asked.get(guid);
    if asked.is_some_and(|asked| asked.given_up) {
        return Verdict::GiveUp;
    }
    let may_be_on_its_way = |attempt: &&DeliveryAttempt| attempt.status == 0 && facts.now < attempt.at.plus(IN_FLIGHT);
    if history.iter().any(may_be_on_its_way) {
        return Verdict::Wait;
    }
    // After a crash GitHub may know more than we remember; what it has not come to yet, it does not know.
    let repeated = history.iter().filter(|attempt| attempt.redelivery).count();
    let times = usize::try_from(asked.map_or(0, |asked| asked.times)).unwrap_or(usize::MAX).max(repeated);
    let Some(before) = times.checked_sub(1) else { return Verdict::Ask };
    let last = history.iter().map(|attempt| attempt.at).chain(asked.map(|asked| asked.last)).max();
    let pause = PAUSES.get(before).copied();
    let due = last.is_none_or(|last| facts.now >= last.plus(pause.unwrap_or(IN_FLIGHT)));
    match (due, pause) {
        (false, _) => Verdict::Wait,
        (true, Some(_)) => Verdict::Ask,
        (true, None) => Verdict::GiveUp,
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

fn is_success(attempt: &DeliveryAttempt) -> bool {
    (200..300).contains(&attempt.status)
}

#[cfg(test)]
#[path = "missed_tests.rs"]
mod tests;
