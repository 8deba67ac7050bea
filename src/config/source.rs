//! Where values come from, and which of them counts.

use super::home::{HomeError, look_at_owner};
use super::table::{DATABASE_URL, HOME, SETTINGS, Setting};
use super::{Fault, Problem, secret_parts};
use std::{fmt, io, path::Path, path::PathBuf};

/// What the command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--config`: the file to read instead of `treewarden.toml` in the home; absolute.
    pub config: Option<PathBuf>,
    /// `--home`; absolute.
    pub home: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<String>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Environment,
    File(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("from the command line"),
            Origin::Environment => f.write_str("from the environment"),
            Origin::File(path) => write!(f, "from {}", path.display()),
        }
    }
}

/// A value as text, before it is understood.
pub(super) struct Found {
    pub text: String,
    pub origin: Origin,
}

pub(super) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;
pub(super) type Files<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// The three layers above the defaults.
pub(super) struct Sources<'a> {
    pub flags: &'a Flags,
    pub env: Env<'a>,
    /// Path and contents of `treewarden.toml`.
    pub file: Option<(PathBuf, toml::Table)>,
}

impl Sources<'_> {
    /// The value that counts. An empty environment variable counts as not set, as tools that fill in templates leave it.
    pub fn find(&self, setting: &Setting) -> Option<Found> {
        let flag = match setting.variable {
            "TREEWARDEN_HOME" => self.flags.home.as_ref().map(|home| home.display().to_string()),
            "TREEWARDEN_LISTEN" => self.flags.listen.clone(),
            _ => None,
        };
        flag.map(|text| Found { text, origin: Origin::Flag })
            .or_else(|| variable(self.env, setting.variable).map(|text| Found { text, origin: Origin::Environment }))
            .or_else(|| self.in_file(setting))
    }

    /// The file, when a secret stands in it: a key, a password.
    pub fn secrets_in(&self) -> Option<&Path> {
        let (path, _) = self.file.as_ref()?;
        let secret = |setting: &&&Setting| match self.in_file(setting) {
            // Of the database's URL only a password is one.
            Some(found) if setting.variable == DATABASE_URL.variable => !secret_parts(&found.text.into()).is_empty(),
            Some(_) => setting.secret,
            None => false,
        };
        SETTINGS.iter().find(secret).map(|_| path.as_path())
    }

    fn in_file(&self, setting: &Setting) -> Option<Found> {
        let (path, table) = self.file.as_ref()?;
        let text = as_text(table.get(&setting.key())?)?;
        Some(Found { text, origin: Origin::File(path.clone()) })
    }
}

pub(super) fn variable(env: Env<'_>, name: &str) -> Option<String> {
    env(name).filter(|value| !value.trim().is_empty())
}

/// Reads the file, when there is one. One that was named must be there; the one in the home may be missing. The error says
/// why nothing is known of what stands in it; wrong entries are added to `problems`.
pub(super) fn read_file(
    flags: &Flags,
    home: &Path,
    files: Files<'_>,
    problems: &mut Vec<Problem>,
) -> Result<Option<(PathBuf, toml::Table)>, Problem> {
    let path = flags.config.clone().unwrap_or_else(|| home.join("treewarden.toml"));
    let text = match files(&path) {
        Ok(text) => text,
        // Of a home that is no directory more is said where it is looked at.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
                && flags.config.is_none() =>
        {
            return Ok(None);
        }
        Err(error) => return Err(unread(&path, home, &error)),
    };
    let table = text.parse::<toml::Table>().map_err(|error| {
        // The error's full text quotes the line, which may hold a secret.
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        about_file(&path, format!("is not valid TOML at line {line}: {}", error.message()))
    })?;
    problems.extend(table.iter().filter_map(|(key, value)| check_entry(key, value, &path)));
    Ok(Some((path, table)))
}

/// That the home is another user's says more than that a file in it cannot be read, which need not even be there.
fn unread(path: &Path, home: &Path, error: &io::Error) -> Problem {
    match look_at_owner(home) {
        Err(of_another @ HomeError::OfAnother { .. }) if path.starts_with(home) => Problem {
            fault: Fault::OfAnother(home.into()),
            setting: HOME.variable.to_owned(),
            ..about_file(home, of_another.to_string())
        },
        _ => about_file(path, format!("cannot be read: {error}")),
    }
}

fn about_file(path: &Path, expected: String) -> Problem {
    let fault = Fault::File(path.to_owned());
    Problem { setting: path.display().to_string(), origin: None, given: None, expected, fault }
}

/// What is wrong with an entry before its value is understood.
fn check_entry(key: &str, value: &toml::Value, path: &Path) -> Option<Problem> {
    let expected = match SETTINGS.iter().find(|setting| setting.key() == key) {
        None => match SETTINGS.iter().find(|setting| setting.variable.eq_ignore_ascii_case(key)) {
            Some(setting) if setting.in_file() => {
                format!("no setting has this name; here it is called {}", setting.key())
            }
            Some(setting) => not_in_file(setting),
            None => "no setting has this name".to_owned(),
        },
        Some(setting) if !setting.in_file() => not_in_file(setting),
        Some(_) if value.is_float() => "expected a whole number".to_owned(),
        Some(_) if as_text(value).is_none() => {
            "expected a text, a whole number, true, false or a list of texts".to_owned()
        }
        Some(_) => return None,
    };
    let origin = Some(Origin::File(path.to_owned()));
    Some(Problem { setting: key.to_owned(), origin, given: None, expected, fault: Fault::Value })
}

fn not_in_file(setting: &Setting) -> String {
    format!("cannot be set in the file; set the environment variable {}", setting.variable)
}

/// The value as it would be written in an environment variable.
fn as_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(if *on { "on" } else { "off" }.to_owned()),
        toml::Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            shlex::try_join(items?).ok()
        }
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}
