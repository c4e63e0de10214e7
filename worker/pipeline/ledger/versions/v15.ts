/** That the database is to be written anew, since its free pages may have what was erased. Never edited. */
export const SCHEMA_V15 = `
  -- One row while it is owed. Until then rows that are forgotten by themselves may still name what was erased; paid 1: it was
  -- written anew since the last time that something went.
  CREATE TABLE rewrite (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    until INTEGER NOT NULL,
    paid INTEGER NOT NULL
  );
  -- One row: jobs up to this one may know of what was erased: attempts and what was printed. Once they keep nothing, the
  -- database is to be written anew.
  CREATE TABLE erased_jobs (one INTEGER PRIMARY KEY CHECK (one = 1), job INTEGER NOT NULL);
`;
