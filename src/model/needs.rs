//! What somebody needs to be answered.

use super::{Permission, Person};
use std::{collections::BTreeSet, fmt};

/// Permission on the repository, or to be named by whoever runs the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// At least this; absent: no permission is enough.
    pub permission: Option<Permission>,
    /// In lower case. Whoever has the login at that moment.
    pub logins: BTreeSet<String>,
}

impl Needs {
    pub fn at_least(permission: Permission) -> Self {
        Self { permission: Some(permission), logins: BTreeSet::new() }
    }

    pub fn met_by(&self, person: &Person, permission: Permission) -> bool {
        self.permission.is_some_and(|least| permission >= least)
            || self.logins.contains(&person.login.to_ascii_lowercase())
    }
}

/// As in "this needs …".
impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = "to be named in the settings of this service";
        match (self.permission, self.logins.is_empty()) {
            (Some(permission), true) => write!(f, "{permission} permission on the repository"),
            (Some(permission), false) => write!(f, "{permission} permission on the repository, or {named}"),
            (None, _) => f.write_str(named),
        }
    }
}
