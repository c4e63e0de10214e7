/** Versions of the specification, jobs that end before their time, and what makes trimming cheap. Never edited. */
export const SCHEMA_V2 = `
  -- More states: stopping, stopped, starting, updating.
  -- which version of the specification holds; results of one salt are good for all versions that share it
  ALTER TABLE pipeline ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
  -- the version that the catalogue has
  ALTER TABLE pipeline ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
  -- whether the present inputs have had their first job
  ALTER TABLE pipeline ADD COLUMN begun INTEGER NOT NULL DEFAULT 0;
  -- jobs were ended by a stop, so that a start makes one for what they would have done
  ALTER TABLE pipeline ADD COLUMN owed INTEGER NOT NULL DEFAULT 0;
  -- the version that is to be the present one once the jobs of the version before have ended
  ALTER TABLE pipeline ADD COLUMN wish INTEGER;
  -- once this job is committed, nothing needs the results of other salts; null where there are none
  ALTER TABLE pipeline ADD COLUMN stale_before INTEGER;
  UPDATE pipeline SET told = version, begun = EXISTS (SELECT 1 FROM jobs);

  -- Every version of the specification that ever was; a row of its own, as a specification may be half as large as a row.
  CREATE TABLE revisions (
    revision INTEGER PRIMARY KEY,
    spec TEXT NOT NULL,
    salt TEXT NOT NULL,
    created_at INTEGER NOT NULL
  );
  INSERT INTO revisions (revision, spec, salt, created_at) SELECT 1, spec, salt, created_at FROM pipeline;

  -- As before, with the version of the specification in what makes a job unique: its sources are numbered anew.
  ALTER TABLE jobs RENAME TO jobs_before;
  DROP INDEX jobs_unfinished;
  DROP INDEX jobs_starting;
  DROP INDEX jobs_unflushed;
  CREATE TABLE jobs (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    -- starting, running; success, failure, killed
    state TEXT NOT NULL,
    reason TEXT,
    revision INTEGER NOT NULL,
    -- the event that made it; source -1 is the creation, start or update of the pipeline
    source INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    -- JSON: the position of each source that this job reads
    positions TEXT NOT NULL,
    -- JSON: what is left to fill in
    fill TEXT NOT NULL,
    -- its datums are known; a killed job is filled too, as the later ones build upon it
    filled INTEGER NOT NULL,
    -- as the front: which failed datums of the jobs before were taken over
    carried INTEGER NOT NULL,
    -- since when it is its turn: its datums are known and every earlier job has ended
    turn_at INTEGER,
    -- its output commit may have been made: it can only end by that
    committing INTEGER NOT NULL,
    -- it ended with attempts that are yet to be called off
    reaping INTEGER NOT NULL,
    total INTEGER NOT NULL,
    processed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    -- attempts of this job that are not settled
    open INTEGER NOT NULL,
    output_commit TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    version INTEGER NOT NULL,
    -- the version that the catalogue has
    flushed INTEGER NOT NULL,
    UNIQUE (revision, source, generation, seq)
  );
  INSERT INTO jobs (n, id, state, reason, revision, source, generation, seq, positions, fill, filled, carried, turn_at,
    committing, reaping, total, processed, skipped, failed, open, output_commit, created_at, started_at, finished_at,
    version, flushed)
  SELECT n, id, state, reason, 1, source, generation, seq, positions, fill, state <> 'starting', carried, started_at,
    0, 0, total, processed, skipped, failed, open, output_commit, created_at, started_at, finished_at, version, flushed
  FROM jobs_before;
  DROP TABLE jobs_before;
  CREATE INDEX jobs_unfinished ON jobs (n) WHERE finished_at IS NULL;
  CREATE INDEX jobs_unfilled ON jobs (n) WHERE filled = 0;
  CREATE INDEX jobs_reaping ON jobs (n) WHERE reaping = 1;
  CREATE INDEX jobs_unflushed ON jobs (n) WHERE flushed < version;

  CREATE INDEX elements_by_died ON elements (died) WHERE died IS NOT NULL;

  -- whose result counts for the datum
  ALTER TABLE datums ADD COLUMN salt TEXT NOT NULL DEFAULT '';
  ALTER TABLE published ADD COLUMN salt TEXT NOT NULL DEFAULT '';
  UPDATE datums SET salt = (SELECT salt FROM pipeline);
  UPDATE published SET salt = (SELECT salt FROM pipeline);

  -- One more state: killed, when the job ended before the datum was settled. The last fault stays while it is tried again.
  ALTER TABLE attempts ADD COLUMN node TEXT;
  CREATE INDEX attempts_killed ON attempts (job, key) WHERE state = 'killed';
`;
