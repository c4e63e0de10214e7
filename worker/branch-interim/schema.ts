/**
 * The tables of a Branch object (design §3). Append only: an entry is never edited once it was released; a new one
 * takes the object from where the last one left it.
 */
const MIGRATIONS: readonly string[] = [
  `
  -- One row per creation of the branch. Deleting it sets deleted_at; what it held stays for those who still read it.
  CREATE TABLE generations (
    gen INTEGER PRIMARY KEY,
    uid TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER,
    -- the deletion as an event of the feed: its place behind the last commit, and its id
    deleted_seq INTEGER,
    deletion_id TEXT
  );

  CREATE TABLE files (
    gen INTEGER NOT NULL,
    path TEXT NOT NULL,
    born INTEGER NOT NULL,
    died INTEGER,
    -- 0 a file, 1 an empty directory, whose path ends in a slash
    kind INTEGER NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    attributes TEXT NOT NULL,
    PRIMARY KEY (gen, path, born)
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX files_head ON files (gen, path) WHERE died IS NULL;
  CREATE INDEX files_by_born ON files (gen, born, path);
  CREATE INDEX files_by_died ON files (gen, died, path) WHERE died IS NOT NULL;

  CREATE TABLE contents (
    gen INTEGER NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    -- inline: the bytes; else JSON of where they are
    bytes BLOB,
    body TEXT,
    -- rows of files that are this content
    refs INTEGER NOT NULL,
    PRIMARY KEY (digest, size, gen)
  );
  CREATE TABLE blobs (
    name TEXT PRIMARY KEY,
    gen INTEGER NOT NULL,
    -- contents that refer to it
    refs INTEGER NOT NULL
  ) WITHOUT ROWID;
  -- Blobs that nothing names any more, and when they may go.
  CREATE TABLE condemned (
    blob TEXT PRIMARY KEY,
    due INTEGER NOT NULL
  ) WITHOUT ROWID;

  CREATE TABLE commits (
    gen INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL UNIQUE,
    parent TEXT,
    created_at INTEGER NOT NULL,
    -- births and deaths in this generation up to and with this commit
    changes INTEGER NOT NULL,
    -- the job that made it
    origin TEXT UNIQUE,
    PRIMARY KEY (gen, seq)
  ) WITHOUT ROWID;

  CREATE TABLE uploads (
    id TEXT PRIMARY KEY,
    gen INTEGER NOT NULL,
    lease TEXT UNIQUE,
    opened_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
  ) WITHOUT ROWID;
  -- Contents that an open upload keeps, whether or not a file is that content yet.
  CREATE TABLE holds (
    upload TEXT NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (upload, digest, size)
  ) WITHOUT ROWID;

  CREATE TABLE subscribers (
    uid TEXT PRIMARY KEY,
    pipeline TEXT NOT NULL
  ) WITHOUT ROWID;
  -- The pipeline whose output this is; the row stays with an empty uid, so that epochs only grow.
  CREATE TABLE writer (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    uid TEXT NOT NULL,
    pipeline TEXT NOT NULL,
    epoch INTEGER NOT NULL
  );

  -- What others must hear: 'catalogue' (one row) or 'bell' (one per subscriber).
  CREATE TABLE outbox (
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    -- grows each time the row is written again, so that a delivery clears only what it delivered
    version INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (kind, target)
  ) WITHOUT ROWID;
  `,
];

/** Whether the object has tables at all. Reading this leaves no trace. */
export function hasTables(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'").toArray().length > 0;
}

/** Brings the tables up to date; to be called in a transaction. */
export function migrate(sql: SqlStorage): void {
  sql.exec("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)");
  const row = sql.exec<{ version: number }>("SELECT version FROM schema_version").toArray()[0];
  for (const migration of MIGRATIONS.slice(row?.version ?? 0)) sql.exec(migration);
  sql.exec("DELETE FROM schema_version");
  sql.exec("INSERT INTO schema_version (version) VALUES (?)", MIGRATIONS.length);
}
