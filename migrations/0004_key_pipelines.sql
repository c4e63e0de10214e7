-- Whether a key that is limited to repos may create, update and start pipelines, which run code on the nodes. Keys from
-- before this have the right only if they are not limited.

ALTER TABLE access_keys ADD COLUMN pipelines INTEGER NOT NULL DEFAULT 0;
