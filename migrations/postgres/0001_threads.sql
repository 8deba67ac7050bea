-- Repositories, threads, the environments work is done in, and the agents' own memory.
-- The same tables, columns and indexes as for SQLite (a test compares them), in the types of this engine.

CREATE TABLE codebases (
    id              UUID        NOT NULL PRIMARY KEY,
    github_id       BIGINT      NOT NULL UNIQUE,
    installation_id BIGINT      NOT NULL,
    name            TEXT        NOT NULL,
    repository_dir  TEXT        NOT NULL,
    default_branch  TEXT,
    connected       BOOLEAN     NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX codebases_connected_name ON codebases (lower(name)) WHERE connected;
CREATE UNIQUE INDEX codebases_repository_dir ON codebases (lower(repository_dir));

CREATE TABLE isolation_environments (
    id               UUID        NOT NULL PRIMARY KEY,
    codebase_id      UUID        NOT NULL REFERENCES codebases (id),
    workflow_type    TEXT        NOT NULL,
    workflow_id      TEXT        NOT NULL,
    branch           TEXT        NOT NULL,
    path             TEXT        NOT NULL,
    state            TEXT        NOT NULL,
    base_branch      TEXT,
    start_commit     TEXT,
    pinned           BOOLEAN     NOT NULL,
    provider         TEXT        NOT NULL,
    metadata         JSONB       NOT NULL,
    version          BIGINT      NOT NULL,
    created_at       TIMESTAMPTZ NOT NULL,
    last_activity_at TIMESTAMPTZ NOT NULL,
    destroyed_at     TIMESTAMPTZ,
    CHECK ((state = 'destroyed') = (destroyed_at IS NOT NULL))
);
-- On live rows only: a destroyed environment never stands in its successor's way.
CREATE UNIQUE INDEX environments_live_work ON isolation_environments (codebase_id, workflow_type, workflow_id)
    WHERE state <> 'destroyed';
CREATE UNIQUE INDEX environments_live_branch ON isolation_environments (codebase_id, branch) WHERE state <> 'destroyed';
CREATE UNIQUE INDEX environments_live_path ON isolation_environments (path) WHERE state <> 'destroyed';
CREATE INDEX environments_live ON isolation_environments (id) WHERE state <> 'destroyed';
CREATE INDEX environments_created ON isolation_environments (created_at);

CREATE TABLE conversations (
    id             UUID        NOT NULL PRIMARY KEY,
    platform       TEXT        NOT NULL,
    codebase_id    UUID        NOT NULL REFERENCES codebases (id),
    kind           TEXT        NOT NULL,
    number         BIGINT      NOT NULL,
    title          TEXT        NOT NULL,
    state          TEXT        NOT NULL,
    merged_head    TEXT,
    environment_id UUID        REFERENCES isolation_environments (id),
    created_at     TIMESTAMPTZ NOT NULL,
    updated_at     TIMESTAMPTZ NOT NULL,
    UNIQUE (platform, codebase_id, number)
);
CREATE INDEX conversations_environment ON conversations (environment_id) WHERE environment_id IS NOT NULL;

CREATE TABLE sessions (
    id              UUID        NOT NULL PRIMARY KEY,
    conversation_id UUID        NOT NULL REFERENCES conversations (id),
    environment_id  UUID        NOT NULL REFERENCES isolation_environments (id),
    agent           TEXT        NOT NULL,
    external_id     TEXT        NOT NULL,
    opened_at       TIMESTAMPTZ NOT NULL,
    closed_at       TIMESTAMPTZ,
    closed_because  TEXT
);
CREATE UNIQUE INDEX sessions_live ON sessions (conversation_id, environment_id) WHERE closed_at IS NULL;
CREATE INDEX sessions_environment ON sessions (environment_id);
