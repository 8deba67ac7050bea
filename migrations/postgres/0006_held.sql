-- Threads of platforms that have no adapter yet: named by a text of the platform's own, not by a number in a repository.

CREATE TABLE held_conversations (
    id               UUID        NOT NULL PRIMARY KEY,
    platform         TEXT        NOT NULL,
    thread           TEXT        NOT NULL,
    codebase_id      UUID        REFERENCES codebases (id),
    environment_id   UUID        REFERENCES isolation_environments (id),
    created_at       TIMESTAMPTZ NOT NULL,
    last_activity_at TIMESTAMPTZ NOT NULL,
    UNIQUE (platform, thread)
);
CREATE INDEX held_conversations_environment ON held_conversations (environment_id) WHERE environment_id IS NOT NULL;
