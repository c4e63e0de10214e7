-- What a node said of itself at its last heartbeat, for people alone: its release, its disk, its cache (JSON); null: nothing.
ALTER TABLE nodes ADD COLUMN about TEXT;
