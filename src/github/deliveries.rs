//! The App's own deliveries: which attempts GitHub made, and what was in them. Takes the App's JWT and no permission.
//! Source: GitHub's REST API reference, "REST API endpoints for GitHub App webhooks".

use super::client::{Answer, Github};
use super::error::GithubError;
use super::payload;
use super::rest::PAGE_SIZE;
use super::signature::Verified;
use crate::model::*;
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const PATH: &str = "/app/hook/deliveries";
/// The list is followed over at most this many pages at a time.
const MAX_PAGES: usize = 100;

/// What was read of the list so far: from the newest on, without a gap. Each reading goes on where the one before stopped.
#[derive(Clone, Debug, Default)]
pub struct AttemptLog {
    attempts: BTreeMap<AttemptId, DeliveryAttempt>,
    /// Where older ones that were not read yet go on.
    rest: Option<String>,
    /// Of the last reading.
    pages: usize,
}

impl AttemptLog {
    /// Requests that the last reading took.
    pub fn pages(&self) -> usize {
        self.pages
    }

    pub fn attempts(&self) -> Vec<DeliveryAttempt> {
        self.attempts.values().cloned().collect()
    }

    /// False: there are older ones in the time that was asked for.
    pub fn is_complete(&self) -> bool {
        self.rest.is_none()
    }

    /// When the newest was made.
    pub fn newest(&self) -> Option<Timestamp> {
        self.attempts.values().map(|attempt| attempt.at).max()
    }

    pub fn retain(&mut self, keep: impl Fn(&DeliveryAttempt) -> bool) {
        self.attempts.retain(|_, attempt| keep(attempt));
    }

    fn add(&mut self, attempts: Vec<DeliveryAttempt>) {
        self.attempts.extend(attempts.into_iter().map(|attempt| (attempt.id, attempt)));
    }
}

/// Some pages of the list, and where it goes on.
struct Pages {
    attempts: Vec<DeliveryAttempt>,
    rest: Option<String>,
    count: usize,
}

/// What an attempt is called that has no answer yet.
const PENDING: &str = "pending";
/// Among so many of the newest attempts one is over.
const NEWEST: usize = 10;

#[derive(Deserialize)]
struct AttemptShape {
    id: i64,
    guid: String,
    delivered_at: chrono::DateTime<chrono::Utc>,
    #[serde(default)]
    redelivery: bool,
    #[serde(default)]
    event: String,
    action: Option<String>,
    status_code: Option<u16>,
    #[serde(default)]
    status: String,
}

/// One delivery, as GitHub keeps it.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub guid: String,
    pub event: String,
    /// JSON, though not in the bytes that were signed; absent where GitHub has it no more.
    pub body: Option<Verified<Vec<u8>>>,
}

#[derive(Deserialize)]
struct DeliveryShape {
    guid: String,
    event: String,
    request: RequestShape,
}

#[derive(Deserialize)]
struct RequestShape {
    payload: Option<Box<RawValue>>,
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
    /// Reads the attempts made at `new_since` or later, then goes on with older ones, back to `since`. GitHub keeps them for
    /// about three days.
    pub async fn read_attempts(
        &self,
        log: &mut AttemptLog,
        since: Timestamp,
        new_since: Timestamp,
    ) -> Result<(), GithubError> {
        let new = self.attempt_pages(None, new_since).await?;
        // What lies beyond a gap is read once more.
        let gap = new.rest.is_some();
        if gap {
            *log = AttemptLog { rest: new.rest, ..AttemptLog::default() };
        }
        log.pages = new.count;
        log.add(new.attempts);
        let Some(rest) = log.rest.clone().filter(|_| !gap) else { return Ok(()) };
        match self.attempt_pages(Some(rest), since).await {
            Ok(old) => {
                log.add(old.attempts);
                log.rest = old.rest;
                log.pages += old.count;
                Ok(())
            }
            Err(error) => {
                // GitHub may not go on from there any more: the next reading begins anew.
                if !error.is_transient() {
                    *log = AttemptLog::default();
                }
                Err(error)
            }
        }
    }

    /// The newest attempt that is over; absent where GitHub has made none in the last days, or does not say.
    pub async fn newest_attempt(&self) -> Result<Option<DeliveryAttempt>, GithubError> {
        match self.as_app(Method::GET, &format!("{PATH}?per_page={NEWEST}"), None).await {
            Ok(answer) => {
                let over = answer.json::<Vec<AttemptShape>>()?.into_iter().find(|shape| shape.status != PENDING);
                Ok(over.map(DeliveryAttempt::from))
            }
            Err(GithubError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn attempt_pages(&self, from: Option<String>, since: Timestamp) -> Result<Pages, GithubError> {
        let (mut attempts, mut rest, mut count) = (Vec::<DeliveryAttempt>::new(), from, 0);
        while count < MAX_PAGES {
            count += 1;
            let cursor = rest.map(|cursor| format!("&cursor={}", percent_encoded(&cursor))).unwrap_or_default();
            let answer = self.as_app(Method::GET, &format!("{PATH}?per_page={PAGE_SIZE}{cursor}"), None).await?;
            let page: Vec<AttemptShape> = answer.json()?;
            // Attempts that end at about the same time may be listed in any order: only a page without a single one is past
            // the moment.
            let past = !page.is_empty() && page.iter().all(|shape| Timestamp::new(shape.delivered_at) < since);
            let wanted = page.into_iter().filter(|shape| payload::is_wanted(&shape.event, shape.action.as_deref()));
            attempts.extend(wanted.map(DeliveryAttempt::from).filter(|attempt| attempt.at >= since));
            rest = next_cursor(&answer).filter(|_| !past);
            if rest.is_none() {
                break;
            }
        }
        Ok(Pages { attempts, rest, count })
    }

    /// What was to be delivered by an attempt. The same for all attempts of one delivery.
    pub async fn fetch_delivery(&self, attempt: AttemptId) -> Result<Fetched, GithubError> {
        let answer = self.as_app(Method::GET, &format!("{PATH}/{attempt}"), None).await?;
        let DeliveryShape { guid, event, request } = answer.json()?;
        let body = request.payload.map(|payload| Verified::fetched(payload.get().as_bytes().to_vec()));
        Ok(Fetched { guid, event, body })
    }
}

/// Of the `Link` header only the cursor counts: the address is ours, so that requests never leave the configured host.
fn next_cursor(answer: &Answer) -> Option<String> {
    let link = answer.headers.get("link")?.to_str().ok()?;
    let entry = link.split(',').find(|entry| entry.contains("rel=\"next\""))?;
    let url = Url::parse(entry.split(['<', '>']).nth(1)?).ok()?;
    url.query_pairs().find(|(name, _)| name == "cursor").map(|(_, cursor)| cursor.into_owned())
}
