-- Which commit of a fork's pull request a person let run here. One a thread: the latest; the audit log has them all.
CREATE TABLE approvals (
    conversation_id UUID        NOT NULL PRIMARY KEY REFERENCES conversations (id),
    head            TEXT        NOT NULL,
    approver_id     BIGINT      NOT NULL,
    approver        TEXT        NOT NULL,
    approved_at     TIMESTAMPTZ NOT NULL,
    ended_at        TIMESTAMPTZ
);
