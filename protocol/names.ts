import { z } from "zod";

/** Names of repos, branches, pipelines, inputs and nodes (design §2). No dots, so that a bucket name splits one way. */
export const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

/** A repo, branch, pipeline, input or node name: a letter or digit, then up to 62 letters, digits, `_` or `-`. */
export const Name = z.string().regex(NAME_PATTERN, {
  error:
    "must start with a letter or digit and hold only letters, digits, '_' and '-', 63 characters at most",
});

/** One branch of one repo. */
export interface BranchAddress {
  readonly repo: string;
  readonly branch: string;
}

/** The S3 bucket name of a branch: `<branch>.<repo>` (spec §2.9). */
export function bucketName({ repo, branch }: BranchAddress): string {
  return `${branch}.${repo}`;
}

/** The branch that a bucket name stands for, or undefined where the name is not `<branch>.<repo>`. */
export function parseBucketName(bucket: string): BranchAddress | undefined {
  const [branch, repo, ...rest] = bucket.split(".");
  if (branch === undefined || repo === undefined || rest.length > 0) return undefined;
  return NAME_PATTERN.test(branch) && NAME_PATTERN.test(repo) ? { repo, branch } : undefined;
}

/** The id of an upload names its branch, so that a request that carries only the id can be routed: `<branch>.<repo>.<ulid>`. */
export function parseUploadId(id: string): BranchAddress | undefined {
  const [branch, repo, unique, ...rest] = id.split(".");
  if (!unique || rest.length > 0) return undefined;
  return parseBucketName(`${branch}.${repo}`);
}
