-- The environment that a piece of work had last.
CREATE INDEX environments_work ON isolation_environments (codebase_id, workflow_type, workflow_id, id);
