//! What becomes of a path that waits to become its conversation's environment.

use super::{Found, Place, Skip, Waits, migrated, usable};
use crate::decide::resolve::goes_on;
use crate::model::*;

/// The choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It can become this environment; true: with something uncommitted in it.
    Ready(Box<EnvironmentImport>, bool),
    /// Kept: it may be seen better another time.
    Doubtful(String),
    Hopeless(Skip),
}

/// What becomes of a path that waits, by the rules of a first use ([`crate::decide::resolve`]), from what stands there.
pub fn waiting(conversation: Option<&Waits>, path: &str, place: &Place) -> Waiting {
    let Some(waits) = conversation else { return Waiting::Hopeless(Skip::Forgotten) };
    let repository = match waits.repository {
        _ if waits.has_environment => return Waiting::Hopeless(Skip::Settled),
        None => return Waiting::Hopeless(Skip::NoCodebase),
        Some(repository) => repository,
    };
    let found = match (usable(path, place, Some(repository), None), place) {
        (Ok(found), _) => found,
        (Err(_), Place::Unclear(why) | Place::Locked(why)) => return Waiting::Doubtful(why.clone()),
        (Err(Skip::Broken(_)), _) => {
            return Waiting::Doubtful("what ties it to its repository is damaged".to_owned());
        }
        (Err(skip), _) => return Waiting::Hopeless(skip),
    };
    let mut bases: Vec<_> = waits.bases.iter().map(Some).collect();
    let results_go_to = match &waits.pull {
        None => None,
        Some(Probe::Unknown(why)) => return Waiting::Doubtful(why.clone()),
        Some(Probe::Known(pull)) if !pull.takes_results => {
            return Waiting::Doubtful(
                "its pull request is closed or from a fork: the next message in it decides".to_owned(),
            );
        }
        Some(Probe::Known(pull)) => {
            bases.push(Some(&pull.base));
            Some(&pull.head)
        }
    };
    let Found { path: real, branch, unclean } = found;
    if !goes_on(&branch, results_go_to, &bases) {
        return Waiting::Hopeless(Skip::OtherBranch { path: path.to_owned(), branch });
    }
    let id = real.display().to_string();
    let environment = EnvironmentImport {
        row: OldName { table: OldTable::IsolationEnvironments, id, about: waits.work.to_string() },
        repository,
        work: waits.work.clone(),
        branch,
        path: real,
        metadata: EnvironmentMetadata { adopted_from: Some(AdoptedFrom::Legacy), ..migrated(None) },
        created_at: waits.created_at,
        last_activity_at: waits.last_activity_at.max(waits.created_at),
    };
    Waiting::Ready(Box::new(environment), unclean)
}
