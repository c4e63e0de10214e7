-- When a key expires; milliseconds since 1970. Null: never, as keys from before this.

ALTER TABLE access_keys ADD COLUMN expires_at INTEGER;
