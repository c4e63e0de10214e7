/** The tables as they first were. Never edited: objects hold them. */
export const SCHEMA_V1 = `
  -- The pipeline itself, one row. After a deletion it stays, as a tombstone that keeps the version growing.
  CREATE TABLE pipeline (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    -- creating, active, deleting, purging (deleted, rows still go), deleted
    state TEXT NOT NULL,
    spec TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- of this row for the catalogue, and the last one the catalogue has
    version INTEGER NOT NULL,
    -- results are valid for one salt
    salt TEXT NOT NULL,
    -- handed out by the output branch; null before the first claim
    epoch INTEGER,
    keep_output INTEGER NOT NULL,
    -- an input may have news
    pull_due INTEGER NOT NULL,
    -- datums alive after the newest fill
    alive INTEGER NOT NULL,
    -- the last job whose output is in the output branch; 0 for none
    committed INTEGER NOT NULL
  );

  -- The distinct branches that the inputs read, and how far each was read.
  CREATE TABLE sources (
    source INTEGER PRIMARY KEY,
    repo TEXT NOT NULL,
    branch TEXT NOT NULL,
    subscribed INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    -- the commit at that position; null where the branch has none there
    commit_id TEXT,
    -- whether it held a file there; kept until the first job is made
    has_data INTEGER NOT NULL
  );

  CREATE TABLE jobs (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    reason TEXT,
    -- the event that made it; source -1 is the creation of the pipeline
    source INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    -- JSON: the position of each source that this job reads
    positions TEXT NOT NULL,
    -- JSON: what is left to fill in
    fill TEXT NOT NULL,
    -- as the front: which failed datums of the job before were taken over
    carried INTEGER NOT NULL,
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
    UNIQUE (source, generation, seq)
  );
  CREATE INDEX jobs_unfinished ON jobs (n) WHERE finished_at IS NULL;
  CREATE INDEX jobs_starting ON jobs (n) WHERE state = 'starting';
  CREATE INDEX jobs_unflushed ON jobs (n) WHERE flushed < version;

  -- Paths whose element may differ at a job: stage 0 to be compared, stage 1 to be born.
  CREATE TABLE touched (
    job INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    input INTEGER NOT NULL,
    path TEXT NOT NULL,
    -- the file there now, if any (stage 0); the element to be born (stage 1)
    kind TEXT,
    digest TEXT,
    size INTEGER,
    -- something under this directory changed
    directory INTEGER NOT NULL,
    PRIMARY KEY (job, stage, input, path)
  ) WITHOUT ROWID;

  -- What each input's glob matches.
  CREATE TABLE elements (
    input INTEGER NOT NULL,
    path TEXT NOT NULL,
    born INTEGER NOT NULL,
    died INTEGER,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (input, path, born)
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX elements_alive ON elements (input, path) WHERE died IS NULL;

  -- One alive element of each input: the cross product, kept.
  CREATE TABLE datums (
    key TEXT NOT NULL,
    born INTEGER NOT NULL,
    died INTEGER,
    id TEXT NOT NULL,
    PRIMARY KEY (key, born)
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX datums_alive ON datums (key) WHERE died IS NULL;
  CREATE INDEX datums_by_id ON datums (id, born);
  CREATE INDEX datums_by_born ON datums (born, key);
  CREATE INDEX datums_by_died ON datums (died, key) WHERE died IS NOT NULL;

  -- What a job runs: its births without a result, and what it took over. finished_at is null until it is settled.
  CREATE TABLE attempts (
    job INTEGER NOT NULL,
    id TEXT NOT NULL,
    key TEXT NOT NULL,
    -- queued, waiting (the same id runs elsewhere), running; success, skipped, failed
    state TEXT NOT NULL,
    tries INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    worker TEXT,
    lease TEXT,
    lease_until INTEGER,
    exit_code INTEGER,
    reason TEXT,
    log TEXT,
    finished_at INTEGER,
    PRIMARY KEY (job, id)
  ) WITHOUT ROWID;
  CREATE INDEX attempts_queued ON attempts (job, key) WHERE state = 'queued';
  CREATE UNIQUE INDEX attempts_by_lease ON attempts (lease) WHERE lease IS NOT NULL;
  CREATE INDEX attempts_by_expiry ON attempts (lease_until) WHERE lease_until IS NOT NULL;
  CREATE INDEX attempts_unsettled ON attempts (id, job) WHERE finished_at IS NULL;
  CREATE INDEX attempts_failed ON attempts (job, key) WHERE state = 'failed';

  -- Successes; they survive the datum.
  CREATE TABLE results (
    id TEXT NOT NULL,
    salt TEXT NOT NULL,
    job INTEGER NOT NULL,
    exit_code INTEGER NOT NULL,
    millis INTEGER NOT NULL,
    -- the upload in the output branch that keeps the contents of the outputs
    upload TEXT,
    finished_at INTEGER NOT NULL,
    PRIMARY KEY (id, salt)
  ) WITHOUT ROWID;
  CREATE TABLE outputs (
    id TEXT NOT NULL,
    salt TEXT NOT NULL,
    path TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (id, salt, path)
  ) WITHOUT ROWID;
  -- Which datum each path of the output branch came from, as of the last committed job.
  CREATE TABLE published (
    path TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (path, id)
  ) WITHOUT ROWID;

  CREATE TABLE slots (
    worker TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX slots_by_age ON slots (since, worker);

  CREATE TABLE timers (kind TEXT PRIMARY KEY, due INTEGER NOT NULL) WITHOUT ROWID;
`;
