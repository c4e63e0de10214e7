/** SQL: what uploads hold, a row for each content, as a table to select from. */
export const HELD = `(
  SELECT upload, digest, size FROM holds WHERE names IS NULL
  UNION ALL
  SELECT upload, unhex(substr(listed.value, 1, 64)), CAST(substr(listed.value, 66) AS INTEGER)
  FROM holds CROSS JOIN json_each(holds.names) AS listed)`;
