//! The upkeep of a canonical repository: what it has of objects, and when they and its refs were last packed.

use super::Timestamp;
use serde::{Deserialize, Serialize};

/// Of one repository; kept over restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintained {
    /// When what is new was last packed, with the refs.
    #[serde(default)]
    pub packed_at: Option<Timestamp>,
    /// When everything was last packed into one; from the first look on, the week is counted.
    #[serde(default)]
    pub repacked_at: Option<Timestamp>,
    /// What was in the way of the last try.
    #[serde(default)]
    pub trouble: Option<MaintenanceTrouble>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintenanceTrouble {
    /// The first of the tries that came to nothing one after the other.
    pub since: Timestamp,
    pub tried_at: Timestamp,
    pub why: String,
}

/// What a repository has of objects, and the room for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStore {
    /// Objects with a file each.
    pub loose: u64,
    pub packs: u64,
    pub loose_bytes: u64,
    pub pack_bytes: u64,
    /// Of the largest pack.
    pub largest_bytes: u64,
    /// What may still be written on that disk.
    pub free_bytes: u64,
}
