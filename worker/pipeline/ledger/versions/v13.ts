/** What was erased of the branches that a pipeline reads and writes to. Never edited. */
export const SCHEMA_V13 = `
  -- Of a branch, by its bucket: the number of the last erasure that was heard of, and how many times something came that is
  -- to be done about it (of an input: a job is to be made; of the output: it is to be asked).
  CREATE TABLE erasures_heard (
    bucket TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    due INTEGER NOT NULL
  ) WITHOUT ROWID;
  -- Paths of a source that were erased behind the back of what is known of it: the next job compares them, if it reads the
  -- branch where nothing is there, which is before the commit died.
  CREATE TABLE erased_paths (
    source INTEGER NOT NULL,
    path TEXT NOT NULL,
    generation INTEGER NOT NULL,
    died INTEGER NOT NULL,
    PRIMARY KEY (source, path)
  ) WITHOUT ROWID;
  -- Contents that results have no more, which the output branch is to be told.
  CREATE TABLE erased_outputs (
    upload TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (upload, digest, size)
  ) WITHOUT ROWID;
`;
