-- Tries since a delivery last arrived; `attempts` names its claims and only grows.
ALTER TABLE inbox ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
