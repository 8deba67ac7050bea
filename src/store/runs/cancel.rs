//! Asking runs to stop. A queued run is over at once, with the reason that is passed in; one at work is told with its next
//! heartbeat and says itself why it ended.

use super::super::codec::FromRow;
use super::super::db::Row;
use super::super::sql::sql;
use super::super::{Store, StoreError};
use super::{NewRun, insert};
use crate::model::*;

struct Asked(RunId);

impl FromRow for Asked {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get("id").map(Asked)
    }
}

/// Those of the runs for which `$which` holds that are not over: `$2` is now, `$3` the reason.
macro_rules! cancel {
    ($which:literal) => {
        concat!(
            "UPDATE runs SET cancel_requested = true,
                 reason = CASE WHEN state = 'queued' THEN $3 ELSE reason END,
                 ended_at = CASE WHEN state = 'queued' THEN $2 ELSE ended_at END,
                 state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END
             WHERE ",
            $which,
            " AND state IN ('queued', 'preparing', 'running', 'delivering')
             RETURNING id"
        )
    };
}

impl Store {
    /// Answers with the runs of a conversation that were not over. What arrived after the delivery `asked_in` is not meant.
    pub async fn request_cancel_of_conversation(
        &self,
        conversation: ConversationId,
        asked_in: InboxId,
        because: &str,
        now: Timestamp,
    ) -> Result<Vec<RunId>, StoreError> {
        let sql = sql!(cancel!("conversation_id = $1 AND delivery_id < $4"));
        let sql = sql.bind(conversation).bind(now).bind(because).bind(asked_in);
        Ok(asked(self.db.fetch_all(sql).await?))
    }

    /// Answers with the run, unless it was over.
    pub async fn request_cancel_of_run(
        &self,
        run: RunId,
        because: &str,
        now: Timestamp,
    ) -> Result<Vec<RunId>, StoreError> {
        let sql = sql!(cancel!("id = $1"));
        Ok(asked(self.db.fetch_all(sql.bind(run).bind(now).bind(because)).await?))
    }

    /// A run that has not begun is over, and in the same moment another waits in its place. False when it had begun, or
    /// was over: nothing has changed then.
    pub async fn replace_queued_run(
        &self,
        run: RunId,
        because: &str,
        instead: Option<&NewRun>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = sql!(
            "UPDATE runs SET cancel_requested = true, reason = $3, ended_at = $2, state = 'cancelled'
             WHERE id = $1 AND state = 'queued'"
        );
        let mut tx = self.db.begin().await?;
        if tx.execute(sql.bind(run).bind(now).bind(because)).await? == 0 {
            return Ok(false);
        }
        if let Some(new) = instead {
            tx.execute(insert(new, now)?).await?;
        }
        tx.commit().await?;
        Ok(true)
    }
}

/// Oldest first; an `UPDATE` answers in no order.
fn asked(rows: Vec<Asked>) -> Vec<RunId> {
    let mut runs: Vec<RunId> = rows.into_iter().map(|row| row.0).collect();
    runs.sort();
    runs
}
