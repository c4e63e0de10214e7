/** The third form of the tables: open commits, and commits that are written in slices. */
export const SESSIONS = `
  -- Open commits, and the outputs of jobs that come in pieces.
  CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    gen INTEGER NOT NULL,
    -- 0 open, 1 being checked or applied, 2 finished, 3 ended: what it staged goes in slices
    state INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    -- how long it stays open since something was staged; milliseconds
    ttl INTEGER NOT NULL,
    -- when it ends or, finished, is forgotten; null where neither comes with time
    due INTEGER,
    -- rows of staged
    operations INTEGER NOT NULL,
    -- the job whose output it is
    origin TEXT,
    -- JSON of why it could not be applied, for whoever asks next
    refusal TEXT,
    -- what finishing it answers
    commit_id TEXT,
    modified_at INTEGER
  );
  CREATE INDEX sessions_by_due ON sessions (due) WHERE due IS NOT NULL;
  CREATE INDEX sessions_by_gen ON sessions (gen);
  CREATE UNIQUE INDEX sessions_by_origin ON sessions (gen, origin) WHERE origin IS NOT NULL;

  -- The last operation on each path of a session. A put of a file is one of the refs of its content.
  CREATE TABLE staged (
    session INTEGER NOT NULL,
    -- 0 put, 1 delete; a path has only one of them
    gone INTEGER NOT NULL,
    path TEXT NOT NULL,
    -- as in files; null where gone
    digest BLOB,
    size INTEGER,
    attributes TEXT,
    PRIMARY KEY (session, gone, path)
  ) WITHOUT ROWID;

  -- One row while a session becomes a commit in slices: nobody else makes a commit then.
  CREATE TABLE applying (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    session INTEGER NOT NULL,
    gen INTEGER NOT NULL,
    -- the commit that its rows are written for; null while it is checked, and then no row is written
    seq INTEGER,
    -- while it is checked: the last path that was, and how far the next one was looked below
    checked TEXT NOT NULL,
    below TEXT,
    -- rows of files that were born and that died so far
    births INTEGER NOT NULL,
    deaths INTEGER NOT NULL
  );

  -- The open commit that a multipart upload is for.
  ALTER TABLE multiparts ADD COLUMN session TEXT;
  DROP INDEX multiparts_by_path;
  CREATE UNIQUE INDEX multiparts_by_path ON multiparts (gen, session, path, upload);
  `;
