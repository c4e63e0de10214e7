import { OUTBOX } from "../../objects/outbox-table.ts";

/**
 * The tables of a Pipeline object, a room after the other. `born`, `died` and `job` are numbers of its own jobs: something is
 * there at job n when `born <= n` and it has not died or `died > n`. Times are in milliseconds since 1970.
 */
const SCHEMA = `
  -- lifecycle: the pipeline and its versions

  -- The pipeline itself, one row. After a deletion it stays, as a tombstone that keeps the version growing.
  CREATE TABLE pipeline (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    -- creating, active, stopping, stopped, starting, updating, deleting, purging (deleted, rows still go), deleted
    state TEXT NOT NULL,
    createdAt INTEGER NOT NULL,
    -- of this row for the catalogue, and the last one the catalogue has
    version INTEGER NOT NULL,
    catalogueVersion INTEGER NOT NULL DEFAULT 0,
    -- which version of the specification holds; results of one salt are good for all versions that share it
    revision INTEGER NOT NULL DEFAULT 1,
    -- the version that is to be the present one once the jobs of the version before have ended
    nextRevision INTEGER,
    -- handed out by the output branch; null before the first claim
    epoch INTEGER,
    keepOutput INTEGER NOT NULL,
    -- an input may have news
    pullDue INTEGER NOT NULL,
    -- JSON: which input's clock keeps the events of the others waiting
    behind TEXT,
    -- datums alive after the newest fill
    alive INTEGER NOT NULL,
    -- the last job whose output is in the output branch; 0 for none
    committed INTEGER NOT NULL,
    -- the last job that began to take over what those before it left undone; 0 for none
    turn INTEGER NOT NULL DEFAULT 0,
    -- whether the present inputs have had their first job
    hadFirstJob INTEGER NOT NULL DEFAULT 0,
    -- jobs were ended by a stop, so that a start makes one for what they would have done
    wholeJobDue INTEGER NOT NULL DEFAULT 0,
    -- a job was given up with its datums half made: the next one reads its inputs whole
    nextReadsWhole INTEGER NOT NULL DEFAULT 0,
    -- once this job is committed, nothing needs the results of other salts; null if there are none
    staleUntil INTEGER,
    -- the catalogue has no job before this one
    unlisted INTEGER NOT NULL DEFAULT 0,
    -- how often the output branch said that it keeps less since it was last asked
    outputDue INTEGER NOT NULL DEFAULT 0,
    -- the last job with released = 1 that there was
    releasedTo INTEGER NOT NULL DEFAULT 0,
    -- what ended with this job or before is gone, unless a commit needs it
    freedTo INTEGER NOT NULL DEFAULT 0,
    -- the newest code when those were last looked for that nothing names
    codesSwept INTEGER NOT NULL DEFAULT 0
  );

  -- Versions of the specification; a row of its own, as a specification may be half as large as a row.
  CREATE TABLE revisions (
    revision INTEGER PRIMARY KEY,
    spec TEXT NOT NULL,
    -- results are valid for one salt
    salt TEXT NOT NULL,
    -- JSON: where each input's \`from\` stands, by name of the inputs; null: the whole branch belongs to it
    starts TEXT NOT NULL,
    -- 1: the key that submitted it was limited to repos
    limited INTEGER NOT NULL,
    createdAt INTEGER NOT NULL
  );
  -- Beside each row of revisions: who submitted it, and the text that it was read from.
  CREATE TABLE submissions (
    revision INTEGER PRIMARY KEY,
    -- the id of the key; null: it is not known
    key TEXT,
    -- null: none was sent
    text TEXT
  );
  -- Branches that versions read which are kept no more: the pipeline may still be subscribed to them.
  CREATE TABLE former_sources (
    repo TEXT NOT NULL,
    branch TEXT NOT NULL,
    PRIMARY KEY (repo, branch)
  ) WITHOUT ROWID;
  -- What the catalogue may know this pipeline to be about to read: to be taken back once that is settled.
  CREATE TABLE proposals (id TEXT PRIMARY KEY) WITHOUT ROWID;
  -- The claim on the errors branch, one row. A row of another uid is of an earlier pipeline of the name.
  CREATE TABLE errors_claim (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    uid TEXT NOT NULL,
    -- null: the branch is about to be claimed
    epoch INTEGER,
    -- 0: claimed for a specification that is not accepted yet
    settled INTEGER NOT NULL
  );

  -- inputs

  -- The distinct branches that the inputs read, and how far each was read.
  CREATE TABLE sources (
    source INTEGER PRIMARY KEY,
    repo TEXT NOT NULL,
    branch TEXT NOT NULL,
    subscribed INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    -- the commit at that position; null if the branch has none there
    "commit" TEXT,
    -- whether it held a file there; kept until the first job is made
    hasData INTEGER NOT NULL,
    -- JSON, by the uid of a pipeline: its version; null if a client made the commit
    lineage TEXT,
    -- JSON of the low-water mark that the branch acknowledged last; null: none
    acknowledged TEXT
  );

  -- Paths whose element may differ at a job: stage 0 to be compared, stage 1 to be born, stage 2 lists of files that are to be
  -- compared after those of stage 0: their path is the number of the list.
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
    -- of stage 2, JSON: [[path, digest, size], …]
    files TEXT,
    PRIMARY KEY (job, stage, input, path)
  ) WITHOUT ROWID;

  -- What each input's glob matches now.
  CREATE TABLE elements (
    input INTEGER NOT NULL,
    path TEXT NOT NULL,
    born INTEGER NOT NULL,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (input, path)
  ) WITHOUT ROWID;
  -- What it matched before.
  CREATE TABLE ended_elements (
    input INTEGER NOT NULL,
    path TEXT NOT NULL,
    born INTEGER NOT NULL,
    died INTEGER NOT NULL,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (input, path, born)
  ) WITHOUT ROWID;
  CREATE INDEX ended_elements_by_died ON ended_elements (died);
  -- How many elements each input has, those that are about to be born included.
  CREATE TABLE sizes (input INTEGER PRIMARY KEY, elements INTEGER NOT NULL);

  -- One alive element of each input: the cross product, kept.
  CREATE TABLE datums (
    key TEXT NOT NULL,
    born INTEGER NOT NULL,
    died INTEGER,
    id TEXT NOT NULL,
    -- whose result counts for the datum
    salt TEXT NOT NULL,
    PRIMARY KEY (key, born)
  ) WITHOUT ROWID;
  CREATE INDEX datums_by_id ON datums (id, born);
  CREATE INDEX datums_by_died ON datums (died, key) WHERE died IS NOT NULL;
  -- Which datums each job bore whose output is not committed yet: lists of their keys, as they came. Some may have died since.
  CREATE TABLE births (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    -- JSON
    keys TEXT NOT NULL,
    PRIMARY KEY (job, number)
  ) WITHOUT ROWID;

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
  -- One row: jobs up to this one may know of what was erased: attempts and what was printed. Once they keep nothing, the
  -- database is to be written anew.
  CREATE TABLE erased_jobs (one INTEGER PRIMARY KEY CHECK (one = 1), job INTEGER NOT NULL);
  -- One row while the database is to be written anew, since its free pages may have what was erased.
  CREATE TABLE rewrite (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- until then rows that are forgotten by themselves may still name it
    until INTEGER NOT NULL,
    -- 1: it was written anew since the last time that something went
    paid INTEGER NOT NULL
  );

  -- jobs

  CREATE TABLE jobs (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    -- starting, running; success, failure, killed
    state TEXT NOT NULL,
    reason TEXT,
    -- of the specification that it was made for
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
    tookOver INTEGER NOT NULL,
    -- since when it is its turn: its datums are known and every earlier job has ended
    turnAt INTEGER,
    -- its output commit may have been made: it can only end by that; and since when
    committing INTEGER NOT NULL,
    committingAt INTEGER,
    -- it ended with attempts that are yet to be called off
    reaping INTEGER NOT NULL,
    total INTEGER NOT NULL,
    processed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    -- of the failed ones, how many failed by their own fault alone
    bad INTEGER NOT NULL DEFAULT 0,
    -- attempts of this job that are not settled
    open INTEGER NOT NULL,
    outputCommit TEXT,
    -- the job's commit to the errors branch
    errorsCommit TEXT,
    -- 1: the output branch keeps its commit no more
    released INTEGER NOT NULL DEFAULT 0,
    createdAt INTEGER NOT NULL,
    startedAt INTEGER,
    finishedAt INTEGER,
    version INTEGER NOT NULL,
    -- the version that the catalogue has
    flushed INTEGER NOT NULL,
    UNIQUE (revision, source, generation, seq)
  );
  CREATE INDEX jobs_unfinished ON jobs (n) WHERE finishedAt IS NULL;
  CREATE INDEX jobs_unfilled ON jobs (n) WHERE filled = 0;
  CREATE INDEX jobs_reaping ON jobs (n) WHERE reaping = 1;
  CREATE INDEX jobs_unflushed ON jobs (n) WHERE flushed < version;
  CREATE INDEX jobs_kept ON jobs (n) WHERE outputCommit IS NOT NULL AND released = 0;
  CREATE INDEX jobs_spare ON jobs (n) WHERE outputCommit IS NULL OR released = 1;

  -- The last job that was made to try another one again, one row.
  CREATE TABLE last_retry (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- the job that was asked for, and whether every datum runs again
    asked TEXT NOT NULL,
    every INTEGER NOT NULL,
    -- the number of the job that was made
    made INTEGER NOT NULL
  );

  -- attempts

  -- What a job runs: its births without a result, and what it took over. finishedAt is null until it is settled.
  CREATE TABLE attempts (
    job INTEGER NOT NULL,
    id TEXT NOT NULL,
    key TEXT NOT NULL,
    -- queued, waiting (the same id runs elsewhere), running; success, skipped, failed; killed, when the job ended before the
    -- datum was settled
    state TEXT NOT NULL,
    tries INTEGER NOT NULL,
    -- tries that failed through no fault of the datum
    troubles INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL,
    node TEXT,
    worker TEXT,
    -- names job and id, too
    lease TEXT,
    leaseUntil INTEGER,
    -- of lease_calls: which one leased it last
    call INTEGER,
    -- The last fault stays while it is tried again.
    exitCode INTEGER,
    reason TEXT,
    log TEXT,
    -- 1: it failed by its own fault alone
    isBad INTEGER NOT NULL DEFAULT 0,
    finishedAt INTEGER,
    PRIMARY KEY (job, id)
  ) WITHOUT ROWID;
  CREATE INDEX attempts_failed ON attempts (job, key) WHERE state = 'failed';
  CREATE INDEX attempts_killed ON attempts (job, key) WHERE state = 'killed';
  -- Which attempts of each job were queued, until none of a list is queued any more. One that was queued twice is on two lists.
  CREATE TABLE queue (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    -- JSON: their ids
    ids TEXT NOT NULL,
    PRIMARY KEY (job, number)
  ) WITHOUT ROWID;
  -- What each lease call leased, until none of it is leased any more.
  CREATE TABLE lease_calls (
    call INTEGER PRIMARY KEY,
    worker TEXT NOT NULL,
    -- none of these leases runs out before; they may have been renewed since
    due INTEGER NOT NULL,
    -- JSON: [[job, id], …]
    attempts TEXT NOT NULL
  );
  CREATE INDEX lease_calls_by_due ON lease_calls (due);
  -- Leases that ended without a result. The output branch is yet to be told of them: what was uploaded under them is nobody's.
  CREATE TABLE lost_leases (lease TEXT PRIMARY KEY) WITHOUT ROWID;

  -- Successes; they survive the datum.
  CREATE TABLE results (
    id TEXT NOT NULL,
    salt TEXT NOT NULL,
    job INTEGER NOT NULL,
    exitCode INTEGER NOT NULL,
    millis INTEGER NOT NULL,
    -- the number of what ran it
    code INTEGER NOT NULL,
    -- the upload in the output branch that keeps the contents of the outputs
    upload TEXT,
    finishedAt INTEGER NOT NULL,
    -- the first job without any datum that has the result; null: a datum has it
    died INTEGER,
    -- one of its outputs; null: it has none, or that was erased
    path TEXT,
    digest TEXT,
    size INTEGER,
    PRIMARY KEY (id, salt)
  ) WITHOUT ROWID;
  CREATE INDEX results_by_end ON results (died) WHERE died IS NOT NULL;
  -- Which results came by an upload: lists, one for each call that reported some. Results that are named may have another upload
  -- by now, or be gone.
  CREATE TABLE result_uploads (
    upload TEXT NOT NULL,
    number INTEGER NOT NULL,
    -- JSON: [[id, salt], …]
    results TEXT NOT NULL,
    PRIMARY KEY (upload, number)
  ) WITHOUT ROWID;
  -- The other outputs of results.
  CREATE TABLE outputs (
    id TEXT NOT NULL,
    salt TEXT NOT NULL,
    path TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (id, salt, path)
  ) WITHOUT ROWID;
  -- What ran datums. A result refers to it by number: many results were made by few.
  CREATE TABLE codes (
    number INTEGER PRIMARY KEY,
    -- of the specification
    version INTEGER NOT NULL,
    -- '': it is not known
    node TEXT NOT NULL,
    executor TEXT NOT NULL,
    -- '': it ran as a process, which ignores the image
    image TEXT NOT NULL
  );
  CREATE UNIQUE INDEX codes_by_content ON codes (version, node, executor, image);
  -- Uploads in the output branch of which a result or a merge went that named them, and how often: what nothing else names
  -- there is yet to be let go of.
  CREATE TABLE given_up (upload TEXT PRIMARY KEY, marks INTEGER NOT NULL) WITHOUT ROWID;

  CREATE TABLE slots (
    worker TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    -- which lease call took the slot last
    visit TEXT,
    -- why the worker can't run commands just now
    trouble TEXT
  ) WITHOUT ROWID;
  CREATE INDEX slots_by_age ON slots (since, worker);

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
    leaseUntil INTEGER,
    -- of the last try that failed
    reason TEXT
  ) WITHOUT ROWID;
  CREATE INDEX tasks_by_job ON tasks (job, state, id);
  CREATE UNIQUE INDEX tasks_by_lease ON tasks (lease) WHERE lease IS NOT NULL;
  CREATE INDEX tasks_by_expiry ON tasks (leaseUntil) WHERE leaseUntil IS NOT NULL;

  -- output: the end of a job, its output commit path by path, merges, pushes and bad datums

  -- How far the end of the front has come: one row, of the job that last began to end.
  CREATE TABLE ending (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    job INTEGER NOT NULL,
    -- JSON
    step TEXT NOT NULL
  );
  -- What each datum wrote to each path of the output branch, as of the last committed job. By key, as what several
  -- datums wrote to one path is put together in that order.
  CREATE TABLE published (
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    salt TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    -- the job from which on the path came from this datum; null: an erasure put there what is there
    born INTEGER,
    -- of the result then; the result itself may be gone
    code INTEGER,
    PRIMARY KEY (path, key)
  ) WITHOUT ROWID;
  CREATE INDEX published_by_key ON published (key, path);
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
  -- What that commit does to a path of changed: put, delete, same (nothing), waits (for a merge). Without a row it puts what
  -- the only datum writes that has a row of changed.
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

  -- Which datum each path of the output branch came from and does no more, by births and deaths: with it, published as of any
  -- committed job.
  CREATE TABLE made (
    path TEXT NOT NULL,
    born INTEGER NOT NULL,
    -- of the datum, which may be gone
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    salt TEXT NOT NULL,
    died INTEGER NOT NULL,
    -- as in published
    code INTEGER,
    PRIMARY KEY (path, born, key)
  ) WITHOUT ROWID;
  CREATE INDEX made_by_died ON made (path, died);
  CREATE INDEX made_by_end ON made (died);

  -- What the external store lacks: a file to be put there, or to be removed if there is no digest.
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

  -- The datums that the output lacks, as they were bad in the last job that told of them.
  CREATE TABLE bad_datums (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    -- a hash of what its file in the errors branch says of the failure; null: it has no file yet
    fileHash TEXT
  ) WITHOUT ROWID;
  -- What the oldest job changes of that: the file of a datum is written, or it goes.
  CREATE TABLE error_changes (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    gone INTEGER NOT NULL
  ) WITHOUT ROWID;

  -- logs

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
    -- JSON: [[milliseconds after at, line, 1 for stdout or 2 for stderr if it is known], …]
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
${OUTBOX}`;

const LOG_STREAMS = `
  -- How many of a chunk's lines came on stderr; null: it is not known.
  ALTER TABLE log_chunks ADD stderr INTEGER;
`;

const TASK_NODES = `
  -- The node that has the lease; null: it is not known.
  ALTER TABLE tasks ADD node TEXT;
`;

/** Append only: an entry is never edited once it was released. */
export const MIGRATIONS: readonly string[] = [SCHEMA, LOG_STREAMS, TASK_NODES];
