-- What came in, what is being done about it, what goes out. Each table is a queue with leases.

CREATE TABLE inbox (
    id               TEXT    NOT NULL PRIMARY KEY,
    guid             TEXT    NOT NULL UNIQUE,
    event            TEXT    NOT NULL,
    conversation_key TEXT,
    body             BLOB    NOT NULL,
    body_key         TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    reason           TEXT,
    attempts         INTEGER NOT NULL,
    not_before       TEXT    NOT NULL,
    lease_owner      TEXT,
    lease_until      TEXT,
    received_at      TEXT    NOT NULL,
    finished_at      TEXT,
    UNIQUE (body_key, event)
) STRICT;
CREATE INDEX inbox_unfinished ON inbox (conversation_key, id) WHERE state IN ('received', 'claimed');
CREATE INDEX inbox_received ON inbox (id) WHERE state = 'received';
CREATE UNIQUE INDEX inbox_one_claim_per_key ON inbox (conversation_key) WHERE state = 'claimed';

CREATE TABLE runs (
    id               TEXT    NOT NULL PRIMARY KEY,
    codebase_id      TEXT    NOT NULL REFERENCES codebases (id),
    conversation_id  TEXT    NOT NULL REFERENCES conversations (id),
    environment_id   TEXT    REFERENCES isolation_environments (id),
    delivery_id      TEXT    NOT NULL UNIQUE REFERENCES inbox (id),
    source_comment   INTEGER,
    request          TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    reason           TEXT,
    opening          TEXT,
    answer           TEXT,
    process          TEXT,
    outcome          TEXT    NOT NULL,
    cancel_requested INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    lease_owner      TEXT,
    lease_until      TEXT,
    created_at       TEXT    NOT NULL,
    started_at       TEXT,
    ended_at         TEXT
) STRICT;
CREATE INDEX runs_unfinished ON runs (conversation_id, id) WHERE state IN ('queued', 'preparing', 'running', 'delivering');
CREATE INDEX runs_codebase ON runs (codebase_id, id);
CREATE INDEX runs_conversation ON runs (conversation_id, id);
CREATE INDEX runs_environment ON runs (environment_id, id);
CREATE UNIQUE INDEX runs_one_live_per_environment ON runs (environment_id)
    WHERE state IN ('preparing', 'running', 'delivering');
CREATE UNIQUE INDEX runs_one_live_per_conversation ON runs (conversation_id)
    WHERE state IN ('preparing', 'running', 'delivering');

CREATE TABLE outbox (
    id              TEXT    NOT NULL PRIMARY KEY,
    key             TEXT    NOT NULL UNIQUE,
    codebase_id     TEXT    NOT NULL REFERENCES codebases (id),
    conversation_id TEXT    REFERENCES conversations (id),
    outgoing        TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    sent_version    INTEGER NOT NULL,
    remote_id       INTEGER,
    state           TEXT    NOT NULL,
    attempts        INTEGER NOT NULL,
    last_error      TEXT,
    not_before      TEXT    NOT NULL,
    lease_owner     TEXT,
    lease_until     TEXT,
    created_at      TEXT    NOT NULL,
    updated_at      TEXT    NOT NULL
) STRICT;
CREATE INDEX outbox_waiting ON outbox (id) WHERE state IN ('pending', 'sending');
CREATE UNIQUE INDEX outbox_one_at_a_time ON outbox (codebase_id) WHERE state = 'sending';
