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
    /// The command that corrects it. What only a person knows stands in angle brackets.
    pub fn mend(&self) -> String {
        let setting = &self.setting;
        let known = SETTINGS.iter().find(|known| known.variable == *setting);
        // Where nothing else rests on the value.
        let default = known.map(|known| known.default).filter(|default| !default.is_empty() && !default.contains('<'));
        match (&self.origin, known) {
            (Some(Origin::File(path)), _) => edit(&path.display().to_string()),
            (Some(Origin::Flag), Some(known)) => format!("treewarden doctor --{} {}", known.key(), known.default),
            (Some(Origin::Environment), _) if default.is_some() => format!("unset {setting}"),
            (Some(Origin::Environment | Origin::Flag), _) | (None, Some(_)) => format!("export {setting}='<value>'"),
            (None, None) => edit(setting),
        }
    }
}

fn edit(path: &str) -> String {
    let quoted = shlex::try_quote(path).map_or_else(|_| path.to_owned(), |path| path.into_owned());
    format!("${{EDITOR:-vi}} {quoted}")
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
