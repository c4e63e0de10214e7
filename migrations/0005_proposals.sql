-- What pipelines are about to read and write. A row is there from before the pipeline's graph is checked for circles
-- until the pipeline's own row says the same, or until it is taken back: of two that meet, one sees the other.

CREATE TABLE proposals (
  pipeline TEXT NOT NULL,
  -- one for each creation or update that is under way
  id TEXT NOT NULL,
  -- of the pipeline: a row of one that was deleted counts no more
  uid TEXT NOT NULL,
  -- JSON: [{"repo": …, "branch": …}], the branches that it is to read
  inputs TEXT NOT NULL,
  output_repo TEXT NOT NULL,
  output_branch TEXT NOT NULL,
  PRIMARY KEY (pipeline, id)
) WITHOUT ROWID;
