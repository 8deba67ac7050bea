-- How long nothing is sent for an installation: GitHub asked to wait, or content was written as fast as it allows.
CREATE TABLE outbox_pauses (
    installation_id  INTEGER NOT NULL PRIMARY KEY,
    everything_until TEXT,
    content_until    TEXT
) STRICT;
