/** Append only: an entry is never edited once it was released. */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE nodes (
    name TEXT NOT NULL PRIMARY KEY,
    -- when its socket closed; null: it has one
    closedAt INTEGER
  ) WITHOUT ROWID;
  CREATE INDEX nodes_closed ON nodes (closedAt) WHERE closedAt IS NOT NULL;
`,
  `
  -- one row: when the catalogue is to hear next of the nodes that have sockets
  CREATE TABLE vouching (id INTEGER PRIMARY KEY CHECK (id = 1), due INTEGER NOT NULL);
  INSERT INTO vouching (id, due) VALUES (1, 0);
`,
];
