-- Repositories, threads, the environments work is done in, and the agents' own memory.
-- Ids and times are text (UUID; RFC 3339 in UTC with microseconds, so that they sort), JSON is text, booleans are 0 or 1.

CREATE TABLE codebases (
    id              TEXT    NOT NULL PRIMARY KEY,
    github_id       INTEGER NOT NULL UNIQUE,
    installation_id INTEGER NOT NULL,
    name            TEXT    NOT NULL,
    repository_dir  TEXT    NOT NULL,
    default_branch  TEXT,
    connected       INTEGER NOT NULL,
    created_at      TEXT    NOT NULL,
    updated_at      TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX codebases_connected_name ON codebases (lower(name)) WHERE connected;
CREATE UNIQUE INDEX codebases_repository_dir ON codebases (lower(repository_dir));

CREATE TABLE isolation_environments (
    id               TEXT    NOT NULL PRIMARY KEY,
    codebase_id      TEXT    NOT NULL REFERENCES codebases (id),
    workflow_type    TEXT    NOT NULL,
    workflow_id      TEXT    NOT NULL,
    branch           TEXT    NOT NULL,
    path             TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    base_branch      TEXT,
    start_commit     TEXT,
    pinned           INTEGER NOT NULL,
    provider         TEXT    NOT NULL,
    metadata         TEXT    NOT NULL,
    version          INTEGER NOT NULL,
    created_at       TEXT    NOT NULL,
    last_activity_at TEXT    NOT NULL,
    destroyed_at     TEXT,
    CHECK ((state = 'destroyed') = (destroyed_at IS NOT NULL))
) STRICT;
-- On live rows only: a destroyed environment never stands in its successor's way.
CREATE UNIQUE INDEX environments_live_work ON isolation_environments (codebase_id, workflow_type, workflow_id)
    WHERE state <> 'destroyed';
CREATE UNIQUE INDEX environments_live_branch ON isolation_environments (codebase_id, branch) WHERE state <> 'destroyed';
CREATE UNIQUE INDEX environments_live_path ON isolation_environments (path) WHERE state <> 'destroyed';
CREATE INDEX environments_live ON isolation_environments (id) WHERE state <> 'destroyed';
CREATE INDEX environments_created ON isolation_environments (created_at);

CREATE TABLE conversations (
    id             TEXT    NOT NULL PRIMARY KEY,
    platform       TEXT    NOT NULL,
    codebase_id    TEXT    NOT NULL REFERENCES codebases (id),
    kind           TEXT    NOT NULL,
    number         INTEGER NOT NULL,
    title          TEXT    NOT NULL,
    state          TEXT    NOT NULL,
    merged_head    TEXT,
    environment_id TEXT    REFERENCES isolation_environments (id),
    created_at     TEXT    NOT NULL,
    updated_at     TEXT    NOT NULL,
    UNIQUE (platform, codebase_id, number)
) STRICT;
CREATE INDEX conversations_environment ON conversations (environment_id) WHERE environment_id IS NOT NULL;

CREATE TABLE sessions (
    id              TEXT NOT NULL PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    environment_id  TEXT NOT NULL REFERENCES isolation_environments (id),
    agent           TEXT NOT NULL,
    external_id     TEXT NOT NULL,
    opened_at       TEXT NOT NULL,
    closed_at       TEXT,
    closed_because  TEXT
) STRICT;
CREATE UNIQUE INDEX sessions_live ON sessions (conversation_id, environment_id) WHERE closed_at IS NULL;
CREATE INDEX sessions_environment ON sessions (environment_id);
