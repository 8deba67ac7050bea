//! How many deliveries are handled at once. Those whose handling takes long step aside, so that the next mention gets its
//! 👀 meanwhile. However many wait there: they are about threads that the bot has to do with, and each only renews its claim.

use super::StepError;
use crate::model::Delivery;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Handled at once, as long as it goes quickly.
const QUICK: usize = 4;
/// Requests to stop: they wait for no other delivery.
const OUT_OF_TURN: usize = 2;
/// Of those that fetch, examine and remove.
const SLOW: usize = 4;

#[derive(Clone)]
pub(super) struct Lanes {
    quick: Arc<Semaphore>,
    out_of_turn: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

impl Default for Lanes {
    fn default() -> Self {
        let lane = |places| Arc::new(Semaphore::new(places));
        Self { quick: lane(QUICK), out_of_turn: lane(OUT_OF_TURN), slow: lane(SLOW) }
    }
}

/// Held until dropped.
pub(super) struct Place {
    lanes: Lanes,
    here: Option<OwnedSemaphorePermit>,
    is_slow: bool,
}

impl Lanes {
    /// Waits for a place among the quick ones; `None` once the lanes are closed.
    pub async fn enter(&self) -> Option<Place> {
        self.place_in(&self.quick).await
    }

    /// The same for a request to stop.
    pub async fn enter_out_of_turn(&self) -> Option<Place> {
        self.place_in(&self.out_of_turn).await
    }

    /// Waits for the place that a delivery is handled at.
    pub async fn enter_for(&self, delivery: &Delivery) -> Option<Place> {
        if delivery.out_of_turn { self.enter_out_of_turn().await } else { self.enter().await }
    }

    async fn place_in(&self, lane: &Arc<Semaphore>) -> Option<Place> {
        let here = place(lane).await.ok()?;
        Some(Place { lanes: self.clone(), here: Some(here), is_slow: false })
    }

    /// Lets nobody in any more. Whoever has a place keeps it.
    pub fn close(&self) {
        for lane in [&self.quick, &self.out_of_turn, &self.slow] {
            lane.close();
        }
    }
}

impl Place {
    /// Leaves the quick ones, then waits for a place among the slow ones.
    pub async fn step_aside(&mut self) -> Result<(), StepError> {
        if self.is_slow {
            return Ok(());
        }
        self.here = None;
        self.here = Some(place(&self.lanes.slow).await?);
        self.is_slow = true;
        Ok(())
    }
}

async fn place(lane: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, StepError> {
    lane.clone().acquire_owned().await.map_err(|_| StepError::Stopping)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn who_steps_aside_lets_the_next_one_in() {
        let lanes = Lanes::default();
        let mut places: Vec<Place> = (0..QUICK).map(|_| lanes.enter().now_or_never().flatten().unwrap()).collect();
        assert!(lanes.enter().now_or_never().is_none(), "no more than {QUICK} at once");
        assert!(lanes.enter_out_of_turn().now_or_never().flatten().is_some(), "who asks to stop waits for nobody");
        for place in &mut places {
            place.step_aside().now_or_never().unwrap().unwrap();
        }
        // Waiting there keeps nobody else out, however many do.
        let mut waiting = Vec::new();
        for _ in 0..200 {
            let mut next = lanes.enter().now_or_never().flatten().unwrap();
            assert!(next.step_aside().now_or_never().is_none(), "no more than {SLOW} of the slow ones");
            waiting.push(next);
        }
        let mut next = waiting.pop().unwrap();
        assert_eq!(lanes.quick.available_permits(), QUICK);
        drop((places, waiting));
        assert_eq!(lanes.slow.available_permits(), SLOW);
        lanes.close();
        assert!(lanes.enter().now_or_never().unwrap().is_none());
        assert!(matches!(next.step_aside().now_or_never(), Some(Err(StepError::Stopping))));
    }
}
