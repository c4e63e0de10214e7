-- What must be listed or found across objects. Branch and Pipeline objects are the ledgers: rows come from them with a version,
-- and a late write never overwrites a newer one. Deletions stay as versioned tombstones. Times are in milliseconds since 1970.
--
-- Nothing is made IF NOT EXISTS: on tables of another family the first statement fails, and nothing is taken for ours.

CREATE TABLE branches (
  repo TEXT NOT NULL,
  branch TEXT NOT NULL,
  version INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  createdAt INTEGER NOT NULL,
  -- 1: the branch was made from a commit of another one, and its rows may still be on their way: ask the branch
  forking INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (repo, branch)
) WITHOUT ROWID;
CREATE INDEX branches_live ON branches (repo, branch) WHERE deleted = 0;

-- The word by which the tables say that they are ours, one row (protocol/family.ts).
CREATE TABLE family (one INTEGER PRIMARY KEY CHECK (one = 1), word TEXT NOT NULL);
INSERT INTO family (one, word) VALUES (1, 'sluice-1');

-- What branches are set to that must be known before their objects are asked; only branches that were ever set to
-- something have a row. It counts while the branch has the same version in its own row: a branch that was deleted or made
-- again since is set to nothing.
CREATE TABLE branch_settings (
  repo TEXT NOT NULL,
  branch TEXT NOT NULL,
  version INTEGER NOT NULL,
  -- grows with each change in one version of the branch
  revision INTEGER NOT NULL,
  -- 1: it answers reads without a signature
  public INTEGER NOT NULL,
  -- 1: it has CORS rules, which the branch itself knows
  cors INTEGER NOT NULL,
  -- JSON of who alone may write, {"key": id} or {"pipeline": name}; null: nobody is kept out
  writer TEXT,
  PRIMARY KEY (repo, branch)
) WITHOUT ROWID;
CREATE INDEX branch_settings_open ON branch_settings (repo, branch) WHERE public = 1 OR cors = 1;

-- Names of commits: copies of what the branches have, so that those of a repo are listed in one query.
CREATE TABLE tags (
  repo TEXT NOT NULL,
  branch TEXT NOT NULL,
  name TEXT NOT NULL,
  -- when the branch was created: tags of one that was deleted and made again are not those of the new one
  branchCreatedAt INTEGER NOT NULL,
  -- grows with each change of any tag of the branch
  version INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  -- empty if it is deleted
  "commit" TEXT NOT NULL,
  -- when it was made or last moved
  createdAt INTEGER NOT NULL,
  PRIMARY KEY (repo, branch, name)
) WITHOUT ROWID;

CREATE TABLE pipelines (
  name TEXT NOT NULL PRIMARY KEY,
  uid TEXT NOT NULL,
  version INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  state TEXT NOT NULL,
  createdAt INTEGER NOT NULL,
  -- JSON: [{"repo": …, "branch": …}], the branches it reads
  inputs TEXT NOT NULL,
  outputRepo TEXT NOT NULL,
  outputBranch TEXT NOT NULL,
  -- whether it writes to its branch 'errors', too, or is about to: an edge of the pipeline graph
  errors INTEGER NOT NULL DEFAULT 0,
  -- JSON: the parallelism_spec
  parallelism TEXT NOT NULL,
  -- 'required' if its commands must be run in containers: nodes that run processes get no worker then; or null
  container TEXT,
  -- what it is for, in the words of its specification; null: it has none
  description TEXT
) WITHOUT ROWID;

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
  outputRepo TEXT NOT NULL,
  outputBranch TEXT NOT NULL,
  errors INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (pipeline, id)
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

-- Nodes, as their last heartbeats told.
CREATE TABLE nodes (
  name TEXT NOT NULL PRIMARY KEY,
  executor TEXT NOT NULL,
  capacity INTEGER NOT NULL,
  seenAt INTEGER NOT NULL,
  -- 1: it is to take nothing new. The mark stays when the agent restarts or says good-bye, until it is taken away.
  draining INTEGER NOT NULL DEFAULT 0,
  -- JSON: [{"pipeline": …, "workers": …, "running": …}]
  work TEXT NOT NULL DEFAULT '[]',
  -- what it has room for: commands at once, and workers
  maxRunning INTEGER,
  maxWorkers INTEGER
) WITHOUT ROWID;
CREATE INDEX nodes_by_seen ON nodes (seenAt);
CREATE INDEX nodes_draining ON nodes (name) WHERE draining = 1;

-- The access keys but the root key, which comes from the environment: they live here alone. A revoked key's row is gone.
CREATE TABLE access_keys (
  id TEXT NOT NULL PRIMARY KEY,
  -- base64: a nonce of 12 bytes, then the secret under AES-256-GCM with the id as additional data
  sealedSecret TEXT NOT NULL,
  level TEXT NOT NULL,
  -- JSON: the names of the repos that it is for; null: all
  repos TEXT,
  -- whether a key that is limited to repos may create, update and start pipelines, which run code on the nodes
  pipelines INTEGER NOT NULL DEFAULT 0,
  description TEXT NOT NULL,
  createdAt INTEGER NOT NULL,
  -- the last day on which it was used, of UTC: '2026-01-31'; null: it was not used yet
  lastUsedOn TEXT,
  -- when it expires; null: never
  expiresAt INTEGER
) WITHOUT ROWID;

-- Which objects said that their database is almost full, and how full it was then. A hint, so that nobody needs to ask all of
-- them: the object itself knows.
CREATE TABLE almost_full (
  -- 'branch' or 'pipeline'
  kind TEXT NOT NULL,
  -- of a branch its bucket
  name TEXT NOT NULL,
  toldAt INTEGER NOT NULL,
  PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- Contents of which a version was erased, in the order in which they were, so that nodes take them out of their caches. Old ones
-- go, the newest never does: so no number comes twice, and a node that has heard of all of them names one that is there.
CREATE TABLE erased_contents (
  number INTEGER PRIMARY KEY,
  -- random: tells the number from the same one of a list that was lost or set back
  token TEXT NOT NULL,
  -- <digest>-<size>; empty where the list begins
  content TEXT NOT NULL,
  toldAt INTEGER NOT NULL
);
INSERT INTO erased_contents (token, content, toldAt) VALUES (lower(hex(randomblob(8))), '', 0);
