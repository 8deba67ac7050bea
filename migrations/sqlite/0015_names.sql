-- What a person calls an environment, its work or its branch, is found however long the history is. The name comes first, so
-- that nobody goes through all of a codebase by these.
CREATE INDEX environments_work_name ON isolation_environments (lower(workflow_type || '-' || workflow_id), codebase_id);
CREATE INDEX environments_branch_name ON isolation_environments (lower(branch), codebase_id);
