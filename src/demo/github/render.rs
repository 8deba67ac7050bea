//! The JSON that GitHub's REST API and webhooks show for each noun. Pure: reads the world, changes nothing.
//!
//! The fields are those of https://docs.github.com/en/rest that a client may reasonably need or insist on; some links
//! lead nowhere here.

mod activity;
mod places;
mod threads;

pub(super) use activity::Push;

use super::{model::Moment, world::World};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

impl World {
    /// A global node id; opaque to clients, unique per kind and id.
    pub fn node_id(&self, kind: &str, id: i64) -> String {
        format!("{kind}_{}", URL_SAFE_NO_PAD.encode(id.to_string()))
    }
}

/// `2026-11-27T10:00:00Z`.
pub(super) fn iso(moment: Moment) -> String {
    moment.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}
