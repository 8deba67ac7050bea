-- The first schema. The same tables and columns as migrations/sqlite, in PostgreSQL's own types.

CREATE TABLE codebases (
    id UUID PRIMARY KEY,
    github_id BIGINT NOT NULL UNIQUE,
    installation_id BIGINT NOT NULL,
    name TEXT NOT NULL,
    default_branch TEXT,
    repository_dir TEXT NOT NULL UNIQUE,
    connected BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX codebases_by_name ON codebases (lower(name));

CREATE TABLE isolation_environments (
    id UUID PRIMARY KEY,
    codebase_id UUID NOT NULL REFERENCES codebases (id),
    workflow_type TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    branch TEXT NOT NULL,
    path TEXT NOT NULL,
    state TEXT NOT NULL,
    base_branch TEXT,
    start_sha TEXT,
    pinned BOOLEAN NOT NULL,
    provider TEXT NOT NULL,
    metadata JSONB NOT NULL,
    version BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    last_activity_at TIMESTAMPTZ NOT NULL,
    destroyed_at TIMESTAMPTZ
);
-- Only live rows are unique: a destroyed environment never blocks its successor.
CREATE UNIQUE INDEX environments_live_work ON isolation_environments (codebase_id, workflow_type, workflow_id)
    WHERE state <> 'destroyed';
CREATE UNIQUE INDEX environments_live_branch ON isolation_environments (codebase_id, branch) WHERE state <> 'destroyed';
CREATE UNIQUE INDEX environments_live_path ON isolation_environments (path) WHERE state <> 'destroyed';

CREATE TABLE conversations (
    id UUID PRIMARY KEY,
    platform TEXT NOT NULL,
    codebase_id UUID NOT NULL REFERENCES codebases (id),
    kind TEXT NOT NULL,
    number BIGINT NOT NULL,
    title TEXT NOT NULL,
    state TEXT NOT NULL,
    merged_head TEXT,
    environment_id UUID REFERENCES isolation_environments (id),
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    UNIQUE (platform, codebase_id, number)
);
CREATE INDEX conversations_by_environment ON conversations (environment_id);

CREATE TABLE inbox (
    id UUID PRIMARY KEY,
    guid TEXT NOT NULL UNIQUE,
    event TEXT NOT NULL,
    conversation_key TEXT,
    body BYTEA NOT NULL,
    body_key TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    reason TEXT,
    attempts BIGINT NOT NULL,
    owner TEXT,
    lease_until TIMESTAMPTZ,
    not_before TIMESTAMPTZ NOT NULL,
    received_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ
);
CREATE INDEX inbox_unfinished ON inbox (conversation_key, id) WHERE state IN ('received', 'claimed');
CREATE INDEX inbox_waiting ON inbox (id) WHERE state = 'received';

CREATE TABLE runs (
    id UUID PRIMARY KEY,
    codebase_id UUID NOT NULL REFERENCES codebases (id),
    conversation_id UUID NOT NULL REFERENCES conversations (id),
    environment_id UUID REFERENCES isolation_environments (id),
    delivery_id UUID NOT NULL UNIQUE,
    request JSONB NOT NULL,
    comment_id BIGINT,
    state TEXT NOT NULL,
    reason TEXT,
    opening TEXT,
    answer TEXT,
    process JSONB,
    outcome JSONB NOT NULL,
    cancel_requested BOOLEAN NOT NULL,
    attempts BIGINT NOT NULL,
    owner TEXT,
    lease_until TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    started_at TIMESTAMPTZ,
    ended_at TIMESTAMPTZ
);
-- One live run in an environment and in a conversation, whatever the workers think.
CREATE UNIQUE INDEX runs_live_environment ON runs (environment_id)
    WHERE state IN ('preparing', 'running', 'delivering');
CREATE UNIQUE INDEX runs_live_conversation ON runs (conversation_id)
    WHERE state IN ('preparing', 'running', 'delivering');
CREATE INDEX runs_unfinished ON runs (id) WHERE state IN ('queued', 'preparing', 'running', 'delivering');
CREATE INDEX runs_by_conversation ON runs (conversation_id, id);
CREATE INDEX runs_by_environment ON runs (environment_id, id);

CREATE TABLE outbox (
    id UUID PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    codebase_id UUID NOT NULL REFERENCES codebases (id),
    conversation_id UUID REFERENCES conversations (id),
    outgoing JSONB NOT NULL,
    version BIGINT NOT NULL,
    sent_version BIGINT NOT NULL,
    remote_id BIGINT,
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    last_error TEXT,
    owner TEXT,
    lease_until TIMESTAMPTZ,
    not_before TIMESTAMPTZ NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX outbox_waiting ON outbox (codebase_id, id) WHERE state IN ('pending', 'sending');

CREATE TABLE receipts (
    id UUID PRIMARY KEY,
    environment_id UUID NOT NULL UNIQUE REFERENCES isolation_environments (id),
    trigger_kind TEXT NOT NULL,
    details JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE cleanup_reports (
    id UUID PRIMARY KEY,
    trigger_kind TEXT NOT NULL,
    dry_run BOOLEAN NOT NULL,
    lines JSONB NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE audit_log (
    id UUID PRIMARY KEY,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL
);

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value JSONB NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE web_sessions (
    id TEXT PRIMARY KEY,
    data JSONB NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
