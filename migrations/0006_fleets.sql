-- A Fleet object says each minute that it lives, and with it the nodes of which it has sockets. So nothing of a node that has nothing
-- to tell is written down again.
CREATE TABLE fleets (
  name TEXT NOT NULL PRIMARY KEY,
  seenAt INTEGER NOT NULL
) WITHOUT ROWID;
-- the Fleet object that has a socket of the node; null: none
ALTER TABLE nodes ADD COLUMN fleet TEXT;
CREATE INDEX nodes_by_fleet ON nodes (fleet) WHERE fleet IS NOT NULL;
