//! Deliveries on their way into the inbox, by whichever door they came: understood well enough to be put in order, and on
//! disk before anything is said about them.

use super::Orchestrator;
use crate::github::{
    payload::{self, BadPayload},
    signature::Verified,
};
use crate::store::{Accepted, InboxWriter, NewDelivery, StoreError};
use sha2::{Digest, Sha256};

/// Why a delivery is not in the inbox.
#[derive(Debug, thiserror::Error)]
pub enum NotArrived {
    #[error(transparent)]
    Unreadable(#[from] BadPayload),
    /// It may be handed over again.
    #[error(transparent)]
    NotStored(#[from] StoreError),
}

impl Orchestrator {
    /// The way into the inbox.
    pub fn inbox(&self) -> &InboxWriter {
        &self.parts().inbox
    }

    /// Takes a delivery in, whose id and event GitHub says to be these. When this returns it is on disk.
    pub async fn arrive(
        &self,
        guid: String,
        event: String,
        body: Verified<impl AsRef<[u8]> + Into<Vec<u8>>>,
    ) -> Result<Accepted, NotArrived> {
        let delivery = self.put_in_order(guid, event, body)?;
        if let Err(error) = self.note_deletion(&delivery.event, &delivery.body).await {
            tracing::warn!({ delivery.guid = %delivery.guid, error = %error }, "a deletion is not noted before its turn");
        }
        let out_of_turn = delivery.out_of_turn;
        let accepted = self.inbox().accept(delivery).await?;
        if let Accepted::New(_) = accepted {
            self.delivery_arrived(out_of_turn);
        }
        Ok(accepted)
    }

    fn put_in_order(
        &self,
        guid: String,
        event: String,
        body: Verified<impl AsRef<[u8]> + Into<Vec<u8>>>,
    ) -> Result<NewDelivery, BadPayload> {
        let body = body.into_inner();
        let bytes = body.as_ref();
        let conversation_key = payload::conversation_key(bytes)?;
        let unpressed = payload::is_unpressed(&event, bytes)?;
        let ignored_because = match payload::is_known(&event) {
            false => Some(format!("Treewarden does not act on the event {event:?}")),
            true => unpressed.then(|| "nobody pressed a button of this check run".to_owned()),
        };
        // The event is no part of what is signed, but the same body under another event is another delivery.
        let mut body_key = Sha256::new().chain_update(&event).chain_update([0]).chain_update(bytes);
        // Whoever presses a button again makes the same body again.
        if payload::may_be_pressed(&event, bytes) {
            body_key.update(&guid);
        }
        Ok(NewDelivery {
            body_key: hex::encode(body_key.finalize()),
            conversation_key,
            out_of_turn: self.asks_to_stop(&event, bytes),
            ignored_because,
            at: self.now(),
            guid,
            event,
            // Each step of each check run, of everybody's: that it came is all there is to know.
            body: if unpressed { b"{}".to_vec() } else { body.into() },
        })
    }
}
