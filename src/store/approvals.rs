//! Table `approvals`: the commit of a fork's pull request that a person let run here, the latest of each thread.

use super::codec::FromRow;
use super::db::Row;
use super::sql::sql;
use super::{Store, StoreError};
use crate::model::*;

impl FromRow for Approval {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Approval {
            conversation: row.get("conversation_id")?,
            head: row.get("head")?,
            approver: row.get("approver_id")?,
            login: row.get("approver")?,
            approved_at: row.get("approved_at")?,
            ended_at: row.maybe("ended_at")?,
        })
    }
}

impl Store {
    /// Puts an approval in the place of the thread's earlier one.
    pub async fn put_approval(&self, approval: &Approval) -> Result<(), StoreError> {
        let sql = sql!(
            "INSERT INTO approvals (conversation_id, head, approver_id, approver, approved_at, ended_at)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (conversation_id) DO UPDATE
             SET head = excluded.head, approver_id = excluded.approver_id, approver = excluded.approver,
                 approved_at = excluded.approved_at, ended_at = excluded.ended_at"
        );
        let sql = sql
            .bind(approval.conversation)
            .bind(&approval.head)
            .bind(approval.approver)
            .bind(&approval.login)
            .bind(approval.approved_at)
            .bind(approval.ended_at);
        self.db.execute(sql).await.map(drop)
    }

    pub async fn load_approval(&self, conversation: ConversationId) -> Result<Option<Approval>, StoreError> {
        self.db.fetch_optional(sql!("SELECT * FROM approvals WHERE conversation_id = $1").bind(conversation)).await
    }

    /// Ends the approval of exactly this commit; false when there is none, or it has ended.
    pub async fn end_approval(
        &self,
        conversation: ConversationId,
        head: &CommitSha,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql =
            sql!("UPDATE approvals SET ended_at = $3 WHERE conversation_id = $1 AND head = $2 AND ended_at IS NULL");
        Ok(self.db.execute(sql.bind(conversation).bind(head).bind(now)).await? > 0)
    }
}
