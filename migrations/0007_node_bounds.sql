-- What a node has room for: commands at once, and workers. NULL: its runner is of a version that has no bounds.
ALTER TABLE nodes ADD COLUMN max_running INTEGER;
ALTER TABLE nodes ADD COLUMN max_workers INTEGER;
