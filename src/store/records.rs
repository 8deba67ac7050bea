//! What is written once and read by people: receipts, reports, the audit log; and settings.

use super::{
    Store, StoreError,
    db::{Row, sql},
};
use crate::model::*;
use uuid::Uuid;

fn receipt(row: &Row) -> Result<Receipt, StoreError> {
    Ok(Receipt {
        id: ReceiptId(row.id("id")?),
        environment: EnvironmentId(row.id("environment_id")?),
        trigger: row.parse("trigger_kind")?,
        details: row.json("details")?,
        created_at: row.time("created_at")?,
    })
}

fn report(row: &Row) -> Result<CleanupReport, StoreError> {
    Ok(CleanupReport {
        id: ReportId(row.id("id")?),
        trigger: row.parse("trigger_kind")?,
        dry_run: row.bool("dry_run")?,
        lines: row.json("lines")?,
        started_at: row.time("started_at")?,
        ended_at: row.time("ended_at")?,
    })
}

fn audit_entry(row: &Row) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        id: AuditId(row.id("id")?),
        actor: row.text("actor")?,
        action: row.text("action")?,
        subject: row.text("subject")?,
        detail: row.text("detail")?,
        at: row.time("at")?,
    })
}

impl Store {
    pub async fn receipt_of(&self, environment: EnvironmentId) -> Result<Option<Receipt>, StoreError> {
        let statement = sql("SELECT * FROM receipts WHERE environment_id = $1").id(environment.0);
        self.db.fetch_optional(statement).await?.as_ref().map(receipt).transpose()
    }

    /// Newest first.
    pub async fn list_receipts(&self, limit: u32) -> Result<Vec<Receipt>, StoreError> {
        let statement = sql("SELECT * FROM receipts ORDER BY id DESC LIMIT $1").int(limit.into());
        self.db.fetch_all(statement).await?.iter().map(receipt).collect()
    }

    pub async fn insert_report(&self, report: &CleanupReport) -> Result<(), StoreError> {
        let statement = sql("INSERT INTO cleanup_reports (id, trigger_kind, dry_run, lines, started_at, ended_at)
                VALUES ($1, $2, $3, $4, $5, $6)")
        .id(report.id.0)
        .text(report.trigger.as_str())
        .bool(report.dry_run)
        .json(&report.lines)
        .time(report.started_at)
        .time(report.ended_at);
        self.db.execute(statement).await.map(drop)
    }

    /// Newest first.
    pub async fn list_reports(&self, limit: u32) -> Result<Vec<CleanupReport>, StoreError> {
        let statement = sql("SELECT * FROM cleanup_reports ORDER BY id DESC LIMIT $1").int(limit.into());
        self.db.fetch_all(statement).await?.iter().map(report).collect()
    }

    /// Appends; there is no statement that changes or deletes an entry.
    pub async fn append_audit(
        &self,
        actor: &str,
        action: &str,
        subject: &str,
        detail: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let statement =
            sql("INSERT INTO audit_log (id, actor, action, subject, detail, at) VALUES ($1, $2, $3, $4, $5, $6)")
                .id(Uuid::now_v7())
                .text(actor)
                .text(action)
                .text(subject)
                .text(detail)
                .time(now);
        self.db.execute(statement).await.map(drop)
    }

    /// Newest first.
    pub async fn list_audit(&self, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let statement = sql("SELECT * FROM audit_log ORDER BY id DESC LIMIT $1").int(limit.into());
        self.db.fetch_all(statement).await?.iter().map(audit_entry).collect()
    }

    pub async fn setting(&self, key: &str) -> Result<Option<serde_json::Value>, StoreError> {
        let statement = sql("SELECT value FROM settings WHERE key = $1").text(key);
        self.db.fetch_optional(statement).await?.map(|row| row.json("value")).transpose()
    }

    pub async fn set_setting(&self, key: &str, value: &serde_json::Value, now: Timestamp) -> Result<(), StoreError> {
        let statement = sql("INSERT INTO settings (key, value, updated_at) VALUES ($1, $2, $3)
                ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at")
        .text(key)
        .json(value)
        .time(now);
        self.db.execute(statement).await.map(drop)
    }
}
