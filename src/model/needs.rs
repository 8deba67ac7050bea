//! What somebody needs to be answered.

use super::{Permission, Person, UserId};
use std::collections::BTreeSet;

/// Permission on the repository, or to be named by whoever runs the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// At least this; absent: no permission is enough.
    pub permission: Option<Permission>,
    /// By number: names change hands.
    pub people: BTreeSet<UserId>,
}

impl Needs {
    pub fn at_least(permission: Permission) -> Self {
        Self { permission: Some(permission), people: BTreeSet::new() }
    }

    pub fn met_by(&self, person: &Person, permission: Permission) -> bool {
        self.permission.is_some_and(|least| permission >= least) || self.people.contains(&person.id)
    }
}
