//! Whether the environment of an issue holds nothing of its own, so that the pull request which closes the issue may have its
//! own in its place.

use super::cleanup::{Because, Removal, RemovalFacts, Verdict, verdict};
use crate::model::*;

/// What the answer depends on, besides everything that a removal does.
#[derive(Clone, Debug)]
pub struct PristineFacts {
    /// Gathered for [`super::cleanup::Occasion::MakesWay`].
    pub removal: RemovalFacts,
    /// Its own thread has a run that is live or queued, whether or not that run is tied to it by now.
    pub awaited: bool,
    /// Its branch has commits on the remote that the base lacks, whoever pushed them.
    pub pushed: Probe<bool>,
}

/// The removal that loses nothing because there is nothing; `None` with any work, anybody who needs it, or any doubt.
///
/// That it is clean, has no commit of its own, and is neither in use, pinned nor locked is the cleanup's own verdict, so
/// that every reason to keep an environment is a reason here, too.
pub fn pristine(facts: &PristineFacts) -> Option<Removal> {
    let PristineFacts { removal, awaited, pushed } = facts;
    // What somebody made by hand is theirs, even when it is empty.
    let ours = removal.environment.metadata.adopted_from.is_none();
    match verdict(removal) {
        Verdict::Remove(removal) if removal.because == Because::NothingDone => {
            (ours && !awaited && *pushed == Probe::Known(false)).then_some(removal)
        }
        Verdict::Remove(_) | Verdict::Ghost | Verdict::Keep(_) => None,
    }
}

#[cfg(test)]
#[path = "pristine_tests.rs"]
mod tests;
