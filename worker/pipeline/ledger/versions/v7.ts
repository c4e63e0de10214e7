/** Leases that ended without a result. Never edited. */
export const SCHEMA_V7 = `
  -- The output branch is yet to be told of them: what was uploaded under them is nobody's.
  CREATE TABLE lost_leases (lease TEXT PRIMARY KEY) WITHOUT ROWID;
`;
