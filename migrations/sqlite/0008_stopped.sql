-- Somebody asked to stop after a delivery had arrived and before it was handled.
ALTER TABLE inbox ADD COLUMN stopped INTEGER NOT NULL DEFAULT 0;
