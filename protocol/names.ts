import { z } from "zod";

/** Names of repos, branches, pipelines, inputs and nodes. They have no dots, so that a bucket name splits in one way only. */
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

/** The S3 bucket name of a branch: `<branch>.<repo>`. */
export function bucketName({ repo, branch }: BranchAddress): string {
  return `${branch}.${repo}`;
}

/** The branch that a bucket name stands for, or undefined if the name is not `<branch>.<repo>`. */
export function parseBucketName(bucket: string): BranchAddress | undefined {
  const [branch, repo, ...rest] = bucket.split(".");
  if (branch === undefined || repo === undefined || rest.length > 0) return undefined;
  return NAME_PATTERN.test(branch) && NAME_PATTERN.test(repo) ? { repo, branch } : undefined;
}

/** What a bucket name stands for: a branch, or with `session` one of its open commits. */
export interface BucketAddress extends BranchAddress {
  /** A ULID, in upper case. */
  readonly session?: string;
}

/** A ULID, in any case (https://github.com/ulid/spec: Crockford's base32, 128 bits). */
const ULID_PATTERN = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i;

/** The id of a session: a ULID, in upper case whatever case it came in. */
export const SessionId = z
  .string()
  .regex(ULID_PATTERN, { error: "must be the 26 letters and digits that opening the session answered" })
  .transform((id) => id.toUpperCase());

/** The S3 bucket name of an open commit: `<session>.<branch>.<repo>`, the session in lower case, as tools want buckets to be. */
export function openCommitBucket({ session, ...address }: Required<BucketAddress>): string {
  return `${session.toLowerCase()}.${bucketName(address)}`;
}

/** What a bucket name of either kind stands for, or undefined if it is of neither. The session may come in any case. */
export function parseBucket(bucket: string): BucketAddress | undefined {
  const branch = parseBucketName(bucket);
  if (branch) return branch;
  const dot = bucket.indexOf(".");
  const session = SessionId.safeParse(bucket.slice(0, Math.max(dot, 0)));
  const address = parseBucketName(bucket.slice(dot + 1));
  return session.success && address ? { ...address, session: session.data } : undefined;
}

/** The id of an upload names its branch, so that a request that carries only the id can be routed: `<branch>.<repo>.<ulid>`. */
export function parseUploadId(id: string): BranchAddress | undefined {
  const [branch, repo, unique, ...rest] = id.split(".");
  if (!unique || rest.length > 0) return undefined;
  return parseBucketName(`${branch}.${repo}`);
}
