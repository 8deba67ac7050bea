//! When a canonical repository is packed, and how thoroughly. Nothing is ever dropped by it, so that a doubt only means later.

use crate::model::{Maintained, ObjectStore, Timestamp};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// A fetch, or a busy agent, brought much: then it is not waited for the end of the day.
const MANY_LOOSE: u64 = 6_000;
const MANY_PACKS: u64 = 50;

/// Longer than this it is not put off for the sake of runs that wait.
const PUT_OFF: Duration = Duration::from_secs(3 * 24 * 3600);

/// What has to stay free on the disk.
pub const RESERVE: u64 = 256 * 1024 * 1024;

/// What is known of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceFacts {
    pub now: Timestamp,
    pub known: Maintained,
    pub objects: ObjectStore,
    /// Runs wait for their agent's start.
    pub runs_wait: bool,
}

/// How thoroughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// What is new, into packs that double in size.
    New,
    /// All of it into one.
    Everything,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maintenance {
    NotDue,
    /// It is due, and waits for a moment without runs in the queue.
    PutOff,
    Pack(Packing),
    NoRoom {
        needed: u64,
        free: u64,
    },
}

/// A clock that was ahead is no reason to wait.
fn is_over(at: Option<Timestamp>, pause: Duration, now: Timestamp) -> bool {
    at.is_none_or(|at| at > now || now.since(at) >= pause)
}

/// What came to nothing waits for a day.
pub fn is_tried_again(known: &Maintained, now: Timestamp) -> bool {
    is_over(known.trouble.as_ref().map(|trouble| trouble.tried_at), DAY, now)
}

pub fn maintenance(facts: &MaintenanceFacts) -> Maintenance {
    let MaintenanceFacts { now, known, objects, .. } = facts;
    let ObjectStore { loose, packs, .. } = objects;
    if !is_tried_again(known, *now) {
        return Maintenance::NotDue;
    }
    let much = *loose >= MANY_LOOSE || *packs >= MANY_PACKS;
    let packing = match known.repacked_at {
        Some(at) if is_over(Some(at), WEEK, *now) && (*packs > 1 || *loose > 0) => Packing::Everything,
        Some(_) | None if is_over(known.packed_at, if much { HOUR } else { DAY }, *now) => Packing::New,
        Some(_) | None => return Maintenance::NotDue,
    };
    if facts.runs_wait && known.packed_at.is_some_and(|at| at <= *now && now.since(at) < PUT_OFF) {
        return Maintenance::PutOff;
    }
    // The new pack stands beside what it is made of until it is whole.
    let made_of = match packing {
        Packing::New => objects.loose_bytes + objects.pack_bytes.saturating_sub(objects.largest_bytes),
        Packing::Everything => objects.loose_bytes + objects.pack_bytes,
    };
    match made_of.saturating_add(RESERVE) {
        needed if needed > objects.free_bytes => Maintenance::NoRoom { needed, free: objects.free_bytes },
        _ => Maintenance::Pack(packing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MaintenanceTrouble;

    fn at(hours: u64) -> Timestamp {
        Timestamp::from_unix(1_800_000_000).plus(HOUR * u32::try_from(hours).unwrap())
    }

    /// A thousand hours in: a little that is new, and all well an hour ago.
    fn facts() -> MaintenanceFacts {
        let known = Maintained { packed_at: Some(at(999)), repacked_at: Some(at(999)), trouble: None };
        MaintenanceFacts { now: at(1_000), known, objects: objects(), runs_wait: false }
    }

    fn objects() -> ObjectStore {
        ObjectStore {
            loose: 10,
            packs: 3,
            loose_bytes: 1_000,
            pack_bytes: 1_000_000,
            largest_bytes: 900_000,
            free_bytes: 1 << 40,
        }
    }

    fn known(packed: u64, repacked: u64) -> Maintained {
        Maintained { packed_at: Some(at(packed)), repacked_at: Some(at(repacked)), trouble: None }
    }

    #[test]
    fn what_is_new_is_packed_once_a_day_and_everything_once_a_week() {
        assert_eq!(maintenance(&facts()), Maintenance::NotDue);
        let never = Maintained::default();
        assert_eq!(maintenance(&MaintenanceFacts { known: never, ..facts() }), Maintenance::Pack(Packing::New));
        let day_old = MaintenanceFacts { known: known(976, 900), ..facts() };
        assert_eq!(maintenance(&day_old), Maintenance::Pack(Packing::New));
        let week_old = MaintenanceFacts { known: known(999, 1_000 - 7 * 24), ..facts() };
        assert_eq!(maintenance(&week_old), Maintenance::Pack(Packing::Everything));
        let one_pack = MaintenanceFacts { objects: ObjectStore { loose: 0, packs: 1, ..objects() }, ..week_old };
        assert_eq!(maintenance(&one_pack), Maintenance::NotDue, "it is one pack already");
        // A clock that was ahead is no reason to wait for a year.
        let ahead = MaintenanceFacts { known: known(9_000, 999), ..facts() };
        assert_eq!(maintenance(&ahead), Maintenance::Pack(Packing::New));
    }

    #[test]
    fn much_that_is_new_does_not_wait_for_the_day_to_end() {
        for many in [ObjectStore { loose: MANY_LOOSE, ..objects() }, ObjectStore { packs: MANY_PACKS, ..objects() }] {
            let much = MaintenanceFacts { objects: many, ..facts() };
            assert_eq!(maintenance(&much), Maintenance::Pack(Packing::New));
            let just_now = MaintenanceFacts { now: at(999), ..much };
            assert_eq!(maintenance(&just_now), Maintenance::NotDue);
        }
    }

    #[test]
    fn runs_that_wait_come_first_but_not_for_ever() {
        let waits = MaintenanceFacts { runs_wait: true, known: known(970, 990), ..facts() };
        assert_eq!(maintenance(&waits), Maintenance::PutOff);
        let long = MaintenanceFacts { known: known(1_000 - 3 * 24, 990), ..waits };
        assert_eq!(maintenance(&long), Maintenance::Pack(Packing::New));
    }

    #[test]
    fn a_pack_needs_room_beside_what_it_is_made_of() {
        let room = ObjectStore { free_bytes: RESERVE + 101_000, ..objects() };
        let new = MaintenanceFacts { known: known(900, 990), objects: room, ..facts() };
        assert_eq!(maintenance(&new), Maintenance::Pack(Packing::New));
        let everything = MaintenanceFacts { known: known(900, 800), ..new };
        let needed = RESERVE + 1_001_000;
        assert_eq!(maintenance(&everything), Maintenance::NoRoom { needed, free: RESERVE + 101_000 });
    }

    #[test]
    fn what_came_to_nothing_is_tried_again_a_day_later() {
        let tried = |hours| {
            let trouble = Some(MaintenanceTrouble { since: at(1), tried_at: at(hours), why: "x".into() });
            maintenance(&MaintenanceFacts { known: Maintained { trouble, ..known(1, 1) }, ..facts() })
        };
        assert_eq!(tried(977), Maintenance::NotDue);
        assert_eq!(tried(976), Maintenance::Pack(Packing::Everything));
    }
}
