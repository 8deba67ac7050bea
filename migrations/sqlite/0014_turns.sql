-- Which of the rows that are due is sent first: 0 that somebody was heard, 1 what somebody waits for,
-- 2 that something goes on.
ALTER TABLE outbox ADD COLUMN turn INTEGER NOT NULL DEFAULT 1;
UPDATE outbox SET turn = 0 WHERE key LIKE 'react/%' AND state IN ('pending', 'sending');
DROP INDEX outbox_waiting;
CREATE INDEX outbox_waiting ON outbox (turn, id) WHERE state IN ('pending', 'sending');
