-- 1: the branch was made from a commit of another one, and its rows may still be on their way: ask the branch.
ALTER TABLE branches ADD COLUMN forking INTEGER NOT NULL DEFAULT 0;
