-- The first schema. The same tables and columns as migrations/postgres; ids, times and JSON as readable text.

CREATE TABLE codebases (
    id TEXT PRIMARY KEY,
    github_id INTEGER NOT NULL UNIQUE,
    installation_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    default_branch TEXT,
    repository_dir TEXT NOT NULL UNIQUE,
    connected INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;
CREATE INDEX codebases_by_name ON codebases (lower(name));

CREATE TABLE isolation_environments (
    id TEXT PRIMARY KEY,
    codebase_id TEXT NOT NULL REFERENCES codebases (id),
    workflow_type TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    branch TEXT NOT NULL,
    path TEXT NOT NULL,
    state TEXT NOT NULL,
    base_branch TEXT,
    start_sha TEXT,
    pinned INTEGER NOT NULL,
    provider TEXT NOT NULL,
    metadata TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    last_activity_at TEXT NOT NULL,
    destroyed_at TEXT
) STRICT;
-- Only live rows are unique: a destroyed environment never blocks its successor.
CREATE UNIQUE INDEX environments_live_work ON isolation_environments (codebase_id, workflow_type, workflow_id)
    WHERE state <> 'destroyed';
CREATE UNIQUE INDEX environments_live_branch ON isolation_environments (codebase_id, branch) WHERE state <> 'destroyed';
CREATE UNIQUE INDEX environments_live_path ON isolation_environments (path) WHERE state <> 'destroyed';

CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    platform TEXT NOT NULL,
    codebase_id TEXT NOT NULL REFERENCES codebases (id),
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    title TEXT NOT NULL,
    state TEXT NOT NULL,
    merged_head TEXT,
    environment_id TEXT REFERENCES isolation_environments (id),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (platform, codebase_id, number)
) STRICT;
CREATE INDEX conversations_by_environment ON conversations (environment_id);

CREATE TABLE inbox (
    id TEXT PRIMARY KEY,
    guid TEXT NOT NULL UNIQUE,
    event TEXT NOT NULL,
    conversation_key TEXT,
    body BLOB NOT NULL,
    body_key TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    reason TEXT,
    attempts INTEGER NOT NULL,
    owner TEXT,
    lease_until TEXT,
    not_before TEXT NOT NULL,
    received_at TEXT NOT NULL,
    finished_at TEXT
) STRICT;
CREATE INDEX inbox_unfinished ON inbox (conversation_key, id) WHERE state IN ('received', 'claimed');
CREATE INDEX inbox_waiting ON inbox (id) WHERE state = 'received';

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    codebase_id TEXT NOT NULL REFERENCES codebases (id),
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    environment_id TEXT REFERENCES isolation_environments (id),
    delivery_id TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL,
    comment_id INTEGER,
    state TEXT NOT NULL,
    reason TEXT,
    opening TEXT,
    answer TEXT,
    process TEXT,
    outcome TEXT NOT NULL,
    cancel_requested INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    owner TEXT,
    lease_until TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT
) STRICT;
-- One live run in an environment and in a conversation, whatever the workers think.
CREATE UNIQUE INDEX runs_live_environment ON runs (environment_id)
    WHERE state IN ('preparing', 'running', 'delivering');
CREATE UNIQUE INDEX runs_live_conversation ON runs (conversation_id)
    WHERE state IN ('preparing', 'running', 'delivering');
CREATE INDEX runs_unfinished ON runs (id) WHERE state IN ('queued', 'preparing', 'running', 'delivering');
CREATE INDEX runs_by_conversation ON runs (conversation_id, id);
CREATE INDEX runs_by_environment ON runs (environment_id, id);

CREATE TABLE outbox (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    codebase_id TEXT NOT NULL REFERENCES codebases (id),
    conversation_id TEXT REFERENCES conversations (id),
    outgoing TEXT NOT NULL,
    version INTEGER NOT NULL,
    sent_version INTEGER NOT NULL,
    remote_id INTEGER,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    last_error TEXT,
    owner TEXT,
    lease_until TEXT,
    not_before TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;
CREATE INDEX outbox_waiting ON outbox (codebase_id, id) WHERE state IN ('pending', 'sending');

CREATE TABLE receipts (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL UNIQUE REFERENCES isolation_environments (id),
    trigger_kind TEXT NOT NULL,
    details TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

CREATE TABLE cleanup_reports (
    id TEXT PRIMARY KEY,
    trigger_kind TEXT NOT NULL,
    dry_run INTEGER NOT NULL,
    lines TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT NOT NULL
) STRICT;

CREATE TABLE audit_log (
    id TEXT PRIMARY KEY,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE web_sessions (
    id TEXT PRIMARY KEY,
    data TEXT NOT NULL,
    expires_at TEXT NOT NULL
) STRICT;
