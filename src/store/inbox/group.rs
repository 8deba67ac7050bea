//! Writing in groups: one task writes, and whatever waits when it looks goes into one transaction. A flush to the disk
//! costs the same for one row as for a hundred, so that the queue gets shorter the faster entries come.

use super::super::{Store, StoreError, db::Tx};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::{mpsc, oneshot};

/// Entries in one transaction at most.
const GROUP: usize = 256;
/// Entries that may wait for the task.
const WAITING: usize = 1024;

/// What is written together with others.
pub(super) trait Entry: Send + Sync + 'static {
    /// What came of it.
    type Outcome: Send;

    /// Writes them all, in this order: one outcome for each.
    fn write(entries: &[&Self], tx: &mut Tx) -> impl Future<Output = Result<Vec<Self::Outcome>, StoreError>> + Send;
}

/// Hands entries to the writing task, which ends with the last of these.
pub(super) struct Group<E: Entry> {
    queue: mpsc::Sender<Waiting<E>>,
    /// The last write failed.
    failing: Arc<AtomicBool>,
}

struct Waiting<E: Entry> {
    entry: E,
    answer: oneshot::Sender<Result<E::Outcome, StoreError>>,
}

impl<E: Entry> Clone for Group<E> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), failing: self.failing.clone() }
    }
}

impl<E: Entry> Group<E> {
    pub fn start(store: &Store) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        let failing = Arc::new(AtomicBool::new(false));
        tokio::spawn(write_groups(store.clone(), waiting, failing.clone()));
        Self { queue, failing }
    }

    /// Returns when the entry is on disk, or says that it is not. Waits while the queue is full.
    pub async fn write(&self, entry: E) -> Result<E::Outcome, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(Waiting { entry, answer }).await.map_err(|_| writer_gone())?;
        answered.await.map_err(|_| writer_gone())?
    }

    /// The same, but turned away with [`StoreError::Full`] when the queue is full.
    pub async fn write_unless_full(&self, entry: E) -> Result<E::Outcome, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue.try_send(Waiting { entry, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Full,
            mpsc::error::TrySendError::Closed(_) => writer_gone(),
        })?;
        answered.await.map_err(|_| writer_gone())?
    }

    pub fn has_ended(&self) -> bool {
        self.queue.is_closed()
    }

    /// Whether the last write failed.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// A write succeeded that did not go this way.
    pub fn note_success(&self) {
        self.failing.store(false, Ordering::Relaxed);
    }
}

fn writer_gone() -> StoreError {
    StoreError::Unavailable("its writing task has ended".to_owned())
}

async fn write_groups<E: Entry>(store: Store, mut queue: mpsc::Receiver<Waiting<E>>, failing: Arc<AtomicBool>) {
    let mut group = Vec::with_capacity(GROUP);
    while queue.recv_many(&mut group, GROUP).await > 0 {
        let written = write_together(&store, &group).await;
        failing.store(written.is_err(), Ordering::Relaxed);
        match written {
            Ok(outcomes) => {
                for (waiting, outcome) in group.drain(..).zip(outcomes) {
                    // Who asked may have hung up; the entry is written all the same.
                    let _ = waiting.answer.send(Ok(outcome));
                }
            }
            Err(error) if group.len() == 1 || error.is_transient() => {
                for waiting in group.drain(..) {
                    let _ = waiting.answer.send(Err(error.clone()));
                }
            }
            // One that cannot be written must not take the others with it.
            Err(_) => {
                for waiting in group.drain(..) {
                    let outcome = write_alone(&store, &waiting.entry).await;
                    failing.store(outcome.is_err(), Ordering::Relaxed);
                    let _ = waiting.answer.send(outcome);
                }
            }
        }
    }
}

async fn write_together<E: Entry>(store: &Store, group: &[Waiting<E>]) -> Result<Vec<E::Outcome>, StoreError> {
    let entries: Vec<&E> = group.iter().map(|waiting| &waiting.entry).collect();
    write(store, &entries).await
}

async fn write_alone<E: Entry>(store: &Store, entry: &E) -> Result<E::Outcome, StoreError> {
    let outcome = write(store, &[entry]).await?.pop();
    outcome.ok_or_else(|| StoreError::Failed("an entry was written without an outcome".to_owned()))
}

async fn write<E: Entry>(store: &Store, entries: &[&E]) -> Result<Vec<E::Outcome>, StoreError> {
    let mut tx = store.db.begin().await?;
    let outcomes = E::write(entries, &mut tx).await?;
    tx.commit().await?;
    Ok(outcomes)
}
