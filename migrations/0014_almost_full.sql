-- Which objects said that their database is almost full, and how full it was then. A hint, so that nobody needs to ask all of
-- them: the object itself knows.
CREATE TABLE almost_full (
  -- 'branch' or 'pipeline'
  kind TEXT NOT NULL,
  -- of a branch its bucket
  name TEXT NOT NULL,
  told_at INTEGER NOT NULL,
  PRIMARY KEY (kind, name)
) WITHOUT ROWID;
