-- What a pipeline is for, in the words of its specification. Null: it has none, or a release that knew none wrote the row.

ALTER TABLE pipelines ADD COLUMN description TEXT;
