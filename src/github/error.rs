//! How a request to GitHub can fail, as far as callers need to tell the cases apart.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GithubError {
    #[error("GitHub does not know {0}: it is gone, or this App may not see it")]
    NotFound(String),
    #[error("GitHub does not accept the App's credentials")]
    Unauthorized,
    #[error("GitHub refused: {0}")]
    Forbidden(String),
    #[error("GitHub asks to wait {} s before the next request", .retry_after.as_secs())]
    RateLimited { retry_after: Duration },
    #[error("GitHub did not accept the request: {0}")]
    Invalid(String),
    #[error("GitHub answered with an error of its own (status {status})")]
    Server { status: u16 },
    #[error("GitHub could not be reached: {0}")]
    Unreachable(String),
    /// A write got no answer: it may or may not have had its effect.
    #[error("GitHub did not answer; the request may have had its effect")]
    OutcomeUnknown,
    #[error("GitHub's answer was not understood: {0}")]
    BadAnswer(String),
    #[error("the App's settings are wrong: {0}")]
    Settings(String),
}

impl GithubError {
    /// Whether the same request may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            GithubError::RateLimited { .. }
            | GithubError::Server { .. }
            | GithubError::Unreachable(_)
            | GithubError::OutcomeUnknown
            | GithubError::BadAnswer(_) => true,
            GithubError::NotFound(_)
            | GithubError::Unauthorized
            | GithubError::Forbidden(_)
            | GithubError::Invalid(_)
            | GithubError::Settings(_) => false,
        }
    }

    /// GitHub knows who asks, and refuses. For a while it says so as well where permissions, a rename or a suspension are
    /// about to settle.
    pub fn is_refusal(&self) -> bool {
        matches!(self, GithubError::Forbidden(_) | GithubError::NotFound(_))
    }

    /// How long GitHub asked to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            GithubError::RateLimited { retry_after } => Some(*retry_after),
            _ => None,
        }
    }
}
