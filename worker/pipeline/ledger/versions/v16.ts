/** Who submitted each version of the specification, and the text that it was read from. Never edited. */
export const SCHEMA_V16 = `
  -- Beside each row of revisions. A version that an earlier release wrote has none.
  CREATE TABLE submissions (
    revision INTEGER PRIMARY KEY,
    -- of the pipeline: an earlier release, which does not know the table, leaves the rows of one that it deletes
    uid TEXT NOT NULL,
    -- the id of the key; null: it is not known
    by_key TEXT,
    -- null: none was sent
    text TEXT
  );

  -- Branches that versions read which are kept no more: the pipeline may still be subscribed to them.
  CREATE TABLE former_sources (
    uid TEXT NOT NULL,
    repo TEXT NOT NULL,
    branch TEXT NOT NULL,
    PRIMARY KEY (uid, repo, branch)
  ) WITHOUT ROWID;
`;
