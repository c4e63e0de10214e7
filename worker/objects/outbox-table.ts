/** The table, of which each object has one (outbox.ts). Part of their schemas: not edited once it was released. */
export const OUTBOX = `
  CREATE TABLE outbox (
    receiver TEXT NOT NULL,
    uid TEXT NOT NULL,
    event TEXT NOT NULL,
    due INTEGER NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    triedAt INTEGER NOT NULL DEFAULT 0,
    lastError TEXT,
    PRIMARY KEY (receiver, uid)
  ) WITHOUT ROWID;
  CREATE INDEX outbox_by_due ON outbox (due);
`;
