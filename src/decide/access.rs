//! What becomes of the App's access to a codebase: by what GitHub says of it, and by a look at all that the App reaches.

use crate::model::*;
use std::collections::BTreeMap;

/// What GitHub says in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The installation was unsuspended, or something was granted to it.
    Granted,
    Suspended,
    Uninstalled,
    /// The installation includes it from now on, or no longer.
    Added,
    Removed,
    Of(Fate),
}

/// What is so after an event. Several take the same repository away, and come in any order.
pub fn after(reach: Reach, said: Said) -> Reach {
    match (said, reach) {
        // What is gone for good is not explained by anything that comes later.
        (Said::Granted | Said::Suspended | Said::Uninstalled | Said::Removed, Reach::Deleted | Reach::NameTaken) => {
            reach
        }
        (Said::Granted, Reach::Suspended | Reach::Uninstalled | Reach::Lost) => Reach::Whole,
        (Said::Granted, Reach::Whole | Reach::Archived | Reach::NotSelected) => reach,
        (Said::Suspended, Reach::NotSelected | Reach::Uninstalled) => reach,
        (Said::Suspended, Reach::Whole | Reach::Archived | Reach::Suspended | Reach::Lost) => Reach::Suspended,
        (Said::Uninstalled, _) => Reach::Uninstalled,
        (Said::Removed, Reach::Uninstalled) => reach,
        (Said::Removed, _) => Reach::NotSelected,
        (Said::Added, Reach::Archived) => reach,
        (Said::Added, _) => Reach::Whole,
        (Said::Of(Fate::Deleted), _) => Reach::Deleted,
        (Said::Of(Fate::Archived), Reach::Whole | Reach::Lost) => Reach::Archived,
        (Said::Of(Fate::Unarchived), Reach::Archived) => Reach::Whole,
        (Said::Of(Fate::Archived | Fate::Unarchived), _) => reach,
    }
}

/// A codebase on GitHub as it is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPlace {
    pub codebase: CodebaseId,
    pub repository: RepositoryId,
    pub installation: InstallationId,
    pub name: RepoName,
    pub reach: Reach,
}

/// An installation as GitHub lists it.
#[derive(Clone, Debug)]
pub struct SeenInstallation {
    pub id: InstallationId,
    pub suspended: bool,
    /// Unknown also where nobody asked.
    pub repositories: Probe<Vec<SeenRepository>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRepository {
    pub id: RepositoryId,
    pub name: RepoName,
    pub default_branch: Option<BranchName>,
    pub archived: bool,
}

/// What a look at all that the App reaches tells of a codebase that was not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Reached { codebase: CodebaseId, installation: InstallationId, seen: SeenRepository },
    Lost { codebase: CodebaseId, reach: Reach },
}

/// Unknown changes nothing: a codebase is lost only when every list was read and none has it.
pub fn compare(known: &[KnownPlace], installations: &[SeenInstallation]) -> Vec<Change> {
    let mut reached = BTreeMap::new();
    let mut all_known = true;
    for installation in installations.iter().filter(|installation| !installation.suspended) {
        match &installation.repositories {
            Probe::Known(repositories) => {
                reached.extend(repositories.iter().map(|seen| (seen.id, (installation.id, seen))));
            }
            Probe::Unknown(_) => all_known = false,
        }
    }
    let change = |place: &KnownPlace| match reached.get(&place.repository) {
        Some((installation, seen)) => is_news(place, *installation, seen).then(|| Change::Reached {
            codebase: place.codebase,
            installation: *installation,
            seen: (*seen).clone(),
        }),
        None if all_known => {
            let own = installations.iter().find(|installation| installation.id == place.installation);
            let reach = lost(place.reach, own);
            (reach != place.reach).then_some(Change::Lost { codebase: place.codebase, reach })
        }
        None => None,
    };
    known.iter().filter_map(change).collect()
}

fn is_news(place: &KnownPlace, installation: InstallationId, seen: &SeenRepository) -> bool {
    let reach = if seen.archived { Reach::Archived } else { Reach::Whole };
    place.reach != reach || place.installation != installation || place.name != seen.name
}

/// `own`: its installation, if that is still there.
fn lost(reach: Reach, own: Option<&SeenInstallation>) -> Reach {
    match (reach, own) {
        (Reach::Deleted | Reach::NameTaken, _) => reach,
        (_, None) => Reach::Uninstalled,
        // Whether it is among what it would reach, nobody says.
        (Reach::NotSelected, Some(_)) => reach,
        (_, Some(own)) if own.suspended => Reach::Suspended,
        (_, Some(_)) => Reach::NotSelected,
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
