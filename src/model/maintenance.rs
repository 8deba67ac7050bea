//! What is remembered of the upkeep of a canonical repository: when its objects and refs were last packed.

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
