-- The access keys but the root key, which comes from the environment: they live here alone. A revoked key's row is gone.

CREATE TABLE access_keys (
  id TEXT NOT NULL PRIMARY KEY,
  -- base64: a nonce of 12 bytes, then the secret under AES-256-GCM with the id as additional data
  sealed_secret TEXT NOT NULL,
  level TEXT NOT NULL,
  -- JSON: the names of the repos that it is for; null: all
  repos TEXT,
  description TEXT NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
