//! The App's own deliveries: which attempts GitHub made, and asking for another one. Takes the App's JWT and no permission.
//! Source: GitHub's REST API reference, "REST API endpoints for GitHub App webhooks".

use super::client::{Answer, Github};
use super::error::GithubError;
use super::rest::PAGE_SIZE;
use crate::model::*;
use reqwest::{Method, Url};
use serde::Deserialize;

const PATH: &str = "/app/hook/deliveries";
/// The list is followed over at most this many pages.
const MAX_PAGES: usize = 100;

/// The attempts of some time, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLog {
    pub attempts: Vec<DeliveryAttempt>,
    /// False when there are more in that time than were asked for; the oldest are missing.
    pub complete: bool,
}

#[derive(Deserialize)]
struct AttemptShape {
    id: i64,
    guid: String,
    delivered_at: chrono::DateTime<chrono::Utc>,
    #[serde(default)]
    redelivery: bool,
    status_code: Option<u16>,
}

impl From<AttemptShape> for DeliveryAttempt {
    fn from(shape: AttemptShape) -> Self {
        DeliveryAttempt {
            id: AttemptId(shape.id),
            guid: shape.guid,
            at: Timestamp::new(shape.delivered_at),
            status: shape.status_code.unwrap_or_default(),
            redelivery: shape.redelivery,
        }
    }
}

impl Github {
    /// Attempts made at `since` or later. GitHub keeps them for about three days.
    pub async fn attempts_since(&self, since: Timestamp) -> Result<AttemptLog, GithubError> {
        let mut attempts: Vec<DeliveryAttempt> = Vec::new();
        let mut path = format!("{PATH}?per_page={PAGE_SIZE}");
        for _ in 0..MAX_PAGES {
            let answer = self.as_app(Method::GET, &path, None).await?;
            let page: Vec<AttemptShape> = answer.json()?;
            let (read, before) = (page.len(), attempts.len());
            attempts.extend(page.into_iter().map(DeliveryAttempt::from).filter(|attempt| attempt.at >= since));
            // Attempts that end at about the same time may be listed in any order: only a page without a single one is past
            // the moment.
            let past = read > 0 && attempts.len() == before;
            match next_cursor(&answer) {
                Some(cursor) if !past => {
                    path = format!("{PATH}?per_page={PAGE_SIZE}&cursor={}", percent_encoded(&cursor))
                }
                _ => return Ok(AttemptLog { attempts, complete: true }),
            }
        }
        Ok(AttemptLog { attempts, complete: false })
    }

    /// Asks for a delivery once more; GitHub sends it when it comes to it.
    pub async fn redeliver(&self, attempt: AttemptId) -> Result<(), GithubError> {
        self.as_app(Method::POST, &format!("{PATH}/{attempt}/attempts"), None).await.map(drop)
    }
}

/// Of the `Link` header only the cursor counts: the address is ours, so that requests never leave the configured host.
fn next_cursor(answer: &Answer) -> Option<String> {
    let link = answer.headers.get("link")?.to_str().ok()?;
    let entry = link.split(',').find(|entry| entry.contains("rel=\"next\""))?;
    let url = Url::parse(entry.split(['<', '>']).nth(1)?).ok()?;
    url.query_pairs().find(|(name, _)| name == "cursor").map(|(_, cursor)| cursor.into_owned())
}
