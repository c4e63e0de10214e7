-- Whether a pipeline writes to its branch 'errors', too, or is about to: an edge of the pipeline graph.

ALTER TABLE pipelines ADD COLUMN errors INTEGER NOT NULL DEFAULT 0;
ALTER TABLE proposals ADD COLUMN errors INTEGER NOT NULL DEFAULT 0;
