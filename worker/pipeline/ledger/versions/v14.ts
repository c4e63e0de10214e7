/** When merging ends and the commit begins, which the timeline of a job tells apart. Never edited. */
export const SCHEMA_V14 = `
  -- since when the branch may have committed the job's output; null: not yet, or a release before this one marked the job
  ALTER TABLE jobs ADD COLUMN committing_at INTEGER;
`;
