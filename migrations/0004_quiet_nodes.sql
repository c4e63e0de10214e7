-- A node that said at its last heartbeat that it is quiet counts as alive until then; null: it does only as long as it beats.
ALTER TABLE nodes ADD COLUMN quietUntil INTEGER;
