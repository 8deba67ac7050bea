//! The answer of a question that may fail. A failed probe is not a "no": whoever decides must handle the doubt.

use serde::{Deserialize, Serialize};

/// Either the answer, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Probe<T> {
    Known(T),
    Unknown(String),
}

impl<T> Probe<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Probe::Known(value) => Some(value),
            Probe::Unknown(_) => None,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Probe<U> {
        match self {
            Probe::Known(value) => Probe::Known(f(value)),
            Probe::Unknown(why) => Probe::Unknown(why),
        }
    }
}

impl<T, E: std::fmt::Display> From<Result<T, E>> for Probe<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Probe::Known(value),
            Err(error) => Probe::Unknown(error.to_string()),
        }
    }
}
