-- How long nothing is sent for an installation: GitHub asked to wait, or content was written as fast as it allows.
CREATE TABLE outbox_pauses (
    installation_id  BIGINT      NOT NULL PRIMARY KEY,
    everything_until TIMESTAMPTZ,
    content_until    TIMESTAMPTZ
);
