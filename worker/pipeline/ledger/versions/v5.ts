/** What datums printed, kept with their jobs, and why workers can't work. Never edited. */
export const SCHEMA_V5 = `
  -- What datums printed, in the order in which it came.
  CREATE TABLE log_chunks (
    -- never used twice in the life of a pipeline: a reader goes on after one
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    datum TEXT NOT NULL,
    -- where it ran
    node TEXT,
    -- when its first line was printed
    at INTEGER NOT NULL,
    -- lines that the runner left out before these
    dropped INTEGER NOT NULL,
    count INTEGER NOT NULL,
    -- of the row, about
    bytes INTEGER NOT NULL,
    -- JSON: [[milliseconds after at, line], …]
    lines TEXT NOT NULL
  );
  CREATE INDEX log_chunks_by_job ON log_chunks (job, seq);
  CREATE INDEX log_chunks_by_datum ON log_chunks (job, datum, seq);

  -- Of each datum that printed anything in a job, all its tries together.
  CREATE TABLE log_datums (
    job INTEGER NOT NULL,
    datum TEXT NOT NULL,
    -- of its chunks
    bytes INTEGER NOT NULL,
    -- lines that are kept no more
    gone INTEGER NOT NULL,
    -- of the last entry that was taken: its lease, its number there, and when its last line was printed
    lease TEXT NOT NULL,
    entry INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (job, datum)
  ) WITHOUT ROWID;

  -- Of all chunks: their bytes, and the next number. One row once there is anything.
  CREATE TABLE log_store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    bytes INTEGER NOT NULL,
    next INTEGER NOT NULL
  );

  -- why the worker can't run commands just now
  ALTER TABLE slots ADD COLUMN trouble TEXT;
`;
