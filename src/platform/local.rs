//! This machine as a platform: threads that are named by texts, for people and scripts without GitHub. What is said to the
//! bot comes in as deliveries of the event [`EVENT`]; what it says is written where it can be read.

use super::{Platform, SendError};
use crate::model::*;
use crate::store::{NewLocalMessage, Store, StoreError};
use std::sync::Arc;

/// In the place of GitHub's name of an event. GitHub has none that is called so, and what it signs is never of this form.
pub const EVENT: &str = "local";

/// A delivery of this event that was not written by this program.
#[derive(Debug, thiserror::Error)]
#[error("the message cannot be read: {0}")]
pub struct BadMessage(#[from] serde_json::Error);

/// The body of a delivery.
pub fn body_of(event: &LocalEvent) -> Result<Vec<u8>, BadMessage> {
    Ok(serde_json::to_vec(event)?)
}

pub fn understand(body: &[u8]) -> Result<Event, BadMessage> {
    Ok(Event::Local(serde_json::from_slice(body)?))
}

/// The key under which the deliveries of a thread are put in order. GitHub's keys begin with a number, or with a word and a
/// number.
pub fn conversation_key(thread: &ThreadName) -> String {
    format!("local {thread}")
}

pub struct LocalPlatform {
    store: Store,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl LocalPlatform {
    pub fn new(store: Store, clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { store, clock }
    }
}

#[async_trait::async_trait]
impl Platform for LocalPlatform {
    async fn send(&self, _: &Codebase, row: &OutboxRow) -> Result<Option<i64>, SendError> {
        let (Outgoing::Message { body }, Some(conversation)) = (&row.outgoing, row.conversation) else {
            return Err(SendError::Permanent("it is no message of a conversation on this machine".to_owned()));
        };
        let failed = |error: StoreError| match error.is_transient() || error.is_conflict() {
            true => SendError::Retry { after: None, why: error.to_string() },
            false => SendError::Permanent(error.to_string()),
        };
        let answers = match row.told() {
            Told::Delivery(delivery) => Some(delivery),
            Told::Run(run) => self.store.load_run(run).await.map_err(failed)?.map(|run| run.delivery),
            Told::Nobody => None,
        };
        let message = NewLocalMessage {
            // The row is edited in place, and so is what stands for it.
            id: LocalMessageId(row.id.0),
            conversation,
            author: None,
            answers: answers.map(|delivery| LocalMessageId(delivery.0)),
            body: body.clone(),
        };
        self.store.write_local_message(&message, (self.clock)()).await.map(|()| None).map_err(failed)
    }
}
