-- What came in, what is being done about it, what goes out. Each table is a queue with leases.

CREATE TABLE inbox (
    id               UUID        NOT NULL PRIMARY KEY,
    guid             TEXT        NOT NULL UNIQUE,
    event            TEXT        NOT NULL,
    conversation_key TEXT,
    body             BYTEA       NOT NULL,
    body_key         TEXT        NOT NULL,
    state            TEXT        NOT NULL,
    reason           TEXT,
    attempts         BIGINT      NOT NULL,
    not_before       TIMESTAMPTZ NOT NULL,
    lease_owner      TEXT,
    lease_until      TIMESTAMPTZ,
    received_at      TIMESTAMPTZ NOT NULL,
    finished_at      TIMESTAMPTZ,
    UNIQUE (body_key, event)
);
CREATE INDEX inbox_unfinished ON inbox (conversation_key, id) WHERE state IN ('received', 'claimed');
CREATE INDEX inbox_received ON inbox (id) WHERE state = 'received';
CREATE UNIQUE INDEX inbox_one_claim_per_key ON inbox (conversation_key) WHERE state = 'claimed';

CREATE TABLE runs (
    id               UUID        NOT NULL PRIMARY KEY,
    codebase_id      UUID        NOT NULL REFERENCES codebases (id),
    conversation_id  UUID        NOT NULL REFERENCES conversations (id),
    environment_id   UUID        REFERENCES isolation_environments (id),
    delivery_id      UUID        NOT NULL UNIQUE REFERENCES inbox (id),
    source_comment   BIGINT,
    request          JSONB       NOT NULL,
    state            TEXT        NOT NULL,
    reason           TEXT,
    opening          TEXT,
    answer           TEXT,
    process          JSONB,
    outcome          JSONB       NOT NULL,
    cancel_requested BOOLEAN     NOT NULL,
    attempts         BIGINT      NOT NULL,
    lease_owner      TEXT,
    lease_until      TIMESTAMPTZ,
    created_at       TIMESTAMPTZ NOT NULL,
    started_at       TIMESTAMPTZ,
    ended_at         TIMESTAMPTZ
);
CREATE INDEX runs_unfinished ON runs (conversation_id, id) WHERE state IN ('queued', 'preparing', 'running', 'delivering');
CREATE INDEX runs_codebase ON runs (codebase_id, id);
CREATE INDEX runs_conversation ON runs (conversation_id, id);
CREATE INDEX runs_environment ON runs (environment_id, id);
CREATE UNIQUE INDEX runs_one_live_per_environment ON runs (environment_id)
    WHERE state IN ('preparing', 'running', 'delivering');
CREATE UNIQUE INDEX runs_one_live_per_conversation ON runs (conversation_id)
    WHERE state IN ('preparing', 'running', 'delivering');

CREATE TABLE outbox (
    id              UUID        NOT NULL PRIMARY KEY,
    key             TEXT        NOT NULL UNIQUE,
    codebase_id     UUID        NOT NULL REFERENCES codebases (id),
    conversation_id UUID        REFERENCES conversations (id),
    outgoing        JSONB       NOT NULL,
    version         BIGINT      NOT NULL,
    sent_version    BIGINT      NOT NULL,
    remote_id       BIGINT,
    state           TEXT        NOT NULL,
    attempts        BIGINT      NOT NULL,
    last_error      TEXT,
    not_before      TIMESTAMPTZ NOT NULL,
    lease_owner     TEXT,
    lease_until     TIMESTAMPTZ,
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX outbox_waiting ON outbox (id) WHERE state IN ('pending', 'sending');
CREATE UNIQUE INDEX outbox_one_at_a_time ON outbox (codebase_id) WHERE state = 'sending';
