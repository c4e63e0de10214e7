-- The last day on which a key was used, of UTC: '2026-01-31'. Null: it was not used since this is written down.

ALTER TABLE access_keys ADD COLUMN last_used_on TEXT;
