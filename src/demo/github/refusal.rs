//! Why the stand-in says no. The same type answers a test that calls an action directly and a client that calls the API.

/// An action that was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No or bad credentials (401).
    #[error("{0}")]
    Unauthorized(&'static str),
    /// Credentials without the right (403).
    #[error("{0}")]
    Forbidden(String),
    /// It does not exist, or the caller may not know that it does (404).
    #[error("Not Found: {0}")]
    NotFound(String),
    /// The state does not allow it: a draft or conflicting pull request that should be merged (405).
    #[error("{0}")]
    NotAllowed(String),
    /// The state moved on: the head is another one than expected, the repository is empty (409).
    #[error("{0}")]
    Conflict(String),
    /// The request makes no sense (422).
    #[error("{0}")]
    Invalid(String),
    /// The stand-in's own git failed.
    #[error("git failed in the stand-in: {0}")]
    Git(String),
}

impl Refusal {
    pub(super) fn missing(what: impl std::fmt::Display) -> Self {
        Refusal::NotFound(what.to_string())
    }

    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Refusal::Invalid(why.into())
    }
}
