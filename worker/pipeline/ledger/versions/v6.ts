/** Whose a pipeline is. Never edited. */
export const SCHEMA_V6 = `
  -- Whether the key that submitted this version was limited to repos. Null, also where a release of before this writes the
  -- row: nobody knows, so the version counts as a limited key's.
  ALTER TABLE revisions ADD COLUMN limited INTEGER;
`;
