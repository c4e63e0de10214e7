-- Contents of which a version was erased, in the order in which they were, so that nodes take them out of their caches. Old ones
-- go, the newest never does: so no number comes twice, and a node that has heard of all of them names one that is there.
CREATE TABLE erased_contents (
  number INTEGER PRIMARY KEY,
  -- random: tells the number from the same one of a list that was lost or set back
  token TEXT NOT NULL,
  -- <digest>-<size>; empty where the list begins
  content TEXT NOT NULL,
  told_at INTEGER NOT NULL
);
INSERT INTO erased_contents (token, content, told_at) VALUES (lower(hex(randomblob(8))), '', 0);
