-- Who writes at once: for each installation one sender, and one beside it that tells people that they were heard. A sender
-- writes down the lane it is in.
ALTER TABLE outbox ADD COLUMN lane TEXT;
-- When it was sent last.
ALTER TABLE outbox ADD COLUMN sent_at TIMESTAMPTZ;
DROP INDEX outbox_one_at_a_time;
CREATE UNIQUE INDEX outbox_one_writer ON outbox (lane) WHERE state = 'sending';
