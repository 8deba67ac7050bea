//! Deliveries on their way into the inbox, by whichever door they came: understood well enough to be put in order, or to be
//! ignored, and on disk before anything is said about them.

use super::{
    Orchestrator,
    intake::{NOT_MENTIONED, is_stop},
};
use crate::command::mention;
use crate::github::{
    payload::{BadPayload, Payload},
    signature::Verified,
};
use crate::model::*;
use crate::store::{Accepted, InboxWriter, NewDelivery, StoreError};
use crate::telemetry::metric;
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
        let payload = Payload::read(body.as_ref())?;
        let happened = payload.understand(&event);
        if let Err(error) = self.note_deletion(&happened).await {
            tracing::warn!({ delivery.guid = %guid, error = %error }, "a deletion is not noted before its turn");
        }
        let ignored_because = self.why_ignored(&happened);
        let body = body.into_inner();
        // The event is no part of what is signed, but the same body under another event is another delivery.
        let mut body_key = Sha256::new().chain_update(&event).chain_update([0]).chain_update(body.as_ref());
        // Whoever presses a button again makes the same body again.
        if payload.is_pressed(&event) {
            body_key.update(&guid);
        }
        let delivery = NewDelivery {
            body_key: hex::encode(body_key.finalize()),
            conversation_key: payload.conversation_key(),
            out_of_turn: self.asks_to_stop(&happened),
            at: self.now(),
            guid,
            event,
            // What people say to each other, every step of everybody's check runs: the reason is all there is to keep.
            body: if ignored_because.is_some() { Vec::new() } else { body.into() },
            ignored_because,
        };
        let out_of_turn = delivery.out_of_turn;
        let accepted = self.inbox().accept(delivery).await?;
        match accepted {
            Accepted::New(_) => self.delivery_arrived(out_of_turn),
            Accepted::Ignored => metrics::counter!(metric::DELIVERIES, "result" => "ignored").increment(1),
            Accepted::Duplicate => {}
        }
        Ok(accepted)
    }

    /// Why nothing comes of it, whatever else is known, as far as that shows at once; what does not is looked at in its turn.
    fn why_ignored(&self, happened: &Event) -> Option<String> {
        if let Event::Nothing(reason) = happened {
            return Some(reason.clone());
        }
        let unnamed =
            happened.message().is_some_and(|message| !mention::may_name(&message.body, &self.identity().slug));
        unnamed.then(|| NOT_MENTIONED.to_owned())
    }

    /// Whether a delivery asks to stop, so that it must not wait for what its conversation waits for. Whoever asks, and
    /// whether it counts, is looked at when it is handled.
    fn asks_to_stop(&self, happened: &Event) -> bool {
        if let Event::Pressed(press) = happened {
            return press.button == Button::Stop;
        }
        // Much cheaper than to read every text.
        let message = happened.message().filter(|message| says(&message.body, "/stop"));
        let text = message.and_then(|message| mention::find(&message.body, &self.identity().slug));
        text.is_some_and(|text| is_stop(&text))
    }

    /// Writes down at once that a message was deleted: its deletion is handled in turn, and what it asked for may wait for
    /// another try before that.
    async fn note_deletion(&self, happened: &Event) -> Result<(), StoreError> {
        let Event::Deleted { thread, source, author } = happened else { return Ok(()) };
        // What programs write leads to nothing, and some delete much of it.
        match author {
            Some(author) if author.is_bot => Ok(()),
            Some(_) | None => self.store().note_deleted(thread.repository.id, source, self.now()).await,
        }
    }
}

fn says(text: &str, words: &str) -> bool {
    text.as_bytes().windows(words.len()).any(|part| part.eq_ignore_ascii_case(words.as_bytes()))
}
