-- The review that a run answers as a whole.
ALTER TABLE runs ADD COLUMN review INTEGER;
CREATE INDEX runs_review ON runs (conversation_id, review) WHERE review IS NOT NULL;
