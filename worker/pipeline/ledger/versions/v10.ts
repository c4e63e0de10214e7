/** Bad datums, the branch that tells of them, and jobs that were tried again. Never edited. */
export const SCHEMA_V10 = `
  -- tries that failed through no fault of the datum
  ALTER TABLE attempts ADD COLUMN troubles INTEGER NOT NULL DEFAULT 0;
  -- 1: it failed by its own fault alone
  ALTER TABLE attempts ADD COLUMN is_bad INTEGER NOT NULL DEFAULT 0;
  -- of the failed ones, how many failed by their own fault alone
  ALTER TABLE jobs ADD COLUMN bad INTEGER NOT NULL DEFAULT 0;
  -- the job's commit to the errors branch
  ALTER TABLE jobs ADD COLUMN errors_commit TEXT;

  -- The datums that the output lacks, as they were bad in the last job that told of them.
  CREATE TABLE bad_datums (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    -- a hash of what its file in the errors branch says of the failure; null: it has no file yet
    told TEXT
  ) WITHOUT ROWID;

  -- What the oldest job changes of that: the file of a datum is written, or it goes.
  CREATE TABLE error_changes (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    gone INTEGER NOT NULL
  ) WITHOUT ROWID;

  -- The claim on the errors branch, one row. A row of another uid is of an earlier pipeline of the name.
  CREATE TABLE errors_claim (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    uid TEXT NOT NULL,
    -- null: the branch is about to be claimed
    epoch INTEGER,
    -- 0: claimed for a specification that is not accepted yet
    settled INTEGER NOT NULL
  );

  -- The last job that was made to try another one again, one row.
  CREATE TABLE last_retry (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- the job that was asked for, and whether every datum runs again
    asked TEXT NOT NULL,
    every INTEGER NOT NULL,
    -- the number of the job that was made
    made INTEGER NOT NULL
  );
`;
