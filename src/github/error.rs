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

    /// What to do about a GitHub that does not say who we are. `stored`: by the credentials of the set-up.
    pub fn advice(&self, stored: bool) -> &'static str {
        match self {
            GithubError::Unauthorized if stored => {
                "Where the App that the set-up made was deleted on GitHub, `treewarden disconnect` forgets it, and the next start opens \
                 the set-up again."
            }
            GithubError::Unreachable(_) | GithubError::OutcomeUnknown => {
                "Check the network, a proxy that is in use (https_proxy), and GITHUB_API_URL: where that says https, its port has to \
                 speak HTTPS."
            }
            GithubError::NotFound(_) | GithubError::BadAnswer(_) => {
                "Check GITHUB_API_URL: what answers there is not GitHub's API, which an Enterprise Server has at \
                 https://<host>/api/v3."
            }
            GithubError::Unauthorized => "Compare GITHUB_APP_ID and the private key with the App's page on GitHub.",
            GithubError::Settings(_) => "Give it the .pem file that GitHub made, as GITHUB_APP_PRIVATE_KEY_FILE.",
            GithubError::Forbidden(_) | GithubError::Invalid(_) => {
                "See on the App's page on GitHub whether it is suspended."
            }
            GithubError::RateLimited { .. } | GithubError::Server { .. } => "Wait until GitHub answers.",
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
