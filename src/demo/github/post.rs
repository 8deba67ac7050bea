//! Webhook deliveries: the log, and the carrier that signs and sends them one after the other, in order.

use super::{
    Hub,
    faults::{DeliveryFate, Faults},
    model::Moment,
};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, watch};

/// GitHub gives a receiver ten seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// One attempt to deliver one event; a redelivery is another record with the same `guid`.
#[derive(Clone, Debug)]
pub struct DeliveryRecord {
    pub id: i64,
    /// `X-GitHub-Delivery`.
    pub guid: String,
    /// `X-GitHub-Event`.
    pub event: String,
    pub action: Option<String>,
    pub installation: Option<i64>,
    pub repository: Option<i64>,
    pub redelivery: bool,
    pub body: Arc<[u8]>,
    /// When it set out.
    pub sent_at: Moment,
    /// None while it is on its way.
    pub outcome: Option<DeliveryOutcome>,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct DeliveryOutcome {
    /// HTTP status of the receiver; 0 when there was no answer.
    pub status_code: u16,
    /// `OK`, the receiver's reason, or why nothing arrived.
    pub status: String,
    pub duration: Duration,
    pub delivered_at: Moment,
}

/// What happened, on its way to whom it concerns.
pub(super) struct Sent<'a> {
    pub event: &'a str,
    pub action: Option<&'a str>,
    pub installation: Option<i64>,
    pub repository: Option<i64>,
    pub body: Vec<u8>,
}

/// Where deliveries go.
#[derive(Clone)]
pub(super) struct Receiver {
    pub url: String,
    pub secret: SecretString,
}

/// The log of deliveries and the queue to the carrier.
pub(super) struct PostOffice {
    pub receiver: Option<Receiver>,
    pub log: BTreeMap<i64, DeliveryRecord>,
    queue: mpsc::UnboundedSender<i64>,
    /// Deliveries on their way.
    waiting: watch::Sender<usize>,
}

impl PostOffice {
    pub fn new() -> (Self, mpsc::UnboundedReceiver<i64>) {
        let (queue, orders) = mpsc::unbounded_channel();
        (Self { receiver: None, log: BTreeMap::new(), queue, waiting: watch::Sender::new(0) }, orders)
    }

    /// Takes an event in; without a receiver it goes nowhere, as for an App without an active webhook.
    pub fn accept(&mut self, id: i64, sent: Sent<'_>, now: Moment) {
        if self.receiver.is_none() {
            return;
        }
        let Sent { event, action, installation, repository, body } = sent;
        self.enqueue(DeliveryRecord {
            id,
            guid: uuid::Uuid::new_v4().to_string(),
            event: event.to_owned(),
            action: action.map(str::to_owned),
            installation,
            repository,
            redelivery: false,
            body: body.into(),
            sent_at: now,
            outcome: None,
        });
    }

    /// Sends an earlier delivery once more, under `id`; false when there is no such delivery.
    pub fn redeliver(&mut self, earlier: i64, id: i64, now: Moment) -> bool {
        let Some(earlier) = self.log.get(&earlier) else { return false };
        let again = DeliveryRecord { id, redelivery: true, sent_at: now, outcome: None, ..earlier.clone() };
        self.enqueue(again);
        true
    }

    /// Becomes 0 whenever nothing is on its way.
    pub fn waiting(&self) -> watch::Receiver<usize> {
        self.waiting.subscribe()
    }

    /// Nothing is carried any more.
    pub fn close(&mut self) {
        self.receiver = None;
        self.waiting.send_replace(0);
    }

    fn enqueue(&mut self, record: DeliveryRecord) {
        let id = record.id;
        self.log.insert(id, record);
        self.waiting.send_modify(|count| *count += 1);
        if self.queue.send(id).is_err() {
            self.close();
        }
    }

    fn finish(&mut self, id: i64, outcome: DeliveryOutcome) {
        if let Some(record) = self.log.get_mut(&id) {
            record.outcome = Some(outcome);
        }
        self.waiting.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// `X-Hub-Signature-256` of a body.
pub(super) fn signature(secret: &SecretString, body: &[u8]) -> String {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()).expect("HMAC takes keys of any length");
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// Carries deliveries until the stand-in stops.
pub(super) async fn carry(hub: Arc<Hub>, client: reqwest::Client, mut orders: mpsc::UnboundedReceiver<i64>) {
    while let Some(id) = orders.recv().await {
        let (record, receiver, app) = {
            let world = hub.world();
            (world.post.log.get(&id).cloned(), world.post.receiver.clone(), world.app.id)
        };
        let mut outcome = match (record, receiver) {
            (Some(record), Some(receiver)) => deliver(&client, &hub.faults, &record, &receiver, app).await,
            _ => ended(0, "no webhook is configured", Instant::now()),
        };
        let mut world = hub.world();
        outcome.delivered_at += world.ahead;
        world.post.finish(id, outcome);
    }
}

async fn deliver(
    client: &reqwest::Client,
    faults: &Faults,
    record: &DeliveryRecord,
    receiver: &Receiver,
    app: i64,
) -> DeliveryOutcome {
    let start = Instant::now();
    match faults.fate() {
        DeliveryFate::Dropped => return ended(0, "failed to connect to host", start),
        _ if leads_nowhere(&receiver.url) => return ended(0, "failed to connect to host", start),
        DeliveryFate::Sent => {}
        DeliveryFate::Duplicated => drop(send(client, record, receiver, app).await),
    }
    match send(client, record, receiver, app).await {
        Ok(status) if status.is_success() => ended(status.as_u16(), "OK", start),
        Ok(status) => ended(status.as_u16(), &format!("Invalid HTTP Response: {}", status.as_u16()), start),
        Err(error) if error.is_timeout() => ended(0, "timed out", start),
        Err(_) => ended(0, "failed to connect to host", start),
    }
}

/// Names below `invalid`, which nobody has to be asked for. Source: RFC 6761.
fn leads_nowhere(url: &str) -> bool {
    let url = reqwest::Url::parse(url).ok();
    url.is_some_and(|url| url.host_str().is_some_and(|host| host.ends_with(".invalid")))
}

async fn send(
    client: &reqwest::Client,
    record: &DeliveryRecord,
    receiver: &Receiver,
    app: i64,
) -> Result<reqwest::StatusCode, reqwest::Error> {
    let request = client
        .post(&receiver.url)
        .timeout(PATIENCE)
        .header("content-type", "application/json")
        .header("user-agent", "GitHub-Hookshot/standin")
        .header("x-github-delivery", &record.guid)
        .header("x-github-event", &record.event)
        .header("x-github-hook-id", app)
        .header("x-github-hook-installation-target-id", app)
        .header("x-github-hook-installation-target-type", "integration")
        .header("x-hub-signature-256", signature(&receiver.secret, &record.body))
        .body(record.body.to_vec());
    Ok(request.send().await?.status())
}

fn ended(status_code: u16, status: &str, start: Instant) -> DeliveryOutcome {
    let (status, delivered_at) = (status.to_owned(), chrono::Utc::now());
    DeliveryOutcome { status_code, status, duration: start.elapsed(), delivered_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_like_github() {
        // The example of GitHub's documentation, "Validating webhook deliveries".
        let secret = SecretString::from("It's a Secret to Everybody");
        let expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert_eq!(signature(&secret, b"Hello, World!"), expected);
    }
}
