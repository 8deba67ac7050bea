//! The App's installations, as GitHub lists them.

use super::{InstallationId, Timestamp};
use serde::{Deserialize, Serialize};

/// One installation of the App.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    pub id: InstallationId,
    /// The user or organization; empty when it is gone.
    pub account: String,
    /// Where its owner sets it up.
    pub page: String,
    pub suspended: bool,
    /// What its owner has not granted (yet), also because the App asked for it later.
    pub missing_permissions: Vec<String>,
}

/// All of them, as they were at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installations {
    /// Absent: nobody has asked yet.
    pub seen_at: Option<Timestamp>,
    pub all: Vec<Installed>,
}

impl Installations {
    pub fn find(&self, id: Option<InstallationId>) -> Option<&Installed> {
        self.all.iter().find(|installed| Some(installed.id) == id)
    }
}
