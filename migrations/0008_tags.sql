-- Names of commits: copies of what the branches have, so that those of a repo are listed in one query.

CREATE TABLE tags (
  repo TEXT NOT NULL,
  branch TEXT NOT NULL,
  name TEXT NOT NULL,
  -- when the branch was created: tags of one that was deleted and made again are not those of the new one
  branch_created_at INTEGER NOT NULL,
  -- grows with each change of any tag of the branch
  version INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  -- empty if it is deleted
  commit_id TEXT NOT NULL,
  -- when it was made or last moved
  created_at INTEGER NOT NULL,
  PRIMARY KEY (repo, branch, name)
) WITHOUT ROWID;
