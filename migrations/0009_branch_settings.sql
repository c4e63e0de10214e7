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
  PRIMARY KEY (repo, branch)
) WITHOUT ROWID;
CREATE INDEX branch_settings_open ON branch_settings (repo, branch) WHERE public = 1 OR cors = 1;
