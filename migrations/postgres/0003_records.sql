-- What is kept for people and for later: proofs, reports, the audit log, settings, browser sessions, split work.

CREATE TABLE receipts (
    id             UUID        NOT NULL PRIMARY KEY,
    environment_id UUID        NOT NULL UNIQUE REFERENCES isolation_environments (id),
    trigger_kind   TEXT        NOT NULL,
    details        JSONB       NOT NULL,
    created_at     TIMESTAMPTZ NOT NULL
);

CREATE TABLE cleanup_reports (
    id           UUID        NOT NULL PRIMARY KEY,
    trigger_kind TEXT        NOT NULL,
    dry_run      BOOLEAN     NOT NULL,
    lines        JSONB       NOT NULL,
    started_at   TIMESTAMPTZ NOT NULL,
    ended_at     TIMESTAMPTZ NOT NULL
);

CREATE TABLE audit_log (
    id      UUID        NOT NULL PRIMARY KEY,
    actor   TEXT        NOT NULL,
    action  TEXT        NOT NULL,
    subject TEXT        NOT NULL,
    detail  TEXT        NOT NULL,
    at      TIMESTAMPTZ NOT NULL
);
-- Append-only, whoever asks.
CREATE FUNCTION audit_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$;
CREATE TRIGGER audit_log_keeps_entries BEFORE UPDATE OR DELETE ON audit_log
FOR EACH ROW EXECUTE FUNCTION audit_log_is_append_only();

CREATE TABLE settings (
    key        TEXT        NOT NULL PRIMARY KEY,
    value      JSONB       NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE web_sessions (
    id_hash    TEXT        NOT NULL PRIMARY KEY,
    data       JSONB       NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX web_sessions_expiry ON web_sessions (expires_at);

CREATE TABLE workstreams (
    id                    UUID        NOT NULL PRIMARY KEY,
    codebase_id           UUID        NOT NULL REFERENCES codebases (id),
    parent_environment_id UUID        NOT NULL REFERENCES isolation_environments (id),
    environment_id        UUID        REFERENCES isolation_environments (id),
    name                  TEXT        NOT NULL,
    state                 TEXT        NOT NULL,
    details               JSONB       NOT NULL,
    version               BIGINT      NOT NULL,
    created_at            TIMESTAMPTZ NOT NULL,
    updated_at            TIMESTAMPTZ NOT NULL
);
CREATE INDEX workstreams_parent ON workstreams (parent_environment_id);
