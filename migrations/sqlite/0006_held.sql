-- Threads of platforms that have no adapter yet: named by a text of the platform's own, not by a number in a repository.

CREATE TABLE held_conversations (
    id               TEXT NOT NULL PRIMARY KEY,
    platform         TEXT NOT NULL,
    thread           TEXT NOT NULL,
    codebase_id      TEXT REFERENCES codebases (id),
    environment_id   TEXT REFERENCES isolation_environments (id),
    created_at       TEXT NOT NULL,
    last_activity_at TEXT NOT NULL,
    UNIQUE (platform, thread)
) STRICT;
CREATE INDEX held_conversations_environment ON held_conversations (environment_id) WHERE environment_id IS NOT NULL;
