/** What input branches were told that the pipeline needs. Never edited. */
export const SCHEMA_V11 = `
  -- JSON of what the branch was told last; null if it was told nothing
  ALTER TABLE sources ADD COLUMN told TEXT;
`;
