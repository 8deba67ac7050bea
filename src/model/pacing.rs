//! How often GitHub is written to.

use std::time::Duration;

/// Least times between two writings. GitHub decides them, so that nobody sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// From one new comment or pull request of an installation to the next. Source: GitHub's "Best practices for using the
    /// REST API".
    pub content: Duration,
    /// From one write of any kind to the next, where there are very many. Source: GitHub's "Rate limits for the REST API".
    pub writes: Duration,
    /// From one text of a status comment to the next, while its run waits or is worked on.
    pub status: Duration,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { content: Duration::from_secs(1), writes: Duration::from_secs(1), status: Duration::from_secs(15) }
    }
}
