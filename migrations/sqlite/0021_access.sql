-- What GitHub lets the App do in a repository: 'reached', 'archived' (nothing can be written), or why not, and since when. Of those that
-- were lost before, nobody knows why.
ALTER TABLE codebases ADD COLUMN access TEXT NOT NULL DEFAULT 'reached';
ALTER TABLE codebases ADD COLUMN access_since TEXT;
UPDATE codebases SET access = 'lost', access_since = updated_at WHERE NOT connected;
