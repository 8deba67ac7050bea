-- How far the bot goes in a repository: 'on', 'staged' (it only says what it would do) or 'off'. What is known by now goes on as it is.
ALTER TABLE codebases ADD COLUMN mode TEXT NOT NULL DEFAULT 'on';
