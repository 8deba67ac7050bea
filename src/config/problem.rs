//! What is said about wrong settings: all of them, with what was expected and where each came from.

use super::{Origin, SETTINGS};
use std::fmt;

/// One wrong setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub setting: String,
    pub origin: Option<Origin>,
    /// The value as given; absent for secrets and for settings that are missing.
    pub given: Option<String>,
    pub expected: String,
}

/// Every wrong setting of one start. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigProblems(pub Vec<Problem>);

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("One setting is wrong; nothing was started:")?,
            count => write!(f, "{count} settings are wrong; nothing was started:")?,
        }
        self.0.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
    }
}

impl Problem {
    /// Where to correct it.
    pub fn mend(&self) -> String {
        let setting = &self.setting;
        let known = SETTINGS.iter().find(|known| known.variable == *setting);
        match (&self.origin, known.map(|known| known.in_file().then(|| known.key()))) {
            (Some(Origin::File(path)), _) => format!("Correct or remove {setting} in {}.", path.display()),
            (Some(Origin::Environment), _) => format!("Correct {setting} in the environment, or unset it."),
            (Some(Origin::Flag), _) => "Give another value on the command line.".to_owned(),
            (None, Some(Some(key))) => format!("Set {setting} in the environment, or {key} in treewarden.toml."),
            (None, Some(None)) => format!("Set {setting} in the environment."),
            (None, None) => format!("Correct the file {setting}."),
        }
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
