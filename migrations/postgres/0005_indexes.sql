-- Indexes for what is asked all the time: none of them makes anybody read the history.
CREATE INDEX runs_queued ON runs (id) WHERE state = 'queued';
CREATE INDEX runs_live_codebase ON runs (codebase_id) WHERE state IN ('preparing', 'running', 'delivering');
CREATE INDEX runs_asked ON runs (conversation_id, created_at);
-- While these were there, they were taken instead of shorter ones.
DROP INDEX runs_codebase;
DROP INDEX runs_conversation;
