//! What is said about wrong settings: all of them, with what was expected and where each came from.

use super::Origin;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// One wrong setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub setting: String,
    pub origin: Option<Origin>,
    /// The value as given; absent for secrets and for settings that are missing.
    pub given: Option<String>,
    pub expected: String,
    pub fault: Fault,
}

/// What has to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The value, or that there is none.
    Value,
    /// That it is set at all.
    Surplus,
    /// What stands in a file, or that it cannot be read: that of the settings, or one that a setting names.
    File(PathBuf),
    /// Who uses this home: its settings are for its owner only.
    OfAnother(Box<Path>),
}

/// Every wrong setting. Nothing was begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigProblems(pub Vec<Problem>);

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("One setting is wrong; nothing was begun:")?,
            count => write!(f, "{count} settings are wrong; nothing was begun:")?,
        }
        self.0.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.setting)?;
        if let Some(given) = &self.given {
            write!(f, " is {given:?}")?;
        }
        if let Some(origin) = &self.origin {
            write!(f, " ({origin})")?;
        }
        write!(f, ": {}", self.expected)
    }
}
