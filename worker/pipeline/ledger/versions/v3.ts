/** Inputs that start after a commit, where outputs came from, and how large the sides of a cross product are. Never edited. */
export const SCHEMA_V3 = `
  -- JSON: where each input's \`from\` stands, by name of the inputs; null or absent: the whole branch belongs to it
  ALTER TABLE revisions ADD COLUMN starts TEXT NOT NULL DEFAULT '[]';

  -- A snapshot is read by view, of which there is one for each source unless inputs of it start at different places.
  UPDATE jobs SET fill = replace(fill, '"step":"snapshot","source":', '"step":"snapshot","view":') WHERE filled = 0;

  -- Which datum each path of the output branch came from, by births and deaths: published as of any committed job.
  CREATE TABLE made (
    path TEXT NOT NULL,
    born INTEGER NOT NULL,
    -- of the datum, which may be gone
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    salt TEXT NOT NULL,
    died INTEGER,
    PRIMARY KEY (path, born, key)
  ) WITHOUT ROWID;
  CREATE INDEX made_alive ON made (path, key) WHERE died IS NULL;
  CREATE INDEX made_by_died ON made (path, died) WHERE died IS NOT NULL;
  INSERT OR IGNORE INTO made (path, born, key, id, salt)
  SELECT path, (SELECT committed FROM pipeline),
    (SELECT key FROM datums WHERE datums.id = published.id ORDER BY born DESC LIMIT 1), id, salt
  FROM published WHERE EXISTS (SELECT 1 FROM datums WHERE datums.id = published.id);
  -- the first job of which made tells
  ALTER TABLE pipeline ADD COLUMN made_from INTEGER NOT NULL DEFAULT 0;
  UPDATE pipeline SET made_from = committed;

  -- How many elements each input has, those that are about to be born included.
  CREATE TABLE sizes (input INTEGER PRIMARY KEY, elements INTEGER NOT NULL);
  INSERT INTO sizes (input, elements) SELECT input, count(*) FROM (
    SELECT input FROM elements WHERE died IS NULL UNION ALL SELECT input FROM touched WHERE stage = 1) GROUP BY input;
  -- a job was given up with its datums half made: the next one reads its inputs whole
  ALTER TABLE pipeline ADD COLUMN anew INTEGER NOT NULL DEFAULT 0;
`;
