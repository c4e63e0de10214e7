/** The end of a job in steps: its output commit path by path, merges and pushes as leased tasks. Never edited. */
export const SCHEMA_V4 = `
  -- What each datum wrote to each path of the output branch, as of the last committed job. By key, as what several
  -- datums wrote to one path is put together in that order.
  ALTER TABLE published RENAME TO published_before;
  CREATE TABLE published (
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    salt TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (path, key)
  ) WITHOUT ROWID;
  INSERT OR REPLACE INTO published (path, key, id, salt, digest, size)
  SELECT p.path, (SELECT key FROM datums WHERE id = p.id ORDER BY born DESC LIMIT 1), p.id, p.salt, o.digest, o.size
  FROM published_before AS p JOIN outputs AS o ON o.id = p.id AND o.salt = p.salt AND o.path = p.path
  WHERE EXISTS (SELECT 1 FROM datums WHERE id = p.id);
  DROP TABLE published_before;
  CREATE INDEX published_by_key ON published (key, path);

  -- How far the end of the front has come: one row, of the job that last began to end.
  CREATE TABLE ending (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    job INTEGER NOT NULL,
    -- JSON
    step TEXT NOT NULL
  );
  -- What the output commit of that job changes of published; id null: the datum writes there no more.
  CREATE TABLE changed (
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    id TEXT,
    salt TEXT,
    digest TEXT,
    size INTEGER,
    PRIMARY KEY (path, key)
  ) WITHOUT ROWID;
  -- What that commit does to each path of changed: put, delete, same (nothing), waits (for a merge).
  CREATE TABLE operations (
    path TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    digest TEXT,
    size INTEGER,
    -- the merge that the content comes from
    merge TEXT
  ) WITHOUT ROWID;
  CREATE INDEX operations_waiting ON operations (path) WHERE state = 'waits';

  -- Contents that were put together. The id is a hash of the parts in their order.
  CREATE TABLE merges (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    -- the upload in the output branch that keeps the content
    upload TEXT,
    -- the last job whose output it is part of; -1 while it is being removed
    used INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX merges_by_used ON merges (used);
  CREATE INDEX merges_by_upload ON merges (upload) WHERE upload IS NOT NULL;

  -- What runners are to do for the front beside its datums. A task that is done has no row.
  CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    -- merge, egress
    kind TEXT NOT NULL,
    job INTEGER NOT NULL,
    -- queued, running
    state TEXT NOT NULL,
    -- for people: what is merged
    path TEXT,
    -- JSON: the contents that are merged
    parts TEXT,
    tries INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    worker TEXT,
    lease TEXT,
    lease_until INTEGER,
    -- of the last try that failed
    reason TEXT
  ) WITHOUT ROWID;
  CREATE INDEX tasks_by_job ON tasks (job, state, id);
  CREATE UNIQUE INDEX tasks_by_lease ON tasks (lease) WHERE lease IS NOT NULL;
  CREATE INDEX tasks_by_expiry ON tasks (lease_until) WHERE lease_until IS NOT NULL;

  -- What the external store lacks: a file to be put there, or to be removed where there is no digest.
  CREATE TABLE egress_pending (
    path TEXT PRIMARY KEY,
    digest TEXT,
    size INTEGER,
    -- the task that pushes it
    task TEXT
  ) WITHOUT ROWID;
  CREATE INDEX egress_by_task ON egress_pending (task, path);
  -- One row while what is pending is of no use, as results go elsewhere by now: the next job begins anew.
  CREATE TABLE egress_moved (one INTEGER PRIMARY KEY CHECK (one = 1));

  -- which lease call took the slot last
  ALTER TABLE slots ADD COLUMN visit TEXT;
`;
