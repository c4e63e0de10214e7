-- Where a branch was made to live: the region that its maker named, and the part of the world that this stood for then
-- (worker/core/places.ts). Null: no region was named.
ALTER TABLE branches ADD COLUMN region TEXT;
ALTER TABLE branches ADD COLUMN hint TEXT;
