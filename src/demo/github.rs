//! A stand-in for GitHub: a stateful model with real git repositories, served over HTTP as REST, GraphQL, OAuth, smart
//! HTTP git and a few pages for people, with things that go wrong on demand.
//!
//! The model (`model`, `world`, `actions`, `git`) knows nothing of HTTP; the faces (`http`, `pages`) hold no state. Shapes
//! and rules are GitHub's as documented; where this is less than GitHub it refuses rather than pretends. It listens on
//! loopback, keeps everything but the git repositories in memory, and trusts whoever holds a `Standin`.

mod actions;
mod auth;
mod faults;
mod git;
mod http;
mod model;
mod pages;
mod post;
mod refusal;
mod render;
mod standin;
mod view;
mod world;

pub use actions::merge::MergeMethod;
pub use faults::{Fault, Faults, Held};
pub use http::RequestRecord;
pub use post::{DeliveryOutcome, DeliveryRecord};
pub use refusal::Refusal;
pub use standin::{OpenPull, Standin, StandinError, StandinOptions};
pub use view::{CheckRunView, CommentView, IssueView, PullView, ReactionView};

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// How many requests the log remembers.
const REMEMBERED: usize = 5000;

/// What all faces share.
struct Hub {
    world: Mutex<world::World>,
    git: git::Git,
    /// Held while branches move, so that the world follows one movement after the other.
    refs: tokio::sync::Mutex<()>,
    faults: Faults,
    requests: Mutex<VecDeque<RequestRecord>>,
    /// Account of the person in front of the pages.
    visitor: i64,
    stop: CancellationToken,
}

impl Hub {
    fn world(&self) -> MutexGuard<'_, world::World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_request(&self, record: RequestRecord) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() == REMEMBERED {
            requests.pop_front();
        }
        requests.push_back(record);
    }
}
