/** What code made results. Never edited. */
export const SCHEMA_V9 = `
  -- What ran datums. A result refers to it by number: many results were made by few.
  CREATE TABLE codes (
    number INTEGER PRIMARY KEY,
    -- the version of the specification
    revision INTEGER NOT NULL,
    -- '' each: nobody told
    node TEXT NOT NULL,
    executor TEXT NOT NULL,
    -- '' also if it ran as a process, which ignores the image
    image TEXT NOT NULL
  );
  CREATE UNIQUE INDEX codes_by_content ON codes (revision, node, executor, image);
  -- null: it was made before this was written down
  ALTER TABLE results ADD COLUMN code INTEGER;
  -- of the result that was published; the result itself may be gone
  ALTER TABLE made ADD COLUMN code INTEGER;
`;
