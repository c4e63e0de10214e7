-- Whether a pipeline's commands must be run in containers: 'required', or null. Nodes that run processes get no worker then.

ALTER TABLE pipelines ADD COLUMN container TEXT;
