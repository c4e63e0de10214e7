/** Proposed edges, what inputs descend from, and why a pipeline waits. Never edited. */
export const SCHEMA_V8 = `
  -- What the catalogue may know this pipeline to be about to read: to be taken back once that is settled.
  CREATE TABLE proposals (id TEXT PRIMARY KEY) WITHOUT ROWID;

  -- JSON, by the uid of a pipeline: its version. Null where a client made the commit
  ALTER TABLE sources ADD COLUMN lineage TEXT;

  -- JSON: which input's clock keeps the events of the others waiting
  ALTER TABLE pipeline ADD COLUMN behind TEXT;
`;
