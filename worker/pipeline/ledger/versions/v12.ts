/** What is given back: uploads that no result names, and what no kept commit needs. Never edited. */
export const SCHEMA_V12 = `
  -- Uploads in the output branch of which a result or a merge went that named them, and how often: what nothing else names
  -- there is yet to be let go of.
  CREATE TABLE given_up (upload TEXT PRIMARY KEY, marks INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX results_by_upload ON results (upload) WHERE upload IS NOT NULL;

  -- 1: the output branch keeps its commit no more
  ALTER TABLE jobs ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX jobs_kept ON jobs (n) WHERE output_commit IS NOT NULL AND released = 0;
  CREATE INDEX jobs_spare ON jobs (n) WHERE output_commit IS NULL OR released = 1;
  -- the first job without any datum that has the result; null: a datum has it, or nobody wrote it down
  ALTER TABLE results ADD COLUMN lived_until INTEGER;
  CREATE INDEX results_by_end ON results (lived_until) WHERE lived_until IS NOT NULL;
  CREATE INDEX made_by_end ON made (died) WHERE died IS NOT NULL;

  -- the catalogue has no job before this one
  ALTER TABLE pipeline ADD COLUMN unlisted INTEGER NOT NULL DEFAULT 0;
  -- how often the output branch said that it keeps less since it was last asked
  ALTER TABLE pipeline ADD COLUMN output_due INTEGER NOT NULL DEFAULT 0;
  -- the last job with released = 1 that there was
  ALTER TABLE pipeline ADD COLUMN released_to INTEGER NOT NULL DEFAULT 0;
  -- what ended with this job or before is gone, unless a commit needs it
  ALTER TABLE pipeline ADD COLUMN freed_to INTEGER NOT NULL DEFAULT 0;
  -- lived_until is right if this is committed; a release that does not know it leaves this behind
  ALTER TABLE pipeline ADD COLUMN ends_known INTEGER NOT NULL DEFAULT 0;
  -- the newest code when those were last looked for that nothing names
  ALTER TABLE pipeline ADD COLUMN codes_swept INTEGER NOT NULL DEFAULT 0;
`;
