-- What runs on a node, as its last heartbeat told, and whether it is to take nothing new. The mark stays when the agent
-- restarts or says good-bye, until it is taken away.

ALTER TABLE nodes ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;
-- JSON: [{"pipeline": …, "workers": …, "running": …}]
ALTER TABLE nodes ADD COLUMN work TEXT NOT NULL DEFAULT '[]';
CREATE INDEX nodes_draining ON nodes (name) WHERE draining = 1;
