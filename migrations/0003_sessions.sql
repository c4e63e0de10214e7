-- Sessions of the console: each acts as the access key that it was made with, for some hours. No secret is here: that of a
-- session follows from its id and the secret of its key (worker/keys/sessions.ts). The order of the rows is that in which they were made.
CREATE TABLE sessions (
  id TEXT NOT NULL UNIQUE,
  -- the id of the access key, which may be one of the environment
  key TEXT NOT NULL,
  createdAt INTEGER NOT NULL,
  expiresAt INTEGER NOT NULL
);
CREATE INDEX sessions_by_key ON sessions (key);
CREATE INDEX sessions_by_expiry ON sessions (expiresAt);
