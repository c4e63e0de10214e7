-- What must be listed or found across objects (design §1). Branch and Pipeline objects are the ledgers: rows come from
-- them with a version, and a late write never overwrites a newer one. Deletions stay as versioned tombstones.

CREATE TABLE branches (
  repo TEXT NOT NULL,
  branch TEXT NOT NULL,
  version INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (repo, branch)
) WITHOUT ROWID;
CREATE INDEX branches_live ON branches (repo, branch) WHERE deleted = 0;

CREATE TABLE pipelines (
  name TEXT NOT NULL PRIMARY KEY,
  uid TEXT NOT NULL,
  version INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  state TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  -- JSON: [{"repo": …, "branch": …}], the branches it reads
  inputs TEXT NOT NULL,
  output_repo TEXT NOT NULL,
  output_branch TEXT NOT NULL,
  -- JSON: the parallelism_spec
  parallelism TEXT NOT NULL
) WITHOUT ROWID;

-- The jobs of all pipelines, newest first by id (a ULID).
CREATE TABLE jobs (
  id TEXT NOT NULL PRIMARY KEY,
  pipeline TEXT NOT NULL,
  version INTEGER NOT NULL,
  state TEXT NOT NULL,
  -- JSON: the job as the control API shows it
  job TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX jobs_by_pipeline ON jobs (pipeline, id);
CREATE INDEX jobs_by_state ON jobs (state, id);

CREATE TABLE nodes (
  name TEXT NOT NULL PRIMARY KEY,
  executor TEXT NOT NULL,
  capacity INTEGER NOT NULL,
  seen_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX nodes_by_seen ON nodes (seen_at);
