//! GitHub, in our words: webhook signatures and payloads in, REST and GraphQL out.
//!
//! The only room that uses octocrab, through one door ([`client`]). It decides nothing: it answers questions and carries
//! out single requests, and says precisely how a request failed ([`GithubError`]).

mod auth;
mod checks;
mod client;
mod clock;
mod comments;
mod connection;
mod deliveries;
mod error;
mod graphql;
pub mod manifest;
pub mod payload;
mod pulls;
mod registration;
mod rest;
mod reviews;
pub mod signature;

pub use auth::AppIdentity;
pub use client::{Github, GithubSettings, InstallationClient};
pub use comments::CommentInfo;
pub use connection::{Connection, Wire};
pub use deliveries::{AttemptLog, Fetched};
pub use error::GithubError;
pub use graphql::{LinkedThread, MergedHead};
pub use pulls::{NewPullRequest, PullRequest};
pub use registration::{Registration, Webhook};
pub use rest::{IssueInfo, RepositoryInfo};
pub use reviews::ReviewPart;

use crate::model::Timestamp;

/// GitHub's words for a moment; absent when they are not understood.
fn moment(text: Option<&str>) -> Option<Timestamp> {
    chrono::DateTime::parse_from_rfc3339(text?).ok().map(|moment| Timestamp::new(moment.to_utc()))
}
