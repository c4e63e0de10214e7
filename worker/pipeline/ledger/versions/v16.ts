/** Who submitted each version of the specification, and the text that it was read from. Never edited. */
export const SCHEMA_V16 = `
  -- Beside each row of revisions. A version that an earlier release wrote has none.
  CREATE TABLE submissions (
    revision INTEGER PRIMARY KEY,
    -- the id of the key; null: it is not known
    by_key TEXT,
    -- null: none was sent
    text TEXT
  );

  -- Branches that versions read which are kept no more: the pipeline may still be subscribed to them.
  CREATE TABLE former_sources (
    repo TEXT NOT NULL,
    branch TEXT NOT NULL,
    PRIMARY KEY (repo, branch)
  ) WITHOUT ROWID;
`;
