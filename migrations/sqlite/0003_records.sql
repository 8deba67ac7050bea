-- What is kept for people and for later: proofs, reports, the audit log, settings, browser sessions, split work.

CREATE TABLE receipts (
    id             TEXT NOT NULL PRIMARY KEY,
    environment_id TEXT NOT NULL UNIQUE REFERENCES isolation_environments (id),
    trigger_kind   TEXT NOT NULL,
    details        TEXT NOT NULL,
    created_at     TEXT NOT NULL
) STRICT;

CREATE TABLE cleanup_reports (
    id           TEXT    NOT NULL PRIMARY KEY,
    trigger_kind TEXT    NOT NULL,
    dry_run      INTEGER NOT NULL,
    lines        TEXT    NOT NULL,
    started_at   TEXT    NOT NULL,
    ended_at     TEXT    NOT NULL
) STRICT;

CREATE TABLE audit_log (
    id      TEXT NOT NULL PRIMARY KEY,
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT NOT NULL,
    at      TEXT NOT NULL
) STRICT;
-- Append-only, whoever asks.
CREATE TRIGGER audit_log_keeps_entries BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_log_keeps_all BEFORE DELETE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

CREATE TABLE settings (
    key        TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE web_sessions (
    id_hash    TEXT NOT NULL PRIMARY KEY,
    data       TEXT NOT NULL,
    expires_at TEXT NOT NULL
) STRICT;
CREATE INDEX web_sessions_expiry ON web_sessions (expires_at);

CREATE TABLE workstreams (
    id                    TEXT    NOT NULL PRIMARY KEY,
    codebase_id           TEXT    NOT NULL REFERENCES codebases (id),
    parent_environment_id TEXT    NOT NULL REFERENCES isolation_environments (id),
    environment_id        TEXT    REFERENCES isolation_environments (id),
    name                  TEXT    NOT NULL,
    state                 TEXT    NOT NULL,
    details               TEXT    NOT NULL,
    version               INTEGER NOT NULL,
    created_at            TEXT    NOT NULL,
    updated_at            TEXT    NOT NULL
) STRICT;
CREATE INDEX workstreams_parent ON workstreams (parent_environment_id);
