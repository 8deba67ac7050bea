//! Bodies that strangers send, kept in memory until their signature can be checked: each has a limit, and so have all
//! together. A small one always gets through, whatever others hold; only what is beyond that comes out of a common budget.

use super::error::WebError;
use axum::body::{Body, Bytes};
use futures::StreamExt;
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of each body, in bytes, this much counts for nothing: GitHub's payloads are rarely larger.
const SMALL: usize = 256 * 1024;
/// The budget is counted in pieces of so many bytes.
const PIECE: usize = 1024;
/// For what is beyond [`SMALL`] in all bodies together, in pieces: 128 MiB.
const BUDGET: usize = 128 * 1024;

static BEYOND: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(BUDGET)));

/// A whole body, and its part of the budget until dropped.
#[derive(Debug)]
pub(super) struct Whole {
    pub bytes: Bytes,
    _held: Option<OwnedSemaphorePermit>,
}

/// A body that takes longer gives back what it holds. GitHub gives a receiver ten seconds for everything.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);

/// Reads a body of at most `limit` bytes.
pub(super) async fn whole(body: Body, limit: usize) -> Result<Whole, WebError> {
    collect_within(ARRIVES_WITHIN, body, limit, &BEYOND).await
}

async fn collect_within(time: Duration, body: Body, limit: usize, beyond: &Arc<Semaphore>) -> Result<Whole, WebError> {
    tokio::time::timeout(time, collect(body, limit, beyond)).await.unwrap_or(Err(WebError::TooSlow))
}

async fn collect(body: Body, limit: usize, beyond: &Arc<Semaphore>) -> Result<Whole, WebError> {
    let (mut bytes, mut held) = (Vec::new(), None::<OwnedSemaphorePermit>);
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| WebError::Incomplete)?;
        if bytes.len() + piece.len() > limit {
            return Err(WebError::TooLarge);
        }
        bytes.extend_from_slice(&piece);
        let owed = bytes.len().saturating_sub(SMALL).div_ceil(PIECE);
        let missing = owed - held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if missing > 0 {
            let missing = u32::try_from(missing).map_err(|_| WebError::TooLarge)?;
            let more = beyond.clone().try_acquire_many_owned(missing).map_err(|_| WebError::TooManyBodies)?;
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
        }
    }
    Ok(Whole { bytes: bytes.into(), _held: held })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(size: usize) -> Body {
        let pieces = vec![Ok::<_, std::io::Error>(vec![b'x'; size / 2]), Ok(vec![b'y'; size - size / 2])];
        Body::from_stream(futures::stream::iter(pieces))
    }

    #[tokio::test]
    async fn what_is_large_shares_a_budget_and_what_is_small_gets_through() {
        let (limit, large) = (4 * SMALL, 2 * SMALL);
        let beyond = Arc::new(Semaphore::new(SMALL / PIECE));
        assert!(matches!(collect(body(limit + 1), limit, &beyond).await, Err(WebError::TooLarge)));
        let first = collect(body(large), limit, &beyond).await.unwrap();
        assert_eq!(first.bytes.len(), large);
        assert_eq!(beyond.available_permits(), 0);
        assert!(matches!(collect(body(large), limit, &beyond).await, Err(WebError::TooManyBodies)));
        let small = collect(body(SMALL), limit, &beyond).await.unwrap();
        drop((first, small));
        assert!(collect(body(large), limit, &beyond).await.is_ok(), "what was held came back");
        assert_eq!(beyond.available_permits(), SMALL / PIECE, "a refused one holds nothing");
    }

    #[tokio::test]
    async fn who_sends_slowly_keeps_the_others_out_for_a_while_only() {
        let (limit, beyond) = (4 * SMALL, Arc::new(Semaphore::new(SMALL / PIECE)));
        let begun = futures::stream::iter([Ok::<_, std::io::Error>(vec![b'x'; 2 * SMALL])]);
        let endless = Body::from_stream(begun.chain(futures::stream::pending()));
        let slow = collect_within(Duration::from_millis(1), endless, limit, &beyond).await;
        assert!(matches!(slow, Err(WebError::TooSlow)), "{slow:?}");
        assert!(collect(body(2 * SMALL), limit, &beyond).await.is_ok());
    }
}
