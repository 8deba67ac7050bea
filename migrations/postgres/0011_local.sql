-- A platform of this machine's own. Its threads are named by texts; `number` only tells them apart, as it does on GitHub.
ALTER TABLE conversations ADD COLUMN thread TEXT;
CREATE UNIQUE INDEX conversations_thread ON conversations (platform, thread) WHERE thread IS NOT NULL;
-- The number that the last writing of a message had.
ALTER TABLE conversations ADD COLUMN written BIGINT NOT NULL DEFAULT 0;

-- A repository by its path. Nobody on GitHub knows it: its `github_id` is below zero, which no id of GitHub's is.
ALTER TABLE codebases ADD COLUMN local_path TEXT;
CREATE UNIQUE INDEX codebases_local_path ON codebases (local_path) WHERE local_path IS NOT NULL;

CREATE TABLE local_messages (
    id              UUID        NOT NULL PRIMARY KEY,
    conversation_id UUID        NOT NULL REFERENCES conversations (id),
    author          TEXT,
    answers         UUID,
    body            TEXT        NOT NULL,
    written         BIGINT      NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX local_messages_written ON local_messages (conversation_id, written);
CREATE INDEX outbox_conversation ON outbox (conversation_id) WHERE state IN ('pending', 'sending');
